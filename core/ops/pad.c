// SPDX-License-Identifier: Apache-2.0
/* pad: constant, reflected or repeated elements around a tensor. */
#include "../checked.h"
#include "view.h"

#include <math.h>
#include <mecantensor/nn.h>
#include <stdlib.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

/* Where element `at` of the padded axis comes from; -1: from nowhere. */
static int64_t source(mt_pad_mode mode, int64_t at, int64_t before, int64_t extent) {
  int64_t from = at - before;
  if (from >= 0 && from < extent) {
    return from;
  }
  switch (mode) {
  case MT_PAD_REFLECT: return from < 0 ? -from : 2 * (extent - 1) - from;
  case MT_PAD_REPLICATE: return from < 0 ? 0 : extent - 1;
  case MT_PAD_CONSTANT: break;
  }
  return -1;
}

typedef struct padding {
  const mt_view *in, *out;
  const int64_t *before;
  mt_pad_mode mode;
  size_t size;
  char fill[8];
} padding;

/* The lines along the last axis, of the axes before it. src NULL: all of it is fill. */
static void pad_axis(const padding *p, int axis, char *dst, const char *src) {
  int64_t to = mt_view_step(p->out, axis), from = mt_view_step(p->in, axis);
  for (int64_t i = 0; i < p->out->shape[axis]; i++, dst += to) {
    int64_t at = source(p->mode, i, p->before[axis], p->in->shape[axis]);
    const char *element = src && at >= 0 ? src + at * from : NULL;
    if (axis + 1 < p->out->rank) {
      pad_axis(p, axis + 1, dst, element);
    } else {
      memcpy(dst, element ? element : p->fill, p->size);
    }
  }
}

static mt_status pad_reference(const mt_ref_call *call) {
  double value = mt_ref_f64(call, MT_ATTR_VALUE, 0);
  padding p = {.in = &call->in[0],
               .out = &call->out,
               .before = mt_ref_attr(call, MT_ATTR_BEFORE)->value.list,
               .mode = (mt_pad_mode)mt_ref_i64(call, MT_ATTR_MODE, MT_PAD_CONSTANT),
               .size = mt_dtype_size(call->out.dtype)};
  mt_store_f64(call->out.dtype, &value, 1, p.fill, 0);
  pad_axis(&p, 0, call->out.data, call->in[0].data);
  return MT_OK;
}

const mt_op_def mt_op_pad = {"pad", 1, pad_reference, mt_op_pad_number};

/* ---- validation --------------------------------------------------------------------- */

typedef struct request {
  mt_pad_mode mode;
  double value;
  int64_t before[MT_MAX_RANK]; /* >= 0 */
  int64_t shape[MT_MAX_RANK];
  mt_tensor *x; /* with what is cut off gone */
} request;

static mt_status bad_amount(const mt_tensor *x, int axis, int64_t amount, const char *expected) {
  char text[MT_DESCRIBE_BYTES];
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "pad: x %s: %lld at an end of axis %d: expected %s",
                 mt_tensor_describe(x, text, sizeof(text)), (long long)amount, axis, expected);
}

static mt_status check_amount(const request *r, int axis, int64_t amount) {
  int64_t extent = r->x->shape[axis];
  if (amount < 0 && r->mode != MT_PAD_CONSTANT) {
    return bad_amount(r->x, axis, amount, "0 or more in this mode");
  }
  if (r->mode == MT_PAD_REFLECT && amount > 0 && amount >= extent) {
    return bad_amount(r->x, axis, amount, "less than the extent to reflect");
  }
  if (r->mode == MT_PAD_REPLICATE && amount > 0 && extent == 0) {
    return bad_amount(r->x, axis, amount, "an element to replicate");
  }
  return MT_OK;
}

/* Axis by axis: cuts, then works out the extent. */
static mt_status prepare_axis(request *r, int axis, int64_t before, int64_t after) {
  int64_t extent = r->x->shape[axis], first = before < 0 ? before : 0, last = after < 0 ? after : 0;
  MT_TRY(check_amount(r, axis, before));
  MT_TRY(check_amount(r, axis, after));
  if (first < -extent || last < -extent || -first > extent + last) {
    return bad_amount(r->x, axis, first < last ? first : last, "no more than there is to be cut");
  }
  if (first < 0 || last < 0) {
    mt_tensor *cut = NULL;
    MT_TRY(mt_tensor_slice(r->x, axis, -first, extent + last, 1, &cut));
    mt_tensor_release(&r->x);
    r->x = cut;
  }
  r->before[axis] = before > 0 ? before : 0;
  if (!mt_add_i64(r->x->shape[axis], r->before[axis], &r->shape[axis]) ||
      !mt_add_i64(r->shape[axis], after > 0 ? after : 0, &r->shape[axis])) {
    return bad_amount(r->x, axis, after, "a result that fits in 63 bits");
  }
  return MT_OK;
}

static bool is_same_shape(const request *r) {
  return memcmp(r->shape, r->x->shape, (size_t)r->x->rank * sizeof(*r->shape)) == 0;
}

static mt_status run(mt_runtime *rt, request *r, const int64_t *before, const int64_t *after,
                     mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_pad, .in = &r->x, .in_count = 1};
  for (int axis = 0; axis < r->x->rank; axis++) {
    MT_TRY(prepare_axis(r, axis, before[axis], after[axis]));
  }
  if (is_same_shape(r)) {
    return mt_copy(rt, r->x, out);
  }
  MT_TRY(mt_op_output("pad", out, r->x->dtype, r->x->rank, r->shape, &call.out));
  mt_op_attr_list(&call, MT_ATTR_BEFORE, r->before, (size_t)r->x->rank);
  if (r->mode != MT_PAD_CONSTANT) {
    mt_op_attr_i64(&call, MT_ATTR_MODE, r->mode);
  } else if (r->value != 0 || signbit(r->value)) {
    mt_op_attr_f64(&call, MT_ATTR_VALUE, r->value);
  }
  return mt_op_run(rt, &call, false, out);
}

mt_status mt_pad(mt_runtime *rt, mt_tensor *x, const int64_t *before, const int64_t *after,
                 mt_pad_mode mode, double value, mt_tensor **out) {
  request r = {.mode = mode, .value = value};
  MT_TRY(mt_op_require("pad", "rt", rt));
  MT_TRY(mt_op_input("pad", "x", x, MT_KIND_PLAIN));
  MT_TRY(mt_op_require("pad", "before", x->rank > 0 ? (const void *)before : x));
  MT_TRY(mt_op_require("pad", "after", x->rank > 0 ? (const void *)after : x));
  MT_TRY(mt_op_require("pad", "out", out));
  MT_TRY(mt_op_range("pad", "mode", mode, MT_PAD_CONSTANT, MT_PAD_REPLICATE));
  r.x = mt_tensor_retain(x);
  mt_status status = run(rt, &r, before, after, out);
  mt_tensor_release(&r.x);
  return status;
}
