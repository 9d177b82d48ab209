// SPDX-License-Identifier: Apache-2.0
/* isa.h - the vector layer (../cpu-common/vector/vec.h says what each name means) in AVX-512. */
#ifndef ISA_H
#define ISA_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define VEC_INLINE static inline __attribute__((always_inline))

#define VEC_REGISTERS 32
enum { VF_LANES = 16, VEC_GEMM_MR = 14, VEC_GEMM_NR = 32 };

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512d vd;

/* ---- masks ---- */
VEC_INLINE vm vm_first(int64_t n) {
  return (vm)(n >= VF_LANES ? 0xffff : (1u << n) - 1);
}
VEC_INLINE vm vm_or(vm a, vm b) {
  return (vm)(a | b);
}
VEC_INLINE vm vm_and(vm a, vm b) {
  return (vm)(a & b);
}
VEC_INLINE vm vm_not(vm a) {
  return (vm)~a;
}
VEC_INLINE vm vm_none(void) {
  return 0;
}
VEC_INLINE bool vm_any(vm m) {
  return m != 0;
}

/* ---- floats ---- */
VEC_INLINE vf vf_zero(void) {
  return _mm512_setzero_ps();
}
VEC_INLINE vf vf_set(float x) {
  return _mm512_set1_ps(x);
}
VEC_INLINE vf vf_load1(const float *p) {
  return _mm512_set1_ps(*(const cpu_any_f32 *)p);
}
VEC_INLINE vf vf_load(const float *p) {
  return _mm512_loadu_ps(p);
}
VEC_INLINE void vf_store(float *p, vf x) {
  _mm512_storeu_ps(p, x);
}
/* p: aligned to the vector */
VEC_INLINE void vf_stream(float *p, vf x) {
  _mm512_stream_ps(p, x);
}
VEC_INLINE vf vf_load_m(vm m, const float *p) {
  return _mm512_maskz_loadu_ps(m, p);
}
VEC_INLINE void vf_store_m(vm m, float *p, vf x) {
  _mm512_mask_storeu_ps(p, m, x);
}
VEC_INLINE vf vf_add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}
VEC_INLINE vf vf_sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}
VEC_INLINE vf vf_mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}
VEC_INLINE vf vf_div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}
VEC_INLINE vf vf_sqrt(vf a) {
  return _mm512_sqrt_ps(a);
}
VEC_INLINE vf vf_min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
VEC_INLINE vf vf_max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
VEC_INLINE vf vf_fms(vf a, vf b, vf c) {
  return _mm512_fmsub_ps(a, b, c);
}
VEC_INLINE vf vf_fnma(vf a, vf b, vf c) {
  return _mm512_fnmadd_ps(a, b, c);
}
/* Spelled out, so that no compiler overwrites a or b instead and spills accumulators. */
VEC_INLINE void vf_fma_into(vf *acc, vf a, vf b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(*acc) : "v"(a), "v"(b));
}
VEC_INLINE vf vf_abs(vf a) {
  return _mm512_abs_ps(a);
}
VEC_INLINE vf vf_or(vf a, vf b) {
  return _mm512_or_ps(a, b);
}
VEC_INLINE vf vf_and(vf a, vf b) {
  return _mm512_and_ps(a, b);
}
VEC_INLINE vf vf_andnot(vf a, vf b) {
  return _mm512_andnot_ps(a, b);
}
VEC_INLINE vf vf_xor(vf a, vf b) {
  return _mm512_xor_ps(a, b);
}
VEC_INLINE vf vf_round(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vf vf_floor(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
VEC_INLINE vf vf_ceil(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

/* ---- comparing and choosing ---- */
VEC_INLINE vm vf_lt(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VEC_INLINE vm vf_le(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
VEC_INLINE vm vf_eq(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
VEC_INLINE vm vf_ne(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}
VEC_INLINE vm vf_not_lt(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}
VEC_INLINE vm vf_is_nan(vf a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
VEC_INLINE vm vf_sign(vf a) {
  return _mm512_movepi32_mask(_mm512_castps_si512(a));
}
VEC_INLINE vf vf_select(vm m, vf a, vf b) {
  return _mm512_mask_blend_ps(m, b, a);
}
VEC_INLINE vf vf_keep(vm m, vf a) {
  return _mm512_maskz_mov_ps(m, a);
}

/* ---- 32-bit integers ---- */
VEC_INLINE vi vi_set(int32_t x) {
  return _mm512_set1_epi32(x);
}
VEC_INLINE vi vi_add(vi a, vi b) {
  return _mm512_add_epi32(a, b);
}
VEC_INLINE vi vi_sub(vi a, vi b) {
  return _mm512_sub_epi32(a, b);
}
VEC_INLINE vi vi_and(vi a, vi b) {
  return _mm512_and_si512(a, b);
}
VEC_INLINE vi vi_or(vi a, vi b) {
  return _mm512_or_si512(a, b);
}
VEC_INLINE vi vi_xor(vi a, vi b) {
  return _mm512_xor_si512(a, b);
}
VEC_INLINE vi vi_shl(vi a, int bits) {
  return _mm512_slli_epi32(a, (unsigned)bits);
}
VEC_INLINE vi vi_shr(vi a, int bits) {
  return _mm512_srli_epi32(a, (unsigned)bits);
}
VEC_INLINE vi vi_sar(vi a, int bits) {
  return _mm512_srai_epi32(a, (unsigned)bits);
}
VEC_INLINE vi vi_keep(vm m, vi a) {
  return _mm512_maskz_mov_epi32(m, a);
}
VEC_INLINE vi vi_select(vm m, vi a, vi b) {
  return _mm512_mask_blend_epi32(m, b, a);
}
VEC_INLINE vi vi_of_bits(vf a) {
  return _mm512_castps_si512(a);
}
VEC_INLINE vf vf_of_bits(vi a) {
  return _mm512_castsi512_ps(a);
}
VEC_INLINE vi vi_nearest(vf a) {
  return _mm512_cvtps_epi32(a);
}
VEC_INLINE vi vi_trunc(vf a) {
  return _mm512_cvttps_epi32(a);
}
VEC_INLINE vf vf_of_int(vi a) {
  return _mm512_cvtepi32_ps(a);
}
VEC_INLINE vi vi_load(const int32_t *p) {
  return _mm512_loadu_si512(p);
}
VEC_INLINE void vi_store(int32_t *p, vi x) {
  _mm512_storeu_si512(p, x);
}

/* ---- narrow elements ---- */
VEC_INLINE vi vi_load_i8(const void *p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE vi vi_load_u8(const void *p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE vi vi_load_i16(const void *p) {
  return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE vi vi_load_u16(const void *p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE void vi_store_16(void *p, vi x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(x));
}
VEC_INLINE void vi_store_8(void *p, vi x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x));
}

/* ---- int8: dot products of neighbours, added to int32 ---- */
VEC_INLINE vi vi_load_wide(const void *p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE vi vi_dot_wide(vi acc, vi a, vi b) {
  return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
}
VEC_INLINE vi vi_load_bytes(const void *p) {
  return _mm512_loadu_si512(p);
}
VEC_INLINE vi vi_load_biased(const void *p) {
  return vi_xor(vi_load_bytes(p), vi_set((int32_t)0x80808080));
}
/* In functions marked VEC_VNNI, which only run where the CPU has it: a unsigned, b signed. */
#define VEC_VNNI __attribute__((target("avx512vnni")))
VEC_VNNI VEC_INLINE vi vi_dot_vnni(vi acc, vi a, vi b) {
  return _mm512_dpbusd_epi32(acc, a, b);
}

VEC_INLINE vf vf_load_f16(const void *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE void vf_store_f16(void *p, vf x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* ---- doubles: two vectors hold the lanes of one vf ---- */
VEC_INLINE vd vd_zero(void) {
  return _mm512_setzero_pd();
}
VEC_INLINE vd vd_set(double x) {
  return _mm512_set1_pd(x);
}
VEC_INLINE vd vd_add(vd a, vd b) {
  return _mm512_add_pd(a, b);
}
VEC_INLINE vd vd_sub(vd a, vd b) {
  return _mm512_sub_pd(a, b);
}
VEC_INLINE vd vd_mul(vd a, vd b) {
  return _mm512_mul_pd(a, b);
}
VEC_INLINE vd vd_fma(vd a, vd b, vd c) {
  return _mm512_fmadd_pd(a, b, c);
}
VEC_INLINE vd vd_fnma(vd a, vd b, vd c) {
  return _mm512_fnmadd_pd(a, b, c);
}
VEC_INLINE vd vd_sqrt(vd a) {
  return _mm512_sqrt_pd(a);
}
VEC_INLINE vd vd_round(vd a) {
  return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vd vd_div(vd a, vd b) {
  return _mm512_div_pd(a, b);
}
VEC_INLINE vd vd_load(const double *p) {
  return _mm512_loadu_pd(p);
}
VEC_INLINE void vd_store(double *p, vd x) {
  _mm512_storeu_pd(p, x);
}
VEC_INLINE vd vd_low(vf a) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
VEC_INLINE vd vd_high(vf a) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
VEC_INLINE vf vf_of_doubles(vd low, vd high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
VEC_INLINE double vd_sum(vd v) {
  return _mm512_reduce_add_pd(v);
}

/* ---- across lanes ---- */
VEC_INLINE int32_t vi_sum(vi v) {
  return _mm512_reduce_add_epi32(v);
}
VEC_INLINE float vf_sum(vf v) {
  return _mm512_reduce_add_ps(v);
}
VEC_INLINE float vf_largest(vf v) {
  return _mm512_reduce_max_ps(v);
}

#endif
