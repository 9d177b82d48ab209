// SPDX-License-Identifier: Apache-2.0
/*
 * nn.h - operations of neural networks: convolution, pooling, normalization, attention,
 * losses.
 *
 * What ops.h says of all ops holds here: outputs, overlap, dtypes, NaN, errors, threads.
 *
 * Options are structs that may grow: start from the *_OPTIONS_INIT macro, which sets
 * struct_size; NULL stands for the defaults.
 */
#ifndef MECANTENSOR_NN_H
#define MECANTENSOR_NN_H

#include <mecantensor/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order of the axes of a batch of images: number, channel, height, width. */
typedef enum mt_image_layout {
  MT_NCHW = 0, /* [N, C, H, W]; one-dimensional: [N, C, L] */
  MT_NHWC = 1, /* [N, H, W, C]; one-dimensional: [N, L, C] */
} mt_image_layout;

/* ---- convolution ---------------------------------------------------------------------- */
typedef struct mt_conv2d_options {
  size_t struct_size; /* set by MT_CONV2D_OPTIONS_INIT */
  int64_t stride[2];  /* vertical, horizontal; 1 by default */
  int64_t padding[4]; /* zeros at the top, left, bottom, right; 0 by default */
  int64_t dilation[2];
  int64_t groups; /* 1 by default; C for a depthwise convolution */
  mt_image_layout layout;
  mt_activation activation;
} mt_conv2d_options;

#define MT_CONV2D_OPTIONS_INIT                                                                     \
  { sizeof(mt_conv2d_options), {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, MT_NCHW, MT_ACT_NONE }

/*
 * out[n, o, y, x] = activation(bias[o] + sum over c, i, j of
 *                   weight[o, c, i, j] in[n, g C/G + c, y S0 + i D0 - top, x S1 + j D1 - left])
 * with g = o / (O/G) the group of the output channel: a cross-correlation, as everywhere in
 * the field. out_height = (H + top + bottom - D0 (KH - 1) - 1) / S0 + 1, rounded down.
 * x [N, C, H, W], weight [O, C/G, KH, KW], out [N, O, OH, OW]; with MT_NHWC x [N, H, W, C],
 * weight [O, KH, KW, C/G], out [N, OH, OW, O]. bias: NULL or [O]. f32, f64, f16, bf16.
 * Where a weight that is infinite or NaN meets the padding, the result may be NaN or not.
 */
MT_API mt_status mt_conv2d(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                           const mt_conv2d_options *options, mt_tensor **out);

typedef struct mt_conv1d_options {
  size_t struct_size; /* set by MT_CONV1D_OPTIONS_INIT */
  int64_t stride;
  int64_t padding[2]; /* zeros before and after */
  int64_t dilation;
  int64_t groups;
  mt_image_layout layout;
  mt_activation activation;
} mt_conv1d_options;

#define MT_CONV1D_OPTIONS_INIT                                                                     \
  { sizeof(mt_conv1d_options), 1, {0, 0}, 1, 1, MT_NCHW, MT_ACT_NONE }

/* The same with one axis: x [N, C, L], weight [O, C/G, K]; MT_NHWC: [N, L, C], [O, K, C/G].
 * To a backend it is a conv2d of height 1. */
MT_API mt_status mt_conv1d(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                           const mt_conv1d_options *options, mt_tensor **out);

/* ---- pooling --------------------------------------------------------------------------- */
typedef struct mt_pool2d_options {
  size_t struct_size;    /* set by MT_POOL2D_OPTIONS_INIT */
  int64_t kernel[2];     /* must be set */
  int64_t stride[2];     /* 0: as kernel */
  int64_t padding[4];    /* top, left, bottom, right; each smaller than the kernel's extent */
  int64_t dilation[2];   /* max_pool2d only */
  int ceil_mode;         /* 1: also windows that reach over the end, if they start within */
  int count_include_pad; /* avg_pool2d: 1 (default): padding counts as zeros in the mean */
  mt_image_layout layout;
} mt_pool2d_options;

#define MT_POOL2D_OPTIONS_INIT                                                                     \
  { sizeof(mt_pool2d_options), {0, 0}, {0, 0}, {0, 0, 0, 0}, {1, 1}, 0, 1, MT_NCHW }

/* x [N, C, H, W] or [N, H, W, C]. The largest (NaN wins; padding never does; a window of padding
 * alone gives -infinity) and the mean (of nothing: NaN) of each window. options must be given.
 * f32, f64, f16, bf16. */
MT_API mt_status mt_max_pool2d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                               mt_tensor **out);
MT_API mt_status mt_avg_pool2d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                               mt_tensor **out);
/* x [N, C, L] or [N, L, C]; of the options those of the second axis count (kernel[1], stride[1],
 * padding[1] and [3], dilation[1]). */
