// SPDX-License-Identifier: Apache-2.0
/* max_pool2d and avg_pool2d; the one-dimensional ones are images of height 1. */
#include "dense.h"
#include "image.h"

#include <math.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* Along one axis: the taps of window `at`, and what it covers of the padded extent. */
typedef struct span {
  int64_t start, kernel, dilation, extent;
  int64_t covered;
} span;

static span span_of(const mt_window *w, int64_t extent, int64_t at) {
  int64_t start = at * w->stride - w->before, end = start + w->kernel;
  int64_t limit = extent + w->after;
  return (span){start, w->kernel, w->dilation, extent, (end < limit ? end : limit) - start};
}

static double pool_max(const double *plane, const span *rows, const span *cols) {
  double best = -INFINITY;
  for (int64_t i = 0; i < rows->kernel; i++) {
    int64_t y = rows->start + i * rows->dilation;
    for (int64_t j = 0; y >= 0 && y < rows->extent && j < cols->kernel; j++) {
      int64_t x = cols->start + j * cols->dilation;
      if (x >= 0 && x < cols->extent) {
        double value = plane[y * cols->extent + x];
        best = isnan(best) || best >= value ? best : value;
      }
    }
  }
  return best;
}

static double pool_mean(const double *plane, const span *rows, const span *cols, bool all) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t y = rows->start; y < rows->start + rows->kernel; y++) {
    for (int64_t x = cols->start; x < cols->start + cols->kernel; x++) {
      if (y >= 0 && y < rows->extent && x >= 0 && x < cols->extent) {
        sum += plane[y * cols->extent + x];
        count++;
      }
    }
  }
  return sum / (double)(all ? rows->covered * cols->covered : count);
}

static void read_windows(const mt_ref_call *call, mt_window *rows, mt_window *cols) {
  const int64_t *kernel = mt_ref_attr(call, MT_ATTR_KERNEL)->value.list;
  const int64_t *stride = mt_ref_attr(call, MT_ATTR_STRIDE)->value.list;
  const mt_attr_v1 *padding = mt_ref_attr(call, MT_ATTR_PADDING);
  const mt_attr_v1 *dilation = mt_ref_attr(call, MT_ATTR_DILATION);
  static const int64_t none[4] = {0}, ones[2] = {1, 1};
  const int64_t *p = padding ? padding->value.list : none;
  const int64_t *d = dilation ? dilation->value.list : ones;
  *rows = (mt_window){kernel[0], stride[0], d[0], p[0], p[2]};
  *cols = (mt_window){kernel[1], stride[1], d[1], p[1], p[3]};
}

static void pool_planes(const mt_ref_call *call, bool max, const double *in, double *out) {
  const int64_t *x = call->in[0].shape, *y = call->out.shape;
  bool all = mt_ref_i64(call, MT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  mt_window rows, cols;
  read_windows(call, &rows, &cols);
  for (int64_t plane = 0; plane < y[0] * y[1]; plane++) {
    for (int64_t i = 0; i < y[2]; i++) {
      span r = span_of(&rows, x[2], i);
      for (int64_t j = 0; j < y[3]; j++) {
        span c = span_of(&cols, x[3], j);
        const double *from = in + plane * x[2] * x[3];
        *out++ = max ? pool_max(from, &r, &c) : pool_mean(from, &r, &c, all);
      }
    }
  }
}

static mt_status pool(const mt_ref_call *call, bool max) {
  mt_dense dense = {.count = 0};
  double *in, *out;
  mt_status status = mt_dense_load(&dense, &call->in[0], &in);
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &out) : status;
  if (status == MT_OK) {
    pool_planes(call, max, in, out);
    mt_dense_store(&call->out, out);
  }
  mt_dense_free(&dense);
  return status;
}

static mt_status max_pool2d_reference(const mt_ref_call *call) {
  return pool(call, true);
}
static mt_status avg_pool2d_reference(const mt_ref_call *call) {
  return pool(call, false);
}

const mt_op_def mt_op_max_pool2d = {"max_pool2d", 1, max_pool2d_reference, mt_op_max_pool2d_number};
const mt_op_def mt_op_avg_pool2d = {"avg_pool2d", 1, avg_pool2d_reference, mt_op_avg_pool2d_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_options(const char *op, const mt_op_def *def, const mt_pool2d_options *o) {
  for (int i = 0; i < 4; i++) {
    int64_t reach = o->kernel[i % 2] - 1, step = o->dilation[i % 2], padding = o->padding[i];
    /* padding > reach * step, which might overflow */
    bool wide = reach >= 0 && step >= 1 && padding > 0 &&
                (padding / step > reach || (padding / step == reach && padding % step > 0));
    if (wide) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "%s: padding %lld: expected less than the kernel reaches over, %lld taps "
                     "%lld apart",
                     op, (long long)padding, (long long)(reach + 1), (long long)step);
    }
  }
  if (def == &mt_op_avg_pool2d && (o->dilation[0] != 1 || o->dilation[1] != 1)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: dilation %lld, %lld: expected 1, 1", op,
                   (long long)o->dilation[0], (long long)o->dilation[1]);
  }
  return MT_OK;
}

