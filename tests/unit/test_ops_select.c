// SPDX-License-Identifier: Apache-2.0
/* maximum, pow, comparisons, where, clamp, min, argmax, topk, cumsum, scatter_add, log_softmax. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

typedef mt_status binary_fn(mt_runtime *, mt_tensor *, mt_tensor *, mt_tensor **);

static void check_binary(binary_fn *fn, mt_dtype dtype, int n, const double *x, const double *y,
                         const double *want) {
  mt_tensor *a = make(dtype, 1, SHAPE(n), x), *b = make(dtype, 1, SHAPE(n), y), *out = NULL;
  ck_ok(fn(rt, a, b, &out));
  check_values(out, want);
  drop(a), drop(b), drop(out);
}

START_TEST(test_extremes) {
  const double *x = VALUES(1, NAN, 2, -0.0, INFINITY), *y = VALUES(2, 1, NAN, 0, -INFINITY);
  for (size_t d = 0; d < COUNT(float_types); d++) {
    check_binary(mt_maximum, float_types[d], 5, x, y, VALUES(2, NAN, NAN, 0, INFINITY));
    check_binary(mt_minimum, float_types[d], 5, x, y, VALUES(1, NAN, NAN, 0, -INFINITY));
  }
  check_binary(mt_maximum, MT_U8, 2, VALUES(200, 3), VALUES(100, 4), VALUES(200, 4));
  check_binary(mt_minimum, MT_I8, 2, VALUES(-128, 3), VALUES(127, 4), VALUES(-128, 3));
  mt_tensor *a = make(MT_F32, 1, SHAPE(2), VALUES(-0.0, 0)), *out = NULL, *low = NULL;
  mt_tensor *b = make(MT_F32, 1, SHAPE(2), VALUES(0, -0.0));
  ck_ok(mt_maximum(rt, a, b, &out));
  ck_assert(!signbit(at(out, 0)) && !signbit(at(out, 1)));
  ck_ok(mt_minimum(rt, a, b, &low));
  ck_assert(signbit(at(low, 0)) && signbit(at(low, 1)));
  drop(a), drop(b), drop(out), drop(low);
}
END_TEST

START_TEST(test_pow) {
  check_binary(mt_pow, MT_F64, 8, VALUES(2, -2, -2, 0, 0, NAN, 1, -8),
               VALUES(10, 3, 0.5, -1, 0, 0, NAN, 1.0 / 3),
               VALUES(1024, -8, NAN, INFINITY, 1, 1, 1, NAN));
  check_binary(mt_pow, MT_F16, 2, VALUES(3, 300), VALUES(2, 2), VALUES(9, INFINITY));
}
END_TEST

START_TEST(test_comparisons) {
  static const struct {
    binary_fn *fn;
    double floats[5], ints[3];
  } rows[] = {
      {mt_equal, {0, 1, 0, 0, 1}, {0, 1, 0}},   {mt_not_equal, {1, 0, 1, 1, 0}, {1, 0, 1}},
      {mt_less, {1, 0, 0, 0, 0}, {1, 0, 0}},    {mt_less_equal, {1, 1, 0, 0, 1}, {1, 1, 0}},
      {mt_greater, {0, 0, 1, 0, 0}, {0, 0, 1}}, {mt_greater_equal, {0, 1, 1, 0, 1}, {0, 1, 1}},
  };
  for (size_t k = 0; k < COUNT(rows); k++) {
    for (size_t d = 0; d < COUNT(float_types); d++) {
      check_binary(rows[k].fn, float_types[d], 5, VALUES(1, 2, 3, NAN, -0.0),
                   VALUES(2, 2, 2, NAN, 0), rows[k].floats);
    }
    check_binary(rows[k].fn, MT_I16, 3, VALUES(-300, 7, 5), VALUES(300, 7, -5), rows[k].ints);
    check_binary(rows[k].fn, MT_U8, 3, VALUES(100, 7, 200), VALUES(200, 7, 100), rows[k].ints);
  }
  /* 2^53 + 1 is no double: integers are compared as integers */
  const int64_t big[] = {9007199254740993, 9007199254740992};
  mt_tensor *a = NULL, *b = NULL, *out = NULL, *flags = make(MT_BOOL, 1, SHAPE(2), VALUES(1, 0));
  ck_ok(mt_tensor_from_data(MT_I64, 0, NULL, &big[0], &a));
  ck_ok(mt_tensor_from_data(MT_I64, 0, NULL, &big[1], &b));
  ck_ok(mt_greater(rt, a, b, &out));
  check_shape(out, MT_BOOL, 0, NULL);
  check_value(at(out, 0), 1, 0);
  mt_tensor *same = flags; /* bool in place */
  ck_ok(mt_equal(rt, flags, flags, &same));
  check_values(flags, VALUES(1, 1));
  mt_tensor *none = NULL;
  ck_fails(mt_less(rt, flags, flags, &none), MT_ERR_INVALID_ARGUMENT,
           "less: a bool[2]: expected numbers");
  drop(a), drop(b), drop(out), drop(flags);
}
END_TEST

