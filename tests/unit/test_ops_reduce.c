// SPDX-License-Identifier: Apache-2.0
/* sum, mean, max, softmax on the reference, against loops over indices. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

typedef mt_status reduce_fn(mt_runtime *, mt_tensor *, const int *, int, int, mt_tensor **);

/* ---- by hand --------------------------------------------------------------------------- */

enum { SIZE = 2 * 3 * 4 * 5 };
static const int64_t full[] = {2, 3, 4, 5};

/* Bit i of mask: axis i is reduced. Sums, largest and counts by number of the result. */
typedef struct expected {
  double sum[SIZE], max[SIZE];
  int count[SIZE];
  int rank;
  int64_t shape[4];
} expected;

static void reduce_by_hand(const double *x, int mask, bool keepdims, expected *e) {
  memset(e, 0, sizeof(*e));
  for (int axis = 0; axis < 4; axis++) {
    if (!(mask >> axis & 1) || keepdims) {
      e->shape[e->rank++] = mask >> axis & 1 ? 1 : full[axis];
    }
  }
  for (int i = 0; i < SIZE; i++) {
    int index[] = {i / 60, i / 20 % 3, i / 5 % 4, i % 5}, to = 0;
    for (int axis = 0; axis < 4; axis++) {
      to = mask >> axis & 1 ? to : to * (int)full[axis] + index[axis];
    }
    e->sum[to] += x[i];
    e->max[to] = e->count[to] == 0 || x[i] > e->max[to] ? x[i] : e->max[to];
    e->count[to]++;
  }
}

static int axes_of(int mask, int turn, int *axes) {
  int count = 0;
  for (int i = 0; i < 4; i++) {
    int axis = turn % 2 ? 3 - i : i; /* any order, from either end */
    if (mask >> axis & 1) {
      axes[count++] = turn / 2 % 2 ? axis - 4 : axis;
    }
  }
  return count;
}

static void check_one(mt_dtype dtype, int mask, int turn, const double *x) {
  expected e;
  int axes[4], count = axes_of(mask, turn, axes);
  bool keepdims = turn % 3 == 0;
  reduce_by_hand(x, mask, keepdims, &e);
  mt_tensor *in = arrange(dtype, 4, full, x, (layout)(turn % LAYOUTS));
  mt_tensor *sum = NULL, *mean = NULL, *max = NULL;
  mt_dtype sum_type = is_float_type(dtype) ? dtype : MT_I64;
  ck_ok(mt_sum(rt, in, axes, count, keepdims, &sum));
  check_shape(sum, sum_type, e.rank, e.shape);
  for (int i = 0; i < mt_tensor_elements(sum); i++) {
    check_value(at(sum, i), is_float_type(dtype) ? round_to(dtype, e.sum[i]) : e.sum[i], i);
  }
  if (dtype != MT_BOOL) {
    max = blank(dtype, e.rank, e.shape, (layout)((turn + 1) % LAYOUTS));
    ck_ok(mt_max(rt, in, axes, count, keepdims, &max));
    check_values(max, e.max);
  }
  if (is_float_type(dtype)) {
    ck_ok(mt_mean(rt, in, axes, count, keepdims, &mean));
    check_shape(mean, dtype, e.rank, e.shape);
    for (int i = 0; i < mt_tensor_elements(mean); i++) {
      check_value(at(mean, i), round_to(dtype, e.sum[i] / e.count[i]), i);
    }
  }
  drop(in), drop(sum), drop(mean), drop(max);
}

START_TEST(test_axes) {
  double x[SIZE];
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_dtype dtype = all_types[d];
    ramp(x, SIZE, dtype == MT_BOOL ? 2 : 23, dtype == MT_U8 || dtype == MT_BOOL ? 0 : -11);
    for (int mask = 1; mask < 16; mask++) {
      for (int turn = 0; turn < 12; turn++) {
        check_one(dtype, mask, turn, x);
      }
    }
  }
}
END_TEST

START_TEST(test_all_and_scalar) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 2), VALUES(1, 2, 3, 4)), *out = NULL, *kept = NULL;
  mt_tensor *scalar = make(MT_F32, 0, NULL, VALUES(7)), *same = NULL;
  ck_ok(mt_sum(rt, x, NULL, 0, 0, &out));
  check_shape(out, MT_F32, 0, NULL);
  check_values(out, VALUES(10));
  ck_ok(mt_mean(rt, x, NULL, 0, 1, &kept));
  check_shape(kept, MT_F32, 2, SHAPE(1, 1));
  check_values(kept, VALUES(2.5));
  ck_ok(mt_max(rt, scalar, NULL, 0, 0, &same));
  check_shape(same, MT_F32, 0, NULL);
  check_values(same, VALUES(7));
  drop(x), drop(out), drop(kept), drop(scalar), drop(same);
}
END_TEST

