// SPDX-License-Identifier: Apache-2.0
/* Functions of one input. */
#include "scalar.h"
#include "view.h"

static mt_status unary_call(mt_runtime *rt, mt_tensor *x, mt_kind kind, mt_op_call *call,
                            mt_tensor **out) {
  const char *op = call->def->name;
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "x", x, kind));
  MT_TRY(mt_op_require(op, "out", out));
  MT_TRY(mt_op_output(op, out, x->dtype, x->rank, x->shape, &call->out));
  call->in = &x;
  call->in_count = 1;
  return mt_op_run(rt, call, true, out);
}

static mt_status unary(mt_runtime *rt, const mt_op_def *def, mt_tensor *x, mt_kind kind,
                       mt_tensor **out) {
  mt_op_call call = {.def = def};
  return unary_call(rt, x, kind, &call, out);
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

static double rsqrt_f64(double x) {
  return 1 / sqrt(x);
}
static double reciprocal_f64(double x) {
  return 1 / x;
}

/* Half to even by hand: rint() would follow the rounding mode of the thread. */
static double round_even(double x) {
  double low = floor(x), part = x - low;
  if (part < 0.5 || (part == 0.5 && fmod(low, 2) == 0)) {
    return copysign(low, x);
  }
  return part >= 0.5 ? copysign(low + 1, x) : x; /* NaN and infinities stay */
}

/* The reference kernel, the entry in ops.def, and the public function. */
#define UNARY(name, function)                                                                      \
  static mt_status name##_reference(const mt_ref_call *call) {                                     \
    return map(call, function);                                                                    \
  }                                                                                                \
  const mt_op_def mt_op_##name = {#name, 1, name##_reference, mt_op_##name##_number};              \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {                             \
    return unary(rt, &mt_op_##name, x, MT_KIND_FLOAT, out);                                        \
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
UNARY(sin, sin)
UNARY(cos, cos)
UNARY(erf, erf)
UNARY(rsqrt, rsqrt_f64)
UNARY(reciprocal, reciprocal_f64)
UNARY(floor, floor)
UNARY(ceil, ceil)
UNARY(round, round_even)

/* ---- numbers: neg, abs ---------------------------------------------------------------- */

static double neg_f64(double x) {
  return -x;
}
static int64_t neg_i64(int64_t x) {
  return (int64_t)(0 - (uint64_t)x);
}
static int64_t abs_i64(int64_t x) {
  return x < 0 ? neg_i64(x) : x;
}

static mt_status map_numbers(const mt_ref_call *call, double (*f64)(double),
                             int64_t (*i64)(int64_t)) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_walk walk;
  int64_t x[MT_LINE];
  if (mt_is_float(call->in[0].dtype)) {
    return map(call, f64);
  }
  mt_walk_views(&walk, views, 2);
  while (mt_walk_next(&walk)) {
    mt_load_i64(call->in[0].dtype, walk.at[1], walk.stride[1], walk.count, x);
    for (int64_t i = 0; i < walk.count; i++) {
      x[i] = i64(x[i]);
    }
    mt_store_i64(call->out.dtype, x, walk.count, walk.at[0], walk.stride[0]);
  }
  return MT_OK;
}

#define UNARY_NUMBERS(name, f64, i64)                                                              \
  static mt_status name##_reference(const mt_ref_call *call) {                                     \
    return map_numbers(call, f64, i64);                                                            \
  }                                                                                                \
  const mt_op_def mt_op_##name = {#name, 1, name##_reference, mt_op_##name##_number};              \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {                             \
    return unary(rt, &mt_op_##name, x, MT_KIND_NUMBER, out);                                       \
  }

UNARY_NUMBERS(neg, neg_f64, neg_i64)
UNARY_NUMBERS(abs, fabs, abs_i64)

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

const mt_op_def mt_op_scale = {"scale", 1, scale_reference, mt_op_scale_number};

mt_status mt_scale(mt_runtime *rt, mt_tensor *x, double factor, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_scale};
  mt_op_attr_f64(&call, MT_ATTR_FACTOR, factor);
  return unary_call(rt, x, MT_KIND_FLOAT, &call, out);
}
