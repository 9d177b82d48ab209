// SPDX-License-Identifier: Apache-2.0
/* isa.h - the vector layer (../cpu-common/vector/vec.h says what each name means) in AVX2. */
#ifndef ISA_H
#define ISA_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VEC_INLINE static inline __attribute__((always_inline))

#define VEC_REGISTERS 16
enum { VF_LANES = 8, VEC_GEMM_MR = 6, VEC_GEMM_NR = 16 };

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* lanes of all ones or all zeros */
typedef __m256d vd;

/* ---- masks ---- */
VEC_INLINE vm vm_first(int64_t n) {
  __m256i count = _mm256_set1_epi32(n > VF_LANES ? VF_LANES : (int32_t)n);
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, lane));
}
VEC_INLINE vm vm_or(vm a, vm b) {
  return _mm256_or_ps(a, b);
}
VEC_INLINE vm vm_and(vm a, vm b) {
  return _mm256_and_ps(a, b);
}
VEC_INLINE vm vm_not(vm a) {
  return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
VEC_INLINE vm vm_none(void) {
  return _mm256_setzero_ps();
}
VEC_INLINE bool vm_any(vm m) {
  return _mm256_movemask_ps(m) != 0;
}

/* ---- floats ---- */
VEC_INLINE vf vf_zero(void) {
  return _mm256_setzero_ps();
}
VEC_INLINE vf vf_set(float x) {
  return _mm256_set1_ps(x);
}
VEC_INLINE vf vf_load1(const float *p) {
  return _mm256_broadcast_ss(p);
}
VEC_INLINE vf vf_load(const float *p) {
  return _mm256_loadu_ps(p);
}
VEC_INLINE void vf_store(float *p, vf x) {
  _mm256_storeu_ps(p, x);
}
/* p: aligned to the vector */
VEC_INLINE void vf_stream(float *p, vf x) {
  _mm256_stream_ps(p, x);
}
VEC_INLINE vf vf_load_m(vm m, const float *p) {
  return _mm256_maskload_ps(p, _mm256_castps_si256(m));
}
VEC_INLINE void vf_store_m(vm m, float *p, vf x) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(m), x);
}
VEC_INLINE vf vf_add(vf a, vf b) {
  return _mm256_add_ps(a, b);
}
VEC_INLINE vf vf_sub(vf a, vf b) {
  return _mm256_sub_ps(a, b);
}
VEC_INLINE vf vf_mul(vf a, vf b) {
  return _mm256_mul_ps(a, b);
}
VEC_INLINE vf vf_div(vf a, vf b) {
  return _mm256_div_ps(a, b);
}
VEC_INLINE vf vf_sqrt(vf a) {
  return _mm256_sqrt_ps(a);
}
VEC_INLINE vf vf_min(vf a, vf b) {
  return _mm256_min_ps(a, b);
}
VEC_INLINE vf vf_max(vf a, vf b) {
  return _mm256_max_ps(a, b);
}
VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
  return _mm256_fmadd_ps(a, b, c);
}
VEC_INLINE vf vf_fms(vf a, vf b, vf c) {
  return _mm256_fmsub_ps(a, b, c);
}
VEC_INLINE vf vf_fnma(vf a, vf b, vf c) {
  return _mm256_fnmadd_ps(a, b, c);
}
/* Spelled out: given the intrinsic, gcc 12 picks FMA forms that overwrite a or b, runs out
 * of registers and spills accumulators inside the loop. */
