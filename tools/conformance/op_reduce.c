// SPDX-License-Identifier: Apache-2.0
/*
 * sum, mean, max, min, softmax, log_softmax. Two sums of n terms in any order differ by at most
 * 2 (n + 8) u sum|x|; softmax is off by a relative error of its sum and its exponentials.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef mt_status reduce_fn(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                            mt_tensor **out);

typedef enum reduce_kind { SUM, MEAN, MAX /* or min */ } reduce_kind;

typedef struct reduce_row {
  reduce_fn *fn;
  reduce_kind kind;
} reduce_row;

static const reduce_row row_sum = {mt_sum, SUM}, row_mean = {mt_mean, MEAN},
                        row_max = {mt_max, MAX}, row_min = {mt_min, MAX};

typedef struct reduce_args {
  reduce_fn *fn;
  int axes[4], count, keepdims;
} reduce_args;

static mt_status call_reduce(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const reduce_args *args = k->args;
  return args->fn(rt, k->in[0].view, args->axes, args->count, args->keepdims, out);
}

static bool is_reduced(const reduce_args *args, int axis, int rank) {
  for (int i = 0; i < args->count; i++) {
    if ((args->axes[i] + rank) % rank == axis) {
      return true;
    }
  }
  return args->count == 0;
}

/* The number in the result of the element at `index` (row-major) of a shape. */
static int64_t result_index(const reduce_args *args, int rank, const int64_t *shape,
                            int64_t index) {
  int64_t result = 0, step = 1;
  for (int i = rank - 1; i >= 0; i--) {
    if (!is_reduced(args, i, rank)) {
      result += index % shape[i] * step;
      step *= shape[i];
    }
    index /= shape[i];
  }
  return result;
}

static double *sum_bound(conf *c, const mt_tensor *x, const reduce_args *args, reduce_kind kind) {
  int rank = mt_tensor_rank(x);
  const int64_t *shape = mt_tensor_shape(x);
  int64_t reduced = 1, kept = 1;
  for (int i = 0; i < rank; i++) {
    *(is_reduced(args, i, rank) ? &reduced : &kept) *= shape[i];
  }
  double *values = conf_values(c, x);
  double *slack = calloc((size_t)(kept ? kept : 1), sizeof(*slack));
  double factor = 2.0 * (double)(reduced + 8) * conf_roundoff(c->dtype);
  factor /= kind == MEAN && reduced > 0 ? (double)reduced : 1;
  for (int64_t i = 0; values && slack && i < mt_tensor_elements(x); i++) {
    slack[result_index(args, rank, shape, i)] += fabs(values[i]) * factor;
  }
  free(values);
  return slack;
}

