// SPDX-License-Identifier: Apache-2.0
/* matmul on the reference, against three loops in long double. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

enum { M = 70, N = 37, K = 41 }; /* neither fits the kernel's tiles */

static double a_values[M * K], b_values[K * N], product[M * N];

static void fill(void) {
  ramp(a_values, M * K, 9, -4);
  ramp(b_values, K * N, 7, -3);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      long double sum = 0;
      for (int k = 0; k < K; k++) {
        sum += (long double)a_values[i * K + k] * b_values[k * N + j];
      }
      product[i * N + j] = (double)sum;
    }
  }
}

/* values[rows][cols] as [cols][rows] */
static mt_tensor *turned(mt_dtype dtype, const double *values, int rows, int cols, layout how) {
  static double t[M * K];
  for (int i = 0; i < rows * cols; i++) {
    t[i % cols * rows + i / cols] = values[i];
  }
  return arrange(dtype, 2, SHAPE(cols, rows), t, how);
}

/* Whole numbers, so every dtype has the exact result before it rounds. */
START_TEST(test_dtypes_and_layouts) {
  double want[M * N];
  fill();
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_dtype dtype = float_types[d];
    for (int i = 0; i < M * N; i++) {
      want[i] = round_to(dtype, product[i]);
    }
    for (int how = 0; how < 4 * LAYOUTS; how++) {
      layout la = (layout)(how % LAYOUTS), lb = (layout)((how + 1) % LAYOUTS);
      mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
      options.trans_a = how / LAYOUTS & 1;
      options.trans_b = how / LAYOUTS >> 1;
      mt_tensor *out = NULL;
      mt_tensor *a = options.trans_a ? turned(dtype, a_values, M, K, la)
                                     : arrange(dtype, 2, SHAPE(M, K), a_values, la);
      mt_tensor *b = options.trans_b ? turned(dtype, b_values, K, N, lb)
                                     : arrange(dtype, 2, SHAPE(K, N), b_values, lb);
      ck_ok(mt_matmul(rt, a, b, &options, &out));
      check_shape(out, dtype, 2, SHAPE(M, N));
      check_values(out, want);
      mt_tensor *given = blank(dtype, 2, SHAPE(M, N), (layout)((how + 2) % LAYOUTS));
      ck_ok(mt_matmul(rt, a, b, &options, &given));
      check_values(given, want);
      drop(a), drop(b), drop(out), drop(given);
    }
  }
}
END_TEST

/* The sum is in double and rounded once: f32 would lose the 1. */
START_TEST(test_precision) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(1, 3), VALUES(1e8, 1, -1e8)), *out = NULL;
  mt_tensor *b = make(MT_F32, 2, SHAPE(3, 1), VALUES(1, 1, 1));
  ck_ok(mt_matmul(rt, a, b, NULL, &out));
  check_value(at(out, 0), 1, 0);
  mt_tensor *h = make(MT_F16, 2, SHAPE(1, 3), VALUES(1, 0x1p-11, 0x1p-20)), *sum = NULL;
  mt_tensor *ones = make(MT_F16, 2, SHAPE(3, 1), VALUES(1, 1, 0x1p-10));
  ck_ok(mt_matmul(rt, h, ones, NULL, &sum));
  check_value(at(sum, 0), 1 + 0x1p-10, 0); /* a hair above the middle */
  drop(a), drop(b), drop(out), drop(h), drop(ones), drop(sum);
}
END_TEST

/* ---- alpha, beta, bias, activation --------------------------------------------------------- */

static long double activate(mt_activation act, long double x) {
  switch (act) {
  case MT_ACT_RELU: return x > 0 ? x : 0;
  case MT_ACT_GELU: return x / 2 * erfcl(-x / sqrtl(2));
  case MT_ACT_GELU_TANH:
    return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
  case MT_ACT_SILU: return x / (1 + expl(-x));
  default: return x;
  }
}

