// SPDX-License-Identifier: Apache-2.0
/* elementwise.c - elementwise kernels with one and two inputs. */
#include "kernels.h"
#include "vmath.h"

/* A function of this name and type that applies `expression` to x, 8 lanes at a time. */
#define UNARY(name, expression)                                                                    \
  void vec_##name(int64_t n, const float *in, float factor, float *out) {                          \
    (void)factor;                                                                                  \
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
UNARY(scale, vf_mul(x, vf_set(factor)))

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
