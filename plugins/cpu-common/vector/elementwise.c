// SPDX-License-Identifier: Apache-2.0
/* elementwise.c - elementwise kernels with one and two inputs. */
#include "kernels.h"
#include "vmath.h"

#include <math.h>

/* A function of this name and type that applies `expression` to x, 8 lanes at a time. */
#define UNARY(name, expression)                                                                    \
  void vec_##name(int64_t n, const float *in, const float *p, float *out) {                        \
    (void)p;                                                                                       \
    int64_t i = 0;                                                                                 \
    for (; i + VF_LANES <= n; i += VF_LANES) {                                                     \
      vf x = vf_load(in + i);                                                                      \
      vf_store(out + i, expression);                                                               \
    }                                                                                              \
    if (i < n) {                                                                                   \
      vm mask = vm_first(n - i);                                                                   \
      vf x = vf_load_m(mask, in + i);                                                              \
      vf_store_m(mask, out + i, expression);                                                       \
    }                                                                                              \
  }

UNARY(relu, vf_max(vf_zero(), x)) /* NaN is the second operand: kept */
UNARY(gelu, gelu_v(x))
UNARY(gelu_tanh, gelu_tanh_v(x))
UNARY(silu, silu_v(x))
UNARY(sigmoid, sigmoid_v(x))
UNARY(tanh, tanh_v(x))
UNARY(exp, exp_v(x))
UNARY(log, log_v(x))
UNARY(sqrt, vf_sqrt(x))
UNARY(erf, erf_v(x))
UNARY(rsqrt, vf_div(vf_set(1.0f), vf_sqrt(x)))
UNARY(reciprocal, vf_div(vf_set(1.0f), x))
UNARY(floor, vf_floor(x))
UNARY(ceil, vf_ceil(x))
UNARY(round, vf_round(x))
UNARY(neg, vf_xor(x, vf_set(-0.0f)))
UNARY(abs, vf_abs(x))
UNARY(scale, vf_mul(x, vf_set(p[0])))
UNARY(clamp, vf_min(vf_set(p[1]), vf_max(vf_set(p[0]), x))) /* NaN stays */

/* Angles that are too large for the vectors are rare: the C library reduces them with as many
 * digits of pi as that takes. */
static void trig(int64_t n, const float *in, int shift, float *out) {
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf x = vf_load_m(mask, in + i);
    vm large = vf_not_lt(vf_abs(x), vf_set(TRIG_LIMIT));
    vf y = shift ? sin_shifted(x, 1) : sin_shifted(x, 0);
    if (vm_any(large)) {
      float from[VF_LANES], to[VF_LANES];
      vf_store(from, x);
      vf_store(to, y);
      for (int j = 0; j < VF_LANES; j++) {
        if (!(fabsf(from[j]) < TRIG_LIMIT)) {
          to[j] = (float)(shift ? cos((double)from[j]) : sin((double)from[j]));
        }
      }
      y = vf_load(to);
    }
    vf_store_m(mask, out + i, y);
  }
}

void vec_sin(int64_t n, const float *in, const float *p, float *out) {
  (void)p;
  trig(n, in, 0, out);
}

void vec_cos(int64_t n, const float *in, const float *p, float *out) {
  (void)p;
  trig(n, in, 1, out);
}

VEC_INLINE vf load_stepped(const float *p, int64_t i, int step) {
  return step ? vf_load(p + i) : vf_load1(p);
}

VEC_INLINE vf load_stepped_tail(const float *p, int64_t i, int step, vm mask) {
  return step ? vf_load_m(mask, p + i) : vf_load1(p);
}

/* step_x, step_y are constants where this is inlined */
#define BINARY_LOOP(operation, step_x, step_y)                                                     \
  {                                                                                                \
    int64_t i = 0;                                                                                 \
    for (; i + VF_LANES <= n; i += VF_LANES) {                                                     \
      vf x = load_stepped(a, i, step_x), y = load_stepped(b, i, step_y);                           \
      vf_store(out + i, operation(x, y));                                                          \
    }                                                                                              \
    if (i < n) {                                                                                   \
      vm mask = vm_first(n - i);                                                                   \
      vf x = load_stepped_tail(a, i, step_x, mask);                                                \
      vf y = load_stepped_tail(b, i, step_y, mask);                                                \
      vf_store_m(mask, out + i, operation(x, y));                                                  \
    }                                                                                              \
  }

