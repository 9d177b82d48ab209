// SPDX-License-Identifier: Apache-2.0
/* gemv.c - kernels for few rows of A, which read B where it is. */
#include "kernels.h"
#include "vec.h"

/* y += sum of `rows` rows of b, each times its x. rows is a constant where inlined. */
VEC_INLINE void add_rows(int rows, int64_t n, const float *x, const float *b, int64_t b_row,
                         float *y) {
  vf factor[8];
  for (int r = 0; r < rows; r++) {
    factor[r] = vf_load1(x + r);
  }
  int64_t j = 0;
  for (; j + 2 * VF_LANES <= n; j += 2 * VF_LANES) {
    vf s0 = vf_load(y + j), s1 = vf_load(y + j + VF_LANES);
    for (int r = 0; r < rows; r++) {
      s0 = vf_fma(factor[r], vf_load(b + r * b_row + j), s0);
      s1 = vf_fma(factor[r], vf_load(b + r * b_row + j + VF_LANES), s1);
    }
    vf_store(y + j, s0);
    vf_store(y + j + VF_LANES, s1);
  }
  for (; j < n; j += VF_LANES) {
    vm mask = vm_first(n - j);
    vf s = vf_load_m(mask, y + j);
    for (int r = 0; r < rows; r++) {
      s = vf_fma(factor[r], vf_load_m(mask, b + r * b_row + j), s);
    }
    vf_store_m(mask, y + j, s);
  }
}

void vec_gemv_rows(int64_t k, int64_t n, const float *x, const float *b, int64_t b_row, float *y) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) {
    add_rows(8, n, x + p, b + p * b_row, b_row, y);
  }
  for (; p < k; p++) {
    add_rows(1, n, x + p, b + p * b_row, b_row, y);
  }
}

/* ---- dot products ---- */
enum { DOT_ROWS = 4, DOT_COLS = 8 };

/* y += a tile of rows x cols dot products, each one vector of partial sums: as many as fit in
 * the registers. Both counts are constants where this is inlined. */
VEC_INLINE void dot_tile(int rows, int cols, int64_t k, const float *a, int64_t a_row,
                         const float *b, int64_t b_row, float *y, int64_t y_row) {
  vf acc[DOT_ROWS][DOT_COLS];
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < cols; j++) {
      acc[i][j] = vf_zero();
    }
  }
  int64_t p = 0;
  for (; p + VF_LANES <= k; p += VF_LANES) {
    vf x[DOT_ROWS];
    for (int i = 0; i < rows; i++) {
      x[i] = vf_load(a + i * a_row + p);
    }
    for (int j = 0; j < cols; j++) {
      if (rows > 1) { /* the next tile's: few streams at a time leave memory idle */
        _mm_prefetch((const char *)(b + (j + cols) * b_row + p), _MM_HINT_T0);
      }
      vf w = vf_load(b + j * b_row + p);
      for (int i = 0; i < rows; i++) {
        vf_fma_into(&acc[i][j], x[i], w);
      }
    }
  }
  if (p < k) {
    vm mask = vm_first(k - p);
    for (int j = 0; j < cols; j++) {
      vf w = vf_load_m(mask, b + j * b_row + p);
      for (int i = 0; i < rows; i++) {
        vf_fma_into(&acc[i][j], vf_load_m(mask, a + i * a_row + p), w);
      }
    }
  }
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < cols; j++) {
      y[i * y_row + j] += vf_sum(acc[i][j]);
    }
  }
}

/* n columns for `rows` rows of a, `cols` at a time. */
#define DOT_PANEL(rows, cols)                                                                      \
  static void dot_panel_##rows(int64_t n, int64_t k, const float *a, int64_t a_row,                \
                               const float *b, int64_t b_row, float *y, int64_t y_row) {           \
    int64_t j = 0;                                                                                 \
    for (; j + cols <= n; j += cols) {                                                             \
      dot_tile(rows, cols, k, a, a_row, b + j * b_row, b_row, y + j, y_row);                       \
    }                                                                                              \
    for (; j < n; j++) {                                                                           \
      dot_tile(rows, 1, k, a, a_row, b + j * b_row, b_row, y + j, y_row);                          \
    }                                                                                              \
  }
DOT_PANEL(1, 8)
DOT_PANEL(2, 4)
DOT_PANEL(3, 4)
DOT_PANEL(4, 3)

static void dot_rows(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, const float *b,
                     int64_t b_row, float *y, int64_t y_row) {
  for (int64_t i = 0; i < m; i += DOT_ROWS) {
    const float *x = a + i * a_row;
    float *to = y + i * y_row;
    switch (m - i) {
    case 1: dot_panel_1(n, k, x, a_row, b, b_row, to, y_row); break;
    case 2: dot_panel_2(n, k, x, a_row, b, b_row, to, y_row); break;
    case 3: dot_panel_3(n, k, x, a_row, b, b_row, to, y_row); break;
    default: dot_panel_4(n, k, x, a_row, b, b_row, to, y_row); break;
    }
  }
}

enum { DOT_BLOCK = 24, DOT_DEPTH = 512 }; /* of b and of a: what stays in L1 */

void vec_dots(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, const float *b,
              int64_t b_row, float *y, int64_t y_row) {
  int64_t depth = m == 1 ? k : DOT_DEPTH;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      y[i * y_row + j] = 0.0f;
    }
  }
  for (int64_t j = 0; j < n; j += DOT_BLOCK) {
    int64_t cols = n - j < DOT_BLOCK ? n - j : DOT_BLOCK;
    for (int64_t p = 0; p < k; p += depth) {
      dot_rows(m, cols, k - p < depth ? k - p : depth, a + p, a_row, b + j * b_row + p, b_row,
               y + j, y_row);
    }
  }
}
