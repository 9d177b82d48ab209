// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include "../checked.h"
#include "../formats/format.h"
#include "../half.h"

#include <math.h>
#include <string.h>

/* ---- walking ------------------------------------------------------------------------ */

/* An axis of one element may have any stride; that product may wrap and is never used. */
int64_t mt_view_step(const mt_view *view, int axis) {
  if (view->format) {
    int64_t blocks =
        axis == view->block_axis ? 1 : view->stride[axis] / view->format->block_elements;
    return (int64_t)((uint64_t)blocks * view->format->block_bytes);
  }
  return (int64_t)((uint64_t)view->stride[axis] * mt_dtype_size(view->dtype));
}

void mt_walk_begin(mt_walk *walk, int operands) {
  walk->operands = operands;
  walk->rank = 0;
  walk->empty = false;
}

/* Does the axis before step over `extent` elements of this one, in every operand? */
static bool follows(const mt_walk *walk, int64_t extent, const int64_t *steps) {
  const int64_t *outer = walk->step[walk->rank - 1];
  for (int i = 0; i < walk->operands; i++) {
    int64_t reach;
    if (!mt_mul_i64(extent, steps[i], &reach) || reach != outer[i]) {
      return false;
    }
  }
  return true;
}

void mt_walk_axis(mt_walk *walk, int64_t extent, const int64_t *steps) {
  walk->empty = walk->empty || extent == 0;
  if (extent == 1 || walk->empty) {
    return;
  }
  int64_t merged = extent;
  bool merge = walk->rank > 0 && follows(walk, extent, steps) &&
               mt_mul_i64(extent, walk->extent[walk->rank - 1], &merged);
  walk->rank += !merge;
  walk->extent[walk->rank - 1] = merged;
  memcpy(walk->step[walk->rank - 1], steps, (size_t)walk->operands * sizeof(*steps));
}

void mt_walk_start(mt_walk *walk, char *const *data) {
  if (walk->rank == 0) { /* one element */
    walk->rank = 1;
    walk->extent[0] = 1;
    memset(walk->step[0], 0, sizeof(walk->step[0]));
  }
  memset(walk->index, 0, sizeof(walk->index));
  memset(walk->offset, 0, sizeof(walk->offset));
  memcpy(walk->base, data, (size_t)walk->operands * sizeof(*data));
  memcpy(walk->stride, walk->step[walk->rank - 1], (size_t)walk->operands * sizeof(int64_t));
  walk->done = 0;
}

void mt_walk_views(mt_walk *walk, const mt_view *const *views, int operands) {
  char *data[MT_WALK_OPERANDS];
  mt_walk_begin(walk, operands);
  for (int axis = 0; axis < views[0]->rank; axis++) {
    int64_t steps[MT_WALK_OPERANDS];
    for (int i = 0; i < operands; i++) {
      steps[i] = mt_view_step(views[i], axis);
    }
    mt_walk_axis(walk, views[0]->shape[axis], steps);
  }
  for (int i = 0; i < operands; i++) {
    data[i] = views[i]->data;
  }
  mt_walk_start(walk, data);
}

void mt_walk_lines(mt_walk *walk, const mt_view *const *views, int operands, int axis) {
  const mt_view *whole = views[operands - 1];
  char *data[MT_WALK_OPERANDS];
  mt_walk_begin(walk, operands);
  for (int i = 0; i < whole->rank; i++) {
    int64_t steps[MT_WALK_OPERANDS];
    for (int o = 0; o < operands; o++) {
      bool lacks = views[o]->rank < whole->rank;
      steps[o] = i == axis ? 0 : mt_view_step(views[o], lacks && i > axis ? i - 1 : i);
    }
    if (i != axis) {
      mt_walk_axis(walk, whole->shape[i], steps);
    }
  }
  for (int o = 0; o < operands; o++) {
    data[o] = views[o]->data;
  }
  mt_walk_start(walk, data);
}

/* The outer axes, like the digits of an odometer; false when it turns over. */
static bool next_row(mt_walk *walk) {
  for (int axis = walk->rank - 2; axis >= 0; axis--) {
    bool turns = ++walk->index[axis] == walk->extent[axis];
    for (int i = 0; i < walk->operands; i++) {
      walk->offset[i] +=
          turns ? -walk->step[axis][i] * (walk->extent[axis] - 1) : walk->step[axis][i];
    }
    if (!turns) {
      return true;
    }
    walk->index[axis] = 0;
  }
  return false;
}

bool mt_walk_next(mt_walk *walk) {
  int64_t row = walk->extent[walk->rank - 1];
  if (walk->empty) {
    return false;
  }
  if (walk->done == row) {
    if (!next_row(walk)) {
      return false;
    }
    walk->done = 0;
  }
  walk->count = row - walk->done < MT_LINE ? row - walk->done : MT_LINE;
  for (int i = 0; i < walk->operands; i++) {
    walk->at[i] = walk->base[i] + walk->offset[i] + walk->done * walk->stride[i];
  }
  walk->done += walk->count;
  return true;
}

/* ---- conversions of one element ----------------------------------------------------- */

