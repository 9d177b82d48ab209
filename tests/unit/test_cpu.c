// SPDX-License-Identifier: Apache-2.0
/*
 * test_cpu.c - what conformance does not ask of the CPU backends: the accuracy that is
 * documented, and the same bits on any number of threads.
 *
 * Each test runs once for each backend; nothing is tested where it cannot run (no AVX-512).
 */
#include "harness.h"

#include <math.h>
#include <mecantensor/mecantensor.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static const char *const backends[] = {"cpu-avx2", "cpu-avx512"};
enum { BACKENDS = sizeof(backends) / sizeof(backends[0]) };

static mt_runtime *open_backend(int backend) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backends[backend];
  mt_runtime *rt = NULL;
  mt_status status = mt_runtime_create(&options, &rt);
  if (status != MT_OK) {
    ck_assert_int_eq(status, MT_ERR_NOT_FOUND);
  }
  return rt;
}

/* ---- accuracy ---- */
enum { LINE = 4096 };

/* Of LINE floats; sanitizers look at memory and threads, not at values. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LINES = 4 };
#else
enum { LINES = 64 };
#endif

static double gelu(double x) {
  return x / 2 * erfc(-x / sqrt(2));
}

static double gelu_tanh(double x) {
  double u = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return x / (1 + exp(-2 * u));
}

static double silu(double x) {
  return x / (1 + exp(-x));
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double rsqrt(double x) {
  return 1 / sqrt(x);
}

static double reciprocal(double x) {
  return 1 / x;
}

typedef mt_status unary_op(mt_runtime *rt, mt_tensor *x, mt_tensor **out);

typedef struct accuracy {
  const char *name;
  unary_op *op;
  double (*exact)(double);
  double ulp; /* docs/accuracy.md */
} accuracy;

static const accuracy table[] = {
    {"exp", mt_exp, exp, 1.0},
    {"log", mt_log, log, 0.8},
    {"tanh", mt_tanh, tanh, 1.4},
    {"sigmoid", mt_sigmoid, sigmoid, 2.4},
    {"silu", mt_silu, silu, 3.4},
    {"gelu", mt_gelu, gelu, 6.0},
    {"gelu_tanh", mt_gelu_tanh, gelu_tanh, 3.6},
    {"sqrt", mt_sqrt, sqrt, 0.5001},
    {"sin", mt_sin, sin, 1.5},
    {"cos", mt_cos, cos, 1.5},
    {"erf", mt_erf, erf, 2.8},
    {"rsqrt", mt_rsqrt, rsqrt, 1.5},
    {"reciprocal", mt_reciprocal, reciprocal, 0.5001},
};

/* The unit in the last place of the float nearest to x */
static double unit_of(double x) {
  int exponent;
  if (fabs(x) < 0x1p-126) {
    return 0x1p-149;
  }
  frexp(x, &exponent);
  return ldexp(1, exponent - 24);
}

static void check_value(const accuracy *a, float x, float got) {
  double exact = a->exact(x);
  float nearest = (float)exact;
  if (isnan(nearest) || isnan(got)) {
    ck_assert_msg(isnan(nearest) && isnan(got), "%s(%a) = %a, not %a", a->name, (double)x,
                  (double)got, exact);
    return;
  }
  if (isinf(nearest) || isinf(got)) {
    ck_assert_msg(got == nearest || fabs(exact) > 3.4028e38, "%s(%a) = %a, not %a", a->name,
                  (double)x, (double)got, exact);
    return;
  }
  ck_assert_msg(got != 0 || nearest != 0 || signbit(got) == signbit(nearest), "%s(%a) = %a, not %a",
                a->name, (double)x, (double)got, exact);
  double error = fabs((double)got - exact) / unit_of(exact);
  ck_assert_msg(error <= a->ulp, "%s(%a) = %a, not %a: off by %.2f ulp", a->name, (double)x,
                (double)got, exact, error);
}

