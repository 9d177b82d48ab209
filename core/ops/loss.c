// SPDX-License-Identifier: Apache-2.0
/* cross_entropy and mse. */
#include "dense.h"

#include <math.h>
#include <mecantensor/nn.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

static int64_t count_of(const mt_view *view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; i++) {
    count *= view->shape[i];
  }
  return count;
}

/* values[0] becomes what the call asks for, where that is one number. */
static void reduce(const mt_ref_call *call, double *values, int64_t n, double counted) {
  int64_t how = mt_ref_i64(call, MT_ATTR_REDUCTION, MT_REDUCE_NONE);
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += values[i];
  }
  if (how != MT_REDUCE_NONE) {
    values[0] = how == MT_REDUCE_MEAN ? sum / counted : sum;
  }
}

static double sum_exp(const double *x, int64_t n, double shift) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += exp(x[i] - shift);
  }
  return sum;
}

/* One row of logits. */
static double row_loss(const double *x, int64_t classes, int64_t target, double smoothing) {
  double max = -INFINITY, all = 0;
  for (int64_t c = 0; c < classes; c++) {
    max = isnan(max) || max >= x[c] ? max : x[c];
  }
  double shift = max + log(sum_exp(x, classes, max)), loss = (1 - smoothing) * (shift - x[target]);
  for (int64_t c = 0; smoothing > 0 && c < classes; c++) {
    all += shift - x[c];
  }
  return smoothing > 0 ? loss + smoothing / (double)classes * all : loss;
}

static mt_status cross_entropy_reference(const mt_ref_call *call) {
  const mt_view *logits = &call->in[0], *targets = &call->in[1];
  int64_t rows = count_of(targets), classes = logits->shape[logits->rank - 1], counted = 0;
  int64_t ignore = mt_ref_i64(call, MT_ATTR_IGNORE_INDEX, -100);
  double smoothing = mt_ref_f64(call, MT_ATTR_LABEL_SMOOTHING, 0);
  mt_dense dense = {.count = 0};
  double *x, *target, *loss;
  mt_status status = mt_dense_load(&dense, logits, &x);
  status = status == MT_OK ? mt_dense_load(&dense, targets, &target) : status;
  status = status == MT_OK ? mt_dense_room(&dense, targets, &loss) : status;
  for (int64_t i = 0; status == MT_OK && i < rows; i++) {
    if (target[i] != (double)ignore) {
      loss[i] = row_loss(x + i * classes, classes, (int64_t)target[i], smoothing);
      counted++;
    }
  }
  if (status == MT_OK) {
    reduce(call, loss, rows, (double)counted);
    mt_dense_store(&call->out, loss);
  }
  mt_dense_free(&dense);
  return status;
}

