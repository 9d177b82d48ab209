// SPDX-License-Identifier: Apache-2.0
/*
 * attention, TSI, bitlinear. The scores of attention are off by d = 2 (D + 8) u scale sum|q k|,
 * which moves each weight by a factor e^d, so the mean of v by at most 2 d max|v|; the sums add 2
 * (S + 24) u max|v|.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const conf_fill integers = {CONF_INTEGERS, -2, 2}, uniform = {CONF_UNIFORM, -1, 1},
                       ternary = {CONF_INTEGERS, -1, 1}, gates = {CONF_UNIFORM, 0, 1.1},
                       sparks = {CONF_SPARKS, -2, 2};

/* ---- attention -------------------------------------------------------------------------- */

typedef struct attention_shape {
  int64_t batch, heads, kv_heads, queries, keys, depth, width;
} attention_shape;

static const attention_shape attention_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},       {1, 2, 2, 7, 7, 16, 16},   {2, 4, 2, 5, 33, 64, 64},
    {1, 8, 1, 1, 129, 32, 32},   {1, 2, 2, 65, 70, 40, 24}, {2, 3, 3, 17, 9, 128, 128},
    {1, 4, 4, 1, 300, 128, 128}, {0, 2, 2, 3, 3, 8, 8},     {1, 2, 1, 3, 0, 8, 8},
    {1, 6, 3, 4, 130, 20, 7},
};
static const attention_shape large_attention = {1, 4, 2, 130, 260, 64, 64};

static mt_status call_attention(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  mt_attention_options options = *(const mt_attention_options *)k->args;
  options.mask = k->in[3].view;
  options.k_scale = k->in[4].view;
  return mt_attention(rt, k->in[0].view, k->in[1].view, k->in[2].view, &options, out);
}

static void make_attention(conf *c, conf_case *k, const attention_shape *s, conf_fill fill,
                           bool plain) {
  const int64_t q[] = {s->batch, s->heads, s->queries, s->depth};
  const int64_t keys[] = {s->batch, s->kv_heads, s->keys, s->depth};
  const int64_t values[] = {s->batch, s->kv_heads, s->keys, s->width};
  bool bytes = c->dtype != MT_F64 && conf_below(c, 4) == 0;
  k->in[0] = conf_make(c, c->dtype, 4, q, plain ? CONF_PACKED : conf_any_layout(c), fill);
  k->in[1] = conf_make(c, bytes ? MT_I8 : c->dtype, 4, keys,
                       plain ? CONF_PACKED : conf_any_layout(c), bytes ? ternary : fill);
  k->in[2] = conf_make(c, c->dtype, 4, values, plain ? CONF_PACKED : conf_any_layout(c), fill);
  if (bytes && conf_below(c, 2)) {
    k->in[4] = conf_make(c, MT_F32, 3, keys, conf_any_layout(c), uniform);
  }
}

static void make_mask(conf *c, conf_case *k, const attention_shape *s, int64_t length) {
  const int64_t full[] = {s->batch, s->heads, s->queries, length};
  uint32_t kind = conf_below(c, 4), rank = 1 + conf_below(c, 4);
  if (kind < 2) {
    mt_dtype type = kind == 0 ? MT_BOOL : conf_below(c, 2) ? MT_F32 : c->dtype;
    conf_fill fill = kind == 0 ? (conf_fill){CONF_INTEGERS, 0, 1} : uniform;
    k->in[3] = conf_make(c, type, (int)rank, full + 4 - rank, conf_any_layout(c), fill);
  }
}

