// SPDX-License-Identifier: Apache-2.0
/*
 * Norms, rope, losses. A norm of n numbers is off by the roundings of its mean, 2 (n + 8) u max|x|
 * over the deviation, and by a relative 2 (n + 16) u.
 */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const conf_fill integers = {CONF_INTEGERS, -4, 4}, uniform = {CONF_UNIFORM, -8, 8},
                       sparks = {CONF_SPARKS, -4, 4}, positive = {CONF_UNIFORM, 0.5, 2};

static void choose_output(conf *c, conf_case *k, conf_layout layout) {
  k->out = (conf_out)conf_below(c, layout == CONF_BROADCAST ? 2 : 3);
  k->out_layout = (conf_layout)conf_below(c, 3);
}

/* ---- layer_norm, rms_norm ------------------------------------------------------------------ */

typedef struct norm_args {
  int axes; /* 0: rms_norm */
  double epsilon;
} norm_args;

static mt_status call_norm(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const norm_args *args = k->args;
  return args->axes == 0 ? mt_rms_norm(rt, k->in[0].view, k->in[1].view, args->epsilon, out)
                         : mt_layer_norm(rt, k->in[0].view, args->axes, k->in[1].view,
                                         k->in[2].view, args->epsilon, out);
}

/* The roundings of one row of n numbers. */
static double row_error(const double *x, int64_t n, const norm_args *args, double u) {
  double mean = 0, square = 0, largest = 0, finite = 0;
  for (int64_t i = 0; i < n; i++) {
    if (isfinite(x[i])) {
      mean += x[i];
      largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
      finite++;
    }
  }
  mean = args->axes && finite > 0 ? mean / finite : 0;
  for (int64_t i = 0; i < n; i++) {
    square += isfinite(x[i]) ? (x[i] - mean) * (x[i] - mean) : 0;
  }
  double deviation = sqrt(square / (finite > 0 ? finite : 1) + args->epsilon);
  double y = deviation > 0 ? 2 * largest / deviation : 0;
  /* an error e of the mean moves the deviation, too: by e relative to it */
  return 2 * (double)(n + 16) * u * (y + y * y);
}

static double *norm_slack(conf *c, const conf_case *k, const norm_args *args) {
  const mt_tensor *x = k->in[0].view;
  int rank = mt_tensor_rank(x), axes = args->axes ? args->axes : 1;
  int64_t n = 1, count = mt_tensor_elements(x);
  double *slack = conf_values(c, x), weight = conf_largest(c, k->in[1].view);
  double bias = conf_largest(c, k->in[2].view), u = conf_roundoff(c->dtype);
  for (int i = rank - axes; i < rank; i++) {
    n *= mt_tensor_shape(x)[i];
  }
  for (int64_t row = 0; slack && row < count; row += n) {
    double error = row_error(slack + row, n, args, u) * (k->in[1].view ? weight : 1) + 2 * u * bias;
    for (int64_t i = row; i < row + n; i++) {
      slack[i] = error;
    }
  }
  return slack;
}

static void check_norm(conf *c, int rank, const int64_t *shape, int axes, conf_layout layout,
                       conf_fill fill) {
  static const double epsilons[] = {1e-5, 1e-6, 0.1};
  norm_args args = {axes, epsilons[conf_below(c, COUNT(epsilons))]};
  conf_case k = {.call = call_norm, .args = &args, .in_count = 3};
  int params = axes ? axes : 1;
  mt_dtype type = c->dtype != MT_F64 && conf_below(c, 3) == 0 ? MT_F32 : c->dtype;
  k.in[0] = conf_make(c, c->dtype, rank, shape, layout, fill);
  if (conf_below(c, 4)) {
    k.in[1] = conf_make(c, type, params, shape + rank - params, conf_any_layout(c), positive);
  }
  if (axes && conf_below(c, 4)) {
    k.in[2] = conf_make(c, type, params, shape + rank - params, conf_any_layout(c), uniform);
  }
  k.slack[0] = k.in[0].view ? norm_slack(c, &k, &args) : NULL;
  k.ulps = 1;
  choose_output(c, &k, layout);
  snprintf(k.what, sizeof(k.what),
           "%d axes of %d, weight %s, bias %s, epsilon %g, layout %d, fill %d", axes, rank,
           k.in[1].view ? mt_dtype_name(type) : "no", k.in[2].view ? "yes" : "no", args.epsilon,
           (int)layout, (int)fill.kind);
  conf_check(c, &k);
}

