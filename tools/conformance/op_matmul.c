// SPDX-License-Identifier: Apache-2.0
/*
 * matmul. Bound of an element of the result: with s = |alpha| sum|a||b| + |beta c| + |bias|,
 * computed in double, two summations of K terms in any order differ by at most
 * 2 (K + 8) u s (N. Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const mt_dtype conf_matmul_dtypes[] = {MT_F32, MT_F64,   MT_F16,       MT_BF16,
                                       MT_I8,  MT_BLOCK, MT_DTYPE_NONE};

typedef struct problem {
  int64_t m, k, n;
  int a_batch_rank, b_batch_rank;
  int64_t a_batch[2], b_batch[2];
  conf_layout a_layout, b_layout;
  conf_fill fill;
  mt_matmul_options options;
  int bias_kind; /* 0 none, 1 [N], 2 [M, 1], 3 [M, N], 4 scalar */
  conf_out out;
  conf_layout out_layout;
} problem;

enum { BIAS_KINDS = 5 };

static mt_status call_matmul(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  mt_matmul_options options = *(const mt_matmul_options *)k->args;
  options.bias = k->in[2].view;
  return mt_matmul(rt, k->in[0].view, k->in[1].view, &options, out);
}

/* ---- operands ------------------------------------------------------------------------ */

/* [batch..., rows, cols], stored the other way around when transposed. */
static conf_operand make_matrix(conf *c, mt_dtype dtype, int batch_rank, const int64_t *batch,
                                int64_t rows, int64_t cols, int transposed, conf_layout layout,
                                conf_fill fill) {
  if (conf_left_out(c, c->number + 1)) {
    return (conf_operand){NULL, NULL};
  }
  int64_t shape[4];
  memcpy(shape, batch, (size_t)batch_rank * sizeof(*batch));
  shape[batch_rank] = transposed ? cols : rows;
  shape[batch_rank + 1] = transposed ? rows : cols;
  return conf_make(c, dtype, batch_rank + 2, shape, layout, fill);
}

/* Weights: lines along K in the format; b is [batch..., N, K]. Encoded by the reference. */
static conf_operand make_blocks(conf *c, const problem *p) {
  if (conf_left_out(c, c->number + 1)) {
    return (conf_operand){NULL, NULL};
  }
  conf_operand plain =
      make_matrix(c, MT_F32, p->b_batch_rank, p->b_batch, p->n, p->k, 0, CONF_PACKED, p->fill);
  conf_operand blocks = {NULL, NULL};
  if (plain.view &&
      mt_quantize(c->reference, plain.view, mt_format_find("q8_0"), &blocks.view) != MT_OK) {
    c->broken = true;
  }
  conf_operand_release(&plain);
  return blocks;
}

static conf_operand make_bias(conf *c, mt_dtype dtype, const problem *p) {
  if (conf_left_out(c, c->number + 1)) {
    return (conf_operand){NULL, NULL};
  }
  const int64_t shapes[][2] = {{0, 0}, {p->n, 0}, {p->m, 1}, {p->m, p->n}, {0, 0}};
  static const int ranks[] = {0, 1, 2, 2, 0};
  if (p->bias_kind == 0) {
    return (conf_operand){NULL, NULL};
  }
  conf_layout layout = (conf_layout)conf_below(c, CONF_LAYOUTS);
  return conf_make(c, dtype, ranks[p->bias_kind], shapes[p->bias_kind], layout, p->fill);
}

/* ---- the bound ----------------------------------------------------------------------- */

/* |tensor| as [batch of out, rows, cols] in double, block formats decoded. */
static double *magnitudes(conf *c, mt_tensor *tensor, int transposed, int rank,
                          const int64_t *batch) {
  mt_tensor *plain = NULL, *turned = NULL, *spread = NULL;
  int64_t shape[MT_MAX_RANK];
  double *values = NULL;
  mt_status status = MT_OK;
  if (mt_tensor_dtype(tensor) == MT_BLOCK) {
    status = mt_cast(c->reference, tensor, MT_F32, &plain);
  } else {
    plain = mt_tensor_retain(tensor);
  }
  int own = mt_tensor_rank(plain);
  if (status == MT_OK) {
    status = mt_tensor_transpose(plain, own - 1, transposed ? own - 2 : own - 1, &turned);
  }
  if (status == MT_OK) {
    memcpy(shape, batch, (size_t)(rank - 2) * sizeof(*batch));
    memcpy(shape + rank - 2, mt_tensor_shape(turned) + own - 2, 2 * sizeof(*shape));
    status = mt_tensor_broadcast(turned, rank, shape, &spread);
  }
  if (status == MT_OK) {
    values = conf_values(c, spread);
  }
  c->broken = c->broken || status != MT_OK;
  for (int64_t i = 0; values && i < mt_tensor_elements(spread); i++) {
    values[i] = fabs(values[i]);
  }
  mt_tensor_release(&plain);
  mt_tensor_release(&turned);
  mt_tensor_release(&spread);
  return values;
}

