// SPDX-License-Identifier: Apache-2.0
/* reduce_avx2.c - sums, maxima and softmax. */
#include "kernels_avx2.h"
#include "math_avx2.h"

/* Floats are added in four vectors over so many elements, then in double. */
enum { SUM_BLOCK = 512, SUM_ROWS = 32 };

double avx2_sum(int64_t n, const float *x) {
  __m256d total = _mm256_setzero_pd();
  while (n >= 4 * LANES) {
    int64_t count = (n < SUM_BLOCK ? n : SUM_BLOCK) / (4 * LANES) * (4 * LANES);
    __m256 s[4];
    for (int v = 0; v < 4; v++) {
      s[v] = _mm256_loadu_ps(x + v * LANES);
    }
    for (int64_t i = 4 * LANES; i < count; i += 4 * LANES) {
      for (int v = 0; v < 4; v++) {
        s[v] = _mm256_add_ps(s[v], _mm256_loadu_ps(x + i + v * LANES));
      }
    }
    s[0] = _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3]));
    total = _mm256_add_pd(total, widen_sum(s[0]));
    x += count;
    n -= count;
  }
  for (; n > 0; n -= LANES, x += LANES) {
    total = _mm256_add_pd(total, widen_sum(_mm256_maskload_ps(x, lane_mask(n))));
  }
  return horizontal_sum_pd(total);
}

typedef struct maximum {
  __m256 value, nan; /* nan: lanes that saw one */
} maximum;

AVX2_INLINE void max_step(maximum *m, __m256 x) {
  m->value = _mm256_max_ps(m->value, x);
  m->nan = _mm256_or_ps(m->nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

static float max_of_lanes(maximum m) {
  if (_mm256_movemask_ps(m.nan)) {
    return __builtin_nanf("");
  }
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(m.value), _mm256_extractf128_ps(m.value, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

float avx2_max(int64_t n, const float *x) {
  const __m256 lowest = constant(-__builtin_inff());
  maximum m[4];
  for (int v = 0; v < 4; v++) {
    m[v].value = lowest;
    m[v].nan = _mm256_setzero_ps();
  }
  for (; n >= 4 * LANES; n -= 4 * LANES, x += 4 * LANES) {
    for (int v = 0; v < 4; v++) {
      max_step(&m[v], _mm256_loadu_ps(x + v * LANES));
    }
  }
  for (; n > 0; n -= LANES, x += LANES) {
    __m256i mask = lane_mask(n);
    max_step(&m[0],
             _mm256_blendv_ps(lowest, _mm256_maskload_ps(x, mask), _mm256_castsi256_ps(mask)));
  }
  for (int v = 1; v < 4; v++) {
    m[0].value = _mm256_max_ps(m[0].value, m[v].value);
    m[0].nan = _mm256_or_ps(m[0].nan, m[v].nan);
  }
  return max_of_lanes(m[0]);
}

static void add_widened(__m256 s, int64_t n, double *acc) {
  double lanes[LANES];
  _mm256_storeu_pd(lanes, _mm256_cvtps_pd(_mm256_castps256_ps128(s)));
  _mm256_storeu_pd(lanes + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(s, 1)));
  for (int64_t j = 0; j < n && j < LANES; j++) {
    acc[j] += lanes[j];
  }
}

void avx2_sum_rows(int64_t rows, int64_t n, const float *x, int64_t row, double *acc) {
  for (int64_t i = 0; i < rows; i += SUM_ROWS) {
    int64_t count = rows - i < SUM_ROWS ? rows - i : SUM_ROWS;
    int64_t j = 0;
    for (; j + 2 * LANES <= n; j += 2 * LANES) {
      const float *from = x + i * row + j;
      __m256 s0 = _mm256_loadu_ps(from), s1 = _mm256_loadu_ps(from + LANES);
      for (int64_t r = 1; r < count; r++) {
        s0 = _mm256_add_ps(s0, _mm256_loadu_ps(from + r * row));
        s1 = _mm256_add_ps(s1, _mm256_loadu_ps(from + r * row + LANES));
      }
      add_widened(s0, LANES, acc + j);
      add_widened(s1, LANES, acc + j + LANES);
    }
    for (; j < n; j += LANES) {
      __m256i mask = lane_mask(n - j);
      __m256 s = _mm256_setzero_ps();
      for (int64_t r = 0; r < count; r++) {
        s = _mm256_add_ps(s, _mm256_maskload_ps(x + (i + r) * row + j, mask));
      }
      add_widened(s, n - j, acc + j);
    }
  }
}

/* max(a, b); NaN when one is. max_ps gives b when either is NaN. */
AVX2_INLINE __m256 max_or_nan(__m256 a, __m256 b) {
  return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

void avx2_max_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc) {
  for (int64_t j = 0; j < n; j += LANES) {
    __m256i mask = lane_mask(n - j);
    __m256 m = _mm256_maskload_ps(acc + j, mask);
    for (int64_t i = 0; i < rows; i++) {
      m = max_or_nan(m, _mm256_maskload_ps(x + i * row + j, mask));
    }
    _mm256_maskstore_ps(acc + j, mask, m);
  }
}

/* ---- softmax ---- */
/* y = exp(x - max); the sum of all */
static double exp_line(int64_t n, const float *x, __m256 max, float *y) {
  __m256d total = _mm256_setzero_pd();
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m256 e = exp_8(_mm256_sub_ps(_mm256_loadu_ps(x + i), max));
    _mm256_storeu_ps(y + i, e);
    total = _mm256_add_pd(total, widen_sum(e));
  }
  if (i < n) {
    __m256i mask = lane_mask(n - i);
    __m256 e = exp_8(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), max));
    _mm256_maskstore_ps(y + i, mask, e);
    total = _mm256_add_pd(total, widen_sum(_mm256_and_ps(e, _mm256_castsi256_ps(mask))));
  }
  return horizontal_sum_pd(total);
}

void avx2_softmax(int64_t n, const float *x, float *y) {
  double sum = exp_line(n, x, constant(avx2_max(n, x)), y);
  avx2_scale(n, y, (float)(1.0 / sum), y);
}

void avx2_softmax_rows(int64_t rows, int64_t n, const float *x, int64_t x_row, float *y,
                       int64_t y_row) {
  for (int64_t j = 0; j < n; j += LANES) {
    __m256i mask = lane_mask(n - j);
    __m256 max = constant(-__builtin_inff());
    for (int64_t i = 0; i < rows; i++) {
      max = max_or_nan(max, _mm256_maskload_ps(x + i * x_row + j, mask));
    }
    __m256d low = _mm256_setzero_pd(), high = low;
    for (int64_t i = 0; i < rows; i++) {
      __m256 e = exp_8(_mm256_sub_ps(_mm256_maskload_ps(x + i * x_row + j, mask), max));
      _mm256_maskstore_ps(y + i * y_row + j, mask, e);
      low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(e)));
      high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1)));
    }
    const __m256d one = _mm256_set1_pd(1.0);
    __m256 factor = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_div_pd(one, high)),
                                    _mm256_cvtpd_ps(_mm256_div_pd(one, low)));
    for (int64_t i = 0; i < rows; i++) {
      float *at = y + i * y_row + j;
      _mm256_maskstore_ps(at, mask, _mm256_mul_ps(_mm256_maskload_ps(at, mask), factor));
    }
  }
}