START_TEST(test_epilogue) {
  static const int ranks[] = {0, 1, 2, 2};
  const int64_t shapes[][2] = {{0, 0}, {N, 0}, {M, 1}, {M, N}};
  double bias[M * N], before[M * N], want[M * N];
  fill();
  ramp(bias, M * N, 11, -5);
  ramp(before, M * N, 5, -2);
  for (int kind = 0; kind < 4; kind++) {
    for (int act = MT_ACT_NONE; act <= MT_ACT_SILU; act++) {
      mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
      options.alpha = 0.0625;
      options.beta = act % 2 ? -0.5 : 0;
      options.activation = (mt_activation)act;
      options.bias = arrange(MT_F64, ranks[kind], shapes[kind], bias, (layout)act);
      for (int i = 0; i < M * N; i++) {
        int from = kind == 0 ? 0 : kind == 1 ? i % N : kind == 2 ? i / N : i;
        long double x = options.alpha * product[i] + options.beta * before[i] + bias[from];
        want[i] = (double)activate(options.activation, x);
      }
      mt_tensor *a = make(MT_F64, 2, SHAPE(M, K), a_values);
      mt_tensor *b = make(MT_F64, 2, SHAPE(K, N), b_values);
      mt_tensor *out = arrange(MT_F64, 2, SHAPE(M, N), before, (layout)(4 - act));
      ck_ok(mt_matmul(rt, a, b, &options, &out));
      check_near(out, want, 1e-12);
      drop(a), drop(b), drop(out), drop(options.bias);
    }
  }
}
END_TEST

START_TEST(test_beta_zero_does_not_read) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(1, 1), VALUES(2)),
            *out = make(MT_F32, 2, SHAPE(1, 1), VALUES(NAN));
  ck_ok(mt_matmul(rt, a, a, NULL, &out));
  check_value(at(out, 0), 4, 0);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.beta = 3;
  ck_ok(mt_matmul(rt, a, a, &options, &out));
  check_value(at(out, 0), 16, 0);
  drop(a), drop(out);
}
END_TEST

START_TEST(test_nan) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(2, 2), VALUES(0, NAN, 0, 1)), *out = NULL;
  mt_tensor *b = make(MT_F32, 2, SHAPE(2, 2), VALUES(INFINITY, 1, 0, 2));
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.activation = MT_ACT_RELU;
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  check_values(out, VALUES(NAN, NAN, NAN, 2)); /* 0 * inf is NaN, too */
  drop(a), drop(b), drop(out);
}
END_TEST

START_TEST(test_older_options) {
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  mt_tensor *a = make(MT_F32, 2, SHAPE(1, 2), VALUES(1, 2)), *out = NULL;
  options.trans_b = 1;
  options.alpha = -1;
  options.activation = MT_ACT_RELU;
  options.bias = (mt_tensor *)&options; /* past what the caller knows: not looked at */
  options.struct_size = offsetof(mt_matmul_options, bias);
  ck_ok(mt_matmul(rt, a, a, &options, &out));
  check_value(at(out, 0), -5, 0);
  options.struct_size = 0;
  ck_fails(mt_matmul(rt, a, a, &options, &out), MT_ERR_INVALID_ARGUMENT, "options.struct_size 0");
  drop(a), drop(out);
}
END_TEST

/* ---- batches ------------------------------------------------------------------------------- */

static char last_log[512];

static void keep_log(void *user, mt_log_level level, const char *topic, const char *message) {
  (void)user, (void)level;
  if (strcmp(topic, "dispatch") == 0) {
    snprintf(last_log, sizeof(last_log), "%s", message);
  }
}

static mt_runtime *logging_runtime(void) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *logging = NULL;
  options.backend = "reference";
  options.log = "dispatch";
  options.log_fn = keep_log;
  ck_ok(mt_runtime_create(&options, &logging));
  return logging;
}

START_TEST(test_batch_broadcast) {
  double x[2 * 1 * 3 * 4], y[5 * 4 * 2], want[2 * 5 * 3 * 2];
  ramp(x, COUNT(x), 11, -5);
  ramp(y, COUNT(y), 13, -6);
  for (size_t i = 0; i < COUNT(want); i++) {
    const double *row = x + (i / 30 * 3 + i / 2 % 3) * 4, *column = y + i / 6 % 5 * 8 + i % 2;
    want[i] = 0;
    for (int k = 0; k < 4; k++) {
      want[i] += row[k] * column[k * 2];
    }
  }
  for (int how = 0; how < LAYOUTS; how++) {
    mt_tensor *a = arrange(MT_F32, 4, SHAPE(2, 1, 3, 4), x, (layout)how), *out = NULL;
    mt_tensor *b = arrange(MT_F32, 3, SHAPE(5, 4, 2), y, (layout)((how + 3) % LAYOUTS));
    ck_ok(mt_matmul(rt, a, b, NULL, &out));
    check_shape(out, MT_F32, 4, SHAPE(2, 5, 3, 2));
    check_values(out, want);
    drop(a), drop(b), drop(out);
  }
}
END_TEST