/* slack[b][i][j] += scale * sum_k a[b][i][k] b[b][k][j] */
static void add_products(double *slack, const double *a, const double *b, int64_t batches,
                         const problem *p, double scale) {
  for (int64_t row = 0; row < batches * p->m; row++) {
    const double *b_of = b + row / p->m * p->k * p->n;
    for (int64_t k = 0; k < p->k; k++) {
      double x = a[row * p->k + k] * scale;
      for (int64_t j = 0; j < p->n; j++) {
        slack[row * p->n + j] += x * b_of[k * p->n + j];
      }
    }
  }
}

/* slack += scale * |tensor|, broadcast to the result */
static void add_magnitude(conf *c, double *slack, mt_tensor *tensor, int rank, const int64_t *shape,
                          double scale) {
  mt_tensor *spread = NULL;
  if (!tensor || mt_tensor_broadcast(tensor, rank, shape, &spread) != MT_OK) {
    return;
  }
  double *values = conf_values(c, spread);
  for (int64_t i = 0; values && i < mt_tensor_elements(spread); i++) {
    slack[i] += fabs(values[i]) * scale;
  }
  free(values);
  mt_tensor_release(&spread);
}

static double *bound(conf *c, const conf_case *k, const problem *p, int rank,
                     const int64_t *shape) {
  int64_t batches = 1;
  for (int i = 0; i < rank - 2; i++) {
    batches *= shape[i];
  }
  int64_t count = batches * p->m * p->n;
  double *slack = calloc((size_t)(count ? count : 1), sizeof(*slack));
  double *a = magnitudes(c, k->in[0].view, p->options.trans_a, rank, shape);
  double *b = magnitudes(c, k->in[1].view, p->options.trans_b, rank, shape);
  if (slack && a && b) {
    add_products(slack, a, b, batches, p, fabs(p->options.alpha));
  }
  if (slack) {
    add_magnitude(c, slack, k->in[2].view, rank, shape, 1);
    add_magnitude(c, slack, k->initial, rank, shape, fabs(p->options.beta));
  }
  /* The steepest activation has slope 1.13; its own rounding is in ulps. */
  double factor = 2.0 * (double)(p->k + 8) * conf_roundoff(c->dtype) * 1.13;
  for (int64_t i = 0; slack && i < count; i++) {
    slack[i] *= factor;
  }
  free(a);
  free(b);
  return slack;
}

/* ---- one case ------------------------------------------------------------------------ */

static int result_shape(const problem *p, int64_t *shape) {
  int batch = p->a_batch_rank > p->b_batch_rank ? p->a_batch_rank : p->b_batch_rank;
  for (int i = 0; i < batch; i++) {
    int ia = i - (batch - p->a_batch_rank), ib = i - (batch - p->b_batch_rank);
    int64_t a = ia >= 0 ? p->a_batch[ia] : 1, b = ib >= 0 ? p->b_batch[ib] : 1;
    shape[i] = a == 1 ? b : a;
  }
  shape[batch] = p->m;
  shape[batch + 1] = p->n;
  return batch + 2;
}

