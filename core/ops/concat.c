// SPDX-License-Identifier: Apache-2.0
/* concat: tensors one after the other along an axis. */
#include "view.h"

#include <string.h>

static mt_status concat_reference(const mt_ref_call *call) {
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  mt_view part = call->out;
  int64_t shape[MT_MAX_RANK];
  int64_t step = call->out.stride[axis] * (int64_t)mt_dtype_size(call->out.dtype);
  char *at = call->out.data;
  memcpy(shape, call->out.shape, (size_t)call->out.rank * sizeof(*shape));
  part.shape = shape;
  for (size_t i = 0; i < call->in_count; i++) {
    shape[axis] = call->in[i].shape[axis];
    part.data = at;
    mt_view_copy(&part, &call->in[i]);
    at += step * shape[axis];
  }
  return MT_OK;
}

const mt_op_def mt_op_concat = {"concat", 1, concat_reference};

static mt_status check_input(const mt_tensor *first, const mt_tensor *x, size_t index, int axis) {
  char one[MT_DESCRIBE_BYTES], other[MT_DESCRIBE_BYTES];
  bool same = x->dtype == first->dtype && x->rank == first->rank && x->dtype != MT_BLOCK;
  for (int i = 0; same && i < x->rank; i++) {
    same = i == axis || x->shape[i] == first->shape[i];
  }
  return same
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT,
                       "concat: input %zu is %s: expected the dtype (no block format) and, but for "
                       "axis %d, the shape of input 0, %s",
                       index, mt_tensor_describe(x, one, sizeof(one)), axis,
                       mt_tensor_describe(first, other, sizeof(other)));
}

mt_status mt_concat(mt_runtime *rt, mt_tensor *const *inputs, size_t count, int axis,
                    mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_concat, .in = inputs, .in_count = count};
  int64_t shape[MT_MAX_RANK] = {0}, total = 0;
  MT_TRY(mt_op_require("concat", "rt", rt));
  MT_TRY(mt_op_require("concat", "inputs", inputs));
  MT_TRY(mt_op_require("concat", "out", out));
  if (count == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "concat: 0 inputs: expected 1 or more");
  }
  MT_TRY(mt_op_require("concat", "inputs[0]", inputs[0]));
  MT_TRY(mt_axis_normalize("concat", axis, inputs[0]->rank, &axis));
  for (size_t i = 0; i < count; i++) {
    MT_TRY(mt_op_require("concat", "an input", inputs[i]));
    MT_TRY(check_input(inputs[0], inputs[i], i, axis));
    if (__builtin_add_overflow(total, inputs[i]->shape[axis], &total)) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "concat: the extents along axis %d add up to more than 63 bits", axis);
    }
  }
  memcpy(shape, inputs[0]->shape, sizeof(shape));
  shape[axis] = total;
  mt_op_attr_i64(&call, MT_ATTR_AXIS, axis);
  MT_TRY(mt_op_output("concat", out, inputs[0]->dtype, inputs[0]->rank, shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}
