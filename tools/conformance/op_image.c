// SPDX-License-Identifier: Apache-2.0
/*
 * conv2d, pooling, pad, upsample. The error of a sum of n products, in whatever order, is at most
 * 2 (n + 8) u times the sum of their magnitudes, which the same op gives for |x| and |w|.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const conf_fill integers = {CONF_INTEGERS, -4, 4}, uniform = {CONF_UNIFORM, -1, 1},
                       sparks = {CONF_SPARKS, -4, 4}, any_bits = {CONF_BITS, 0, 0};

static void choose_output(conf *c, conf_case *k) {
  k->out = (conf_out)conf_below(c, 2);
  k->out_layout = (conf_layout)conf_below(c, 3);
}

/* ---- conv2d ---------------------------------------------------------------------------- */

typedef struct conv_shape {
  int64_t n, c, h, w, o, kh, kw;
  int64_t stride[2], padding[4], dilation[2], groups;
} conv_shape;

static const conv_shape conv_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {2, 3, 9, 11, 5, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {1, 8, 7, 7, 16, 1, 1, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 16, 12, 17, 33, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {2, 4, 13, 10, 6, 3, 2, {2, 3}, {0, 1, 2, 0}, {1, 1}, 1},
    {1, 3, 23, 23, 8, 7, 7, {2, 2}, {3, 3, 3, 3}, {1, 1}, 1},
    {1, 5, 16, 9, 7, 3, 3, {1, 1}, {2, 2, 2, 2}, {2, 2}, 1},
    {1, 6, 10, 10, 9, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
    {2, 12, 9, 20, 12, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 12},
    {1, 40, 8, 8, 40, 5, 5, {2, 2}, {2, 2, 2, 2}, {1, 1}, 40},
    {1, 4, 6, 6, 8, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 4},
    {1, 32, 6, 33, 20, 3, 3, {1, 1}, {1, 0, 1, 2}, {1, 1}, 2},
    {3, 7, 1, 65, 10, 1, 5, {1, 2}, {0, 2, 0, 2}, {1, 3}, 1},
    {0, 3, 4, 4, 2, 3, 3, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 0, 4, 4, 2, 3, 3, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {1, 2, 2, 2, 3, 2, 2, {1, 1}, {3, 4, 5, 6}, {1, 1}, 1}, /* windows of padding alone */
};
static const conv_shape large_conv = {2, 33, 29, 31, 65, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1};

static mt_status call_conv(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_conv2d(rt, k->in[0].view, k->in[1].view, k->in[2].view, k->args, out);
}

static double *conv_slack(conf *c, const conf_case *k, const mt_conv2d_options *options) {
  mt_conv2d_options plain = *options;
  mt_tensor *x = conf_magnitudes(c, k->in[0].view), *w = conf_magnitudes(c, k->in[1].view);
  mt_tensor *bias = conf_magnitudes(c, k->in[2].view), *sums = NULL;
  const int64_t *shape = mt_tensor_shape(k->in[1].view);
  double terms = (double)(mt_tensor_elements(k->in[1].view) / (shape[0] > 0 ? shape[0] : 1));
  plain.activation = MT_ACT_NONE;
  if (mt_conv2d(c->reference, x, w, bias, &plain, &sums) != MT_OK) {
    c->broken = true;
  }
  mt_tensor_release(&x);
  mt_tensor_release(&w);
  mt_tensor_release(&bias);
  /* no activation steepens by more than 1.13 */
  return conf_slack(c, sums, 1.2 * 2 * (terms + 8) * conf_roundoff(c->dtype));
}

/* [a, b, c, d] or, channels last, [a, c, d, b] */
static conf_operand make_image(conf *c, mt_image_layout layout, int64_t n, int64_t channels,
                               int64_t h, int64_t w, conf_layout how, conf_fill fill) {
  const int64_t first[] = {n, channels, h, w}, last[] = {n, h, w, channels};
  return conf_make(c, c->dtype, 4, layout == MT_NCHW ? first : last, how, fill);
}

static void check_conv(conf *c, const conv_shape *s, conf_fill fill, bool plain) {
  mt_conv2d_options options = MT_CONV2D_OPTIONS_INIT;
  conf_case k = {.call = call_conv, .args = &options, .in_count = 3};
  memcpy(options.stride, s->stride, sizeof(s->stride));
  memcpy(options.padding, s->padding, sizeof(s->padding));
  memcpy(options.dilation, s->dilation, sizeof(s->dilation));
  options.groups = s->groups;
  options.layout = (mt_image_layout)conf_below(c, 2);
  options.activation = fill.kind == CONF_UNIFORM ? (mt_activation)conf_below(c, 5) : MT_ACT_NONE;
  k.in[0] = make_image(c, options.layout, s->n, s->c, s->h, s->w,
                       plain ? CONF_PACKED : conf_any_layout(c), fill);
  k.in[1] = make_image(c, options.layout, s->o, s->c / s->groups, s->kh, s->kw,
                       plain ? CONF_PACKED : conf_any_layout(c),
                       fill.kind == CONF_SPARKS ? integers : fill); /* inf * padding is free */
  if (conf_below(c, 2)) {
    k.in[2] = conf_make(c, c->dtype, 1, &s->o, conf_any_layout(c), fill);
  }
  if (fill.kind == CONF_UNIFORM && k.in[0].view && k.in[1].view) {
    k.slack[0] = conv_slack(c, &k, &options);
    k.ulps = options.activation ? 8 : 1;
    k.tiny = true;
  }
  choose_output(c, &k);
  snprintf(
      k.what, sizeof(k.what),
      "%d channels %d x %d to %d, kernel %d x %d, groups %d, layout %d, activation %d, fill %d",
      (int)s->c, (int)s->h, (int)s->w, (int)s->o, (int)s->kh, (int)s->kw, (int)s->groups,
      (int)options.layout, (int)options.activation, (int)fill.kind);
  conf_check(c, &k);
}

static void conv_body(conf *c, const void *row) {
  const conf_fill fills[] = {integers, uniform, sparks};
  (void)row;
  for (size_t i = 0; i < COUNT(conv_shapes); i++) {
    for (size_t f = 0; f < COUNT(fills); f++) {
      for (int turn = 0; turn < 2; turn++) {
        check_conv(c, &conv_shapes[i], fills[f], turn == 0);
      }
    }
  }
  for (int turn = 0; c->large && turn < 3; turn++) {
    check_conv(c, &large_conv, uniform, turn < 2);
  }
}

/* ---- pooling --------------------------------------------------------------------------- */

typedef mt_status pool_fn(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                          mt_tensor **out);

typedef struct pool_args {
  pool_fn *fn;
  mt_pool2d_options options;
} pool_args;

typedef struct pool_row {
  pool_fn *fn;
  bool mean;
} pool_row;

static const pool_row row_max = {mt_max_pool2d, false}, row_mean = {mt_avg_pool2d, true};

static mt_status call_pool(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const pool_args *args = k->args;
  return args->fn(rt, k->in[0].view, &args->options, out);
}

static const mt_pool2d_options pools[] = {
    {sizeof(mt_pool2d_options), {2, 2}, {0, 0}, {0, 0, 0, 0}, {1, 1}, 0, 1, MT_NCHW},
    {sizeof(mt_pool2d_options), {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 0, 1, MT_NCHW},
    {sizeof(mt_pool2d_options), {3, 2}, {2, 3}, {2, 0, 1, 1}, {1, 1}, 1, 0, MT_NCHW},
    {sizeof(mt_pool2d_options), {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 0, 1, MT_NCHW},
    {sizeof(mt_pool2d_options), {2, 3}, {1, 1}, {1, 2, 1, 2}, {1, 1}, 1, 0, MT_NCHW},
    {sizeof(mt_pool2d_options), {5, 7}, {3, 2}, {0, 0, 0, 0}, {1, 1}, 1, 1, MT_NCHW},
};

static void check_pool(conf *c, const pool_row *row, const mt_pool2d_options *options,
                       const int64_t *nchw, conf_layout layout, conf_fill fill) {
  pool_args args = {row->fn, *options};
  conf_case k = {.call = call_pool, .args = &args, .in_count = 1};
  args.options.layout = (mt_image_layout)conf_below(c, 2);
  if (!row->mean && conf_below(c, 3) == 0) {
    args.options.dilation[0] = args.options.dilation[1] = 2;
  }
  k.in[0] = make_image(c, args.options.layout, nchw[0], nchw[1], nchw[2], nchw[3], layout, fill);
  if (row->mean && k.in[0].view) {
    mt_tensor *x = conf_magnitudes(c, k.in[0].view), *means = NULL;
    double terms = (double)(options->kernel[0] * options->kernel[1]);
    if (mt_avg_pool2d(c->reference, x, &args.options, &means) != MT_OK) {
      c->broken = true;
    }
    mt_tensor_release(&x);
    k.slack[0] = conf_slack(c, means, 2 * (terms + 8) * conf_roundoff(c->dtype));
    k.ulps = 1;
  }
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "kernel %d x %d, ceil %d, pad counts %d, layout %d, fill %d",
           (int)options->kernel[0], (int)options->kernel[1], options->ceil_mode,
           options->count_include_pad, (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

static void pool_body(conf *c, const void *row) {
  static const int64_t images[][4] = {{1, 1, 5, 7},    {2, 3, 13, 14}, {1, 17, 9, 40},
                                      {2, 33, 12, 12}, {0, 3, 9, 9},   {1, 64, 14, 14}};
  const conf_fill fills[] = {integers, uniform, sparks};
  for (size_t i = 0; i < COUNT(images); i++) {
    for (size_t p = 0; p < COUNT(pools); p++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        bool dilated_fits = images[i][2] >= 9 && images[i][3] >= 13;
        const pool_row *r = row;
        if (r->mean || dilated_fits) {
          check_pool(c, row, &pools[p], images[i], CONF_PACKED, fills[f]);
          check_pool(c, row, &pools[p], images[i], conf_any_layout(c), fills[f]);
        }
      }
    }
  }
}

/* ---- pad ------------------------------------------------------------------------------- */

typedef struct pad_args {
  int64_t before[4], after[4];
  mt_pad_mode mode;
  double value;
} pad_args;

static mt_status call_pad(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const pad_args *args = k->args;
  return mt_pad(rt, k->in[0].view, args->before, args->after, args->mode, args->value, out);
}

static void check_pad(conf *c, int rank, const int64_t *shape, mt_pad_mode mode,
                      conf_layout layout) {
  static const double values[] = {0, 1, -1, 3};
  pad_args args = {.mode = mode, .value = values[conf_below(c, COUNT(values))]};
  conf_case k = {.call = call_pad, .args = &args, .in_count = 1, .bits = true};
  for (int i = 0; i < rank; i++) {
    uint32_t most = mode == MT_PAD_REFLECT ? (uint32_t)shape[i] : 6;
    args.before[i] = shape[i] > 0 || mode == MT_PAD_CONSTANT ? conf_below(c, most) : 0;
    args.after[i] = shape[i] > 0 || mode == MT_PAD_CONSTANT ? conf_below(c, most) : 0;
    if (mode == MT_PAD_CONSTANT && shape[i] > 2 && conf_below(c, 4) == 0) {
      args.before[i] = -1;
    }
  }
  k.in[0] = conf_make(c, c->dtype, rank, shape, layout, any_bits);
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "mode %d, value %g, layout %d", (int)mode, args.value,
           (int)layout);
  conf_check(c, &k);
}

static void pad_body(conf *c, const void *row) {
  static const struct {
    int rank;
    int64_t shape[4];
  } rows[] = {{1, {1}},          {1, {7}},       {2, {3, 65}}, {2, {17, 33}},
              {4, {2, 3, 8, 9}}, {3, {5, 1, 4}}, {2, {0, 4}},  {4, {1, 16, 30, 31}}};
  (void)row;
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (int mode = MT_PAD_CONSTANT; mode <= MT_PAD_REPLICATE; mode++) {
      for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
        check_pad(c, rows[i].rank, rows[i].shape, (mt_pad_mode)mode, (conf_layout)layout);
      }
    }
  }
}

/* ---- upsample ---------------------------------------------------------------------------- */

static mt_status call_upsample(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_upsample(rt, k->in[0].view, k->args, out);
}

static void check_upsample(conf *c, const int64_t *nchw, int64_t height, int64_t width,
                           conf_layout layout, conf_fill fill) {
  mt_upsample_options options = MT_UPSAMPLE_OPTIONS_INIT;
  conf_case k = {.call = call_upsample, .args = &options, .in_count = 1};
  options.height = height;
  options.width = width;
  options.mode = (mt_upsample_mode)conf_below(c, 2);
  options.align_corners = (int)conf_below(c, 2);
  options.layout = (mt_image_layout)conf_below(c, 2);
  k.in[0] = make_image(c, options.layout, nchw[0], nchw[1], nchw[2], nchw[3], layout, fill);
  if (options.mode == MT_UPSAMPLE_BILINEAR && k.in[0].view) {
    /* weights are off by a roundoff of the place, up to the extent; then four products */
    double place = (double)(nchw[2] > nchw[3] ? nchw[2] : nchw[3]);
    double largest = conf_largest(c, k.in[0].view);
    int64_t count = nchw[0] * nchw[1] * height * width;
    k.slack[0] =
        conf_constant_slack(c, count, largest * (8 * place + 16) * conf_roundoff(c->dtype));
    k.ulps = 1;
  }
  choose_output(c, &k);
  snprintf(k.what, sizeof(k.what), "%d x %d to %d x %d, mode %d, corners %d, layout %d, fill %d",
           (int)nchw[2], (int)nchw[3], (int)height, (int)width, (int)options.mode,
           options.align_corners, (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

static void upsample_body(conf *c, const void *row) {
  static const int64_t images[][4] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {1, 17, 8, 6}, {0, 2, 3, 3}};
  static const int64_t sizes[][2] = {{1, 1}, {10, 14}, {16, 12}, {3, 4}, {7, 33}};
  const conf_fill fills[] = {integers, uniform};
  (void)row;
  for (size_t i = 0; i < COUNT(images); i++) {
    for (size_t s = 0; s < COUNT(sizes); s++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        for (int turn = 0; turn < 4; turn++) {
          check_upsample(c, images[i], sizes[s][0], sizes[s][1],
                         turn == 0 ? CONF_PACKED : conf_any_layout(c), fills[f]);
        }
      }
    }
  }
}

static const conf_op ops[] = {
    {"conv2d", conf_floats, conv_body, NULL},
    {"max_pool2d", conf_floats, pool_body, &row_max},
    {"avg_pool2d", conf_floats, pool_body, &row_mean},
    {"pad", conf_all, pad_body, NULL},
    {"upsample", conf_floats, upsample_body, NULL},
};
const conf_family conf_images = {ops, COUNT(ops)};
