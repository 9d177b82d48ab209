// SPDX-License-Identifier: Apache-2.0
/* concat: tensors one behind the other along an axis. */
#include "../checked.h"
#include "view.h"

#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

static mt_status concat_reference(const mt_ref_call *call) {
  const mt_view *out = &call->out;
  int along = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  char *dst = out->data;
  for (size_t i = 0; i < call->in_count; i++) {
    const mt_view *in = &call->in[i];
    mt_walk walk;
    mt_walk_begin(&walk, 2);
    for (int axis = 0; axis < out->rank; axis++) {
      int64_t steps[] = {mt_view_step(out, axis), mt_view_step(in, axis)};
      mt_walk_axis(&walk, in->shape[axis], steps);
    }
    mt_walk_start(&walk, (char *const[]){dst, in->data});
    mt_copy_walk(&walk, mt_dtype_size(out->dtype));
    if (i + 1 < call->in_count) { /* behind the last one there is nothing to point at */
      dst += in->shape[along] * mt_view_step(out, along);
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_concat = {"concat", 1, concat_reference, mt_op_concat_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_input(const mt_tensor *first, const mt_tensor *x, size_t number, int along) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  bool fits = x->dtype == first->dtype && x->rank == first->rank;
  for (int axis = 0; fits && axis < x->rank; axis++) {
    fits = axis == along || x->shape[axis] == first->shape[axis];
  }
  return fits ? MT_OK
              : mt_fail(MT_ERR_INVALID_ARGUMENT,
                        "concat: input %zu %s and input 0 %s: expected the same but for axis %d",
                        number, mt_tensor_describe(x, left, sizeof(left)),
                        mt_tensor_describe(first, right, sizeof(right)), along);
}

/* The shape of the result, all inputs checked. */
static mt_status result_shape(mt_tensor *const *inputs, size_t count, int axis, int *along,
                              int64_t *shape) {
  const mt_tensor *first = inputs[0];
  char text[MT_DESCRIBE_BYTES];
  for (size_t i = 0; i < count; i++) {
    if (!inputs[i]) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "concat: input %zu of %zu is NULL", i, count);
    }
  }
  if (first->format) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "concat: input 0 %s: block formats cannot be joined",
                   mt_tensor_describe(first, text, sizeof(text)));
  }
  MT_TRY(mt_axis_normalize("concat", axis, first->rank, along));
  memcpy(shape, first->shape, (size_t)first->rank * sizeof(*shape));
  for (size_t i = 1; i < count; i++) {
    MT_TRY(check_input(first, inputs[i], i, *along));
    if (!mt_add_i64(shape[*along], inputs[i]->shape[*along], &shape[*along])) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "concat: the extents of axis %d of %zu inputs do not fit in 63 bits", *along,
                     count);
    }
  }
  return MT_OK;
}

/* ---- running ------------------------------------------------------------------------ */

/* Plugins take at most MT_OP_MAX_INPUTS_ABI inputs, so more are joined group by group, each
 * into its slice of the result. Inputs without elements are left out. */
typedef struct group {
  mt_tensor *in[MT_OP_MAX_INPUTS_ABI];
  size_t count;
  int64_t start, stop; /* along the axis */
} group;

static size_t next_group(mt_tensor *const *inputs, size_t count, size_t from, int along, group *g) {
  g->count = 0;
  g->start = g->stop;
  for (; from < count && g->count < MT_OP_MAX_INPUTS_ABI; from++) {
    if (inputs[from]->elements > 0) {
      g->in[g->count++] = inputs[from];
      g->stop += inputs[from]->shape[along];
    }
  }
  return from;
}

static mt_status run_group(mt_runtime *rt, mt_op_call *call, group *g, int along, mt_tensor *dst) {
  mt_tensor *part = NULL;
  MT_TRY(mt_tensor_slice(dst, along, g->start, g->stop, 1, &part));
  call->in = g->in;
  call->in_count = g->count;
  call->out = part;
  mt_status status = mt_op_run(rt, call, false, &part);
  mt_tensor_release(&part);
  return status;
}

static mt_status run_groups(mt_runtime *rt, mt_op_call *call, mt_tensor *const *inputs,
                            size_t count, int along, mt_tensor *dst) {
  group g = {.stop = 0};
  for (size_t from = 0; from < count;) {
    from = next_group(inputs, count, from, along, &g);
    if (g.count > 0) {
      MT_TRY(run_group(rt, call, &g, along, dst));
    }
  }
  return MT_OK;
}

mt_status mt_concat(mt_runtime *rt, mt_tensor *const *inputs, size_t count, int axis,
                    mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_concat, .in = inputs, .in_count = count};
  int64_t shape[MT_MAX_RANK];
  int along;
  MT_TRY(mt_op_require("concat", "rt", rt));
  MT_TRY(mt_op_require("concat", "inputs", inputs));
  MT_TRY(mt_op_require("concat", "out", out));
  if (count == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "concat: 0 inputs: expected 1 or more");
  }
  MT_TRY(result_shape(inputs, count, axis, &along, shape));
  MT_TRY(mt_op_output("concat", out, inputs[0]->dtype, inputs[0]->rank, shape, &call.out));
  mt_tensor *dst = call.out;
  mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
  mt_status status = mt_op_check_overlap(&call, false); /* of all, before anything is written */
  if (status == MT_OK) {
    status = run_groups(rt, &call, inputs, count, along, dst);
  }
  if (*out) {
    return status;
  }
  if (status == MT_OK) {
    *out = dst;
  } else {
    mt_tensor_release(&dst);
  }
  return status;
}
