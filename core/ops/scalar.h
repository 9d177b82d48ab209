// SPDX-License-Identifier: Apache-2.0
/* scalar.h - activation functions in double: as ops, and behind matmul. NaN stays NaN. */
#ifndef MT_CORE_OPS_SCALAR_H
#define MT_CORE_OPS_SCALAR_H

#include <math.h>
#include <mecantensor/ops.h>
#include <stddef.h>

static inline double mt_relu_f64(double x) {
  return x < 0 ? 0 : x;
}

/* x/2 (1 + erf(x/sqrt 2)) = x/2 erfc(-x/sqrt 2), which keeps its digits for x < 0. */
static inline double mt_gelu_f64(double x) {
  return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

/* x/2 (1 + tanh u) = x / (1 + exp(-2u)), for the same reason; u = sqrt(2/pi) (x + 0.044715 x^3). */
static inline double mt_gelu_tanh_f64(double x) {
  return x / (1 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
}

static inline double mt_silu_f64(double x) {
  return x / (1 + exp(-x));
}

static inline double mt_sigmoid_f64(double x) {
  return 1 / (1 + exp(-x));
}

/* The function of an mt_activation; NULL: none. */
static inline double (*mt_activation_f64(int64_t activation))(double) {
  switch (activation) {
  case MT_ACT_RELU: return mt_relu_f64;
  case MT_ACT_GELU: return mt_gelu_f64;
  case MT_ACT_GELU_TANH: return mt_gelu_tanh_f64;
  case MT_ACT_SILU: return mt_silu_f64;
  default: return NULL;
  }
}

#endif
