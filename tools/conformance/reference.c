// SPDX-License-Identifier: Apache-2.0
/*
 * The reference itself, against results worked out by hand or in double by other means:
 * without it, a backend would only be compared with something unproven.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct expectations {
  FILE *out;
  mt_runtime *rt;
  int failed, done;
} expectations;

static mt_tensor *f32(int rank, const int64_t *shape, const float *values) {
  mt_tensor *t = NULL;
  mt_tensor_from_data(MT_F32, rank, shape, values, &t);
  return t;
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define VALUES(...) ((const float[]){__VA_ARGS__})
#define RESULTS(...) ((const double[]){__VA_ARGS__})

/* Takes *out, which an op with this status made, and sets it to NULL. */
static void expect(expectations *e, const char *what, mt_status status, mt_tensor **out,
                   int64_t count, const double *want, double relative) {
  conf none = {0};
  mt_tensor *got = *out;
  e->done++;
  double *values = status == MT_OK ? conf_values(&none, got) : NULL;
  int64_t wrong = mt_tensor_elements(got) == count && values ? 0 : count;
  for (int64_t i = 0; values && wrong == 0 && i < count; i++) {
    bool close = isnan(want[i]) ? isnan(values[i])
                                : values[i] == want[i] ||
                                      fabs(values[i] - want[i]) <= relative * fabs(want[i]);
    if (!close) {
      fprintf(e->out, "# FAILED reference %s: element %lld is %.9g, expected %.9g\n", what,
              (long long)i, values[i], want[i]);
      wrong++;
    }
  }
  if (!values) {
    fprintf(e->out, "# FAILED reference %s: %s: %s\n", what, mt_status_name(status),
            mt_last_error());
  } else if (mt_tensor_elements(got) != count) {
    fprintf(e->out, "# FAILED reference %s: %lld elements, expected %lld\n", what,
            (long long)mt_tensor_elements(got), (long long)count);
  }
  e->failed += wrong > 0;
  free(values);
  mt_tensor_release(out);
}

/* ---- elementwise --------------------------------------------------------------------- */

static void arithmetic(expectations *e) {
  mt_tensor *a = f32(2, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)),
            *b = f32(1, SHAPE(3), VALUES(1, 2, 4));
  mt_tensor *column = f32(2, SHAPE(2, 1), VALUES(10, 20)), *out = NULL;
  expect(e, "add", mt_add(e->rt, a, b, &out), &out, 6, RESULTS(2, 4, 7, 5, 7, 10), 0);
  expect(e, "sub", mt_sub(e->rt, column, b, &out), &out, 6, RESULTS(9, 8, 6, 19, 18, 16), 0);
  expect(e, "mul", mt_mul(e->rt, a, column, &out), &out, 6, RESULTS(10, 20, 30, 80, 100, 120), 0);
  expect(e, "div", mt_div(e->rt, a, b, &out), &out, 6, RESULTS(1, 1, 0.75, 4, 2.5, 1.5), 0);
  expect(e, "scale", mt_scale(e->rt, b, -0.5, &out), &out, 3, RESULTS(-0.5, -1, -2), 0);
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  mt_tensor_release(&column);
}

static void integer_division(expectations *e) {
  const int32_t x[] = {7, -7, 7, 5, INT32_MIN}, y[] = {2, 2, -2, 0, -1};
  mt_tensor *a = NULL, *b = NULL, *out = NULL;
  mt_tensor_from_data(MT_I32, 1, SHAPE(5), x, &a);
  mt_tensor_from_data(MT_I32, 1, SHAPE(5), y, &b);
  expect(e, "div i32", mt_div(e->rt, a, b, &out), &out, 5, RESULTS(3, -3, -3, 0, INT32_MIN), 0);
  mt_tensor_release(&a);
  mt_tensor_release(&b);
}

