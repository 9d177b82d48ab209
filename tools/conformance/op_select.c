// SPDX-License-Identifier: Apache-2.0
/*
 * where, clamp, argmax, argmin, topk: exact on everything. cumsum and scatter_add: exact on
 * integers; sums of n floats differ by at most 2 (n + 8) u sum|x|.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct shape {
  int rank;
  int64_t extent[4];
} shape;

static const shape shapes[] = {
    {1, {1}},      {1, {7}},     {1, {33}},    {1, {257}},     {2, {17, 33}},
    {2, {5, 600}}, {2, {65, 1}}, {2, {0, 65}}, {3, {3, 5, 7}}, {4, {2, 3, 4, 5}},
};
static const shape large_shape = {2, {301, 1003}};
static const conf_fill integers = {CONF_INTEGERS, -4, 4}, any_bits = {CONF_BITS, 0, 0},
                       specials = {CONF_SPECIALS, 0, 0}, uniform = {CONF_UNIFORM, -8, 8},
                       sparks = {CONF_SPARKS, -4, 4};

static void choose_output(conf *c, conf_case *k, int ways) {
  k->out = (conf_out)conf_below(c, (uint32_t)ways);
  k->out_layout = (conf_layout)conf_below(c, 3);
}

/* Can input 0 be the output, too? */
static int ways_of(conf_layout layout) {
  return layout == CONF_BROADCAST ? 2 : 3;
}

/* ---- where ----------------------------------------------------------------------------- */

static mt_status call_where(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_where(rt, k->in[0].view, k->in[1].view, k->in[2].view, out);
}

static void check_where(conf *c, const shape *condition, const shape *a, const shape *b,
                        conf_layout layout) {
  conf_case k = {.call = call_where, .in_count = 3, .bits = true};
  k.in[0] = conf_make(c, MT_BOOL, condition->rank, condition->extent, layout,
                      (conf_fill){CONF_INTEGERS, 0, 1});
  k.in[1] = conf_make(c, c->dtype, a->rank, a->extent, conf_any_layout(c), any_bits);
  k.in[2] = conf_make(c, c->dtype, b->rank, b->extent, conf_any_layout(c), specials);
  choose_output(c, &k, 2);
  snprintf(k.what, sizeof(k.what), "condition in layout %d", (int)layout);
  conf_check(c, &k);
}

static void where_body(conf *c, const void *row) {
  static const shape mixed[][3] = {
      {{1, {5}}, {2, {3, 5}}, {2, {3, 1}}},    {{2, {33, 1}}, {1, {65}}, {0, {0}}},
      {{0, {0}}, {1, {17}}, {1, {17}}},        {{3, {2, 1, 7}}, {2, {3, 7}}, {1, {1}}},
      {{2, {3, 4}}, {0, {0}}, {3, {2, 1, 1}}}, {{2, {0, 3}}, {2, {1, 3}}, {0, {0}}},
  };
  (void)row;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      check_where(c, &shapes[i], &shapes[i], &shapes[i], (conf_layout)layout);
    }
  }
  for (size_t i = 0; i < COUNT(mixed); i++) {
    check_where(c, &mixed[i][0], &mixed[i][1], &mixed[i][2], conf_any_layout(c));
  }
  if (c->large) {
    check_where(c, &large_shape, &large_shape, &large_shape, CONF_PACKED);
  }
}

/* ---- clamp ----------------------------------------------------------------------------- */

typedef struct bounds {
  double lo, hi;
} bounds;

static mt_status call_clamp(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const bounds *b = k->args;
  return mt_clamp(rt, k->in[0].view, b->lo, b->hi, out);
}