/* o: strides filled in. */
static mt_status shape_rule(const char *op, const mt_pool2d_options *o, const int64_t *x,
                            int64_t *shape) {
  const mt_window rows = {o->kernel[0], o->stride[0], o->dilation[0], o->padding[0], o->padding[2]};
  const mt_window cols = {o->kernel[1], o->stride[1], o->dilation[1], o->padding[1], o->padding[3]};
  shape[0] = x[0];
  shape[1] = x[1];
  MT_TRY(mt_window_count(op, "height", x[2], &rows, o->ceil_mode != 0, &shape[2]));
  return mt_window_count(op, "width", x[3], &cols, o->ceil_mode != 0, &shape[3]);
}

static void set_attributes(mt_op_call *call, const mt_pool2d_options *o) {
  static const int64_t none[4] = {0};
  mt_op_attr_list(call, MT_ATTR_KERNEL, o->kernel, 2);
  mt_op_attr_list(call, MT_ATTR_STRIDE, o->stride, 2);
  if (memcmp(o->padding, none, sizeof(none)) != 0) {
    mt_op_attr_list(call, MT_ATTR_PADDING, o->padding, 4);
  }
  if (o->dilation[0] != 1 || o->dilation[1] != 1) {
    mt_op_attr_list(call, MT_ATTR_DILATION, o->dilation, 2);
  }
  if (call->def == &mt_op_avg_pool2d && !o->count_include_pad) {
    mt_op_attr_i64(call, MT_ATTR_COUNT_INCLUDE_PAD, 0);
  }
}

static mt_status run_view(mt_runtime *rt, const char *op, const mt_op_def *def, mt_tensor *view,
                          mt_image_form form, const mt_pool2d_options *o, mt_tensor **out) {
  mt_op_call call = {.def = def, .in = &view, .in_count = 1};
  int64_t shape[4];
  mt_tensor *dst = NULL;
  MT_TRY(check_options(op, def, o));
  MT_TRY(shape_rule(op, o, view->shape, shape));
  MT_TRY(mt_image_output(op, out, view->dtype, form, shape, &dst, &call.out));
  set_attributes(&call, o);
  return mt_op_run_view(rt, &call, false, dst, out);
}

static mt_status run(mt_runtime *rt, const char *op, const mt_op_def *def, bool flat, mt_tensor *x,
                     const mt_pool2d_options *options, mt_tensor **out) {
  mt_pool2d_options o = MT_POOL2D_OPTIONS_INIT;
  mt_tensor *view = NULL;
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_require(op, "options", options));
  MT_TRY(mt_op_require(op, "out", out));
  MT_TRY(mt_op_options(op, options, &o, sizeof(o)));
  if (flat) {
    o.kernel[0] = o.stride[0] = o.dilation[0] = 1;
    o.padding[0] = o.padding[2] = 0;
  }
  for (int i = 0; i < 2; i++) {
    o.stride[i] = o.stride[i] == 0 ? o.kernel[i] : o.stride[i];
  }
  const mt_image_form form = {o.layout, flat};
  MT_TRY(mt_image_check(op, "x", x, form));
  MT_TRY(mt_image_view(x, form, &view));
  mt_status status = run_view(rt, op, def, view, form, &o, out);
  mt_tensor_release(&view);
  return status;
}

mt_status mt_max_pool2d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                        mt_tensor **out) {
  return run(rt, "max_pool2d", &mt_op_max_pool2d, false, x, options, out);
}

mt_status mt_avg_pool2d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                        mt_tensor **out) {
  return run(rt, "avg_pool2d", &mt_op_avg_pool2d, false, x, options, out);
}

mt_status mt_max_pool1d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                        mt_tensor **out) {
  return run(rt, "max_pool1d", &mt_op_max_pool2d, true, x, options, out);
}

mt_status mt_avg_pool1d(mt_runtime *rt, mt_tensor *x, const mt_pool2d_options *options,
                        mt_tensor **out) {
  return run(rt, "avg_pool1d", &mt_op_avg_pool2d, true, x, options, out);
}