typedef struct norm_shape {
  int rank;
  int64_t shape[4];
} norm_shape;

static const norm_shape norm_shapes[] = {
    {1, {1}},     {1, {7}},     {1, {129}},      {2, {17, 33}},  {2, {5, 768}},
    {2, {65, 1}}, {2, {0, 65}}, {3, {3, 5, 70}}, {2, {3, 4100}}, {4, {2, 3, 4, 50}},
};

static void norm_body(conf *c, const void *row) {
  const conf_fill fills[] = {integers, uniform, sparks};
  bool layer = *(const bool *)row;
  for (size_t i = 0; i < COUNT(norm_shapes); i++) {
    const norm_shape *s = &norm_shapes[i];
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        int axes = layer ? 1 + (int)conf_below(c, (uint32_t)s->rank) : 0;
        check_norm(c, s->rank, s->shape, axes, (conf_layout)layout, fills[f]);
      }
    }
  }
  if (c->large) {
    static const int64_t shape[] = {257, 1024};
    check_norm(c, 2, shape, layer, CONF_PACKED, uniform);
  }
}

static const bool layer_row = true, rms_row = false;

/* ---- group norm: the layer_norm of backends with repeated weights --------------------------- */

typedef struct group_args {
  int64_t groups;
  mt_image_layout layout;
} group_args;

static mt_status call_group(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const group_args *args = k->args;
  return mt_group_norm(rt, k->in[0].view, args->groups, k->in[1].view, k->in[2].view, 1e-5,
                       args->layout, out);
}

static void check_group(conf *c, const int64_t *nchw, int64_t groups, conf_layout layout) {
  group_args args = {groups, (mt_image_layout)conf_below(c, 2)};
  conf_case k = {.call = call_group, .args = &args, .in_count = 3};
  const int64_t last[] = {nchw[0], nchw[2], nchw[3], nchw[1]};
  k.in[0] = conf_make(c, c->dtype, 4, args.layout == MT_NCHW ? nchw : last, layout, uniform);
  k.in[1] = conf_make(c, c->dtype, 1, &nchw[1], conf_any_layout(c), positive);
  k.in[2] = conf_make(c, c->dtype, 1, &nchw[1], conf_any_layout(c), uniform);
  if (k.in[0].view) {
    double n = (double)(nchw[1] / groups * nchw[2] * nchw[3]);
    k.slack[0] = conf_constant_slack(c, mt_tensor_elements(k.in[0].view),
                                     2 * (n + 16) * conf_roundoff(c->dtype) * 40);
  }
  k.ulps = 1;
  choose_output(c, &k, layout);
  snprintf(k.what, sizeof(k.what), "group norm of %d groups, layout %d, %d", (int)groups,
           (int)args.layout, (int)layout);
  conf_check(c, &k);
}

static void layer_and_group_body(conf *c, const void *row) {
  static const int64_t images[][4] = {{2, 6, 5, 7}, {1, 32, 4, 9}, {3, 4, 16, 16}};
  norm_body(c, row);
  for (size_t i = 0; i < COUNT(images); i++) {
    for (int turn = 0; turn < 6; turn++) {
      check_group(c, images[i], turn % 2 ? 2 : 1, turn < 2 ? CONF_PACKED : conf_any_layout(c));
    }
  }
}

/* ---- batch norm ------------------------------------------------------------------------------ */

typedef struct batch_args {
  int axis;
  bool train;
} batch_args;

static mt_status call_batch(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  const batch_args *args = k->args;
  if (args->train) {
    return mt_batch_norm_train(rt, k->in[0].view, k->in[3].view, k->in[4].view, 1e-3, args->axis,
                               &out[0], &out[1], &out[2]);
  }
  return mt_batch_norm(rt, k->in[0].view, k->in[1].view, k->in[2].view, k->in[3].view,
                       k->in[4].view, 1e-3, args->axis, out);
}

