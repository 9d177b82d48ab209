// SPDX-License-Identifier: Apache-2.0
/* conv2d, and conv1d as a conv2d of height 1. */
#include "dense.h"
#include "image.h"
#include "scalar.h"

#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

typedef struct conv {
  const int64_t *x, *w, *out; /* shapes */
  int64_t stride[2], top, left, dilation[2];
  int64_t group_in, group_out; /* channels of a group */
  const double *in, *weight, *bias;
  double (*activation)(double);
} conv;

static void copy_list(const mt_ref_call *call, mt_attr_key key, int64_t *list) {
  const mt_attr_v1 *attr = mt_ref_attr(call, key);
  for (uint32_t i = 0; attr && i < attr->count; i++) {
    list[i] = attr->value.list[i];
  }
}

/* The sum over the window of one pixel of one output channel. */
static double window_sum(const conv *p, int64_t n, int64_t o, int64_t y, int64_t x) {
  int64_t height = p->x[2], width = p->x[3], kh = p->w[2], kw = p->w[3];
  int64_t first = o / p->group_out * p->group_in;
  double sum = 0;
  for (int64_t c = 0; c < p->group_in; c++) {
    const double *plane = p->in + (n * p->x[1] + first + c) * height * width;
    const double *w = p->weight + (o * p->group_in + c) * kh * kw;
    for (int64_t i = 0; i < kh; i++) {
      int64_t row = y * p->stride[0] + i * p->dilation[0] - p->top;
      for (int64_t j = 0; row >= 0 && row < height && j < kw; j++) {
        int64_t col = x * p->stride[1] + j * p->dilation[1] - p->left;
        if (col >= 0 && col < width) {
          sum += w[i * kw + j] * plane[row * width + col];
        }
      }
    }
  }
  return sum;
}

static void convolve(const conv *p, double *out) {
  for (int64_t n = 0; n < p->out[0]; n++) {
    for (int64_t o = 0; o < p->out[1]; o++) {
      for (int64_t y = 0; y < p->out[2]; y++) {
        for (int64_t x = 0; x < p->out[3]; x++) {
          double sum = window_sum(p, n, o, y, x) + (p->bias ? p->bias[o] : 0);
          *out++ = p->activation ? p->activation(sum) : sum;
        }
      }
    }
  }
}

static mt_status conv2d_reference(const mt_ref_call *call) {
  mt_dense dense = {.count = 0};
  int64_t padding[4] = {0}, groups = mt_ref_i64(call, MT_ATTR_GROUPS, 1);
  double *in, *weight, *bias, *out;
  conv p = {.x = call->in[0].shape,
            .w = call->in[1].shape,
            .out = call->out.shape,
            .stride = {1, 1},
            .dilation = {1, 1},
            .group_in = call->in[1].shape[1],
            .group_out = call->out.shape[1] / groups,
            .activation = mt_activation_f64(mt_ref_i64(call, MT_ATTR_ACTIVATION, MT_ACT_NONE))};
  copy_list(call, MT_ATTR_STRIDE, p.stride);
  copy_list(call, MT_ATTR_PADDING, padding);
  copy_list(call, MT_ATTR_DILATION, p.dilation);
  p.top = padding[0];
  p.left = padding[1];
  mt_status status = mt_dense_load(&dense, &call->in[0], &in);
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[1], &weight) : status;
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[2], &bias) : status;
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &out) : status;
  if (status == MT_OK) {
    p.in = in;
    p.weight = weight;
    p.bias = bias;
    convolve(&p, out);
    mt_dense_store(&call->out, out);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_conv2d = {"conv2d", 1, conv2d_reference, mt_op_conv2d_number};

/* ---- validation --------------------------------------------------------------------- */

typedef struct request {
  const char *op;
  mt_conv2d_options o;
  mt_image_form form;
  mt_tensor *in[3]; /* views: x [N, C, H, W], weight [O, C/G, KH, KW], bias [O] */
} request;

static mt_status check_operands(const char *op, const mt_runtime *rt, const mt_tensor *x,
                                const mt_tensor *weight, const mt_tensor *bias,
                                mt_tensor *const *out) {
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_input(op, "weight", weight, MT_KIND_FLOAT));
  MT_TRY(mt_op_same_dtype(op, "x", x, "weight", weight));
  if (bias) {
    MT_TRY(mt_op_same_dtype(op, "x", x, "bias", bias));
  }
  return mt_op_require(op, "out", out);
}

