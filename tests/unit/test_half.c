// SPDX-License-Identifier: Apache-2.0
/* core/half.h on every 16-bit pattern, and rounding against rint() in units of the last place. */
#include "ops_common.h"

#include <half.h>

static double to_double(mt_dtype dtype, uint16_t bits) {
  return dtype == MT_F16 ? mt_f16_to_f32(bits) : mt_bf16_to_f32(bits);
}

static uint16_t from_float(mt_dtype dtype, float x) {
  return dtype == MT_F16 ? mt_f32_to_f16(x) : mt_f32_to_bf16(x);
}

static void check_patterns(mt_dtype dtype) {
  uint16_t quiet = dtype == MT_F16 ? 0x200 : 0x40;
  for (uint32_t i = 0; i <= 0xffff; i++) {
    uint16_t bits = (uint16_t)i;
    double value = to_double(dtype, bits), want = half_decode(dtype, bits);
    check_value(value, want, bits);
    EXPECT(isnan(want) || signbit(value) == signbit(want), "sign of %04x", bits);
    uint16_t back = from_float(dtype, (float)value);
    uint16_t expected = isnan(want) ? bits | quiet : bits;
    EXPECT(back == expected, "%04x came back as %04x", bits, back);
  }
}

static void check_rounding(mt_dtype dtype, float x) {
  double want = half_round(dtype, x);
  uint16_t bits = from_float(dtype, x), expected = half_encode(dtype, want);
  if (isnan(x)) {
    EXPECT(isnan(to_double(dtype, bits)), "%a gave %04x", (double)x, bits);
  } else {
    EXPECT(bits == expected, "%a: got %04x, want %04x", (double)x, bits, expected);
  }
}

/* At, just below and just above the middle of each two neighbours. */
static void check_middles(mt_dtype dtype) {
  uint16_t infinity = dtype == MT_F16 ? 0x7c00 : 0x7f80;
  for (uint16_t bits = 0; bits < infinity; bits++) {
    double low = half_decode(dtype, bits), high = half_decode(dtype, (uint16_t)(bits + 1));
    high = isinf(high) ? 2 * low - half_decode(dtype, (uint16_t)(bits - 1)) : high;
    float middle = (float)((low + high) / 2);
    for (int sign = -1; sign <= 1; sign += 2) {
      check_rounding(dtype, (float)sign * middle);
      check_rounding(dtype, (float)sign * nextafterf(middle, 0));
      check_rounding(dtype, (float)sign * nextafterf(middle, INFINITY));
    }
  }
}

static void check_any(mt_dtype dtype) {
  uint32_t bits = 1;
  for (int i = 0; i < 2000000; i++) {
    bits = bits * 1664525u + 1013904223u; /* visits all of 2^32 in turn */
    check_rounding(dtype, mt_f32_from_bits(bits));
  }
  check_rounding(dtype, 0.0f);
  check_rounding(dtype, -0.0f);
  check_rounding(dtype, INFINITY);
  check_rounding(dtype, -INFINITY);
}

START_TEST(test_f16_patterns) {
  check_patterns(MT_F16);
}
END_TEST
START_TEST(test_bf16_patterns) {
  check_patterns(MT_BF16);
}
END_TEST
START_TEST(test_f16_rounding) {
  check_middles(MT_F16);
  check_any(MT_F16);
}
END_TEST
START_TEST(test_bf16_rounding) {
  check_middles(MT_BF16);
  check_any(MT_BF16);
}
END_TEST

START_TEST(test_known) {
  ck_assert_uint_eq(mt_f32_to_f16(1.0f), 0x3c00);
  ck_assert_uint_eq(mt_f32_to_f16(65504.0f), 0x7bff);
  ck_assert_uint_eq(mt_f32_to_f16(65519.996f), 0x7bff);
  ck_assert_uint_eq(mt_f32_to_f16(65520.0f), 0x7c00);
  ck_assert_uint_eq(mt_f32_to_f16(0x1p-24f), 0x0001);
  ck_assert_uint_eq(mt_f32_to_f16(0x1p-25f), 0x0000);
  ck_assert_uint_eq(mt_f32_to_f16(0x1.000002p-25f), 0x0001);
  ck_assert_uint_eq(mt_f32_to_bf16(1.0f), 0x3f80);
  ck_assert_uint_eq(mt_f32_to_bf16(0x1.ffp127f), 0x7f80);
  ck_assert_uint_eq(mt_f32_to_bf16(0x1.fep127f), 0x7f7f);
}
END_TEST

TEST_MAIN(half, test_f16_patterns, test_bf16_patterns, test_f16_rounding, test_bf16_rounding,
          test_known)