/* The f32 nearest to x toward zero, with its last bit set when that is not x. A second
 * rounding, to at most 22 bits, then has the same result as one rounding of x. */
static inline float to_odd_f32(double x) {
  float nearest = (float)x;
  if ((double)nearest == x || isnan(x)) {
    return nearest;
  }
  uint32_t bits = mt_f32_bits(nearest);
  bool away = fabs((double)nearest) > fabs(x);
  return mt_f32_from_bits((bits - (away ? 1 : 0)) | 1u);
}

/* A double as good as x for rounding to f16 or bf16: what does not fit is in its last bit. */
static inline double to_odd_f64(int64_t x) {
  uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, tail = 0x7ff;
  if (magnitude >> 53) {
    magnitude = (magnitude & ~tail) | ((magnitude & tail) ? tail + 1 : 0);
  }
  return x < 0 ? -(double)magnitude : (double)magnitude;
}

static inline uint16_t f64_to_f16(double x) {
  return mt_f32_to_f16(to_odd_f32(x));
}
static inline uint16_t f64_to_bf16(double x) {
  return mt_f32_to_bf16(to_odd_f32(x));
}
static inline uint16_t i64_to_f16(int64_t x) {
  return f64_to_f16(to_odd_f64(x));
}
static inline uint16_t i64_to_bf16(int64_t x) {
  return f64_to_bf16(to_odd_f64(x));
}
static inline double f16_to_f64(uint16_t x) {
  return (double)mt_f16_to_f32(x);
}
static inline double bf16_to_f64(uint16_t x) {
  return (double)mt_bf16_to_f32(x);
}

static inline int64_t saturate(double x, int64_t lo, int64_t hi) {
  if (isnan(x)) {
    return 0;
  }
  return x <= (double)lo ? lo : x >= (double)hi ? hi : (int64_t)x;
}
static inline int8_t f64_to_i8(double x) {
  return (int8_t)saturate(x, INT8_MIN, INT8_MAX);
}
static inline uint8_t f64_to_u8(double x) {
  return (uint8_t)saturate(x, 0, UINT8_MAX);
}
static inline int16_t f64_to_i16(double x) {
  return (int16_t)saturate(x, INT16_MIN, INT16_MAX);
}
static inline int32_t f64_to_i32(double x) {
  return (int32_t)saturate(x, INT32_MIN, INT32_MAX);
}
static inline int64_t f64_to_i64(double x) {
  return saturate(x, INT64_MIN, INT64_MAX); /* (double)INT64_MAX is 2^63: saturates */
}
static inline uint8_t f64_to_bool(double x) {
  return x != 0;
}
static inline uint8_t i64_to_bool(int64_t x) {
  return x != 0;
}

/* ---- lines -------------------------------------------------------------------------- */

/* Elements go through memcpy: any alignment. convert may be a cast in parentheses. */
#define LOAD_LINE(name, type, value, convert)                                                      \
  static void name(const char *src, int64_t step, int64_t n, value *dst) {                         \
    for (int64_t i = 0; i < n; i++) {                                                              \
      type x;                                                                                      \
      memcpy(&x, src + i * step, sizeof(x));                                                       \
      dst[i] = convert(x);                                                                         \
    }                                                                                              \
  }

#define STORE_LINE(name, value, type, convert)                                                     \
  static void name(const value *src, int64_t n, char *dst, int64_t step) {                         \
    for (int64_t i = 0; i < n; i++) {                                                              \
      type x = convert(src[i]);                                                                    \
      memcpy(dst + i * step, &x, sizeof(x));                                                       \
    }                                                                                              \
  }

LOAD_LINE(load_f32, float, double, (double))
LOAD_LINE(load_f64, double, double, (double))
LOAD_LINE(load_f16, uint16_t, double, f16_to_f64)
LOAD_LINE(load_bf16, uint16_t, double, bf16_to_f64)

LOAD_LINE(load_i8, int8_t, int64_t, (int64_t))
LOAD_LINE(load_u8, uint8_t, int64_t, (int64_t))
LOAD_LINE(load_i16, int16_t, int64_t, (int64_t))
LOAD_LINE(load_i32, int32_t, int64_t, (int64_t))
LOAD_LINE(load_i64, int64_t, int64_t, (int64_t))
LOAD_LINE(load_bool, uint8_t, int64_t, i64_to_bool)

STORE_LINE(f64_store_f32, double, float, (float))
STORE_LINE(f64_store_f64, double, double, (double))
STORE_LINE(f64_store_f16, double, uint16_t, f64_to_f16)
STORE_LINE(f64_store_bf16, double, uint16_t, f64_to_bf16)
STORE_LINE(f64_store_i8, double, int8_t, f64_to_i8)
STORE_LINE(f64_store_u8, double, uint8_t, f64_to_u8)
STORE_LINE(f64_store_i16, double, int16_t, f64_to_i16)
STORE_LINE(f64_store_i32, double, int32_t, f64_to_i32)
STORE_LINE(f64_store_i64, double, int64_t, f64_to_i64)
STORE_LINE(f64_store_bool, double, uint8_t, f64_to_bool)

