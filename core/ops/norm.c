// SPDX-License-Identifier: Apache-2.0
/* layer_norm (group norm is one, too), rms_norm, batch_norm, batch_norm_train. */
#include "dense.h"
#include "image.h"

#include <math.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* The operands of a call as arrays in the shape of x. */
typedef struct arrays {
  mt_dense dense;
  double *in[5], *out;
} arrays;

static mt_status arrays_load(arrays *a, const mt_ref_call *call) {
  a->dense.count = 0;
  mt_status status = mt_dense_room(&a->dense, &call->out, &a->out);
  for (size_t i = 0; status == MT_OK && i < call->in_count; i++) {
    status = mt_dense_load(&a->dense, &call->in[i], &a->in[i]);
  }
  return status;
}

static int64_t product(const int64_t *shape, int from, int to) {
  int64_t count = 1;
  for (int i = from; i < to; i++) {
    count *= shape[i];
  }
  return count;
}

typedef struct moments {
  double mean, variance;
} moments;

/* Of `runs` runs of n numbers, each `step` after the other. */
static moments moments_of(const double *x, int64_t runs, int64_t step, int64_t n) {
  moments m = {0, 0};
  double count = (double)(runs * n);
  for (int64_t r = 0; r < runs; r++) {
    for (int64_t i = 0; i < n; i++) {
      m.mean += x[r * step + i];
    }
  }
  m.mean /= count;
  for (int64_t r = 0; r < runs; r++) {
    for (int64_t i = 0; i < n; i++) {
      double d = x[r * step + i] - m.mean;
      m.variance += d * d;
    }
  }
  m.variance /= count;
  return m;
}

static double affine(const double *weight, const double *bias, int64_t i, double y) {
  return (weight ? y * weight[i] : y) + (bias ? bias[i] : 0);
}

static mt_status layer_norm_reference(const mt_ref_call *call) {
  const int64_t *shape = call->out.shape;
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0), rank = call->out.rank;
  int64_t rows = product(shape, 0, axis), n = product(shape, axis, rank);
  double epsilon = mt_ref_f64(call, MT_ATTR_EPSILON, 0);
  arrays a;
  mt_status status = arrays_load(&a, call);
  for (int64_t row = 0; status == MT_OK && row < rows; row++) {
    moments m = moments_of(a.in[0] + row * n, 1, 0, n);
    double scale = 1 / sqrt(m.variance + epsilon);
    for (int64_t i = row * n; i < (row + 1) * n; i++) {
      a.out[i] = affine(a.in[1], a.in[2], i, (a.in[0][i] - m.mean) * scale);
    }
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, a.out);
  }
  mt_dense_free(&a.dense);
  return status;
}

static mt_status rms_norm_reference(const mt_ref_call *call) {
  int64_t n = call->out.shape[call->out.rank - 1];
  int64_t rows = product(call->out.shape, 0, call->out.rank - 1);
  double epsilon = mt_ref_f64(call, MT_ATTR_EPSILON, 0);
  arrays a;
  mt_status status = arrays_load(&a, call);
  for (int64_t row = 0; status == MT_OK && row < rows; row++) {
    double square = 0;
    for (int64_t i = row * n; i < (row + 1) * n; i++) {
      square += a.in[0][i] * a.in[0][i];
    }
    double scale = 1 / sqrt(square / (double)n + epsilon);
    for (int64_t i = row * n; i < (row + 1) * n; i++) {
      a.out[i] = affine(a.in[1], NULL, i, a.in[0][i] * scale);
    }
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, a.out);
  }
  mt_dense_free(&a.dense);
  return status;
}

