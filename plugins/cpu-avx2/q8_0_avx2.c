// SPDX-License-Identifier: Apache-2.0
/* q8_0_avx2.c - Q8_0: blocks of 34 bytes, an f16 scale (little endian) and 32 int8. */
#include "kernels_avx2.h"
#include "simd_avx2.h"

#include <string.h>

enum { BLOCK = CPU_BLOCK_ELEMENTS, BLOCK_BYTES = CPU_BLOCK_BYTES };

AVX2_INLINE float scale_of(const uint8_t *block) {
  uint16_t bits;
  memcpy(&bits, block, sizeof(bits));
  return _cvtsh_ss(bits);
}

/* Weights 8 v .. 8 v + 7, without the scale */
AVX2_INLINE __m256 weights(const uint8_t *block, int v) {
  __m128i q = _mm_loadl_epi64((const __m128i *)(block + 2 + v * LANES));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

AVX2_INLINE void dot_block(int m, const uint8_t *block, const float *a, int64_t a_row,
                           __m256 acc[AVX2_Q8_0_ROWS]) {
  __m256 w[4];
  for (int v = 0; v < 4; v++) {
    w[v] = weights(block, v);
  }
  __m256 d = _mm256_set1_ps(scale_of(block));
  for (int i = 0; i < m; i++) {
    const float *x = a + i * a_row;
    __m256 s = _mm256_mul_ps(w[0], _mm256_loadu_ps(x));
    for (int v = 1; v < 4; v++) {
      s = _mm256_fmadd_ps(w[v], _mm256_loadu_ps(x + v * LANES), s);
    }
    acc[i] = _mm256_fmadd_ps(s, d, acc[i]);
  }
}

/* m is a constant where this is inlined. tail: the last k % 32 elements of each row of
 * a, filled up with zeros. */
AVX2_INLINE void dot_lines(int m, int64_t n, int64_t k, const float *a, int64_t a_row,
                           const float *tail, const uint8_t *b, int64_t b_row_bytes, float *y,
                           int64_t y_row) {
  for (int64_t j = 0; j < n; j++) {
    const uint8_t *block = b + j * b_row_bytes;
    __m256 acc[AVX2_Q8_0_ROWS];
    for (int i = 0; i < m; i++) {
      acc[i] = _mm256_setzero_ps();
    }
    int64_t p = 0;
    for (; p + BLOCK <= k; p += BLOCK, block += BLOCK_BYTES) {
      dot_block(m, block, a + p, a_row, acc);
    }
    if (p < k) {
      dot_block(m, block, tail, BLOCK, acc);
    }
    for (int i = 0; i < m; i++) {
      y[i * y_row + j] = horizontal_sum(acc[i]);
    }
  }
}

void avx2_q8_0_dots(int m, int64_t n, int64_t k, const float *a, int64_t a_row, const uint8_t *b,
                    int64_t b_row_bytes, float *y, int64_t y_row) {
  float tail[AVX2_Q8_0_ROWS * BLOCK] = {0};
  int64_t whole = k / BLOCK * BLOCK;
  for (int i = 0; i < m; i++) {
    for (int64_t p = whole; p < k; p++) {
      tail[i * BLOCK + p - whole] = ((const cpu_any_f32 *)a)[i * a_row + p];
    }
  }
  switch (m) {
  case 1: dot_lines(1, n, k, a, a_row, tail, b, b_row_bytes, y, y_row); break;
  case 2: dot_lines(2, n, k, a, a_row, tail, b, b_row_bytes, y, y_row); break;
  case 3: dot_lines(3, n, k, a, a_row, tail, b, b_row_bytes, y, y_row); break;
  default: dot_lines(4, n, k, a, a_row, tail, b, b_row_bytes, y, y_row); break;
  }
}

void avx2_q8_0_decode(int64_t n, const uint8_t *src, float *dst) {
  for (; n > 0; n -= BLOCK, src += BLOCK_BYTES, dst += BLOCK) {
    __m256 d = _mm256_set1_ps(scale_of(src));
    for (int v = 0; v < 4 && v * LANES < n; v++) {
      __m256 x = _mm256_mul_ps(weights(src, v), d);
      if (n - v * LANES >= LANES) {
        _mm256_storeu_ps(dst + v * LANES, x);
      } else {
        _mm256_maskstore_ps(dst + v * LANES, lane_mask(n - v * LANES), x);
      }
    }
  }
}
