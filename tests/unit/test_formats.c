// SPDX-License-Identifier: Apache-2.0
/* Block formats through quant.h, and what Q8_0 promises. */
#include "harness.h"

#include <math.h>
#include <mecantensor/quant.h>
#include <stdbool.h>
#include <stdio.h>

enum { BLOCK = 32, BYTES = 34 };

static const float q8_largest = 127.5f * 65504.0f;

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_u64(void) { /* xorshift64 */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

/* -1 .. 1 */
static double random_unit(void) {
  return (double)(int64_t)random_u64() * 0x1p-63;
}

static const mt_format *q8_0(void) {
  const mt_format *format = mt_format_find("q8_0");
  ck_assert_ptr_nonnull(format);
  return format;
}

static double absmax_of(const float *x, int64_t n) {
  double absmax = 0;
  for (int64_t i = 0; i < n; i++) {
    absmax = fmax(absmax, fabs((double)x[i]));
  }
  return absmax;
}

/* Encodes and decodes n floats; every error within the bound of its block. */
static void check_bound(const mt_format *format, const float *x, int64_t n) {
  int64_t block = mt_format_block_elements(format);
  unsigned char *row = malloc(mt_format_row_bytes(format, n));
  float *back = malloc((size_t)n * sizeof(*back));
  if (mt_format_encode(format, x, n, row) != MT_OK ||
      mt_format_decode(format, row, n, back) != MT_OK) {
    ck_abort_msg("%s: %s", mt_format_id(format), mt_last_error());
  }
  for (int64_t first = 0; first < n; first += block) {
    int64_t count = n - first < block ? n - first : block;
    double absmax = absmax_of(x + first, count), bound = mt_format_error_bound(format, absmax);
    for (int64_t i = first; i < first + count; i++) {
      double error = fabs((double)back[i] - (double)x[i]);
      if (!(error <= bound)) { /* millions of times: an assertion each would be slow */
        ck_abort_msg("%s: element %d: %a became %a, error %g, bound %g (absmax %a)",
                     mt_format_id(format), (int)i, (double)x[i], (double)back[i], error, bound,
                     absmax);
      }
    }
  }
  free(row);
  free(back);
}

START_TEST(test_table) {
  ck_assert_uint_ge(mt_format_count(), 1);
  for (size_t i = 0; i < mt_format_count(); i++) {
    const mt_format *format = mt_format_at(i);
    ck_assert_ptr_eq(mt_format_find(mt_format_id(format)), format);
    ck_assert_uint_gt(strlen(mt_format_description(format)), 0);
    double bits =
        8.0 * (double)mt_format_block_bytes(format) / (double)mt_format_block_elements(format);
    ck_assert_double_eq(mt_format_bits_per_weight(format), bits);
  }
  ck_assert_ptr_null(mt_format_at(mt_format_count()));
  ck_assert_ptr_null(mt_format_find("q8_1"));
  ck_assert_ptr_null(mt_format_find(""));
  ck_assert_ptr_null(mt_format_find(NULL));
  ck_assert_int_eq(mt_format_block_elements(q8_0()), BLOCK);
  ck_assert_uint_eq(mt_format_block_bytes(q8_0()), BYTES);
  ck_assert_double_eq(mt_format_bits_per_weight(q8_0()), 8.5);
  ck_assert_ptr_null(mt_format_id(NULL));
  ck_assert_uint_eq(mt_format_block_bytes(NULL), 0);
}
END_TEST

START_TEST(test_row_bytes) {
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), 0), 0);
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), 1), BYTES);
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), 32), BYTES);
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), 33), 2 * BYTES);
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), -1), 0);
  ck_assert_uint_eq(mt_format_row_bytes(NULL, 32), 0);
#if SIZE_MAX > UINT32_MAX
  /* 2^58 blocks of 34 bytes pass 2^63 but fit in 64 bits. */
  ck_assert_uint_eq(mt_format_row_bytes(q8_0(), INT64_MAX), ((uint64_t)1 << 58) * BYTES);