/* Sums are in double: f32 stops counting at 2^24. */
START_TEST(test_precision) {
  int64_t n = (1 << 24) + 10;
  float one = 1;
  mt_tensor *x = NULL, *out = NULL, *half = NULL, *mean = NULL;
  ck_ok(mt_tensor_wrap(&one, MT_F32, 1, &n, SHAPE(0), NULL, NULL, &x));
  ck_ok(mt_sum(rt, x, NULL, 0, 0, &out));
  check_value(at(out, 0), (double)n, 0);
  half = make(MT_F16, 1, SHAPE(2), VALUES(60000, 60000));
  ck_ok(mt_mean(rt, half, NULL, 0, 0, &mean)); /* the sum alone would overflow */
  check_value(at(mean, 0), 60000, 0);
  drop(x), drop(out), drop(half), drop(mean);
}
END_TEST

START_TEST(test_integers_wrap) {
  const int64_t values[] = {INT64_MAX, 1, 5};
  mt_tensor *x = NULL, *out = NULL, *max = NULL;
  int64_t got;
  ck_ok(mt_tensor_from_data(MT_I64, 1, SHAPE(3), values, &x));
  ck_ok(mt_sum(rt, x, NULL, 0, 0, &out));
  ck_ok(mt_tensor_get(out, &got, sizeof(got)));
  ck_assert_int_eq(got, INT64_MIN + 5);
  ck_ok(mt_max(rt, x, NULL, 0, 0, &max));
  ck_ok(mt_tensor_get(max, &got, sizeof(got)));
  ck_assert_int_eq(got, INT64_MAX);
  drop(x), drop(out), drop(max);
}
END_TEST

START_TEST(test_nan_and_infinity) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(4, 3),
                      VALUES(1, NAN, 3, NAN, 5, 6, 7, 8, NAN, -INFINITY, -INFINITY, -INFINITY));
  mt_tensor *max = NULL, *sum = NULL, *all = NULL;
  ck_ok(mt_max(rt, x, AXES(1), 1, 0, &max));
  check_values(max, VALUES(NAN, NAN, NAN, -INFINITY));
  ck_ok(mt_sum(rt, x, AXES(1), 1, 0, &sum));
  check_values(sum, VALUES(NAN, NAN, NAN, -INFINITY));
  ck_ok(mt_max(rt, x, NULL, 0, 0, &all));
  check_values(all, VALUES(NAN));
  drop(x), drop(max), drop(sum), drop(all);
}
END_TEST

START_TEST(test_empty) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(0, 3), NULL), *sum = NULL, *mean = NULL, *max = NULL;
  ck_ok(mt_sum(rt, x, AXES(0), 1, 0, &sum));
  check_shape(sum, MT_F32, 1, SHAPE(3));
  check_values(sum, VALUES(0, 0, 0));
  ck_ok(mt_mean(rt, x, AXES(0), 1, 0, &mean));
  check_values(mean, VALUES(NAN, NAN, NAN));
  ck_fails(mt_max(rt, x, AXES(0), 1, 0, &max), MT_ERR_INVALID_ARGUMENT,
           "max: x f32[0, 3]: the largest of no elements");
  ck_assert_ptr_null(max);
  ck_ok(mt_max(rt, x, AXES(1), 1, 1, &max)); /* no results, so nothing is wrong */
  check_shape(max, MT_F32, 2, SHAPE(0, 1));
  drop(x), drop(sum), drop(mean), drop(max);
}
END_TEST

