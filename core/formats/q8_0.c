// SPDX-License-Identifier: Apache-2.0
/*
 * q8_0.c - Q8_0: 32 signed bytes and one f16 scale, 8.5 bits a weight.
 *
 * Layout of a block, 34 bytes, the same as block_q8_0 of ggml (ggml-common.h):
 *   0  u16 little endian, the bits of the f16 scale d
 *   2  int8 q[32]; element i is d * q[i], q in -127 .. 127
 *
 * d is the f16 nearest to absmax / 127, or the next larger one when that would cut the
 * largest element by more than half a step (which happens with denormal scales only).
 * q is x / d rounded with the d that is stored. So no element is off by more than d / 2,
 * which is what the error bound says; with the smallest scale, 2^-24, this is 2^-25.
 * A block of zeros has scale 0. Magnitudes above 127.5 * 65504 have no scale: an error,
 * never a cut.
 */
#include "formats/format.h"

#include "error.h"
#include "half.h"

#include <math.h>

enum { Q8_ELEMENTS = 32, Q8_BYTES = 34, F16_LARGEST = 0x7bff };

#define Q8_LARGEST (127.5f * 65504.0f) /* 8351760, exact in f32 */

/* The bits of d for a block whose largest magnitude is absmax, 0 .. Q8_LARGEST. */
static uint16_t scale_for(float absmax) {
  uint16_t bits = mt_f32_to_f16(absmax / 127.0f);
  if (bits > F16_LARGEST) { /* between 127 and 127.5 times the largest f16 */
    bits = F16_LARGEST;
  }
  /* The bits of positive f16 count up with the value. 127.5 * d is exact: 19 bits. */
  return 127.5f * mt_f16_to_f32(bits) < absmax ? (uint16_t)(bits + 1) : bits;
}

static mt_status block_absmax(const float *src, int64_t first, int count, float *out) {
  float absmax = 0;
  for (int i = 0; i < count; i++) {
    float magnitude = fabsf(src[first + i]);
    if (!(magnitude <= Q8_LARGEST)) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "q8_0: element %lld is %g: expected a finite number of at most %.0f",
                     (long long)(first + i), (double)src[first + i], (double)Q8_LARGEST);
    }
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  *out = absmax;
  return MT_OK;
}

static mt_status q8_0_encode(const float *src, int64_t n, void *dst) {
  unsigned char *block = dst;
  for (int64_t first = 0; first < n; first += Q8_ELEMENTS, block += Q8_BYTES) {
    int count = n - first < Q8_ELEMENTS ? (int)(n - first) : Q8_ELEMENTS;
    float absmax = 0;
    MT_TRY(block_absmax(src, first, count, &absmax));
    uint16_t bits = scale_for(absmax);
    double d = mt_f16_to_f32(bits);
    block[0] = (unsigned char)(bits & 0xff);
    block[1] = (unsigned char)(bits >> 8);
    for (int i = 0; i < Q8_ELEMENTS; i++) {
      /* In double the quotient is exact enough to fall on the right side of .5 */
      double q = i < count && bits != 0 ? round((double)src[first + i] / d) : 0;
      q = q > 127 ? 127 : q < -127 ? -127 : q;
      block[2 + i] = (unsigned char)(int)q;
    }
  }
  return MT_OK;
}

static float block_scale(const unsigned char *block) {
  return mt_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
}

static int block_value(const unsigned char *block, int64_t i) {
  int byte = block[2 + i];
  return byte < 128 ? byte : byte - 256;
}

static void q8_0_decode(const void *src, int64_t n, float *dst) {
  const unsigned char *row = src;
  for (int64_t i = 0; i < n; i++) {
    const unsigned char *block = row + i / Q8_ELEMENTS * Q8_BYTES;
    dst[i] = block_scale(block) * (float)block_value(block, i % Q8_ELEMENTS); /* exact: 19 bits */
  }
}

static double q8_0_dot(const void *row, const float *x, int64_t n) {
  const unsigned char *block = row;
  double sum = 0;
  for (int64_t first = 0; first < n; first += Q8_ELEMENTS, block += Q8_BYTES) {
    int64_t count = n - first < Q8_ELEMENTS ? n - first : Q8_ELEMENTS;
    double part = 0;
    for (int64_t i = 0; i < count; i++) {
      part += block_value(block, i) * (double)x[first + i];
    }
    sum += block_scale(block) * part;
  }
  return sum;
}

static double q8_0_error_bound(double absmax) {
  if (!(absmax <= Q8_LARGEST)) {
    return INFINITY; /* encode refuses */
  }
  float largest = (float)absmax;
  if (largest < absmax) {
    largest = nextafterf(largest, INFINITY);
  }
  return 0.5 * mt_f16_to_f32(scale_for(largest));
}

extern const mt_format mt_format_q8_0;
const mt_format mt_format_q8_0 = {
    .id = "q8_0",
    .description = "32 int8 with one f16 scale, absmax / 127, round to nearest (ggml Q8_0)",
    .block_elements = Q8_ELEMENTS,
    .block_bytes = Q8_BYTES,
    .encode = q8_0_encode,
    .decode = q8_0_decode,
    .dot = q8_0_dot,
    .error_bound = q8_0_error_bound,
};
