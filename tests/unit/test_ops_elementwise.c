// SPDX-License-Identifier: Apache-2.0
/* add, sub, mul, div, the functions of one input, and what all ops do with their output. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

typedef mt_status binary_fn(mt_runtime *, mt_tensor *, mt_tensor *, mt_tensor **);
typedef mt_status unary_fn(mt_runtime *, mt_tensor *, mt_tensor **);

static const struct {
  binary_fn *fn;
  char op;
} binaries[] = {{mt_add, '+'}, {mt_sub, '-'}, {mt_mul, '*'}, {mt_div, '/'}};

static double expected(mt_dtype dtype, char op, double x, double y) {
  double z = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x / y;
  if (is_float_type(dtype)) {
    return round_to(dtype, z);
  }
  if (op == '/') {
    return y == 0 ? 0 : trunc(z);
  }
  double span = ldexp(1, 8 * (int)mt_dtype_size(dtype)); /* wraps */
  double low = dtype == MT_U8 ? 0 : -span / 2;
  return z - span * floor((z - low) / span);
}

/* ---- two inputs ----------------------------------------------------------------------- */

START_TEST(test_binary_layouts) {
  double x[60], y[60], want[60];
  const int64_t *shape = SHAPE(3, 4, 5);
  for (size_t d = 0; d < COUNT(number_types); d++) {
    mt_dtype dtype = number_types[d];
    ramp(x, 60, 31, dtype == MT_U8 ? 0 : -15);
    ramp(y, 60, 13, dtype == MT_U8 ? 0 : -6);
    for (size_t k = 0; k < COUNT(binaries); k++) {
      for (int i = 0; i < 60; i++) {
        want[i] = expected(dtype, binaries[k].op, x[i], y[i]);
      }
      for (int how = 0; how < LAYOUTS; how++) {
        mt_tensor *a = arrange(dtype, 3, shape, x, (layout)how), *out = NULL;
        mt_tensor *b = arrange(dtype, 3, shape, y, (layout)((how + 2) % LAYOUTS));
        ck_ok(binaries[k].fn(rt, a, b, &out));
        check_shape(out, dtype, 3, shape);
        ck_assert(mt_tensor_is_contiguous(out));
        check_values(out, want);
        mt_tensor *given = blank(dtype, 3, shape, (layout)((how + 1) % LAYOUTS)), *same = given;
        ck_ok(binaries[k].fn(rt, a, b, &given));
        ck_assert_ptr_eq(given, same);
        check_values(given, want);
        drop(a), drop(b), drop(out), drop(given);
      }
    }
  }
}
END_TEST

START_TEST(test_broadcast) {
  double x[6], y[4], want[24];
  ramp(x, 6, 6, 1);
  ramp(y, 4, 4, 10);
  mt_tensor *a = make(MT_F32, 3, SHAPE(2, 1, 3), x), *b = make(MT_F32, 2, SHAPE(4, 1), y);
  mt_tensor *out = NULL, *scalar = make(MT_F32, 0, NULL, VALUES(100)), *sum = NULL;
  for (int i = 0; i < 24; i++) {
    want[i] = x[i / 12 * 3 + i % 3] - y[i / 3 % 4];
  }
  ck_ok(mt_sub(rt, a, b, &out));
  check_shape(out, MT_F32, 3, SHAPE(2, 4, 3));
  check_values(out, want);
  for (int i = 0; i < 24; i++) {
    want[i] += 100;
  }
  ck_ok(mt_add(rt, scalar, out, &sum));
  check_shape(sum, MT_F32, 3, SHAPE(2, 4, 3));
  check_values(sum, want);
  drop(a), drop(b), drop(out), drop(scalar), drop(sum);
}
END_TEST

