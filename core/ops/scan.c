// SPDX-License-Identifier: Apache-2.0
/* cumsum: running sums along an axis. */
#include "view.h"

/* ---- reference ---------------------------------------------------------------------- */

typedef struct scan {
  mt_dtype dtype;
  int64_t n, out_step, in_step;
  bool exclusive, reverse;
} scan;

/* A piece is read before it is written: out may be in. */
static void scan_f64(const scan *s, char *out, const char *in) {
  double x[MT_LINE], total = 0;
  for (int64_t at = 0; at < s->n; at += MT_LINE) {
    int64_t n = s->n - at < MT_LINE ? s->n - at : MT_LINE;
    mt_load_f64(s->dtype, in + at * s->in_step, s->in_step, n, x);
    for (int64_t i = 0; i < n; i++) {
      double before = total;
      total += x[i];
      x[i] = s->exclusive ? before : total;
    }
    mt_store_f64(s->dtype, x, n, out + at * s->out_step, s->out_step);
  }
}

static void scan_i64(const scan *s, char *out, const char *in) {
  int64_t x[MT_LINE];
  uint64_t total = 0;
  for (int64_t at = 0; at < s->n; at += MT_LINE) {
    int64_t n = s->n - at < MT_LINE ? s->n - at : MT_LINE;
    mt_load_i64(s->dtype, in + at * s->in_step, s->in_step, n, x);
    for (int64_t i = 0; i < n; i++) {
      uint64_t before = total;
      total += (uint64_t)x[i];
      x[i] = (int64_t)(s->exclusive ? before : total);
    }
    mt_store_i64(s->dtype, x, n, out + at * s->out_step, s->out_step);
  }
}

static mt_status cumsum_reference(const mt_ref_call *call) {
  const mt_view *in = &call->in[0], *out = &call->out, *views[] = {out, in};
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, 0);
  scan s = {in->dtype,
            in->shape[axis],
            mt_view_step(out, axis),
            mt_view_step(in, axis),
            mt_ref_i64(call, MT_ATTR_EXCLUSIVE, 0) != 0,
            mt_ref_i64(call, MT_ATTR_REVERSE, 0) != 0};
  int64_t last = s.n - 1, out_start = s.reverse ? last * s.out_step : 0;
  int64_t in_start = s.reverse ? last * s.in_step : 0;
  if (s.reverse) {
    s.out_step = -s.out_step;
    s.in_step = -s.in_step;
  }
  mt_walk walk;
  mt_walk_lines(&walk, views, 2, axis);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      char *to = walk.at[0] + i * walk.stride[0] + out_start;
      const char *from = walk.at[1] + i * walk.stride[1] + in_start;
      (mt_is_float(s.dtype) ? scan_f64 : scan_i64)(&s, to, from);
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_cumsum = {"cumsum", 1, cumsum_reference, mt_op_cumsum_number};

/* ---- validation --------------------------------------------------------------------- */

mt_status mt_cumsum(mt_runtime *rt, mt_tensor *x, int axis, int exclusive, int reverse,
                    mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_cumsum, .in = &x, .in_count = 1};
  int along;
  MT_TRY(mt_op_require("cumsum", "rt", rt));
  MT_TRY(mt_op_input("cumsum", "x", x, MT_KIND_NUMBER));
  MT_TRY(mt_op_require("cumsum", "out", out));
  MT_TRY(mt_axis_normalize("cumsum", axis, x->rank, &along));
  MT_TRY(mt_op_output("cumsum", out, x->dtype, x->rank, x->shape, &call.out));
  mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
  if (exclusive) {
    mt_op_attr_i64(&call, MT_ATTR_EXCLUSIVE, 1);
  }
  if (reverse) {
    mt_op_attr_i64(&call, MT_ATTR_REVERSE, 1);
  }
  return mt_op_run(rt, &call, true, out);
}
