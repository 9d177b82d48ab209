// SPDX-License-Identifier: Apache-2.0
/* Functions of one and two inputs, comparisons, scale. */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const mt_dtype conf_floats[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_DTYPE_NONE};
const mt_dtype conf_numbers[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,
                                 MT_U8,  MT_I16, MT_I32, MT_I64,  MT_DTYPE_NONE};
const mt_dtype conf_all[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,        MT_U8,
                             MT_I16, MT_I32, MT_I64, MT_BOOL, MT_DTYPE_NONE};

typedef struct shape {
  int rank;
  int64_t extent[4];
} shape;

static const shape shapes[] = {
    {0, {0}},    {1, {1}},       {1, {3}},     {1, {7}},        {1, {17}},
    {1, {33}},   {1, {65}},      {1, {129}},   {1, {0}},        {2, {17, 33}},
    {2, {3, 0}}, {3, {3, 5, 7}}, {2, {65, 1}}, {3, {2, 1, 65}}, {4, {2, 3, 4, 5}},
};
static const shape large_shape = {2, {301, 1003}};

/* Where the output goes, by number; the same for all elementwise ops. */
static void choose_output(conf_case *k, int number, const char *layout, bool in_place) {
  static const struct {
    conf_out out;
    conf_layout layout;
    const char *name;
  } ways[] = {
      {CONF_FRESH, CONF_PACKED, ""},
      {CONF_GIVEN, CONF_SLICED, ", sliced output"},
      {CONF_IN_PLACE, CONF_PACKED, ""},
      {CONF_GIVEN, CONF_TRANSPOSED, ", transposed output"},
      {CONF_GIVEN, CONF_MISALIGNED, ", misaligned output"},
  };
  k->out = ways[number].out == CONF_IN_PLACE && !in_place ? CONF_FRESH : ways[number].out;
  k->out_layout = ways[number].layout;
  snprintf(k->what, sizeof(k->what), "%s%s", layout, ways[number].name);
}

enum { OUTPUTS = 5 };

static const char *const layout_names[] = {"packed", "transposed", "sliced",  "broadcast",
                                           "offset", "misaligned", "reversed"};

/* Every layout with a new output; all kinds of output with three of the layouts. */
static bool worth_it(conf_layout layout, int output) {
  return output == 0 ||
         ((layout == CONF_PACKED || layout == CONF_SLICED || layout == CONF_MISALIGNED));
}

/* ---- two inputs ---------------------------------------------------------------------- */

typedef struct binary_row {
  mt_status (*fn)(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
  double ulps;   /* of random and special floats; integers are exact (but quotients) */
  bool quotient; /* not exact on integers either */
  bool compares; /* the result is bool */
} binary_row;

static const binary_row row_add = {mt_add, 0, false, false}, row_sub = {mt_sub, 0, false, false},
                        row_mul = {mt_mul, 0, false, false}, row_div = {mt_div, 3, true, false},
                        row_maximum = {mt_maximum, 0, false, false},
                        row_minimum = {mt_minimum, 0, false, false},
                        row_pow = {mt_pow, 16, true, false}, row_equal = {mt_equal, 0, false, true},
                        row_not_equal = {mt_not_equal, 0, false, true},
                        row_less = {mt_less, 0, false, true},
                        row_less_equal = {mt_less_equal, 0, false, true},
                        row_greater = {mt_greater, 0, false, true},
                        row_greater_equal = {mt_greater_equal, 0, false, true};

static mt_status call_binary(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const binary_row *row = k->args;
  return row->fn(rt, k->in[0].view, k->in[1].view, out);
}

static void check_binary(conf *c, const binary_row *row, const shape *a, const shape *b,
                         conf_layout la, conf_layout lb, conf_fill fill, int output) {
  conf_case k = {.call = call_binary, .args = row, .in_count = 2};
  char names[64];
  k.in[0] = conf_make(c, c->dtype, a->rank, a->extent, la, fill);
  k.in[1] = conf_make(c, c->dtype, b->rank, b->extent, lb, fill);
  bool whole = fill.kind == CONF_INTEGERS && !row->quotient;
  k.ulps = whole ? 0 : row->ulps;
  k.tiny = fill.kind == CONF_SPECIALS;
  snprintf(names, sizeof(names), "%s and %s", layout_names[la], layout_names[lb]);
  choose_output(&k, output, names, !row->compares || c->dtype == MT_BOOL);
  conf_check(c, &k);
}

static const conf_fill small_integers = {CONF_INTEGERS, -4, 4};
static const conf_fill around_zero = {CONF_UNIFORM, -8, 8};
static const conf_fill any_bits = {CONF_BITS, 0, 0};
static const conf_fill specials = {CONF_SPECIALS, 0, 0};

static void binary_same_shape(conf *c, const binary_row *row, const shape *s) {
  const conf_fill fills[] = {small_integers, any_bits, specials};
  for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
    for (int output = 0; output < OUTPUTS; output++) {
      if (!worth_it((conf_layout)layout, output)) {
        continue;
      }
      for (size_t f = 0; f < COUNT(fills); f++) {
        conf_layout other = (conf_layout)conf_below(c, CONF_LAYOUTS);
        check_binary(c, row, s, s, (conf_layout)layout, other, fills[f], output);
      }
    }
  }
}

