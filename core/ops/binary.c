// SPDX-License-Identifier: Apache-2.0
/* Functions of two inputs that broadcast: arithmetic, powers, comparisons. */
#include "view.h"

#include <math.h>

/* ---- validation --------------------------------------------------------------------- */

/* dtype: of the result; none: that of the operands */
static mt_status binary(mt_runtime *rt, const mt_op_def *def, mt_kind kind, mt_dtype dtype,
                        mt_tensor *a, mt_tensor *b, mt_tensor **out) {
  mt_op_call call = {.def = def};
  int64_t shape[MT_MAX_RANK];
  int rank;
  MT_TRY(mt_op_require(def->name, "rt", rt));
  MT_TRY(mt_op_input(def->name, "a", a, kind));
  MT_TRY(mt_op_input(def->name, "b", b, kind));
  MT_TRY(mt_op_same_dtype(def->name, "a", a, "b", b));
  MT_TRY(mt_op_require(def->name, "out", out));
  MT_TRY(mt_broadcast_shapes(def->name, a, b, 0, &rank, shape));
  dtype = dtype == MT_DTYPE_NONE ? a->dtype : dtype;
  MT_TRY(mt_op_output(def->name, out, dtype, rank, shape, &call.out));
  return mt_op_run_broadcast(rt, &call, (mt_tensor *[]){a, b}, 2, out);
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

static double maximum_f64(double x, double y) {
  return isnan(x) || x > y || (x == y && !signbit(x)) ? x : y;
}
static double minimum_f64(double x, double y) {
  return isnan(x) || x < y || (x == y && signbit(x)) ? x : y;
}
static int64_t maximum_i64(int64_t x, int64_t y) {
  return x > y ? x : y;
}
static int64_t minimum_i64(int64_t x, int64_t y) {
  return x < y ? x : y;
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
  const mt_op_def mt_op_##name = {#name, 1, name##_reference, mt_op_##name##_number};              \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out) {               \
    return binary(rt, &mt_op_##name, MT_KIND_NUMBER, MT_DTYPE_NONE, a, b, out);                    \
  }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(minimum)

/* ---- pow ------------------------------------------------------------------------------ */

static mt_status pow_reference(const mt_ref_call *call) {
  return combine(call, pow, NULL); /* floats only */
}

const mt_op_def mt_op_pow = {"pow", 1, pow_reference, mt_op_pow_number};

mt_status mt_pow(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out) {
  return binary(rt, &mt_op_pow, MT_KIND_FLOAT, MT_DTYPE_NONE, a, b, out);
}

/* ---- comparisons ------------------------------------------------------------------------ */

typedef int64_t compare_f64(double, double);

static void compare_floats(const mt_ref_call *call, mt_walk *walk, compare_f64 *compare) {
  double x[MT_LINE], y[MT_LINE];
  int64_t truth[MT_LINE];
  while (mt_walk_next(walk)) {
    mt_load_f64(call->in[0].dtype, walk->at[1], walk->stride[1], walk->count, x);
    mt_load_f64(call->in[1].dtype, walk->at[2], walk->stride[2], walk->count, y);
    for (int64_t i = 0; i < walk->count; i++) {
      truth[i] = compare(x[i], y[i]);
    }
    mt_store_i64(MT_BOOL, truth, walk->count, walk->at[0], walk->stride[0]);
  }
}

static mt_status compare(const mt_ref_call *call, compare_f64 *f64,
                         int64_t (*i64)(int64_t, int64_t)) {
  const mt_view *views[] = {&call->out, &call->in[0], &call->in[1]};
  mt_walk walk;
  mt_walk_views(&walk, views, 3);
  if (mt_is_float(call->in[0].dtype)) {
    compare_floats(call, &walk, f64);
  } else {
    combine_i64(call, &walk, i64);
  }
  return MT_OK;
}

#define COMPARISON(name, kind, operator)                                                           \
  static int64_t name##_f64(double x, double y) {                                                  \
    return x operator y;                                                                           \
  }                                                                                                \
  static int64_t name##_i64(int64_t x, int64_t y) {                                                \
    return x operator y;                                                                           \
  }                                                                                                \
  static mt_status name##_reference(const mt_ref_call *call) {                                     \
    return compare(call, name##_f64, name##_i64);                                                  \
  }                                                                                                \
  const mt_op_def mt_op_##name = {#name, 1, name##_reference, mt_op_##name##_number};              \
  mt_status mt_##name(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out) {               \
    return binary(rt, &mt_op_##name, kind, MT_BOOL, a, b, out);                                    \
  }

COMPARISON(equal, MT_KIND_PLAIN, ==)
COMPARISON(not_equal, MT_KIND_PLAIN, !=)
COMPARISON(less, MT_KIND_NUMBER, <)
COMPARISON(less_equal, MT_KIND_NUMBER, <=)
COMPARISON(greater, MT_KIND_NUMBER, >)
COMPARISON(greater_equal, MT_KIND_NUMBER, >=)
