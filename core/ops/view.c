// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include "../formats/format.h"
#include "../half.h"

#include <string.h>

/* ---- walking ------------------------------------------------------------------------ */

/* Blocks: of axes other than the block axis, whose strides are whole blocks. */
static int64_t byte_stride(const mt_view *view, int axis) {
  if (view->dtype == MT_BLOCK) {
    return view->stride[axis] / view->format->block_elements * view->format->block_bytes;
  }
  return view->stride[axis] * (int64_t)mt_dtype_size(view->dtype);
}

mt_walk mt_walk_start(int count, const mt_view *const *views) {
  const mt_view *first = views[0];
  mt_walk walk = {.count = count, .inner = 1, .axes = first->rank > 0 ? first->rank - 1 : 0};
  for (int i = 0; i < first->rank; i++) {
    walk.done = walk.done || first->shape[i] == 0;
  }
  if (first->rank > 0) {
    walk.inner = first->shape[first->rank - 1];
  }
  for (int k = 0; k < count; k++) {
    walk.at[k] = views[k]->data;
    walk.step[k] = first->rank > 0 ? byte_stride(views[k], first->rank - 1) : 0;
    for (int i = 0; i < walk.axes; i++) {
      walk.extent[i] = first->shape[i];
      walk.stride[k][i] = byte_stride(views[k], i);
    }
  }
  return walk;
}

void mt_walk_next(mt_walk *walk) {
  int axis = walk->axes - 1;
  while (axis >= 0 && ++walk->index[axis] == walk->extent[axis]) {
    for (int k = 0; k < walk->count; k++) {
      walk->at[k] -= walk->stride[k][axis] * (walk->extent[axis] - 1);
    }
    walk->index[axis--] = 0;
  }
  walk->done = axis < 0;
  for (int k = 0; axis >= 0 && k < walk->count; k++) {
    walk->at[k] += walk->stride[k][axis];
  }
}

mt_view mt_view_without(const mt_view *view, int axis, int64_t *shape, int64_t *stride) {
  mt_view less = *view;
  int n = 0;
  for (int i = 0; i < view->rank; i++) {
    if (i != axis) {
      shape[n] = view->shape[i];
      stride[n++] = view->stride[i];
    }
  }
  less.rank = n;
  less.shape = shape;
  less.stride = stride;
  return less;
}

mt_view mt_view_leading(const mt_view *view, int rank) {
  mt_view lead = *view;
  lead.rank = rank;
  return lead;
}

mt_view mt_view_trailing(const mt_view *view, int from, void *data) {
  mt_view tail = *view;
  tail.rank = view->rank - from;
  tail.shape = view->shape + from;
  tail.stride = view->stride + from;
  tail.data = data;
  return tail;
}

void mt_view_copy(const mt_view *to, const mt_view *from) {
  const mt_view *views[] = {to, from};
  size_t size = mt_dtype_size(to->dtype);
  for (mt_walk w = mt_walk_start(2, views); !w.done; mt_walk_next(&w)) {
    if (w.step[0] == (int64_t)size && w.step[1] == (int64_t)size) {
      memcpy(w.at[0], w.at[1], (size_t)w.inner * size);
      continue;
    }
    for (int64_t i = 0; i < w.inner; i++) {
      memcpy(w.at[0] + i * w.step[0], w.at[1] + i * w.step[1], size);
    }
  }
}

int64_t mt_view_elements(const mt_view *view) {
  int64_t n = 1;
  for (int i = 0; i < view->rank; i++) {
    n *= view->shape[i];
  }
  return n;
}

/* ---- one element ---------------------------------------------------------------------- */
/* Elements may be unaligned: memcpy. */

bool mt_dtype_is_float(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_F16 || dtype == MT_BF16;
}

#define LOAD(type, at)                                                                             \
  __extension__({                                                                                  \
    type value_;                                                                                   \
    memcpy(&value_, (at), sizeof(value_));                                                         \
    value_;                                                                                        \
  })
#define STORE(type, at, value)                                                                     \
  do {                                                                                             \
    type value_ = (type)(value);                                                                   \
    memcpy((at), &value_, sizeof(value_));                                                         \
  } while (0)

int64_t mt_load_i64(mt_dtype dtype, const void *at) {
  switch (dtype) {
  case MT_I8: return LOAD(int8_t, at);
  case MT_U8: return LOAD(uint8_t, at);
  case MT_BOOL: return LOAD(uint8_t, at) != 0;
  case MT_I16: return LOAD(int16_t, at);
  case MT_I32: return LOAD(int32_t, at);
  case MT_I64: return LOAD(int64_t, at);
  default: return 0;
  }
}

void mt_store_i64(mt_dtype dtype, void *at, int64_t value) {
  switch (dtype) {
  case MT_I8:
  case MT_U8: STORE(uint8_t, at, value); break;
  case MT_BOOL: STORE(uint8_t, at, value != 0); break;
  case MT_I16: STORE(uint16_t, at, value); break;
  case MT_I32: STORE(uint32_t, at, value); break;
  case MT_I64: STORE(int64_t, at, value); break;
  default: break;
  }
}

double mt_load_f64(mt_dtype dtype, const void *at) {
  switch (dtype) {
  case MT_F32: return LOAD(float, at);
  case MT_F64: return LOAD(double, at);
  case MT_F16: return mt_f16_to_f32(LOAD(uint16_t, at));
  case MT_BF16: return mt_bf16_to_f32(LOAD(uint16_t, at));
  default: return (double)mt_load_i64(dtype, at);
  }
}

/* double to float so that a second rounding to 16 bits cannot err: round to odd. */
static float narrow(double value) {
  float near = (float)value;
  if ((double)near == value || value != value || near - near != 0) {
    return near;
  }
  uint32_t bits = mt_f32_bits(near);
  bool away = (near < 0 ? -(double)near : (double)near) > (value < 0 ? -value : value);
  bits -= away; /* truncated; then the last bit says that something was cut */
  return mt_f32_from_bits(bits | 1);
}

void mt_store_f64(mt_dtype dtype, void *at, double value) {
  switch (dtype) {
  case MT_F32: STORE(float, at, value); break;
  case MT_F64: STORE(double, at, value); break;
  case MT_F16: STORE(uint16_t, at, mt_f32_to_f16(narrow(value))); break;
  case MT_BF16: STORE(uint16_t, at, mt_f32_to_bf16(narrow(value))); break;
  default: break;
  }
}

/* ---- lines ------------------------------------------------------------------------------- */

void mt_load_line(mt_dtype dtype, const char *at, int64_t step, int64_t count, double *out) {
  if (dtype == MT_F32) { /* the one that matters for speed */
    for (int64_t i = 0; i < count; i++) {
      out[i] = LOAD(float, at + i * step);
    }
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    out[i] = mt_load_f64(dtype, at + i * step);
  }
}

void mt_store_line(mt_dtype dtype, char *at, int64_t step, int64_t count, const double *in) {
  for (int64_t i = 0; i < count; i++) {
    mt_store_f64(dtype, at + i * step, in[i]);
  }
}