START_TEST(test_errors) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 2), VALUES(1, 2, 3, 4)), *out = NULL, *blocks = NULL;
  mt_tensor *n = make(MT_I32, 1, SHAPE(1), VALUES(1)),
            *flag = make(MT_BOOL, 1, SHAPE(1), VALUES(1));
  ck_ok(mt_quantize(rt, x, mt_format_find("q8_0"), &blocks));
  ck_fails(mt_sum(NULL, x, NULL, 0, 0, &out), MT_ERR_INVALID_ARGUMENT, "sum: rt is NULL");
  ck_fails(mt_sum(rt, NULL, NULL, 0, 0, &out), MT_ERR_INVALID_ARGUMENT, "sum: x is NULL");
  ck_fails(mt_sum(rt, x, NULL, 0, 0, NULL), MT_ERR_INVALID_ARGUMENT, "sum: out is NULL");
  ck_fails(mt_sum(rt, x, NULL, 1, 0, &out), MT_ERR_INVALID_ARGUMENT, "sum: 1 axes, NULL");
  ck_fails(mt_sum(rt, x, AXES(0), -1, 0, &out), MT_ERR_INVALID_ARGUMENT, "sum: -1 axes");
  ck_fails(mt_sum(rt, x, AXES(2), 1, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "sum: axis 2: expected -2 .. 1");
  ck_fails(mt_sum(rt, x, AXES(1, -1), 2, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "sum: axis 1 is named twice");
  ck_fails(mt_sum(rt, blocks, NULL, 0, 0, &out), MT_ERR_INVALID_ARGUMENT, "sum: x q8_0[2, 2]");
  ck_fails(mt_mean(rt, n, NULL, 0, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "mean: x i32[1]: expected f32");
  ck_fails(mt_max(rt, flag, NULL, 0, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "max: x bool[1]: expected numbers");
  ck_fails(mt_softmax(rt, n, 0, &out), MT_ERR_INVALID_ARGUMENT, "softmax: x i32[1]: expected f32");
  ck_fails(mt_softmax(rt, x, 2, &out), MT_ERR_INVALID_ARGUMENT,
           "softmax: axis 2: expected -2 .. 1");
  ck_assert_ptr_null(out);
  out = x;
  ck_fails(mt_sum(rt, x, AXES(0), 1, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "out is f32[2, 2]: expected f32[2]");
  drop(x), drop(blocks), drop(n), drop(flag);
}
END_TEST

/* ---- softmax ---------------------------------------------------------------------------- */

static void check_softmax(mt_dtype dtype, int axis, layout how, bool in_place) {
  double x[SIZE], want[SIZE];
  const int steps[] = {60, 20, 5, 1};
  for (int i = 0; i < SIZE; i++) {
    x[i] = round_to(dtype, sin(i) * 8);
  }
  for (int i = 0; i < SIZE; i++) {
    int first = i - i / steps[axis] % (int)full[axis] * steps[axis];
    long double sum = 0;
    for (int k = 0; k < full[axis]; k++) {
      sum += expl(x[first + k * steps[axis]]);
    }
    want[i] = (double)(expl(x[i]) / sum);
  }
  mt_tensor *in = arrange(dtype, 4, full, x, how), *out = in_place ? in : NULL;
  ck_ok(mt_softmax(rt, in, in_place ? axis : axis - 4, &out));
  check_shape(out, dtype, 4, full);
  for (int i = 0; i < SIZE; i++) {
    double slack = dtype == MT_F64   ? 1e-14
                   : dtype == MT_F32 ? 0x1p-23
                   : dtype == MT_F16 ? 0x1p-10
                                     : 0x1p-7;
    slack = slack * want[i] + (dtype == MT_F16 ? 0x1p-25 : 0);
    EXPECT(fabs(at(out, i) - want[i]) <= slack, "%s axis %d, element %d: got %.17g, want %.17g",
           mt_dtype_name(dtype), axis, i, at(out, i), want[i]);
  }
  if (!in_place) {
    drop(in);
  }
  drop(out);
}

START_TEST(test_softmax) {
  for (size_t d = 0; d < COUNT(float_types); d++) {
    for (int axis = 0; axis < 4; axis++) {
      for (int how = 0; how < LAYOUTS; how++) {
        check_softmax(float_types[d], axis, (layout)how, false);
        check_softmax(float_types[d], axis, (layout)how, true);
      }
    }
  }
}
END_TEST

/* Longer than a piece, and far from where exp() overflows. */
START_TEST(test_softmax_long) {
  enum { LENGTH = 1000 };
  static double x[LENGTH];
  double sum = 0;
  for (int i = 0; i < LENGTH; i++) {
    x[i] = 5000 + i % 3;
  }
  mt_tensor *in = make(MT_F64, 1, SHAPE(LENGTH), x), *out = NULL;
  ck_ok(mt_softmax(rt, in, 0, &out));
  for (int i = 0; i < LENGTH; i++) {
    sum += at(out, i);
  }
  ck_assert_double_eq_tol(sum, 1, 1e-12);
  ck_assert_double_eq_tol(at(out, 2) / at(out, 0), exp(2), 1e-12);
  drop(in), drop(out);
}
END_TEST

START_TEST(test_softmax_specials) {
  mt_tensor *x =
      make(MT_F32, 2, SHAPE(4, 2), VALUES(-INFINITY, 0, -INFINITY, -INFINITY, NAN, 1, INFINITY, 1));
  mt_tensor *out = NULL, *empty = make(MT_F32, 2, SHAPE(3, 0), NULL), *none = NULL;
  ck_ok(mt_softmax(rt, x, -1, &out));
  check_values(out, VALUES(0, 1, NAN, NAN, NAN, NAN, NAN, NAN));
  ck_ok(mt_softmax(rt, empty, 1, &none));
  check_shape(none, MT_F32, 2, SHAPE(3, 0));
  drop(x), drop(out), drop(empty), drop(none);
}
END_TEST

int main(void) {
  const TTest *tests[] = {
      test_axes,  test_all_and_scalar, test_precision, test_integers_wrap, test_nan_and_infinity,
      test_empty, test_errors,         test_softmax,   test_softmax_long,  test_softmax_specials};
  return run_ops_tests("ops_reduce", tests, COUNT(tests), setup, teardown);
}
