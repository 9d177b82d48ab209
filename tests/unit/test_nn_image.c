// SPDX-License-Identifier: Apache-2.0
/* conv2d, conv1d, pooling, pad, pixel shuffle, upsample: values by hand, edges, errors. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

/* [n, c, h, w] to [n, h, w, c]: a packed copy. */
static mt_tensor *channels_last(mt_tensor *t) {
  mt_tensor *view = NULL, *packed = NULL;
  ck_ok(mt_tensor_permute(t, AXES(0, 2, 3, 1), &view));
  ck_ok(mt_copy(rt, view, &packed));
  drop(view);
  return packed;
}

START_TEST(test_conv_values) {
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_dtype t = float_types[d];
    mt_tensor *x = make(t, 4, SHAPE(1, 1, 3, 3), VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9)), *out = NULL;
    mt_tensor *w = make(t, 4, SHAPE(2, 1, 2, 2), VALUES(1, 0, 0, -1, 1, 1, 1, 1));
    mt_tensor *bias = make(t, 1, SHAPE(2), VALUES(1, -20)), *padded = NULL;
    mt_conv2d_options o = MT_CONV2D_OPTIONS_INIT;
    o.activation = MT_ACT_RELU;
    ck_ok(mt_conv2d(rt, x, w, bias, &o, &out));
    check_shape(out, t, 4, SHAPE(1, 2, 2, 2));
    check_values(out, VALUES(0, 0, 0, 0, 0, 0, 4, 8)); /* -4 + 1; 12, 16, 24, 28 - 20 */
    o = (mt_conv2d_options)MT_CONV2D_OPTIONS_INIT;
    o.padding[0] = o.padding[3] = 1; /* top, right */
    o.stride[0] = 2;
    ck_ok(mt_conv2d(rt, x, w, NULL, &o, &padded));
    check_shape(padded, t, 4, SHAPE(1, 2, 2, 3));
    check_values(padded, VALUES(-2, -3, 0, -4, -4, 6, 3, 5, 3, 24, 28, 15));
    drop(x), drop(out), drop(w), drop(bias), drop(padded);
  }
}
END_TEST

/* Groups, dilation, stride and both layouts against a sum written another way: output by input
 * instead of input by output. */
START_TEST(test_conv_scatter) {
  enum { N = 2, C = 4, H = 7, W = 6, O = 6, G = 2, KH = 3, KW = 2 };
  static double x[N * C * H * W], w[O * C / G * KH * KW], want[N * O * 5 * 6];
  mt_conv2d_options o = MT_CONV2D_OPTIONS_INIT;
  const int64_t sh = 2, sw = 1, dh = 2, dw = 3, top = 3, left = 2;
  enum { OH = 5, OW = 6 };
  o.stride[0] = sh, o.dilation[0] = dh, o.dilation[1] = dw, o.groups = G;
  o.padding[0] = top, o.padding[1] = left, o.padding[2] = 3, o.padding[3] = 1;
  ramp(x, COUNT(x), 23, -11);
  ramp(w, COUNT(w), 7, -3);
  for (int n = 0; n < N; n++) {
    for (int c = 0; c < C; c++) {
      for (int i = 0; i < H * W; i++) {
        for (int tap = 0; tap < KH * KW; tap++) {
          int64_t y = i / W + top - tap / KW * dh, z = i % W + left - tap % KW * dw;
          for (int k = 0; k < O / G; k++) {
            int out = c / (C / G) * (O / G) + k;
            if (y >= 0 && y % sh == 0 && y / sh < OH && z >= 0 && z / sw < OW) {
              want[((n * O + out) * OH + y / sh) * OW + z / sw] +=
                  x[(n * C + c) * H * W + i] * w[(out * (C / G) + c % (C / G)) * KH * KW + tap];
            }
          }
        }
      }
    }
  }
  mt_tensor *in = make(MT_F32, 4, SHAPE(N, C, H, W), x), *out = NULL, *back = NULL;
  mt_tensor *weight = make(MT_F32, 4, SHAPE(O, C / G, KH, KW), w), *last = NULL;
  ck_ok(mt_conv2d(rt, in, weight, NULL, &o, &out));
  check_shape(out, MT_F32, 4, SHAPE(N, O, OH, OW));
  check_values(out, want);
  mt_tensor *in_last = channels_last(in), *weight_last = channels_last(weight);
  o.layout = MT_NHWC;
  ck_ok(mt_conv2d(rt, in_last, weight_last, NULL, &o, &last));
  check_shape(last, MT_F32, 4, SHAPE(N, OH, OW, O));
  ck_assert(mt_tensor_is_contiguous(last));
  ck_ok(mt_tensor_permute(last, AXES(0, 3, 1, 2), &back));
  check_values(back, want);
  drop(in), drop(out), drop(weight), drop(last), drop(back), drop(in_last), drop(weight_last);
}
END_TEST

