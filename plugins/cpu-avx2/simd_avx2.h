// SPDX-License-Identifier: Apache-2.0
/* simd_avx2.h - small helpers on 8-float vectors that the *_avx2.c files share. */
#ifndef SIMD_AVX2_H
#define SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define AVX2_INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

/* The first n lanes (0 <= n; 8 and more: all). */
AVX2_INLINE __m256i lane_mask(int64_t n) {
  int32_t count = n > LANES ? LANES : (int32_t)n;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* acc += x * y. Spelled out: given the intrinsic, gcc 12 picks FMA forms that overwrite x or
 * y, runs out of registers and spills accumulators inside the loop. */
AVX2_INLINE void fma_into(__m256 *acc, __m256 x, __m256 y) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(x), "x"(y));
}

AVX2_INLINE float horizontal_sum(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  s = _mm_add_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}

AVX2_INLINE double horizontal_sum_pd(__m256d v) {
  __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Lanes as doubles, added pairwise into four. */
AVX2_INLINE __m256d widen_sum(__m256 v) {
  return _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                       _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}

AVX2_INLINE void transpose_8x8(__m256 r[8]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

#endif
