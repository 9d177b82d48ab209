// SPDX-License-Identifier: Apache-2.0
/* mt_sgemm, batched, strided batched, mt_sgemv against sums written out here, on every backend. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  ck_ok(mt_runtime_create(NULL, &rt)); /* auto: the CPU plugins where there are any */
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

enum { ROOM = 1 << 15 };
static float a[ROOM], b[ROOM], c[ROOM], start[ROOM];

static void fill(float *x, int64_t n, unsigned salt) {
  for (int64_t i = 0; i < n; i++) {
    x[i] = (float)((i * 7919 + salt * 104729) % 17 - 8);
  }
}

typedef struct sizes {
  int64_t m, n, k, lda, ldb, ldc;
  mt_transpose ta, tb;
  float alpha, beta;
} sizes;

/* Element (i, j) of alpha op(A) op(B) + beta C, of whole numbers: exact. */
static double product(const sizes *s, const float *x, const float *y, const float *z, int64_t i,
                      int64_t j) {
  double sum = 0;
  for (int64_t p = 0; p < s->k; p++) {
    double left = s->ta ? x[p * s->lda + i] : x[i * s->lda + p];
    double right = s->tb ? y[j * s->ldb + p] : y[p * s->ldb + j];
    sum += left * right;
  }
  return (double)s->alpha * sum + (s->beta != 0 ? (double)s->beta * (double)z[i * s->ldc + j] : 0);
}

static void check_result(const sizes *s, const float *x, const float *y, const float *before,
                         const float *z) {
  for (int64_t i = 0; i < s->m; i++) {
    for (int64_t j = 0; j < s->ldc; j++) {
      double want = j < s->n ? product(s, x, y, before, i, j) : (double)before[i * s->ldc + j];
      double got = z[i * s->ldc + j];
      if (i + 1 < s->m || j < s->n) {
        EXPECT(got == want, "%dx%dx%d: element %d, %d: %g, want %g", (int)s->m, (int)s->n,
               (int)s->k, (int)i, (int)j, got, want);
      }
    }
  }
}

START_TEST(test_sgemm) {
  static const int64_t shapes[][3] = {{1, 1, 1},   {3, 5, 7},   {17, 33, 9}, {64, 48, 40},
                                      {1, 70, 33}, {70, 1, 33}, {29, 31, 0}, {6, 16, 300}};
  static const float factors[][2] = {{1, 0}, {2, 0}, {1, 1}, {-0.5f, 3}, {0, 2}};
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int way = 0; way < 4; way++) {
      for (size_t f = 0; f < COUNT(factors); f++) {
        sizes s = {.m = shapes[i][0], .n = shapes[i][1], .k = shapes[i][2]};
        s.ta = (mt_transpose)(way & 1), s.tb = (mt_transpose)(way >> 1);
        s.lda = (s.ta ? s.m : s.k) + 3, s.ldb = (s.tb ? s.k : s.n) + 1, s.ldc = s.n + 2;
        s.alpha = factors[f][0], s.beta = factors[f][1];
        fill(a, ROOM, 1), fill(b, ROOM, 2), fill(start, ROOM, 3);
        if (s.beta == 0) {
          for (int64_t r = 0; r < s.m; r++) { /* must not be read */
            for (int64_t j = 0; j < s.n; j++) {
              start[r * s.ldc + j] = NAN;
            }
          }
        }
        memcpy(c, start, sizeof(c));
        ck_ok(mt_sgemm(rt, s.ta, s.tb, s.m, s.n, s.k, s.alpha, a, s.lda, b, s.ldb, s.beta, c, s.ldc,
                       NULL));
        check_result(&s, a, b, start, c);
      }
    }
  }
}
END_TEST

START_TEST(test_extra) {
  const float left[] = {1, 2, -3, 1}, right[] = {1, 0, 0, 1}, bias[] = {10, -100};
  float out[4];
  mt_sgemm_extra extra = MT_SGEMM_EXTRA_INIT;
  extra.bias = bias;
  extra.activation = MT_ACT_RELU;
  ck_ok(mt_sgemm(rt, MT_NO_TRANSPOSE, MT_NO_TRANSPOSE, 2, 2, 2, 1, left, 2, right, 2, 0, out, 2,
                 &extra));
  ck_assert(out[0] == 11 && out[1] == 0 && out[2] == 7 && out[3] == 0);
  extra.bias_per_row = 1;
  extra.activation = MT_ACT_NONE;
  ck_ok(mt_sgemm(rt, MT_NO_TRANSPOSE, MT_NO_TRANSPOSE, 2, 2, 2, 1, left, 2, right, 2, 0, out, 2,
                 &extra));
  ck_assert(out[0] == 11 && out[1] == 12 && out[2] == -103 && out[3] == -99);
}
END_TEST

START_TEST(test_batches) {
  enum { BATCH = 5 };
  const sizes s = {7, 9, 11, 12, 9, 10, MT_NO_TRANSPOSE, MT_NO_TRANSPOSE, 2, 1};
  const float *as[BATCH], *bs[BATCH];
  float *cs[BATCH];
  static const int order[2][BATCH] = {{0, 1, 2, 3, 4}, {3, 0, 4, 1, 2}};
  fill(a, ROOM, 1), fill(b, ROOM, 2), fill(start, ROOM, 3);
  memcpy(c, start, sizeof(c));
  ck_ok(mt_sgemm_strided_batched(rt, s.ta, s.tb, s.m, s.n, s.k, s.alpha, a, s.lda, 100, b, s.ldb, 0,
                                 s.beta, c, s.ldc, 80, BATCH, NULL));
  for (int i = 0; i < BATCH; i++) {
    check_result(&s, a + i * 100, b, start + i * 80, c + i * 80);
  }
  for (int way = 0; way < 2; way++) {
    memcpy(c, start, sizeof(c));
    for (int i = 0; i < BATCH; i++) {
      as[i] = a + order[way][i] * 100, bs[i] = b + i * 100, cs[i] = c + order[way][i] * 80;
    }
    ck_ok(mt_sgemm_batched(rt, s.ta, s.tb, s.m, s.n, s.k, s.alpha, as, s.lda, bs, s.ldb, s.beta, cs,
                           s.ldc, BATCH, NULL));
    for (int i = 0; i < BATCH; i++) {
      check_result(&s, as[i], bs[i], start + order[way][i] * 80, cs[i]);
    }
  }
}
END_TEST