/* Channels, groups and the bias fit together. */
static mt_status check_channels(const request *r) {
  const int64_t *x = r->in[0]->shape, *w = r->in[1]->shape;
  int64_t groups = r->o.groups;
  char text[MT_DESCRIBE_BYTES];
  if (groups < 1 || x[1] % groups != 0 || w[0] % groups != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: groups %lld: expected a divisor of %lld input and %lld output channels",
                   r->op, (long long)groups, (long long)x[1], (long long)w[0]);
  }
  if (w[1] != x[1] / groups) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: weight has %lld input channels: expected %lld (%lld in %lld groups)", r->op,
                   (long long)w[1], (long long)(x[1] / groups), (long long)x[1], (long long)groups);
  }
  if (r->in[2] && (r->in[2]->rank != 1 || r->in[2]->shape[0] != w[0])) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: bias %s: expected [%lld]", r->op,
                   mt_tensor_describe(r->in[2], text, sizeof(text)), (long long)w[0]);
  }
  return mt_op_activation(r->op, r->o.activation);
}

/* [N, O, OH, OW] */
static mt_status shape_rule(const request *r, int64_t *shape) {
  const int64_t *x = r->in[0]->shape, *w = r->in[1]->shape;
  const mt_conv2d_options *o = &r->o;
  const mt_window rows = {w[2], o->stride[0], o->dilation[0], o->padding[0], o->padding[2]};
  const mt_window cols = {w[3], o->stride[1], o->dilation[1], o->padding[1], o->padding[3]};
  shape[0] = x[0];
  shape[1] = w[0];
  MT_TRY(mt_window_count(r->op, "height", x[2], &rows, false, &shape[2]));
  return mt_window_count(r->op, "width", x[3], &cols, false, &shape[3]);
}

static bool differs(const int64_t *list, int count, int64_t from) {
  for (int i = 0; i < count; i++) {
    if (list[i] != from) {
      return true;
    }
  }
  return false;
}

static void set_attributes(mt_op_call *call, const mt_conv2d_options *o) {
  if (differs(o->stride, 2, 1)) {
    mt_op_attr_list(call, MT_ATTR_STRIDE, o->stride, 2);
  }
  if (differs(o->padding, 4, 0)) {
    mt_op_attr_list(call, MT_ATTR_PADDING, o->padding, 4);
  }
  if (differs(o->dilation, 2, 1)) {
    mt_op_attr_list(call, MT_ATTR_DILATION, o->dilation, 2);
  }
  if (o->groups != 1) {
    mt_op_attr_i64(call, MT_ATTR_GROUPS, o->groups);
  }
  if (o->activation != MT_ACT_NONE) {
    mt_op_attr_i64(call, MT_ATTR_ACTIVATION, o->activation);
  }
}

static mt_status run_views(mt_runtime *rt, const request *r, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_conv2d, .in = r->in, .in_count = 3};
  int64_t shape[4];
  mt_tensor *dst = NULL;
  MT_TRY(check_channels(r));
  MT_TRY(shape_rule(r, shape));
  MT_TRY(mt_image_output(r->op, out, r->in[0]->dtype, r->form, shape, &dst, &call.out));
  set_attributes(&call, &r->o);
  return mt_op_run_view(rt, &call, false, dst, out);
}

static mt_status run(mt_runtime *rt, request *r, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                     mt_tensor **out) {
  MT_TRY(mt_image_check(r->op, "x", x, r->form));
  MT_TRY(mt_image_check(r->op, "weight", weight, r->form));
  r->in[2] = bias;
  mt_status status = mt_image_view(x, r->form, &r->in[0]);
  if (status == MT_OK) {
    status = mt_image_view(weight, r->form, &r->in[1]);
  }
  if (status == MT_OK) {
    status = run_views(rt, r, out);
  }
  mt_tensor_release(&r->in[0]);
  mt_tensor_release(&r->in[1]);
  return status;
}

mt_status mt_conv2d(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                    const mt_conv2d_options *options, mt_tensor **out) {
  request r = {.op = "conv2d", .o = MT_CONV2D_OPTIONS_INIT};
  MT_TRY(check_operands(r.op, rt, x, weight, bias, out));
  MT_TRY(mt_op_options(r.op, options, &r.o, sizeof(r.o)));
  r.form = (mt_image_form){r.o.layout, false};
  return run(rt, &r, x, weight, bias, out);
}

mt_status mt_conv1d(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                    const mt_conv1d_options *options, mt_tensor **out) {
  request r = {.op = "conv1d", .o = MT_CONV2D_OPTIONS_INIT};
  mt_conv1d_options o = MT_CONV1D_OPTIONS_INIT;
  MT_TRY(check_operands(r.op, rt, x, weight, bias, out));
  MT_TRY(mt_op_options(r.op, options, &o, sizeof(o)));
  r.o.stride[1] = o.stride;
  r.o.padding[1] = o.padding[0];
  r.o.padding[3] = o.padding[1];
  r.o.dilation[1] = o.dilation;
  r.o.groups = o.groups;
  r.o.activation = o.activation;
  r.form = (mt_image_form){o.layout, true};
  return run(rt, &r, x, weight, bias, out);
}
