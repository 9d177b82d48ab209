// SPDX-License-Identifier: Apache-2.0
/* Elementwise ops with one input, floats: relu to sqrt, and scale. In double. */
#include "unary.h"

#include <math.h>

/* ---- functions ------------------------------------------------------------------------- */

static double relu(double x) {
  return x < 0 ? 0 : x; /* NaN stays */
}

static double gelu(double x) {
  if (x == -INFINITY) {
    return 0; /* the limit; the formula gives NaN */
  }
  return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double gelu_tanh(double x) {
  if (x == -INFINITY) {
    return 0;
  }
  double inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  /* 1 + tanh(y) is 2 / (1 + exp(-2y)), without the cancellation */
  return x / (1 + exp(-2 * inner));
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double silu(double x) {
  return x == -INFINITY ? 0 : x / (1 + exp(-x));
}

double mt_activation_f64(mt_activation activation, double x) {
  switch (activation) {
  case MT_ACT_RELU: return relu(x);
  case MT_ACT_GELU: return gelu(x);
  case MT_ACT_GELU_TANH: return gelu_tanh(x);
  case MT_ACT_SILU: return silu(x);
  default: return x;
  }
}

static mt_status map(const mt_ref_call *call, double (*f)(double)) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_dtype dtype = call->out.dtype;
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      double x = mt_load_f64(dtype, w.at[1] + i * w.step[1]);
      mt_store_f64(dtype, w.at[0] + i * w.step[0], f(x));
    }
  }
  return MT_OK;
}

/* ---- the calls --------------------------------------------------------------------------- */

static mt_status unary(const mt_op_def *def, mt_runtime *rt, mt_tensor *x, const double *factor,
                       mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_op_call call = {.def = def, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require(def->name, "rt", rt));
  MT_TRY(mt_op_require(def->name, "x", x));
  MT_TRY(mt_op_require(def->name, "out", out));
  if (!mt_dtype_is_float(x->dtype)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: x %s: expected f32, f64, f16 or bf16", def->name,
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  if (factor) {
    mt_op_attr_f64(&call, MT_ATTR_FACTOR, *factor);
  }
  MT_TRY(mt_op_output(def->name, out, x->dtype, x->rank, x->shape, &call.out));
  return mt_op_run(rt, &call, true, out);
}

#define UNARY_OP(op, function)                                                                     \
  static mt_status op##_reference(const mt_ref_call *call) {                                       \
    return map(call, function);                                                                    \
  }                                                                                                \
  const mt_op_def mt_op_##op = {#op, 1, op##_reference};                                           \
  mt_status mt_##op(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {                               \
    return unary(&mt_op_##op, rt, x, NULL, out);                                                   \
  }

UNARY_OP(relu, relu)
UNARY_OP(gelu, gelu)
UNARY_OP(gelu_tanh, gelu_tanh)
UNARY_OP(silu, silu)
UNARY_OP(sigmoid, sigmoid)
UNARY_OP(tanh, tanh)
UNARY_OP(exp, exp)
UNARY_OP(log, log)
UNARY_OP(sqrt, sqrt)

static mt_status scale_reference(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_dtype dtype = call->out.dtype;
  double factor = mt_ref_f64(call, MT_ATTR_FACTOR, 1);
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      double x = mt_load_f64(dtype, w.at[1] + i * w.step[1]);
      mt_store_f64(dtype, w.at[0] + i * w.step[0], factor * x);
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_scale = {"scale", 1, scale_reference};

mt_status mt_scale(mt_runtime *rt, mt_tensor *x, double factor, mt_tensor **out) {
  return unary(&mt_op_scale, rt, x, &factor, out);
}