/* Longer than the pieces that kernels work in, and rows that are not whole pieces. */
START_TEST(test_long) {
  enum { N = 3 * 701 };
  static double x[N], want[N];
  ramp(x, N, 1999, -900);
  for (int how = 0; how < LAYOUTS; how++) {
    mt_tensor *a = arrange(MT_I32, 2, SHAPE(3, 701), x, (layout)how), *out = NULL;
    for (int i = 0; i < N; i++) {
      want[i] = x[i] * x[i];
    }
    ck_ok(mt_mul(rt, a, a, &out));
    check_values(out, want);
    drop(a), drop(out);
  }
}
END_TEST

START_TEST(test_integer_edges) {
  const int64_t x[] = {INT64_MIN, INT64_MIN, INT64_MAX, 7, -7, 7, -7, 9, 0};
  const int64_t y[] = {-1, 1, 1, 2, 2, -2, -2, 0, 0};
  const int64_t sums[] = {INT64_MAX, INT64_MIN + 1, INT64_MIN, 9, -5, 5, -9, 9, 0};
  const int64_t products[] = {INT64_MIN, INT64_MIN, INT64_MAX, 14, -14, -14, 14, 0, 0};
  const int64_t quotients[] = {INT64_MIN, INT64_MIN, INT64_MAX, 3, -3, -3, 3, 0, 0};
  const struct {
    binary_fn *fn;
    const int64_t *want;
  } rows[] = {{mt_add, sums}, {mt_mul, products}, {mt_div, quotients}};
  mt_tensor *a = NULL, *b = NULL;
  ck_ok(mt_tensor_from_data(MT_I64, 1, SHAPE(9), x, &a));
  ck_ok(mt_tensor_from_data(MT_I64, 1, SHAPE(9), y, &b));
  for (size_t k = 0; k < COUNT(rows); k++) {
    mt_tensor *out = NULL;
    int64_t got[9];
    ck_ok(rows[k].fn(rt, a, b, &out));
    ck_ok(mt_tensor_get(out, got, sizeof(got)));
    for (int i = 0; i < 9; i++) {
      ck_assert_msg(got[i] == rows[k].want[i], "row %zu, element %d: %lld", k, i,
                    (long long)got[i]);
    }
    drop(out);
  }
  drop(a), drop(b);
}
END_TEST

START_TEST(test_narrow_edges) {
  mt_tensor *a = make(MT_I8, 1, SHAPE(4), VALUES(-128, 127, 100, 5)), *out = NULL;
  mt_tensor *b = make(MT_I8, 1, SHAPE(4), VALUES(-1, 1, 100, 0));
  ck_ok(mt_div(rt, a, b, &out));
  check_values(out, VALUES(-128, 127, 1, 0));
  ck_ok(mt_add(rt, a, b, &out)); /* again into the same */
  check_values(out, VALUES(127, -128, -56, 5));
  ck_ok(mt_mul(rt, a, b, &out));
  check_values(out, VALUES(-128, 127, 16, 0));
  mt_tensor *u = make(MT_U8, 1, SHAPE(2), VALUES(3, 250)), *v = make(MT_U8, 0, NULL, VALUES(10));
  mt_tensor *difference = NULL, *sum = NULL;
  ck_ok(mt_sub(rt, u, v, &difference));
  check_values(difference, VALUES(249, 240));
  ck_ok(mt_add(rt, u, v, &sum));
  check_values(sum, VALUES(13, 4));
  drop(a), drop(b), drop(out), drop(u), drop(v), drop(difference), drop(sum);
}
END_TEST

START_TEST(test_float_specials) {
  const double *x = VALUES(NAN, INFINITY, INFINITY, 1, -1, 0, 3e38);
  const double *y = VALUES(1, -INFINITY, INFINITY, 0, 0, 0, 3e38);
  mt_tensor *a = make(MT_F32, 1, SHAPE(7), x), *b = make(MT_F32, 1, SHAPE(7), y);
  mt_tensor *sum = NULL, *quotient = NULL;
  ck_ok(mt_add(rt, a, b, &sum));
  check_values(sum, VALUES(NAN, NAN, INFINITY, 1, -1, 0, INFINITY));
  ck_ok(mt_div(rt, a, b, &quotient));
  check_values(quotient, VALUES(NAN, NAN, NAN, INFINITY, -INFINITY, NAN, 1));
  drop(a), drop(b), drop(sum), drop(quotient);
}
END_TEST

