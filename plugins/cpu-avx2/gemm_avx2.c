// SPDX-License-Identifier: Apache-2.0
/*
 * gemm_avx2.c - the 6x16 SGEMM micro-kernel.
 *
 * 12 accumulators, 2 vectors of B, 1 broadcast of A: 15 of 16 registers. A step of k is
 * 8 loads and 12 FMAs, so both FMA ports stay busy with operands in the L1 cache.
 * Each element of C is one chain of FMAs in the order of k in every variant of the
 * tile, so results do not depend on how C was cut into tiles.
 */
#include "kernels_avx2.h"
#include "simd_avx2.h"

enum { MR = 6, NR = 16 };

typedef struct tile {
  int64_t k;
  const float *a;
  int64_t a_row, a_col;
  const float *b;
  int64_t b_row;
  float *c;
  int64_t c_row;
  __m256i mask; /* of the last vector of a row */
} tile;

AVX2_INLINE __m256 load_last(const float *p, __m256i mask, bool masked) {
  return masked ? _mm256_maskload_ps(p, mask) : _mm256_loadu_ps(p);
}

/* One step of k. rows, vectors and masked are constants where this is inlined. */
AVX2_INLINE void step(const tile *t, const float *a, const float *b, int rows, int vectors,
                      bool masked, __m256 acc[MR][2]) {
  /* Rows 3 to 5 from a base of their own: 0, 1 and 2 times the stride are addressing modes. */
  const float *a3 = a + 3 * t->a_row;
  __m256 b0 = load_last(b, t->mask, masked && vectors == 1);
  __m256 b1 = vectors == 2 ? load_last(b + LANES, t->mask, masked) : b0;
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    __m256 x = _mm256_broadcast_ss(i < 3 ? a + i * t->a_row : a3 + (i - 3) * t->a_row);
    fma_into(&acc[i][0], x, b0);
    if (vectors == 2) {
      fma_into(&acc[i][1], x, b1);
    }
  }
}

AVX2_INLINE void store_tile(const tile *t, int rows, int vectors, bool masked_c, bool accumulate,
                            __m256 acc[MR][2]) {
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    float *c = t->c + i * t->c_row;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      bool masked = masked_c && v == vectors - 1;
      __m256 sum = acc[i][v];
      if (accumulate) {
        sum = _mm256_add_ps(sum, load_last(c + v * LANES, t->mask, masked));
      }
      if (masked) {
        _mm256_maskstore_ps(c + v * LANES, t->mask, sum);
      } else {
        _mm256_storeu_ps(c + v * LANES, sum);
      }
    }
  }
}

AVX2_INLINE void run_tile(const tile *t, int rows, int vectors, bool masked_b, bool masked_c,
                          bool accumulate) {
  __m256 acc[MR][2];
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    acc[i][0] = _mm256_setzero_ps();
    acc[i][1] = _mm256_setzero_ps();
    if (!masked_c) {
      _mm_prefetch((const char *)(t->c + i * t->c_row), _MM_HINT_T0);
    }
  }
  const float *a = t->a;
  const float *b = t->b;
  int64_t a_col = t->a_col, b_row = t->b_row;
  int64_t p = t->k;
  for (; p >= 4; p -= 4) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) {
      step(t, a, b, rows, vectors, masked_b, acc);
      a += a_col;
      b += b_row;
    }
  }
  for (; p > 0; p--) {
    step(t, a, b, rows, vectors, masked_b, acc);
    a += a_col;
    b += b_row;
  }
  store_tile(t, rows, vectors, masked_c, accumulate, acc);
}

/* Tiles of every height, in one width. */
#define TILE_HEIGHTS(vectors, masked_b, masked_c)                                                  \
  switch (rows) {                                                                                  \
  case 1: run_tile(t, 1, vectors, masked_b, masked_c, accumulate); break;                          \
  case 2: run_tile(t, 2, vectors, masked_b, masked_c, accumulate); break;                          \
  case 3: run_tile(t, 3, vectors, masked_b, masked_c, accumulate); break;                          \
  case 4: run_tile(t, 4, vectors, masked_b, masked_c, accumulate); break;                          \
  case 5: run_tile(t, 5, vectors, masked_b, masked_c, accumulate); break;                          \
  default: run_tile(t, MR, vectors, masked_b, masked_c, accumulate); break;                        \
  }

static void tile_full(const tile *t, int rows, bool accumulate) {
  TILE_HEIGHTS(2, false, false)
}

/* C is narrower than the packed B. */
static void tile_padded(const tile *t, int rows, int vectors, bool accumulate) {
  if (vectors == 1) {
    TILE_HEIGHTS(1, false, true)
  } else {
    TILE_HEIGHTS(2, false, true)
  }
}

/* B and C are both narrow. */
static void tile_masked(const tile *t, int rows, int vectors, bool accumulate) {
  if (vectors == 1) {
    TILE_HEIGHTS(1, true, true)
  } else {
    TILE_HEIGHTS(2, true, true)
  }
}

void avx2_gemm_strip(const cpu_gemm_strip *s) {
  int vectors = s->n > LANES ? 2 : 1;
  tile t = {s->k,     s->a,     s->a_row,
            s->a_col, s->b,     s->b_row,
            s->c,     s->c_row, lane_mask(s->n - (vectors - 1) * LANES)};
  for (int64_t left = s->m; left > 0; left -= MR) {
    int rows = left < MR ? (int)left : MR;
    if (s->n == NR) {
      tile_full(&t, rows, s->accumulate);
    } else if (s->full_b) {
      tile_padded(&t, rows, vectors, s->accumulate);
    } else {
      tile_masked(&t, rows, vectors, s->accumulate);
    }
    t.a += s->a_step;
    t.c += MR * s->c_row;
  }
}
