// SPDX-License-Identifier: Apache-2.0
/* copy, cast, concat, gather: bytes arrive unchanged, or exactly rounded. */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const mt_dtype conf_plain_and_block[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,    MT_U8,
                                         MT_I16, MT_I32, MT_I64, MT_BOOL, MT_BLOCK, MT_DTYPE_NONE};

typedef struct shape {
  int rank;
  int64_t extent[4];
} shape;

static const shape shapes[] = {
    {0, {0}},    {1, {1}},      {1, {7}},     {1, {33}},      {1, {129}},        {1, {0}},
    {2, {3, 0}}, {2, {17, 33}}, {2, {65, 7}}, {3, {3, 5, 7}}, {4, {2, 3, 4, 5}}, {2, {1, 65}},
};
static const shape large_shape = {2, {517, 613}};

static const conf_fill any = {CONF_BITS, 0, 0};
static const conf_fill specials = {CONF_SPECIALS, 0, 0};
static const conf_fill uniform = {CONF_UNIFORM, -1, 1};

static void choose_output(conf *c, conf_case *k) {
  k->out = conf_below(c, 2) ? CONF_GIVEN : CONF_FRESH;
  k->out_layout = (conf_layout)conf_below(c, 3);
}

/* ---- block formats ------------------------------------------------------------------- */

/* [lines..., n] in q8_0, whole or cut: every other line, or from the second block on. */
static conf_operand make_blocks(conf *c, int rank, const int64_t *extent, int cut) {
  if (conf_left_out(c, c->number + 1)) {
    return (conf_operand){NULL, NULL};
  }
  int64_t stored[4];
  conf_operand plain, made = {NULL, NULL};
  memcpy(stored, extent, sizeof(stored));
  stored[rank - 1] += cut == 2 ? 32 : 0;
  stored[0] *= cut == 1 && rank > 1 ? 2 : 1;
  plain = conf_make(c, MT_F32, rank, stored, CONF_PACKED, uniform);
  mt_tensor *blocks = NULL;
  mt_status status = plain.view
                         ? mt_quantize(c->reference, plain.view, mt_format_find("q8_0"), &blocks)
                         : MT_ERR_OUT_OF_MEMORY;
  if (status == MT_OK && cut == 1 && rank > 1) {
    status = mt_tensor_slice(blocks, 0, 0, stored[0], 2, &made.view);
  } else if (status == MT_OK && cut == 2) {
    status = mt_tensor_slice(blocks, -1, 32, stored[rank - 1], 1, &made.view);
  } else if (status == MT_OK) {
    made.view = mt_tensor_retain(blocks);
  }
  c->broken = c->broken || status != MT_OK;
  conf_operand_release(&plain);
  mt_tensor_release(&blocks);
  return made;
}

static const shape block_shapes[] = {
    {1, {32}}, {1, {1}}, {2, {3, 33}}, {2, {17, 96}}, {3, {2, 3, 65}}, {2, {0, 64}},
};

/* ---- copy ---------------------------------------------------------------------------- */

static mt_status call_copy(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_copy(rt, k->in[0].view, out);
}

static void check_copy(conf *c, const shape *s, conf_layout layout, conf_fill fill) {
  conf_case k = {.call = call_copy, .in_count = 1, .bits = true};
  k.in[0] = conf_make(c, c->dtype, s->rank, s->extent, layout, fill);
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "layout %d", (int)layout);
  conf_check(c, &k);
}

static void copy_blocks(conf *c) {
  for (size_t i = 0; i < COUNT(block_shapes); i++) {
    for (int cut = 0; cut < 3; cut++) {
      conf_case k = {.call = call_copy, .in_count = 1, .bits = true};
      k.in[0] = make_blocks(c, block_shapes[i].rank, block_shapes[i].extent, cut);
      snprintf(k.what, sizeof(k.what), "q8_0, cut %d", cut);
      conf_check(c, &k);
    }
  }
}

static void copy_body(conf *c, const void *row) {
  (void)row;
  if (c->dtype == MT_BLOCK) {
    copy_blocks(c);
    return;
  }
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      check_copy(c, &shapes[i], (conf_layout)layout, any);
      check_copy(c, &shapes[i], (conf_layout)layout, specials);
    }
  }
  if (c->large) {
    check_copy(c, &large_shape, CONF_PACKED, any);
    check_copy(c, &large_shape, CONF_TRANSPOSED, any);
  }
}

/* ---- cast ---------------------------------------------------------------------------- */

static mt_status call_cast(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_cast(rt, k->in[0].view, *(const mt_dtype *)k->args, out);
}

/* x: taken over. */
static void check_cast(conf *c, conf_operand x, const mt_dtype *to, int layout, bool tiny) {
  conf_case k = {.call = call_cast, .args = to, .in_count = 1, .tiny = tiny};
  k.in[0] = x;
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "to %s, layout %d", mt_dtype_name(*to), layout);
  conf_check(c, &k);
}

