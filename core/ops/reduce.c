// SPDX-License-Identifier: Apache-2.0
/* sum, mean, max, min over axes. */
#include "view.h"

#include <math.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

typedef enum fold_kind { FOLD_SUM, FOLD_MEAN, FOLD_MAX, FOLD_MIN } fold_kind;

typedef struct reduction {
  mt_walk kept;    /* operands: out, in */
  mt_walk reduced; /* operand: in */
  int64_t count;   /* elements that make one */
} reduction;

static bool is_reduced(const mt_attr_v1 *axes, int axis) {
  for (uint32_t i = 0; axes && i < axes->count; i++) {
    if (axes->value.list[i] == axis) {
      return true;
    }
  }
  return false;
}

static void reduction_begin(reduction *r, const mt_ref_call *call) {
  const mt_view *in = &call->in[0], *out = &call->out;
  const mt_attr_v1 *axes = mt_ref_attr(call, MT_ATTR_AXES);
  bool keepdims = out->rank == in->rank;
  int out_axis = 0;
  mt_walk_begin(&r->kept, 2);
  mt_walk_begin(&r->reduced, 1);
  r->count = 1;
  for (int axis = 0; axis < in->rank; axis++) {
    int64_t step = mt_view_step(in, axis);
    if (is_reduced(axes, axis)) {
      mt_walk_axis(&r->reduced, in->shape[axis], &step);
      r->count *= in->shape[axis];
      out_axis += keepdims;
    } else {
      int64_t steps[] = {mt_view_step(out, out_axis++), step};
      mt_walk_axis(&r->kept, in->shape[axis], steps);
    }
  }
  mt_walk_start(&r->kept, (char *const[]){out->data, in->data});
}

static double step_f64(fold_kind kind, double so_far, double x) {
  switch (kind) {
  case FOLD_SUM:
  case FOLD_MEAN: return so_far + x;
  case FOLD_MAX: return isnan(so_far) || so_far >= x ? so_far : x; /* x when it is NaN */
  case FOLD_MIN: return isnan(so_far) || so_far <= x ? so_far : x;
  }
  return so_far;
}

static int64_t step_i64(fold_kind kind, int64_t so_far, int64_t x) {
  switch (kind) {
  case FOLD_SUM:
  case FOLD_MEAN: return (int64_t)((uint64_t)so_far + (uint64_t)x);
  case FOLD_MAX: return so_far > x ? so_far : x;
  case FOLD_MIN: return so_far < x ? so_far : x;
  }
  return so_far;
}

static double fold_f64(reduction *r, mt_dtype dtype, char *first, fold_kind kind) {
  double x[MT_LINE];
  double total = kind == FOLD_MAX ? -INFINITY : kind == FOLD_MIN ? INFINITY : 0;
  mt_walk *walk = &r->reduced;
  mt_walk_start(walk, &first);
  while (mt_walk_next(walk)) {
    mt_load_f64(dtype, walk->at[0], walk->stride[0], walk->count, x);
    for (int64_t i = 0; i < walk->count; i++) {
      total = step_f64(kind, total, x[i]);
    }
  }
  return kind == FOLD_MEAN ? total / (double)r->count : total;
}

static int64_t fold_i64(reduction *r, mt_dtype dtype, char *first, fold_kind kind) {
  int64_t x[MT_LINE];
  int64_t total = kind == FOLD_MAX ? INT64_MIN : kind == FOLD_MIN ? INT64_MAX : 0;
  mt_walk *walk = &r->reduced;
  mt_walk_start(walk, &first);
  while (mt_walk_next(walk)) {
    mt_load_i64(dtype, walk->at[0], walk->stride[0], walk->count, x);
    for (int64_t i = 0; i < walk->count; i++) {
      total = step_i64(kind, total, x[i]);
    }
  }
  return total;
}

static mt_status reduce(const mt_ref_call *call, fold_kind kind) {
  mt_dtype from = call->in[0].dtype, to = call->out.dtype;
  reduction r;
  reduction_begin(&r, call);
  while (mt_walk_next(&r.kept)) {
    for (int64_t i = 0; i < r.kept.count; i++) {
      char *dst = r.kept.at[0] + i * r.kept.stride[0], *src = r.kept.at[1] + i * r.kept.stride[1];
      if (mt_is_float(from)) {
        double result = fold_f64(&r, from, src, kind);
        mt_store_f64(to, &result, 1, dst, 0);
      } else {
        int64_t result = fold_i64(&r, from, src, kind);
        mt_store_i64(to, &result, 1, dst, 0);
      }
    }
  }
  return MT_OK;
}

static mt_status sum_reference(const mt_ref_call *call) {
  return reduce(call, FOLD_SUM);
}
static mt_status mean_reference(const mt_ref_call *call) {
  return reduce(call, FOLD_MEAN);
}
static mt_status max_reference(const mt_ref_call *call) {
  return reduce(call, FOLD_MAX);
}
static mt_status min_reference(const mt_ref_call *call) {
  return reduce(call, FOLD_MIN);
}