static void check_batch(conf *c, const norm_shape *s, int axis, bool train, conf_layout layout,
                        conf_fill fill) {
  batch_args args = {axis, train};
  conf_case k = {.call = call_batch, .args = &args, .in_count = 5, .out_count = train ? 3 : 1};
  double u = conf_roundoff(c->dtype);
  k.in[0] = conf_make(c, c->dtype, s->rank, s->shape, layout, fill);
  for (int i = train ? 3 : 1; i < 5; i++) {
    mt_dtype type = c->dtype != MT_F64 && conf_below(c, 2) ? MT_F32 : c->dtype;
    if (i < 3 || conf_below(c, 3)) {
      k.in[i] =
          conf_make(c, type, 1, &s->shape[axis], conf_any_layout(c), i == 1 ? uniform : positive);
    }
  }
  if (k.in[0].view) {
    int64_t count = mt_tensor_elements(k.in[0].view), channels = s->shape[axis];
    double n = train && channels > 0 ? (double)(count / channels) : 1;
    /* |x|, |mean| <= 8; the deviation is at least sqrt(1e-3) in training, sqrt(1/2) else */
    double steep = train ? 1 / sqrt(1e-3) : sqrt(2);
    double y = n > 1 || !train ? 16 * sqrt(2) : 1;
    k.slack[0] = conf_constant_slack(c, count, 2 * 2 * (n + 16) * u * (8 * steep + y * y + 2));
    for (int i = 1; train && i < 3; i++) {
      k.slack[i] = conf_constant_slack(c, channels, 2 * (n + 16) * u * (i == 1 ? 8 : 64));
    }
  }
  k.ulps = 1;
  choose_output(c, &k, layout);
  snprintf(k.what, sizeof(k.what), "axis %d of %d, layout %d, fill %d", axis, s->rank, (int)layout,
           (int)fill.kind);
  conf_check(c, &k);
}

static void batch_body(conf *c, const void *row) {
  const conf_fill fills[] = {integers, uniform, sparks};
  bool train = *(const bool *)row;
  for (size_t i = 0; i < COUNT(norm_shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        int axis = (int)conf_below(c, (uint32_t)norm_shapes[i].rank);
        check_batch(c, &norm_shapes[i], axis, train, (conf_layout)layout, fills[f]);
      }
    }
  }
}

static const bool train_row = true, inference_row = false;

/* ---- rope --------------------------------------------------------------------------------------
 */

static mt_status call_rope(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_rope(rt, k->in[0].view, k->in[1].view, k->args, out);
}

static void check_rope(conf *c, const norm_shape *s, conf_layout layout, conf_fill fill) {
  mt_rope_options options = MT_ROPE_OPTIONS_INIT;
  conf_case k = {.call = call_rope, .args = &options, .in_count = 2};
  options.dims = conf_below(c, 2) ? 0 : s->shape[s->rank - 1] / 4 * 2;
  options.interleaved = (int)conf_below(c, 2);
  options.inverse = (int)conf_below(c, 2);
  options.base = conf_below(c, 2) ? 10000 : 500000;
  options.scale = conf_below(c, 2) ? 1 : 0.25;
  k.in[0] = conf_make(c, c->dtype, s->rank, s->shape, layout, fill);
  k.in[1] = conf_make(c, conf_below(c, 2) ? MT_I32 : MT_I64, s->rank - 1, s->shape,
                      conf_any_layout(c), (conf_fill){CONF_INTEGERS, 0, 5000});
  if (k.in[0].view) {
    /* the angle, up to 5000, may be rounded to f32 only after it is reduced */
    k.slack[0] =
        conf_constant_slack(c, mt_tensor_elements(k.in[0].view),
                            16 * 2 * conf_largest(c, k.in[0].view) * conf_roundoff(c->dtype));
  }
  k.ulps = 1;
  choose_output(c, &k, layout);
  snprintf(k.what, sizeof(k.what), "dims %d, interleaved %d, inverse %d, layout %d",
           (int)options.dims, options.interleaved, options.inverse, (int)layout);
  conf_check(c, &k);
}

static void rope_body(conf *c, const void *row) {
  static const norm_shape shapes[] = {{1, {2}},           {2, {5, 64}},       {3, {2, 7, 128}},
                                      {4, {1, 3, 9, 80}}, {4, {2, 5, 2, 10}}, {2, {0, 8}}};
  (void)row;
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      check_rope(c, &shapes[i], (conf_layout)layout, uniform);
      check_rope(c, &shapes[i], (conf_layout)layout, sparks);
    }
  }
}

/* ---- losses
 * --------------------------------------------------------------------------------------- */

static mt_status call_entropy(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_cross_entropy(rt, k->in[0].view, k->in[1].view, k->args, out);
}

