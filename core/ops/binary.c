// SPDX-License-Identifier: Apache-2.0
/* add, sub, mul, div: two inputs that broadcast, every dtype but bool. */
#include "view.h"

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_operands(const char *op, const mt_tensor *a, const mt_tensor *b) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  const char *why = a->dtype == MT_BLOCK || a->dtype == MT_BOOL ? "expected numbers"
                    : a->dtype != b->dtype                      ? "dtypes differ (mt_cast first)"
                                                                : NULL;
  return why ? mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: a %s and b %s: %s", op,
                       mt_tensor_describe(a, left, sizeof(left)),
                       mt_tensor_describe(b, right, sizeof(right)), why)
             : MT_OK;
}

static mt_status run_broadcast(mt_runtime *rt, mt_op_call *call, mt_tensor *a, mt_tensor *b,
                               mt_tensor **out) {
  mt_tensor *in[2] = {NULL, NULL};
  mt_status status = mt_op_broadcast(a, call->out->rank, call->out->shape, &in[0]);
  if (status == MT_OK) {
    status = mt_op_broadcast(b, call->out->rank, call->out->shape, &in[1]);
  }
  if (status == MT_OK) {
    call->in = in;
    call->in_count = 2;
    status = mt_op_run(rt, call, true, out);
  } else if (!*out) {
    mt_tensor_release(&call->out);
  }
  mt_tensor_release(&in[0]);
  mt_tensor_release(&in[1]);
  return status;
}

static mt_status binary(mt_runtime *rt, const mt_op_def *def, mt_tensor *a, mt_tensor *b,
                        mt_tensor **out) {
  mt_op_call call = {.def = def};
  int64_t shape[MT_MAX_RANK];
  int rank;
  MT_TRY(mt_op_require(def->name, "rt", rt));
  MT_TRY(mt_op_require(def->name, "a", a));
  MT_TRY(mt_op_require(def->name, "b", b));
  MT_TRY(mt_op_require(def->name, "out", out));
  MT_TRY(check_operands(def->name, a, b));
  MT_TRY(mt_broadcast_shapes(def->name, a, b, 0, &rank, shape));
  MT_TRY(mt_op_output(def->name, out, a->dtype, rank, shape, &call.out));
  return run_broadcast(rt, &call, a, b, out);
}

/* ---- reference ---------------------------------------------------------------------- */

static double add_f64(double x, double y) {
  return x + y;
}
static double sub_f64(double x, double y) {
  return x - y;
}
static double mul_f64(double x, double y) {
  return x * y;
}
static double div_f64(double x, double y) {
  return x / y;
}

/* Integers wrap: the low bits are right whatever the width and sign. */
static int64_t add_i64(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x + (uint64_t)y);
}
static int64_t sub_i64(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x - (uint64_t)y);
}
static int64_t mul_i64(int64_t x, int64_t y) {
  return (int64_t)((uint64_t)x * (uint64_t)y);
}
static int64_t div_i64(int64_t x, int64_t y) {
  if (y == 0) {
    return 0;
  }
  return y == -1 ? sub_i64(0, x) : x / y; /* INT64_MIN / -1 would trap */
}

static void combine_f64(const mt_ref_call *call, mt_walk *walk, double (*f64)(double, double)) {
  double x[MT_LINE], y[MT_LINE];
  while (mt_walk_next(walk)) {
    mt_load_f64(call->in[0].dtype, walk->at[1], walk->stride[1], walk->count, x);
    mt_load_f64(call->in[1].dtype, walk->at[2], walk->stride[2], walk->count, y);
    for (int64_t i = 0; i < walk->count; i++) {
      x[i] = f64(x[i], y[i]);
    }
    mt_store_f64(call->out.dtype, x, walk->count, walk->at[0], walk->stride[0]);
  }
}

static void combine_i64(const mt_ref_call *call, mt_walk *walk, int64_t (*i64)(int64_t, int64_t)) {
  int64_t x[MT_LINE], y[MT_LINE];
  while (mt_walk_next(walk)) {
    mt_load_i64(call->in[0].dtype, walk->at[1], walk->stride[1], walk->count, x);
    mt_load_i64(call->in[1].dtype, walk->at[2], walk->stride[2], walk->count, y);
    for (int64_t i = 0; i < walk->count; i++) {
      x[i] = i64(x[i], y[i]);
    }
    mt_store_i64(call->out.dtype, x, walk->count, walk->at[0], walk->stride[0]);
  }
}

static mt_status combine(const mt_ref_call *call, double (*f64)(double, double),
                         int64_t (*i64)(int64_t, int64_t)) {
  const mt_view *views[] = {&call->out, &call->in[0], &call->in[1]};
  mt_walk walk;
  mt_walk_views(&walk, views, 3);
  if (mt_is_float(call->out.dtype)) {
    combine_f64(call, &walk, f64);
  } else {
    combine_i64(call, &walk, i64);
  }
  return MT_OK;
}

/* The reference kernel, the entry in ops.def, and the public function. */
#define BINARY(name)                                                                               \
  static mt_status name##_reference(const mt_ref_call *call) {                                     \
    return combine(call, name##_f64, name##_i64);                                                  \
  }                                                                                                \
  const mt_op_def mt_op_##name = {#name, 1, name##_reference};                                     \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out) {               \
    return binary(rt, &mt_op_##name, a, b, out);                                                   \
  }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
