// SPDX-License-Identifier: Apache-2.0
/*
 * int8.c - dot products of int8 in int32, exact modulo 2^32.
 *
 * Two builds of one kernel: bytes widened to 16 bits and multiplied in pairs, and VNNI, which
 * multiplies unsigned by signed bytes: 128 is added to one side, and 128 times the sum of the
 * other taken away at the end.
 */
#include "kernels.h"
#include "vec.h"

enum { ROWS = 4, COLS = VEC_REGISTERS == 32 ? 4 : 2, MOST = 64 };

/* Bytes of a step: of the widening kernel, of VNNI. */
enum { WIDE_STEP = 2 * VF_LANES, VNNI_STEP = 4 * VF_LANES };

/* The last bytes of a row, with zeros to a whole step. */
VEC_INLINE const void *padded(const int8_t *from, int64_t n, int8_t *room) {
  memset(room, 0, VNNI_STEP);
  memcpy(room, from, (size_t)n);
  return room;
}

#define DOT_TILE(name, target, step, load_a, load_b, dot)                                          \
  target static inline __attribute__((always_inline)) void name##_tile(                            \
      int rows, int cols, int64_t k, const int8_t *a, int64_t a_row, const int8_t *b,              \
      int64_t b_row, const int32_t *correction, int32_t *y, int64_t y_row) {                       \
    vi acc[ROWS][COLS], x[ROWS];                                                                   \
    for (int i = 0; i < rows; i++) {                                                               \
      for (int j = 0; j < cols; j++) {                                                             \
        acc[i][j] = vi_set(0);                                                                     \
      }                                                                                            \
    }                                                                                              \
    int64_t p = 0;                                                                                 \
    for (; p + (step) <= k; p += (step)) {                                                         \
      for (int i = 0; i < rows; i++) {                                                             \
        x[i] = load_a(a + i * a_row + p);                                                          \
      }                                                                                            \
      for (int j = 0; j < cols; j++) {                                                             \
        vi w = load_b(b + j * b_row + p);                                                          \
        for (int i = 0; i < rows; i++) {                                                           \
          acc[i][j] = dot(acc[i][j], x[i], w);                                                     \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    if (p < k) {                                                                                   \
      int8_t room[VNNI_STEP];                                                                      \
      for (int i = 0; i < rows; i++) {                                                             \
        x[i] = load_a(padded(a + i * a_row + p, k - p, room));                                     \
      }                                                                                            \
      for (int j = 0; j < cols; j++) {                                                             \
        vi w = load_b(padded(b + j * b_row + p, k - p, room));                                     \
        for (int i = 0; i < rows; i++) {                                                           \
          acc[i][j] = dot(acc[i][j], x[i], w);                                                     \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    for (int i = 0; i < rows; i++) {                                                               \
      for (int j = 0; j < cols; j++) {                                                             \
        uint32_t sum = (uint32_t)vi_sum(acc[i][j]) - (uint32_t)correction[j];                      \
        y[i * y_row + j] = (int32_t)sum;                                                           \
      }                                                                                            \
    }                                                                                              \
  }

/* All rows for `cols` columns; n columns. */
#define DOT_PANEL(name, target)                                                                    \
  target static void name##_panel(int64_t m, int cols, int64_t k, const int8_t *a, int64_t a_row,  \
                                  const int8_t *b, int64_t b_row, const int32_t *correction,       \
                                  int32_t *y, int64_t y_row) {                                     \
    int64_t i = 0;                                                                                 \
    for (; i + ROWS <= m; i += ROWS) {                                                             \
      if (cols == COLS) {                                                                          \
        name##_tile(ROWS, COLS, k, a + i * a_row, a_row, b, b_row, correction, y + i * y_row,      \
                    y_row);                                                                        \
      } else {                                                                                     \
        for (int j = 0; j < cols; j++) {                                                           \
          name##_tile(ROWS, 1, k, a + i * a_row, a_row, b + j * b_row, b_row, correction + j,      \
                      y + i * y_row + j, y_row);                                                   \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    for (; i < m; i++) {                                                                           \
      if (cols == COLS) {                                                                          \
        name##_tile(1, COLS, k, a + i * a_row, a_row, b, b_row, correction, y + i * y_row, y_row); \
      } else {                                                                                     \
        for (int j = 0; j < cols; j++) {                                                           \
          name##_tile(1, 1, k, a + i * a_row, a_row, b + j * b_row, b_row, correction + j,         \
                      y + i * y_row + j, y_row);                                                   \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

DOT_TILE(wide, , WIDE_STEP, vi_load_wide, vi_load_wide, vi_dot_wide)
DOT_PANEL(wide, )

void vec_i8_dots(int64_t m, int64_t n, int64_t k, const int8_t *a, int64_t a_row, const int8_t *b,
                 int64_t b_row, int32_t *y, int64_t y_row) {
  static const int32_t none[COLS];
  for (int64_t j = 0; j < n; j += COLS) {
    int cols = n - j < COLS ? (int)(n - j) : COLS;
    wide_panel(m, cols, k, a, a_row, b + j * b_row, b_row, none, y + j, y_row);
  }
}

DOT_TILE(vnni, VEC_VNNI, VNNI_STEP, vi_load_biased, vi_load_bytes, vi_dot_vnni)
DOT_PANEL(vnni, VEC_VNNI)

/* 128 times the sums of rows of b. */
VEC_VNNI static void corrections(int64_t n, int64_t k, const int8_t *b, int64_t b_row,
                                 int32_t *out) {
  const vi bias = vi_set((int32_t)0x80808080);
  for (int64_t j = 0; j < n; j++) {
    const int8_t *row = b + j * b_row;
    vi acc = vi_set(0);
    int64_t p = 0;
    for (; p + VNNI_STEP <= k; p += VNNI_STEP) {
      acc = vi_dot_vnni(acc, bias, vi_load_bytes(row + p));
    }
    if (p < k) {
      int8_t room[VNNI_STEP];
      acc = vi_dot_vnni(acc, bias, vi_load_bytes(padded(row + p, k - p, room)));
    }
    out[j] = vi_sum(acc);
  }
}

VEC_VNNI void vec_i8_dots_vnni(int64_t m, int64_t n, int64_t k, const int8_t *a, int64_t a_row,
                               const int8_t *b, int64_t b_row, int32_t *y, int64_t y_row) {
  int32_t correction[MOST];
  for (int64_t from = 0; from < n; from += MOST) {
    int64_t many = n - from < MOST ? n - from : MOST;
    corrections(many, k, b + from * b_row, b_row, correction);
    for (int64_t j = 0; j < many; j += COLS) {
      int cols = many - j < COLS ? (int)(many - j) : COLS;
      vnni_panel(m, cols, k, a, a_row, b + (from + j) * b_row, b_row, correction + j, y + from + j,
                 y_row);
    }
  }
}