static mt_status batch_norm_reference(const mt_ref_call *call) {
  double epsilon = mt_ref_f64(call, MT_ATTR_EPSILON, 0);
  int64_t count = product(call->out.shape, 0, call->out.rank);
  arrays a;
  mt_status status = arrays_load(&a, call);
  for (int64_t i = 0; status == MT_OK && i < count; i++) {
    double y = (a.in[0][i] - a.in[1][i]) / sqrt(a.in[2][i] + epsilon);
    a.out[i] = affine(a.in[3], a.in[4], i, y);
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, a.out);
  }
  mt_dense_free(&a.dense);
  return status;
}

static void normalize_channels(const mt_ref_call *call, arrays *a, double *mean, double *variance) {
  const int64_t *shape = call->out.shape;
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  int64_t outer = product(shape, 0, axis), inner = product(shape, axis + 1, call->out.rank);
  int64_t channels = shape[axis], step = channels * inner;
  double epsilon = mt_ref_f64(call, MT_ATTR_EPSILON, 0);
  for (int64_t c = 0; c < channels; c++) {
    moments m = moments_of(a->in[0] + c * inner, outer, step, inner);
    mean[c] = m.mean;
    variance[c] = m.variance;
    for (int64_t o = 0; o < outer; o++) {
      for (int64_t i = o * step + c * inner; i < o * step + (c + 1) * inner; i++) {
        double y = (a->in[0][i] - m.mean) / sqrt(m.variance + epsilon);
        a->out[i] = affine(a->in[1], a->in[2], i, y);
      }
    }
  }
}

static mt_status batch_norm_train_reference(const mt_ref_call *call) {
  double *mean, *variance;
  arrays a;
  mt_status status = arrays_load(&a, call);
  status = status == MT_OK ? mt_dense_room(&a.dense, &call->more[0], &mean) : status;
  status = status == MT_OK ? mt_dense_room(&a.dense, &call->more[1], &variance) : status;
  if (status == MT_OK) {
    normalize_channels(call, &a, mean, variance);
    mt_dense_store(&call->out, a.out);
    mt_dense_store(&call->more[0], mean);
    mt_dense_store(&call->more[1], variance);
  }
  mt_dense_free(&a.dense);
  return status;
}

const mt_op_def mt_op_layer_norm = {"layer_norm", 1, layer_norm_reference, mt_op_layer_norm_number};
const mt_op_def mt_op_rms_norm = {"rms_norm", 1, rms_norm_reference, mt_op_rms_norm_number};
const mt_op_def mt_op_batch_norm = {"batch_norm", 1, batch_norm_reference, mt_op_batch_norm_number};
const mt_op_def mt_op_batch_norm_train = {"batch_norm_train", 1, batch_norm_train_reference,
                                          mt_op_batch_norm_train_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_call(const char *op, const mt_runtime *rt, const mt_tensor *x,
                            double epsilon, mt_tensor *const *out) {
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_require(op, "out", out));
  return epsilon >= 0 && epsilon <= (double)INFINITY
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: epsilon %g: expected 0 or more", op, epsilon);
}

/* A weight, bias or statistic, of the shape given, as a view in the shape of x: along axis i of x
 * it goes with its axis i - first, and repeats elsewhere. NULL stays NULL. */
static mt_status spread(const char *op, const char *name, const mt_tensor *x,
                        const mt_tensor *tensor, int first, mt_tensor **out) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  int64_t stride[MT_MAX_RANK];
  *out = NULL;
  if (!tensor) {
    return MT_OK;
  }
  int end = first + tensor->rank;
  bool fits =
      end <= x->rank && (tensor->rank == 0 || memcmp(tensor->shape, x->shape + first,
                                                     (size_t)tensor->rank * sizeof(*stride)) == 0);
  if (!fits || (tensor->dtype != x->dtype && tensor->dtype != MT_F32)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: %s %s does not fit x %s from axis %d on, %s or f32", op, name,
                   mt_tensor_describe(tensor, given, sizeof(given)),
                   mt_tensor_describe(x, wanted, sizeof(wanted)), first, mt_dtype_name(x->dtype));
  }
  for (int i = 0; i < x->rank; i++) {
    stride[i] = i >= first && i < end ? tensor->stride[i - first] : 0;
  }
  return mt_tensor_restride(tensor, x->rank, x->shape, stride, out);
}