MT_API mt_status mt_max_pool1d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                               mt_tensor **out);
MT_API mt_status mt_avg_pool1d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                               mt_tensor **out);

/* ---- shapes of images ------------------------------------------------------------------- */
typedef enum mt_pad_mode {
  MT_PAD_CONSTANT = 0,
  MT_PAD_REFLECT = 1,   /* ... 2 1 | 0 1 2 ...: the amount is smaller than the extent */
  MT_PAD_REPLICATE = 2, /* ... 0 0 | 0 1 2 ... */
} mt_pad_mode;

/* Adds before[i] and after[i] elements at the ends of axis i (rank values each). Negative amounts
 * cut off (MT_PAD_CONSTANT only). value: for MT_PAD_CONSTANT, converted as mt_cast() does.
 * Every dtype but block formats. */
MT_API mt_status mt_pad(mt_runtime *rt, mt_tensor *x, const int64_t *before, const int64_t *after,
                        mt_pad_mode mode, double value, mt_tensor **out);

/* [N, C f f, H, W] to [N, C, H f, W f] and back: channel c f f + i f + j of pixel (y, x) is channel
 * c of pixel (y f + i, x f + j). factor >= 1. MT_NHWC alike. To a backend: a copy between
 * views. */
MT_API mt_status mt_pixel_shuffle(mt_runtime *rt, mt_tensor *x, int64_t factor,
                                  mt_image_layout layout, mt_tensor **out);
MT_API mt_status mt_pixel_unshuffle(mt_runtime *rt, mt_tensor *x, int64_t factor,
                                    mt_image_layout layout, mt_tensor **out);

typedef enum mt_upsample_mode {
  MT_UPSAMPLE_NEAREST = 0,
  MT_UPSAMPLE_BILINEAR = 1,
} mt_upsample_mode;

typedef struct mt_upsample_options {
  size_t struct_size;      /* set by MT_UPSAMPLE_OPTIONS_INIT */
  int64_t height, width;   /* of the result; 0: by the scales */
  double scale_h, scale_w; /* result = floor(extent * scale) */
  mt_upsample_mode mode;
  int align_corners; /* MT_UPSAMPLE_BILINEAR: the outermost centres are the same */
  mt_image_layout layout;
} mt_upsample_options;

#define MT_UPSAMPLE_OPTIONS_INIT                                                                   \
  { sizeof(mt_upsample_options), 0, 0, 0, 0, MT_UPSAMPLE_NEAREST, 0, MT_NCHW }

/* Also downwards (without a filter). Pixel o of n looks at (o + 1/2) in/n - 1/2 of the input (half-
 * pixel centres); with align_corners at o (in - 1)/(n - 1). Nearest: floor((o + 1/2) in/n).
 * Bilinear: the two neighbours on each axis, the edge repeated. f32, f64, f16, bf16. */
MT_API mt_status mt_upsample(mt_runtime *rt, mt_tensor *x, const mt_upsample_options *options,
                             mt_tensor **out);

/* ---- normalization ---------------------------------------------------------------------- */
/* x: f32, f64, f16 or bf16. weight, bias, mean, variance: the dtype of x, or f32; weight and
 * bias may be NULL (1 and 0). epsilon >= 0. All may write in place.
 *   y = (x - mean) / sqrt(variance + epsilon) * weight + bias, variance = mean((x - mean)^2) */

/* Over the last `axes` axes together (1 .. rank); weight and bias have their shape. */
MT_API mt_status mt_layer_norm(mt_runtime *rt, mt_tensor *x, int axes, mt_tensor *weight,
                               mt_tensor *bias, double epsilon, mt_tensor **out);
/* y = x / sqrt(mean(x^2) + epsilon) * weight, over the last axis. */
MT_API mt_status mt_rms_norm(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, double epsilon,
                             mt_tensor **out);
