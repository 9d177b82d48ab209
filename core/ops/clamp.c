// SPDX-License-Identifier: Apache-2.0
/* clamp: numbers into an interval. */
#include "view.h"

#include <math.h>

/* ---- reference ---------------------------------------------------------------------- */

static void clamp_f64(const mt_ref_call *call, mt_walk *walk) {
  double lo = mt_ref_f64(call, MT_ATTR_MIN, -INFINITY),
         hi = mt_ref_f64(call, MT_ATTR_MAX, INFINITY);
  double x[MT_LINE];
  while (mt_walk_next(walk)) {
    mt_load_f64(call->in[0].dtype, walk->at[1], walk->stride[1], walk->count, x);
    for (int64_t i = 0; i < walk->count; i++) {
      x[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];
    }
    mt_store_f64(call->out.dtype, x, walk->count, walk->at[0], walk->stride[0]);
  }
}

static void clamp_i64(const mt_ref_call *call, mt_walk *walk) {
  int64_t lo = mt_ref_i64(call, MT_ATTR_MIN, INT64_MIN),
          hi = mt_ref_i64(call, MT_ATTR_MAX, INT64_MAX);
  int64_t x[MT_LINE];
  while (mt_walk_next(walk)) {
    mt_load_i64(call->in[0].dtype, walk->at[1], walk->stride[1], walk->count, x);
    for (int64_t i = 0; i < walk->count; i++) {
      x[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];
    }
    mt_store_i64(call->out.dtype, x, walk->count, walk->at[0], walk->stride[0]);
  }
}

static mt_status clamp_reference(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  mt_walk walk;
  mt_walk_views(&walk, views, 2);
  if (mt_is_float(call->out.dtype)) {
    clamp_f64(call, &walk);
  } else {
    clamp_i64(call, &walk);
  }
  return MT_OK;
}

const mt_op_def mt_op_clamp = {"clamp", 1, clamp_reference, mt_op_clamp_number};

/* ---- validation --------------------------------------------------------------------- */

/* The bound as a number of the dtype, so that every backend compares with the same. */
static double rounded(mt_dtype dtype, double bound) {
  char bytes[8];
  double back;
  mt_store_f64(dtype, &bound, 1, bytes, 0);
  mt_load_f64(dtype, bytes, 0, 1, &back);
  return back;
}

/* Integers: the bound as int64, which the store saturates to the dtype. */
static int64_t saturated(mt_dtype dtype, double bound) {
  char bytes[8];
  int64_t back;
  mt_store_f64(dtype, &bound, 1, bytes, 0);
  mt_load_i64(dtype, bytes, 0, 1, &back);
  return back;
}

static void set_bounds(mt_op_call *call, mt_dtype dtype, double lo, double hi) {
  bool floats = mt_is_float(dtype);
  if (floats && lo > (double)-INFINITY) {
    mt_op_attr_f64(call, MT_ATTR_MIN, rounded(dtype, lo));
  } else if (!floats && lo > (double)-INFINITY) {
    mt_op_attr_i64(call, MT_ATTR_MIN, saturated(dtype, ceil(lo)));
  }
  if (floats && hi < (double)INFINITY) {
    mt_op_attr_f64(call, MT_ATTR_MAX, rounded(dtype, hi));
  } else if (!floats && hi < (double)INFINITY) {
    mt_op_attr_i64(call, MT_ATTR_MAX, saturated(dtype, floor(hi)));
  }
}

mt_status mt_clamp(mt_runtime *rt, mt_tensor *x, double lo, double hi, mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_clamp, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require("clamp", "rt", rt));
  MT_TRY(mt_op_input("clamp", "x", x, MT_KIND_NUMBER));
  MT_TRY(mt_op_require("clamp", "out", out));
  bool empty = mt_is_float(x->dtype) ? !(lo <= hi) : !(ceil(lo) <= floor(hi));
  if (empty) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "clamp: no %s lies between %g and %g: expected lo <= hi",
                   mt_dtype_name(x->dtype), lo, hi);
  }
  set_bounds(&call, x->dtype, lo, hi);
  MT_TRY(mt_op_output("clamp", out, x->dtype, x->rank, x->shape, &call.out));
  return mt_op_run(rt, &call, true, out);
}
