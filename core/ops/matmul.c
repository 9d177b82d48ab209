// SPDX-License-Identifier: Apache-2.0
/* matmul: out = activation(alpha a b + beta out + bias), batched. */
#include "unary.h"

#include "../formats/format.h"

#include <stdlib.h>
#include <string.h>

/* ---- reference --------------------------------------------------------------------------- */
/* One matrix at a time, PANEL columns of b at once, packed as double. Sums in double. */

enum { PANEL = 64 };

typedef struct matrix_job {
  const mt_ref_call *call;
  int64_t m, n, k;
  double alpha, beta;
  mt_activation activation;
  double *row;   /* [k] of a */
  double *panel; /* [k][PANEL] of b */
  float *line;   /* [k], decoded */
} matrix_job;

/* Bytes from one element to the next along the axis `back` axes before the end. */
static int64_t step_of(const mt_view *view, int back) {
  return view->stride[view->rank - back] * (int64_t)mt_dtype_size(view->dtype);
}

static void pack_panel(const matrix_job *job, const char *b, int64_t first, int64_t columns) {
  const mt_view *view = &job->call->in[1];
  if (view->dtype == MT_BLOCK) { /* blocks along k: a column is a line */
    int64_t blocks = view->stride[view->rank - 1] / view->format->block_elements;
    int64_t step = blocks * view->format->block_bytes;
    for (int64_t j = 0; j < columns; j++) {
      view->format->decode(b + (first + j) * step, job->k, job->line);
      for (int64_t k = 0; k < job->k; k++) {
        job->panel[k * PANEL + j] = job->line[k];
      }
    }
    return;
  }
  int64_t down = step_of(view, 2), across = step_of(view, 1);
  for (int64_t k = 0; k < job->k; k++) {
    mt_load_line(view->dtype, b + k * down + first * across, across, columns,
                 job->panel + k * PANEL);
  }
}

static void finish_row(const matrix_job *job, const double *sum, int64_t columns, char *out,
                       const char *bias) {
  const mt_view *view = &job->call->out, *bias_view = &job->call->in[2];
  int64_t step = step_of(view, 1);
  int64_t bias_step = bias ? step_of(bias_view, 1) : 0;
  for (int64_t j = 0; j < columns; j++) {
    double value = job->alpha * sum[j];
    if (job->beta != 0) {
      value += job->beta * mt_load_f64(view->dtype, out + j * step);
    }
    if (bias) {
      value += mt_load_f64(bias_view->dtype, bias + j * bias_step);
    }
    mt_store_f64(view->dtype, out + j * step, mt_activation_f64(job->activation, value));
  }
}

static void multiply_panel(const matrix_job *job, char *out, const char *a, const char *bias,
                           int64_t first, int64_t columns) {
  const mt_ref_call *call = job->call;
  int64_t a_down = step_of(&call->in[0], 2), a_across = step_of(&call->in[0], 1);
  int64_t out_down = step_of(&call->out, 2), out_across = step_of(&call->out, 1);
  int64_t bias_down = bias ? step_of(&call->in[2], 2) : 0;
  int64_t bias_across = bias ? step_of(&call->in[2], 1) : 0;
  for (int64_t i = 0; i < job->m; i++) {
    double sum[PANEL] = {0};
    mt_load_line(call->in[0].dtype, a + i * a_down, a_across, job->k, job->row);
    for (int64_t k = 0; k < job->k; k++) {
      const double *b = job->panel + k * PANEL;
      for (int j = 0; j < PANEL; j++) {
        sum[j] += job->row[k] * b[j];
      }
    }
    finish_row(job, sum, columns, out + i * out_down + first * out_across,
               bias ? bias + i * bias_down + first * bias_across : NULL);
  }
}

static void multiply(const matrix_job *job, char *out, const char *a, const char *b,
                     const char *bias) {
  for (int64_t first = 0; first < job->n; first += PANEL) {
    int64_t columns = job->n - first < PANEL ? job->n - first : PANEL;
    pack_panel(job, b, first, columns);
    multiply_panel(job, out, a, bias, first, columns);
  }
}

