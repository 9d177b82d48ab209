// SPDX-License-Identifier: Apache-2.0
/*
 * matmul. The reference kernel sums products in double, in the order of K, and rounds the result
 * once. It works tile by tile, so that strided, half and block operands are converted once a
 * tile and the inner loop is plain.
 */
#include "../checked.h"
#include "../formats/format.h"
#include "scalar.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* ==== reference kernel ================================================================ */

enum { ROWS = 64, COLUMNS = 32, DEPTH = 256 }; /* of a tile */

typedef struct problem {
  const mt_view *a, *b, *out, *bias; /* bias: NULL when absent */
  char *a_data, *b_data, *out_data, *bias_data;
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col, out_row, out_col, bias_row, bias_col; /* bytes */
  int64_t depth; /* of a tile: whole blocks */
  double alpha, beta;
  double (*activation)(double);
  double *a_tile; /* [ROWS][depth] */
  double *b_tile; /* [depth][COLUMNS] */
  double *sums;   /* [ROWS][COLUMNS] */
  float *line;    /* depth: a line of blocks, decoded */
} problem;

static int64_t smaller(int64_t x, int64_t y) {
  return x < y ? x : y;
}

/* ---- tiles -------------------------------------------------------------------------- */

static void load_a(const problem *p, int64_t i0, int64_t rows, int64_t k0, int64_t depth) {
  for (int64_t i = 0; i < rows; i++) {
    mt_load_number(p->a->dtype, p->a_data + (i0 + i) * p->a_row + k0 * p->a_col, p->a_col, depth,
                   p->a_tile + i * p->depth);
  }
}

/* Columns past the end stay zero (see multiply). */
static void load_b(const problem *p, int64_t j0, int64_t columns, int64_t k0, int64_t depth) {
  for (int64_t k = 0; k < depth; k++) {
    mt_load_number(p->b->dtype, p->b_data + (k0 + k) * p->b_row + j0 * p->b_col, p->b_col, columns,
                   p->b_tile + k * COLUMNS);
  }
}

static void load_b_blocks(const problem *p, int64_t j0, int64_t columns, int64_t k0,
                          int64_t depth) {
  const mt_format *format = p->b->format;
  for (int64_t j = 0; j < columns; j++) {
    const char *line = p->b_data + (j0 + j) * p->b_col;
    format->decode(line + k0 / format->block_elements * format->block_bytes, depth, p->line);
    for (int64_t k = 0; k < depth; k++) {
      p->b_tile[k * COLUMNS + j] = (double)p->line[k];
    }
  }
}

static void add_row(double *restrict sum, const double *restrict b, double a) {
  for (int j = 0; j < COLUMNS; j++) {
    sum[j] += a * b[j];
  }
}

static void multiply(const problem *p, int64_t rows, int64_t depth) {
  for (int64_t i = 0; i < rows; i++) {
    const double *a = p->a_tile + i * p->depth;
    for (int64_t k = 0; k < depth; k++) {
      add_row(p->sums + i * COLUMNS, p->b_tile + k * COLUMNS, a[k]);
    }
  }
}

/* ---- the result --------------------------------------------------------------------- */

/* Sums of products of int8, which are whole and wrap to 32 bits. */
static void store_whole(const double *sum, int64_t columns, char *out, int64_t step) {
  int64_t whole[COLUMNS];
  for (int64_t j = 0; j < columns; j++) {
    whole[j] = (int64_t)sum[j];
  }
  mt_store_i64(MT_I32, whole, columns, out, step);
}

/* One row of a tile: activation(alpha sum + beta out + bias), rounded here. */
static void store_row(const problem *p, int64_t i, int64_t j0, int64_t columns, double *sum) {
  char *out = p->out_data + i * p->out_row + j0 * p->out_col;
  double other[COLUMNS];
  for (int64_t j = 0; j < columns; j++) {
    sum[j] *= p->alpha;
  }
  if (p->beta != 0) {
    mt_load_f64(p->out->dtype, out, p->out_col, columns, other);
    for (int64_t j = 0; j < columns; j++) {
      sum[j] += p->beta * other[j];
    }
  }
  if (p->bias) {
    mt_load_number(p->bias->dtype, p->bias_data + i * p->bias_row + j0 * p->bias_col, p->bias_col,
                   columns, other);
    for (int64_t j = 0; j < columns; j++) {
      sum[j] += other[j];
    }
  }
  for (int64_t j = 0; p->activation && j < columns; j++) {
    sum[j] = p->activation(sum[j]);
  }
  if (p->out->dtype == MT_I32) {
    store_whole(sum, columns, out, p->out_col);
  } else {
    mt_store_f64(p->out->dtype, sum, columns, out, p->out_col);
  }
}