static void check_attention(conf *c, const attention_shape *s, conf_fill fill, bool plain) {
  mt_attention_options options = MT_ATTENTION_OPTIONS_INIT;
  conf_case k = {.call = call_attention, .args = &options, .in_count = 5};
  int64_t length = conf_below(c, 3) ? s->keys : conf_below(c, (uint32_t)s->keys + 1);
  options.causal = (int)conf_below(c, 2);
  options.kv_length = length;
  options.softcap = conf_below(c, 4) ? 0 : 5;
  options.scale = conf_below(c, 3) ? 0 : 0.5;
  make_attention(c, &k, s, fill, plain);
  make_mask(c, &k, s, length);
  double scale = options.scale == 0 ? 1 / sqrt((double)s->depth) : options.scale;
  double u = conf_roundoff(c->dtype), v = conf_largest(c, k.in[2].view);
  double products =
      scale * (double)s->depth * conf_largest(c, k.in[0].view) * conf_largest(c, k.in[1].view);
  double scores = 2 * (double)(s->depth + 8) * u * products + 16 * u;
  k.slack[0] = conf_constant_slack(c, s->batch * s->heads * s->queries * s->width,
                                   (2 * scores + 2 * (double)(length + 24) * u) * v * 2);
  k.ulps = 1;
  k.tiny = true;
  k.out = (conf_out)conf_below(c, 2);
  k.out_layout = (conf_layout)conf_below(c, 3);
  snprintf(
      k.what, sizeof(k.what),
      "%d of %d heads, %d x %d of %d, depth %d, causal %d, mask %s, keys %s, softcap %g, fill %d",
      (int)s->kv_heads, (int)s->heads, (int)s->queries, (int)length, (int)s->keys, (int)s->depth,
      options.causal, k.in[3].view ? mt_dtype_name(mt_tensor_dtype(k.in[3].view)) : "no",
      k.in[1].view ? mt_dtype_name(mt_tensor_dtype(k.in[1].view)) : "?", options.softcap,
      (int)fill.kind);
  conf_check(c, &k);
}

static void attention_body(conf *c, const void *row) {
  (void)row;
  for (size_t i = 0; i < COUNT(attention_shapes); i++) {
    for (int turn = 0; turn < 10; turn++) {
      check_attention(c, &attention_shapes[i], turn % 3 ? uniform : integers, turn < 4);
    }
    check_attention(c, &attention_shapes[i], sparks, true);
  }
  for (int turn = 0; c->large && turn < 4; turn++) {
    check_attention(c, &large_attention, uniform, true);
  }
}

/* ---- TSI --------------------------------------------------------------------------------- */

typedef struct tsi_args {
  int64_t chunk;
} tsi_args;

static mt_status call_infuse(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_tsi_infuse(rt, k->in[0].view, k->in[1].view, k->in[2].view, k->in[3].view, out);
}
static mt_status call_read(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_tsi_read(rt, k->in[0].view, k->in[1].view, out);
}
static mt_status call_scan(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const tsi_args *args = k->args;
  return mt_tsi_scan(rt, k->in[0].view, k->in[1].view, k->in[2].view, k->in[3].view, k->in[4].view,
                     args->chunk, &out[0], &out[1]);
}

/* The op on the magnitudes of its inputs, times the roundings of a chain of that length. */
static void magnitude_slack(conf *c, conf_case *k, double terms) {
  conf_case plain = {.args = k->args};
  mt_tensor *out[CONF_OUTPUTS] = {NULL};
  for (size_t i = 0; i < k->in_count; i++) {
    plain.in[i].view = conf_magnitudes(c, k->in[i].view);
  }
  if (!c->broken && k->call(c->reference, &plain, out) != MT_OK) {
    c->broken = true;
  }
  for (size_t i = 0; i < k->in_count; i++) {
    mt_tensor_release(&plain.in[i].view);
  }
  for (size_t i = 0; i < k->out_count; i++) {
    k->slack[i] = conf_slack(c, out[i], 2 * terms * conf_roundoff(c->dtype));
  }
}

typedef struct tsi_shape {
  int lead;
  int64_t extent[2], rows, cols, steps;
} tsi_shape;