static void check_entropy(conf *c, const norm_shape *s, conf_layout layout, conf_fill fill) {
  mt_cross_entropy_options options = MT_CROSS_ENTROPY_OPTIONS_INIT;
  conf_case k = {.call = call_entropy, .args = &options, .in_count = 2};
  int64_t classes = s->shape[s->rank - 1], rows = 1;
  for (int i = 0; i < s->rank - 1; i++) {
    rows *= s->shape[i];
  }
  options.ignore_index = conf_below(c, 2) ? 0 : -100;
  options.label_smoothing = conf_below(c, 2) ? 0 : 0.1;
  options.reduction = (mt_reduction)conf_below(c, 3);
  k.in[0] = conf_make(c, c->dtype, s->rank, s->shape, layout, fill);
  k.in[1] = conf_make(c, conf_below(c, 2) ? MT_I32 : MT_I64, s->rank - 1, s->shape,
                      conf_any_layout(c), (conf_fill){CONF_INTEGERS, 0, (double)(classes - 1)});
  double one = 2 * (double)(classes + 32) * conf_roundoff(c->dtype) * (2 * fill.hi + 1);
  double all =
      options.reduction == MT_REDUCE_SUM ? (double)(rows * (rows + 8)) : (double)(rows + 8);
  k.slack[0] = conf_constant_slack(c, options.reduction == MT_REDUCE_NONE ? rows : 1,
                                   options.reduction == MT_REDUCE_NONE ? one : one * all);
  k.ulps = 1;
  k.out = (conf_out)conf_below(c, 2);
  snprintf(k.what, sizeof(k.what), "%d classes, ignore %d, smoothing %g, reduction %d, fill %d",
           (int)classes, (int)options.ignore_index, options.label_smoothing, (int)options.reduction,
           (int)fill.kind);
  conf_check(c, &k);
}

static mt_status call_mse(mt_runtime *rt, const conf_case *k, mt_tensor **out) {
  return mt_mse(rt, k->in[0].view, k->in[1].view, *(const mt_reduction *)k->args, out);
}

static void check_mse(conf *c, const norm_shape *s, conf_layout layout, conf_fill fill) {
  mt_reduction reduction = (mt_reduction)conf_below(c, 3);
  conf_case k = {.call = call_mse, .args = &reduction, .in_count = 2};
  k.in[0] = conf_make(c, c->dtype, s->rank, s->shape, layout, fill);
  k.in[1] = conf_make(c, c->dtype, s->rank, s->shape, conf_any_layout(c), fill);
  if (k.in[0].view && fill.kind == CONF_UNIFORM) {
    double n = (double)mt_tensor_elements(k.in[0].view), u = conf_roundoff(c->dtype);
    double sum = 4 * fill.hi * fill.hi * (reduction == MT_REDUCE_SUM ? n : 1);
    double terms = reduction == MT_REDUCE_NONE ? 0 : n;
    k.slack[0] = conf_constant_slack(c, reduction == MT_REDUCE_NONE ? (int64_t)n : 1,
                                     2 * (terms + 8) * u * sum);
  }
  k.ulps = 2;
  k.out = (conf_out)conf_below(c, 2);
  snprintf(k.what, sizeof(k.what), "reduction %d, layout %d, fill %d", (int)reduction, (int)layout,
           (int)fill.kind);
  conf_check(c, &k);
}

static void loss_body(conf *c, const void *row) {
  static const norm_shape shapes[] = {{1, {5}},        {2, {7, 3}}, {2, {17, 1000}},
                                      {3, {2, 3, 70}}, {2, {0, 4}}, {2, {33, 1}}};
  const conf_fill fills[] = {integers, uniform, sparks};
  for (size_t i = 0; i < COUNT(shapes); i++) {
    for (int layout = 0; layout < CONF_LAYOUTS; layout++) {
      for (size_t f = 0; f < COUNT(fills); f++) {
        (*(const bool *)row ? check_entropy : check_mse)(c, &shapes[i], (conf_layout)layout,
                                                         fills[f]);
      }
    }
  }
}

static const bool entropy_row = true, mse_row = false;

static const conf_op ops[] = {
    {"layer_norm", conf_floats, layer_and_group_body, &layer_row},
    {"rms_norm", conf_floats, norm_body, &rms_row},
    {"batch_norm", conf_floats, batch_body, &inference_row},
    {"batch_norm_train", conf_floats, batch_body, &train_row},
    {"rope", conf_floats, rope_body, NULL},
    {"cross_entropy", conf_floats, loss_body, &entropy_row},
    {"mse", conf_floats, loss_body, &mse_row},
};
const conf_family conf_norms = {ops, COUNT(ops)};