/* ---- one input -------------------------------------------------------------------------- */

static long double relu(long double x) {
  return x > 0 ? x : isnan(x) ? x : 0;
}
static long double gelu(long double x) {
  return x / 2 * erfcl(-x / sqrtl(2));
}
static long double gelu_tanh(long double x) {
  return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
}
static long double silu(long double x) {
  return x / (1 + expl(-x));
}
static long double sigmoid(long double x) {
  return 1 / (1 + expl(-x));
}

static long double rsqrt(long double x) {
  return 1 / sqrtl(x);
}
static long double reciprocal(long double x) {
  return 1 / x;
}
static long double negative(long double x) {
  return -x;
}

static const struct {
  const char *name;
  unary_fn *fn;
  long double (*want)(long double);
} unaries[] = {
    {"relu", mt_relu, relu},
    {"gelu", mt_gelu, gelu},
    {"gelu_tanh", mt_gelu_tanh, gelu_tanh},
    {"silu", mt_silu, silu},
    {"sigmoid", mt_sigmoid, sigmoid},
    {"tanh", mt_tanh, tanhl},
    {"exp", mt_exp, expl},
    {"log", mt_log, logl},
    {"sqrt", mt_sqrt, sqrtl},
    {"sin", mt_sin, sinl},
    {"cos", mt_cos, cosl},
    {"erf", mt_erf, erfl},
    {"rsqrt", mt_rsqrt, rsqrt},
    {"reciprocal", mt_reciprocal, reciprocal},
    {"floor", mt_floor, floorl},
    {"ceil", mt_ceil, ceill},
    {"round", mt_round, nearbyintl},
    {"neg", mt_neg, negative},
    {"abs", mt_abs, fabsl},
};

/* Half an ulp of the dtype for the rounding, and a few of double for libm. */
static double unit(mt_dtype dtype) {
  return dtype == MT_F32   ? 0x1p-24
         : dtype == MT_F64 ? 64 * 0x1p-52
         : dtype == MT_F16 ? 0x1p-11
                           : 0x1p-8;
}

START_TEST(test_unary) {
  double x[48], want[48];
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_dtype dtype = float_types[d];
    for (int i = 0; i < 48; i++) {
      x[i] = round_to(dtype, (i - 16) * 0.3);
    }
    for (size_t k = 0; k < COUNT(unaries); k++) {
      mt_tensor *in = arrange(dtype, 3, SHAPE(2, 4, 6), x, (layout)(k % LAYOUTS)), *out = NULL;
      ck_ok(unaries[k].fn(rt, in, &out));
      check_shape(out, dtype, 3, SHAPE(2, 4, 6));
      for (int i = 0; i < 48; i++) {
        want[i] = (double)unaries[k].want(x[i]);
        double got = at(out, i), slack = fabs(want[i]) * unit(dtype) * 1.0001;
        slack += fabs(x[i]) * 0x1p-60; /* 1 + tanhl() of a large negative number */
        slack = dtype == MT_F16 && slack < 0x1p-25 ? 0x1p-25 : slack; /* denormal */
        EXPECT(isnan(want[i]) ? isnan(got) : got == want[i] || fabs(got - want[i]) <= slack,
               "%s of %s %g: got %.17g, want %.17g", unaries[k].name, mt_dtype_name(dtype), x[i],
               got, want[i]);
      }
      drop(in), drop(out);
    }
  }
}
END_TEST