static void release_all(mt_tensor **list, int count) {
  for (int i = 0; i < count; i++) {
    mt_tensor_release(&list[i]);
  }
}

/* "weight of rank 1: expected 2", since spread() cannot know how many axes are meant. */
static mt_status check_rank(const char *op, const char *name, const mt_tensor *tensor, int rank) {
  char text[MT_DESCRIBE_BYTES];
  return !tensor || tensor->rank == rank
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %s: expected rank %d", op, name,
                       mt_tensor_describe(tensor, text, sizeof(text)), rank);
}

mt_status mt_layer_norm(mt_runtime *rt, mt_tensor *x, int axes, mt_tensor *weight, mt_tensor *bias,
                        double epsilon, mt_tensor **out) {
  mt_tensor *in[3] = {x, NULL, NULL};
  mt_op_call call = {.def = &mt_op_layer_norm, .in = in, .in_count = 3};
  MT_TRY(check_call("layer_norm", rt, x, epsilon, out));
  MT_TRY(mt_op_range("layer_norm", "axes", axes, 1, x->rank));
  MT_TRY(check_rank("layer_norm", "weight", weight, axes));
  MT_TRY(check_rank("layer_norm", "bias", bias, axes));
  mt_status status = spread("layer_norm", "weight", x, weight, x->rank - axes, &in[1]);
  status = status == MT_OK ? spread("layer_norm", "bias", x, bias, x->rank - axes, &in[2]) : status;
  status = status == MT_OK ? mt_op_output("layer_norm", out, x->dtype, x->rank, x->shape, &call.out)
                           : status;
  if (status == MT_OK) {
    mt_op_attr_i64(&call, MT_ATTR_AXIS, x->rank - axes);
    mt_op_attr_f64(&call, MT_ATTR_EPSILON, epsilon);
    call.only_first_in_place = true;
    status = mt_op_run(rt, &call, true, out);
  }
  release_all(in + 1, 2);
  return status;
}

mt_status mt_rms_norm(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, double epsilon,
                      mt_tensor **out) {
  mt_tensor *in[2] = {x, NULL};
  mt_op_call call = {.def = &mt_op_rms_norm, .in = in, .in_count = 2};
  MT_TRY(check_call("rms_norm", rt, x, epsilon, out));
  MT_TRY(mt_op_range("rms_norm", "rank of x", x->rank, 1, MT_MAX_RANK));
  MT_TRY(check_rank("rms_norm", "weight", weight, 1));
  MT_TRY(spread("rms_norm", "weight", x, weight, x->rank - 1, &in[1]));
  mt_status status = mt_op_output("rms_norm", out, x->dtype, x->rank, x->shape, &call.out);
  if (status == MT_OK) {
    mt_op_attr_f64(&call, MT_ATTR_EPSILON, epsilon);
    call.only_first_in_place = true;
    status = mt_op_run(rt, &call, true, out);
  }
  mt_tensor_release(&in[1]);
  return status;
}

/* ---- group norm: a layer_norm of [N, G, C/G, ...] ------------------------------------- */

/* Axis 1 split: [N, G, C/G, ...]; a tensor [C] becomes [G, C/G]. */
static mt_status split_axis(const mt_tensor *tensor, int axis, int64_t groups, mt_tensor **out) {
  int64_t shape[MT_MAX_RANK], stride[MT_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (i == axis) {
      shape[rank] = groups;
      stride[rank++] = tensor->shape[i] / groups * tensor->stride[i];
    }
    shape[rank] = i == axis ? tensor->shape[i] / groups : tensor->shape[i];
    stride[rank++] = tensor->stride[i];
  }
  return mt_tensor_restride(tensor, rank, shape, stride, out);
}

