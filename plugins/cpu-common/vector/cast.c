// SPDX-License-Identifier: Apache-2.0
/*
 * cast.c - f32 from and to the other types. To integers: toward zero, saturated, NaN
 * gives 0. To f16 and bf16: to nearest even.
 */
#include "kernels.h"
#include <mecantensor/plugin.h>
#include "vec.h"

#include <string.h>

VEC_INLINE vf from_f32(const float *p) {
  return vf_load(p);
}

VEC_INLINE void to_f32(float *p, vf x) {
  vf_store(p, x);
}

VEC_INLINE vf from_f64(const double *p) {
  return vf_of_doubles(vd_load(p), vd_load(p + VF_LANES / 2));
}

VEC_INLINE void to_f64(double *p, vf x) {
  vd_store(p, vd_low(x));
  vd_store(p + VF_LANES / 2, vd_high(x));
}

VEC_INLINE vf from_i32(const int32_t *p) {
  return vf_of_int(vi_load(p));
}

VEC_INLINE void to_i32(int32_t *p, vf x) {
  /* What does not fit becomes INT32_MIN: turned into INT32_MAX above, 0 for NaN. */
  vi v = vi_trunc(x);
  v = vi_xor(v, vi_keep(vf_le(vf_set(0x1p31f), x), vi_set(-1)));
  vi_store(p, vi_keep(vf_eq(x, x), v));
}

/* x cut to low .. high as integers; NaN gives 0 */
VEC_INLINE vi clamp_to_int(vf x, float low, float high) {
  x = vf_keep(vf_eq(x, x), x);
  return vi_trunc(vf_min(vf_max(x, vf_set(low)), vf_set(high)));
}

VEC_INLINE vf from_i16(const int16_t *p) {
  return vf_of_int(vi_load_i16(p));
}

VEC_INLINE void to_i16(int16_t *p, vf x) {
  vi_store_16(p, clamp_to_int(x, -32768.0f, 32767.0f));
}

VEC_INLINE vf from_i8(const int8_t *p) {
  return vf_of_int(vi_load_i8(p));
}

VEC_INLINE void to_i8(int8_t *p, vf x) {
  vi_store_8(p, clamp_to_int(x, -128.0f, 127.0f));
}

VEC_INLINE vf from_u8(const uint8_t *p) {
  return vf_of_int(vi_load_u8(p));
}

VEC_INLINE void to_u8(uint8_t *p, vf x) {
  vi_store_8(p, clamp_to_int(x, 0.0f, 255.0f));
}

VEC_INLINE void to_bool(uint8_t *p, vf x) {
  vi_store_8(p, vi_keep(vf_ne(x, vf_zero()), vi_set(1)));
}

VEC_INLINE vf from_f16(const uint16_t *p) {
  return vf_load_f16(p);
}

VEC_INLINE void to_f16(uint16_t *p, vf x) {
  vf_store_f16(p, x);
}

VEC_INLINE vf from_bf16(const uint16_t *p) {
  return vf_load_bf16(p);
}

VEC_INLINE void to_bf16(uint16_t *p, vf x) {
  vf_store_bf16(p, x);
}

/* The tail goes through whole vectors on the stack. */
#define CAST(from, from_type, to, to_type)                                                         \
  static void from##_to_##to(int64_t n, const void *src, void *dst) {                              \
    const from_type *in = src;                                                                     \
    to_type *out = dst;                                                                            \
    int64_t i = 0;                                                                                 \
    for (; i + VF_LANES <= n; i += VF_LANES) {                                                     \
      to_##to(out + i, from_##from(in + i));                                                       \
    }                                                                                              \
    if (i < n) {                                                                                   \
      from_type a[VF_LANES] = {0};                                                                 \
      to_type b[VF_LANES];                                                                         \
      memcpy(a, in + i, (size_t)(n - i) * sizeof(*a));                                             \
      to_##to(b, from_##from(a));                                                                  \
      memcpy(out + i, b, (size_t)(n - i) * sizeof(*b));                                            \
    }                                                                                              \
  }

CAST(f32, float, f64, double)
CAST(f32, float, f16, uint16_t)
CAST(f32, float, bf16, uint16_t)
CAST(f32, float, i8, int8_t)
CAST(f32, float, u8, uint8_t)
CAST(f32, float, i16, int16_t)
CAST(f32, float, i32, int32_t)
CAST(f32, float, bool, uint8_t)
CAST(f64, double, f32, float)
CAST(f16, uint16_t, f32, float)
CAST(bf16, uint16_t, f32, float)
CAST(i8, int8_t, f32, float)
CAST(u8, uint8_t, f32, float)
CAST(i16, int16_t, f32, float)
CAST(i32, int32_t, f32, float)

cpu_cast_fn *vec_cast(int32_t from, int32_t to) {
  static cpu_cast_fn *const to_f32_from[] = {
      [MT_ABI_DTYPE_F64] = f64_to_f32,   [MT_ABI_DTYPE_F16] = f16_to_f32,
      [MT_ABI_DTYPE_BF16] = bf16_to_f32, [MT_ABI_DTYPE_I8] = i8_to_f32,
      [MT_ABI_DTYPE_U8] = u8_to_f32,     [MT_ABI_DTYPE_I16] = i16_to_f32,
      [MT_ABI_DTYPE_I32] = i32_to_f32,   [MT_ABI_DTYPE_BOOL] = u8_to_f32};
  static cpu_cast_fn *const from_f32_to[] = {
      [MT_ABI_DTYPE_F64] = f32_to_f64,   [MT_ABI_DTYPE_F16] = f32_to_f16,
      [MT_ABI_DTYPE_BF16] = f32_to_bf16, [MT_ABI_DTYPE_I8] = f32_to_i8,
      [MT_ABI_DTYPE_U8] = f32_to_u8,     [MT_ABI_DTYPE_I16] = f32_to_i16,
      [MT_ABI_DTYPE_I32] = f32_to_i32,   [MT_ABI_DTYPE_BOOL] = f32_to_bool};
  int32_t other = to == MT_ABI_DTYPE_F32 ? from : to;
  if (other < 0 || other > MT_ABI_DTYPE_BOOL) {
    return NULL;
  }
  if (to == MT_ABI_DTYPE_F32) {
    return to_f32_from[other];
  }
  return from == MT_ABI_DTYPE_F32 ? from_f32_to[other] : NULL;
}
