// SPDX-License-Identifier: Apache-2.0
/* tsi_infuse, tsi_read, tsi_scan: a state that keys and values are infused into. */
#include "dense.h"

#include <mecantensor/nn.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* The gate of row i: one for all rows, or one each. */
static double gate_of(const double *gate, bool per_row, int64_t i) {
  return gate[per_row ? i : 0];
}

static void infuse(double *state, int64_t rows, int64_t cols, const double *gate, bool per_row,
                   const double *k, const double *v) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      double *at = &state[i * cols + j];
      *at = *at * gate_of(gate, per_row, i) + k[i] * v[j];
    }
  }
}

static void read_state(const double *state, int64_t rows, int64_t cols, const double *q,
                       double *y) {
  memset(y, 0, (size_t)cols * sizeof(*y));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      y[j] += q[i] * state[i * cols + j];
    }
  }
}

static int64_t states_of(const mt_view *state) {
  int64_t count = 1;
  for (int i = 0; i < state->rank - 2; i++) {
    count *= state->shape[i];
  }
  return count;
}

static mt_status load_all(mt_dense *dense, const mt_ref_call *call, double **in) {
  dense->count = 0;
  mt_status status = MT_OK;
  for (size_t i = 0; status == MT_OK && i < call->in_count; i++) {
    status = mt_dense_load(dense, &call->in[i], &in[i]);
  }
  return status;
}

static mt_status tsi_infuse_reference(const mt_ref_call *call) {
  const mt_view *state = &call->in[0];
  int64_t rows = state->shape[state->rank - 2], cols = state->shape[state->rank - 1];
  bool per_row = call->in[1].rank == state->rank - 1;
  mt_dense dense;
  double *in[4];
  mt_status status = load_all(&dense, call, in);
  for (int64_t n = 0; status == MT_OK && n < states_of(state); n++) {
    infuse(in[0] + n * rows * cols, rows, cols, in[1] + n * (per_row ? rows : 1), per_row,
           in[2] + n * rows, in[3] + n * cols);
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, in[0]);
  }
  mt_dense_free(&dense);
  return status;
}

static mt_status tsi_read_reference(const mt_ref_call *call) {
  const mt_view *state = &call->in[0];
  int64_t rows = state->shape[state->rank - 2], cols = state->shape[state->rank - 1];
  mt_dense dense;
  double *in[2], *y;
  mt_status status = load_all(&dense, call, in);
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &y) : status;
  for (int64_t n = 0; status == MT_OK && n < states_of(state); n++) {
    read_state(in[0] + n * rows * cols, rows, cols, in[1] + n * rows, y + n * cols);
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, y);
  }
  mt_dense_free(&dense);
  return status;
}

/* The steps of one state, one by one. */
static void scan(double *state, int64_t rows, int64_t cols, int64_t steps, double *const *in,
                 bool per_row, int64_t n, double *y) {
  int64_t gates = per_row ? rows : 1;
  for (int64_t t = n * steps; t < (n + 1) * steps; t++) {
    infuse(state, rows, cols, in[1] + t * gates, per_row, in[3] + t * rows, in[4] + t * cols);
    read_state(state, rows, cols, in[2] + t * rows, y + t * cols);
  }
}

static mt_status tsi_scan_reference(const mt_ref_call *call) {
  const mt_view *state = &call->in[0], *q = &call->in[2];
  int64_t rows = state->shape[state->rank - 2], cols = state->shape[state->rank - 1];
  int64_t steps = q->shape[q->rank - 2];
  bool per_row = call->in[1].rank == q->rank;
  mt_dense dense;
  double *in[5], *y;
  mt_status status = load_all(&dense, call, in);
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &y) : status;
  for (int64_t n = 0; status == MT_OK && n < states_of(state); n++) {
    scan(in[0] + n * rows * cols, rows, cols, steps, in, per_row, n, y);
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, y);
    mt_dense_store(&call->more[0], in[0]);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_tsi_infuse = {"tsi_infuse", 1, tsi_infuse_reference, mt_op_tsi_infuse_number};
const mt_op_def mt_op_tsi_read = {"tsi_read", 1, tsi_read_reference, mt_op_tsi_read_number};
const mt_op_def mt_op_tsi_scan = {"tsi_scan", 1, tsi_scan_reference, mt_op_tsi_scan_number};

/* ---- validation --------------------------------------------------------------------- */

/* What shape an operand has after the leading axes of the state. */
typedef struct tail {
  int count;
  int64_t extent[2];
} tail;

static bool has_shape(const mt_tensor *state, const mt_tensor *tensor, const tail *t) {
  int lead = state->rank - 2;
  return tensor->rank == lead + t->count &&
         (lead == 0 || memcmp(tensor->shape, state->shape, (size_t)lead * sizeof(int64_t)) == 0) &&
         (t->count == 0 ||
          memcmp(tensor->shape + lead, t->extent, (size_t)t->count * sizeof(int64_t)) == 0);
}

static mt_status check(const char *op, const char *name, const mt_tensor *state,
                       const mt_tensor *tensor, tail t) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  int64_t shape[MT_MAX_RANK];
  int lead = state->rank - 2;
  MT_TRY(mt_op_same_dtype(op, "state", state, name, tensor));
  if (has_shape(state, tensor, &t)) {
    return MT_OK;
  }
  memcpy(shape, state->shape, (size_t)lead * sizeof(*shape));
  memcpy(shape + lead, t.extent, (size_t)t.count * sizeof(*shape));
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %s: expected %s%s", op, name,
                 mt_tensor_describe(tensor, given, sizeof(given)), mt_dtype_name(state->dtype),
                 mt_shape_describe(lead + t.count, shape, wanted, sizeof(wanted)));
}