static mt_status start_job(const mt_ref_call *call, matrix_job *job) {
  const mt_view *a = &call->in[0], *out = &call->out;
  *job = (matrix_job){.call = call,
                      .m = out->shape[out->rank - 2],
                      .n = out->shape[out->rank - 1],
                      .k = a->shape[a->rank - 1],
                      .alpha = mt_ref_f64(call, MT_ATTR_ALPHA, 1),
                      .beta = mt_ref_f64(call, MT_ATTR_BETA, 0),
                      .activation = (mt_activation)mt_ref_i64(call, MT_ATTR_ACTIVATION, 0)};
  size_t k = job->k > 0 ? (size_t)job->k : 1;
  if (k > SIZE_MAX / sizeof(double) / (PANEL + 2)) {
    return mt_fail_memory(k, "matmul");
  }
  job->panel = calloc(k * (PANEL + 2), sizeof(double));
  if (!job->panel) {
    return mt_fail_memory(k * (PANEL + 2) * sizeof(double), "matmul");
  }
  job->row = job->panel + k * PANEL;
  job->line = (float *)(job->row + k);
  return MT_OK;
}

static mt_status matmul_reference(const mt_ref_call *call) {
  matrix_job job;
  int batch = call->out.rank - 2;
  bool shared_b = call->in[1].rank < call->out.rank; /* block formats */
  mt_view out = mt_view_leading(&call->out, batch), a = mt_view_leading(&call->in[0], batch);
  mt_view b = shared_b ? a : mt_view_leading(&call->in[1], batch);
  mt_view bias = call->in[2].dtype ? mt_view_leading(&call->in[2], batch) : out;
  const mt_view *views[] = {&out, &a, &b, &bias};
  MT_TRY(start_job(call, &job));
  for (mt_walk w = mt_walk_start(4, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      multiply(&job, w.at[0] + i * w.step[0], w.at[1] + i * w.step[1],
               shared_b ? call->in[1].data : w.at[2] + i * w.step[2],
               call->in[2].dtype ? w.at[3] + i * w.step[3] : NULL);
    }
  }
  free(job.panel);
  return MT_OK;
}

const mt_op_def mt_op_matmul = {"matmul", 1, matmul_reference};

/* ---- the call ------------------------------------------------------------------------------ */

/* Views made on the way; all are released at the end. */
typedef struct matmul_call {
  mt_matmul_options options;
  mt_tensor *a, *b, *bias, *out;
  int rank; /* of the result */
  int64_t shape[MT_MAX_RANK];
} matmul_call;

/* Replaces *tensor by the view that made it, given the status of making it. */
static mt_status take(mt_status status, mt_tensor **tensor, mt_tensor *view) {
  if (status == MT_OK) {
    mt_tensor_release(tensor);
    *tensor = view;
  }
  return status;
}

static mt_status read_options(const mt_matmul_options *options, mt_tensor **out,
                              mt_matmul_options *known) {
  *known = (mt_matmul_options)MT_MATMUL_OPTIONS_INIT;
  if (!options) {
    return MT_OK;
  }
  if (options->struct_size < sizeof(size_t)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "matmul: options.struct_size is %zu: start from MT_MATMUL_OPTIONS_INIT",
                   options->struct_size);
  }
  memcpy(known, options,
         options->struct_size < sizeof(*known) ? options->struct_size : sizeof(*known));
  if ((int)known->activation < MT_ACT_NONE || known->activation > MT_ACT_SILU) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: activation %d: expected %d .. %d",
                   (int)known->activation, MT_ACT_NONE, MT_ACT_SILU);
  }
  if (known->beta != 0 && !*out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: beta %g without a given out", known->beta);
  }
  return MT_OK;
}

static mt_status check_dtypes(const mt_tensor *a, const mt_tensor *b, const mt_tensor *bias) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  mt_tensor_describe(a, left, sizeof(left));
  mt_tensor_describe(b, right, sizeof(right));
  if (a->rank < 2 || b->rank < 2) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: a %s and b %s: expected rank 2 or more", left,
                   right);
  }
  if (!mt_dtype_is_float(a->dtype) ||
      (b->dtype == MT_BLOCK ? a->dtype != MT_F32 : a->dtype != b->dtype)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "matmul: a %s and b %s: expected f32, f64, f16 or bf16 for both, or f32 and a "
                   "block format",
                   left, right);
  }
  if (bias && bias->dtype != a->dtype) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: bias %s: expected dtype %s",
                   mt_tensor_describe(bias, right, sizeof(right)), mt_dtype_name(a->dtype));
  }
  return MT_OK;
}

