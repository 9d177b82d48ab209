// SPDX-License-Identifier: Apache-2.0
/*
 * pack.c - panels for the micro-kernel, and transposition: 8x8 blocks in 256-bit vectors, which
 * every instruction set here has.
 */
#include "kernels.h"
#include "vec.h"

enum { LANES = 8 };

/* The first n lanes (0 <= n; 8 and more: all). */
VEC_INLINE __m256i lane_mask(int64_t n) {
  int32_t count = n > LANES ? LANES : (int32_t)n;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

VEC_INLINE void transpose_8x8(__m256 r[8]) {
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

/* Lines are adjacent in memory: each step of k copies one row of `width`. */
static void pack_rows(int64_t k, int width, int room, const float *src, int64_t step, float *dst) {
  for (int v = 0; v < room; v += LANES) {
    __m256i in = lane_mask(width > v ? width - v : 0);
    __m256i out = lane_mask(room - v);
    if (width - v >= LANES) {
      for (int64_t p = 0; p < k; p++) {
        _mm256_storeu_ps(dst + p * room + v, _mm256_loadu_ps(src + p * step + v));
      }
    } else {
      for (int64_t p = 0; p < k; p++) {
        _mm256_maskstore_ps(dst + p * room + v, out, _mm256_maskload_ps(src + p * step + v, in));
      }
    }
  }
}

/* Up to 8 lines and up to 8 elements of each, transposed into r. */
VEC_INLINE void load_block(int lines, int64_t count, const float *src, int64_t line, __m256 r[8]) {
  __m256i mask = lane_mask(count);
  for (int i = 0; i < 8; i++) {
    r[i] = i < lines ? _mm256_maskload_ps(src + i * line, mask) : _mm256_setzero_ps();
  }
  transpose_8x8(r);
}

/* Lines run along memory: 8x8 blocks are transposed on the way. */
static void pack_lines(int64_t k, int width, int room, const float *src, int64_t line, float *dst) {
  for (int v = 0; v < room; v += LANES) {
    int lines = width - v < LANES ? width - v : LANES;
    __m256i out = lane_mask(room - v);
    const float *from = src + v * line;
    float *to = dst + v;
    int64_t p = 0;
    __m256 r[8];
    /* A whole vector is stored where the next step's overwrites what is too much. */
    for (; p + LANES < k; p += LANES) {
      if (lines == LANES) {
        for (int i = 0; i < LANES; i++) {
          r[i] = _mm256_loadu_ps(from + i * line + p);
        }
        transpose_8x8(r);
      } else if (lines == 6) {
        for (int i = 0; i < 6; i++) {
          r[i] = _mm256_loadu_ps(from + i * line + p);
        }
        r[6] = r[7] = _mm256_setzero_ps();
        transpose_8x8(r);
      } else {
        load_block(lines, LANES, from + p, line, r);
      }
      for (int i = 0; i < LANES; i++) {
        if (room - v >= LANES || v == 0) {
          _mm256_storeu_ps(to + (p + i) * room, r[i]);
        } else {
          _mm256_maskstore_ps(to + (p + i) * room, out, r[i]);
        }
      }
    }
    load_block(lines, k - p, from + p, line, r);
    for (int64_t i = 0; i < k - p; i++) {
      _mm256_maskstore_ps(to + (p + i) * room, out, r[i]);
    }
  }
}

void vec_pack(int64_t k, int width, int room, const float *src, int64_t line, int64_t step,
              float *dst) {
  if (line == 1) {
    pack_rows(k, width, room, src, step, dst);
  } else if (step == 1) {
    pack_lines(k, width, room, src, line, dst);
  } else {
    for (int64_t p = 0; p < k; p++) {
      for (int i = 0; i < width; i++) {
        dst[p * room + i] = ((const cpu_any_f32 *)src)[i * line + p * step];
      }
      memset(dst + p * room + width, 0, (size_t)(room - width) * sizeof(float));
    }
  }
}

void vec_transpose_4(int64_t rows, int64_t cols, const void *src, int64_t src_row, void *dst,
                     int64_t dst_row) {
  const float *from = src;
  float *to = dst;
  for (int64_t i = 0; i < rows; i += LANES) {
    int64_t high = rows - i < LANES ? rows - i : LANES;
    __m256i out = lane_mask(high);
    for (int64_t j = 0; j < cols; j += LANES) {
      int64_t wide = cols - j < LANES ? cols - j : LANES;
      __m256 r[8];
      load_block((int)high, wide, from + i * src_row + j, src_row, r);
      for (int64_t q = 0; q < wide; q++) {
        _mm256_maskstore_ps(to + (j + q) * dst_row + i, out, r[q]);
      }
    }
  }
}