/* [N, ..., C] as [N, C, ...] when the channels are last. */
static mt_status channels_first(mt_tensor *tensor, mt_image_layout layout, mt_tensor **out) {
  int axes[MT_MAX_RANK];
  for (int i = 0; i < tensor->rank; i++) {
    axes[i] = layout == MT_NCHW || i == 0 ? i : i == 1 ? tensor->rank - 1 : i - 1;
  }
  return mt_tensor_permute(tensor, axes, out);
}

static mt_status grouped(mt_tensor *tensor, mt_image_layout layout, int64_t groups,
                         mt_tensor **out) {
  mt_tensor *first = NULL;
  MT_TRY(channels_first(tensor, layout, &first));
  mt_status status = split_axis(first, 1, groups, out);
  mt_tensor_release(&first);
  return status;
}

static mt_status check_groups(const mt_tensor *x, int64_t groups, mt_image_layout layout,
                              const mt_tensor *weight, const mt_tensor *bias) {
  char text[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_range("group_norm", "layout", layout, MT_NCHW, MT_NHWC));
  MT_TRY(mt_op_range("group_norm", "rank of x", x->rank, 2, MT_MAX_RANK - 1));
  int64_t channels = x->shape[layout == MT_NCHW ? 1 : x->rank - 1];
  if (groups < 1 || channels % groups != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "group_norm: groups %lld: expected a divisor of the %lld channels",
                   (long long)groups, (long long)channels);
  }
  for (int i = 0; i < 2; i++) {
    const mt_tensor *t = i ? bias : weight;
    if (t && (t->rank != 1 || t->shape[0] != channels)) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "group_norm: %s %s: expected [%lld]",
                     i ? "bias" : "weight", mt_tensor_describe(t, text, sizeof(text)),
                     (long long)channels);
    }
  }
  return MT_OK;
}

static mt_status spread_groups(const char *name, const mt_tensor *x, const mt_tensor *tensor,
                               int64_t groups, mt_tensor **out) {
  mt_tensor *split = NULL;
  *out = NULL;
  if (!tensor) {
    return MT_OK;
  }
  MT_TRY(split_axis(tensor, 0, groups, &split));
  mt_status status = spread("group_norm", name, x, split, 1, out);
  mt_tensor_release(&split);
  return status;
}

mt_status mt_group_norm(mt_runtime *rt, mt_tensor *x, int64_t groups, mt_tensor *weight,
                        mt_tensor *bias, double epsilon, mt_image_layout layout, mt_tensor **out) {
  mt_tensor *in[3] = {NULL, NULL, NULL}, *dst = NULL;
  mt_op_call call = {.def = &mt_op_layer_norm, .in = in, .in_count = 3};
  MT_TRY(check_call("group_norm", rt, x, epsilon, out));
  MT_TRY(check_groups(x, groups, layout, weight, bias));
  MT_TRY(mt_op_output("group_norm", out, x->dtype, x->rank, x->shape, &dst));
  mt_status status = grouped(x, layout, groups, &in[0]);
  status = status == MT_OK ? grouped(dst, layout, groups, &call.out) : status;
  status = status == MT_OK ? spread_groups("weight", in[0], weight, groups, &in[1]) : status;
  status = status == MT_OK ? spread_groups("bias", in[0], bias, groups, &in[2]) : status;
  if (status == MT_OK) {
    mt_op_attr_i64(&call, MT_ATTR_AXIS, 2);
    mt_op_attr_f64(&call, MT_ATTR_EPSILON, epsilon);
    call.only_first_in_place = true;
    status = mt_op_run_view(rt, &call, true, dst, out);
  } else {
    mt_tensor_release(&call.out);
    if (!*out) {
      mt_tensor_release(&dst);
    }
  }
  release_all(in, 3);
  return status;
}

/* ---- batch norm ----------------------------------------------------------------------- */