/* c->a and c->b with the wanted axes swapped. */
static mt_status orient(matmul_call *c, mt_tensor *a, mt_tensor *b) {
  MT_TRY(c->options.trans_a ? mt_tensor_transpose(a, -1, -2, &c->a)
                            : (c->a = mt_tensor_retain(a), MT_OK));
  MT_TRY(c->options.trans_b ? mt_tensor_transpose(b, -1, -2, &c->b)
                            : (c->b = mt_tensor_retain(b), MT_OK));
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  int64_t inner_a = c->a->shape[c->a->rank - 1], inner_b = c->b->shape[c->b->rank - 2];
  if (inner_a != inner_b) {
    return mt_fail(
        MT_ERR_INVALID_ARGUMENT, "matmul: a %s and b %s: inner extents %lld and %lld differ",
        mt_tensor_describe(c->a, left, sizeof(left)),
        mt_tensor_describe(c->b, right, sizeof(right)), (long long)inner_a, (long long)inner_b);
  }
  if (c->b->dtype == MT_BLOCK && c->b->block_axis != c->b->rank - 2) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "matmul: b %s has its blocks along axis %d: expected the inner axis %d (trans_b "
                   "for weights [N, K])",
                   mt_tensor_describe(c->b, right, sizeof(right)), c->b->block_axis,
                   c->b->rank - 2);
  }
  return MT_OK;
}

/* The result's shape: leading axes broadcast, then M and N. */
static mt_status infer(matmul_call *c) {
  mt_tensor a = *c->a, b = *c->b; /* only their leading axes are looked at */
  int64_t m = a.shape[a.rank - 2], n = b.shape[b.rank - 1];
  a.rank -= 2;
  b.rank -= 2;
  MT_TRY(mt_broadcast_shapes("matmul", &a, &b, &c->rank, c->shape));
  c->rank += 2;
  if (c->rank > MT_MAX_RANK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "matmul: rank %d: expected at most %d", c->rank,
                   MT_MAX_RANK);
  }
  c->shape[c->rank - 2] = m;
  c->shape[c->rank - 1] = n;
  if (c->b->dtype == MT_BLOCK && c->b->rank > 2 &&
      (c->b->rank != c->rank ||
       memcmp(c->b->shape, c->shape, (size_t)(c->rank - 2) * sizeof(int64_t)) != 0)) {
    char text[MT_DESCRIBE_BYTES];
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "matmul: b %s: leading axes of a block format are not broadcast",
                   mt_tensor_describe(c->b, text, sizeof(text)));
  }
  return MT_OK;
}

/* Operands with the rank and the leading axes of the result. */
static mt_status spread(matmul_call *c, mt_tensor *bias) {
  int64_t shape[MT_MAX_RANK];
  mt_tensor *view = NULL;
  memcpy(shape, c->shape, sizeof(shape));
  shape[c->rank - 1] = c->a->shape[c->a->rank - 1];
  MT_TRY(take(mt_tensor_broadcast(c->a, c->rank, shape, &view), &c->a, view));
  if (c->b->dtype != MT_BLOCK) {
    shape[c->rank - 2] = c->b->shape[c->b->rank - 2];
    shape[c->rank - 1] = c->shape[c->rank - 1];
    MT_TRY(take(mt_tensor_broadcast(c->b, c->rank, shape, &view), &c->b, view));
  }
  if (bias && mt_tensor_broadcast(bias, c->rank, c->shape, &c->bias) != MT_OK) {
    return mt_fail_prefix(MT_ERR_INVALID_ARGUMENT, "matmul: bias");
  }
  return MT_OK;
}

/* Is the matrix the same for all leading axes? */
static bool is_shared(const mt_tensor *b) {
  for (int i = 0; i < b->rank - 2; i++) {
    if (b->stride[i] != 0 && b->shape[i] != 1) {
      return false;
    }
  }
  return true;
}

