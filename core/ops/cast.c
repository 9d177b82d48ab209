// SPDX-License-Identifier: Apache-2.0
/* cast: to another dtype; from a block format to f32. */
#include "view.h"

#include "../formats/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reference ------------------------------------------------------------------------- */

/* Truncates toward zero and saturates; NaN gives 0. */
static int64_t to_integer(mt_dtype dtype, double value) {
  static const struct {
    double low, high; /* exact in double; high of i64 is one too many */
  } limits[] = {
      [MT_I8] = {-128, 127},        [MT_U8] = {0, 255},
      [MT_I16] = {-32768, 32767},   [MT_I32] = {-2147483648.0, 2147483647.0},
      [MT_I64] = {-0x1p63, 0x1p63},
  };
  if (isnan(value)) {
    return 0;
  }
  if (value <= limits[dtype].low) {
    return (int64_t)limits[dtype].low;
  }
  if (value >= limits[dtype].high) {
    return dtype == MT_I64 ? INT64_MAX : (int64_t)limits[dtype].high;
  }
  return (int64_t)value;
}

/* An int64 as a double that still rounds right to fewer bits: what does not fit in 53
 * bits leaves its mark in the last one (round to odd). */
static double widen(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (magnitude >> 53) {
    bool cut = (magnitude & 0x7ff) != 0;
    magnitude = (magnitude & ~UINT64_C(0x7ff)) | (cut ? 0x800 : 0);
  }
  return value < 0 ? -(double)magnitude : (double)magnitude;
}

static void cast_element(mt_dtype to, void *out, mt_dtype from, const void *in) {
  if (mt_dtype_is_float(from)) {
    double value = mt_load_f64(from, in);
    if (to == MT_BOOL) {
      mt_store_i64(to, out, value != 0);
    } else if (mt_dtype_is_float(to)) {
      mt_store_f64(to, out, value);
    } else {
      mt_store_i64(to, out, to_integer(to, value));
    }
    return;
  }
  int64_t value = mt_load_i64(from, in);
  if (to == MT_F64) {
    mt_store_f64(to, out, (double)value);
  } else if (mt_dtype_is_float(to)) {
    mt_store_f64(to, out, widen(value));
  } else {
    mt_store_i64(to, out, value);
  }
}

static mt_status decode_lines(const mt_ref_call *call) {
  const mt_view *in = &call->in[0];
  int64_t n = in->shape[in->rank - 1];
  mt_view out_lines = mt_view_leading(&call->out, in->rank - 1);
  mt_view in_lines = mt_view_leading(in, in->rank - 1);
  const mt_view *views[] = {&out_lines, &in_lines};
  int64_t step = call->out.stride[in->rank - 1] * (int64_t)sizeof(float);
  float *line = NULL;
  if (n > 0 && !(line = malloc((size_t)n * sizeof(float)))) {
    return mt_fail_memory((uint64_t)n * sizeof(float), "cast");
  }
  for (mt_walk w = mt_walk_start(2, views); n > 0 && !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      in->format->decode(w.at[1] + i * w.step[1], n, line);
      for (int64_t j = 0; j < n; j++) {
        memcpy(w.at[0] + i * w.step[0] + j * step, &line[j], sizeof(float));
      }
    }
  }
  free(line);
  return MT_OK;
}

static mt_status cast_reference(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0]};
  if (call->in[0].dtype == MT_BLOCK) {
    return decode_lines(call);
  }
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    for (int64_t i = 0; i < w.inner; i++) {
      cast_element(call->out.dtype, w.at[0] + i * w.step[0], call->in[0].dtype,
                   w.at[1] + i * w.step[1]);
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_cast = {"cast", 1, cast_reference};

/* ---- the call ----------------------------------------------------------------------------- */

mt_status mt_cast(mt_runtime *rt, mt_tensor *x, mt_dtype dtype, mt_tensor **out) {
  char text[MT_DESCRIBE_BYTES];
  mt_op_call call = {.def = &mt_op_cast, .in = &x, .in_count = 1};
  MT_TRY(mt_op_require("cast", "rt", rt));
  MT_TRY(mt_op_require("cast", "x", x));
  MT_TRY(mt_op_require("cast", "out", out));
  if (mt_dtype_size(dtype) == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "cast: to dtype %d (%s): expected one with elements (mt_quantize for block "
                   "formats)",
                   (int)dtype, mt_dtype_name(dtype));
  }
  if (x->dtype == MT_BLOCK && dtype != MT_F32) {
    return mt_fail(MT_ERR_UNSUPPORTED, "cast: %s to %s: expected f32",
                   mt_tensor_describe(x, text, sizeof(text)), mt_dtype_name(dtype));
  }
  if (x->dtype == MT_BLOCK && x->block_axis != x->rank - 1) {
    return mt_fail(MT_ERR_UNSUPPORTED, "cast: %s has its blocks along axis %d: expected the last",
                   mt_tensor_describe(x, text, sizeof(text)), x->block_axis);
  }
  MT_TRY(mt_op_output("cast", out, dtype, x->rank, x->shape, &call.out));
  return mt_op_run(rt, &call, x->dtype == dtype, out);
}
