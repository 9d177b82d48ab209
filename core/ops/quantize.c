// SPDX-License-Identifier: Apache-2.0
/* quantize: f32 to a block format, on the host (the encoders are the core's). */
#include "../formats/format.h"
#include "view.h"

#include <stdlib.h>

/* Encodes the lines of x, which all lie one behind the other in dst. */
static mt_status encode_lines(const mt_view *x, const mt_format *format, char *dst) {
  int last = x->rank - 1;
  int64_t n = x->shape[last], line = 0;
  float *row = malloc((size_t)n * sizeof(*row));
  if (!row) {
    return mt_fail_memory((unsigned long long)n * sizeof(*row), "a line to quantize");
  }
  mt_walk walk;
  mt_walk_begin(&walk, 1);
  for (int axis = 0; axis < last; axis++) {
    int64_t step = mt_view_step(x, axis);
    mt_walk_axis(&walk, x->shape[axis], &step);
  }
  mt_walk_start(&walk, (char *const[]){x->data});
  mt_status status = MT_OK;
  while (status == MT_OK && mt_walk_next(&walk)) {
    for (int64_t i = 0; status == MT_OK && i < walk.count; i++) {
      mt_copy_units(sizeof(*row), walk.at[0] + i * walk.stride[0], mt_view_step(x, last), n,
                    (char *)row, sizeof(*row));
      status = format->encode(row, n, dst);
      if (status != MT_OK) {
        status = mt_fail_prefix(status, "quantize: line %lld", (long long)line);
      }
      dst += mt_format_row_bytes(format, n);
      line++;
    }
  }
  free(row);
  return status;
}

mt_status mt_quantize(mt_runtime *rt, mt_tensor *x, const mt_format *format, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_tensor *blocks = NULL;
  MT_TRY(mt_op_require("quantize", "rt", rt));
  MT_TRY(mt_op_require("quantize", "x", x));
  MT_TRY(mt_op_require("quantize", "format", format));
  MT_TRY(mt_op_require("quantize", "out", out));
  *out = NULL;
  if (x->dtype != MT_F32 || x->rank < 1) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "quantize: x %s: expected f32 of rank 1 or more",
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  MT_TRY(mt_tensor_create_block(format, x->rank, x->shape, &blocks));
  mt_status status = mt_storage_to_host(x->storage, false);
  if (status == MT_OK && x->elements > 0) {
    mt_view view = {.dtype = MT_F32, .rank = x->rank, .shape = x->shape, .stride = x->stride};
    view.data = (char *)x->storage->host + x->byte_offset;
    status = encode_lines(&view, format, blocks->storage->host);
  }
  if (status != MT_OK) {
    mt_tensor_release(&blocks);
    return status;
  }
  *out = blocks;
  return MT_OK;
}