static void binary_body(conf *c, const void *arg) {
  static const shape pairs[][2] = {
      {{2, {3, 5}}, {1, {5}}},
      {{3, {4, 1, 7}}, {2, {3, 1}}},
      {{0, {0}}, {1, {7}}},
      {{1, {1}}, {1, {129}}},
      {{2, {0, 3}}, {2, {1, 3}}},
      {{2, {33, 65}}, {1, {1}}},
      {{4, {2, 3, 4, 5}}, {3, {3, 1, 5}}},
      {{2, {17, 1}}, {2, {1, 33}}},
      {{2, {3, 1}}, {2, {1, 0}}},
      {{1, {65}}, {0, {0}}},
  };
  for (size_t i = 0; i < COUNT(shapes); i++) {
    binary_same_shape(c, arg, &shapes[i]);
  }
  for (size_t i = 0; i < COUNT(pairs); i++) {
    for (int turn = 0; turn < 2; turn++) {
      conf_layout la = (conf_layout)conf_below(c, CONF_LAYOUTS);
      conf_layout lb = (conf_layout)conf_below(c, CONF_LAYOUTS);
      const shape *a = &pairs[i][turn], *b = &pairs[i][1 - turn];
      check_binary(c, arg, a, b, CONF_PACKED, CONF_PACKED, small_integers, 0);
      check_binary(c, arg, a, b, la, lb, any_bits, 0);
      check_binary(c, arg, a, b, lb, la, around_zero, 1);
    }
  }
  if (c->large) {
    check_binary(c, arg, &large_shape, &large_shape, CONF_PACKED, CONF_PACKED, any_bits, 0);
    check_binary(c, arg, &large_shape, &large_shape, CONF_SLICED, CONF_TRANSPOSED, any_bits, 1);
  }
}

/* ---- one input ----------------------------------------------------------------------- */

typedef struct unary_row {
  mt_status (*fn)(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
  double lo, hi; /* of random inputs */
  double ulps;
  /* gelu and silu cancel below 0: this many roundoffs of |x| on top */
  double cancel;
  bool exact; /* on every input */
} unary_row;

static const unary_row row_relu = {mt_relu, -8, 8, 0, 0, true},
                       row_gelu = {mt_gelu, -8, 8, 8, 4, false},
                       row_gelu_tanh = {mt_gelu_tanh, -8, 8, 8, 4, false},
                       row_silu = {mt_silu, -20, 20, 8, 0, false},
                       row_sigmoid = {mt_sigmoid, -20, 20, 8, 0, false},
                       row_tanh = {mt_tanh, -10, 10, 8, 0, false},
                       row_exp = {mt_exp, -10, 10, 4, 0, false},
                       row_log = {mt_log, 0, 100, 4, 0, false},
                       row_sqrt = {mt_sqrt, 0, 100, 3, 0, false},
                       row_sin = {mt_sin, -40, 40, 8, 0, false},
                       row_cos = {mt_cos, -40, 40, 8, 0, false},
                       row_erf = {mt_erf, -4, 4, 8, 0, false},
                       row_rsqrt = {mt_rsqrt, 0, 100, 4, 0, false},
                       row_reciprocal = {mt_reciprocal, -8, 8, 3, 0, false},
                       row_floor = {mt_floor, -8, 8, 0, 0, true},
                       row_ceil = {mt_ceil, -8, 8, 0, 0, true},
                       row_round = {mt_round, -8, 8, 0, 0, true},
                       row_neg = {mt_neg, -8, 8, 0, 0, true}, row_abs = {mt_abs, -8, 8, 0, 0, true};

static mt_status call_unary(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const unary_row *row = k->args;
  return row->fn(rt, k->in[0].view, out);
}

/* f16 and bf16 compute in f32: only the last rounding can fall to the other side. */
static double ulps_of(const conf *c, double ulps) {
  return ulps > 1 && (c->dtype == MT_F16 || c->dtype == MT_BF16) ? 1 : ulps;
}

static double *cancel_slack(conf *c, const mt_tensor *x, double roundoffs) {
  double *slack = conf_values(c, x);
  for (int64_t i = 0; slack && i < mt_tensor_elements(x); i++) {
    slack[i] = fabs(slack[i]) * roundoffs * conf_roundoff(c->dtype);
  }
  return slack;
}

static void check_unary(conf *c, const unary_row *row, const shape *s, conf_layout layout,
                        conf_fill fill, int output) {
  conf_case k = {.call = call_unary, .args = row, .in_count = 1};
  k.in[0] = conf_make(c, c->dtype, s->rank, s->extent, layout, fill);
  k.ulps = row->exact ? 0 : ulps_of(c, row->ulps);
  k.slack[0] = row->cancel > 0 && k.in[0].view ? cancel_slack(c, k.in[0].view, row->cancel) : NULL;
  k.tiny = !row->exact || fill.kind == CONF_SPECIALS;
  choose_output(&k, output, layout_names[layout], true);
  conf_check(c, &k);
}

static void unary_body(conf *c, const void *arg) {
  const unary_row *row = arg;
  const conf_fill fills[] = {small_integers, {CONF_UNIFORM, row->lo, row->hi}, specials};
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (int output = 0; output < OUTPUTS; output++) {
        for (size_t f = 0; worth_it((conf_layout)layout, output) && f < COUNT(fills); f++) {
          if (layout != CONF_BROADCAST || output == 0) {
            check_unary(c, row, &shapes[i], (conf_layout)layout, fills[f], output);
          }
        }
      }
    }
  }
  if (c->large) {
    check_unary(c, row, &large_shape, CONF_PACKED, fills[1], 0);
    check_unary(c, row, &large_shape, CONF_PACKED, fills[1], 2);
    check_unary(c, row, &large_shape, CONF_TRANSPOSED, fills[1], 1);
  }
}