static void clamp_body(conf *c, const void *row) {
  const bounds all[] = {{-1, 2},       {0, INFINITY},         {-INFINITY, 3}, {-0.3, 1.7},
                        {2.5, 300000}, {-INFINITY, INFINITY}, {3, 3}};
  const conf_fill fills[] = {integers, any_bits, specials};
  (void)row;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        const bounds *b = &all[conf_below(c, COUNT(all))];
        conf_case k = {.call = call_clamp, .args = b, .in_count = 1};
        k.in[0] =
            conf_make(c, c->dtype, shapes[i].rank, shapes[i].extent, (conf_layout)layout, fills[f]);
        k.tiny = fills[f].kind == CONF_SPECIALS;
        choose_output(c, &k, ways_of((conf_layout)layout));
        snprintf(k.what, sizeof(k.what), "%g .. %g, layout %d, fill %d", b->lo, b->hi, layout,
                 (int)fills[f].kind);
        conf_check(c, &k);
      }
    }
  }
}

/* ---- argmax, argmin, topk --------------------------------------------------------------- */

typedef mt_status arg_fn(mt_runtime *rt, mt_tensor *x, int axis, int keepdims, mt_tensor **out);

typedef struct line_args {
  arg_fn *arg;
  int64_t k;
  int axis, flag; /* keepdims; largest */
} line_args;

static mt_status call_arg(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const line_args *args = k->args;
  return args->arg(rt, k->in[0].view, args->axis, args->flag, out);
}

static mt_status call_topk(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const line_args *args = k->args;
  return mt_topk(rt, k->in[0].view, args->k, args->axis, args->flag, &out[0], &out[1]);
}