static void describe(const problem *p, conf_case *k) {
  static const char *const activations[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
  snprintf(k->what, sizeof(k->what),
           "M %lld K %lld N %lld trans %d %d alpha %g beta %g bias %d act %s fill %d",
           (long long)p->m, (long long)p->k, (long long)p->n, p->options.trans_a,
           p->options.trans_b, p->options.alpha, p->options.beta, p->bias_kind,
           activations[p->options.activation], (int)p->fill.kind);
}

static void check_problem(conf *c, problem *p) {
  bool blocks = c->dtype == MT_BLOCK;
  mt_dtype dtype = blocks ? MT_F32 : c->dtype;
  int64_t shape[4];
  int rank = result_shape(p, shape);
  p->options.trans_b = blocks ? 1 : p->options.trans_b;
  conf_case k = {.call = call_matmul, .args = &p->options, .in_count = 3};
  k.in[0] = make_matrix(c, dtype, p->a_batch_rank, p->a_batch, p->m, p->k, p->options.trans_a,
                        p->a_layout, p->fill);
  k.in[1] = blocks ? make_blocks(c, p)
                   : make_matrix(c, dtype, p->b_batch_rank, p->b_batch, p->k, p->n,
                                 p->options.trans_b, p->b_layout, p->fill);
  k.in[2] = make_bias(c, dtype, p);
  k.out = p->out;
  k.out_layout = p->out_layout;
  if (p->options.beta != 0) {
    conf_operand initial = conf_make(c, dtype, rank, shape, CONF_PACKED, p->fill);
    k.initial = initial.view;
    k.out = CONF_GIVEN;
  }
  /* Small integers sum up exactly; decoded blocks are no integers. */
  bool whole = p->fill.kind != CONF_UNIFORM && p->options.activation <= MT_ACT_RELU && !blocks;
  if (!whole && k.in[0].view) {
    k.slack[0] = bound(c, &k, p, rank, shape);
    k.ulps = dtype == MT_F32 || dtype == MT_F64 ? 8 : 1;
    k.tiny = true;
  }
  describe(p, &k);
  conf_check(c, &k);
}

/* ---- the body ------------------------------------------------------------------------ */

static const conf_fill integers = {CONF_INTEGERS, -4, 4};
static const conf_fill uniform = {CONF_UNIFORM, -1, 1};
static const conf_fill sparks = {CONF_SPARKS, -4, 4};

/* Whatever a case leaves open, by chance. */
static void choose_rest(conf *c, problem *p) {
  static const double alphas[] = {1, 1, 0.5, -2}, betas[] = {0, 0, 1, 0.5};
  p->options = (mt_matmul_options)MT_MATMUL_OPTIONS_INIT;
  p->options.trans_a = (int)conf_below(c, 2);
  p->options.trans_b = (int)conf_below(c, 2);
  p->options.alpha = alphas[conf_below(c, COUNT(alphas))];
  p->options.beta = betas[conf_below(c, COUNT(betas))];
  p->bias_kind = (int)conf_below(c, BIAS_KINDS);
  p->out = conf_below(c, 2) ? CONF_GIVEN : CONF_FRESH;
  p->out_layout = (conf_layout)conf_below(c, 3);
}

static void sizes_and_layouts(conf *c) {
  static const int64_t sizes[][3] = {
      {1, 1, 1},  {3, 7, 17}, {17, 33, 65}, {65, 129, 33}, {1, 129, 65}, {129, 65, 1}, {1, 1, 129},
      {33, 1, 7}, {7, 0, 5},  {0, 4, 3},    {4, 3, 0},     {0, 0, 0},    {64, 64, 64}, {5, 300, 9},
  };
  static const conf_layout layouts[][2] = {
      {CONF_PACKED, CONF_PACKED},         {CONF_TRANSPOSED, CONF_PACKED},
      {CONF_PACKED, CONF_TRANSPOSED},     {CONF_SLICED, CONF_SLICED},
      {CONF_MISALIGNED, CONF_MISALIGNED}, {CONF_OFFSET, CONF_REVERSED},
      {CONF_BROADCAST, CONF_PACKED},      {CONF_PACKED, CONF_BROADCAST},
  };
  const conf_fill fills[] = {integers, uniform, sparks};
  for (size_t s = 0; s < COUNT(sizes); s++) {
    for (size_t l = 0; l < COUNT(layouts); l++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        problem p = {.m = sizes[s][0], .k = sizes[s][1], .n = sizes[s][2]};
        if (c->dtype == MT_BLOCK && fills[f].kind == CONF_SPARKS) {
          continue; /* cannot be encoded */
        }
        p.a_layout = layouts[l][0];
        p.b_layout = layouts[l][1];
        p.fill = fills[f];
        choose_rest(c, &p);
        check_problem(c, &p);
      }
    }
  }
}

