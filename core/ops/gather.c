// SPDX-License-Identifier: Apache-2.0
/* gather: rows of a table by number. */
#include "view.h"

#include "../formats/format.h"

#include <stdlib.h>
#include <string.h>

/* ---- reference ------------------------------------------------------------------------- */

static mt_status decode_row(const mt_view *table, int64_t row, const mt_view *to) {
  int64_t n = table->shape[1];
  int64_t step = table->stride[0] / table->format->block_elements * table->format->block_bytes;
  float *line = malloc((size_t)(n > 0 ? n : 1) * sizeof(float));
  if (!line) {
    return mt_fail_memory((uint64_t)n * sizeof(float), "gather");
  }
  if (n > 0) {
    table->format->decode((char *)table->data + row * step, n, line);
  }
  int64_t packed = 1;
  mt_view from = {MT_F32, NULL, 1, -1, &n, &packed, line};
  mt_view_copy(to, &from);
  free(line);
  return MT_OK;
}

static mt_status copy_row(const mt_ref_call *call, int64_t row, char *out, int index_rank) {
  const mt_view *table = &call->in[0];
  mt_view to = mt_view_trailing(&call->out, index_rank, out);
  if (table->dtype == MT_BLOCK) {
    return decode_row(table, row, &to);
  }
  int64_t step = table->stride[0] * (int64_t)mt_dtype_size(table->dtype);
  mt_view from = mt_view_trailing(table, 1, (char *)table->data + row * step);
  mt_view_copy(&to, &from);
  return MT_OK;
}

static mt_status gather_reference(const mt_ref_call *call) {
  const mt_view *indices = &call->in[1];
  mt_view out = mt_view_leading(&call->out, indices->rank);
  const mt_view *views[] = {&out, indices};
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      int64_t row = mt_load_i64(indices->dtype, w.at[1] + i * w.step[1]);
      MT_TRY(copy_row(call, row, w.at[0] + i * w.step[0], indices->rank));
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_gather = {"gather", 1, gather_reference};

/* ---- the call ----------------------------------------------------------------------------- */

static mt_status check_indices(const mt_tensor *indices, int64_t rows) {
  const void *data;
  MT_TRY(mt_tensor_read(indices, &data));
  mt_view view = {indices->dtype,  NULL,        indices->rank, -1, indices->shape,
                  indices->stride, (void *)data};
  const mt_view *views[] = {&view};
  int64_t position = 0;
  for (mt_walk w = mt_walk_start(1, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++, position++) {
      int64_t row = mt_load_i64(indices->dtype, w.at[0] + i * w.step[0]);
      if (row < 0 || row >= rows) {
        return mt_fail(MT_ERR_INVALID_ARGUMENT,
                       "gather: index %lld at position %lld: expected 0 .. %lld", (long long)row,
                       (long long)position, (long long)rows - 1);
      }
    }
  }
  return MT_OK;
}

static mt_status check_operands(const mt_tensor *table, const mt_tensor *indices) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  mt_tensor_describe(table, left, sizeof(left));
  mt_tensor_describe(indices, right, sizeof(right));
  if (indices->dtype != MT_I32 && indices->dtype != MT_I64) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "gather: indices %s: expected i32 or i64", right);
  }
  if (table->rank < 1 || table->rank - 1 + indices->rank > MT_MAX_RANK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "gather: table %s and indices %s: expected a table of rank 1 or more and a "
                   "result of rank %d at most",
                   left, right, MT_MAX_RANK);
  }
  if (table->dtype == MT_BLOCK && (table->rank != 2 || table->block_axis != 1)) {
    return mt_fail(MT_ERR_UNSUPPORTED, "gather: table %s: expected rank 2 with blocks along axis 1",
                   left);
  }
  return check_indices(indices, table->shape[0]);
}

mt_status mt_gather(mt_runtime *rt, mt_tensor *table, mt_tensor *indices, mt_tensor **out) {
  mt_tensor *in[] = {table, indices};
  mt_op_call call = {.def = &mt_op_gather, .in = in, .in_count = 2};
  int64_t shape[MT_MAX_RANK];
  MT_TRY(mt_op_require("gather", "rt", rt));
  MT_TRY(mt_op_require("gather", "table", table));
  MT_TRY(mt_op_require("gather", "indices", indices));
  MT_TRY(mt_op_require("gather", "out", out));
  MT_TRY(check_operands(table, indices));
  int rank = indices->rank + table->rank - 1;
  memcpy(shape, indices->shape, (size_t)indices->rank * sizeof(*shape));
  memcpy(shape + indices->rank, table->shape + 1, (size_t)(table->rank - 1) * sizeof(*shape));
  mt_dtype dtype = table->dtype == MT_BLOCK ? MT_F32 : table->dtype;
  MT_TRY(mt_op_output("gather", out, dtype, rank, shape, &call.out));
  return mt_op_run(rt, &call, false, out);
}
