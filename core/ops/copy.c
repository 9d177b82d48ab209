// SPDX-License-Identifier: Apache-2.0
/* copy, contiguous, quantize: the same values in other places or another form. */
#include "view.h"

#include "../formats/format.h"

#include <string.h>

static mt_status copy_lines(const mt_ref_call *call) {
  const mt_view *in = &call->in[0];
  size_t bytes = mt_format_row_bytes(in->format, in->shape[in->rank - 1]);
  mt_view to = mt_view_leading(&call->out, in->rank - 1);
  mt_view from = mt_view_leading(in, in->rank - 1);
  const mt_view *views[] = {&to, &from};
  for (mt_walk w = mt_walk_start(2, views); bytes > 0 && !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      memcpy(w.at[0] + i * w.step[0], w.at[1] + i * w.step[1], bytes);
    }
  }
  return MT_OK;
}

static mt_status copy_reference(const mt_ref_call *call) {
  if (call->in[0].dtype == MT_BLOCK) {
    return copy_lines(call);
  }
  mt_view_copy(&call->out, &call->in[0]);
  return MT_OK;
}

const mt_op_def mt_op_copy = {"copy", 1, copy_reference};

/* mt_op_output for a result in a block format. */
static mt_status block_output(const char *op, const mt_format *format, int rank,
                              const int64_t *shape, mt_tensor **out, mt_tensor **dst) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  mt_layout layout;
  MT_TRY(mt_layout_packed(op, MT_BLOCK, format, rank, shape, &layout));
  if (!*out) {
    return mt_tensor_create_lazy(&layout, dst);
  }
  const mt_tensor *t = *out;
  if (t->format != format || t->rank != rank || t->block_axis != rank - 1 ||
      memcmp(t->shape, shape, (size_t)rank * sizeof(*shape)) != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: out is %s: expected %s%s, blocks along the last axis", op,
                   mt_tensor_describe(t, given, sizeof(given)), format->id,
                   mt_shape_describe(rank, shape, wanted, sizeof(wanted)));
  }
  MT_TRY(mt_tensor_writable(op, *out));
  *dst = *out;
  return MT_OK;
}

mt_status mt_copy(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_op_call call = {.def = &mt_op_copy, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require("copy", "rt", rt));
  MT_TRY(mt_op_require("copy", "x", x));
  MT_TRY(mt_op_require("copy", "out", out));
  if (x->dtype != MT_BLOCK) {
    MT_TRY(mt_op_output("copy", out, x->dtype, x->rank, x->shape, &call.out));
  } else if (x->block_axis != x->rank - 1) {
    return mt_fail(MT_ERR_UNSUPPORTED, "copy: %s has its blocks along axis %d: expected the last",
                   mt_tensor_describe(x, text, sizeof(text)), x->block_axis);
  } else {
    MT_TRY(block_output("copy", x->format, x->rank, x->shape, out, &call.out));
  }
  return mt_op_run(rt, &call, true, out);
}

static mt_status begin_new(const char *op, mt_runtime *rt, const mt_tensor *x, mt_tensor **out) {
  MT_TRY(mt_op_require(op, "out", out));
  *out = NULL;
  MT_TRY(mt_op_require(op, "rt", rt));
  return mt_op_require(op, "x", x);
}

mt_status mt_contiguous(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  MT_TRY(begin_new("contiguous", rt, x, out));
  if (x->contiguous) {
    *out = mt_tensor_retain(x);
    return MT_OK;
  }
  return mt_copy(rt, x, out);
}

/* ---- quantize ---------------------------------------------------------------------------- */

static mt_status encode_lines(mt_tensor *packed, mt_tensor *to) {
  const void *src;
  void *dst;
  int64_t n = packed->shape[packed->rank - 1];
  if (packed->elements == 0) {
    return MT_OK;
  }
  MT_TRY(mt_tensor_read(packed, &src));
  MT_TRY(mt_tensor_write(to, &dst));
  size_t bytes = mt_format_row_bytes(to->format, n);
  for (int64_t line = 0; line < packed->elements / n; line++) {
    const float *from = (const float *)src + line * n;
    mt_status status = to->format->encode(from, n, (char *)dst + (size_t)line * bytes);
    if (status != MT_OK) {
      return mt_fail_prefix(status, "quantize: line %lld", (long long)line);
    }
  }
  return MT_OK;
}

mt_status mt_quantize(mt_runtime *rt, mt_tensor *x, const mt_format *format, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_layout layout;
  mt_tensor *packed = NULL, *encoded = NULL;
  MT_TRY(begin_new("quantize", rt, x, out));
  MT_TRY(mt_op_require("quantize", "format", format));
  if (x->dtype != MT_F32) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "quantize: x %s: expected f32",
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  MT_TRY(mt_layout_packed("quantize", MT_BLOCK, format, x->rank, x->shape, &layout));
  MT_TRY(mt_contiguous(rt, x, &packed));
  mt_status status = mt_tensor_create_lazy(&layout, &encoded);
  if (status == MT_OK) {
    status = encode_lines(packed, encoded);
  }
  mt_tensor_release(&packed);
  if (status != MT_OK) {
    mt_tensor_release(&encoded);
    return status;
  }
  *out = encoded;
  return MT_OK;
}