VEC_INLINE void vf_fma_into(vf *acc, vf a, vf b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}
VEC_INLINE vf vf_abs(vf a) {
  return _mm256_andnot_ps(vf_set(-0.0f), a);
}
VEC_INLINE vf vf_or(vf a, vf b) {
  return _mm256_or_ps(a, b);
}
VEC_INLINE vf vf_and(vf a, vf b) {
  return _mm256_and_ps(a, b);
}
VEC_INLINE vf vf_andnot(vf a, vf b) {
  return _mm256_andnot_ps(a, b);
}
VEC_INLINE vf vf_xor(vf a, vf b) {
  return _mm256_xor_ps(a, b);
}
VEC_INLINE vf vf_round(vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vf vf_floor(vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
VEC_INLINE vf vf_ceil(vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

/* ---- comparing and choosing ---- */
VEC_INLINE vm vf_lt(vf a, vf b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
VEC_INLINE vm vf_le(vf a, vf b) {
  return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
VEC_INLINE vm vf_eq(vf a, vf b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
VEC_INLINE vm vf_ne(vf a, vf b) {
  return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ);
}
VEC_INLINE vm vf_not_lt(vf a, vf b) {
  return _mm256_cmp_ps(a, b, _CMP_NLT_UQ);
}
VEC_INLINE vm vf_is_nan(vf a) {
  return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}
VEC_INLINE vm vf_sign(vf a) {
  return a; /* vf_select looks at the sign bit alone */
}
VEC_INLINE vf vf_select(vm m, vf a, vf b) {
  return _mm256_blendv_ps(b, a, m);
}
VEC_INLINE vf vf_keep(vm m, vf a) {
  return _mm256_and_ps(a, m);
}

/* ---- 32-bit integers ---- */
VEC_INLINE vi vi_set(int32_t x) {
  return _mm256_set1_epi32(x);
}
VEC_INLINE vi vi_add(vi a, vi b) {
  return _mm256_add_epi32(a, b);
}
VEC_INLINE vi vi_sub(vi a, vi b) {
  return _mm256_sub_epi32(a, b);
}
VEC_INLINE vi vi_and(vi a, vi b) {
  return _mm256_and_si256(a, b);
}
VEC_INLINE vi vi_or(vi a, vi b) {
  return _mm256_or_si256(a, b);
}
VEC_INLINE vi vi_xor(vi a, vi b) {
  return _mm256_xor_si256(a, b);
}
VEC_INLINE vi vi_shl(vi a, int bits) {
  return _mm256_slli_epi32(a, bits);
}
VEC_INLINE vi vi_shr(vi a, int bits) {
  return _mm256_srli_epi32(a, bits);
}
VEC_INLINE vi vi_sar(vi a, int bits) {
  return _mm256_srai_epi32(a, bits);
}
VEC_INLINE vi vi_keep(vm m, vi a) {
  return _mm256_and_si256(a, _mm256_castps_si256(m));
}
VEC_INLINE vi vi_select(vm m, vi a, vi b) {
  return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}
VEC_INLINE vi vi_of_bits(vf a) {
  return _mm256_castps_si256(a);
}
VEC_INLINE vf vf_of_bits(vi a) {
  return _mm256_castsi256_ps(a);
}
VEC_INLINE vi vi_nearest(vf a) {
  return _mm256_cvtps_epi32(a);
}
VEC_INLINE vi vi_trunc(vf a) {
  return _mm256_cvttps_epi32(a);
}
VEC_INLINE vf vf_of_int(vi a) {
  return _mm256_cvtepi32_ps(a);
}
VEC_INLINE vi vi_load(const int32_t *p) {
  return _mm256_loadu_si256((const __m256i *)p);
}
VEC_INLINE void vi_store(int32_t *p, vi x) {
  _mm256_storeu_si256((__m256i *)p, x);
}

/* ---- narrow elements ---- */
VEC_INLINE vi vi_load_i8(const void *p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
VEC_INLINE vi vi_load_u8(const void *p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
VEC_INLINE vi vi_load_i16(const void *p) {
  return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE vi vi_load_u16(const void *p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE __m128i isa_low_16(vi x) {
  __m256i words = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
  __m256i packed = _mm256_packus_epi32(words, words);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
VEC_INLINE void vi_store_16(void *p, vi x) {
  _mm_storeu_si128((__m128i *)p, isa_low_16(x));
}
VEC_INLINE void vi_store_8(void *p, vi x) {
  __m128i words = isa_low_16(_mm256_and_si256(x, _mm256_set1_epi32(0xff)));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

/* ---- int8: dot products of neighbours, added to int32 ---- */
VEC_INLINE vi vi_load_wide(const void *p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE vi vi_dot_wide(vi acc, vi a, vi b) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}
VEC_INLINE vi vi_load_bytes(const void *p) {
  return _mm256_loadu_si256((const __m256i *)p);
}
VEC_INLINE vi vi_load_biased(const void *p) {
  return vi_xor(vi_load_bytes(p), vi_set((int32_t)0x80808080));
}
/* In functions marked VEC_VNNI, which only run where the CPU has it: a unsigned, b signed. */
#define VEC_VNNI __attribute__((target("avxvnni")))
VEC_VNNI VEC_INLINE vi vi_dot_vnni(vi acc, vi a, vi b) {
  return _mm256_dpbusd_avx_epi32(acc, a, b);
}

VEC_INLINE vf vf_load_f16(const void *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE void vf_store_f16(void *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* ---- doubles: two vectors hold the lanes of one vf ---- */
VEC_INLINE vd vd_zero(void) {
  return _mm256_setzero_pd();
}
VEC_INLINE vd vd_set(double x) {
  return _mm256_set1_pd(x);
}
VEC_INLINE vd vd_add(vd a, vd b) {
  return _mm256_add_pd(a, b);
}
VEC_INLINE vd vd_sub(vd a, vd b) {
  return _mm256_sub_pd(a, b);
}
VEC_INLINE vd vd_mul(vd a, vd b) {
  return _mm256_mul_pd(a, b);
}
VEC_INLINE vd vd_fma(vd a, vd b, vd c) {
  return _mm256_fmadd_pd(a, b, c);
}
VEC_INLINE vd vd_fnma(vd a, vd b, vd c) {
  return _mm256_fnmadd_pd(a, b, c);
}
VEC_INLINE vd vd_sqrt(vd a) {
  return _mm256_sqrt_pd(a);
}
VEC_INLINE vd vd_round(vd a) {
  return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vd vd_div(vd a, vd b) {
  return _mm256_div_pd(a, b);
}
VEC_INLINE vd vd_load(const double *p) {
  return _mm256_loadu_pd(p);
}
VEC_INLINE void vd_store(double *p, vd x) {
  _mm256_storeu_pd(p, x);
}
VEC_INLINE vd vd_low(vf a) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
VEC_INLINE vd vd_high(vf a) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
VEC_INLINE vf vf_of_doubles(vd low, vd high) {
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}
VEC_INLINE double vd_sum(vd v) {
  __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* ---- across lanes ---- */
VEC_INLINE int32_t vi_sum(vi v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
VEC_INLINE float vf_sum(vf v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
VEC_INLINE float vf_largest(vf v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

#endif