/* Floats of every sign and exponent, -0, denormals, infinities and NaN among them */
START_TEST(test_accuracy) {
  mt_runtime *rt = open_backend(_i % BACKENDS);
  const accuracy *a = &table[_i / BACKENDS];
  int64_t shape[1] = {LINE};
  float x[LINE], y[LINE];
  uint32_t bits = 0;
  for (int line = 0; rt && line < LINES; line++) {
    for (int i = 0; i < LINE; i++) {
      memcpy(&x[i], &bits, sizeof(bits));
      bits += 16381; /* prime: 2^32 is passed once */
    }
    x[0] = line == 0 ? -0.0f : x[0];
    mt_tensor *in = NULL, *out = NULL;
    ck_ok(mt_tensor_from_data(MT_F32, 1, shape, x, &in));
    ck_ok(a->op(rt, in, &out));
    ck_ok(mt_tensor_get(out, y, sizeof(y)));
    for (int i = 0; i < LINE; i++) {
      check_value(a, x[i], y[i]);
    }
    mt_tensor_release(&in);
    mt_tensor_release(&out);
  }
  mt_runtime_release(&rt);
}
END_TEST

/* ---- threads ---- */
enum { RESULTS = 15 };

static void fill(mt_tensor *tensor, uint32_t seed) {
  void *data;
  ck_ok(mt_tensor_write(tensor, &data));
  float *values = data;
  for (int64_t i = 0; i < mt_tensor_elements(tensor); i++) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-31f;
  }
}

static mt_tensor *make(int64_t rows, int64_t cols, uint32_t seed) {
  int64_t shape[2] = {rows, cols};
  mt_tensor *tensor = NULL;
  ck_ok(mt_tensor_create(MT_F32, 2, shape, &tensor));
  fill(tensor, seed);
  return tensor;
}

/* out[0 .. count-1]: results of ops that are spread over threads in different ways */
static mt_tensor *reshaped(mt_tensor *t, int rank, const int64_t *shape) {
  mt_tensor *out = NULL;
  ck_ok(mt_tensor_reshape(t, rank, shape, &out));
  return out;
}

/* Operations of nn.h, on the numbers of a (700 x 600) and weights (500 x 600). */
static void compute_nn(mt_runtime *rt, mt_tensor *a, mt_tensor *weights, mt_tensor **out) {
  mt_tensor *filters = make(24, 36, 6), *half = NULL, *half_weights = NULL, *bytes = NULL;
  mt_tensor *image = reshaped(a, 4, (const int64_t[]){1, 4, 350, 300});
  mt_tensor *filter = reshaped(filters, 4, (const int64_t[]){24, 4, 3, 3});
  mt_tensor *heads = reshaped(a, 4, (const int64_t[]){2, 7, 500, 60}), *variance = NULL;
  mt_tensor *mean = NULL;
  mt_matmul_options transposed = MT_MATMUL_OPTIONS_INIT;
  mt_attention_options causal = MT_ATTENTION_OPTIONS_INIT;
  transposed.trans_b = 1;
  causal.causal = 1;
  ck_ok(mt_cast(rt, a, MT_F16, &half));
  ck_ok(mt_cast(rt, weights, MT_F16, &half_weights));
  ck_ok(mt_scale(rt, a, 100, &mean));
  ck_ok(mt_cast(rt, mean, MT_I8, &bytes));
  mt_tensor_release(&mean);
  ck_ok(mt_conv2d(rt, image, filter, NULL, NULL, &out[0]));
  ck_ok(mt_attention(rt, heads, heads, heads, &causal, &out[1]));
  ck_ok(mt_matmul(rt, half, half_weights, &transposed, &out[2]));
  ck_ok(mt_matmul(rt, bytes, bytes, &transposed, &out[3]));
  ck_ok(mt_layer_norm(rt, a, 1, NULL, NULL, 1e-5, &out[4]));
  ck_ok(mt_batch_norm_train(rt, image, NULL, NULL, 1e-5, 1, &out[5], &mean, &variance));
  ck_ok(mt_runtime_sync(rt));
  mt_tensor *made[] = {filters, half, half_weights, bytes, image, filter, heads, mean, variance};
  for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
    mt_tensor_release(&made[i]);
  }
}

