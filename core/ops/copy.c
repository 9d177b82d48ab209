// SPDX-License-Identifier: Apache-2.0
/* copy, and contiguous, which copies only what is not contiguous. */
#include "view.h"

#include "../formats/format.h"

#include <string.h>

/* Block formats: a line of blocks is a line of units, the last one partly used. */
static mt_status copy_reference(const mt_ref_call *call) {
  const mt_view *to = &call->out, *from = &call->in[0];
  mt_walk walk;
  mt_walk_begin(&walk, 2);
  for (int axis = 0; axis < to->rank; axis++) {
    int64_t steps[] = {mt_view_step(to, axis), mt_view_step(from, axis)}, units = to->shape[axis];
    if (axis == to->block_axis) {
      units = units / to->format->block_elements + (units % to->format->block_elements != 0);
    }
    mt_walk_axis(&walk, units, steps);
  }
  mt_walk_start(&walk, (char *const[]){to->data, from->data});
  mt_copy_walk(&walk, to->format ? to->format->block_bytes : mt_dtype_size(to->dtype));
  return MT_OK;
}

const mt_op_def mt_op_copy = {"copy", 1, copy_reference, mt_op_copy_number};

/* mt_op_output() for a block format. */
static mt_status block_output(const mt_tensor *x, mt_tensor **out, mt_tensor **dst) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  if (x->block_axis != x->rank - 1) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "copy: x %s has its blocks along axis %d: expected along the last",
                   mt_tensor_describe(x, wanted, sizeof(wanted)), x->block_axis);
  }
  if (!*out) {
    mt_layout layout;
    MT_TRY(mt_layout_packed("copy", MT_BLOCK, x->format, x->rank, x->shape, &layout));
    return mt_tensor_create_lazy(&layout, dst);
  }
  const mt_tensor *to = *out;
  if (to->format != x->format || to->rank != x->rank || to->block_axis != x->block_axis ||
      memcmp(to->shape, x->shape, (size_t)x->rank * sizeof(*x->shape)) != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "copy: out is %s: expected %s with blocks along the last axis",
                   mt_tensor_describe(to, given, sizeof(given)),
                   mt_tensor_describe(x, wanted, sizeof(wanted)));
  }
  MT_TRY(mt_tensor_writable("copy", to));
  *dst = *out;
  return MT_OK;
}

mt_status mt_copy(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_copy, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require("copy", "rt", rt));
  MT_TRY(mt_op_require("copy", "x", x));
  MT_TRY(mt_op_require("copy", "out", out));
  MT_TRY(x->format ? block_output(x, out, &call.out)
                   : mt_op_output("copy", out, x->dtype, x->rank, x->shape, &call.out));
  if (mt_tensor_same_view(x, call.out)) {
    return MT_OK; /* onto itself */
  }
  return mt_op_run(rt, &call, false, out);
}

mt_status mt_contiguous(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  MT_TRY(mt_op_require("contiguous", "rt", rt));
  MT_TRY(mt_op_require("contiguous", "x", x));
  MT_TRY(mt_op_require("contiguous", "out", out));
  *out = NULL;
  if (x->contiguous) {
    *out = mt_tensor_retain(x);
    return MT_OK;
  }
  return mt_copy(rt, x, out);
}