static const tsi_shape tsi_shapes[] = {
    {0, {0, 0}, 1, 1, 1},    {0, {0, 0}, 7, 5, 3}, {1, {3, 0}, 16, 16, 9}, {2, {2, 3}, 33, 17, 65},
    {2, {1, 2}, 64, 64, 70}, {1, {0, 0}, 4, 4, 2}, {1, {2, 0}, 5, 40, 0},  {2, {2, 2}, 20, 48, 33},
};

/* [lead..., a, b] (count 0 to 2 of them) */
static conf_operand make_tail(conf *c, const tsi_shape *s, int count, int64_t a, int64_t b,
                              conf_fill fill) {
  int64_t shape[4];
  int64_t tail[] = {a, b};
  memcpy(shape, s->extent, sizeof(s->extent));
  for (int i = 0; i < count; i++) {
    shape[s->lead + i] = tail[i];
  }
  return conf_make(c, c->dtype, s->lead + count, shape, conf_any_layout(c), fill);
}

static void finish_tsi(conf *c, conf_case *k, const tsi_shape *s, const char *what, double terms,
                       bool in_place) {
  if (k->in[0].view) {
    magnitude_slack(c, k, terms);
  }
  k->ulps = 1;
  k->tiny = true;
  k->out = (conf_out)conf_below(c, in_place ? 3 : 2);
  k->out_layout = (conf_layout)conf_below(c, 3);
  snprintf(k->what, sizeof(k->what), "%s %d x %d, %d steps, gate of rank %d", what, (int)s->rows,
           (int)s->cols, (int)s->steps, k->in[1].view ? mt_tensor_rank(k->in[1].view) : 0);
  conf_check(c, k);
}

static void infuse_body(conf *c, const void *row) {
  (void)row;
  for (size_t i = 0; i < COUNT(tsi_shapes); i++) {
    for (int turn = 0; turn < 8; turn++) {
      const tsi_shape *s = &tsi_shapes[i];
      conf_case k = {.call = call_infuse, .in_count = 4, .out_count = 1};
      const int64_t shape[] = {s->extent[0], s->extent[1]};
      int64_t state[4];
      conf_layout layout = turn == 0 ? CONF_PACKED : conf_any_layout(c);
      memcpy(state, shape, sizeof(shape));
      state[s->lead] = s->rows;
      state[s->lead + 1] = s->cols;
      k.in[0] = conf_make(c, c->dtype, s->lead + 2, state, layout, uniform);
      k.in[1] = make_tail(c, s, turn % 2, s->rows, 0, gates);
      k.in[2] = make_tail(c, s, 1, s->rows, 0, uniform);
      k.in[3] = make_tail(c, s, 1, s->cols, 0, uniform);
      finish_tsi(c, &k, s, "infuse", 4, layout != CONF_BROADCAST);
    }
  }
}

static void read_body(conf *c, const void *row) {
  (void)row;
  for (size_t i = 0; i < COUNT(tsi_shapes); i++) {
    for (int turn = 0; turn < 8; turn++) {
      const tsi_shape *s = &tsi_shapes[i];
      conf_case k = {.call = call_read, .in_count = 2, .out_count = 1};
      k.in[0] = make_tail(c, s, 2, s->rows, s->cols, uniform);
      k.in[1] = make_tail(c, s, 1, s->rows, 0, uniform);
      finish_tsi(c, &k, s, "read", (double)s->rows + 8, false);
    }
  }
}

static void scan_body(conf *c, const void *row) {
  (void)row;
  for (size_t i = 0; i < COUNT(tsi_shapes); i++) {
    for (int turn = 0; turn < 8; turn++) {
      const tsi_shape *s = &tsi_shapes[i];
      const tsi_args args = {conf_below(c, 3) * 16};
      conf_case k = {.call = call_scan, .args = &args, .in_count = 5, .out_count = 2};
      k.in[0] = make_tail(c, s, 2, s->rows, s->cols, uniform);
      k.in[1] = make_tail(c, s, 1 + turn % 2, s->steps, s->rows, gates);
      k.in[2] = make_tail(c, s, 2, s->steps, s->rows, uniform);
      k.in[3] = make_tail(c, s, 2, s->steps, s->rows, uniform);
      k.in[4] = make_tail(c, s, 2, s->steps, s->cols, uniform);
      finish_tsi(c, &k, s, "scan", (double)(s->rows + 4 * s->steps) + 16, false);
    }
  }
}