STORE_LINE(i64_store_f32, int64_t, float, (float))
STORE_LINE(i64_store_f64, int64_t, double, (double))
STORE_LINE(i64_store_f16, int64_t, uint16_t, i64_to_f16)
STORE_LINE(i64_store_bf16, int64_t, uint16_t, i64_to_bf16)
STORE_LINE(i64_store_i8, int64_t, int8_t, (int8_t))
STORE_LINE(i64_store_u8, int64_t, uint8_t, (uint8_t))
STORE_LINE(i64_store_i16, int64_t, int16_t, (int16_t))
STORE_LINE(i64_store_i32, int64_t, int32_t, (int32_t))
STORE_LINE(i64_store_i64, int64_t, int64_t, (int64_t))
STORE_LINE(i64_store_bool, int64_t, uint8_t, i64_to_bool)

/* What is NULL is never asked for: floats load as double, the others as int64. */
static const struct lines {
  void (*load_f64)(const char *src, int64_t step, int64_t n, double *dst);
  void (*load_i64)(const char *src, int64_t step, int64_t n, int64_t *dst);
  void (*store_f64)(const double *src, int64_t n, char *dst, int64_t step);
  void (*store_i64)(const int64_t *src, int64_t n, char *dst, int64_t step);
} lines[] = {
    [MT_F32] = {load_f32, NULL, f64_store_f32, i64_store_f32},
    [MT_F64] = {load_f64, NULL, f64_store_f64, i64_store_f64},
    [MT_F16] = {load_f16, NULL, f64_store_f16, i64_store_f16},
    [MT_BF16] = {load_bf16, NULL, f64_store_bf16, i64_store_bf16},
    [MT_I8] = {NULL, load_i8, f64_store_i8, i64_store_i8},
    [MT_U8] = {NULL, load_u8, f64_store_u8, i64_store_u8},
    [MT_I16] = {NULL, load_i16, f64_store_i16, i64_store_i16},
    [MT_I32] = {NULL, load_i32, f64_store_i32, i64_store_i32},
    [MT_I64] = {NULL, load_i64, f64_store_i64, i64_store_i64},
    [MT_BOOL] = {NULL, load_bool, f64_store_bool, i64_store_bool},
};

void mt_load_f64(mt_dtype dtype, const char *src, int64_t step, int64_t n, double *dst) {
  lines[dtype].load_f64(src, step, n, dst);
}

void mt_load_i64(mt_dtype dtype, const char *src, int64_t step, int64_t n, int64_t *dst) {
  lines[dtype].load_i64(src, step, n, dst);
}

void mt_store_f64(mt_dtype dtype, const double *src, int64_t n, char *dst, int64_t step) {
  lines[dtype].store_f64(src, n, dst, step);
}

void mt_store_i64(mt_dtype dtype, const int64_t *src, int64_t n, char *dst, int64_t step) {
  lines[dtype].store_i64(src, n, dst, step);
}

bool mt_is_float(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_F16 || dtype == MT_BF16;
}

/* ---- bytes -------------------------------------------------------------------------- */

#define COPY_UNITS(bytes)                                                                          \
  static void copy_##bytes(const char *src, int64_t src_step, int64_t n, char *dst,                \
                           int64_t dst_step) {                                                     \
    for (int64_t i = 0; i < n; i++) {                                                              \
      memcpy(dst + i * dst_step, src + i * src_step, bytes);                                       \
    }                                                                                              \
  }

COPY_UNITS(1)
COPY_UNITS(2)
COPY_UNITS(4)
COPY_UNITS(8)

void mt_copy_units(size_t size, const char *src, int64_t src_step, int64_t n, char *dst,
                   int64_t dst_step) {
  if (n == 1 || (src_step == (int64_t)size && dst_step == (int64_t)size)) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  switch (size) {
  case 1: copy_1(src, src_step, n, dst, dst_step); return;
  case 2: copy_2(src, src_step, n, dst, dst_step); return;
  case 4: copy_4(src, src_step, n, dst, dst_step); return;
  case 8: copy_8(src, src_step, n, dst, dst_step); return;
  }
  for (int64_t i = 0; i < n; i++) { /* blocks */
    memcpy(dst + i * dst_step, src + i * src_step, size);
  }
}

void mt_copy_walk(mt_walk *walk, size_t size) {
  while (mt_walk_next(walk)) {
    mt_copy_units(size, walk->at[1], walk->stride[1], walk->count, walk->at[0], walk->stride[0]);
  }
}

void mt_load_number(mt_dtype dtype, const char *src, int64_t step, int64_t n, double *dst) {
  int64_t piece[MT_LINE];
  if (mt_is_float(dtype)) {
    mt_load_f64(dtype, src, step, n, dst);
    return;
  }
  for (int64_t at = 0; at < n; at += MT_LINE) {
    int64_t count = n - at < MT_LINE ? n - at : MT_LINE;
    mt_load_i64(dtype, src + at * step, step, count, piece);
    for (int64_t i = 0; i < count; i++) {
      dst[at + i] = (double)piece[i];
    }
  }
}
