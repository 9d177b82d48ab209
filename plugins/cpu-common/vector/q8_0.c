// SPDX-License-Identifier: Apache-2.0
/* q8_0.c - Q8_0: blocks of 34 bytes, an f16 scale (little endian) and 32 int8. */
#include "kernels.h"
#include "vec.h"

#include <string.h>

enum { BLOCK = CPU_BLOCK_ELEMENTS, BLOCK_BYTES = CPU_BLOCK_BYTES, VECTORS = BLOCK / VF_LANES };

VEC_INLINE float scale_of(const uint8_t *block) {
  uint16_t bits;
  memcpy(&bits, block, sizeof(bits));
  return _cvtsh_ss(bits);
}

/* Vector number v of the weights, without the scale */
VEC_INLINE vf weights(const uint8_t *block, int v) {
  return vf_of_int(vi_load_i8(block + 2 + v * VF_LANES));
}

VEC_INLINE void dot_block(int m, const uint8_t *block, const float *a, int64_t a_row,
                          vf acc[VEC_Q8_0_ROWS]) {
  vf w[VECTORS];
  for (int v = 0; v < VECTORS; v++) {
    w[v] = weights(block, v);
  }
  vf d = vf_set(scale_of(block));
  for (int i = 0; i < m; i++) {
    const float *x = a + i * a_row;
    vf s = vf_mul(w[0], vf_load(x));
    for (int v = 1; v < VECTORS; v++) {
      s = vf_fma(w[v], vf_load(x + v * VF_LANES), s);
    }
    acc[i] = vf_fma(s, d, acc[i]);
  }
}

/* m is a constant where this is inlined. tail: the last k % 32 elements of each row of
 * a, filled up with zeros. */
VEC_INLINE void dot_lines(int m, int64_t n, int64_t k, const float *a, int64_t a_row,
                          const float *tail, const uint8_t *b, int64_t b_row_bytes, float *y,
                          int64_t y_row) {
  for (int64_t j = 0; j < n; j++) {
    const uint8_t *block = b + j * b_row_bytes;
    vf acc[VEC_Q8_0_ROWS];
    for (int i = 0; i < m; i++) {
      acc[i] = vf_zero();
    }
    int64_t p = 0;
    for (; p + BLOCK <= k; p += BLOCK, block += BLOCK_BYTES) {
      dot_block(m, block, a + p, a_row, acc);
    }
    if (p < k) {
      dot_block(m, block, tail, BLOCK, acc);
    }
    for (int i = 0; i < m; i++) {
      y[i * y_row + j] = vf_sum(acc[i]);
    }
  }
}

void vec_q8_0_dots(int m, int64_t n, int64_t k, const float *a, int64_t a_row, const uint8_t *b,
                   int64_t b_row_bytes, float *y, int64_t y_row) {
  float tail[VEC_Q8_0_ROWS * BLOCK] = {0};
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

void vec_q8_0_decode(int64_t n, const uint8_t *src, float *dst) {
  for (; n > 0; n -= BLOCK, src += BLOCK_BYTES, dst += BLOCK) {
    vf d = vf_set(scale_of(src));
    for (int v = 0; v < VECTORS && v * VF_LANES < n; v++) {
      vf x = vf_mul(weights(src, v), d);
      if (n - v * VF_LANES >= VF_LANES) {
        vf_store(dst + v * VF_LANES, x);
      } else {
        vf_store_m(vm_first(n - v * VF_LANES), dst + v * VF_LANES, x);
      }
    }
  }
}
