// SPDX-License-Identifier: Apache-2.0
/* sum, mean, max over axes. Floats add up in double, integers in 64 bits that wrap. */
#include "view.h"

#include <math.h>

/* ---- reference --------------------------------------------------------------------------- */

/* x split into the axes that stay and those that go. */
typedef struct split {
  mt_view kept, gone;
  mt_view out; /* without its extents of 1 */
  int64_t kept_shape[MT_MAX_RANK], kept_stride[MT_MAX_RANK];
  int64_t gone_shape[MT_MAX_RANK], gone_stride[MT_MAX_RANK];
  int64_t out_shape[MT_MAX_RANK], out_stride[MT_MAX_RANK];
} split;

static void split_axes(const mt_ref_call *call, split *s) {
  const mt_view *x = &call->in[0];
  const mt_attr_v1 *axes = mt_ref_attr(call, MT_ATTR_AXES);
  bool keepdims = mt_ref_i64(call, MT_ATTR_KEEPDIMS, 0) != 0;
  int kept = 0, gone = 0;
  uint32_t next = 0;
  for (int i = 0; i < x->rank; i++) {
    if (next < axes->count && axes->value.list[next] == i) {
      s->gone_shape[gone] = x->shape[i];
      s->gone_stride[gone++] = x->stride[i];
      next++;
      continue;
    }
    s->kept_shape[kept] = s->out_shape[kept] = x->shape[i];
    s->kept_stride[kept] = x->stride[i];
    s->out_stride[kept] = call->out.stride[keepdims ? i : kept];
    kept++;
  }
  s->kept = (mt_view){x->dtype, NULL, kept, -1, s->kept_shape, s->kept_stride, x->data};
  s->gone = (mt_view){x->dtype, NULL, gone, -1, s->gone_shape, s->gone_stride, NULL};
  s->out = (mt_view){call->out.dtype, NULL, kept, -1, s->out_shape, s->out_stride, call->out.data};
}

typedef void reduce_fn(const mt_view *line, mt_dtype out_dtype, char *out);

static mt_status reduce(const mt_ref_call *call, reduce_fn *fn) {
  split s;
  split_axes(call, &s);
  const mt_view *views[] = {&s.out, &s.kept};
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      s.gone.data = w.at[1] + i * w.step[1];
      fn(&s.gone, call->out.dtype, w.at[0] + i * w.step[0]);
    }
  }
  return MT_OK;
}

static double sum_floats(const mt_view *line) {
  double sum = 0;
  for (mt_walk w = mt_walk_start(1, &line); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      sum += mt_load_f64(line->dtype, w.at[0] + i * w.step[0]);
    }
  }
  return sum;
}

static void sum_line(const mt_view *line, mt_dtype out_dtype, char *out) {
  if (mt_dtype_is_float(line->dtype)) {
    mt_store_f64(out_dtype, out, sum_floats(line));
    return;
  }
  uint64_t sum = 0;
  for (mt_walk w = mt_walk_start(1, &line); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      sum += (uint64_t)mt_load_i64(line->dtype, w.at[0] + i * w.step[0]);
    }
  }
  mt_store_i64(out_dtype, out, (int64_t)sum);
}

static void mean_line(const mt_view *line, mt_dtype out_dtype, char *out) {
  mt_store_f64(out_dtype, out, sum_floats(line) / (double)mt_view_elements(line));
}

static void max_line(const mt_view *line, mt_dtype out_dtype, char *out) {
  bool floats = mt_dtype_is_float(line->dtype);
  double most = -INFINITY;
  int64_t most_integer = INT64_MIN;
  for (mt_walk w = mt_walk_start(1, &line); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      const char *at = w.at[0] + i * w.step[0];
      if (floats) {
        double x = mt_load_f64(line->dtype, at);
        most = isnan(most) || x <= most ? most : x; /* a NaN is not <= */
      } else {
        int64_t x = mt_load_i64(line->dtype, at);
        most_integer = x > most_integer ? x : most_integer;
      }
    }
  }
  if (floats) {
    mt_store_f64(out_dtype, out, most);
  } else {
    mt_store_i64(out_dtype, out, most_integer);
  }
}

static mt_status sum_reference(const mt_ref_call *call) {
  return reduce(call, sum_line);
}
static mt_status mean_reference(const mt_ref_call *call) {
  return reduce(call, mean_line);
}
static mt_status max_reference(const mt_ref_call *call) {
  return reduce(call, max_line);
}