START_TEST(test_where) {
  mt_tensor *c = make(MT_BOOL, 2, SHAPE(2, 1), VALUES(1, 0)), *out = NULL, *f = NULL;
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_tensor *a = make(all_types[d], 1, SHAPE(3), VALUES(1, 0, 1));
    mt_tensor *b = make(all_types[d], 0, NULL, VALUES(0)), *got = NULL;
    ck_ok(mt_where(rt, c, a, b, &got));
    check_shape(got, all_types[d], 2, SHAPE(2, 3));
    check_values(got, VALUES(1, 0, 1, 0, 0, 0));
    drop(a), drop(b), drop(got);
  }
  mt_tensor *deep = make(MT_BOOL, 3, SHAPE(2, 1, 1), VALUES(0, 1));
  mt_tensor *x = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)),
            *y = make(MT_F32, 1, SHAPE(2), VALUES(3, 4));
  ck_ok(mt_where(rt, deep, x, y, &out));
  check_shape(out, MT_F32, 3, SHAPE(2, 1, 2));
  check_values(out, VALUES(3, 4, 1, 2));
  ck_fails(mt_where(rt, x, x, y, &f), MT_ERR_INVALID_ARGUMENT,
           "where: condition f32[2]: expected bool");
  mt_tensor *three = make(MT_BOOL, 1, SHAPE(3), VALUES(0, 1, 0));
  ck_fails(mt_where(rt, three, x, y, &f), MT_ERR_INVALID_ARGUMENT,
           "where: condition bool[3] does not broadcast with [2]: 3 and 2");
  drop(c), drop(out), drop(deep), drop(x), drop(y), drop(three);
}
END_TEST

START_TEST(test_clamp) {
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_tensor *x = make(float_types[d], 1, SHAPE(5), VALUES(-5, 0.5, 7, NAN, INFINITY)), *out = x;
    ck_ok(mt_clamp(rt, x, -1, 2, &out));
    check_values(x, VALUES(-1, 0.5, 2, NAN, 2));
    drop(x);
  }
  static const struct {
    mt_dtype dtype;
    double lo, hi, x[3], want[3];
  } rows[] = {
      {MT_I32, -0.5, 1.5, {-5, 1, 5}, {0, 1, 1}},
      {MT_U8, -10, 300, {0, 128, 255}, {0, 128, 255}},
      {MT_U8, 300, 400, {0, 128, 255}, {255, 255, 255}},
      {MT_I8, -INFINITY, 3, {-128, 3, 127}, {-128, 3, 3}},
      {MT_I64, -1e300, 1e300, {-7, 0, 7}, {-7, 0, 7}},
  };
  for (size_t k = 0; k < COUNT(rows); k++) {
    mt_tensor *x = make(rows[k].dtype, 1, SHAPE(3), rows[k].x), *out = NULL;
    ck_ok(mt_clamp(rt, x, rows[k].lo, rows[k].hi, &out));
    check_values(out, rows[k].want);
    drop(x), drop(out);
  }
  mt_tensor *n = make(MT_I32, 0, NULL, VALUES(0)), *out = NULL;
  ck_fails(mt_clamp(rt, n, 0.2, 0.8, &out), MT_ERR_INVALID_ARGUMENT,
           "clamp: no i32 lies between 0.2 and 0.8");
  ck_fails(mt_clamp(rt, n, 2, 1, &out), MT_ERR_INVALID_ARGUMENT, "between 2 and 1");
  ck_fails(mt_clamp(rt, n, NAN, 1, &out), MT_ERR_INVALID_ARGUMENT, "clamp: no i32 lies between");
  drop(n);
}
END_TEST

