// SPDX-License-Identifier: Apache-2.0
/* upsample: images of another size, by the nearest pixel or between two on each axis. */
#include "../checked.h"
#include "dense.h"
#include "image.h"

#include <math.h>

/* ---- reference ---------------------------------------------------------------------- */

typedef struct taps {
  int64_t low, high;
  double weight; /* of high */
} taps;

static taps nearest(int64_t in, int64_t out, int64_t at) {
  double place = ((double)at + 0.5) * (double)in / (double)out;
  int64_t index = (int64_t)place < in ? (int64_t)place : in - 1;
  return (taps){index, index, 0};
}

static taps linear(int64_t in, int64_t out, int64_t at, bool corners) {
  double place = corners ? (out > 1 ? (double)at * (double)(in - 1) / (double)(out - 1) : 0)
                         : ((double)at + 0.5) * (double)in / (double)out - 0.5;
  place = place < 0 ? 0 : place > (double)(in - 1) ? (double)(in - 1) : place;
  int64_t low = (int64_t)place;
  return (taps){low, low + 1 < in ? low + 1 : low, place - (double)low};
}

static taps taps_of(const mt_ref_call *call, int axis, int64_t at) {
  int64_t in = call->in[0].shape[axis], out = call->out.shape[axis];
  if (mt_ref_i64(call, MT_ATTR_MODE, MT_UPSAMPLE_NEAREST) == MT_UPSAMPLE_NEAREST) {
    return nearest(in, out, at);
  }
  return linear(in, out, at, mt_ref_i64(call, MT_ATTR_ALIGN_CORNERS, 0) != 0);
}

/* Of weight 0 nothing comes: not even NaN or infinity. */
static double mix(double low, double high, double weight) {
  return weight == 0 ? low : low * (1 - weight) + high * weight;
}

static void resample(const mt_ref_call *call, const double *in, double *out) {
  const int64_t *x = call->in[0].shape, *y = call->out.shape;
  for (int64_t plane = 0; plane < y[0] * y[1]; plane++) {
    const double *from = in + plane * x[2] * x[3];
    for (int64_t i = 0; i < y[2]; i++) {
      taps r = taps_of(call, 2, i);
      for (int64_t j = 0; j < y[3]; j++) {
        taps c = taps_of(call, 3, j);
        const double *top = from + r.low * x[3], *bottom = from + r.high * x[3];
        *out++ = mix(mix(top[c.low], top[c.high], c.weight),
                     mix(bottom[c.low], bottom[c.high], c.weight), r.weight);
      }
    }
  }
}

static mt_status upsample_reference(const mt_ref_call *call) {
  mt_dense dense = {.count = 0};
  double *in, *out;
  mt_status status = mt_dense_load(&dense, &call->in[0], &in);
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &out) : status;
  if (status == MT_OK) {
    resample(call, in, out);
    mt_dense_store(&call->out, out);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_upsample = {"upsample", 1, upsample_reference, mt_op_upsample_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status extent_rule(const char *axis, int64_t in, int64_t wanted, double scale,
                             int64_t *out) {
  double scaled = floor((double)in * scale);
  bool by_scale = wanted == 0;
  if (wanted < 0 || (by_scale && !(scale > 0 && scaled < 0x1p62))) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "upsample: %s %lld, scale %g: expected an extent, or 0 and a scale above 0",
                   axis, (long long)wanted, scale);
  }
  *out = by_scale ? (int64_t)scaled : wanted;
  if (in == 0 && *out > 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "upsample: %s %lld of an image without pixels", axis,
                   (long long)*out);
  }
  return MT_OK;
}

static mt_status run_view(mt_runtime *rt, const mt_upsample_options *o, mt_tensor *view,
                          mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_upsample, .in = &view, .in_count = 1};
  const mt_image_form form = {o->layout, false};
  int64_t shape[4] = {view->shape[0], view->shape[1]};
  mt_tensor *dst = NULL;
  MT_TRY(extent_rule("height", view->shape[2], o->height, o->scale_h, &shape[2]));
  MT_TRY(extent_rule("width", view->shape[3], o->width, o->scale_w, &shape[3]));
  MT_TRY(mt_image_output("upsample", out, view->dtype, form, shape, &dst, &call.out));
  if (o->mode != MT_UPSAMPLE_NEAREST) {
    mt_op_attr_i64(&call, MT_ATTR_MODE, o->mode);
  }
  if (o->align_corners && o->mode == MT_UPSAMPLE_BILINEAR) {
    mt_op_attr_i64(&call, MT_ATTR_ALIGN_CORNERS, 1);
  }
  return mt_op_run_view(rt, &call, false, dst, out);
}

mt_status mt_upsample(mt_runtime *rt, mt_tensor *x, const mt_upsample_options *options,
                      mt_tensor **out) {
  mt_upsample_options o = MT_UPSAMPLE_OPTIONS_INIT;
  mt_tensor *view = NULL;
  MT_TRY(mt_op_require("upsample", "rt", rt));
  MT_TRY(mt_op_input("upsample", "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_require("upsample", "options", options));
  MT_TRY(mt_op_require("upsample", "out", out));
  MT_TRY(mt_op_options("upsample", options, &o, sizeof(o)));
  MT_TRY(mt_op_range("upsample", "mode", o.mode, MT_UPSAMPLE_NEAREST, MT_UPSAMPLE_BILINEAR));
  MT_TRY(mt_image_check("upsample", "x", x, (mt_image_form){o.layout, false}));
  MT_TRY(mt_image_view(x, (mt_image_form){o.layout, false}, &view));
  mt_status status = run_view(rt, &o, view, out);
  mt_tensor_release(&view);
  return status;
}