const mt_op_def mt_op_sum = {"sum", 1, sum_reference};
const mt_op_def mt_op_mean = {"mean", 1, mean_reference};
const mt_op_def mt_op_max = {"max", 1, max_reference};

/* ---- the calls ------------------------------------------------------------------------------ */

typedef struct reduction {
  int64_t list[MT_MAX_RANK]; /* axes, rising */
  size_t count;
  int rank; /* of the result */
  int64_t shape[MT_MAX_RANK];
  bool empty; /* nothing to reduce where there is a result */
} reduction;

static mt_status mark_axes(const char *op, const mt_tensor *x, const int *axes, int count,
                           bool *goes) {
  if (count < 0 || (count > 0 && !axes)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %d axes at %s", op, count,
                   axes ? "a valid address: expected 0 or more" : "NULL");
  }
  for (int i = 0; i < count; i++) {
    int axis;
    MT_TRY(mt_axis_normalize(op, axes[i], x->rank, &axis));
    if (goes[axis]) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: axis %d is named twice", op, axis);
    }
    goes[axis] = true;
  }
  for (int i = 0; count == 0 && i < x->rank; i++) {
    goes[i] = true;
  }
  return MT_OK;
}

static mt_status plan_reduction(const char *op, const mt_tensor *x, const int *axes, int count,
                                bool keepdims, reduction *r) {
  bool goes[MT_MAX_RANK] = {false};
  MT_TRY(mark_axes(op, x, axes, count, goes));
  *r = (reduction){0};
  for (int i = 0; i < x->rank; i++) {
    if (goes[i]) {
      r->list[r->count++] = i;
      r->empty = r->empty || x->shape[i] == 0;
    }
    if (!goes[i] || keepdims) {
      r->shape[r->rank++] = goes[i] ? 1 : x->shape[i];
    }
  }
  return MT_OK;
}

static mt_status run(const mt_op_def *def, mt_runtime *rt, mt_tensor *x, mt_dtype dtype,
                     const reduction *r, int keepdims, mt_tensor **out) {
  mt_op_call call = {.def = def, .in = &x, .in_count = 1};
  mt_op_attr_list(&call, MT_ATTR_AXES, r->list, r->count);
  mt_op_attr_i64(&call, MT_ATTR_KEEPDIMS, keepdims != 0);
  MT_TRY(mt_op_output(def->name, out, dtype, r->rank, r->shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}

static mt_status check(const char *op, mt_runtime *rt, const mt_tensor *x, mt_tensor **out) {
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_require(op, "x", x));
  return mt_op_require(op, "out", out);
}

static mt_status fail_dtype(const char *op, const mt_tensor *x, const char *expected) {
  char text[MT_DESCRIBE_BYTES];
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: x %s: expected %s", op,
                 mt_tensor_describe(x, text, sizeof(text)), expected);
}

mt_status mt_sum(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                 mt_tensor **out) {
  reduction r;
  MT_TRY(check("sum", rt, x, out));
  if (x->dtype == MT_BLOCK) {
    return fail_dtype("sum", x, "no block format");
  }
  MT_TRY(plan_reduction("sum", x, axes, count, keepdims != 0, &r));
  mt_dtype dtype = mt_dtype_is_float(x->dtype) ? x->dtype : MT_I64;
  return run(&mt_op_sum, rt, x, dtype, &r, keepdims, out);
}

mt_status mt_mean(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                  mt_tensor **out) {
  reduction r;
  MT_TRY(check("mean", rt, x, out));
  if (!mt_dtype_is_float(x->dtype)) {
    return fail_dtype("mean", x, "f32, f64, f16 or bf16");
  }
  MT_TRY(plan_reduction("mean", x, axes, count, keepdims != 0, &r));
  return run(&mt_op_mean, rt, x, x->dtype, &r, keepdims, out);
}

mt_status mt_max(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                 mt_tensor **out) {
  reduction r;
  MT_TRY(check("max", rt, x, out));
  if (x->dtype == MT_BLOCK || x->dtype == MT_BOOL) {
    return fail_dtype("max", x, "a number");
  }
  MT_TRY(plan_reduction("max", x, axes, count, keepdims != 0, &r));
  if (r.empty) {
    return fail_dtype("max", x, "at least one element along each reduced axis");
  }
  return run(&mt_op_max, rt, x, x->dtype, &r, keepdims, out);
}