/* x [N, C, ...] or (MT_NHWC) [N, ..., C]: over each group of C / groups channels with all its
 * pixels; weight and bias [C]. groups = C is instance norm. */
MT_API mt_status mt_group_norm(mt_runtime *rt, mt_tensor *x, int64_t groups, mt_tensor *weight,
                               mt_tensor *bias, double epsilon, mt_image_layout layout,
                               mt_tensor **out);
/* With given statistics (inference); all [C], C the extent of `axis`. */
MT_API mt_status mt_batch_norm(mt_runtime *rt, mt_tensor *x, mt_tensor *mean, mt_tensor *variance,
                               mt_tensor *weight, mt_tensor *bias, double epsilon, int axis,
                               mt_tensor **out);
/* With the statistics of x over all axes but `axis`, which are given back: mean and variance [C],
 * f32 (f64 for f64). The variance is biased (divided by the count n). Running statistics are the
 * caller's: running += momentum * (mean - running), and n / (n - 1) * variance alike. An empty
 * axis gives NaN. */
MT_API mt_status mt_batch_norm_train(mt_runtime *rt, mt_tensor *x, mt_tensor *weight,
                                     mt_tensor *bias, double epsilon, int axis, mt_tensor **out,
                                     mt_tensor **mean, mt_tensor **variance);

/* ---- rotary embedding ------------------------------------------------------------------- */
typedef struct mt_rope_options {
  size_t struct_size; /* set by MT_ROPE_OPTIONS_INIT */
  int64_t dims;       /* the first `dims` of the last axis turn, the others stay; 0: all; even */
  double base;        /* 10000 */
  double scale;       /* positions are multiplied by it; 1 */
  int interleaved;    /* 0: pairs (i, i + dims/2), as GPT-NeoX; 1: (2 i, 2 i + 1), as GPT-J */
  int inverse;        /* 1: turns back (the gradient) */
} mt_rope_options;

#define MT_ROPE_OPTIONS_INIT                                                                       \
  { sizeof(mt_rope_options), 0, 10000.0, 1.0, 0, 0 }

/* Pair i of x [..., D] turns by position * scale * base^(-2 i / dims). positions: i32 or i64, what
 * broadcasts to x.shape without the last axis: [S] for x [B, H, S, D], [S, 1] for x
 * [B, S, H, D]. f32, f64, f16, bf16; in place with x. */
MT_API mt_status mt_rope(mt_runtime *rt, mt_tensor *x, mt_tensor *positions,
                         const mt_rope_options *options, mt_tensor **out);

/* ---- attention --------------------------------------------------------------------------- */
typedef struct mt_attention_options {
  size_t struct_size; /* set by MT_ATTENTION_OPTIONS_INIT */
  double scale;       /* of the scores; 0: 1/sqrt(D) */
  int causal;         /* 1: query i sees keys 0 .. i + (length - Sq) */
  mt_tensor *mask;    /* NULL, or what broadcasts to [B, H, Sq, length]: bool (true: seen) or the
                       * dtype of q or f32 (added to the scores; -infinity hides) */
  int64_t kv_length;  /* keys that count, of a cache that is longer; -1: all */
  double softcap;     /* > 0: scores become softcap * tanh(score / softcap) before the mask */
  mt_tensor *k_scale; /* for k in i8: NULL (1), or f32 that broadcasts to [B, Hkv, Skv] */
} mt_attention_options;

#define MT_ATTENTION_OPTIONS_INIT                                                                  \
  { sizeof(mt_attention_options), 0.0, 0, 0, -1, 0.0, 0 }

/*
 * out = softmax(scale q k^T + mask) v, without the matrix of scores in memory.
 * q [B, H, Sq, D], k [B, Hkv, Skv, D], v [B, Hkv, Skv, Dv], out [B, H, Sq, Dv]; H is a
 * multiple of Hkv, and head h reads key head h / (H / Hkv). Any strides: [B, S, H, D] is
 * a permuted view. q, v, out: f32, f64, f16 or bf16; k the same, or i8 (ternary keys, say).
 * A query that sees no key gives 0.
 */
MT_API mt_status mt_attention(mt_runtime *rt, mt_tensor *q, mt_tensor *k, mt_tensor *v,
                              const mt_attention_options *options, mt_tensor **out);