static void cast_body(conf *c, const void *row) {
  static const mt_dtype f32 = MT_F32;
  static const conf_fill fills[] = {
      {CONF_UNIFORM, -300, 300}, {CONF_BITS, 0, 0}, {CONF_SPECIALS, 0, 0}};
  (void)row;
  for (size_t i = 0; c->dtype == MT_BLOCK && i < COUNT(block_shapes); i++) {
    for (int cut = 0; cut < 3; cut++) {
      check_cast(c, make_blocks(c, block_shapes[i].rank, block_shapes[i].extent, cut), &f32, cut,
                 false);
    }
  }
  for (const mt_dtype *to = conf_all; c->dtype != MT_BLOCK && *to; to++) {
    for (size_t i = 0; i < COUNT(shapes); i++) {
      int layout = (int)conf_below(c, CONF_LAYOUTS);
      for (size_t f = 0; f < COUNT(fills); f++) {
        layout = (layout + 1) % CONF_LAYOUTS;
        conf_operand x =
            conf_make(c, c->dtype, shapes[i].rank, shapes[i].extent, (conf_layout)layout, fills[f]);
        check_cast(c, x, to, layout, fills[f].kind == CONF_SPECIALS);
      }
    }
    if (c->large) {
      conf_operand x = conf_make(c, c->dtype, 2, large_shape.extent, CONF_PACKED, any);
      check_cast(c, x, to, CONF_PACKED, false);
    }
  }
}

/* ---- concat -------------------------------------------------------------------------- */

static mt_status call_concat(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  mt_tensor *inputs[CONF_INPUTS];
  for (size_t i = 0; i < k->in_count; i++) {
    inputs[i] = k->in[i].view;
  }
  return mt_concat(rt, inputs, k->in_count, *(const int *)k->args, out);
}

/* extent[axis] of input i is lengths[i] */
static void check_concat(conf *c, const shape *s, int axis, size_t count, const int64_t *lengths) {
  conf_case k = {.call = call_concat, .args = &axis, .in_count = count, .bits = true};
  for (size_t i = 0; i < count; i++) {
    shape one = *s;
    one.extent[axis < 0 ? axis + s->rank : axis] = lengths[i];
    k.in[i] =
        conf_make(c, c->dtype, one.rank, one.extent, (conf_layout)conf_below(c, CONF_LAYOUTS), any);
  }
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "axis %d of rank %d, %zu inputs", axis, s->rank, count);
  conf_check(c, &k);
}

static void concat_body(conf *c, const void *row) {
  static const struct {
    shape like;
    int axis;
    size_t count;
    int64_t lengths[CONF_INPUTS];
  } rows[] = {
      {{1, {0}}, 0, 1, {5}},
      {{1, {0}}, -1, 3, {3, 0, 7}},
      {{2, {0, 33}}, 0, 2, {17, 1}},
      {{2, {17, 0}}, 1, 3, {1, 33, 65}},
      {{3, {3, 0, 7}}, 1, 4, {5, 1, 0, 3}},
      {{3, {3, 5, 0}}, -1, 2, {129, 2}},
      {{3, {0, 5, 2}}, -3, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
      {{2, {0, 0}}, 0, 2, {2, 3}},
      {{2, {0, 700}}, 0, 2, {300, 200}},
  };
  (void)row;
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (int turn = 0; turn < 6; turn++) {
      check_concat(c, &rows[i].like, rows[i].axis, rows[i].count, rows[i].lengths);
    }
  }
}

/* ---- gather -------------------------------------------------------------------------- */

static mt_status call_gather(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_gather(rt, k->in[0].view, k->in[1].view, out);
}

/* table: taken over. */
static void check_gather(conf *c, conf_operand table, const shape *at, conf_layout layout) {
  conf_case k = {.call = call_gather, .in_count = 2, .bits = c->dtype != MT_BLOCK};
  mt_dtype type = conf_below(c, 2) ? MT_I32 : MT_I64;
  int64_t rows = table.view ? mt_tensor_shape(table.view)[0] : 1;
  k.in[0] = table;
  k.in[1] = conf_make(c, type, at->rank, at->extent, layout,
                      (conf_fill){CONF_INTEGERS, 0, (double)(rows - 1)});
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "indices %s rank %d layout %d", mt_dtype_name(type), at->rank,
           (int)layout);
  conf_check(c, &k);
}

static void gather_body(conf *c, const void *row) {
  static const shape tables[] = {{1, {7}},       {2, {5, 3}},  {2, {129, 33}}, {2, {4, 0}},
                                 {3, {3, 2, 5}}, {2, {1, 65}}, {2, {300, 384}}};
  static const shape indices[] = {{0, {0}},  {1, {1}},    {1, {0}},
                                  {1, {17}}, {2, {2, 3}}, {2, {33, 3}}};
  (void)row;
  for (size_t i = 0; i < COUNT(indices); i++) {
    conf_layout layout = (conf_layout)conf_below(c, CONF_LAYOUTS);
    for (size_t t = 0; c->dtype != MT_BLOCK && t < COUNT(tables); t++) {
      conf_layout of_table = (conf_layout)conf_below(c, CONF_LAYOUTS);
      check_gather(c, conf_make(c, c->dtype, tables[t].rank, tables[t].extent, of_table, any),
                   &indices[i], layout);
    }
    for (int cut = 0; c->dtype == MT_BLOCK && cut < 3; cut++) {
      static const int64_t extent[4] = {17, 100};
      check_gather(c, make_blocks(c, 2, extent, cut), &indices[i], layout);
    }
  }
}

static const conf_op ops[] = {
    {"copy", conf_plain_and_block, copy_body, NULL},
    {"cast", conf_plain_and_block, cast_body, NULL},
    {"concat", conf_all, concat_body, NULL},
    {"gather", conf_plain_and_block, gather_body, NULL},
};
const conf_family conf_moving = {ops, COUNT(ops)};