START_TEST(test_conv1d) {
  mt_tensor *x = make(MT_F32, 3, SHAPE(1, 2, 4), VALUES(1, 2, 3, 4, 10, 20, 30, 40)), *out = NULL;
  mt_tensor *w = make(MT_F32, 3, SHAPE(1, 2, 3), VALUES(1, 0, -1, 0, 1, 0)), *last = NULL;
  mt_conv1d_options o = MT_CONV1D_OPTIONS_INIT;
  o.padding[0] = o.padding[1] = 1;
  ck_ok(mt_conv1d(rt, x, w, NULL, &o, &out));
  check_shape(out, MT_F32, 3, SHAPE(1, 1, 4));
  check_values(out, VALUES(10 - 2, 20 - 2, 30 - 2, 40 + 3));
  mt_tensor *xl = NULL, *wl = NULL;
  ck_ok(mt_tensor_transpose(x, 1, 2, &xl));
  ck_ok(mt_tensor_transpose(w, 1, 2, &wl));
  o.layout = MT_NHWC;
  ck_ok(mt_conv1d(rt, xl, wl, NULL, &o, &last));
  check_shape(last, MT_F32, 3, SHAPE(1, 4, 1));
  check_values(last, VALUES(8, 18, 28, 43));
  drop(x), drop(out), drop(w), drop(last), drop(xl), drop(wl);
}
END_TEST

START_TEST(test_conv_edges) {
  mt_tensor *none = make(MT_F32, 4, SHAPE(0, 2, 3, 3), NULL), *out = NULL, *bare = NULL;
  mt_tensor *w = make(MT_F32, 4, SHAPE(1, 2, 1, 1), VALUES(1, 1)), *error = NULL;
  ck_ok(mt_conv2d(rt, none, w, NULL, NULL, &out));
  check_shape(out, MT_F32, 4, SHAPE(0, 1, 3, 3));
  mt_tensor *empty = make(MT_F32, 4, SHAPE(1, 0, 1, 2), NULL),
            *bias = make(MT_F32, 1, SHAPE(1), VALUES(3));
  mt_tensor *no_taps = make(MT_F32, 4, SHAPE(1, 0, 1, 1), NULL);
  ck_ok(mt_conv2d(rt, empty, no_taps, bias, NULL, &bare)); /* no channels: the bias alone */
  check_values(bare, VALUES(3, 3));
  mt_tensor *x = make(MT_F32, 4, SHAPE(1, 2, 1, 1), VALUES(1, 2)),
            *big = blank(MT_F32, 4, SHAPE(1, 2, 2, 2), PACKED);
  mt_tensor *flat = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)),
            *f64 = blank(MT_F64, 4, SHAPE(1, 2, 1, 1), PACKED);
  mt_conv2d_options o = MT_CONV2D_OPTIONS_INIT;
  ck_fails(mt_conv2d(rt, x, big, NULL, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "conv2d: the kernel reaches over 2, the padded height is 1");
  ck_fails(mt_conv2d(rt, flat, w, NULL, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "conv2d: x f32[2]: expected rank 4 (N, C, H, W)");
  ck_fails(mt_conv2d(rt, x, f64, NULL, NULL, &error), MT_ERR_INVALID_ARGUMENT, "dtypes differ");
  ck_fails(mt_conv2d(rt, x, w, flat, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "conv2d: bias f32[2]: expected [1]");
  o.groups = 3;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT, "conv2d: groups 3");
  o.groups = 1, o.stride[1] = 0;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "conv2d: stride of the width 0: expected 1 or more");
  o.stride[1] = 1, o.padding[0] = INT64_MAX;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "does not fit in 63 bits");
  o.padding[0] = -1;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "padding of the height -1");
  o.padding[0] = 0, o.layout = (mt_image_layout)7;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "layout 7: expected 0 .. 1");
  o.layout = MT_NCHW, o.activation = (mt_activation)9;
  ck_fails(mt_conv2d(rt, x, w, NULL, &o, &error), MT_ERR_INVALID_ARGUMENT, "activation 9");
  ck_assert_ptr_null(error);
  drop(none), drop(out), drop(w), drop(empty), drop(bias), drop(no_taps), drop(bare), drop(x);
  drop(big), drop(flat), drop(f64);
}
END_TEST

