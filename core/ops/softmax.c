// SPDX-License-Identifier: Apache-2.0
/* softmax and its logarithm along an axis. */
#include "view.h"

#include <math.h>

/* ---- reference ---------------------------------------------------------------------- */

typedef struct line {
  mt_dtype dtype;
  int64_t n;
  char *out, *in;
  int64_t out_step, in_step;
  bool log;
} line;

/* Calls visit with each piece of the line, as double. */
static double fold_line(const line *l, double start, double shift,
                        double (*visit)(double so_far, double x, double shift)) {
  double x[MT_LINE], total = start;
  for (int64_t at = 0; at < l->n; at += MT_LINE) {
    int64_t n = l->n - at < MT_LINE ? l->n - at : MT_LINE;
    mt_load_f64(l->dtype, l->in + at * l->in_step, l->in_step, n, x);
    for (int64_t i = 0; i < n; i++) {
      total = visit(total, x[i], shift);
    }
  }
  return total;
}

static double larger(double so_far, double x, double shift) {
  (void)shift;
  return isnan(so_far) || so_far >= x ? so_far : x;
}

static double add_exp(double so_far, double x, double shift) {
  return so_far + exp(x - shift);
}

/* in and out may be the same: a piece is read before it is written. */
static void softmax_line(const line *l) {
  double x[MT_LINE];
  double max = fold_line(l, -INFINITY, 0, larger);
  double sum = fold_line(l, 0, max, add_exp);
  for (int64_t at = 0; at < l->n; at += MT_LINE) {
    int64_t n = l->n - at < MT_LINE ? l->n - at : MT_LINE;
    mt_load_f64(l->dtype, l->in + at * l->in_step, l->in_step, n, x);
    for (int64_t i = 0; i < n; i++) {
      x[i] = l->log ? x[i] - max - log(sum) : exp(x[i] - max) / sum;
    }
    mt_store_f64(l->dtype, x, n, l->out + at * l->out_step, l->out_step);
  }
}

static mt_status run_lines(const mt_ref_call *call, bool logarithm) {
  const mt_view *in = &call->in[0], *out = &call->out, *views[] = {out, in};
  int axis = (int)mt_ref_i64(call, MT_ATTR_AXIS, in->rank - 1);
  line l = {.dtype = in->dtype,
            .n = in->shape[axis],
            .out_step = mt_view_step(out, axis),
            .in_step = mt_view_step(in, axis),
            .log = logarithm};
  mt_walk walk;
  mt_walk_lines(&walk, views, 2, axis);
  while (mt_walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      l.out = walk.at[0] + i * walk.stride[0];
      l.in = walk.at[1] + i * walk.stride[1];
      softmax_line(&l);
    }
  }
  return MT_OK;
}

static mt_status softmax_reference(const mt_ref_call *call) {
  return run_lines(call, false);
}
static mt_status log_softmax_reference(const mt_ref_call *call) {
  return run_lines(call, true);
}

const mt_op_def mt_op_softmax = {"softmax", 1, softmax_reference, mt_op_softmax_number};
const mt_op_def mt_op_log_softmax = {"log_softmax", 1, log_softmax_reference,
                                     mt_op_log_softmax_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status along_axis(mt_runtime *rt, const mt_op_def *def, mt_tensor *x, int axis,
                            mt_tensor **out) {
  mt_op_call call = {.def = def, .in = &x, .in_count = 1};
  int along;
  MT_TRY(mt_op_require(def->name, "rt", rt));
  MT_TRY(mt_op_input(def->name, "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_require(def->name, "out", out));
  MT_TRY(mt_axis_normalize(def->name, axis, x->rank, &along));
  MT_TRY(mt_op_output(def->name, out, x->dtype, x->rank, x->shape, &call.out));
  mt_op_attr_i64(&call, MT_ATTR_AXIS, along);
  return mt_op_run(rt, &call, true, out);
}

mt_status mt_softmax(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out) {
  return along_axis(rt, &mt_op_softmax, x, axis, out);
}

mt_status mt_log_softmax(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out) {
  return along_axis(rt, &mt_op_log_softmax, x, axis, out);
}