static void check_lines(conf *c, conf_call *call, const line_args *args, const shape *s,
                        conf_layout layout, conf_fill fill) {
  conf_case k = {.call = call, .args = args, .in_count = 1};
  k.in[0] = conf_make(c, c->dtype, s->rank, s->extent, layout, fill);
  k.out_count = call == call_topk ? 2 : 1;
  choose_output(c, &k, 2);
  snprintf(k.what, sizeof(k.what), "axis %d, k %d, flag %d, layout %d, fill %d", args->axis,
           (int)args->k, args->flag, (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

typedef struct arg_row {
  arg_fn *fn; /* NULL: topk */
} arg_row;

static const arg_row row_argmax = {mt_argmax}, row_argmin = {mt_argmin}, row_topk = {NULL};

static void arg_body(conf *c, const void *arg) {
  const arg_row *row = arg;
  const conf_fill fills[] = {integers, any_bits, specials, sparks};
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int axis = 0; axis < shapes[i].rank; axis++) {
      int64_t n = shapes[i].extent[axis];
      for (int layout = 0; n > 0 && layout < CONF_LAYOUTS; layout++) {
        for (size_t f = conf_below(c, 2); f < COUNT(fills); f += 2) {
          line_args args = {row->fn, conf_below(c, (uint32_t)n + 1), axis, (int)conf_below(c, 2)};
          check_lines(c, row->fn ? call_arg : call_topk, &args, &shapes[i], (conf_layout)layout,
                      fills[f]);
        }
      }
    }
  }
  for (int axis = 0; c->large && axis < 2; axis++) {
    line_args args = {row->fn, 5, axis, 1};
    check_lines(c, row->fn ? call_arg : call_topk, &args, &large_shape, CONF_PACKED, any_bits);
  }
}

/* ---- cumsum ------------------------------------------------------------------------------ */

typedef struct scan_args {
  int axis, exclusive, reverse;
} scan_args;

static mt_status call_cumsum(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const scan_args *args = k->args;
  return mt_cumsum(rt, k->in[0].view, args->axis, args->exclusive, args->reverse, out);
}

/* Of n numbers up to `largest`. */
static double *sum_slack(conf *c, int64_t count, int64_t n, double largest) {
  return conf_constant_slack(c, count,
                             2 * (double)(n + 8) * (double)n * largest * conf_roundoff(c->dtype));
}

static void check_cumsum(conf *c, const shape *s, const scan_args *args, conf_layout layout,
                         conf_fill fill) {
  conf_case k = {.call = call_cumsum, .args = args, .in_count = 1};
  k.in[0] = conf_make(c, c->dtype, s->rank, s->extent, layout, fill);
  if (fill.kind == CONF_UNIFORM && conf_is_float(c->dtype) && k.in[0].view) {
    k.slack[0] = sum_slack(c, mt_tensor_elements(k.in[0].view), s->extent[args->axis], fill.hi);
    k.ulps = 1;
  }
  choose_output(c, &k, ways_of(layout));
  snprintf(k.what, sizeof(k.what), "axis %d, exclusive %d, reverse %d, layout %d, fill %d",
           args->axis, args->exclusive, args->reverse, (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

static void cumsum_body(conf *c, const void *row) {
  const conf_fill fills[] = {integers, uniform, sparks};
  (void)row;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        scan_args args = {(int)conf_below(c, (uint32_t)shapes[i].rank), (int)conf_below(c, 2),
                          (int)conf_below(c, 2)};
        check_cumsum(c, &shapes[i], &args, (conf_layout)layout, fills[f]);
      }
    }
  }
  for (int axis = 0; c->large && axis < 2; axis++) {
    const scan_args args = {axis, 0, 0};
    check_cumsum(c, &large_shape, &args, CONF_PACKED, uniform);
  }
}

/* ---- scatter_add --------------------------------------------------------------------------- */

static mt_status call_scatter(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_scatter_add(rt, k->in[0].view, k->in[1].view, k->in[2].view, out);
}

static void check_scatter(conf *c, const shape *x, const shape *at, conf_fill fill) {
  conf_case k = {.call = call_scatter, .in_count = 3};
  conf_layout layout = conf_any_layout(c);
  shape updates = {at->rank + x->rank - 1, {0}};
  int64_t n = 2;
  for (int i = 0; i < updates.rank; i++) {
    updates.extent[i] = i < at->rank ? at->extent[i] : x->extent[i - at->rank + 1];
    n *= i < at->rank ? at->extent[i] : 1;
  }
  k.in[0] = conf_make(c, c->dtype, x->rank, x->extent, layout, fill);
  k.in[1] =
      conf_make(c, conf_below(c, 2) ? MT_I32 : MT_I64, at->rank, at->extent, conf_any_layout(c),
                (conf_fill){CONF_INTEGERS, 0, (double)(x->extent[0] - 1)});
  k.in[2] = conf_make(c, c->dtype, updates.rank, updates.extent, conf_any_layout(c), fill);
  if (fill.kind == CONF_UNIFORM && conf_is_float(c->dtype) && k.in[0].view) {
    k.slack[0] = sum_slack(c, mt_tensor_elements(k.in[0].view), n, fill.hi);
    k.ulps = 1;
  }
  choose_output(c, &k, ways_of(layout));
  snprintf(k.what, sizeof(k.what), "%d axes of indices, fill %d", at->rank, (int)fill.kind);
  conf_check(c, &k);
}

static void scatter_body(conf *c, const void *row) {
  static const shape tables[] = {{1, {7}},       {2, {5, 3}},  {2, {129, 33}},
                                 {3, {3, 2, 5}}, {2, {1, 65}}, {2, {3, 0}}};
  static const shape indices[] = {{0, {0}}, {1, {1}}, {1, {0}}, {1, {17}}, {2, {33, 3}}};
  const conf_fill fills[] = {integers, uniform, sparks};
  (void)row;
  for (size_t t = 0; t < COUNT(tables); t++) {
    for (size_t i = 0; i < COUNT(indices); i++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        check_scatter(c, &tables[t], &indices[i], fills[f]);
      }
    }
  }
}

static const conf_op ops[] = {
    {"where", conf_all, where_body, NULL},
    {"clamp", conf_numbers, clamp_body, NULL},
    {"argmax", conf_numbers, arg_body, &row_argmax},
    {"argmin", conf_numbers, arg_body, &row_argmin},
    {"topk", conf_numbers, arg_body, &row_topk},
    {"cumsum", conf_numbers, cumsum_body, NULL},
    {"scatter_add", conf_numbers, scatter_body, NULL},
};
const conf_family conf_selecting = {ops, COUNT(ops)};
