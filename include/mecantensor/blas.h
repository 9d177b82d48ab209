// SPDX-License-Identifier: Apache-2.0
/*
 * blas.h - matrix products on plain memory, in the manner of BLAS.
 *
 * Matrices are row-major f32: element (i, j) of A is a[i * lda + j]. lda is the distance of rows,
 * at least the number of columns, of the matrix as it lies in memory (before it is transposed).
 * Calls are synchronous: the result is there when they return, on whatever backend of rt
 * it was computed. Arguments are checked; an error names the argument, its value and what was
 * expected, and C is as it was. Thread-safe; concurrent calls must not write the same memory.
 * C must not overlap A, B or the bias. With beta 0, C is not read and may hold NaN.
 */
#ifndef MECANTENSOR_BLAS_H
#define MECANTENSOR_BLAS_H

#include <mecantensor/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_transpose {
  MT_NO_TRANSPOSE = 0,
  MT_TRANSPOSE = 1,
} mt_transpose;

/* What follows the product: C = activation(alpha op(A) op(B) + beta C + bias). */
typedef struct mt_sgemm_extra {
  size_t struct_size; /* set by MT_SGEMM_EXTRA_INIT */
  const float *bias;  /* NULL: none */
  int bias_per_row;   /* 0: bias[n], one for each column; 1: bias[m], one for each row */
  mt_activation activation;
} mt_sgemm_extra;

#define MT_SGEMM_EXTRA_INIT                                                                        \
  { sizeof(mt_sgemm_extra), 0, 0, MT_ACT_NONE }

/* C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, then extra (NULL: nothing more). m, n, k >= 0;
 * k = 0 leaves beta C. A may be NULL where it has no elements, as may B and C. */
MT_API mt_status mt_sgemm(mt_runtime *rt, mt_transpose trans_a, mt_transpose trans_b, int64_t m,
                          int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float beta, float *c, int64_t ldc,
                          const mt_sgemm_extra *extra);

/* `batch` products of one shape, matrix i at a + i stride_a and so on. Strides are at least 0; 0
 * for A or B means one matrix for all; C's are at least its size. */
MT_API mt_status mt_sgemm_strided_batched(mt_runtime *rt, mt_transpose trans_a,
                                          mt_transpose trans_b, int64_t m, int64_t n, int64_t k,
                                          float alpha, const float *a, int64_t lda,
                                          int64_t stride_a, const float *b, int64_t ldb,
                                          int64_t stride_b, float beta, float *c, int64_t ldc,
                                          int64_t stride_c, int64_t batch,
                                          const mt_sgemm_extra *extra);

/* The same at any addresses: a[i], b[i], c[i]. Matrices at equal distances are as fast as above;
 * others are computed one after the other, each on all threads. */
MT_API mt_status mt_sgemm_batched(mt_runtime *rt, mt_transpose trans_a, mt_transpose trans_b,
                                  int64_t m, int64_t n, int64_t k, float alpha,
                                  const float *const *a, int64_t lda, const float *const *b,
                                  int64_t ldb, float beta, float *const *c, int64_t ldc,
                                  int64_t batch, const mt_sgemm_extra *extra);

/* y = alpha op(A) x + beta y. A has m rows and n columns as it lies in memory; x and y have n and m
 * elements, or m and n with MT_TRANSPOSE, inc_x and inc_y apart (not 0; negative ones start from
 * the end, as in BLAS). */
MT_API mt_status mt_sgemv(mt_runtime *rt, mt_transpose trans, int64_t m, int64_t n, float alpha,
                          const float *a, int64_t lda, const float *x, int64_t inc_x, float beta,
                          float *y, int64_t inc_y);

#ifdef __cplusplus
}
#endif
#endif
