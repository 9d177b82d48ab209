// SPDX-License-Identifier: Apache-2.0
/*
 * cast_avx2.c - f32 from and to the other types. To integers: toward zero, saturated, NaN
 * gives 0. To f16 and bf16: to nearest even.
 */
#include "kernels_avx2.h"
#include "simd_avx2.h"

#include <string.h>

AVX2_INLINE __m256 from_f32(const float *p) {
  return _mm256_loadu_ps(p);
}

AVX2_INLINE void to_f32(float *p, __m256 x) {
  _mm256_storeu_ps(p, x);
}

AVX2_INLINE __m256 from_f64(const double *p) {
  return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(p + 4)),
                         _mm256_cvtpd_ps(_mm256_loadu_pd(p)));
}

AVX2_INLINE void to_f64(double *p, __m256 x) {
  _mm256_storeu_pd(p, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
  _mm256_storeu_pd(p + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

AVX2_INLINE __m256 from_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

AVX2_INLINE void to_f16(uint16_t *p, __m256 x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

AVX2_INLINE __m256 from_bf16(const uint16_t *p) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* The low halves of 8 32-bit lanes that hold 0 .. 65535 */
AVX2_INLINE __m128i narrow_16(__m256i x) {
  __m256i packed = _mm256_packus_epi32(x, x);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

AVX2_INLINE void to_bf16(uint16_t *p, __m256 x) {
  __m256i bits = _mm256_castps_si256(x);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  __m256i result = _mm256_blendv_epi8(rounded, quiet, nan);
  _mm_storeu_si128((__m128i *)p, narrow_16(_mm256_srli_epi32(result, 16)));
}

AVX2_INLINE __m256 from_i32(const int32_t *p) {
  return _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p));
}

AVX2_INLINE void to_i32(int32_t *p, __m256 x) {
  /* What does not fit becomes INT32_MIN: turned into INT32_MAX above, 0 for NaN. */
  __m256i v = _mm256_cvttps_epi32(x);
  __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);
  __m256 number = _mm256_cmp_ps(x, x, _CMP_ORD_Q);
  v = _mm256_xor_si256(v, _mm256_castps_si256(above));
  v = _mm256_and_si256(v, _mm256_castps_si256(number));
  _mm256_storeu_si256((__m256i *)p, v);
}

/* x cut to low .. high as integers; NaN gives 0 */
AVX2_INLINE __m256i clamp_to_int(__m256 x, float low, float high) {
  x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
  x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(low)), _mm256_set1_ps(high));
  return _mm256_cvttps_epi32(x);
}

AVX2_INLINE __m128i low_16(__m256i x) {
  return narrow_16(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
}

AVX2_INLINE void store_low_8(void *p, __m256i x) {
  __m128i words = narrow_16(_mm256_and_si256(x, _mm256_set1_epi32(0xff)));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

AVX2_INLINE __m256 from_i16(const int16_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)));
}

AVX2_INLINE void to_i16(int16_t *p, __m256 x) {
  _mm_storeu_si128((__m128i *)p, low_16(clamp_to_int(x, -32768.0f, 32767.0f)));
}

AVX2_INLINE __m256 from_i8(const int8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

AVX2_INLINE void to_i8(int8_t *p, __m256 x) {
  store_low_8(p, clamp_to_int(x, -128.0f, 127.0f));
}

AVX2_INLINE __m256 from_u8(const uint8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

AVX2_INLINE void to_u8(uint8_t *p, __m256 x) {
  store_low_8(p, clamp_to_int(x, 0.0f, 255.0f));
}

AVX2_INLINE void to_bool(uint8_t *p, __m256 x) {
  __m256 set = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ);
  store_low_8(p, _mm256_and_si256(_mm256_castps_si256(set), _mm256_set1_epi32(1)));
}

/* The tail goes through whole vectors on the stack. */
#define CAST(from, from_type, to, to_type)                                                         \
  static void from##_to_##to(int64_t n, const void *src, void *dst) {                              \
    const from_type *in = src;                                                                     \
    to_type *out = dst;                                                                            \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES) {                                                           \
      to_##to(out + i, from_##from(in + i));                                                       \
    }                                                                                              \
    if (i < n) {                                                                                   \
      from_type a[LANES] = {0};                                                                    \
      to_type b[LANES];                                                                            \
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

cpu_cast_fn *avx2_cast(int32_t from, int32_t to) {
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