static double relu(double x) {
  return x > 0 ? x : isnan(x) ? x : 0;
}
static double gelu(double x) {
  return x / 2 * erfc(-x / sqrt(2));
}
static double gelu_tanh(double x) {
  return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double silu(double x) {
  return x / (1 + exp(-x));
}
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static void functions(expectations *e) {
  static const struct {
    const char *name;
    mt_status (*fn)(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
    double (*want)(double x);
  } rows[] = {
      {"relu", mt_relu, relu},
      {"gelu", mt_gelu, gelu},
      {"gelu_tanh", mt_gelu_tanh, gelu_tanh},
      {"silu", mt_silu, silu},
      {"sigmoid", mt_sigmoid, sigmoid},
      {"tanh", mt_tanh, tanh},
      {"exp", mt_exp, exp},
      {"log", mt_log, log},
      {"sqrt", mt_sqrt, sqrt},
  };
  const float x[] = {-2.5f, -1, -0.25f, 0, 0.5f, 1, 3, NAN, 10};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    double want[9];
    mt_tensor *in = f32(1, SHAPE(9), x), *out = NULL;
    for (int k = 0; k < 9; k++) {
      want[k] = rows[i].want(x[k]);
    }
    expect(e, rows[i].name, rows[i].fn(e->rt, in, &out), &out, 9, want, 2e-6);
    mt_tensor_release(&in);
  }
}

/* ---- matmul -------------------------------------------------------------------------- */

static void matmul(expectations *e) {
  mt_tensor *a = f32(2, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6));
  mt_tensor *b = f32(2, SHAPE(3, 2), VALUES(7, 8, 9, 10, 11, 12));
  mt_tensor *bias = f32(1, SHAPE(2), VALUES(-200, 1)), *out = NULL;
  expect(e, "matmul", mt_matmul(e->rt, a, b, NULL, &out), &out, 4, RESULTS(58, 64, 139, 154), 0);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_a = options.trans_b = 1; /* (b a)^T = a^T b^T */
  expect(e, "matmul transposed", mt_matmul(e->rt, a, b, &options, &out), &out, 9,
         RESULTS(39, 49, 59, 54, 68, 82, 69, 87, 105), 0);
  options = (mt_matmul_options)MT_MATMUL_OPTIONS_INIT;
  options.alpha = 2;
  options.beta = -1;
  options.bias = bias;
  options.activation = MT_ACT_RELU;
  out = f32(2, SHAPE(2, 2), VALUES(1, 2, 3, 4));
  expect(e, "matmul with everything", mt_matmul(e->rt, a, b, &options, &out), &out, 4,
         RESULTS(0, 127, 75, 305), 0);
  mt_tensor *batch = f32(3, SHAPE(2, 1, 3), VALUES(1, 0, 0, 0, 1, 1));
  expect(e, "matmul batched", mt_matmul(e->rt, batch, b, NULL, &out), &out, 4,
         RESULTS(7, 8, 20, 22), 0);
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  mt_tensor_release(&bias);
  mt_tensor_release(&batch);
}

/* 127 is the largest code, so a block of -127 .. 127 is stored exactly. */
static void matmul_blocks(expectations *e) {
  float weights[2][32], x[32];
  double want[2] = {0, 0};
  for (int i = 0; i < 32; i++) {
    x[i] = (float)(i % 5 - 2);
    weights[0][i] = i == 3 ? 127 : (float)(i - 16);
    weights[1][i] = i == 9 ? -127 : (float)(3 * i - 40);
    want[0] += (double)x[i] * weights[0][i];
    want[1] += (double)x[i] * weights[1][i];
  }
  mt_tensor *w = f32(2, SHAPE(2, 32), weights[0]), *a = f32(2, SHAPE(1, 32), x);
  mt_tensor *blocks = NULL, *out = NULL;
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_b = 1;
  mt_status status = mt_quantize(e->rt, w, mt_format_find("q8_0"), &blocks);
  if (status == MT_OK) {
    status = mt_matmul(e->rt, a, blocks, &options, &out);
  }
  expect(e, "matmul q8_0", status, &out, 2, want, 1e-6);
  mt_tensor_release(&w);
  mt_tensor_release(&a);
  mt_tensor_release(&blocks);
}