static void compute_tile(const problem *p, int64_t i0, int64_t j0) {
  int64_t rows = smaller(ROWS, p->m - i0), columns = smaller(COLUMNS, p->n - j0);
  memset(p->sums, 0, ROWS * COLUMNS * sizeof(double));
  for (int64_t k0 = 0; k0 < p->k; k0 += p->depth) {
    int64_t depth = smaller(p->depth, p->k - k0);
    load_a(p, i0, rows, k0, depth);
    if (p->b->format) {
      load_b_blocks(p, j0, columns, k0, depth);
    } else {
      load_b(p, j0, columns, k0, depth);
    }
    multiply(p, rows, depth);
  }
  for (int64_t i = 0; i < rows; i++) {
    store_row(p, i0 + i, j0, columns, p->sums + i * COLUMNS);
  }
}

static void compute(const problem *p) {
  for (int64_t i = 0; i < p->m; i += ROWS) {
    for (int64_t j = 0; j < p->n; j += COLUMNS) {
      compute_tile(p, i, j);
    }
  }
}

/* ---- the call ----------------------------------------------------------------------- */

static void steps_of(const mt_view *view, int64_t *row, int64_t *col) {
  *row = mt_view_step(view, view->rank - 2);
  *col = mt_view_step(view, view->rank - 1);
}

static void read_call(const mt_ref_call *call, problem *p) {
  p->a = &call->in[0];
  p->b = &call->in[1];
  p->bias = call->in[2].dtype != MT_DTYPE_NONE ? &call->in[2] : NULL;
  p->out = &call->out;
  p->m = p->out->shape[p->out->rank - 2];
  p->n = p->out->shape[p->out->rank - 1];
  p->k = p->a->shape[p->a->rank - 1];
  steps_of(p->a, &p->a_row, &p->a_col);
  steps_of(p->b, &p->b_row, &p->b_col);
  steps_of(p->out, &p->out_row, &p->out_col);
  if (p->bias) {
    steps_of(p->bias, &p->bias_row, &p->bias_col);
  }
  p->alpha = mt_ref_f64(call, MT_ATTR_ALPHA, 1);
  p->beta = mt_ref_f64(call, MT_ATTR_BETA, 0);
  p->activation = mt_activation_f64(mt_ref_i64(call, MT_ATTR_ACTIVATION, MT_ACT_NONE));
}

/* A walk over the batch axes: out, a, b (one matrix for all when it has no such axes), bias. */
static void start_batches(const problem *p, mt_walk *walk) {
  mt_walk_begin(walk, 4);
  for (int axis = 0; axis < p->out->rank - 2; axis++) {
    int64_t steps[] = {mt_view_step(p->out, axis), mt_view_step(p->a, axis),
                       p->b->rank == 2 ? 0 : mt_view_step(p->b, axis),
                       p->bias ? mt_view_step(p->bias, axis) : 0};
    mt_walk_axis(walk, p->out->shape[axis], steps);
  }
  char *bias = p->bias ? p->bias->data : p->out->data; /* the second is not used */
  mt_walk_start(walk, (char *const[]){p->out->data, p->a->data, p->b->data, bias});
}

