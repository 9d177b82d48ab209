// SPDX-License-Identifier: Apache-2.0
/*
 * half.h - f16 and bf16 to and from f32, round to nearest even, on any machine.
 * IEEE 754-2019 binary16; bfloat16 is the upper half of binary32.
 */
#ifndef MT_CORE_HALF_H
#define MT_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mt_f32_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof(u));
  return u;
}

static inline float mt_f32_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof(x));
  return x;
}

static inline float mt_bf16_to_f32(uint16_t h) {
  return mt_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t mt_f32_to_bf16(float x) {
  uint32_t u = mt_f32_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)((u >> 16) | 0x40u); /* quiet NaN, payload kept where it fits */
  }
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float mt_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t exponent = (h >> 10) & 0x1fu;
  uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1fu) {
    return mt_f32_from_bits(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  }
  if (exponent == 0) {
    float value = (float)mantissa * 0x1p-24f; /* exact */
    return mt_f32_from_bits(sign | mt_f32_bits(value));
  }
  return mt_f32_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

static inline uint16_t mt_f32_to_f16(float x) {
  uint32_t u = mt_f32_bits(x);
  uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
  }
  if (u >= 0x477ff000u) { /* 65520 and up round to infinity */
    return (uint16_t)(sign | 0x7c00u);
  }
  if (u < 0x38800000u) {
    /* Below 2^-14 the spacing is 2^-24, the f32 spacing at 0.5: the addition rounds. */
    float shifted = mt_f32_from_bits(u) + 0.5f;
    return (uint16_t)(sign | (mt_f32_bits(shifted) - 0x3f000000u));
  }
  u += 0xfffu + ((u >> 13) & 1u);
  return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}

#endif
