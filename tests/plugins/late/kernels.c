// SPDX-License-Identifier: Apache-2.0
/* Kernels on contiguous operands, as plain as can be: they are to be right, not fast. */
#include "late.h"

#include <math.h>
#include <string.h>

void late_kernel_add(const late_work *work) {
  const float *a = work->in[0], *b = work->in[1];
  float *out = work->out;
  for (uint64_t i = 0; i < work->count; i++) {
    out[i] = a[i] + b[i];
  }
}

void late_kernel_mul(const late_work *work) {
  const float *a = work->in[0], *b = work->in[1];
  float *out = work->out;
  for (uint64_t i = 0; i < work->count; i++) {
    out[i] = a[i] * b[i];
  }
}

void late_kernel_relu(const late_work *work) {
  const float *x = work->in[0];
  float *out = work->out;
  for (uint64_t i = 0; i < work->count; i++) {
    out[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays */
  }
}

void late_kernel_copy(const late_work *work) {
  memcpy(work->out, work->in[0], work->bytes);
}

/* IEEE 754 binary16, from its definition. */
static double half_value(unsigned bits) {
  int exponent = (int)(bits >> 10 & 0x1f);
  double mantissa = bits & 0x3ff;
  double value = exponent == 0    ? ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                  : ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/* b[k][n] of a right operand [K, N]; q8_0 has its blocks along K, a line for each n. */
static double right(const late_work *work, const void *b, int64_t k, int64_t n) {
  if (work->b_row_bytes == 0) {
    return ((const float *)b)[k * work->n + n];
  }
  const unsigned char *block =
      (const unsigned char *)b + n * work->b_row_bytes + k / LATE_Q8_ELEMENTS * LATE_Q8_BYTES;
  return half_value(block[0] | (unsigned)block[1] << 8) *
         (signed char)block[2 + k % LATE_Q8_ELEMENTS];
}

static void matmul(const late_work *work, const float *a, const void *b, const float *bias,
                   float *out) {
  for (int64_t m = 0; m < work->m; m++) {
    for (int64_t n = 0; n < work->n; n++) {
      double sum = 0;
      for (int64_t k = 0; k < work->k; k++) {
        sum += a[m * work->k + k] * right(work, b, k, n);
      }
      int64_t at = m * work->n + n;
      sum =
          work->alpha * sum + (work->beta != 0 ? work->beta * out[at] : 0) + (bias ? bias[at] : 0);
      out[at] = (float)(work->relu && sum < 0 ? 0 : sum);
    }
  }
}

void late_kernel_matmul(const late_work *work) {
  const float *a = work->in[0], *b = work->in[1], *bias = work->in[2];
  float *out = work->out;
  for (int64_t i = 0; i < work->batch; i++) {
    matmul(work, a + i * work->m * work->k, b + i * work->b_step,
           bias ? bias + i * work->m * work->n : NULL, out + i * work->m * work->n);
  }
}