static mt_status matmul_reference(const mt_ref_call *call) {
  problem p = {.depth = DEPTH};
  read_call(call, &p);
  if (p.b->format) {
    int64_t block = p.b->format->block_elements;
    p.depth = (DEPTH + block - 1) / block * block;
  }
  size_t depth = (size_t)p.depth, doubles = ROWS * depth + depth * COLUMNS + ROWS * COLUMNS;
  size_t bytes = doubles * sizeof(double) + depth * sizeof(float);
  double *work = calloc(1, bytes); /* zeros: see load_b */
  if (!work) {
    return mt_fail_memory(bytes, "tiles of matmul");
  }
  p.a_tile = work;
  p.b_tile = p.a_tile + ROWS * depth;
  p.sums = p.b_tile + depth * COLUMNS;
  p.line = (float *)(p.sums + ROWS * COLUMNS);
  mt_walk walk;
  start_batches(&p, &walk);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      p.out_data = walk.at[0] + i * walk.stride[0];
      p.a_data = walk.at[1] + i * walk.stride[1];
      p.b_data = walk.at[2] + i * walk.stride[2];
      p.bias_data = walk.at[3] + i * walk.stride[3];
      compute(&p);
    }
  }
  free(work);
  return MT_OK;
}

const mt_op_def mt_op_matmul = {"matmul", 1, matmul_reference, mt_op_matmul_number};

/* ==== the call ======================================================================== */

/* What the call works on; each is a view that is released at the end. */
typedef struct operands {
  mt_tensor *in[3]; /* a, b, bias or NULL */
  mt_tensor *out;
} operands;

static void operands_release(operands *o) {
  for (int i = 0; i < 3; i++) {
    mt_tensor_release(&o->in[i]);
  }
  mt_tensor_release(&o->out);
}

/* ---- validation --------------------------------------------------------------------- */

static mt_status read_options(const mt_matmul_options *given, mt_matmul_options *options) {
  *options = (mt_matmul_options)MT_MATMUL_OPTIONS_INIT;
  MT_TRY(mt_op_options("matmul", given, options, sizeof(*options)));
  MT_TRY(mt_op_activation("matmul", options->activation));
  return MT_OK;
}

static mt_dtype result_dtype(const mt_tensor *a) {
  return a->dtype == MT_I8 ? MT_I32 : a->dtype;
}

static mt_status check_dtypes(const mt_tensor *a, const mt_tensor *b, const mt_tensor *bias) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  const char *why = NULL;
  if (!mt_is_float(a->dtype) && a->dtype != MT_I8) {
    why = "a has to be f32, f64, f16, bf16 or i8";
  } else if (b->format ? a->dtype != MT_F32 : a->dtype != b->dtype) {
    why = b->format ? "a has to be f32 with b in a block format" : "dtypes differ (mt_cast first)";
  }
  if (why) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: a %s and b %s: %s",
                   mt_tensor_describe(a, left, sizeof(left)),
                   mt_tensor_describe(b, right, sizeof(right)), why);
  }
  if (bias && bias->dtype != result_dtype(a)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: bias %s: expected %s",
                   mt_tensor_describe(bias, left, sizeof(left)), mt_dtype_name(result_dtype(a)));
  }
  return MT_OK;
}

static mt_status check_matrices(const mt_tensor *a, const mt_tensor *b) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  int64_t inner_a = a->shape[a->rank - 1], inner_b = b->shape[b->rank - 2];
  if (inner_a != inner_b) {
    return mt_fail(
        MT_ERR_INVALID_ARGUMENT, "matmul: a %s and b %s: inner extents %lld and %lld differ",
        mt_tensor_describe(a, left, sizeof(left)), mt_tensor_describe(b, right, sizeof(right)),
        (long long)inner_a, (long long)inner_b);
  }
  if (b->format && b->block_axis != b->rank - 2) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "matmul: b %s has its blocks along axis %d: expected along the inner axis, %d "
                   "(trans_b for weights [N, K])",
                   mt_tensor_describe(b, right, sizeof(right)), b->block_axis, b->rank - 2);
  }
  return MT_OK;
}

/* ---- views -------------------------------------------------------------------------- */

static mt_status matrix_view(const char *name, mt_tensor *tensor, int transposed, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  if (tensor->rank < 2) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: %s %s: expected rank 2 or more", name,
                   mt_tensor_describe(tensor, text, sizeof(text)));
  }
  if (!transposed) {
    *out = mt_tensor_retain(tensor);
    return MT_OK;
  }
  return mt_tensor_transpose(tensor, -1, -2, out);
}

