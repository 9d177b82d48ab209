// SPDX-License-Identifier: Apache-2.0
/* blas.c - mt_sgemm and its relatives: mt_matmul on tensors around the caller's memory. */
#include "../checked.h"
#include "op.h"

#include <mecantensor/blas.h>
#include <string.h>

/* One operand: batch matrices of rows x cols as they lie in memory. */
typedef struct matrix {
  const char *name; /* "a", for messages */
  const float *data;
  int64_t rows, cols, ld, stride;
  bool vector; /* a column: ld is the distance of its elements and may be negative */
} matrix;

typedef struct product {
  const char *op;
  mt_runtime *rt;
  int64_t batch;
  matrix a, b, c;
  mt_transpose trans_a, trans_b;
  float alpha, beta;
  mt_sgemm_extra extra;
} product;

/* ---- validation --------------------------------------------------------------------- */

static mt_status too_small(const product *p, const char *what, const char *name, int64_t value,
                           int64_t least) {
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s%s %lld: expected %lld or more", p->op, what, name,
                 (long long)value, (long long)least);
}

static mt_status check_matrix(const product *p, const matrix *x) {
  int64_t size;
  if (!x->vector && (x->ld < x->cols || x->ld < 1)) {
    return too_small(p, "ld", x->name, x->ld, x->cols > 1 ? x->cols : 1);
  }
  if (x->stride < 0) {
    return too_small(p, "stride_", x->name, x->stride, 0);
  }
  if (!mt_mul_i64(x->ld, x->rows, &size)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s of %lld rows, ld %lld: does not fit in 63 bits",
                   p->op, x->name, (long long)x->rows, (long long)x->ld);
  }
  if (!x->data && x->rows > 0 && x->cols > 0 && p->batch > 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s is NULL", p->op, x->name);
  }
  return MT_OK;
}

/* Matrices of C must not lie in each other. */
static mt_status check_result(const product *p) {
  const matrix *c = &p->c;
  int64_t size = c->rows > 0 && c->cols > 0 ? (c->rows - 1) * c->ld + c->cols : 0;
  return p->batch <= 1 || c->stride >= size ? MT_OK : too_small(p, "stride_", "c", c->stride, size);
}

static mt_status check_sizes(const char *op, int64_t m, int64_t n, int64_t k, int64_t batch) {
  MT_TRY(mt_op_range(op, "m", m, 0, INT64_MAX));
  MT_TRY(mt_op_range(op, "n", n, 0, INT64_MAX));
  MT_TRY(mt_op_range(op, "k", k, 0, INT64_MAX));
  return mt_op_range(op, "batch", batch, 0, INT64_MAX);
}

static mt_status check(product *p, const mt_sgemm_extra *extra) {
  p->extra = (mt_sgemm_extra)MT_SGEMM_EXTRA_INIT;
  MT_TRY(mt_op_require(p->op, "rt", p->rt));
  MT_TRY(mt_op_range(p->op, "trans_a", p->trans_a, MT_NO_TRANSPOSE, MT_TRANSPOSE));
  MT_TRY(mt_op_range(p->op, "trans_b", p->trans_b, MT_NO_TRANSPOSE, MT_TRANSPOSE));
  MT_TRY(mt_op_options(p->op, extra, &p->extra, sizeof(p->extra)));
  MT_TRY(mt_op_activation(p->op, p->extra.activation));
  MT_TRY(check_matrix(p, &p->a));
  MT_TRY(check_matrix(p, &p->b));
  MT_TRY(check_matrix(p, &p->c));
  return check_result(p);
}

/* ---- tensors ------------------------------------------------------------------------ */

static mt_status wrap(const product *p, const matrix *x, bool read_only, mt_tensor **out) {
  static const float nothing;
  const int64_t shape[] = {p->batch, x->rows, x->cols}, strides[] = {x->stride, x->ld, 1};
  void *data = (void *)(uintptr_t)(x->data ? x->data : &nothing);
  return mt_tensor_wrap_layout(p->op, data, MT_F32, 3, shape, strides, read_only, NULL, NULL, out);
}

static mt_status wrap_bias(const product *p, mt_tensor **out) {
  bool rows = p->extra.bias_per_row != 0;
  const int64_t shape[] = {rows ? p->c.rows : 1, rows ? 1 : p->c.cols};
  const int64_t strides[] = {rows ? 1 : 0, rows ? 0 : 1};
  *out = NULL;
  return p->extra.bias ? mt_tensor_wrap_layout(p->op, (void *)(uintptr_t)p->extra.bias, MT_F32, 2,
                                               shape, strides, true, NULL, NULL, out)
                       : MT_OK;
}

static mt_status multiply(const product *p, mt_tensor *a, mt_tensor *b, mt_tensor *bias,
                          mt_tensor *c) {
  const void *result;
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_a = p->trans_a == MT_TRANSPOSE;
  options.trans_b = p->trans_b == MT_TRANSPOSE;
  options.alpha = (double)p->alpha;
  options.beta = (double)p->beta;
  options.bias = bias;
  options.activation = p->extra.activation;
  MT_TRY(mt_matmul(p->rt, a, b, &options, &c));
  return mt_tensor_read(c, &result); /* waits, and brings it to the caller's memory */
}

