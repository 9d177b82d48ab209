// SPDX-License-Identifier: Apache-2.0
/* argmax, argmin and topk: where the largest and smallest elements of a line are. */
#include "view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* An element of a line: a float as f64, an integer as i64. */
typedef struct candidate {
  double f64;
  int64_t i64, index;
} candidate;

typedef int compare_candidates(const void *, const void *);

static int by_index(const candidate *a, const candidate *b) {
  return a->index < b->index ? -1 : a->index > b->index;
}

/* NaN is above everything, and equal to NaN. */
static int order_f64(double x, double y) {
  if (isnan(x) || isnan(y)) {
    return (isnan(x) != 0) - (isnan(y) != 0);
  }
  return (x > y) - (x < y);
}

static int rising_f64(const void *a, const void *b) {
  int order = order_f64(((const candidate *)a)->f64, ((const candidate *)b)->f64);
  return order ? order : by_index(a, b);
}
static int falling_f64(const void *a, const void *b) {
  int order = order_f64(((const candidate *)b)->f64, ((const candidate *)a)->f64);
  return order ? order : by_index(a, b);
}
static int rising_i64(const void *a, const void *b) {
  int64_t x = ((const candidate *)a)->i64, y = ((const candidate *)b)->i64;
  return x != y ? (x < y ? -1 : 1) : by_index(a, b);
}
static int falling_i64(const void *a, const void *b) {
  int64_t x = ((const candidate *)a)->i64, y = ((const candidate *)b)->i64;
  return x != y ? (x > y ? -1 : 1) : by_index(a, b);
}

/* What comes first is the best. */
static compare_candidates *order_of(mt_dtype dtype, bool largest) {
  if (mt_is_float(dtype)) {
    return largest ? falling_f64 : rising_f64;
  }
  return largest ? falling_i64 : rising_i64;
}

/* n elements from number `first` on. */
static void load(mt_dtype dtype, const char *src, int64_t step, int64_t first, int64_t n,
                 candidate *dst) {
  double f64[MT_LINE];
  int64_t i64[MT_LINE];
  bool floats = mt_is_float(dtype);
  for (int64_t at = 0; at < n; at += MT_LINE) {
    int64_t count = n - at < MT_LINE ? n - at : MT_LINE;
    const char *from = src + (first + at) * step;
    if (floats) {
      mt_load_f64(dtype, from, step, count, f64);
    } else {
      mt_load_i64(dtype, from, step, count, i64);
    }
    for (int64_t i = 0; i < count; i++) {
      dst[at + i] = (candidate){floats ? f64[i] : 0, floats ? 0 : i64[i], first + at + i};
    }
  }
}

/* argmin of floats: NaN wins there, too, so it must be the smallest. */
static bool better(const candidate *a, const candidate *b, bool largest, bool floats) {
  if (floats && (isnan(a->f64) || isnan(b->f64))) {
    return isnan(a->f64) && !isnan(b->f64);
  }
  if (floats) {
    return largest ? a->f64 > b->f64 : a->f64 < b->f64;
  }
  return largest ? a->i64 > b->i64 : a->i64 < b->i64;
}

static int64_t best_of_line(mt_dtype dtype, const char *src, int64_t step, int64_t n,
                            bool largest) {
  candidate line[MT_LINE], best = {0, 0, -1};
  bool floats = mt_is_float(dtype);
  for (int64_t at = 0; at < n; at += MT_LINE) {
    int64_t count = n - at < MT_LINE ? n - at : MT_LINE;
    load(dtype, src, step, at, count, line);
    for (int64_t i = 0; i < count; i++) {
      if (best.index < 0 || better(&line[i], &best, largest, floats)) {
        best = line[i];
      }
    }
  }
  return best.index;
}

static mt_status arg_reference(const mt_ref_call *call, bool largest) {
  const mt_view *in = &call->in[0], *views[] = {&call->out, in};
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  int64_t n = in->shape[axis], step = mt_view_step(in, axis);
  mt_walk walk;
  mt_walk_lines(&walk, views, 2, axis);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      int64_t at = best_of_line(in->dtype, walk.at[1] + i * walk.stride[1], step, n, largest);
      mt_store_i64(MT_I64, &at, 1, walk.at[0] + i * walk.stride[0], 0);
    }
  }
  return MT_OK;
}

static mt_status argmax_reference(const mt_ref_call *call) {
  return arg_reference(call, true);
}
static mt_status argmin_reference(const mt_ref_call *call) {
  return arg_reference(call, false);
}