static mt_status check_state(const char *op, const mt_runtime *rt, const mt_tensor *state) {
  MT_TRY(mt_op_require(op, "rt", rt));
  MT_TRY(mt_op_input(op, "state", state, MT_KIND_FLOAT));
  return mt_op_range(op, "rank of state", state->rank, 2, MT_MAX_RANK - 1);
}

/* One a state (after the axes of t), or one a row. */
static mt_status check_gate(const char *op, const mt_tensor *state, const mt_tensor *gate, tail t) {
  MT_TRY(mt_op_same_dtype(op, "state", state, "gate", gate));
  if (has_shape(state, gate, &t)) {
    return MT_OK;
  }
  t.extent[t.count++] = state->shape[state->rank - 2];
  return check(op, "gate", state, gate, t);
}

mt_status mt_tsi_infuse(mt_runtime *rt, mt_tensor *state, mt_tensor *gate, mt_tensor *k,
                        mt_tensor *v, mt_tensor **out) {
  mt_tensor *in[] = {state, gate, k, v};
  mt_op_call call = {
      .def = &mt_op_tsi_infuse, .in = in, .in_count = 4, .only_first_in_place = true};
  MT_TRY(check_state("tsi_infuse", rt, state));
  MT_TRY(mt_op_input("tsi_infuse", "gate", gate, MT_KIND_FLOAT));
  MT_TRY(mt_op_input("tsi_infuse", "k", k, MT_KIND_FLOAT));
  MT_TRY(mt_op_input("tsi_infuse", "v", v, MT_KIND_FLOAT));
  MT_TRY(mt_op_require("tsi_infuse", "out", out));
  const int64_t *s = state->shape + state->rank - 2;
  MT_TRY(check_gate("tsi_infuse", state, gate, (tail){0, {0, 0}}));
  MT_TRY(check("tsi_infuse", "k", state, k, (tail){1, {s[0], 0}}));
  MT_TRY(check("tsi_infuse", "v", state, v, (tail){1, {s[1], 0}}));
  MT_TRY(mt_op_output("tsi_infuse", out, state->dtype, state->rank, state->shape, &call.out));
  return mt_op_run(rt, &call, true, out);
}

mt_status mt_tsi_read(mt_runtime *rt, mt_tensor *state, mt_tensor *q, mt_tensor **out) {
  mt_tensor *in[] = {state, q};
  mt_op_call call = {.def = &mt_op_tsi_read, .in = in, .in_count = 2};
  int64_t shape[MT_MAX_RANK];
  MT_TRY(check_state("tsi_read", rt, state));
  MT_TRY(mt_op_input("tsi_read", "q", q, MT_KIND_FLOAT));
  MT_TRY(mt_op_require("tsi_read", "out", out));
  MT_TRY(check("tsi_read", "q", state, q, (tail){1, {state->shape[state->rank - 2], 0}}));
  memcpy(shape, state->shape, sizeof(shape));
  shape[state->rank - 2] = state->shape[state->rank - 1];
  MT_TRY(mt_op_output("tsi_read", out, state->dtype, state->rank - 1, shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}

static mt_status check_scan(const mt_runtime *rt, const mt_tensor *state, const mt_tensor *gate,
                            const mt_tensor *q, const mt_tensor *k, const mt_tensor *v) {
  static const char op[] = "tsi_scan";
  MT_TRY(check_state(op, rt, state));
  MT_TRY(mt_op_input(op, "gate", gate, MT_KIND_FLOAT));
  MT_TRY(mt_op_input(op, "q", q, MT_KIND_FLOAT));
  MT_TRY(mt_op_input(op, "k", k, MT_KIND_FLOAT));
  MT_TRY(mt_op_input(op, "v", v, MT_KIND_FLOAT));
  const int64_t *s = state->shape + state->rank - 2;
  int64_t steps = q->rank >= 2 ? q->shape[q->rank - 2] : 0;
  MT_TRY(check(op, "q", state, q, (tail){2, {steps, s[0]}}));
  MT_TRY(check(op, "k", state, k, (tail){2, {steps, s[0]}}));
  MT_TRY(check(op, "v", state, v, (tail){2, {steps, s[1]}}));
  return check_gate(op, state, gate, (tail){1, {steps, 0}});
}

mt_status mt_tsi_scan(mt_runtime *rt, mt_tensor *state, mt_tensor *gate, mt_tensor *q, mt_tensor *k,
                      mt_tensor *v, int64_t chunk, mt_tensor **y, mt_tensor **state_out) {
  mt_tensor *in[] = {state, gate, q, k, v}, **outs[] = {y, state_out};
  mt_op_call call = {.def = &mt_op_tsi_scan, .in = in, .in_count = 5};
  MT_TRY(check_scan(rt, state, gate, q, k, v));
  MT_TRY(mt_op_range("tsi_scan", "chunk", chunk, 0, INT64_MAX));
  MT_TRY(mt_op_require("tsi_scan", "y", y));
  MT_TRY(mt_op_require("tsi_scan", "state_out", state_out));
  MT_TRY(mt_op_output("tsi_scan", y, v->dtype, v->rank, v->shape, &call.out));
  call.more_count = 1;
  mt_status status =
      mt_op_output("tsi_scan", state_out, state->dtype, state->rank, state->shape, &call.more[0]);
  if (status != MT_OK) {
    mt_op_drop_outputs(&call, outs);
    return status;
  }
  if (chunk > 0) {
    mt_op_attr_i64(&call, MT_ATTR_CHUNK, chunk);
  }
  return mt_op_run_many(rt, &call, false, outs);
}