START_TEST(test_min_and_arg) {
  const double *x = VALUES(3, 1, 2, 1, 5, 5);
  mt_tensor *a = make(MT_F32, 2, SHAPE(2, 3), x), *low = NULL, *where = NULL, *kept = NULL;
  ck_ok(mt_min(rt, a, AXES(1), 1, 0, &low));
  check_values(low, VALUES(1, 1));
  ck_ok(mt_argmax(rt, a, 1, 0, &where));
  check_shape(where, MT_I64, 1, SHAPE(2));
  check_values(where, VALUES(0, 1)); /* the first of equals */
  ck_ok(mt_argmin(rt, a, 0, 1, &kept));
  check_shape(kept, MT_I64, 2, SHAPE(1, 3));
  check_values(kept, VALUES(1, 0, 0));
  mt_tensor *n = make(MT_F64, 1, SHAPE(4), VALUES(1, NAN, INFINITY, NAN)), *max = NULL, *min = NULL;
  ck_ok(mt_argmax(rt, n, 0, 0, &max));
  ck_ok(mt_argmin(rt, n, 0, 0, &min));
  check_value(at(max, 0), 1, 0);
  check_value(at(min, 0), 1, 0);
  mt_tensor *empty = make(MT_F32, 2, SHAPE(2, 0), NULL), *none = NULL, *nothing = NULL;
  ck_fails(mt_argmax(rt, empty, 1, 0, &none), MT_ERR_INVALID_ARGUMENT,
           "argmax: x f32[2, 0]: axis 1 has no elements");
  ck_fails(mt_min(rt, empty, NULL, 0, 0, &none), MT_ERR_INVALID_ARGUMENT,
           "the smallest of no elements");
  ck_ok(mt_argmax(rt, empty, 0, 0, &nothing));
  check_shape(nothing, MT_I64, 1, SHAPE(0));
  drop(a), drop(low), drop(where), drop(kept), drop(n), drop(max), drop(min), drop(empty);
  drop(nothing);
}
END_TEST

START_TEST(test_topk) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 5), VALUES(1, 5, 3, 5, NAN, -1, -2, -3, -4, -5));
  mt_tensor *values = NULL, *at_ = NULL, *low = NULL, *where = NULL;
  ck_ok(mt_topk(rt, x, 3, -1, 1, &values, &at_));
  check_shape(at_, MT_I64, 2, SHAPE(2, 3));
  check_values(values, VALUES(NAN, 5, 5, -1, -2, -3));
  check_values(at_, VALUES(4, 1, 3, 0, 1, 2));
  ck_ok(mt_topk(rt, x, 2, 0, 0, &low, &where));
  check_values(where, VALUES(1, 1, 1, 1, 1, 0, 0, 0, 0, 0));
  mt_tensor *v = NULL, *i = NULL;
  ck_ok(mt_topk(rt, x, 0, 1, 1, &v, &i));
  check_shape(v, MT_F32, 2, SHAPE(2, 0));
  mt_tensor *none = NULL, *other = blank(MT_I32, 2, SHAPE(2, 3), PACKED);
  ck_fails(mt_topk(rt, x, 6, 1, 1, &none, &i), MT_ERR_INVALID_ARGUMENT, "topk: k 6: axis 1 has 5");
  ck_fails(mt_topk(rt, x, 3, 1, 1, &none, &other), MT_ERR_INVALID_ARGUMENT,
           "topk: out is i32[2, 3]");
  ck_assert_ptr_null(none); /* all or none */
  mt_tensor *n = make(MT_I64, 1, SHAPE(3), VALUES(3, 1, 2)),
            *into = blank(MT_I64, 1, SHAPE(2), PACKED);
  mt_tensor *twice = into;
  ck_fails(mt_topk(rt, n, 2, 0, 1, &into, &twice), MT_ERR_INVALID_ARGUMENT,
           "topk: output 1 overlaps output 0");
  ck_fails(mt_topk(rt, n, 3, 0, 1, &none, &n), MT_ERR_INVALID_ARGUMENT,
           "topk: output 1 overlaps input 0");
  ck_assert_ptr_null(none);
  drop(x), drop(values), drop(at_), drop(low), drop(where), drop(v), drop(i), drop(other);
  drop(n), drop(into);
}
END_TEST