static mt_status one_matrix(mt_tensor *b, mt_tensor **out) {
  mt_tensor *at = mt_tensor_retain(b), *view = NULL;
  mt_status status = MT_OK;
  for (int i = 0; status == MT_OK && i < b->rank - 2; i++) {
    status = take(mt_tensor_slice(at, i, 0, 1, 1, &view), &at, view);
  }
  if (status == MT_OK) {
    status = mt_tensor_reshape(at, 2, b->shape + b->rank - 2, out);
  }
  mt_tensor_release(&at);
  return status;
}

/* A batch of row blocks times one matrix is one tall product: backends get the large GEMM.
 * Leaves all as it is where the strides do not allow it. */
static void merge_batch(matmul_call *c) {
  mt_tensor *a = NULL, *b = NULL, *bias = NULL, *out = NULL;
  const int64_t *s = c->out->shape;
  int64_t tall[2] = {-1, c->a->shape[c->a->rank - 1]}, wide[2] = {-1, s[c->rank - 1]};
  if (c->rank == 2 || !is_shared(c->b) || c->out->elements == 0 || c->a->elements == 0) {
    return;
  }
  bool merged = mt_tensor_reshape(c->a, 2, tall, &a) == MT_OK &&
                mt_tensor_reshape(c->out, 2, wide, &out) == MT_OK &&
                (!c->bias || mt_tensor_reshape(c->bias, 2, wide, &bias) == MT_OK) &&
                one_matrix(c->b, &b) == MT_OK;
  if (merged) {
    take(MT_OK, &c->a, a);
    take(MT_OK, &c->b, b);
    take(MT_OK, &c->bias, bias);
    take(MT_OK, &c->out, out);
  } else {
    mt_tensor_release(&a);
    mt_tensor_release(&b);
    mt_tensor_release(&bias);
    mt_tensor_release(&out);
  }
}

static mt_status run(mt_runtime *rt, matmul_call *c) {
  mt_tensor *in[3] = {c->a, c->b, c->bias};
  mt_op_call call = {.def = &mt_op_matmul, .in = in, .in_count = 3, .out = c->out};
  const mt_matmul_options *options = &c->options;
  call.reads_out = options->beta != 0;
  if (options->alpha != 1) {
    mt_op_attr_f64(&call, MT_ATTR_ALPHA, options->alpha);
  }
  if (options->beta != 0) {
    mt_op_attr_f64(&call, MT_ATTR_BETA, options->beta);
  }
  if (options->activation != MT_ACT_NONE) {
    mt_op_attr_i64(&call, MT_ATTR_ACTIVATION, options->activation);
  }
  return mt_op_run(rt, &call, false, &c->out);
}

static mt_status matmul(matmul_call *c, mt_runtime *rt, mt_tensor *a, mt_tensor *b,
                        mt_tensor **out) {
  mt_tensor *result;
  MT_TRY(check_dtypes(a, b, c->options.bias));
  MT_TRY(orient(c, a, b));
  MT_TRY(infer(c));
  MT_TRY(spread(c, c->options.bias));
  MT_TRY(mt_op_output("matmul", out, a->dtype, c->rank, c->shape, &result));
  c->out = mt_tensor_retain(result);
  merge_batch(c);
  mt_status status = run(rt, c);
  if (*out == NULL) {
    if (status == MT_OK) {
      *out = result;
    } else {
      mt_tensor_release(&result);
    }
  }
  return status;
}

mt_status mt_matmul(mt_runtime *rt, mt_tensor *a, mt_tensor *b, const mt_matmul_options *options,
                    mt_tensor **out) {
  matmul_call c = {0};
  MT_TRY(mt_op_require("matmul", "rt", rt));
  MT_TRY(mt_op_require("matmul", "a", a));
  MT_TRY(mt_op_require("matmul", "b", b));
  MT_TRY(mt_op_require("matmul", "out", out));
  MT_TRY(read_options(options, out, &c.options));
  mt_status status = matmul(&c, rt, a, b, out);
  mt_tensor_release(&c.a);
  mt_tensor_release(&c.b);
  mt_tensor_release(&c.bias);
  mt_tensor_release(&c.out);
  return status;
}
