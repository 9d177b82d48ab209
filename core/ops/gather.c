// SPDX-License-Identifier: Apache-2.0
/* gather: rows of a table by number. */
#include "indices.h"
#include "lines.h"
#include "view.h"

#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

typedef struct picker {
  const mt_view *table;
  mt_walk row;    /* operands: out, table; the axes after the first */
  mt_lines lines; /* of a table in a block format */
  size_t size;
} picker;

static mt_status picker_begin(picker *p, const mt_view *table, const mt_view *out, int lead) {
  p->table = table;
  p->lines.buffer = NULL;
  p->size = mt_dtype_size(table->dtype);
  if (table->format) {
    return mt_lines_begin(&p->lines, table->format, table->shape[1]);
  }
  mt_walk_begin(&p->row, 2);
  for (int axis = 1; axis < table->rank; axis++) {
    int64_t steps[] = {mt_view_step(out, lead + axis - 1), mt_view_step(table, axis)};
    mt_walk_axis(&p->row, table->shape[axis], steps);
  }
  return MT_OK;
}

static void pick(picker *p, char *dst, int64_t index, int64_t last_step) {
  char *src = (char *)p->table->data + index * mt_view_step(p->table, 0);
  if (p->table->format) {
    mt_lines_decode(&p->lines, src, dst, last_step);
    return;
  }
  mt_walk_start(&p->row, (char *const[]){dst, src});
  mt_copy_walk(&p->row, p->size);
}

static mt_status gather_reference(const mt_ref_call *call) {
  const mt_view *table = &call->in[0], *indices = &call->in[1], *out = &call->out;
  int64_t index[MT_LINE], last_step = out->rank > 0 ? mt_view_step(out, out->rank - 1) : 0;
  picker p;
  mt_walk walk; /* operands: out, indices */
  MT_TRY(picker_begin(&p, table, out, indices->rank));
  mt_walk_begin(&walk, 2);
  for (int axis = 0; axis < indices->rank; axis++) {
    int64_t steps[] = {mt_view_step(out, axis), mt_view_step(indices, axis)};
    mt_walk_axis(&walk, indices->shape[axis], steps);
  }
  mt_walk_start(&walk, (char *const[]){out->data, indices->data});
  while (mt_walk_next(&walk)) {
    mt_load_i64(indices->dtype, walk.at[1], walk.stride[1], walk.count, index);
    for (int64_t i = 0; i < walk.count; i++) {
      pick(&p, walk.at[0] + i * walk.stride[0], index[i], last_step);
    }
  }
  mt_lines_end(&p.lines);
  return MT_OK;
}

const mt_op_def mt_op_gather = {"gather", 1, gather_reference, mt_op_gather_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_operands(const mt_tensor *table, const mt_tensor *indices) {
  char text[MT_DESCRIBE_BYTES];
  if (table->rank < 1) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "gather: table %s: expected rank 1 or more",
                   mt_tensor_describe(table, text, sizeof(text)));
  }
  if (table->format && (table->rank != 2 || table->block_axis != 1)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "gather: table %s: expected rank 2 with blocks along axis 1",
                   mt_tensor_describe(table, text, sizeof(text)));
  }
  if (indices->rank + table->rank - 1 > MT_MAX_RANK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "gather: indices of rank %d and a table of rank %d: the result has rank %d, "
                   "at most %d",
                   indices->rank, table->rank, indices->rank + table->rank - 1, MT_MAX_RANK);
  }
  return MT_OK;
}

mt_status mt_gather(mt_runtime *rt, mt_tensor *table, mt_tensor *indices, mt_tensor **out) {
  mt_tensor *const in[] = {table, indices};
  mt_op_call call = {.def = &mt_op_gather, .in = in, .in_count = 2};
  int64_t shape[MT_MAX_RANK];
  MT_TRY(mt_op_require("gather", "rt", rt));
  MT_TRY(mt_op_require("gather", "table", table));
  MT_TRY(mt_op_input("gather", "indices", indices, MT_KIND_INDEX));
  MT_TRY(mt_op_require("gather", "out", out));
  MT_TRY(check_operands(table, indices));
  MT_TRY(mt_indices_check("gather", indices, table->shape[0]));
  int rank = indices->rank + table->rank - 1;
  memcpy(shape, indices->shape, (size_t)indices->rank * sizeof(*shape));
  memcpy(shape + indices->rank, table->shape + 1, (size_t)(table->rank - 1) * sizeof(*shape));
  MT_TRY(
      mt_op_output("gather", out, table->format ? MT_F32 : table->dtype, rank, shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}