START_TEST(test_sgemv) {
  static const int64_t steps[] = {1, 3, -2};
  for (size_t i = 0; i < COUNT(steps); i++) {
    for (int turned = 0; turned < 2; turned++) {
      const int64_t m = 13, n = 37, lda = 40, in = turned ? m : n, out = turned ? n : m;
      int64_t inc = steps[i], first_x = inc < 0 ? -(in - 1) * inc : 0;
      int64_t inc_y = steps[(i + 1) % COUNT(steps)], first_y = inc_y < 0 ? -(out - 1) * inc_y : 0;
      fill(a, ROOM, 1), fill(b, ROOM, 2), fill(start, ROOM, 3);
      memcpy(c, start, sizeof(c));
      ck_ok(mt_sgemv(rt, (mt_transpose)turned, m, n, 2, a, lda, b, inc, -1, c, inc_y));
      for (int64_t r = 0; r < out; r++) {
        double sum = 0;
        for (int64_t p = 0; p < in; p++) {
          sum += (double)(turned ? a[p * lda + r] : a[r * lda + p]) * (double)b[first_x + p * inc];
        }
        double want = 2 * sum - (double)start[first_y + r * inc_y];
        EXPECT((double)c[first_y + r * inc_y] == want, "element %d: %g, want %g", (int)r,
               (double)c[first_y + r * inc_y], want);
      }
    }
  }
}
END_TEST

START_TEST(test_errors) {
  const mt_transpose no = MT_NO_TRANSPOSE;
  ck_ok(mt_sgemm(rt, no, no, 0, 3, 2, 1, NULL, 2, b, 3, 0, NULL, 3, NULL)); /* nothing to do */
  ck_ok(mt_sgemm_batched(rt, no, no, 1, 1, 1, 1, NULL, 1, NULL, 1, 0, NULL, 1, 0, NULL));
  ck_fails(mt_sgemm(NULL, no, no, 1, 1, 1, 1, a, 1, b, 1, 0, c, 1, NULL), MT_ERR_INVALID_ARGUMENT,
           "sgemm: rt is NULL");
  ck_fails(mt_sgemm(rt, no, no, -1, 1, 1, 1, a, 1, b, 1, 0, c, 1, NULL), MT_ERR_INVALID_ARGUMENT,
           "sgemm: m -1: expected 0 ..");
  ck_fails(mt_sgemm(rt, no, no, 2, 3, 4, 1, a, 3, b, 3, 0, c, 3, NULL), MT_ERR_INVALID_ARGUMENT,
           "sgemm: lda 3: expected 4 or more");
  ck_fails(mt_sgemm(rt, MT_TRANSPOSE, no, 2, 3, 4, 1, a, 1, b, 3, 0, c, 3, NULL),
           MT_ERR_INVALID_ARGUMENT, "sgemm: lda 1: expected 2 or more");
  ck_fails(mt_sgemm(rt, no, no, 2, 3, 4, 1, a, 4, b, 3, 0, c, 2, NULL), MT_ERR_INVALID_ARGUMENT,
           "sgemm: ldc 2: expected 3 or more");
  ck_fails(mt_sgemm(rt, no, no, 2, 3, 4, 1, a, 4, NULL, 3, 0, c, 3, NULL), MT_ERR_INVALID_ARGUMENT,
           "sgemm: b is NULL");
  ck_fails(mt_sgemm(rt, (mt_transpose)5, no, 2, 3, 4, 1, a, 4, b, 3, 0, c, 3, NULL),
           MT_ERR_INVALID_ARGUMENT, "sgemm: trans_a 5: expected 0 .. 1");
  ck_fails(mt_sgemm(rt, no, no, INT64_C(1) << 40, 3, INT64_C(1) << 40, 1, a, INT64_C(1) << 40, b, 3,
                    0, c, 3, NULL),
           MT_ERR_INVALID_ARGUMENT, "does not fit in 63 bits");
  ck_fails(mt_sgemm_strided_batched(rt, no, no, 2, 3, 4, 1, a, 4, 8, b, 3, 12, 0, c, 3, 5, 2, NULL),
           MT_ERR_INVALID_ARGUMENT, "sgemm_batched: stride_c 5: expected 6 or more");
  ck_fails(mt_sgemm(rt, no, no, 2, 2, 2, 1, a, 2, b, 2, 0, a, 2, NULL), MT_ERR_INVALID_ARGUMENT,
           "overlaps");
  ck_fails(mt_sgemv(rt, no, 2, 2, 1, a, 2, b, 0, 0, c, 1), MT_ERR_INVALID_ARGUMENT,
           "sgemv: inc_x 0, inc_y 1: expected other than 0");
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_sgemm, test_extra, test_batches, test_sgemv, test_errors};
  return run_ops_tests("blas", tests, COUNT(tests), setup, teardown);
}