#endif
}
END_TEST

START_TEST(test_arguments) {
  float x[BLOCK] = {0};
  unsigned char row[BYTES];
  double dot = 7;
  ck_fails(mt_format_encode(NULL, x, 1, row), MT_ERR_INVALID_ARGUMENT, "format is NULL");
  ck_fails(mt_format_encode(q8_0(), x, -3, row), MT_ERR_INVALID_ARGUMENT, "-3");
  ck_fails(mt_format_encode(q8_0(), NULL, 1, row), MT_ERR_INVALID_ARGUMENT, "NULL data");
  ck_fails(mt_format_decode(q8_0(), row, 1, NULL), MT_ERR_INVALID_ARGUMENT, "NULL data");
  ck_fails(mt_format_dot(q8_0(), NULL, x, 1, &dot), MT_ERR_INVALID_ARGUMENT, "NULL data");
  ck_assert_double_eq(dot, 0);
  ck_fails(mt_format_dot(q8_0(), row, x, 1, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_ok(mt_format_encode(q8_0(), NULL, 0, NULL));
  ck_ok(mt_format_decode(q8_0(), NULL, 0, NULL));
  ck_ok(mt_format_dot(q8_0(), NULL, NULL, 0, &dot));
  ck_assert(isnan(mt_format_error_bound(NULL, 1)));
  ck_assert(isnan(mt_format_error_bound(q8_0(), -1)));
  ck_assert(isnan(mt_format_error_bound(q8_0(), NAN)));
}
END_TEST

/* The bytes of a block, worked out by hand: absmax 127 * 0.5, so d = 0.5 = 0x3800. */
START_TEST(test_layout) {
  float x[3] = {63.5f, -1.0f, 0.25f};
  unsigned char row[BYTES];
  memset(row, 0xee, sizeof(row));
  ck_ok(mt_format_encode(q8_0(), x, 3, row));
  unsigned char expected[BYTES] = {0x00, 0x38, 127, 0xfe, 1}; /* 0.25 / 0.5 rounds away from 0 */
  ck_assert_mem_eq(row, expected, BYTES);
}
END_TEST

START_TEST(test_zeros) {
  float x[BLOCK] = {0}, back[BLOCK];
  x[3] = -0.0f;
  unsigned char row[BYTES], zeros[BYTES] = {0};
  ck_ok(mt_format_encode(q8_0(), x, BLOCK, row));
  ck_assert_mem_eq(row, zeros, BYTES);
  ck_ok(mt_format_decode(q8_0(), row, BLOCK, back));
  for (int i = 0; i < BLOCK; i++) {
    ck_assert_float_eq(back[i], 0);
  }
  ck_assert_double_eq(mt_format_error_bound(q8_0(), 0), 0);
}
END_TEST

START_TEST(test_refused) {
  float x[2 * BLOCK] = {0};
  unsigned char row[2 * BYTES];
  x[37] = NAN;
  x[40] = INFINITY;
  ck_fails(mt_format_encode(q8_0(), x, 2 * BLOCK, row), MT_ERR_INVALID_ARGUMENT, "element 37");
  x[37] = 0;
  ck_fails(mt_format_encode(q8_0(), x, 2 * BLOCK, row), MT_ERR_INVALID_ARGUMENT, "element 40");
  x[40] = -INFINITY;
  ck_fails(mt_format_encode(q8_0(), x, 2 * BLOCK, row), MT_ERR_INVALID_ARGUMENT, "-inf");
  x[40] = nextafterf(q8_largest, INFINITY);
  ck_fails(mt_format_encode(q8_0(), x, 2 * BLOCK, row), MT_ERR_INVALID_ARGUMENT, "8351760");
  ck_assert(isinf(mt_format_error_bound(q8_0(), (double)x[40])));
  x[40] = q8_largest;
  check_bound(q8_0(), x, 2 * BLOCK);
  /* what lies behind n is not looked at */
  x[40] = NAN;
  ck_ok(mt_format_encode(q8_0(), x, 40, row));
}
END_TEST

/* ---- what every format must keep --------------------------------------------------------- */

/* n floats up to 2^exponent, of one magnitude or of many. */
static void random_line(float *x, int64_t n, int exponent, bool spread) {
  for (int64_t i = 0; i < n; i++) {
    double scale = spread ? pow(2, -(double)(random_u64() % 30)) : 1;
    x[i] = (float)(ldexp(random_unit(), exponent) * scale);
  }
}

START_TEST(test_every_bound) {
  const mt_format *format = mt_format_at((size_t)_i);
  int64_t most = 8 * mt_format_block_elements(format);
  float *x = malloc((size_t)most * sizeof(*x));
  for (int round = 0; round < 20000; round++) {
    int64_t n = 1 + (int64_t)(random_u64() % (uint64_t)most);
    random_line(x, n, (int)(random_u64() % 172) - 149, round % 3 == 0); /* 2^-149 .. 2^22 */
    if (isfinite(mt_format_error_bound(format, absmax_of(x, n)))) {
      check_bound(format, x, n);
    }
  }
  ck_assert_double_eq(mt_format_error_bound(format, 0), 0);
  free(x);
}
END_TEST

/* Encoding looks at n floats, and the rest of the last block does not depend on what was
 * there before. */
START_TEST(test_every_tail) {
  const mt_format *format = mt_format_at((size_t)_i);
  int64_t block = mt_format_block_elements(format);
  size_t bytes = mt_format_row_bytes(format, block);
  float *x = malloc((size_t)block * sizeof(*x));
  unsigned char *a = malloc(bytes), *b = malloc(bytes);
  for (int64_t n = 1; n < block; n++) {
    random_line(x, n, 0, false);
    memset(x + n, 0xff, (size_t)(block - n) * sizeof(*x)); /* NaN */
    memset(a, 0x00, bytes);
    memset(b, 0xff, bytes);
    ck_ok(mt_format_encode(format, x, n, a));
    ck_ok(mt_format_encode(format, x, n, b));
    ck_assert_mem_eq(a, b, bytes);
  }
  free(x);
  free(a);
  free(b);
}
END_TEST

START_TEST(test_every_dot) {
  const mt_format *format = mt_format_at((size_t)_i);
  int64_t most = 3 * mt_format_block_elements(format);
  float *w = malloc((size_t)most * sizeof(*w)), *x = malloc((size_t)most * sizeof(*x));
  unsigned char *row = malloc(mt_format_row_bytes(format, most));
  for (int64_t n = 1; n <= most; n++) {
    double expected = 0, got;
    random_line(w, n, 0, false);
    random_line(x, n, 0, false);
    ck_ok(mt_format_encode(format, w, n, row));
    ck_ok(mt_format_decode(format, row, n, w));
    for (int64_t i = 0; i < n; i++) {
      expected += (double)w[i] * (double)x[i];
    }
    ck_ok(mt_format_dot(format, row, x, n, &got));
    ck_assert_double_eq_tol(got, expected, 1e-14 * (double)most);
  }
  free(w);
  free(x);
  free(row);
}
END_TEST

/* Any bits decode to something, also at odd addresses. */
START_TEST(test_every_garbage) {
  const mt_format *format = mt_format_at((size_t)_i);
  int64_t block = mt_format_block_elements(format);
  size_t bytes = mt_format_row_bytes(format, block);
  unsigned char *row = malloc(bytes + 1);
  float *back = malloc((size_t)block * sizeof(*back));
  for (int round = 0; round < 1000; round++) {
    for (size_t i = 0; i <= bytes; i++) {
      row[i] = (unsigned char)random_u64();
    }
    ck_ok(mt_format_decode(format, row + 1, block, back));
  }
  free(row);
  free(back);
}
END_TEST

/* ---- Q8_0 --------------------------------------------------------------------------------- */

/* Largest elements around every place where the f16 scale changes, and elements half-way
 * between two steps of it. */
START_TEST(test_bound_adversarial) {
  for (uint32_t bits = 0; bits <= 0x7bff; bits++) {
    int exponent = (int)(bits >> 10);
    double d =
        exponent == 0 ? ldexp(bits & 0x3ff, -24) : ldexp(1024 + (int)(bits & 0x3ff), exponent - 25);
    float tops[] = {(float)(127 * d), (float)(127.5 * d), (float)(127.0625 * d)};
    for (int t = 0; t < 9; t++) {
      float top = tops[t / 3];
      top = t % 3 == 0 ? nextafterf(top, 0) : t % 3 == 1 ? top : nextafterf(top, INFINITY);
      if (top > q8_largest) {
        continue;
      }
      float x[BLOCK] = {0};
      for (int i = 1; i < BLOCK; i++) {
        float half = (float)((i * 4 - 0.5) * d);
        x[i] = half < top ? (i % 2 ? half : nextafterf(half, INFINITY)) : 0;
        x[i] = x[i] <= top ? x[i] : top;
      }
      x[0] = t % 2 ? -top : top;
      check_bound(q8_0(), x, BLOCK);
    }
  }
}
END_TEST

/* The bound says something: half a step, not more. */
START_TEST(test_bound_is_tight) {
  ck_assert_double_eq(mt_format_error_bound(q8_0(), 127), 0.5);
  ck_assert_double_eq(mt_format_error_bound(q8_0(), 1e-30), 0x1p-25);
  for (double absmax = 1e-2; absmax < (double)q8_largest; absmax *= 1.37) {
    ck_assert_double_le(mt_format_error_bound(q8_0(), absmax), absmax / 254 * (1 + 0x1p-11));
  }
}
END_TEST

/* What decodes exactly is encoded to itself. */
START_TEST(test_idempotent) {
  for (int round = 0; round < 2000; round++) {
    unsigned char row[BYTES], again[BYTES];
    float x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
      x[i] = (float)(random_unit() * pow(2, (double)(random_u64() % 40) - 20));
    }
    ck_ok(mt_format_encode(q8_0(), x, BLOCK, row));
    ck_ok(mt_format_decode(q8_0(), row, BLOCK, x));
    ck_ok(mt_format_encode(q8_0(), x, BLOCK, again));
    ck_ok(mt_format_decode(q8_0(), again, BLOCK, y));
    ck_assert_mem_eq(x, y, sizeof(x));
  }
}
END_TEST

START_TEST(test_decode_any_bits) {
  unsigned char row[BYTES] = {0x00, 0x7c, 0, 1}; /* scale: infinity */
  float back[BLOCK];
  ck_ok(mt_format_decode(q8_0(), row, BLOCK, back));
  ck_assert(isnan(back[0]) && isinf(back[1]));
  row[1] = 0x3c; /* scale: 1 */
  row[2] = 0x80; /* -128 is never written, but it decodes */
  ck_ok(mt_format_decode(q8_0(), row, BLOCK, back));
  ck_assert_float_eq(back[0], -128);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("formats");
  TCase *tcase = tcase_create("formats");
  const TTest *once[] = {
      test_table,      test_row_bytes,      test_arguments,         test_layout,
      test_zeros,      test_refused,        test_bound_adversarial, test_bound_is_tight,
      test_idempotent, test_decode_any_bits};
  const TTest *every[] = {test_every_bound, test_every_tail, test_every_dot, test_every_garbage};
  tcase_set_timeout(tcase, 120);
  for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
    tcase_add_test(tcase, once[i]);
  }
  for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
    tcase_add_loop_test(tcase, every[i], 0, (int)mt_format_count());
  }
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