/* out may be one of a and b, and where that has step 0 then n is 1. */
#define BINARY(name, operation)                                                                    \
  void vec_##name(int64_t n, const float *a, int a_step, const float *b, int b_step, float *out) { \
    if (a_step && b_step) {                                                                        \
      BINARY_LOOP(operation, 1, 1)                                                                 \
    } else if (a_step) {                                                                           \
      BINARY_LOOP(operation, 1, 0)                                                                 \
    } else {                                                                                       \
      BINARY_LOOP(operation, 0, b_step)                                                            \
    }                                                                                              \
  }

BINARY(add, vf_add)
BINARY(sub, vf_sub)
BINARY(mul, vf_mul)
BINARY(div, vf_div)

/* NaN where either is; 0 above -0: the signs of equal numbers are joined. */
VEC_INLINE vf maximum_v(vf x, vf y) {
  vf z = vf_select(vf_lt(y, x), x, vf_select(vf_eq(x, y), vf_and(x, y), y));
  return vf_select(vf_is_nan(x), x, z);
}
VEC_INLINE vf minimum_v(vf x, vf y) {
  vf z = vf_select(vf_lt(x, y), x, vf_select(vf_eq(x, y), vf_or(x, y), y));
  return vf_select(vf_is_nan(x), x, z);
}

#define COMPARE(name, mask)                                                                        \
  VEC_INLINE vf name##_v(vf x, vf y) {                                                             \
    return vf_of_mask(mask);                                                                       \
  }
COMPARE(equal, vf_eq(x, y))
COMPARE(not_equal, vf_ne(x, y))
COMPARE(less, vf_lt(x, y))
COMPARE(less_equal, vf_le(x, y))
COMPARE(greater, vf_lt(y, x))
COMPARE(greater_equal, vf_le(y, x))

BINARY(maximum, maximum_v)
BINARY(minimum, minimum_v)
BINARY(equal, equal_v)
BINARY(not_equal, not_equal_v)
BINARY(less, less_v)
BINARY(less_equal, less_equal_v)
BINARY(greater, greater_v)
BINARY(greater_equal, greater_equal_v)

/* The C library's: its special cases are those that mt_pow() promises. */
void vec_pow(int64_t n, const float *a, int a_step, const float *b, int b_step, float *out) {
  const cpu_any_f32 *x = a, *y = b;
  cpu_any_f32 *z = out;
  for (int64_t i = 0; i < n; i++) {
    z[i] = powf(x[i * a_step], y[i * b_step]);
  }
}

#define WHERE(bits)                                                                                \
  {                                                                                                \
    typedef uint##bits##_t __attribute__((aligned(1), may_alias)) any;                             \
    const any *x = a, *y = b;                                                                      \
    any *z = dst;                                                                                  \
    if (condition_step && a_step && b_step) {                                                      \
      for (int64_t i = 0; i < n; i++) {                                                            \
        z[i] = truth[i] ? x[i] : y[i];                                                             \
      }                                                                                            \
      break;                                                                                       \
    }                                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                              \
      z[i] = truth[i * condition_step] ? x[i * a_step] : y[i * b_step];                            \
    }                                                                                              \
    break;                                                                                         \
  }

void vec_where(int64_t n, int size, const void *condition, int condition_step, const void *a,
               int a_step, const void *b, int b_step, void *dst) {
  const uint8_t *truth = condition;
  switch (size) {
  case 1: WHERE(8)
  case 2: WHERE(16)
  case 4: WHERE(32)
  default: WHERE(64)
  }
}

void vec_stream(size_t bytes, const void *src, void *dst) {
  enum { WIDTH = VF_LANES * sizeof(float) };
  const char *from = src;
  char *to = dst;
  size_t head = (WIDTH - (uintptr_t)to % WIDTH) % WIDTH;
  head = head < bytes ? head : bytes;
  memcpy(to, from, head);
  size_t at = head;
  for (; at + WIDTH <= bytes; at += WIDTH) {
    vf_stream((float *)(void *)(to + at), vf_load((const float *)(const void *)(from + at)));
  }
  memcpy(to + at, from + at, bytes - at);
}

void vec_stream_end(void) {
  _mm_sfence();
}