/* ---- TSI: a state that keys and values are infused into ------------------------------- */
/*
 * A state R [..., Dk, Dv] that keys and values are added to, and queries read:
 *   infuse: R <- R * gate + k (outer) v     k [..., Dk], v [..., Dv]
 *   read:   y = R^T q                        q [..., Dk], y [..., Dv]
 * gate [...] (one a state) or [..., Dk] (one a row). Leading axes are equal. f32, f64, f16,
 * bf16. infuse may write in place with state.
 */
MT_API mt_status mt_tsi_infuse(mt_runtime *rt, mt_tensor *state, mt_tensor *gate, mt_tensor *k,
                               mt_tensor *v, mt_tensor **out);
MT_API mt_status mt_tsi_read(mt_runtime *rt, mt_tensor *state, mt_tensor *q, mt_tensor **out);
/* T steps of infuse, then read: q, k [..., T, Dk], v [..., T, Dv], gate [..., T] or [..., T, Dk];
 * y [..., T, Dv] and the last state. chunk: steps that a backend may take together (0: its
 * choice); the result is the same but for rounding. */
MT_API mt_status mt_tsi_scan(mt_runtime *rt, mt_tensor *state, mt_tensor *gate, mt_tensor *q,
                             mt_tensor *k, mt_tensor *v, int64_t chunk, mt_tensor **y,
                             mt_tensor **state_out);

/* ---- layers of ternary weights ----------------------------------------------------------- */
typedef struct mt_bitlinear_options {
  size_t struct_size;      /* set by MT_BITLINEAR_OPTIONS_INIT */
  mt_tensor *weight_scale; /* f32 [N] or [1]; NULL: 1 */
  mt_tensor *x_scale;      /* f32, of shape x.shape[:-1] or [1]; NULL: 1. Only for x in i8 */
  mt_tensor *bias;         /* f32 [N]; NULL: 0 */
} mt_bitlinear_options;

#define MT_BITLINEAR_OPTIONS_INIT                                                                  \
  { sizeof(mt_bitlinear_options), 0, 0, 0 }

/* out[..., n] = x_scale[...] * weight_scale[n] * sum over k of x[..., k] weight[n, k] + bias[n]
 * x [..., K] of rank >= 1: f32, f16, bf16 or i8 (then out is f32); weight i8 [N, K], meant for -1,
 * 0, 1 but right for any. Sums of i8 x are exact as long as they fit into 32 bits (K < 130,000
 * whatever the values). */
MT_API mt_status mt_bitlinear(mt_runtime *rt, mt_tensor *x, mt_tensor *weight,
                              const mt_bitlinear_options *options, mt_tensor **out);

/* ---- losses ------------------------------------------------------------------------------ */
typedef enum mt_reduction {
  MT_REDUCE_NONE = 0,
  MT_REDUCE_MEAN = 1,
  MT_REDUCE_SUM = 2,
} mt_reduction;

typedef struct mt_cross_entropy_options {
  size_t struct_size;     /* set by MT_CROSS_ENTROPY_OPTIONS_INIT */
  int64_t ignore_index;   /* targets of this value count for nothing; -100 */
  double label_smoothing; /* 0 .. 1 */
  mt_reduction reduction; /* MT_REDUCE_MEAN: over the targets that count */
} mt_cross_entropy_options;

#define MT_CROSS_ENTROPY_OPTIONS_INIT                                                              \
  { sizeof(mt_cross_entropy_options), -100, 0.0, MT_REDUCE_MEAN }

/* -(1 - s) log p[target] - s/C sum log p, with p = softmax of logits [..., C]; targets i32 or i64
 * [...], 0 .. C-1 (checked on the host) or ignore_index, which gives 0. out: a scalar, or
 * targets.shape with MT_REDUCE_NONE; dtype of logits. The mean of no target is NaN. */
MT_API mt_status mt_cross_entropy(mt_runtime *rt, mt_tensor *logits, mt_tensor *targets,
                                  const mt_cross_entropy_options *options, mt_tensor **out);

/* (a - b)^2, its mean or its sum; a and b of one shape, f32, f64, f16 or bf16. */
MT_API mt_status mt_mse(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_reduction reduction,
                        mt_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