/* ---- bitlinear ---------------------------------------------------------------------------- */

static mt_status call_bitlinear(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  mt_bitlinear_options options = MT_BITLINEAR_OPTIONS_INIT;
  options.weight_scale = k->in[2].view;
  options.x_scale = k->in[3].view;
  options.bias = k->in[4].view;
  return mt_bitlinear(rt, k->in[0].view, k->in[1].view, &options, out);
}

static void check_bitlinear(conf *c, int64_t m, int64_t n, int64_t depth, bool plain) {
  const int64_t x[] = {m, depth}, w[] = {n, depth}, one = 1;
  conf_case k = {.call = call_bitlinear, .in_count = 5};
  bool bytes = c->dtype == MT_I8;
  k.in[0] = conf_make(c, c->dtype, 2, x, plain ? CONF_PACKED : conf_any_layout(c),
                      bytes ? (conf_fill){CONF_INTEGERS, -127, 127} : uniform);
  k.in[1] = conf_make(c, MT_I8, 2, w, plain ? CONF_PACKED : conf_any_layout(c),
                      conf_below(c, 3) ? ternary : (conf_fill){CONF_INTEGERS, -128, 127});
  if (conf_below(c, 2)) {
    k.in[2] = conf_make(c, MT_F32, 1, conf_below(c, 2) ? &n : &one, CONF_PACKED, uniform);
  }
  if (bytes && conf_below(c, 2)) {
    k.in[3] = conf_make(c, MT_F32, 1, conf_below(c, 2) ? &m : &one, CONF_PACKED, uniform);
  }
  if (conf_below(c, 2)) {
    k.in[4] = conf_make(c, MT_F32, 1, &n, conf_any_layout(c), uniform);
  }
  double u = conf_roundoff(c->dtype == MT_I8 ? MT_F32 : c->dtype);
  double size = (double)depth * conf_largest(c, k.in[0].view) * conf_largest(c, k.in[1].view);
  k.slack[0] =
      conf_constant_slack(c, m * n, 2 * ((bytes ? 0 : (double)depth) + 8) * u * (size + 1));
  k.ulps = 1;
  k.out = (conf_out)conf_below(c, 2);
  k.out_layout = (conf_layout)conf_below(c, 3);
  snprintf(k.what, sizeof(k.what), "%d x %d x %d", (int)m, (int)n, (int)depth);
  conf_check(c, &k);
}

static void bitlinear_body(conf *c, const void *row) {
  static const int64_t sizes[][3] = {{1, 1, 1},   {1, 64, 256},   {3, 5, 7},
                                     {7, 33, 65}, {16, 17, 128},  {0, 3, 4},
                                     {2, 3, 0},   {1, 130, 1000}, {33, 20, 96}};
  (void)row;
  for (size_t i = 0; i < COUNT(sizes); i++) {
    for (int turn = 0; turn < 6; turn++) {
      check_bitlinear(c, sizes[i][0], sizes[i][1], sizes[i][2], turn < 3);
    }
  }
}

static const mt_dtype bitlinear_dtypes[] = {MT_F32, MT_F16, MT_BF16, MT_I8, MT_DTYPE_NONE};

static const conf_op ops[] = {
    {"attention", conf_floats, attention_body, NULL},
    {"tsi_infuse", conf_floats, infuse_body, NULL},
    {"tsi_read", conf_floats, read_body, NULL},
    {"tsi_scan", conf_floats, scan_body, NULL},
    {"bitlinear", bitlinear_dtypes, bitlinear_body, NULL},
};
const conf_family conf_attention = {ops, COUNT(ops)};