/* ---- scale --------------------------------------------------------------------------- */

static mt_status call_scale(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_scale(rt, k->in[0].view, *(const double *)k->args, out);
}

static void scale_body(conf *c, const void *arg) {
  static const double factors[] = {2, 0.5, -3, 0, 1.0 / 3, -0.0};
  (void)arg;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (int output = 0; worth_it((conf_layout)layout, output) && output < OUTPUTS; output++) {
        const conf_fill fills[] = {small_integers, around_zero, specials};
        size_t f = conf_below(c, COUNT(fills)), n = conf_below(c, COUNT(factors));
        conf_case k = {.call = call_scale, .args = &factors[n], .in_count = 1};
        k.in[0] =
            conf_make(c, c->dtype, shapes[i].rank, shapes[i].extent, (conf_layout)layout, fills[f]);
        k.ulps = factors[n] == 1.0 / 3 ? 2 : 0; /* the factor itself may be rounded to f32 */
        k.tiny = f == 2;
        choose_output(&k, output, layout_names[layout], true);
        conf_check(c, &k);
      }
    }
  }
}

static const conf_op ops[] = {
    {"add", conf_numbers, binary_body, &row_add},
    {"sub", conf_numbers, binary_body, &row_sub},
    {"mul", conf_numbers, binary_body, &row_mul},
    {"div", conf_numbers, binary_body, &row_div},
    {"relu", conf_floats, unary_body, &row_relu},
    {"gelu", conf_floats, unary_body, &row_gelu},
    {"gelu_tanh", conf_floats, unary_body, &row_gelu_tanh},
    {"silu", conf_floats, unary_body, &row_silu},
    {"sigmoid", conf_floats, unary_body, &row_sigmoid},
    {"tanh", conf_floats, unary_body, &row_tanh},
    {"exp", conf_floats, unary_body, &row_exp},
    {"log", conf_floats, unary_body, &row_log},
    {"sqrt", conf_floats, unary_body, &row_sqrt},
    {"scale", conf_floats, scale_body, NULL},
    {"sin", conf_floats, unary_body, &row_sin},
    {"cos", conf_floats, unary_body, &row_cos},
    {"erf", conf_floats, unary_body, &row_erf},
    {"rsqrt", conf_floats, unary_body, &row_rsqrt},
    {"reciprocal", conf_floats, unary_body, &row_reciprocal},
    {"floor", conf_floats, unary_body, &row_floor},
    {"ceil", conf_floats, unary_body, &row_ceil},
    {"round", conf_floats, unary_body, &row_round},
    {"neg", conf_numbers, unary_body, &row_neg},
    {"abs", conf_numbers, unary_body, &row_abs},
    {"maximum", conf_numbers, binary_body, &row_maximum},
    {"minimum", conf_numbers, binary_body, &row_minimum},
    {"pow", conf_floats, binary_body, &row_pow},
    {"equal", conf_all, binary_body, &row_equal},
    {"not_equal", conf_all, binary_body, &row_not_equal},
    {"less", conf_numbers, binary_body, &row_less},
    {"less_equal", conf_numbers, binary_body, &row_less_equal},
    {"greater", conf_numbers, binary_body, &row_greater},
    {"greater_equal", conf_numbers, binary_body, &row_greater_equal},
};
const conf_family conf_elementwise = {ops, COUNT(ops)};
