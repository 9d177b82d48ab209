// SPDX-License-Identifier: Apache-2.0
/* cast: to another dtype; from a block format, decoding to f32. */
#include "lines.h"
#include "view.h"

/* ---- reference ---------------------------------------------------------------------- */

static void cast_elements(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_dtype from = call->in[0].dtype, to = call->out.dtype;
  bool is_float = mt_is_float(from);
  double x[MT_LINE];
  int64_t n[MT_LINE];
  mt_walk walk;
  mt_walk_views(&walk, views, 2);
  while (mt_walk_next(&walk)) {
    if (is_float) {
      mt_load_f64(from, walk.at[1], walk.stride[1], walk.count, x);
      mt_store_f64(to, x, walk.count, walk.at[0], walk.stride[0]);
    } else {
      mt_load_i64(from, walk.at[1], walk.stride[1], walk.count, n);
      mt_store_i64(to, n, walk.count, walk.at[0], walk.stride[0]);
    }
  }
}

/* Line by line along the block axis, wherever that is. */
static mt_status decode_lines(const mt_view *from, const mt_view *to) {
  mt_walk walk;
  mt_lines lines;
  MT_TRY(mt_lines_begin(&lines, from->format, from->shape[from->block_axis]));
  mt_walk_begin(&walk, 2);
  for (int axis = 0; axis < from->rank; axis++) {
    if (axis != from->block_axis) {
      int64_t steps[] = {mt_view_step(to, axis), mt_view_step(from, axis)};
      mt_walk_axis(&walk, from->shape[axis], steps);
    }
  }
  mt_walk_start(&walk, (char *const[]){to->data, from->data});
  int64_t step = mt_view_step(to, from->block_axis);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      mt_lines_decode(&lines, walk.at[1] + i * walk.stride[1], walk.at[0] + i * walk.stride[0],
                      step);
    }
  }
  mt_lines_end(&lines);
  return MT_OK;
}

static mt_status cast_reference(const mt_ref_call *call) {
  if (call->in[0].format) {
    return decode_lines(&call->in[0], &call->out);
  }
  cast_elements(call);
  return MT_OK;
}

const mt_op_def mt_op_cast = {"cast", 1, cast_reference, mt_op_cast_number};

/* ---- validation --------------------------------------------------------------------- */

mt_status mt_cast(mt_runtime *rt, mt_tensor *x, mt_dtype dtype, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_cast, .in = &x, .in_count = 1};
  char text[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_require("cast", "rt", rt));
  MT_TRY(mt_op_require("cast", "x", x));
  MT_TRY(mt_op_require("cast", "out", out));
  if (mt_dtype_size(dtype) == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "cast: to dtype %d (%s): expected one with elements%s",
                   (int)dtype, mt_dtype_name(dtype),
                   dtype == MT_BLOCK ? " (mt_quantize makes blocks)" : "");
  }
  if (x->format && dtype != MT_F32) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "cast: x %s to %s: a block format goes to f32 only",
                   mt_tensor_describe(x, text, sizeof(text)), mt_dtype_name(dtype));
  }
  if (x->dtype == dtype) {
    return mt_copy(rt, x, out);
  }
  MT_TRY(mt_op_output("cast", out, dtype, x->rank, x->shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}