START_TEST(test_pools) {
  const double *x = VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9);
  mt_pool2d_options o = MT_POOL2D_OPTIONS_INIT;
  o.kernel[0] = o.kernel[1] = 2;
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_tensor *in = make(float_types[d], 4, SHAPE(1, 1, 3, 3), x), *max = NULL, *mean = NULL;
    mt_tensor *most = NULL, *all = NULL;
    o.ceil_mode = 0, o.count_include_pad = 1, o.padding[0] = o.padding[1] = 0;
    ck_ok(mt_max_pool2d(rt, in, &o, &max));
    check_shape(max, float_types[d], 4, SHAPE(1, 1, 1, 1));
    check_values(max, VALUES(5));
    o.ceil_mode = 1;
    ck_ok(mt_avg_pool2d(rt, in, &o, &mean)); /* the windows over the end are smaller */
    check_shape(mean, float_types[d], 4, SHAPE(1, 1, 2, 2));
    check_values(mean, VALUES(3, 4.5, 7.5, 9));
    o.ceil_mode = 0, o.padding[0] = o.padding[1] = 1;
    ck_ok(mt_avg_pool2d(rt, in, &o, &all));
    check_values(all, VALUES(0.25, 1.25, 2.75, 7));
    o.count_include_pad = 0;
    ck_ok(mt_avg_pool2d(rt, in, &o, &most));
    check_values(most, VALUES(1, 2.5, 5.5, 7));
    drop(in), drop(max), drop(mean), drop(all), drop(most);
  }
}
END_TEST