static void check_reduce(conf *c, const reduce_row *row, int rank, const int64_t *shape,
                         const reduce_args *args, conf_layout layout, conf_fill fill) {
  conf_case k = {.call = call_reduce, .args = args, .in_count = 1};
  k.in[0] = conf_make(c, c->dtype, rank, shape, layout, fill);
  bool whole = row->kind == MAX || !conf_is_float(c->dtype) || fill.kind != CONF_UNIFORM;
  if (!whole && k.in[0].view) {
    k.slack[0] = sum_bound(c, k.in[0].view, args, row->kind);
  }
  /* the last rounding; the mean of integers has one, too: the division */
  k.ulps = whole && row->kind != MEAN ? 0 : 1;
  k.out = conf_below(c, 2) ? CONF_GIVEN : CONF_FRESH;
  k.out_layout = (conf_layout)conf_below(c, 3);
  snprintf(k.what, sizeof(k.what), "axes %d of %d: %d %d %d, keepdims %d, layout %d, fill %d",
           args->count, rank, args->axes[0], args->axes[1], args->axes[2], args->keepdims,
           (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

typedef struct reduce_case {
  int rank;
  int64_t shape[4];
  int count, axes[4];
} reduce_case;

static const reduce_case reduce_cases[] = {
    {0, {0}, 0, {0}},
    {1, {1}, 1, {0}},
    {1, {7}, 1, {-1}},
    {1, {129}, 0, {0}},
    {1, {1000}, 1, {0}},
    {2, {17, 33}, 1, {1}},
    {2, {17, 33}, 1, {0}},
    {2, {65, 3}, 2, {1, 0}},
    {2, {3, 257}, 1, {-1}},
    {3, {3, 5, 7}, 1, {1}},
    {3, {3, 5, 7}, 2, {0, 2}},
    {3, {3, 5, 7}, 2, {1, 2}},
    {3, {4, 1, 65}, 1, {1}},
    {4, {2, 3, 4, 5}, 2, {1, -1}},
    {4, {2, 3, 4, 5}, 3, {0, 1, 3}},
    {2, {0, 5}, 1, {1}},
    {2, {0, 5}, 1, {0}},
    {2, {3, 0}, 1, {1}},
};

/* A max of nothing is an error: checked where errors are, in the unit tests. */
static bool reduces_nothing(const reduce_case *r) {
  const reduce_args args = {.axes = {r->axes[0], r->axes[1], r->axes[2]}, .count = r->count};
  for (int i = 0; i < r->rank; i++) {
    if (r->shape[i] == 0 && is_reduced(&args, i, r->rank)) {
      return true;
    }
  }
  return false;
}

static void reduce_body(conf *c, const void *arg) {
  static const int64_t large[] = {601, 703};
  const reduce_row *row = arg;
  const conf_fill fills[] = {{CONF_INTEGERS, -4, 4}, {CONF_UNIFORM, -1, 1}, {CONF_SPARKS, -4, 4}};
  for (size_t i = 0; i < COUNT(reduce_cases); i++) {
    const reduce_case *r = &reduce_cases[i];
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        reduce_args args = {.fn = row->fn, .count = r->count};
        memcpy(args.axes, r->axes, sizeof(args.axes));
        args.keepdims = (int)conf_below(c, 2);
        if (row->kind != MAX || !reduces_nothing(r)) {
          check_reduce(c, row, r->rank, r->shape, &args, (conf_layout)layout, fills[f]);
        }
      }
    }
  }
  for (int axis = -1; c->large && axis < 2; axis++) { /* -1: all */
    reduce_args args = {.fn = row->fn, .count = axis >= 0, .axes = {axis}};
    check_reduce(c, row, 2, large, &args, CONF_PACKED, fills[1]);
    check_reduce(c, row, 2, large, &args, CONF_TRANSPOSED, fills[1]);
  }
}

/* ---- softmax ------------------------------------------------------------------------- */

typedef mt_status softmax_fn(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out);

typedef struct softmax_row {
  softmax_fn *fn;
  bool log;
} softmax_row;

static const softmax_row row_softmax = {mt_softmax, false},
                         row_log_softmax = {mt_log_softmax, true};

typedef struct softmax_args {
  softmax_fn *fn;
  int axis;
} softmax_args;

static mt_status call_softmax(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const softmax_args *args = k->args;
  return args->fn(rt, k->in[0].view, args->axis, out);
}

/* log_softmax takes away max and log(sum), both of the size of x: absolute errors, and one of
 * the sum that is relative there. */
static double *log_slack(conf *c, const mt_tensor *x, int64_t n) {
  double *slack = conf_values(c, x), largest = 0;
  for (int64_t i = 0; slack && i < mt_tensor_elements(x); i++) {
    largest = isfinite(slack[i]) && fabs(slack[i]) > largest ? fabs(slack[i]) : largest;
  }
  for (int64_t i = 0; slack && i < mt_tensor_elements(x); i++) {
    slack[i] = 2 * (largest * 4 + (double)n + 24) * conf_roundoff(c->dtype);
  }
  return slack;
}

static void check_softmax(conf *c, const softmax_row *row, int rank, const int64_t *shape, int axis,
                          conf_layout layout, conf_fill fill) {
  softmax_args args = {row->fn, axis};
  conf_case k = {.call = call_softmax, .args = &args, .in_count = 1};
  k.in[0] = conf_make(c, c->dtype, rank, shape, layout, fill);
  int64_t n = shape[axis < 0 ? axis + rank : axis];
  /* relative: n roundings of the sum, 4 of each exp, and x - max (up to 16) rounded */
  bool half = c->dtype == MT_F16 || c->dtype == MT_BF16;
  k.ulps = half ? 1 : row->log ? 2 : 2 * (double)(n + 24);
  k.slack[0] = row->log && k.in[0].view ? log_slack(c, k.in[0].view, n) : NULL;
  k.tiny = true;
  k.out = (conf_out)conf_below(c, layout == CONF_BROADCAST ? 2 : 3);
  k.out_layout = (conf_layout)conf_below(c, 3);
  snprintf(k.what, sizeof(k.what), "axis %d, layout %d, fill %d", axis, (int)layout,
           (int)fill.kind);
  conf_check(c, &k);
}

static void softmax_body(conf *c, const void *row) {
  static const struct {
    int rank;
    int64_t shape[4];
    int axis;
  } rows[] = {
      {1, {1}, 0},      {1, {7}, -1},       {1, {129}, 0},       {2, {17, 33}, 1},
      {2, {17, 33}, 0}, {2, {5, 1000}, -1}, {3, {3, 5, 7}, 1},   {4, {2, 3, 4, 65}, 3},
      {2, {0, 5}, 1},   {2, {3, 0}, 1},     {3, {2, 17, 3}, -2}, {2, {65, 1}, 1},
  };
  static const int64_t large[] = {257, 1025};
  const conf_fill fills[] = {{CONF_INTEGERS, -4, 4}, {CONF_UNIFORM, -8, 8}, {CONF_SPARKS, -4, 4}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        check_softmax(c, row, rows[i].rank, rows[i].shape, rows[i].axis, (conf_layout)layout,
                      fills[f]);
      }
    }
  }
  if (c->large) {
    check_softmax(c, row, 2, large, 1, CONF_PACKED, fills[1]);
    check_softmax(c, row, 2, large, 0, CONF_SLICED, fills[1]);
  }
}

static const conf_op ops[] = {
    {"sum", conf_all, reduce_body, &row_sum},
    {"mean", conf_floats, reduce_body, &row_mean},
    {"max", conf_numbers, reduce_body, &row_max},
    {"min", conf_numbers, reduce_body, &row_min},
    {"softmax", conf_floats, softmax_body, &row_softmax},
    {"log_softmax", conf_floats, softmax_body, &row_log_softmax},
};
const conf_family conf_reductions = {ops, COUNT(ops)};