static void compute(mt_runtime *rt, mt_tensor *out[RESULTS]) {
  mt_tensor *a = make(700, 600, 1), *b = make(600, 500, 2), *row = make(1, 600, 3);
  mt_tensor *few = make(6, 600, 4), *weights = make(500, 600, 5), *blocks = NULL;
  mt_matmul_options transposed = MT_MATMUL_OPTIONS_INIT;
  transposed.trans_b = 1;
  transposed.activation = MT_ACT_GELU;
  int first = 0;
  ck_ok(mt_quantize(rt, weights, mt_format_find("q8_0"), &blocks));
  ck_ok(mt_matmul(rt, a, b, NULL, &out[0]));
  ck_ok(mt_matmul(rt, row, b, NULL, &out[1]));
  ck_ok(mt_matmul(rt, few, weights, &transposed, &out[2]));
  ck_ok(mt_matmul(rt, a, weights, &transposed, &out[3]));
  ck_ok(mt_matmul(rt, row, blocks, &transposed, &out[4]));
  ck_ok(mt_matmul(rt, a, blocks, &transposed, &out[5]));
  ck_ok(mt_sum(rt, a, NULL, 0, 0, &out[6]));
  ck_ok(mt_mean(rt, a, &first, 1, 0, &out[7]));
  ck_ok(mt_softmax(rt, a, 0, &out[8]));
  compute_nn(rt, a, weights, &out[9]);
  ck_ok(mt_runtime_sync(rt));
  mt_tensor *inputs[] = {a, b, row, few, weights, blocks};
  for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
    mt_tensor_release(&inputs[i]);
  }
}

START_TEST(test_threads) {
  mt_tensor *expected[RESULTS] = {NULL};
  static const char *const counts[] = {"1", "2", "3", "8"};
  for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
    ck_assert_int_eq(setenv("MECANTENSOR_NUM_THREADS", counts[c], 1), 0);
    mt_runtime *rt = open_backend(_i);
    if (!rt) {
      return;
    }
    ck_assert_uint_eq(mt_runtime_threads(rt), (unsigned)atoi(counts[c]));
    mt_tensor *got[RESULTS] = {NULL};
    compute(rt, got);
    for (int i = 0; i < RESULTS; i++) {
      const void *x, *y;
      if (!expected[i]) {
        expected[i] = mt_tensor_retain(got[i]);
      }
      ck_ok(mt_tensor_read(expected[i], &x));
      ck_ok(mt_tensor_read(got[i], &y));
      ck_assert_msg(memcmp(x, y, mt_tensor_bytes(got[i])) == 0, "result %d on %s threads", i,
                    counts[c]);
      mt_tensor_release(&got[i]);
    }
    mt_runtime_release(&rt);
  }
  for (int i = 0; i < RESULTS; i++) {
    mt_tensor_release(&expected[i]);
  }
}
END_TEST

/* ---- several threads at once ---- */
enum { CALLERS = 4 };

typedef struct caller {
  mt_runtime *rt;
  mt_tensor *out[RESULTS];
} caller;

static void *call_all(void *arg) {
  caller *c = arg;
  compute(c->rt, c->out);
  return NULL;
}

START_TEST(test_callers) {
  ck_assert_int_eq(setenv("MECANTENSOR_NUM_THREADS", "2", 1), 0);
  mt_runtime *rt = open_backend(_i);
  caller callers[CALLERS] = {{NULL, {NULL}}};
  pthread_t threads[CALLERS];
  for (int i = 0; rt && i < CALLERS; i++) {
    callers[i].rt = rt;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, call_all, &callers[i]), 0);
  }
  for (int i = 0; rt && i < CALLERS; i++) {
    ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
  }
  for (int i = 0; rt && i < CALLERS; i++) {
    for (int r = 0; r < RESULTS; r++) {
      const void *x, *y;
      ck_ok(mt_tensor_read(callers[0].out[r], &x));
      ck_ok(mt_tensor_read(callers[i].out[r], &y));
      ck_assert_msg(memcmp(x, y, mt_tensor_bytes(callers[i].out[r])) == 0, "result %d of caller %d",
                    r, i);
    }
  }
  for (int i = 0; rt && i < CALLERS; i++) {
    for (int r = 0; r < RESULTS; r++) {
      mt_tensor_release(&callers[i].out[r]);
    }
  }
  mt_runtime_release(&rt);
}
END_TEST