START_TEST(test_unary_specials) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(4), VALUES(NAN, INFINITY, -INFINITY, -0.0));
  const struct {
    unary_fn *fn;
    double want[4];
  } rows[] = {
      {mt_relu, {NAN, INFINITY, 0, 0}},
      {mt_exp, {NAN, INFINITY, 0, 1}},
      {mt_log, {NAN, INFINITY, NAN, -INFINITY}},
      {mt_sqrt, {NAN, INFINITY, NAN, 0}},
      {mt_tanh, {NAN, 1, -1, 0}},
      {mt_sigmoid, {NAN, 1, 0, 0.5}},
      {mt_gelu, {NAN, INFINITY, NAN, 0}},
      {mt_silu, {NAN, INFINITY, NAN, 0}},
      {mt_sin, {NAN, NAN, NAN, 0}},
      {mt_cos, {NAN, NAN, NAN, 1}},
      {mt_erf, {NAN, 1, -1, 0}},
      {mt_rsqrt, {NAN, 0, NAN, -INFINITY}},
      {mt_reciprocal, {NAN, 0, 0, -INFINITY}},
      {mt_floor, {NAN, INFINITY, -INFINITY, 0}},
      {mt_ceil, {NAN, INFINITY, -INFINITY, 0}},
      {mt_round, {NAN, INFINITY, -INFINITY, 0}},
      {mt_neg, {NAN, -INFINITY, INFINITY, 0}},
      {mt_abs, {NAN, INFINITY, INFINITY, 0}},
  };
  for (size_t k = 0; k < COUNT(rows); k++) {
    mt_tensor *out = NULL;
    ck_ok(rows[k].fn(rt, x, &out));
    check_values(out, rows[k].want);
    drop(out);
  }
  drop(x);
}
END_TEST

START_TEST(test_round_and_sign) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(8), VALUES(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 8388609, -0.25));
  mt_tensor *out = NULL, *n = make(MT_I8, 1, SHAPE(4), VALUES(-128, 127, -1, 0)), *minus = NULL;
  mt_tensor *u = make(MT_U8, 1, SHAPE(2), VALUES(1, 0)), *magnitude = NULL, *wrapped = NULL;
  ck_ok(mt_round(rt, x, &out));
  check_values(out, VALUES(0, 2, 2, 0, -2, -2, 8388609, 0));
  ck_assert(signbit(at(out, 3)) && signbit(at(out, 7)));
  ck_ok(mt_neg(rt, n, &minus));
  check_values(minus, VALUES(-128, -127, 1, 0));
  ck_ok(mt_abs(rt, n, &magnitude));
  check_values(magnitude, VALUES(-128, 127, 1, 0));
  ck_ok(mt_neg(rt, u, &wrapped));
  check_values(wrapped, VALUES(255, 0));
  drop(x), drop(out), drop(n), drop(minus), drop(u), drop(magnitude), drop(wrapped);
}
END_TEST

/* sin of a large float is right: the argument is reduced with all its digits. */
START_TEST(test_large_angles) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(3), VALUES(1e6, 3e38f, 12345678)), *out = NULL;
  ck_ok(mt_sin(rt, x, &out));
  for (int i = 0; i < 3; i++) {
    check_value(at(out, i), (double)(float)sinl((long double)at(x, i)), i);
  }
  drop(x), drop(out);
}
END_TEST

START_TEST(test_scale) {
  mt_tensor *x = arrange(MT_F32, 2, SHAPE(2, 2), VALUES(1, -2, 3, 0.1f), NEGATIVE), *out = NULL;
  ck_ok(mt_scale(rt, x, 1.0 / 3, &out));
  check_values(out, VALUES((float)(1.0 / 3), (float)(-2.0 / 3), 1, (float)((double)0.1f / 3)));
  mt_tensor *half = make(MT_F16, 1, SHAPE(2), VALUES(1, 60000)), *twice = NULL;
  ck_ok(mt_scale(rt, half, 2, &twice));
  check_values(twice, VALUES(2, INFINITY));
  drop(x), drop(out), drop(half), drop(twice);
}
END_TEST

/* The result is rounded once: 1 + 2^-11 + 2^-30 is above the middle in f16, but f32 would
 * put it on the middle, and then to even. */
