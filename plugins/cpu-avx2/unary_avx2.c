// SPDX-License-Identifier: Apache-2.0
/* unary_avx2.c - elementwise kernels with one and two inputs. */
#include "kernels_avx2.h"
#include "math_avx2.h"

/* A function of this name and type that applies `expression` to x, 8 lanes at a time. */
#define UNARY(name, expression)                                                                    \
  void avx2_##name(int64_t n, const float *in, float factor, float *out) {                         \
    (void)factor;                                                                                  \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES) {                                                           \
      __m256 x = _mm256_loadu_ps(in + i);                                                          \
      _mm256_storeu_ps(out + i, expression);                                                       \
    }                                                                                              \
    if (i < n) {                                                                                   \
      __m256i mask = lane_mask(n - i);                                                             \
      __m256 x = _mm256_maskload_ps(in + i, mask);                                                 \
      _mm256_maskstore_ps(out + i, mask, expression);                                              \
    }                                                                                              \
  }

UNARY(relu, _mm256_max_ps(_mm256_setzero_ps(), x)) /* NaN is the second operand: kept */
UNARY(gelu, gelu_8(x))
UNARY(gelu_tanh, gelu_tanh_8(x))
UNARY(silu, silu_8(x))
UNARY(sigmoid, sigmoid_8(x))
UNARY(tanh, tanh_8(x))
UNARY(exp, exp_8(x))
UNARY(log, log_8(x))
UNARY(sqrt, _mm256_sqrt_ps(x))
UNARY(scale, _mm256_mul_ps(x, constant(factor)))

AVX2_INLINE __m256 load_stepped(const float *p, int64_t i, int step) {
  return step ? _mm256_loadu_ps(p + i) : _mm256_broadcast_ss(p);
}

AVX2_INLINE __m256 load_stepped_tail(const float *p, int64_t i, int step, __m256i mask) {
  return step ? _mm256_maskload_ps(p + i, mask) : _mm256_broadcast_ss(p);
}

/* step_x, step_y are constants where this is inlined */
#define BINARY_LOOP(operation, step_x, step_y)                                                     \
  {                                                                                                \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES) {                                                           \
      __m256 x = load_stepped(a, i, step_x), y = load_stepped(b, i, step_y);                       \
      _mm256_storeu_ps(out + i, operation(x, y));                                                  \
    }                                                                                              \
    if (i < n) {                                                                                   \
      __m256i mask = lane_mask(n - i);                                                             \
      __m256 x = load_stepped_tail(a, i, step_x, mask);                                            \
      __m256 y = load_stepped_tail(b, i, step_y, mask);                                            \
      _mm256_maskstore_ps(out + i, mask, operation(x, y));                                         \
    }                                                                                              \
  }

/* out may be one of a and b, and where that has step 0 then n is 1. */
#define BINARY(name, operation)                                                                    \
  void avx2_##name(int64_t n, const float *a, int a_step, const float *b, int b_step,              \
                   float *out) {                                                                   \
    if (a_step && b_step) {                                                                        \
      BINARY_LOOP(operation, 1, 1)                                                                 \
    } else if (a_step) {                                                                           \
      BINARY_LOOP(operation, 1, 0)                                                                 \
    } else {                                                                                       \
      BINARY_LOOP(operation, 0, b_step)                                                            \
    }                                                                                              \
  }

BINARY(add, _mm256_add_ps)
BINARY(sub, _mm256_sub_ps)
BINARY(mul, _mm256_mul_ps)
BINARY(div, _mm256_div_ps)