START_TEST(test_pool_edges) {
  mt_pool2d_options o = MT_POOL2D_OPTIONS_INIT;
  mt_tensor *x = make(MT_F32, 3, SHAPE(1, 2, 4), VALUES(1, NAN, -3, -4, 1, 2, 3, 4)), *out = NULL;
  mt_tensor *mean = NULL, *error = NULL;
  o.kernel[1] = 2;
  ck_ok(mt_max_pool1d(rt, x, &o, &out));
  check_shape(out, MT_F32, 3, SHAPE(1, 2, 2));
  check_values(out, VALUES(NAN, -3, 2, 4));
  o.stride[1] = 1;
  ck_ok(mt_avg_pool1d(rt, x, &o, &mean));
  check_values(mean, VALUES(NAN, NAN, -3.5, 1.5, 2.5, 3.5));
  mt_tensor *image = make(MT_F32, 4, SHAPE(1, 1, 2, 2), VALUES(1, 2, 3, 4));
  ck_fails(mt_max_pool2d(rt, image, NULL, &error), MT_ERR_INVALID_ARGUMENT, "options is NULL");
  ck_fails(mt_max_pool2d(rt, image, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "max_pool2d: kernel of the height 0: expected 1 or more");
  o.kernel[0] = 2, o.padding[2] = 2;
  ck_fails(mt_max_pool2d(rt, image, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "max_pool2d: padding 2: expected less than the kernel reaches over, 2 taps 1 apart");
  o.padding[2] = 0, o.dilation[0] = 2;
  ck_fails(mt_avg_pool2d(rt, image, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "avg_pool2d: dilation 2, 1");
  drop(x), drop(out), drop(mean), drop(image);
}
END_TEST

START_TEST(test_pad) {
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_tensor *x = make(all_types[d], 2, SHAPE(2, 3), VALUES(1, 0, 1, 0, 1, 1)), *out = NULL;
    ck_ok(mt_pad(rt, x, SHAPE(1, 0), SHAPE(0, 2), MT_PAD_CONSTANT, 1, &out));
    check_shape(out, all_types[d], 2, SHAPE(3, 5));
    check_values(out, VALUES(1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1));
    drop(x), drop(out);
  }
  mt_tensor *x = make(MT_F32, 1, SHAPE(4), VALUES(1, 2, 3, 4)), *mirror = NULL, *edge = NULL;
  mt_tensor *cut = NULL, *same = NULL, *error = NULL;
  ck_ok(mt_pad(rt, x, SHAPE(3), SHAPE(2), MT_PAD_REFLECT, 0, &mirror));
  check_values(mirror, VALUES(4, 3, 2, 1, 2, 3, 4, 3, 2));
  ck_ok(mt_pad(rt, x, SHAPE(2), SHAPE(1), MT_PAD_REPLICATE, 0, &edge));
  check_values(edge, VALUES(1, 1, 1, 2, 3, 4, 4));
  ck_ok(mt_pad(rt, x, SHAPE(-1), SHAPE(1), MT_PAD_CONSTANT, NAN, &cut));
  check_values(cut, VALUES(2, 3, 4, NAN));
  ck_ok(mt_pad(rt, x, SHAPE(0), SHAPE(0), MT_PAD_CONSTANT, 0, &same));
  check_values(same, VALUES(1, 2, 3, 4));
  ck_fails(mt_pad(rt, x, SHAPE(4), SHAPE(0), MT_PAD_REFLECT, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "pad: x f32[4]: 4 at an end of axis 0: expected less than the extent to reflect");
  ck_fails(mt_pad(rt, x, SHAPE(-3), SHAPE(-2), MT_PAD_CONSTANT, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "no more than there is to be cut");
  ck_fails(mt_pad(rt, x, SHAPE(-1), SHAPE(0), MT_PAD_REPLICATE, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "0 or more in this mode");
  ck_fails(mt_pad(rt, x, SHAPE(INT64_MAX), SHAPE(0), MT_PAD_CONSTANT, 0, &error),
           MT_ERR_INVALID_ARGUMENT, "fits in 63 bits");
  ck_fails(mt_pad(rt, x, NULL, SHAPE(0), MT_PAD_CONSTANT, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "pad: before is NULL");
  mt_tensor *empty = make(MT_F32, 1, SHAPE(0), NULL), *filled = NULL;
  ck_ok(mt_pad(rt, empty, SHAPE(1), SHAPE(1), MT_PAD_CONSTANT, 7, &filled));
  check_values(filled, VALUES(7, 7));
  ck_fails(mt_pad(rt, empty, SHAPE(1), SHAPE(0), MT_PAD_REPLICATE, 0, &error),
           MT_ERR_INVALID_ARGUMENT, "an element to replicate");
  drop(x), drop(mirror), drop(edge), drop(cut), drop(same), drop(empty), drop(filled);
}
END_TEST

START_TEST(test_pixel_shuffle) {
  double x[16];
  ramp(x, 16, 16, 0);
  mt_tensor *in = make(MT_I16, 4, SHAPE(1, 4, 2, 2), x), *out = NULL, *back = NULL, *last = NULL;
  ck_ok(mt_pixel_shuffle(rt, in, 2, MT_NCHW, &out));
  check_shape(out, MT_I16, 4, SHAPE(1, 1, 4, 4));
  const double *want = VALUES(x[0], x[4], x[1], x[5], x[8], x[12], x[9], x[13], x[2], x[6], x[3],
                              x[7], x[10], x[14], x[11], x[15]);
  check_values(out, want);
  ck_ok(mt_pixel_unshuffle(rt, out, 2, MT_NCHW, &back));
  check_shape(back, MT_I16, 4, SHAPE(1, 4, 2, 2));
  check_values(back, x);
  mt_tensor *in_last = channels_last(in), *error = NULL;
  ck_ok(mt_pixel_shuffle(rt, in_last, 2, MT_NHWC, &last));
  check_shape(last, MT_I16, 4, SHAPE(1, 4, 4, 1));
  check_values(last, want);
  ck_fails(mt_pixel_shuffle(rt, in, 3, MT_NCHW, &error), MT_ERR_INVALID_ARGUMENT,
           "pixel_shuffle: factor 3: expected one whose square divides 4 channels");
  ck_fails(mt_pixel_shuffle(rt, in, INT64_MAX, MT_NCHW, &error), MT_ERR_INVALID_ARGUMENT, "factor");
  ck_fails(mt_pixel_unshuffle(rt, in, 0, MT_NCHW, &error), MT_ERR_INVALID_ARGUMENT, "factor 0");
  drop(in), drop(out), drop(back), drop(last), drop(in_last);
}
END_TEST

START_TEST(test_upsample) {
  mt_tensor *x = make(MT_F32, 4, SHAPE(1, 1, 2, 2), VALUES(0, 4, 8, 12)), *near = NULL,
            *half = NULL;
  mt_tensor *corner = NULL, *less = NULL, *error = NULL;
  mt_upsample_options o = MT_UPSAMPLE_OPTIONS_INIT;
  o.scale_h = 1, o.scale_w = 1.5;
  ck_ok(mt_upsample(rt, x, &o, &near));
  check_shape(near, MT_F32, 4, SHAPE(1, 1, 2, 3));
  check_values(near, VALUES(0, 4, 4, 8, 12, 12)); /* (1 + 1/2) 2/3 = 1 */
  o.height = 2, o.width = 4, o.mode = MT_UPSAMPLE_BILINEAR;
  ck_ok(mt_upsample(rt, x, &o, &half));
  check_values(half, VALUES(0, 1, 3, 4, 8, 9, 11, 12));
  o.height = 3, o.width = 3, o.align_corners = 1;
  ck_ok(mt_upsample(rt, x, &o, &corner));
  check_values(corner, VALUES(0, 2, 4, 4, 6, 8, 8, 10, 12));
  o.height = 1, o.width = 1, o.align_corners = 0;
  ck_ok(mt_upsample(rt, x, &o, &less));
  check_values(less, VALUES(6));
  o.height = 0, o.scale_h = 0;
  ck_fails(mt_upsample(rt, x, &o, &error), MT_ERR_INVALID_ARGUMENT, "upsample: height 0, scale 0");
  o.scale_h = NAN;
  ck_fails(mt_upsample(rt, x, &o, &error), MT_ERR_INVALID_ARGUMENT, "upsample: height 0, scale");
  drop(x), drop(near), drop(half), drop(corner), drop(less);
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_conv_values, test_conv_scatter,  test_conv1d,
                          test_conv_edges,  test_pools,         test_pool_edges,
                          test_pad,         test_pixel_shuffle, test_upsample};
  return run_ops_tests("nn_image", tests, COUNT(tests), setup, teardown);
}