/* ---- reductions ---------------------------------------------------------------------- */

static void reductions(expectations *e) {
  mt_tensor *x = f32(2, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, -6)), *out = NULL;
  const int first = 0, last = -1;
  expect(e, "sum", mt_sum(e->rt, x, &first, 1, 0, &out), &out, 3, RESULTS(5, 7, -3), 0);
  expect(e, "mean", mt_mean(e->rt, x, &last, 1, 1, &out), &out, 2, RESULTS(2, 1), 0);
  expect(e, "max", mt_max(e->rt, x, NULL, 0, 0, &out), &out, 1, RESULTS(5), 0);
  double z0 = 1 + exp(-1) + exp(-2), z1 = exp(-1) + 1 + exp(-11);
  expect(e, "softmax", mt_softmax(e->rt, x, 1, &out), &out, 6,
         RESULTS(exp(-2) / z0, exp(-1) / z0, 1 / z0, exp(-1) / z1, 1 / z1, exp(-11) / z1), 1e-6);
  mt_tensor_release(&x);
}

/* ---- moving -------------------------------------------------------------------------- */

static void moving(expectations *e) {
  mt_tensor *x = f32(2, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)), *turned = NULL, *out = NULL;
  mt_tensor_transpose(x, 0, 1, &turned);
  expect(e, "copy", mt_copy(e->rt, turned, &out), &out, 6, RESULTS(1, 4, 2, 5, 3, 6), 0);
  mt_tensor *row = f32(2, SHAPE(1, 3), VALUES(7, 8, 9));
  mt_tensor *const parts[] = {row, x};
  expect(e, "concat", mt_concat(e->rt, parts, 2, 0, &out), &out, 9,
         RESULTS(7, 8, 9, 1, 2, 3, 4, 5, 6), 0);
  const int64_t rows[] = {1, 1, 0};
  mt_tensor *indices = NULL;
  mt_tensor_from_data(MT_I64, 1, SHAPE(3), rows, &indices);
  expect(e, "gather", mt_gather(e->rt, x, indices, &out), &out, 9,
         RESULTS(4, 5, 6, 4, 5, 6, 1, 2, 3), 0);
  mt_tensor_release(&x);
  mt_tensor_release(&turned);
  mt_tensor_release(&row);
  mt_tensor_release(&indices);
}

static void casts(expectations *e) {
  const float x[] = {1.75f, -1.75f, 300, -300, NAN, INFINITY, 0.1f, 65520};
  mt_tensor *in = f32(1, SHAPE(8), x), *out = NULL;
  expect(e, "cast to i8", mt_cast(e->rt, in, MT_I8, &out), &out, 8,
         RESULTS(1, -1, 127, -128, 0, 127, 0, 127), 0);
  expect(e, "cast to u8", mt_cast(e->rt, in, MT_U8, &out), &out, 8,
         RESULTS(1, 0, 255, 0, 0, 255, 0, 255), 0);
  expect(e, "cast to f16", mt_cast(e->rt, in, MT_F16, &out), &out, 8,
         RESULTS(1.75, -1.75, 300, -300, NAN, INFINITY, 0.0999755859375, INFINITY), 0);
  expect(e, "cast to bf16", mt_cast(e->rt, in, MT_BF16, &out), &out, 8,
         RESULTS(1.75, -1.75, 300, -300, NAN, INFINITY, 0.10009765625, 65536), 0);
  expect(e, "cast to bool", mt_cast(e->rt, in, MT_BOOL, &out), &out, 8,
         RESULTS(1, 1, 1, 1, 1, 1, 1, 1), 0);
  mt_tensor_release(&in);
}

int conf_check_reference(mt_runtime *reference, FILE *out, int *checks) {
  expectations e = {.rt = reference, .out = out};
  arithmetic(&e);
  integer_division(&e);
  functions(&e);
  matmul(&e);
  matmul_blocks(&e);
  reductions(&e);
  moving(&e);
  casts(&e);
  *checks = e.done;
  return e.failed;
}