START_TEST(test_rounds_once) {
  mt_tensor *x = make(MT_F16, 0, NULL, VALUES(1)), *out = NULL;
  ck_ok(mt_scale(rt, x, 1 + 0x1p-11 + 0x1p-30, &out));
  check_value(at(out, 0), 1 + 0x1p-10, 0);
  ck_ok(mt_scale(rt, x, 1 + 0x1p-11, &out));
  check_value(at(out, 0), 1, 0);
  mt_tensor *y = make(MT_BF16, 0, NULL, VALUES(-1)), *less = NULL;
  ck_ok(mt_scale(rt, y, 1 + 0x1p-8 + 0x1p-40, &less));
  check_value(at(less, 0), -1 - 0x1p-7, 0);
  drop(x), drop(out), drop(y), drop(less);
}
END_TEST

/* ---- empty, scalars, outputs ---------------------------------------------------------------- */

START_TEST(test_empty_and_scalar) {
  mt_tensor *empty = make(MT_F32, 2, SHAPE(0, 3), NULL), *one = make(MT_F32, 0, NULL, VALUES(4));
  mt_tensor *row = make(MT_F32, 2, SHAPE(1, 1), VALUES(1)), *out = NULL, *root = NULL, *none = NULL;
  ck_ok(mt_add(rt, empty, row, &out));
  check_shape(out, MT_F32, 2, SHAPE(0, 3));
  ck_ok(mt_sqrt(rt, one, &root));
  check_shape(root, MT_F32, 0, NULL);
  check_value(at(root, 0), 2, 0);
  ck_ok(mt_exp(rt, empty, &none));
  check_shape(none, MT_F32, 2, SHAPE(0, 3));
  drop(empty), drop(one), drop(row), drop(out), drop(root), drop(none);
}
END_TEST

START_TEST(test_in_place) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 2), VALUES(1, -2, 3, -4)), *out = x;
  ck_ok(mt_relu(rt, x, &out));
  check_values(x, VALUES(1, 0, 3, 0));
  ck_ok(mt_add(rt, x, x, &out));
  check_values(x, VALUES(2, 0, 6, 0));
  mt_tensor *turned = NULL, *first = NULL, *target = x;
  ck_ok(mt_tensor_transpose(x, 0, 1, &turned));
  ck_fails(mt_add(rt, turned, x, &target), MT_ERR_INVALID_ARGUMENT,
           "add: out overlaps input 0, f32[2, 2]");
  ck_ok(mt_tensor_slice(x, 0, 0, 1, 1, &first));
  ck_fails(mt_add(rt, x, first, &target), MT_ERR_INVALID_ARGUMENT, "overlaps input 1");
  ck_assert_ptr_eq(target, x);
  check_values(x, VALUES(2, 0, 6, 0)); /* nothing was written */
  drop(x), drop(turned), drop(first);
}
END_TEST

START_TEST(test_bad_outputs) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(3), VALUES(1, 2, 3)),
            *one = make(MT_F32, 1, SHAPE(1), VALUES(1));
  mt_tensor *wide = NULL, *f64 = make(MT_F64, 1, SHAPE(3), VALUES(0, 0, 0)), *frozen = NULL;
  mt_tensor *longer = make(MT_F32, 1, SHAPE(4), VALUES(0, 0, 0, 0));
  ck_ok(mt_tensor_broadcast(one, 1, SHAPE(3), &wide));
  ck_fails(mt_relu(rt, x, &wide), MT_ERR_INVALID_ARGUMENT, "relu: f32[3] cannot be written");
  ck_fails(mt_relu(rt, x, &f64), MT_ERR_INVALID_ARGUMENT, "relu: out is f64[3]: expected f32[3]");
  ck_fails(mt_relu(rt, x, &longer), MT_ERR_INVALID_ARGUMENT, "out is f32[4]: expected f32[3]");
  frozen = make(MT_F32, 1, SHAPE(3), VALUES(0, 0, 0));
  ck_ok(mt_tensor_freeze(frozen));
  ck_fails(mt_relu(rt, x, &frozen), MT_ERR_INVALID_ARGUMENT, "frozen");
  drop(x), drop(one), drop(wide), drop(f64), drop(frozen), drop(longer);
}
END_TEST