/* [2, 5, 3, 4] times one [4, 2], a batch in some layout, a bias, an output in some layout. */
static void check_one_right(mt_runtime *on, layout how, layout out_how, const char *seen) {
  double x[120], y[8], want[60];
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.bias = make(MT_F32, 1, SHAPE(2), VALUES(100, 200));
  ramp(x, 120, 11, -5);
  ramp(y, 8, 13, -6);
  for (int i = 0; i < 60; i++) {
    want[i] = i % 2 ? 200 : 100;
    for (int k = 0; k < 4; k++) {
      want[i] += x[i / 2 * 4 + k] * y[k * 2 + i % 2];
    }
  }
  mt_tensor *a = arrange(MT_F32, 4, SHAPE(2, 5, 3, 4), x, how);
  mt_tensor *b = make(MT_F32, 2, SHAPE(4, 2), y),
            *out = blank(MT_F32, 4, SHAPE(2, 5, 3, 2), out_how);
  ck_ok(mt_matmul(on, a, b, &options, &out));
  check_values(out, want);
  ck_assert_msg(strstr(last_log, seen) != NULL, "no '%s' in '%s'", seen, last_log);
  drop(a), drop(b), drop(out), drop(options.bias);
}

START_TEST(test_batch_becomes_rows) {
  mt_runtime *logging = logging_runtime();
  check_one_right(logging, PACKED, PACKED, "f32[30, 4], f32[4, 2], f32[30, 2]");
  check_one_right(logging, MISALIGNED, NEGATIVE, "f32[30, 4], f32[4, 2]");
  check_one_right(logging, TRANSPOSED, PACKED, "f32[2, 5, 3, 4], f32[4, 2], f32[2, 5, 3, 2]");
  check_one_right(logging, PACKED, SLICED, "f32[2, 5, 3, 4], f32[4, 2]");
  mt_runtime_release(&logging);
}
END_TEST

START_TEST(test_right_batch_of_one) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(1, 2), VALUES(1, 2)), *out = NULL;
  mt_tensor *b = make(MT_F32, 4, SHAPE(1, 1, 2, 2), VALUES(1, 2, 3, 4));
  ck_ok(mt_matmul(rt, a, b, NULL, &out));
  check_shape(out, MT_F32, 4, SHAPE(1, 1, 1, 2));
  check_values(out, VALUES(7, 10));
  drop(a), drop(b), drop(out);
}
END_TEST

START_TEST(test_empty) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(2, 0), NULL), *b = make(MT_F32, 2, SHAPE(0, 3), NULL);
  mt_tensor *out = NULL, *none = NULL, *batch = NULL;
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  ck_ok(mt_matmul(rt, a, b, NULL, &out));
  check_shape(out, MT_F32, 2, SHAPE(2, 3));
  check_values(out, VALUES(0, 0, 0, 0, 0, 0));
  options.bias = make(MT_F32, 0, NULL, VALUES(-1));
  options.beta = 1;
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  check_values(out, VALUES(-2, -2, -2, -2, -2, -2));
  mt_tensor *wide = make(MT_F32, 2, SHAPE(0, 3), NULL), *tall = make(MT_F32, 2, SHAPE(3, 0), NULL);
  ck_ok(mt_matmul(rt, wide, tall, NULL, &none));
  check_shape(none, MT_F32, 2, SHAPE(0, 0));
  mt_tensor *empty = make(MT_F32, 3, SHAPE(0, 4, 2), NULL);
  ck_ok(mt_matmul(rt, empty, a, NULL, &batch));
  check_shape(batch, MT_F32, 3, SHAPE(0, 4, 0));
  drop(a), drop(b), drop(out), drop(none), drop(batch), drop(empty), drop(options.bias), drop(wide),
      drop(tall);
}
END_TEST

/* ---- block formats --------------------------------------------------------------------------- */

