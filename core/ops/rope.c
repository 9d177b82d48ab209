// SPDX-License-Identifier: Apache-2.0
/* rope: rotary position embedding (Su et al. 2021). */
#include "dense.h"

#include <math.h>
#include <mecantensor/nn.h>

/* ---- reference ---------------------------------------------------------------------- */

static void turn(double *x, int64_t i, int64_t j, double angle) {
  double c = cos(angle), s = sin(angle), a = x[i], b = x[j];
  x[i] = a * c - b * s;
  x[j] = a * s + b * c;
}

static void turn_row(double *row, int64_t dims, double position, double base, bool interleaved) {
  for (int64_t i = 0; i < dims / 2; i++) {
    double angle = position * pow(base, -2.0 * (double)i / (double)dims);
    if (interleaved) {
      turn(row, 2 * i, 2 * i + 1, angle);
    } else {
      turn(row, i, i + dims / 2, angle);
    }
  }
}

static mt_status rope_reference(const mt_ref_call *call) {
  const mt_view *in = &call->in[0];
  int64_t width = in->shape[in->rank - 1], rows = 1;
  int64_t dims = mt_ref_i64(call, MT_ATTR_DIMS, width);
  double base = mt_ref_f64(call, MT_ATTR_BASE, 10000), scale = mt_ref_f64(call, MT_ATTR_SCALE, 1);
  bool interleaved = mt_ref_i64(call, MT_ATTR_INTERLEAVED, 0) != 0;
  mt_dense dense = {.count = 0};
  double *x, *position;
  mt_status status = mt_dense_load(&dense, in, &x);
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[1], &position) : status;
  if (mt_ref_i64(call, MT_ATTR_INVERSE, 0)) {
    scale = -scale;
  }
  for (int i = 0; i < in->rank - 1; i++) {
    rows *= in->shape[i];
  }
  for (int64_t row = 0; status == MT_OK && row < rows; row++) {
    turn_row(x + row * width, dims, position[row] * scale, base, interleaved);
  }
  if (status == MT_OK) {
    mt_dense_store(&call->out, x);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_rope = {"rope", 1, rope_reference, mt_op_rope_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_options(mt_rope_options *o, int64_t width) {
  o->dims = o->dims == 0 ? width : o->dims;
  if (o->dims < 0 || o->dims > width || o->dims % 2 != 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "rope: dims %lld: expected an even number up to %lld",
                   (long long)o->dims, (long long)width);
  }
  if (!(o->base > 0) || !isfinite(o->base) || !isfinite(o->scale)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "rope: base %g, scale %g: expected finite numbers, the base above 0", o->base,
                   o->scale);
  }
  return MT_OK;
}

static void set_attributes(mt_op_call *call, const mt_rope_options *o, int64_t width) {
  if (o->dims != width) {
    mt_op_attr_i64(call, MT_ATTR_DIMS, o->dims);
  }
  if (o->base != 10000) {
    mt_op_attr_f64(call, MT_ATTR_BASE, o->base);
  }
  if (o->scale != 1) {
    mt_op_attr_f64(call, MT_ATTR_SCALE, o->scale);
  }
  if (o->interleaved) {
    mt_op_attr_i64(call, MT_ATTR_INTERLEAVED, 1);
  }
  if (o->inverse) {
    mt_op_attr_i64(call, MT_ATTR_INVERSE, 1);
  }
}

mt_status mt_rope(mt_runtime *rt, mt_tensor *x, mt_tensor *positions,
                  const mt_rope_options *options, mt_tensor **out) {
  mt_rope_options o = MT_ROPE_OPTIONS_INIT;
  mt_tensor *in[2] = {x, NULL};
  mt_op_call call = {.def = &mt_op_rope, .in = in, .in_count = 2, .only_first_in_place = true};
  MT_TRY(mt_op_require("rope", "rt", rt));
  MT_TRY(mt_op_input("rope", "x", x, MT_KIND_FLOAT));
  MT_TRY(mt_op_input("rope", "positions", positions, MT_KIND_INDEX));
  MT_TRY(mt_op_require("rope", "out", out));
  MT_TRY(mt_op_options("rope", options, &o, sizeof(o)));
  MT_TRY(mt_op_range("rope", "rank of x", x->rank, 1, MT_MAX_RANK));
  MT_TRY(check_options(&o, x->shape[x->rank - 1]));
  MT_TRY(mt_op_broadcast(positions, x->rank - 1, x->shape, &in[1]));
  mt_status status = mt_op_output("rope", out, x->dtype, x->rank, x->shape, &call.out);
  if (status == MT_OK) {
    set_attributes(&call, &o, x->shape[x->rank - 1]);
    status = mt_op_run(rt, &call, true, out);
  }
  mt_tensor_release(&in[1]);
  return status;
}