START_TEST(test_errors) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(3), VALUES(1, 2, 3)),
            *y = make(MT_F64, 1, SHAPE(3), VALUES(1, 2, 3));
  mt_tensor *two = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)),
            *flag = make(MT_BOOL, 1, SHAPE(3), VALUES(1, 0, 1));
  mt_tensor *n = make(MT_I32, 1, SHAPE(3), VALUES(1, 0, 1)), *out = NULL, *blocks = NULL;
  ck_ok(mt_quantize(rt, x, mt_format_find("q8_0"), &blocks));
  ck_fails(mt_add(NULL, x, x, &out), MT_ERR_INVALID_ARGUMENT, "add: rt is NULL");
  ck_fails(mt_add(rt, NULL, x, &out), MT_ERR_INVALID_ARGUMENT, "add: a is NULL");
  ck_fails(mt_add(rt, x, NULL, &out), MT_ERR_INVALID_ARGUMENT, "add: b is NULL");
  ck_fails(mt_add(rt, x, x, NULL), MT_ERR_INVALID_ARGUMENT, "add: out is NULL");
  ck_fails(mt_add(rt, x, y, &out), MT_ERR_INVALID_ARGUMENT,
           "add: a f32[3] and b f64[3]: dtypes differ");
  ck_fails(mt_mul(rt, flag, flag, &out), MT_ERR_INVALID_ARGUMENT, "mul: a bool[3]");
  ck_fails(mt_mul(rt, blocks, blocks, &out), MT_ERR_INVALID_ARGUMENT, "mul: a q8_0[3]");
  ck_fails(mt_sub(rt, x, two, &out), MT_ERR_INVALID_ARGUMENT,
           "sub: a f32[3] and b f32[2] do not broadcast: 3 and 2");
  ck_fails(mt_relu(rt, n, &out), MT_ERR_INVALID_ARGUMENT, "relu: x i32[3]: expected f32");
  ck_fails(mt_gelu(rt, blocks, &out), MT_ERR_INVALID_ARGUMENT, "gelu: x q8_0[3]");
  ck_fails(mt_scale(rt, NULL, 2, &out), MT_ERR_INVALID_ARGUMENT, "scale: x is NULL");
  ck_assert_ptr_null(out);
  drop(x), drop(y), drop(two), drop(flag), drop(n), drop(blocks);
}
END_TEST

/* Broadcast to a size that fits nowhere. */
START_TEST(test_overflow) {
  static float zero;
  int64_t huge = INT64_C(1) << 40;
  mt_tensor *column = NULL, *row = NULL, *out = NULL;
  ck_ok(mt_tensor_wrap(&zero, MT_F32, 2, SHAPE(huge, 1), SHAPE(0, 0), NULL, NULL, &column));
  ck_ok(mt_tensor_wrap(&zero, MT_F32, 2, SHAPE(1, huge), SHAPE(0, 0), NULL, NULL, &row));
  ck_fails(mt_add(rt, column, row, &out), MT_ERR_INVALID_ARGUMENT, "does not fit in 63 bits");
  ck_assert_ptr_null(out);
  drop(column), drop(row);
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_binary_layouts, test_broadcast,      test_long,
                          test_integer_edges,  test_narrow_edges,   test_float_specials,
                          test_unary,          test_unary_specials, test_scale,
                          test_rounds_once,    test_in_place,       test_empty_and_scalar,
                          test_round_and_sign, test_large_angles,   test_bad_outputs,
                          test_errors,         test_overflow};
  return run_ops_tests("ops_elementwise", tests, COUNT(tests), setup, teardown);
}