static void epilogues(conf *c) {
  for (int act = MT_ACT_NONE; act <= MT_ACT_SILU; act++) {
    for (int bias = 0; bias < BIAS_KINDS; bias++) {
      for (int beta = 0; beta < 2; beta++) {
        problem p = {.m = 9, .k = 33, .n = 18, .fill = uniform};
        choose_rest(c, &p);
        p.options.activation = (mt_activation)act;
        p.options.beta = beta * -0.75;
        p.bias_kind = bias;
        check_problem(c, &p);
      }
    }
  }
}

static void batches(conf *c) {
  static const struct {
    int a_rank, b_rank;
    int64_t a[2], b[2];
  } rows[] = {
      {2, 1, {2, 3}, {3}},    {0, 1, {0}, {5}}, {1, 1, {1}, {4}},
      {1, 1, {4}, {1}},       {1, 0, {3}, {0}}, {2, 2, {2, 1}, {1, 3}},
      {2, 2, {2, 2}, {2, 2}}, {1, 1, {0}, {0}}, {1, 1, {1}, {0}},
  };
  const conf_fill fills[] = {integers, uniform};
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (size_t f = 0; f < COUNT(fills); f++) {
      problem p = {.m = 5, .k = 19, .n = 7, .fill = fills[f]};
      p.a_batch_rank = rows[i].a_rank;
      p.b_batch_rank = rows[i].b_rank;
      memcpy(p.a_batch, rows[i].a, sizeof(p.a_batch));
      memcpy(p.b_batch, rows[i].b, sizeof(p.b_batch));
      p.a_layout = (conf_layout)conf_below(c, CONF_LAYOUTS);
      p.b_layout = (conf_layout)conf_below(c, CONF_LAYOUTS);
      choose_rest(c, &p);
      check_problem(c, &p);
    }
  }
}

/* ---- i8 times i8: exact, whatever the values ---- */
static void check_whole(conf *c, int64_t m, int64_t k, int64_t n, conf_layout a, conf_layout b) {
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  conf_case kase = {.call = call_matmul, .args = &options, .in_count = 3};
  bool turned = conf_below(c, 2);
  const int64_t left[] = {m, k}, right[] = {turned ? n : k, turned ? k : n};
  const conf_fill any = {CONF_BITS, 0, 0};
  options.trans_b = turned;
  kase.in[0] = conf_make(c, MT_I8, 2, left, a, any);
  kase.in[1] = conf_make(c, MT_I8, 2, right, b, any);
  if (conf_below(c, 2)) {
    kase.in[2] = conf_make(c, MT_I32, 1, &n, CONF_PACKED, any);
  }
  kase.out = conf_below(c, 2) ? CONF_GIVEN : CONF_FRESH;
  kase.out_layout = (conf_layout)conf_below(c, 3);
  snprintf(kase.what, sizeof(kase.what), "%d x %d x %d, trans_b %d, layouts %d %d", (int)m, (int)k,
           (int)n, turned, (int)a, (int)b);
  conf_check(c, &kase);
}

static void whole_body(conf *c) {
  static const int64_t sizes[][3] = {{1, 1, 1},    {3, 7, 17}, {17, 64, 65}, {65, 129, 33},
                                     {1, 300, 65}, {9, 0, 5},  {70, 200, 1}, {0, 4, 3}};
  for (size_t s = 0; s < COUNT(sizes); s++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      check_whole(c, sizes[s][0], sizes[s][1], sizes[s][2], (conf_layout)layout,
                  (conf_layout)conf_below(c, CONF_LAYOUTS));
    }
  }
  if (c->large) {
    check_whole(c, 203, 3000, 131, CONF_PACKED, CONF_PACKED);
  }
}

static void matmul_body(conf *c, const void *row) {
  (void)row;
  if (c->dtype == MT_I8) {
    whole_body(c);
    return;
  }
  sizes_and_layouts(c);
  epilogues(c);
  batches(c);
  if (c->large) {
    problem big = {.m = 203, .k = 257, .n = 301, .fill = uniform};
    choose_rest(c, &big);
    check_problem(c, &big);
    problem vector = {.m = 1, .k = 1031, .n = 517, .fill = integers};
    choose_rest(c, &vector);
    check_problem(c, &vector);
  }
}

static const conf_op ops[] = {{"matmul", conf_matmul_dtypes, matmul_body, NULL}};
const conf_family conf_matmul = {ops, COUNT(ops)};
