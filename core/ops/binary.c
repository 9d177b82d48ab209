// SPDX-License-Identifier: Apache-2.0
/* add, sub, mul, div: two inputs, broadcast. The kernel sees inputs of the result's shape. */
#include "view.h"

/* ---- reference ------------------------------------------------------------------------ */
/* Integers in 64 bits, unsigned where they may wrap; the store keeps the low bits, which
 * are the same in every width. */

static double add_f64(double a, double b) {
  return a + b;
}
static int64_t add_i64(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static double sub_f64(double a, double b) {
  return a - b;
}
static int64_t sub_i64(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static double mul_f64(double a, double b) {
  return a * b;
}
static int64_t mul_i64(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static double div_f64(double a, double b) {
  return a / b;
}
static int64_t div_i64(int64_t a, int64_t b) {
  if (b == 0) {
    return 0;
  }
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

/* For f32 the double result rounds to the same as a float operation would (53 >= 2*24+2). */
static mt_status binary_reference(const mt_ref_call *call, double (*f)(double, double),
                                  int64_t (*g)(int64_t, int64_t)) {
  const mt_view *views[] = {&call->out, &call->in[0], &call->in[1]};
  mt_dtype dtype = call->out.dtype;
  bool floats = mt_dtype_is_float(dtype);
  for (mt_walk w = mt_walk_start(3, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      char *out = w.at[0] + i * w.step[0];
      const char *a = w.at[1] + i * w.step[1], *b = w.at[2] + i * w.step[2];
      if (floats) {
        mt_store_f64(dtype, out, f(mt_load_f64(dtype, a), mt_load_f64(dtype, b)));
      } else {
        mt_store_i64(dtype, out, g(mt_load_i64(dtype, a), mt_load_i64(dtype, b)));
      }
    }
  }
  return MT_OK;
}

/* ---- the call --------------------------------------------------------------------------- */

static mt_status check(const char *op, mt_runtime *rt, const mt_tensor *a, const mt_tensor *b,
                       mt_tensor **out) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_require(op, "a", a));
  MT_TRY(mt_op_require(op, "b", b));
  MT_TRY(mt_op_require(op, "out", out));
  if (a->dtype != b->dtype || a->dtype == MT_BOOL || a->dtype == MT_BLOCK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: a %s and b %s: expected one dtype for both, not bool or a block format", op,
                   mt_tensor_describe(a, left, sizeof(left)),
                   mt_tensor_describe(b, right, sizeof(right)));
  }
  return MT_OK;
}

static mt_status binary(const mt_op_def *def, mt_runtime *rt, mt_tensor *a, mt_tensor *b,
                        mt_tensor **out) {
  mt_tensor *in[2] = {NULL, NULL};
  mt_op_call call = {.def = def, .in = in, .in_count = 2};
  int rank;
  int64_t shape[MT_MAX_RANK];
  MT_TRY(check(def->name, rt, a, b, out));
  MT_TRY(mt_broadcast_shapes(def->name, a, b, &rank, shape));
  mt_status status = mt_tensor_broadcast(a, rank, shape, &in[0]);
  if (status == MT_OK) {
    status = mt_tensor_broadcast(b, rank, shape, &in[1]);
  }
  if (status == MT_OK) {
    status = mt_op_output(def->name, out, a->dtype, rank, shape, &call.out);
  }
  if (status == MT_OK) {
    status = mt_op_run(rt, &call, true, out);
  }
  mt_tensor_release(&in[0]);
  mt_tensor_release(&in[1]);
  return status;
}

#define BINARY_OP(op)                                                                              \
  static mt_status op##_reference(const mt_ref_call *call) {                                       \
    return binary_reference(call, op##_f64, op##_i64);                                             \
  }                                                                                                \
  const mt_op_def mt_op_##op = {#op, 1, op##_reference};                                           \
  mt_status mt_##op(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out) {                 \
    return binary(&mt_op_##op, rt, a, b, out);                                                     \
  }

BINARY_OP(add)
BINARY_OP(sub)
BINARY_OP(mul)
BINARY_OP(div)