/* The same numbers, in blocks and decoded: the reference has exactly the same result. */
static void check_blocks(int batch, int64_t k, bool given_scaled) {
  static double x[3 * 5 * 300], w[3 * 7 * 300];
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  mt_tensor *blocks = NULL, *decoded = NULL, *out = NULL, *want = NULL;
  options.trans_b = 1;
  options.alpha = given_scaled ? 0.5 : 1;
  for (int i = 0; i < 3 * 5 * 300; i++) {
    x[i] = sin(i);
  }
  for (int i = 0; i < 3 * 7 * 300; i++) {
    w[i] = cos(3 * i);
  }
  mt_tensor *a = make(MT_F32, 3, SHAPE(3, 5, k), x);
  mt_tensor *plain =
      batch ? make(MT_F32, 3, SHAPE(batch, 7, k), w) : make(MT_F32, 2, SHAPE(7, k), w);
  ck_ok(mt_quantize(rt, plain, mt_format_find("q8_0"), &blocks));
  ck_ok(mt_cast(rt, blocks, MT_F32, &decoded));
  ck_ok(mt_matmul(rt, a, blocks, &options, &out));
  ck_ok(mt_matmul(rt, a, decoded, &options, &want));
  check_shape(out, MT_F32, 3, SHAPE(3, 5, 7));
  for (int i = 0; i < 3 * 5 * 7; i++) {
    check_value(at(out, i), at(want, i), i);
  }
  drop(a), drop(plain), drop(blocks), drop(decoded), drop(out), drop(want);
}

START_TEST(test_blocks) {
  check_blocks(0, 300, false);
  check_blocks(0, 32, true);
  check_blocks(0, 1, false);
  check_blocks(1, 65, false);
  check_blocks(3, 257, true);
}
END_TEST

/* A part of the inner axis, and weights in a batch that a repeats. */
START_TEST(test_block_views) {
  double w[2 * 3 * 96], x[64];
  mt_tensor *blocks = NULL, *part = NULL, *decoded = NULL, *out = NULL, *want = NULL;
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_b = 1;
  ramp(w, COUNT(w), 31, -15);
  ramp(x, 64, 5, -2);
  mt_tensor *plain = make(MT_F32, 3, SHAPE(2, 3, 96), w), *a = make(MT_F32, 2, SHAPE(1, 64), x);
  ck_ok(mt_quantize(rt, plain, mt_format_find("q8_0"), &blocks));
  ck_ok(mt_tensor_slice(blocks, 2, 32, 96, 1, &part));
  ck_ok(mt_cast(rt, part, MT_F32, &decoded));
  ck_ok(mt_matmul(rt, a, part, &options, &out));
  ck_ok(mt_matmul(rt, a, decoded, &options, &want));
  check_shape(out, MT_F32, 3, SHAPE(2, 1, 3));
  for (int i = 0; i < 6; i++) {
    check_value(at(out, i), at(want, i), i);
  }
  drop(plain), drop(a), drop(blocks), drop(part), drop(decoded), drop(out), drop(want);
}
END_TEST