/* Each as [C], in the shape of x along `axis`. */
static mt_status spread_channels(const char *op, const mt_tensor *x, int axis,
                                 mt_tensor *const *given, const char *const *names, int count,
                                 mt_tensor **in) {
  for (int i = 0; i < count; i++) {
    MT_TRY(check_rank(op, names[i], given[i], 1));
    MT_TRY(spread(op, names[i], x, given[i], axis, &in[i]));
  }
  return MT_OK;
}

mt_status mt_batch_norm(mt_runtime *rt, mt_tensor *x, mt_tensor *mean, mt_tensor *variance,
                        mt_tensor *weight, mt_tensor *bias, double epsilon, int axis,
                        mt_tensor **out) {
  static const char *const names[] = {"mean", "variance", "weight", "bias"};
  mt_tensor *given[] = {mean, variance, weight, bias}, *in[5] = {x};
  mt_op_call call = {.def = &mt_op_batch_norm, .in = in, .in_count = 5};
  int along;
  MT_TRY(check_call("batch_norm", rt, x, epsilon, out));
  MT_TRY(mt_op_require("batch_norm", "mean", mean));
  MT_TRY(mt_op_require("batch_norm", "variance", variance));
  MT_TRY(mt_axis_normalize("batch_norm", axis, x->rank, &along));
  mt_status status = spread_channels("batch_norm", x, along, given, names, 4, in + 1);
  status = status == MT_OK ? mt_op_output("batch_norm", out, x->dtype, x->rank, x->shape, &call.out)
                           : status;
  if (status == MT_OK) {
    mt_op_attr_f64(&call, MT_ATTR_EPSILON, epsilon);
    call.only_first_in_place = true;
    status = mt_op_run(rt, &call, true, out);
  }
  release_all(in + 1, 4);
  return status;
}

/* The three outputs, or none. */
static mt_status train_outputs(mt_op_call *call, const mt_tensor *x, int axis, mt_tensor **outs[]) {
  mt_dtype statistics = x->dtype == MT_F64 ? MT_F64 : MT_F32;
  const char *op = "batch_norm_train";
  MT_TRY(mt_op_output(op, outs[0], x->dtype, x->rank, x->shape, &call->out));
  mt_status status = MT_OK;
  for (size_t i = 1; status == MT_OK && i <= 2; i++) {
    status = mt_op_output(op, outs[i], statistics, 1, &x->shape[axis], mt_op_out(call, i));
    call->more_count = i;
  }
  if (status != MT_OK) {
    mt_op_drop_outputs(call, outs);
  }
  return status;
}

mt_status mt_batch_norm_train(mt_runtime *rt, mt_tensor *x, mt_tensor *weight, mt_tensor *bias,
                              double epsilon, int axis, mt_tensor **out, mt_tensor **mean,
                              mt_tensor **variance) {
  static const char *const names[] = {"weight", "bias"};
  mt_tensor *given[] = {weight, bias}, *in[3] = {x}, **outs[] = {out, mean, variance};
  mt_op_call call = {.def = &mt_op_batch_norm_train, .in = in, .in_count = 3};
  int along;
  MT_TRY(check_call("batch_norm_train", rt, x, epsilon, out));
  MT_TRY(mt_op_require("batch_norm_train", "mean", mean));
  MT_TRY(mt_op_require("batch_norm_train", "variance", variance));
  MT_TRY(mt_axis_normalize("batch_norm_train", axis, x->rank, &along));
  mt_status status = spread_channels("batch_norm_train", x, along, given, names, 2, in + 1);
  status = status == MT_OK ? train_outputs(&call, x, along, outs) : status;
  if (status == MT_OK) {
    mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
    mt_op_attr_f64(&call, MT_ATTR_EPSILON, epsilon);
    call.only_first_in_place = true;
    status = mt_op_run_many(rt, &call, true, outs);
  }
  release_all(in + 1, 2);
  return status;
}
