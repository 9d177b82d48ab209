// SPDX-License-Identifier: Apache-2.0
/* scatter_add: rows added to those of a table by number; what gather's gradient is. */
#include "indices.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* The table while it is summed up: double or int64, so that it is rounded once. */
typedef struct sums {
  bool floats;
  int64_t row; /* elements of a row */
  char *cells; /* 8 bytes each */
} sums;

static void load(const sums *s, mt_dtype dtype, const char *src, int64_t step, int64_t n,
                 char *dst) {
  if (s->floats) {
    mt_load_f64(dtype, src, step, n, (double *)dst);
  } else {
    mt_load_i64(dtype, src, step, n, (int64_t *)dst);
  }
}

static void add(const sums *s, const char *src, int64_t n, char *dst) {
  for (int64_t i = 0; i < n; i++) {
    if (s->floats) {
      ((double *)dst)[i] += ((const double *)src)[i];
    } else {
      uint64_t *sum = (uint64_t *)dst + i;
      *sum += ((const uint64_t *)src)[i];
    }
  }
}

/* All of x, row-major, into the cells; and back. */
static void load_all(const sums *s, const mt_view *x) {
  const mt_view *views[] = {x};
  mt_walk walk;
  char *at = s->cells;
  mt_walk_views(&walk, views, 1);
  while (mt_walk_next(&walk)) {
    load(s, x->dtype, walk.at[0], walk.stride[0], walk.count, at);
    at += 8 * walk.count;
  }
}

static void store_all(const sums *s, const mt_view *out) {
  const mt_view *views[] = {out};
  mt_walk walk;
  const char *at = s->cells;
  mt_walk_views(&walk, views, 1);
  while (mt_walk_next(&walk)) {
    if (s->floats) {
      mt_store_f64(out->dtype, (const double *)at, walk.count, walk.at[0], walk.stride[0]);
    } else {
      mt_store_i64(out->dtype, (const int64_t *)at, walk.count, walk.at[0], walk.stride[0]);
    }
    at += 8 * walk.count;
  }
}

/* Adds the row of updates that starts at src. */
static void add_row(const sums *s, mt_walk *row, mt_dtype dtype, char *src, int64_t index) {
  double piece[MT_LINE];
  char *at = s->cells + index * s->row * 8;
  mt_walk_start(row, &src);
  while (mt_walk_next(row)) {
    load(s, dtype, row->at[0], row->stride[0], row->count, (char *)piece);
    add(s, (const char *)piece, row->count, at);
    at += 8 * row->count;
  }
}

static void add_updates(const sums *s, const mt_view *indices, const mt_view *updates) {
  int64_t index[MT_LINE];
  mt_walk walk, row;
  mt_walk_begin(&row, 1);
  for (int axis = indices->rank; axis < updates->rank; axis++) {
    int64_t step = mt_view_step(updates, axis);
    mt_walk_axis(&row, updates->shape[axis], &step);
  }
  mt_walk_begin(&walk, 2);
  for (int axis = 0; axis < indices->rank; axis++) {
    int64_t steps[] = {mt_view_step(updates, axis), mt_view_step(indices, axis)};
    mt_walk_axis(&walk, indices->shape[axis], steps);
  }
  mt_walk_start(&walk, (char *const[]){updates->data, indices->data});
  while (mt_walk_next(&walk)) {
    mt_load_i64(indices->dtype, walk.at[1], walk.stride[1], walk.count, index);
    for (int64_t i = 0; i < walk.count; i++) {
      add_row(s, &row, updates->dtype, walk.at[0] + i * walk.stride[0], index[i]);
    }
  }
}

static mt_status scatter_add_reference(const mt_ref_call *call) {
  const mt_view *x = &call->in[0], *out = &call->out;
  sums s = {.floats = mt_is_float(x->dtype), .row = 1};
  for (int axis = 1; axis < x->rank; axis++) {
    s.row *= x->shape[axis];
  }
  s.cells = calloc((size_t)(s.row * x->shape[0]), 8);
  if (!s.cells) {
    return mt_fail_memory((unsigned long long)(s.row * x->shape[0]) * 8, "sums");
  }
  load_all(&s, x);
  add_updates(&s, &call->in[1], &call->in[2]);
  store_all(&s, out);
  free(s.cells);
  return MT_OK;
}

const mt_op_def mt_op_scatter_add = {"scatter_add", 1, scatter_add_reference,
                                     mt_op_scatter_add_number};

/* ---- validation --------------------------------------------------------------------- */

/* updates: indices.shape + x.shape[1:] */
static mt_status check_updates(const mt_tensor *x, const mt_tensor *indices,
                               const mt_tensor *updates) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  int64_t shape[MT_MAX_RANK];
  int rank = indices->rank + x->rank - 1;
  if (x->rank < 1 || rank > MT_MAX_RANK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "scatter_add: x %s and indices of rank %d: expected x of rank 1 or more, and "
                   "updates of at most rank %d",
                   mt_tensor_describe(x, given, sizeof(given)), indices->rank, MT_MAX_RANK);
  }
  memcpy(shape, indices->shape, (size_t)indices->rank * sizeof(*shape));
  memcpy(shape + indices->rank, x->shape + 1, (size_t)(x->rank - 1) * sizeof(*shape));
  if (updates->rank != rank || memcmp(updates->shape, shape, (size_t)rank * sizeof(*shape)) != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "scatter_add: updates %s: expected %s%s",
                   mt_tensor_describe(updates, given, sizeof(given)), mt_dtype_name(x->dtype),
                   mt_shape_describe(rank, shape, wanted, sizeof(wanted)));
  }
  return MT_OK;
}

mt_status mt_scatter_add(mt_runtime *rt, mt_tensor *x, mt_tensor *indices, mt_tensor *updates,
                         mt_tensor **out) {
  mt_tensor *const in[] = {x, indices, updates};
  mt_op_call call = {.def = &mt_op_scatter_add, .in = in, .in_count = 3};
  MT_TRY(mt_op_require("scatter_add", "rt", rt));
  MT_TRY(mt_op_input("scatter_add", "x", x, MT_KIND_NUMBER));
  MT_TRY(mt_op_input("scatter_add", "indices", indices, MT_KIND_INDEX));
  MT_TRY(mt_op_input("scatter_add", "updates", updates, MT_KIND_NUMBER));
  MT_TRY(mt_op_same_dtype("scatter_add", "x", x, "updates", updates));
  MT_TRY(mt_op_require("scatter_add", "out", out));
  MT_TRY(check_updates(x, indices, updates));
  MT_TRY(mt_indices_check("scatter_add", indices, x->shape[0]));
  MT_TRY(mt_op_output("scatter_add", out, x->dtype, x->rank, x->shape, &call.out));
  call.only_first_in_place = true;
  return mt_op_run(rt, &call, true, out);
}
