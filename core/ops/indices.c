// SPDX-License-Identifier: Apache-2.0
#include "indices.h"

#include "view.h"

static mt_status outside(const char *op, int64_t index, int64_t position, int64_t rows) {
  return rows > 0 ? mt_fail(MT_ERR_INVALID_ARGUMENT,
                            "%s: index %lld at position %lld: expected 0 .. %lld", op,
                            (long long)index, (long long)position, (long long)(rows - 1))
                  : mt_fail(MT_ERR_INVALID_ARGUMENT,
                            "%s: index %lld at position %lld: the table has no rows", op,
                            (long long)index, (long long)position);
}

mt_status mt_indices_check(const char *op, const mt_tensor *indices, int64_t rows) {
  if (indices->elements == 0) {
    return MT_OK;
  }
  MT_TRY(mt_storage_to_host(indices->storage, false));
  const mt_view view = {.dtype = indices->dtype,
                        .rank = indices->rank,
                        .shape = indices->shape,
                        .stride = indices->stride,
                        .data = (char *)indices->storage->host + indices->byte_offset};
  const mt_view *views[] = {&view};
  int64_t index[MT_LINE], position = 0;
  mt_walk walk;
  mt_walk_views(&walk, views, 1);
  while (mt_walk_next(&walk)) {
    mt_load_i64(view.dtype, walk.at[0], walk.stride[0], walk.count, index);
    for (int64_t i = 0; i < walk.count; i++) {
      if (index[i] < 0 || index[i] >= rows) {
        return outside(op, index[i], position + i, rows);
      }
    }
    position += walk.count;
  }
  return MT_OK;
}