/* *view becomes a view of it of another shape; keep_axes extents at the end stay. */
static mt_status spread(mt_tensor **view, int rank, const int64_t *shape, int keep_axes) {
  int64_t wanted[MT_MAX_RANK];
  mt_tensor *spread_out = NULL, *old = *view;
  memcpy(wanted, shape, (size_t)rank * sizeof(*shape));
  for (int i = 1; i <= keep_axes; i++) {
    wanted[rank - i] = old->shape[old->rank - i];
  }
  MT_TRY(mt_op_broadcast(old, rank, wanted, &spread_out));
  mt_tensor_release(view);
  *view = spread_out;
  return MT_OK;
}

static mt_status spread_bias(mt_tensor **bias, const mt_tensor *out) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  mt_tensor *given = *bias;
  bool fits = given->rank <= out->rank;
  for (int i = 1; fits && i <= given->rank; i++) {
    int64_t extent = given->shape[given->rank - i];
    fits = extent == 1 || extent == out->shape[out->rank - i];
  }
  if (!fits) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: bias %s does not broadcast to the result %s",
                   mt_tensor_describe(given, left, sizeof(left)),
                   mt_tensor_describe(out, right, sizeof(right)));
  }
  return spread(bias, out->rank, out->shape, 0);
}

static bool is_one_matrix(const mt_tensor *tensor) {
  for (int i = 0; i < tensor->rank - 2; i++) {
    if (tensor->shape[i] != 1) {
      return false;
    }
  }
  return true;
}

/* The last two axes of a tensor whose others are 1. */
static mt_status drop_batch(mt_tensor **view) {
  const mt_tensor *from = *view;
  mt_tensor *matrix = NULL;
  int gone = from->rank - 2;
  if (gone == 0) {
    return MT_OK;
  }
  mt_layout layout = {.dtype = from->dtype,
                      .format = from->format,
                      .rank = 2,
                      .block_axis = from->format ? from->block_axis - gone : -1,
                      .elements = from->elements,
                      .bytes = mt_tensor_bytes(from)};
  memcpy(layout.shape, from->shape + gone, 2 * sizeof(int64_t));
  memcpy(layout.stride, from->stride + gone, 2 * sizeof(int64_t));
  MT_TRY(
      mt_tensor_on_storage(mt_storage_retain(from->storage), &layout, from->byte_offset, &matrix));
  mt_tensor_release(view);
  *view = matrix;
  return MT_OK;
}

/* [..., M, N] as [... * M, N], where the strides can express it; *out stays NULL where not. */
static mt_status fold_rows(const mt_tensor *tensor, mt_tensor **out) {
  mt_layout layout = {.dtype = tensor->dtype,
                      .rank = 2,
                      .block_axis = -1,
                      .elements = tensor->elements,
                      .bytes = mt_tensor_bytes(tensor)};
  int64_t rows = 1, step = tensor->stride[tensor->rank - 2];
  *out = NULL;
  for (int i = tensor->rank - 2; i >= 0; i--) {
    int64_t reach;
    if (tensor->shape[i] == 1) {
      continue;
    }
    if (rows == 1) {
      step = tensor->stride[i];
    } else if (!mt_mul_i64(rows, step, &reach) || reach != tensor->stride[i]) {
      return MT_OK;
    }
    rows *= tensor->shape[i];
  }
  layout.shape[0] = rows;
  layout.stride[0] = step;
  layout.shape[1] = tensor->shape[tensor->rank - 1];
  layout.stride[1] = tensor->stride[tensor->rank - 1];
  return mt_tensor_on_storage(mt_storage_retain(tensor->storage), &layout, tensor->byte_offset,
                              out);
}

/* A batch with one b for all is one matrix with more rows, if a, bias and out allow it: every
 * backend then sees the big product instead of many small ones. */
static mt_status fold_batch(operands *o) {
  operands folded = {{NULL, NULL, NULL}, NULL};
  if (o->out->rank == 2 || o->in[1]->rank != 2 || o->out->elements == 0) {
    return MT_OK;
  }
  mt_status status = fold_rows(o->in[0], &folded.in[0]);
  bool whole = folded.in[0] != NULL;
  if (status == MT_OK && whole) {
    status = fold_rows(o->out, &folded.out);
    whole = folded.out != NULL;
  }
  if (status == MT_OK && whole && o->in[2]) {
    status = fold_rows(o->in[2], &folded.in[2]);
    whole = folded.in[2] != NULL;
  }
  if (status == MT_OK && whole) {
    folded.in[1] = mt_tensor_retain(o->in[1]);
    operands swap = *o;
    *o = folded;
    folded = swap;
  }
  operands_release(&folded);
  return status;
}