/* ---- large results, which are written past the caches: as a part of them is alone ---- */
static void check_part(mt_runtime *rt, mt_tensor *x, unary_op *op) {
  mt_tensor *all = NULL, *rows = NULL, *part = NULL, *alone = NULL;
  const void *want, *got;
  ck_ok(op(rt, x, &all));
  ck_ok(mt_tensor_slice(x, 0, 4001, 4040, 1, &rows));
  ck_ok(mt_tensor_slice(all, 0, 4001, 4040, 1, &part));
  ck_ok(op(rt, rows, &alone));
  ck_ok(mt_tensor_read(alone, &want));
  ck_ok(mt_tensor_read(part, &got));
  ck_assert(memcmp(want, got, mt_tensor_bytes(alone)) == 0);
  mt_tensor_release(&all), mt_tensor_release(&rows);
  mt_tensor_release(&part), mt_tensor_release(&alone);
}

static mt_status norm(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  return mt_layer_norm(rt, x, 1, NULL, NULL, 1e-5, out);
}

static mt_status twice(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  return mt_add(rt, x, x, out);
}

START_TEST(test_large_results) {
  mt_runtime *rt = open_backend(_i);
  mt_tensor *x = make(4100, 1031, 7), *half = NULL; /* rows that end in the middle of lines */
  if (rt) {
    ck_ok(mt_cast(rt, x, MT_F16, &half));
    check_part(rt, x, mt_relu);
    check_part(rt, x, twice);
    check_part(rt, x, norm);
    check_part(rt, half, mt_exp);
  }
  mt_tensor_release(&x);
  mt_tensor_release(&half);
  mt_runtime_release(&rt);
}
END_TEST

/* ---- extents whose product overflows: operands that repeat, or padding, make them cheap ---- */
START_TEST(test_huge_extents) {
  static int8_t one = 1;
  mt_runtime *rt = open_backend(_i);
  const int64_t k = INT64_C(1) << 61, a_shape[] = {2, k}, b_shape[] = {k, 2}, still[] = {0, 0};
  const int64_t pixel[] = {1, 1, 1, 1};
  mt_tensor *a = NULL, *b = NULL, *out = NULL, *x = NULL;
  mt_conv2d_options options = MT_CONV2D_OPTIONS_INIT;
  options.padding[0] = options.padding[1] = INT64_C(1) << 32;
  options.stride[0] = options.stride[1] = INT64_C(1) << 33;
  ck_ok(mt_tensor_wrap(&one, MT_I8, 2, a_shape, still, NULL, NULL, &a));
  ck_ok(mt_tensor_wrap(&one, MT_I8, 2, b_shape, still, NULL, NULL, &b));
  ck_ok(mt_tensor_create(MT_F32, 4, pixel, &x));
  if (rt) {
    ck_assert_int_eq(mt_matmul(rt, a, b, NULL, &out), MT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mt_last_error(), "more than memory holds"));
    ck_assert_int_eq(mt_conv2d(rt, x, x, NULL, &options, &out), MT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(mt_last_error(), "more than memory holds"));
  }
  ck_assert_ptr_null(out);
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  mt_tensor_release(&x);
  mt_runtime_release(&rt);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cpu");
  TCase *tcase = tcase_create("cpu");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, test_accuracy, 0, BACKENDS * (int)(sizeof(table) / sizeof(table[0])));
  tcase_add_loop_test(tcase, test_threads, 0, BACKENDS);
  tcase_add_loop_test(tcase, test_large_results, 0, BACKENDS);
  tcase_add_loop_test(tcase, test_callers, 0, BACKENDS);
  tcase_add_loop_test(tcase, test_huge_extents, 0, BACKENDS);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