const mt_op_def mt_op_sum = {"sum", 1, sum_reference, mt_op_sum_number};
const mt_op_def mt_op_mean = {"mean", 1, mean_reference, mt_op_mean_number};
const mt_op_def mt_op_max = {"max", 1, max_reference, mt_op_max_number};
const mt_op_def mt_op_min = {"min", 1, min_reference, mt_op_min_number};

/* ---- validation --------------------------------------------------------------------- */

typedef struct request {
  int64_t axes[MT_MAX_RANK]; /* rising */
  size_t count;
  int64_t shape[MT_MAX_RANK]; /* of the result */
  int rank;
  int64_t reduced; /* elements that make one; 0 when an extent is 0 */
} request;

static mt_status mark_axes(const char *op, int rank, const int *axes, int count, bool *reduced) {
  if (count < 0 || (count > 0 && !axes)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %d axes, %s: expected 0 or more", op, count,
                   axes ? "given" : "NULL");
  }
  for (int axis = 0; axis < rank; axis++) {
    reduced[axis] = count == 0;
  }
  for (int i = 0; i < count; i++) {
    int axis;
    MT_TRY(mt_axis_normalize(op, axes[i], rank, &axis));
    if (reduced[axis]) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: axis %d is named twice", op, axis);
    }
    reduced[axis] = true;
  }
  return MT_OK;
}

static void work_out(const mt_tensor *x, const bool *reduced, bool keepdims, request *r) {
  memset(r, 0, sizeof(*r));
  r->reduced = 1;
  for (int axis = 0; axis < x->rank; axis++) {
    if (!reduced[axis]) {
      r->shape[r->rank++] = x->shape[axis];
      continue;
    }
    r->axes[r->count++] = axis;
    r->reduced = x->shape[axis] == 0 ? 0 : r->reduced;
    if (keepdims) {
      r->shape[r->rank++] = 1;
    }
  }
}

static mt_status reduction_run(mt_runtime *rt, mt_op_call *call, mt_tensor *x, mt_dtype dtype,
                               const int *axes, int count, int keepdims, mt_tensor **out) {
  const char *op = call->def->name;
  bool reduced[MT_MAX_RANK];
  request r;
  MT_TRY(mark_axes(op, x->rank, axes, count, reduced));
  work_out(x, reduced, keepdims != 0, &r);
  MT_TRY(mt_op_output(op, out, dtype, r.rank, r.shape, &call->out));
  bool extreme = call->def == &mt_op_max || call->def == &mt_op_min;
  if (extreme && r.reduced == 0 && call->out->elements > 0) {
    char text[MT_DESCRIBE_BYTES];
    mt_op_drop_outputs(call, &out);
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: x %s: the %s of no elements", op,
                   mt_tensor_describe(x, text, sizeof(text)),
                   call->def == &mt_op_max ? "largest" : "smallest");
  }
  mt_op_attr_list(call, MT_ATTR_AXES, r.axes, r.count);
  if (keepdims) {
    mt_op_attr_i64(call, MT_ATTR_KEEPDIMS, 1);
  }
  call->in = &x;
  call->in_count = 1;
  return mt_op_run(rt, call, false, out);
}

static mt_status check_input(const char *op, const mt_runtime *rt, const mt_tensor *x,
                             mt_tensor **out, mt_kind kind) {
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "x", x, kind));
  return mt_op_require(op, "out", out);
}

mt_status mt_sum(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                 mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_sum};
  MT_TRY(check_input("sum", rt, x, out, MT_KIND_PLAIN));
  return reduction_run(rt, &call, x, mt_is_float(x->dtype) ? x->dtype : MT_I64, axes, count,
                       keepdims, out);
}

/* Those whose result has the dtype of x. */
static mt_status same_dtype(mt_runtime *rt, const mt_op_def *def, mt_kind kind, mt_tensor *x,
                            const int *axes, int count, int keepdims, mt_tensor **out) {
  mt_op_call call = {.def = def};
  MT_TRY(check_input(def->name, rt, x, out, kind));
  return reduction_run(rt, &call, x, x->dtype, axes, count, keepdims, out);
}

mt_status mt_mean(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                  mt_tensor **out) {
  return same_dtype(rt, &mt_op_mean, MT_KIND_FLOAT, x, axes, count, keepdims, out);
}

mt_status mt_max(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                 mt_tensor **out) {
  return same_dtype(rt, &mt_op_max, MT_KIND_NUMBER, x, axes, count, keepdims, out);
}

mt_status mt_min(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                 mt_tensor **out) {
  return same_dtype(rt, &mt_op_min, MT_KIND_NUMBER, x, axes, count, keepdims, out);
}