static mt_status topk_reference(const mt_ref_call *call) {
  const mt_view *in = &call->in[0], *values = &call->out, *indices = &call->more[0];
  const mt_view *views[] = {values, indices, in};
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  int64_t n = in->shape[axis], k = values->shape[axis], in_step = mt_view_step(in, axis);
  int64_t value_step = mt_view_step(values, axis), index_step = mt_view_step(indices, axis);
  size_t size = mt_dtype_size(in->dtype);
  compare_candidates *order = order_of(in->dtype, mt_ref_i64(call, MT_ATTR_LARGEST, 1) != 0);
  candidate *line = malloc((size_t)n * sizeof(*line));
  if (!line) {
    return mt_fail_memory((unsigned long long)n * sizeof(*line), "a line to sort");
  }
  mt_walk walk;
  mt_walk_lines(&walk, views, 3, axis);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      const char *src = walk.at[2] + i * walk.stride[2];
      load(in->dtype, src, in_step, 0, n, line);
      qsort(line, (size_t)n, sizeof(*line), order);
      for (int64_t j = 0; j < k; j++) {
        memcpy(walk.at[0] + i * walk.stride[0] + j * value_step, src + line[j].index * in_step,
               size);
        mt_store_i64(MT_I64, &line[j].index, 1, walk.at[1] + i * walk.stride[1] + j * index_step,
                     0);
      }
    }
  }
  free(line);
  return MT_OK;
}

const mt_op_def mt_op_argmax = {"argmax", 1, argmax_reference, mt_op_argmax_number};
const mt_op_def mt_op_argmin = {"argmin", 1, argmin_reference, mt_op_argmin_number};
const mt_op_def mt_op_topk = {"topk", 1, topk_reference, mt_op_topk_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status arg_run(mt_runtime *rt, const mt_op_def *def, mt_tensor *x, int axis, int keepdims,
                         mt_tensor **out) {
  mt_op_call call = {.def = def, .in = &x, .in_count = 1};
  char text[MT_DESCRIBE_BYTES];
  int64_t shape[MT_MAX_RANK];
  int along, rank = 0;
  MT_TRY(mt_op_require(def->name, "rt", rt));
  MT_TRY(mt_op_input(def->name, "x", x, MT_KIND_NUMBER));
  MT_TRY(mt_op_require(def->name, "out", out));
  MT_TRY(mt_axis_normalize(def->name, axis, x->rank, &along));
  for (int i = 0; i < x->rank; i++) {
    if (i != along || keepdims) {
      shape[rank++] = i == along ? 1 : x->shape[i];
    }
  }
  MT_TRY(mt_op_output(def->name, out, MT_I64, rank, shape, &call.out));
  if (x->shape[along] == 0 && call.out->elements > 0) {
    mt_op_drop_outputs(&call, &out);
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: x %s: axis %d has no elements", def->name,
                   mt_tensor_describe(x, text, sizeof(text)), along);
  }
  mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
  if (keepdims) {
    mt_op_attr_i64(&call, MT_ATTR_KEEPDIMS, 1);
  }
  return mt_op_run(rt, &call, false, out);
}

mt_status mt_argmax(mt_runtime *rt, mt_tensor *x, int axis, int keepdims, mt_tensor **out) {
  return arg_run(rt, &mt_op_argmax, x, axis, keepdims, out);
}

mt_status mt_argmin(mt_runtime *rt, mt_tensor *x, int axis, int keepdims, mt_tensor **out) {
  return arg_run(rt, &mt_op_argmin, x, axis, keepdims, out);
}

mt_status mt_topk(mt_runtime *rt, mt_tensor *x, int64_t k, int axis, int largest,
                  mt_tensor **values, mt_tensor **indices) {
  mt_op_call call = {.def = &mt_op_topk, .in = &x, .in_count = 1};
  mt_tensor **outs[] = {values, indices};
  int64_t shape[MT_MAX_RANK];
  int along;
  MT_TRY(mt_op_require("topk", "rt", rt));
  MT_TRY(mt_op_input("topk", "x", x, MT_KIND_NUMBER));
  MT_TRY(mt_op_require("topk", "values", values));
  MT_TRY(mt_op_require("topk", "indices", indices));
  MT_TRY(mt_axis_normalize("topk", axis, x->rank, &along));
  if (k < 0 || k > x->shape[along]) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "topk: k %lld: axis %d has %lld elements: expected 0 .. %lld", (long long)k,
                   along, (long long)x->shape[along], (long long)x->shape[along]);
  }
  memcpy(shape, x->shape, (size_t)x->rank * sizeof(*shape));
  shape[along] = k;
  MT_TRY(mt_op_output("topk", values, x->dtype, x->rank, shape, &call.out));
  call.more_count = 1;
  mt_status status = mt_op_output("topk", indices, MT_I64, x->rank, shape, &call.more[0]);
  if (status != MT_OK) {
    mt_op_drop_outputs(&call, outs);
    return status;
  }
  mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
  if (!largest) {
    mt_op_attr_i64(&call, MT_ATTR_LARGEST, 0);
  }
  return mt_op_run_many(rt, &call, false, outs);
}