static mt_status mse_reference(const mt_ref_call *call) {
  int64_t n = count_of(&call->in[0]);
  mt_dense dense = {.count = 0};
  double *a, *b;
  mt_status status = mt_dense_load(&dense, &call->in[0], &a);
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[1], &b) : status;
  for (int64_t i = 0; status == MT_OK && i < n; i++) {
    a[i] = (a[i] - b[i]) * (a[i] - b[i]);
  }
  if (status == MT_OK) {
    reduce(call, a, n, (double)n);
    mt_dense_store(&call->out, a);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_cross_entropy = {"cross_entropy", 1, cross_entropy_reference,
                                       mt_op_cross_entropy_number};
const mt_op_def mt_op_mse = {"mse", 1, mse_reference, mt_op_mse_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status run(mt_runtime *rt, mt_op_call *call, mt_reduction reduction,
                     const mt_tensor *like, int rank, mt_tensor **out) {
  const char *op = call->def->name;
  MT_TRY(mt_op_range(op, "reduction", reduction, MT_REDUCE_NONE, MT_REDUCE_SUM));
  MT_TRY(mt_op_output(op, out, like->dtype, reduction == MT_REDUCE_NONE ? rank : 0, like->shape,
                      &call->out));
  if (reduction != MT_REDUCE_NONE) {
    mt_op_attr_i64(call, MT_ATTR_REDUCTION, reduction);
  }
  return mt_op_run(rt, call, false, out);
}

/* Every target, on the host: a class, or the one to ignore. */
static mt_status check_targets(const mt_tensor *targets, int64_t classes, int64_t ignore) {
  if (targets->elements == 0) {
    return MT_OK;
  }
  MT_TRY(mt_storage_to_host(targets->storage, false));
  const mt_view view = {.dtype = targets->dtype,
                        .rank = targets->rank,
                        .shape = targets->shape,
                        .stride = targets->stride,
                        .data = (char *)targets->storage->host + targets->byte_offset};
  const mt_view *views[] = {&view};
  int64_t target[MT_LINE], position = 0;
  mt_walk walk;
  mt_walk_views(&walk, views, 1);
  for (; mt_walk_next(&walk); position += walk.count) {
    mt_load_i64(view.dtype, walk.at[0], walk.stride[0], walk.count, target);
    for (int64_t i = 0; i < walk.count; i++) {
      if (target[i] != ignore && (target[i] < 0 || target[i] >= classes)) {
        return mt_fail(MT_ERR_INVALID_ARGUMENT,
                       "cross_entropy: target %lld at position %lld: expected 0 .. %lld, or %lld "
                       "to ignore it",
                       (long long)target[i], (long long)(position + i), (long long)(classes - 1),
                       (long long)ignore);
      }
    }
  }
  return MT_OK;
}

static mt_status check_operands(const mt_tensor *logits, const mt_tensor *targets,
                                const mt_cross_entropy_options *o) {
  char given[MT_DESCRIBE_BYTES], other[MT_DESCRIBE_BYTES];
  if (logits->rank != targets->rank + 1 ||
      (targets->rank > 0 &&
       memcmp(logits->shape, targets->shape, (size_t)targets->rank * sizeof(int64_t)) != 0)) {
    return mt_fail(
        MT_ERR_INVALID_ARGUMENT,
        "cross_entropy: targets %s: expected the shape of logits %s without the last axis",
        mt_tensor_describe(targets, given, sizeof(given)),
        mt_tensor_describe(logits, other, sizeof(other)));
  }
  if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "cross_entropy: label_smoothing %g: expected 0 .. 1",
                   o->label_smoothing);
  }
  return check_targets(targets, logits->shape[logits->rank - 1], o->ignore_index);
}

mt_status mt_cross_entropy(mt_runtime *rt, mt_tensor *logits, mt_tensor *targets,
                           const mt_cross_entropy_options *options, mt_tensor **out) {
  mt_cross_entropy_options o = MT_CROSS_ENTROPY_OPTIONS_INIT;
  mt_tensor *in[] = {logits, targets};
  mt_op_call call = {.def = &mt_op_cross_entropy, .in = in, .in_count = 2};
  MT_TRY(mt_op_require("cross_entropy", "rt", rt));
  MT_TRY(mt_op_input("cross_entropy", "logits", logits, MT_KIND_FLOAT));
  MT_TRY(mt_op_input("cross_entropy", "targets", targets, MT_KIND_INDEX));
  MT_TRY(mt_op_require("cross_entropy", "out", out));
  MT_TRY(mt_op_options("cross_entropy", options, &o, sizeof(o)));
  MT_TRY(check_operands(logits, targets, &o));
  if (o.ignore_index != -100) {
    mt_op_attr_i64(&call, MT_ATTR_IGNORE_INDEX, o.ignore_index);
  }
  if (o.label_smoothing > 0) {
    mt_op_attr_f64(&call, MT_ATTR_LABEL_SMOOTHING, o.label_smoothing);
  }
  return run(rt, &call, o.reduction, logits, logits->rank - 1, out);
}

mt_status mt_mse(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_reduction reduction,
                 mt_tensor **out) {
  mt_tensor *in[] = {a, b};
  mt_op_call call = {.def = &mt_op_mse, .in = in, .in_count = 2};
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_require("mse", "rt", rt));
  MT_TRY(mt_op_input("mse", "a", a, MT_KIND_FLOAT));
  MT_TRY(mt_op_input("mse", "b", b, MT_KIND_FLOAT));
  MT_TRY(mt_op_same_dtype("mse", "a", a, "b", b));
  MT_TRY(mt_op_require("mse", "out", out));
  if (a->rank != b->rank ||
      (a->rank > 0 && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof(int64_t)) != 0)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mse: a %s and b %s: expected one shape",
                   mt_tensor_describe(a, left, sizeof(left)),
                   mt_tensor_describe(b, right, sizeof(right)));
  }
  return run(rt, &call, reduction, a, a->rank, out);
}