static mt_status run(product *p, const mt_sgemm_extra *extra) {
  mt_tensor *a = NULL, *b = NULL, *c = NULL, *bias = NULL;
  MT_TRY(check(p, extra));
  if (p->batch == 0 || p->c.rows == 0 || p->c.cols == 0) {
    return MT_OK;
  }
  mt_status status = wrap(p, &p->a, true, &a);
  status = status == MT_OK ? wrap(p, &p->b, true, &b) : status;
  status = status == MT_OK ? wrap(p, &p->c, false, &c) : status;
  status = status == MT_OK ? wrap_bias(p, &bias) : status;
  status = status == MT_OK ? multiply(p, a, b, bias, c) : status;
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  mt_tensor_release(&c);
  mt_tensor_release(&bias);
  return status;
}

/* ---- the calls ---------------------------------------------------------------------- */

mt_status mt_sgemm_strided_batched(mt_runtime *rt, mt_transpose trans_a, mt_transpose trans_b,
                                   int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                                   int64_t lda, int64_t stride_a, const float *b, int64_t ldb,
                                   int64_t stride_b, float beta, float *c, int64_t ldc,
                                   int64_t stride_c, int64_t batch, const mt_sgemm_extra *extra) {
  bool ta = trans_a == MT_TRANSPOSE, tb = trans_b == MT_TRANSPOSE;
  product p = {.op = batch == 1 ? "sgemm" : "sgemm_batched",
               .rt = rt,
               .batch = batch,
               .a = {"a", a, ta ? k : m, ta ? m : k, lda, stride_a, false},
               .b = {"b", b, tb ? n : k, tb ? k : n, ldb, stride_b, false},
               .c = {"c", c, m, n, ldc, stride_c, false},
               .trans_a = trans_a,
               .trans_b = trans_b,
               .alpha = alpha,
               .beta = beta};
  MT_TRY(check_sizes(p.op, m, n, k, batch));
  return run(&p, extra);
}

mt_status mt_sgemm(mt_runtime *rt, mt_transpose trans_a, mt_transpose trans_b, int64_t m, int64_t n,
                   int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                   float beta, float *c, int64_t ldc, const mt_sgemm_extra *extra) {
  return mt_sgemm_strided_batched(rt, trans_a, trans_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta,
                                  c, ldc, 0, 1, extra);
}

/* The distance of list[1] from list[0] when all others follow in the same; false when not. */
static bool equal_distances(const void *const *list, int64_t count, int64_t *stride) {
  intptr_t step = count > 1 ? (intptr_t)list[1] - (intptr_t)list[0] : 0;
  if (step < 0 || step % (intptr_t)sizeof(float) != 0) {
    return false;
  }
  for (int64_t i = 1; i < count; i++) {
    if ((intptr_t)list[i] - (intptr_t)list[i - 1] != step) {
      return false;
    }
  }
  *stride = step / (intptr_t)sizeof(float);
  return true;
}

mt_status mt_sgemm_batched(mt_runtime *rt, mt_transpose trans_a, mt_transpose trans_b, int64_t m,
                           int64_t n, int64_t k, float alpha, const float *const *a, int64_t lda,
                           const float *const *b, int64_t ldb, float beta, float *const *c,
                           int64_t ldc, int64_t batch, const mt_sgemm_extra *extra) {
  int64_t stride_a, stride_b, stride_c;
  MT_TRY(check_sizes("sgemm_batched", m, n, k, batch));
  if (batch == 0) {
    return MT_OK;
  }
  MT_TRY(mt_op_require("sgemm_batched", "a", a));
  MT_TRY(mt_op_require("sgemm_batched", "b", b));
  MT_TRY(mt_op_require("sgemm_batched", "c", c));
  if (equal_distances((const void *const *)a, batch, &stride_a) &&
      equal_distances((const void *const *)b, batch, &stride_b) &&
      equal_distances((const void *const *)c, batch, &stride_c) && stride_c > 0) {
    return mt_sgemm_strided_batched(rt, trans_a, trans_b, m, n, k, alpha, a[0], lda, stride_a, b[0],
                                    ldb, stride_b, beta, c[0], ldc, stride_c, batch, extra);
  }
  for (int64_t i = 0; i < batch; i++) {
    MT_TRY(mt_sgemm(rt, trans_a, trans_b, m, n, k, alpha, a[i], lda, b[i], ldb, beta, c[i], ldc,
                    extra));
  }
  return MT_OK;
}

/* A vector of n elements as a column, from its element 0 on; negative steps start at the end. */
static matrix column(const char *name, const float *data, int64_t n, int64_t inc) {
  const float *first = inc < 0 && data && n > 0 ? data - (n - 1) * inc : data;
  return (matrix){name, first, n, 1, inc, 0, true};
}

mt_status mt_sgemv(mt_runtime *rt, mt_transpose trans, int64_t m, int64_t n, float alpha,
                   const float *a, int64_t lda, const float *x, int64_t inc_x, float beta, float *y,
                   int64_t inc_y) {
  bool turned = trans == MT_TRANSPOSE;
  product p = {.op = "sgemv",
               .rt = rt,
               .batch = 1,
               .a = {"a", a, m, n, lda, 0, false},
               .trans_a = trans,
               .alpha = alpha,
               .beta = beta};
  MT_TRY(check_sizes(p.op, m, n, 0, 1));
  if (inc_x == 0 || inc_y == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "sgemv: inc_x %lld, inc_y %lld: expected other than 0",
                   (long long)inc_x, (long long)inc_y);
  }
  p.b = column("x", x, turned ? m : n, inc_x);
  p.c = column("y", y, turned ? n : m, inc_y);
  return run(&p, NULL);
}
