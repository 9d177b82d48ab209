// SPDX-License-Identifier: Apache-2.0
/* relu, gelu, gelu_tanh, silu, sigmoid, tanh, exp, log, sqrt, scale: one input, floats. */
#include "scalar.h"
#include "view.h"

static mt_status unary_call(mt_runtime *rt, mt_tensor *x, mt_op_call *call, mt_tensor **out) {
  const char *op = call->def->name;
  char text[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_require(op, "x", x));
  MT_TRY(mt_op_require(op, "out", out));
  if (!mt_is_float(x->dtype)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: x %s: expected f32, f64, f16 or bf16", op,
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  MT_TRY(mt_op_output(op, out, x->dtype, x->rank, x->shape, &call->out));
  call->in = &x;
  call->in_count = 1;
  return mt_op_run(rt, call, true, out);
}

static mt_status unary(mt_runtime *rt, const mt_op_def *def, mt_tensor *x, mt_tensor **out) {
  mt_op_call call = {.def = def};
  return unary_call(rt, x, &call, out);
}

static mt_status map(const mt_ref_call *call, double (*function)(double)) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_walk walk;
  double x[MT_LINE];
  mt_walk_views(&walk, views, 2);
  while (mt_walk_next(&walk)) {
    mt_load_f64(call->in[0].dtype, walk.at[1], walk.stride[1], walk.count, x);
    for (int64_t i = 0; i < walk.count; i++) {
      x[i] = function(x[i]);
    }
    mt_store_f64(call->out.dtype, x, walk.count, walk.at[0], walk.stride[0]);
  }
  return MT_OK;
}

/* The reference kernel, the entry in ops.def, and the public function. */
#define UNARY(name, function)                                                                      \
  static mt_status name##_reference(const mt_ref_call *call) {                                     \
    return map(call, function);                                                                    \
  }                                                                                                \
  const mt_op_def mt_op_##name = {#name, 1, name##_reference};                                     \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {                             \
    return unary(rt, &mt_op_##name, x, out);                                                       \
  }

UNARY(relu, mt_relu_f64)
UNARY(gelu, mt_gelu_f64)
UNARY(gelu_tanh, mt_gelu_tanh_f64)
UNARY(silu, mt_silu_f64)
UNARY(sigmoid, mt_sigmoid_f64)
UNARY(tanh, tanh)
UNARY(exp, exp)
UNARY(log, log)
UNARY(sqrt, sqrt)

/* ---- scale -------------------------------------------------------------------------- */

static mt_status scale_reference(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  double factor = mt_ref_f64(call, MT_ATTR_FACTOR, 1), x[MT_LINE];
  mt_walk walk;
  mt_walk_views(&walk, views, 2);
  while (mt_walk_next(&walk)) {
    mt_load_f64(call->in[0].dtype, walk.at[1], walk.stride[1], walk.count, x);
    for (int64_t i = 0; i < walk.count; i++) {
      x[i] *= factor;
    }
    mt_store_f64(call->out.dtype, x, walk.count, walk.at[0], walk.stride[0]);
  }
  return MT_OK;
}

const mt_op_def mt_op_scale = {"scale", 1, scale_reference};

mt_status mt_scale(mt_runtime *rt, mt_tensor *x, double factor, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_scale};
  mt_op_attr_f64(&call, MT_ATTR_FACTOR, factor);
  return unary_call(rt, x, &call, out);
}