START_TEST(test_block_errors) {
  double w[4 * 32] = {0};
  mt_tensor *plain = make(MT_F32, 2, SHAPE(4, 32), w), *blocks = NULL, *out = NULL;
  mt_tensor *a = make(MT_F32, 2, SHAPE(32, 4), w), *h = make(MT_F16, 2, SHAPE(4, 32), w);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_b = 1;
  ck_ok(mt_quantize(rt, plain, mt_format_find("q8_0"), &blocks));
  ck_fails(mt_matmul(rt, a, blocks, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "b q8_0[4, 32] has its blocks along axis 1: expected along the inner axis, 0");
  ck_fails(mt_matmul(rt, h, blocks, &options, &out), MT_ERR_INVALID_ARGUMENT, "has to be f32");
  ck_fails(mt_matmul(rt, blocks, a, NULL, &out), MT_ERR_INVALID_ARGUMENT, "a has to be f32, f64");
  drop(plain), drop(blocks), drop(a), drop(h);
}
END_TEST

/* ---- errors -------------------------------------------------------------------------------- */

START_TEST(test_errors) {
  mt_tensor *a = blank(MT_F32, 2, SHAPE(5, 10), PACKED), *b = blank(MT_F32, 2, SHAPE(9, 2), PACKED);
  mt_tensor *row = blank(MT_F32, 1, SHAPE(10), PACKED),
            *f64 = blank(MT_F64, 2, SHAPE(10, 2), PACKED);
  mt_tensor *n = blank(MT_I32, 2, SHAPE(10, 2), PACKED),
            *fits = blank(MT_F32, 2, SHAPE(10, 2), PACKED);
  mt_tensor *two = blank(MT_F32, 3, SHAPE(2, 5, 10), PACKED), *out = NULL;
  mt_tensor *three = blank(MT_F32, 3, SHAPE(3, 10, 2), PACKED);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  ck_fails(mt_matmul(NULL, a, fits, NULL, &out), MT_ERR_INVALID_ARGUMENT, "matmul: rt is NULL");
  ck_fails(mt_matmul(rt, NULL, fits, NULL, &out), MT_ERR_INVALID_ARGUMENT, "matmul: a is NULL");
  ck_fails(mt_matmul(rt, a, NULL, NULL, &out), MT_ERR_INVALID_ARGUMENT, "matmul: b is NULL");
  ck_fails(mt_matmul(rt, a, fits, NULL, NULL), MT_ERR_INVALID_ARGUMENT, "matmul: out is NULL");
  ck_fails(mt_matmul(rt, a, b, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "matmul: a f32[5, 10] and b f32[9, 2]: inner extents 10 and 9 differ");
  ck_fails(mt_matmul(rt, row, fits, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "matmul: a f32[10]: expected rank 2 or more");
  ck_fails(mt_matmul(rt, a, f64, NULL, &out), MT_ERR_INVALID_ARGUMENT, "dtypes differ");
  ck_fails(mt_matmul(rt, n, n, NULL, &out), MT_ERR_INVALID_ARGUMENT, "a has to be f32");
  ck_fails(mt_matmul(rt, two, three, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "a f32[2, 5, 10] and b f32[3, 10, 2] do not broadcast: 2 and 3");
  options.beta = 0.5;
  ck_fails(mt_matmul(rt, a, fits, &options, &out), MT_ERR_INVALID_ARGUMENT,
           "beta 0.5 but *out is NULL");
  options.beta = 0;
  options.activation = (mt_activation)5;
  ck_fails(mt_matmul(rt, a, fits, &options, &out), MT_ERR_INVALID_ARGUMENT,
           "activation 5: expected 0 .. 4");
  options.activation = MT_ACT_NONE;
  options.bias = row;
  ck_fails(mt_matmul(rt, a, fits, &options, &out), MT_ERR_INVALID_ARGUMENT,
           "bias f32[10] does not broadcast to the result f32[5, 2]");
  options.bias = f64;
  ck_fails(mt_matmul(rt, a, fits, &options, &out), MT_ERR_INVALID_ARGUMENT,
           "bias f64[10, 2]: expected f32");
  ck_assert_ptr_null(out);
  drop(a), drop(b), drop(row), drop(f64), drop(n), drop(fits), drop(two), drop(three);
}
END_TEST

START_TEST(test_outputs) {
  mt_tensor *a = blank(MT_F32, 2, SHAPE(4, 4), PACKED), *out = a, *part = NULL;
  mt_tensor *wrong = blank(MT_F32, 2, SHAPE(4, 3), PACKED);
  ck_fails(mt_matmul(rt, a, a, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "matmul: out overlaps input 0");
  ck_fails(mt_matmul(rt, a, a, NULL, &wrong), MT_ERR_INVALID_ARGUMENT,
           "matmul: out is f32[4, 3]: expected f32[4, 4]");
  mt_tensor *other = blank(MT_F32, 2, SHAPE(4, 4), PACKED),
            *to = blank(MT_F32, 2, SHAPE(4, 4), PACKED);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  ck_ok(mt_tensor_slice(to, 0, 0, 1, 1, &part));
  options.bias = part;
  ck_fails(mt_matmul(rt, a, other, &options, &to), MT_ERR_INVALID_ARGUMENT, "out overlaps input 2");
  drop(a), drop(wrong), drop(other), drop(to), drop(part);
}
END_TEST

START_TEST(test_overflow) {
  static float zero;
  int64_t huge = INT64_C(1) << 35;
  mt_tensor *a = NULL, *b = NULL, *out = NULL;
  ck_ok(mt_tensor_wrap(&zero, MT_F32, 2, SHAPE(huge, 1), SHAPE(0, 0), NULL, NULL, &a));
  ck_ok(mt_tensor_wrap(&zero, MT_F32, 2, SHAPE(1, huge), SHAPE(0, 0), NULL, NULL, &b));
  ck_fails(mt_matmul(rt, a, b, NULL, &out), MT_ERR_INVALID_ARGUMENT, "does not fit in 63 bits");
  ck_assert_ptr_null(out);
  drop(a), drop(b);
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_dtypes_and_layouts,
                          test_precision,
                          test_epilogue,
                          test_beta_zero_does_not_read,
                          test_nan,
                          test_older_options,
                          test_batch_broadcast,
                          test_batch_becomes_rows,
                          test_right_batch_of_one,
                          test_empty,
                          test_blocks,
                          test_block_views,
                          test_block_errors,
                          test_errors,
                          test_outputs,
                          test_overflow};
  return run_ops_tests("ops_matmul", tests, COUNT(tests), setup, teardown);
}
