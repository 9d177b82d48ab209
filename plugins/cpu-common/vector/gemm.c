// SPDX-License-Identifier: Apache-2.0
/*
 * gemm.c - the SGEMM micro-kernel: a tile of MR rows and two vectors.
 *
 * 6x16 in AVX2: 12 accumulators, 2 vectors of B, 1 broadcast of A: 15 of 16 registers. 14x32
 * in AVX-512: 31 of 32. A step of k has more FMAs than loads, so both FMA ports stay busy
 * with operands in the L1 cache.
 * Each element of C is one chain of FMAs in the order of k in every variant of the
 * tile, so results do not depend on how C was cut into tiles.
 */
#include "kernels.h"
#include "vec.h"

enum { MR = VEC_GEMM_MR, NR = VEC_GEMM_NR };

typedef struct tile {
  int64_t k;
  const float *a;
  int64_t a_row, a_col;
  const float *b;
  int64_t b_row;
  float *c;
  int64_t c_row;
  vm mask; /* of the last vector of a row */
} tile;

VEC_INLINE vf load_last(const float *p, vm mask, bool masked) {
  return masked ? vf_load_m(mask, p) : vf_load(p);
}

/* One step of k. rows, vectors and masked are constants where this is inlined. */
VEC_INLINE void step(const tile *t, const float *a, const float *b, int rows, int vectors,
                     bool masked, vf acc[MR][2]) {
  /* A base for each three rows: 0, 1 and 2 times the stride are addressing modes. */
  const float *base[(MR + 2) / 3];
#pragma GCC unroll 5
  for (int g = 0; g < (MR + 2) / 3; g++) {
    base[g] = a + 3 * g * t->a_row;
  }
  vf b0 = load_last(b, t->mask, masked && vectors == 1);
  vf b1 = vectors == 2 ? load_last(b + VF_LANES, t->mask, masked) : b0;
#pragma GCC unroll 14
  for (int i = 0; i < rows; i++) {
    vf x = vf_load1(base[i / 3] + i % 3 * t->a_row);
    vf_fma_into(&acc[i][0], x, b0);
    if (vectors == 2) {
      vf_fma_into(&acc[i][1], x, b1);
    }
  }
}

VEC_INLINE void store_tile(const tile *t, int rows, int vectors, bool masked_c, bool accumulate,
                           vf acc[MR][2]) {
#pragma GCC unroll 14
  for (int i = 0; i < rows; i++) {
    float *c = t->c + i * t->c_row;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      bool masked = masked_c && v == vectors - 1;
      vf sum = acc[i][v];
      if (accumulate) {
        sum = vf_add(sum, load_last(c + v * VF_LANES, t->mask, masked));
      }
      if (masked) {
        vf_store_m(t->mask, c + v * VF_LANES, sum);
      } else {
        vf_store(c + v * VF_LANES, sum);
      }
    }
  }
}

VEC_INLINE void run_tile(const tile *t, int rows, int vectors, bool masked_b, bool masked_c,
                         bool accumulate) {
  vf acc[MR][2];
#pragma GCC unroll 14
  for (int i = 0; i < rows; i++) {
    acc[i][0] = vf_zero();
    acc[i][1] = vf_zero();
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

#if VEC_REGISTERS == 32
#define MORE_HEIGHTS(vectors, masked_b, masked_c)                                                  \
  case 6: run_tile(t, 6, vectors, masked_b, masked_c, accumulate); break;                          \
  case 7: run_tile(t, 7, vectors, masked_b, masked_c, accumulate); break;                          \
  case 8: run_tile(t, 8, vectors, masked_b, masked_c, accumulate); break;                          \
  case 9: run_tile(t, 9, vectors, masked_b, masked_c, accumulate); break;                          \
  case 10: run_tile(t, 10, vectors, masked_b, masked_c, accumulate); break;                        \
  case 11: run_tile(t, 11, vectors, masked_b, masked_c, accumulate); break;                        \
  case 12: run_tile(t, 12, vectors, masked_b, masked_c, accumulate); break;                        \
  case 13:                                                                                         \
    run_tile(t, 13, vectors, masked_b, masked_c, accumulate);                                      \
    break;
#else
#define MORE_HEIGHTS(vectors, masked_b, masked_c)
#endif

/* Tiles of every height, in one width. */
#define TILE_HEIGHTS(vectors, masked_b, masked_c)                                                  \
  switch (rows) {                                                                                  \
  case 1: run_tile(t, 1, vectors, masked_b, masked_c, accumulate); break;                          \
  case 2: run_tile(t, 2, vectors, masked_b, masked_c, accumulate); break;                          \
  case 3: run_tile(t, 3, vectors, masked_b, masked_c, accumulate); break;                          \
  case 4: run_tile(t, 4, vectors, masked_b, masked_c, accumulate); break;                          \
  case 5:                                                                                          \
    run_tile(t, 5, vectors, masked_b, masked_c, accumulate);                                       \
    break;                                                                                         \
    MORE_HEIGHTS(vectors, masked_b, masked_c)                                                      \
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

void vec_gemm_strip(const cpu_gemm_strip *s) {
  int vectors = s->n > VF_LANES ? 2 : 1;
  tile t = {s->k,     s->a,     s->a_row,
            s->a_col, s->b,     s->b_row,
            s->c,     s->c_row, vm_first(s->n - (vectors - 1) * VF_LANES)};
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