START_TEST(test_cumsum) {
  static const struct {
    int exclusive, reverse;
    double want[4];
  } rows[] = {
      {0, 0, {1, 3, 6, 10}}, {1, 0, {0, 1, 3, 6}}, {0, 1, {10, 9, 7, 4}}, {1, 1, {9, 7, 4, 0}}};
  for (size_t k = 0; k < COUNT(rows); k++) {
    for (size_t d = 0; d < COUNT(number_types); d++) {
      mt_tensor *x = make(number_types[d], 1, SHAPE(4), VALUES(1, 2, 3, 4)), *out = x;
      ck_ok(mt_cumsum(rt, x, 0, rows[k].exclusive, rows[k].reverse, &out));
      check_values(x, rows[k].want);
      drop(x);
    }
  }
  mt_tensor *n = make(MT_I8, 2, SHAPE(2, 2), VALUES(100, 1, 100, 2)), *out = NULL;
  ck_ok(mt_cumsum(rt, n, 0, 0, 0, &out)); /* wraps */
  check_values(out, VALUES(100, 1, -56, 3));
  mt_tensor *scalar = make(MT_F32, 0, NULL, VALUES(1)), *none = NULL;
  ck_fails(mt_cumsum(rt, scalar, 0, 0, 0, &none), MT_ERR_INVALID_ARGUMENT, "cumsum");
  drop(n), drop(out), drop(scalar);
}
END_TEST

START_TEST(test_scatter_add) {
  for (size_t d = 0; d < COUNT(number_types); d++) {
    mt_tensor *x = make(number_types[d], 2, SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6)), *out = x;
    mt_tensor *at_ = make(MT_I32, 1, SHAPE(3), VALUES(2, 0, 2));
    mt_tensor *u = make(number_types[d], 2, SHAPE(3, 2), VALUES(10, 20, 1, 1, 30, 40));
    ck_ok(mt_scatter_add(rt, x, at_, u, &out));
    check_values(x, VALUES(2, 3, 3, 4, 45, 66));
    mt_tensor *same = u;
    ck_fails(mt_scatter_add(rt, x, at_, u, &same), MT_ERR_INVALID_ARGUMENT,
             "scatter_add: out overlaps input 2");
    drop(x), drop(at_), drop(u);
  }
  mt_tensor *x = make(MT_F16, 1, SHAPE(2), VALUES(2048, 0)), *out = NULL, *none = NULL;
  mt_tensor *at_ = make(MT_I64, 1, SHAPE(4), VALUES(0, 0, 0, 0));
  mt_tensor *u = make(MT_F16, 1, SHAPE(4), VALUES(1, 1, 1, 1));
  ck_ok(mt_scatter_add(rt, x, at_, u, &out)); /* rounded once: each alone would be lost */
  check_values(out, VALUES(2052, 0));
  mt_tensor *bad = make(MT_I64, 1, SHAPE(1), VALUES(2)),
            *one = make(MT_F16, 1, SHAPE(1), VALUES(1));
  ck_fails(mt_scatter_add(rt, x, bad, one, &none), MT_ERR_INVALID_ARGUMENT,
           "scatter_add: index 2 at position 0: expected 0 .. 1");
  ck_fails(mt_scatter_add(rt, x, bad, u, &none), MT_ERR_INVALID_ARGUMENT,
           "scatter_add: updates f16[4]: expected f16[1]");
  drop(x), drop(out), drop(at_), drop(u), drop(bad), drop(one);
}
END_TEST

START_TEST(test_log_softmax) {
  mt_tensor *x = make(MT_F64, 1, SHAPE(3), VALUES(0, 1000, 1000)), *out = NULL;
  ck_ok(mt_log_softmax(rt, x, 0, &out));
  check_value(at(out, 0), -1000 - log(2), 0);
  check_value(at(out, 1), -log(2), 1);
  drop(x), drop(out);
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_extremes,    test_pow,         test_comparisons, test_where,
                          test_clamp,       test_min_and_arg, test_topk,        test_cumsum,
                          test_scatter_add, test_log_softmax};
  return run_ops_tests("ops_select", tests, COUNT(tests), setup, teardown);
}