/* ---- the call ----------------------------------------------------------------------- */

/* a and b in o->in, o->out the result: the views that backends see (docs/ops-abi.md). */
static mt_status make_views(operands *o) {
  int rank = o->out->rank;
  MT_TRY(spread(&o->in[0], rank, o->out->shape, 2));
  if (is_one_matrix(o->in[1])) {
    MT_TRY(drop_batch(&o->in[1]));
  } else {
    MT_TRY(spread(&o->in[1], rank, o->out->shape, 2));
  }
  if (o->in[2]) {
    MT_TRY(spread_bias(&o->in[2], o->out));
  }
  return fold_batch(o);
}

static mt_status run(mt_runtime *rt, operands *o, const mt_matmul_options *options) {
  mt_op_call call = {.def = &mt_op_matmul,
                     .in = o->in,
                     .in_count = 3,
                     .out = o->out,
                     .reads_out = options->beta != 0};
  if (options->alpha != 1) {
    mt_op_attr_f64(&call, MT_ATTR_ALPHA, options->alpha);
  }
  if (options->beta != 0) {
    mt_op_attr_f64(&call, MT_ATTR_BETA, options->beta);
  }
  if (options->activation != MT_ACT_NONE) {
    mt_op_attr_i64(&call, MT_ATTR_ACTIVATION, options->activation);
  }
  return mt_op_run(rt, &call, false, &o->out);
}

/* o->in has a and b as matrices; gives *dst, the whole result. */
static mt_status prepare_output(operands *o, const mt_matmul_options *options, mt_tensor **out,
                                mt_tensor **dst) {
  const mt_tensor *a = o->in[0], *b = o->in[1];
  int64_t shape[MT_MAX_RANK];
  int rank;
  MT_TRY(check_dtypes(a, b, options->bias));
  MT_TRY(check_matrices(a, b));
  if (a->dtype == MT_I8 &&
      (options->alpha != 1 || options->beta != 0 || options->activation != MT_ACT_NONE)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "matmul: alpha %g, beta %g, activation %d with i8: expected 1, 0 and none",
                   options->alpha, options->beta, (int)options->activation);
  }
  if (options->beta != 0 && !*out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: beta %g but *out is NULL: nothing to add to",
                   options->beta);
  }
  MT_TRY(mt_broadcast_shapes("matmul", a, b, 2, &rank, shape));
  shape[rank] = a->shape[a->rank - 2];
  shape[rank + 1] = b->shape[b->rank - 1];
  return mt_op_output("matmul", out, result_dtype(a), rank + 2, shape, dst);
}

static mt_status product(mt_runtime *rt, mt_tensor *a, mt_tensor *b,
                         const mt_matmul_options *options, operands *o, mt_tensor **out) {
  mt_tensor *dst = NULL;
  MT_TRY(matrix_view("a", a, options->trans_a, &o->in[0]));
  MT_TRY(matrix_view("b", b, options->trans_b, &o->in[1]));
  o->in[2] = mt_tensor_retain(options->bias);
  MT_TRY(prepare_output(o, options, out, &dst));
  o->out = mt_tensor_retain(dst);
  mt_status status = make_views(o);
  if (status == MT_OK) {
    status = run(rt, o, options);
  }
  if (*out) {
    return status;
  }
  if (status == MT_OK) {
    *out = dst;
  } else {
    mt_tensor_release(&dst);
  }
  return status;
}

mt_status mt_matmul(mt_runtime *rt, mt_tensor *a, mt_tensor *b, const mt_matmul_options *given,
                    mt_tensor **out) {
  mt_matmul_options options;
  operands o = {{NULL, NULL, NULL}, NULL};
  MT_TRY(mt_op_require("matmul", "rt", rt));
  MT_TRY(mt_op_require("matmul", "a", a));
  MT_TRY(mt_op_require("matmul", "b", b));
  MT_TRY(mt_op_require("matmul", "out", out));
  MT_TRY(read_options(given, &options));
  mt_status status = product(rt, a, b, &options, &o, out);
  operands_release(&o);
  return status;
}
