// SPDX-License-Identifier: Apache-2.0
/* softmax along an axis: exp(x - max) / sum, in double. */
#include "view.h"

#include <math.h>
#include <stdlib.h>

static void softmax_line(double *line, int64_t n) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    most = isnan(most) || line[i] <= most ? most : line[i];
  }
  for (int64_t i = 0; i < n; i++) {
    line[i] = exp(line[i] - most); /* -inf - -inf is NaN, as it should be */
    sum += line[i];
  }
  for (int64_t i = 0; i < n; i++) {
    line[i] /= sum;
  }
}

static mt_status softmax_reference(const mt_ref_call *call) {
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  const mt_view *x = &call->in[0], *y = &call->out;
  int64_t shape[2][MT_MAX_RANK], stride[2][MT_MAX_RANK];
  mt_view to = mt_view_without(y, axis, shape[0], stride[0]);
  mt_view from = mt_view_without(x, axis, shape[1], stride[1]);
  const mt_view *views[] = {&to, &from};
  int64_t n = x->shape[axis], size = (int64_t)mt_dtype_size(x->dtype);
  double *line = n > 0 ? malloc((size_t)n * sizeof(double)) : NULL;
  if (n > 0 && !line) {
    return mt_fail_memory((uint64_t)n * sizeof(double), "softmax");
  }
  for (mt_walk w = mt_walk_start(2, views); n > 0 && !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      mt_load_line(x->dtype, w.at[1] + i * w.step[1], x->stride[axis] * size, n, line);
      softmax_line(line, n);
      mt_store_line(y->dtype, w.at[0] + i * w.step[0], y->stride[axis] * size, n, line);
    }
  }
  free(line);
  return MT_OK;
}

const mt_op_def mt_op_softmax = {"softmax", 1, softmax_reference};

mt_status mt_softmax(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_op_call call = {.def = &mt_op_softmax, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require("softmax", "rt", rt));
  MT_TRY(mt_op_require("softmax", "x", x));
  MT_TRY(mt_op_require("softmax", "out", out));
  if (!mt_dtype_is_float(x->dtype)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "softmax: x %s: expected f32, f64, f16 or bf16",
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  MT_TRY(mt_axis_normalize("softmax", axis, x->rank, &axis));
  mt_op_attr_i64(&call, MT_ATTR_AXIS, axis);
  MT_TRY(mt_op_output("softmax", out, x->dtype, x->rank, x->shape, &call.out));
  return mt_op_run(rt, &call, true, out);
}
