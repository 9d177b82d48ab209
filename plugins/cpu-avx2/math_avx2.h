// SPDX-License-Identifier: Apache-2.0
/*
 * math_avx2.h - exp, log, tanh and what is made of them, on 8 floats.
 *
 * Polynomials are Chebyshev fits of the functions named, computed with 40 digits and
 * rounded to f32; docs/performance.md has the measured errors. Denormal results are as
 * good as the others. NaN gives NaN, infinities their limits.
 */
#ifndef MATH_AVX2_H
#define MATH_AVX2_H

#include "simd_avx2.h"

AVX2_INLINE __m256 constant(float x) {
  return _mm256_set1_ps(x);
}

AVX2_INLINE __m256 absolute(__m256 x) {
  return _mm256_andnot_ps(constant(-0.0f), x);
}

/* Horner's scheme, highest coefficient first. */
AVX2_INLINE __m256 polynomial(__m256 x, const float *c, int count) {
  __m256 sum = constant(c[0]);
  for (int i = 1; i < count; i++) {
    sum = _mm256_fmadd_ps(sum, x, constant(c[i]));
  }
  return sum;
}

AVX2_INLINE __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x = p * s1 * s2: two powers of two, so that neither overflows where e^x does not, and
 * a denormal result is rounded once. */
typedef struct exp_parts {
  __m256 p, s1, s2;
} exp_parts;

/* Beyond EXP_HIGH the result is infinite; below EXP_ZERO it is zero even when it is multiplied
 * by some hundred before it is rounded. s2 is zero there: an exact zero costs nothing, where
 * a product that underflows takes the processor a hundred cycles or more. */
enum { EXP_ZERO = -110, EXP_HIGH = 89 };

AVX2_INLINE exp_parts exp_split(__m256 x) {
  static const float c[] = {0x1.a12a42p-13f, 0x1.6d492p-10f, 0x1.1110ep-7f,
                            0x1.5554e4p-5f,  0x1.555556p-3f, 0.5f}; /* (e^r - 1 - r) / r^2 */
  __m256 zero = _mm256_cmp_ps(x, constant(EXP_ZERO), _CMP_LT_OQ);
  x = _mm256_max_ps(constant(EXP_ZERO), _mm256_min_ps(constant(EXP_HIGH), x)); /* NaN stays */
  __m256 n = _mm256_round_ps(_mm256_mul_ps(x, constant(0x1.715476p0f)),
                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, constant(0x1.62e43p-1f), x); /* log 2 in two parts */
  r = _mm256_fnmadd_ps(n, constant(-0x1.05c61p-29f), r);
  __m256 q = polynomial(r, c, 6);
  exp_parts e;
  e.p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r), constant(1.0f));
  __m256i i = _mm256_cvtps_epi32(n);
  __m256i half = _mm256_srai_epi32(i, 1);
  e.s1 = power_of_two(half);
  e.s2 = _mm256_andnot_ps(zero, power_of_two(_mm256_sub_epi32(i, half)));
  return e;
}

AVX2_INLINE __m256 exp_join(exp_parts e) {
  return _mm256_mul_ps(_mm256_mul_ps(e.p, e.s1), e.s2);
}

AVX2_INLINE __m256 exp_8(__m256 x) {
  return exp_join(exp_split(x));
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f / (2 + f), R a polynomial in s^2: the
 * form of fdlibm's e_logf.c, which keeps the leading terms exact. */
AVX2_INLINE __m256 log_8(__m256 x) {
  static const float c[] = {0x1.dddbaap-3f, 0x1.245c08p-2f, 0x1.9999ecp-2f, 0x1.555556p-1f};
  const __m256i root_half = _mm256_set1_epi32(0x3f3504f3); /* m in sqrt(1/2) .. sqrt(2) */
  __m256 tiny = _mm256_cmp_ps(x, constant(0x1p-126f), _CMP_LT_OQ);
  __m256 y = _mm256_blendv_ps(x, _mm256_mul_ps(x, constant(0x1p23f)), tiny);
  __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(y), root_half);
  __m256 e = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
  e = _mm256_sub_ps(e, _mm256_and_ps(tiny, constant(23.0f)));
  __m256i mantissa = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff));
  __m256 m = _mm256_castsi256_ps(_mm256_add_epi32(mantissa, root_half));
  __m256 f = _mm256_sub_ps(m, constant(1.0f));
  __m256 s = _mm256_div_ps(f, _mm256_add_ps(f, constant(2.0f)));
  __m256 z = _mm256_mul_ps(s, s);
  __m256 r = _mm256_mul_ps(z, polynomial(z, c, 4));
  __m256 half_square = _mm256_mul_ps(_mm256_mul_ps(f, f), constant(0.5f));
  __m256 low = _mm256_mul_ps(e, constant(-0x1.05c61p-29f));
  low = _mm256_fmadd_ps(s, _mm256_add_ps(half_square, r), low);
  __m256 result = _mm256_sub_ps(f, _mm256_sub_ps(half_square, low));
  result = _mm256_fmadd_ps(e, constant(0x1.62e43p-1f), result);
  __m256 zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
  __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
  /* infinity and NaN are their own logarithms */
  __m256 special = _mm256_cmp_ps(x, constant(__builtin_inff()), _CMP_NLT_UQ);
  result = _mm256_blendv_ps(result, x, special);
  result = _mm256_blendv_ps(result, constant(-__builtin_inff()), zero);
  return _mm256_blendv_ps(result, constant(__builtin_nanf("")), negative);
}

AVX2_INLINE __m256 tanh_8(__m256 x) {
  static const float c[] = {0x1.2c83cp-9f,   -0x1.116a16p-7f, 0x1.64a976p-6f,
                            -0x1.ba08c4p-5f, 0x1.1110eap-3f,  -0x1.555556p-2f};
  __m256 a = absolute(x);
  __m256 z = _mm256_mul_ps(x, x);
  __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(z, polynomial(z, c, 6)), x, x);
  __m256 e = exp_8(_mm256_add_ps(a, a));
  __m256 big = _mm256_sub_ps(constant(1.0f),
                             _mm256_div_ps(constant(2.0f), _mm256_add_ps(e, constant(1.0f))));
  __m256 y = _mm256_blendv_ps(small, big, _mm256_cmp_ps(a, constant(0.625f), _CMP_NLT_UQ));
  return _mm256_or_ps(y, _mm256_and_ps(x, constant(-0.0f))); /* of -0, too */
}

/* 1 / (1 + e^-x) and e^x / (1 + e^x): whichever does not overflow. */
AVX2_INLINE __m256 sigmoid_8(__m256 x) {
  __m256 e = exp_8(_mm256_or_ps(x, constant(-0.0f)));
  __m256 numerator = _mm256_blendv_ps(constant(1.0f), e, x);
  return _mm256_div_ps(numerator, _mm256_add_ps(constant(1.0f), e));
}

/* x sigmoid(w), where e = e^-|w| in parts and x has the sign of w. For negative x, x e^w is
 * formed before it is rounded to what may be a denormal. */
AVX2_INLINE __m256 times_sigmoid(__m256 x, exp_parts e) {
  __m256 scaled = _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(x, e.p), e.s1), e.s2);
  __m256 numerator = _mm256_blendv_ps(x, scaled, x);
  return _mm256_div_ps(numerator, _mm256_add_ps(constant(1.0f), exp_join(e)));
}

/* Left of `bound` the result is -0 (and x * 0 makes NaN of -infinity, as the formula does). */
AVX2_INLINE __m256 zero_below(__m256 x, float bound, __m256 result) {
  __m256 zero = _mm256_mul_ps(x, _mm256_setzero_ps());
  return _mm256_blendv_ps(result, zero, _mm256_cmp_ps(x, constant(bound), _CMP_LT_OQ));
}

AVX2_INLINE __m256 silu_8(__m256 x) {
  __m256 y = times_sigmoid(x, exp_split(_mm256_or_ps(x, constant(-0.0f))));
  return zero_below(x, -110.0f, y);
}

/* x/2 (1 + tanh u) = x sigmoid(2 u). 2 u = x (c1 + c2 x^2) is needed to far below one unit of
 * its last place, because e^2u turns absolute into relative errors: two floats. */
AVX2_INLINE __m256 gelu_tanh_8(__m256 x) {
  const __m256 c1 = constant(0x1.988454p0f), c1_low = constant(-0x1.857936p-25f);
  const __m256 c2 = constant(0x1.2444f2p-4f), c2_low = constant(0x1.49b16ap-29f);
  __m256 v = _mm256_max_ps(constant(-12.0f), _mm256_min_ps(constant(12.0f), x));
  __m256 square = _mm256_mul_ps(v, v);
  __m256 square_low = _mm256_fmsub_ps(v, v, square);
  __m256 product = _mm256_mul_ps(c2, square);
  __m256 product_low = _mm256_fmsub_ps(c2, square, product);
  product_low = _mm256_fmadd_ps(c2, square_low, product_low);
  product_low = _mm256_fmadd_ps(c2_low, square, product_low);
  __m256 sum = _mm256_add_ps(c1, product);
  /* the rounding error of the sum (Knuth's two-sum: either term may be the larger) */
  __m256 back = _mm256_sub_ps(sum, c1);
  __m256 sum_low =
      _mm256_add_ps(_mm256_sub_ps(c1, _mm256_sub_ps(sum, back)), _mm256_sub_ps(product, back));
  sum_low = _mm256_add_ps(_mm256_add_ps(sum_low, product_low), c1_low);
  __m256 w = _mm256_mul_ps(v, sum);
  __m256 w_low = _mm256_fmadd_ps(v, sum_low, _mm256_fmsub_ps(v, sum, w));
  exp_parts e = exp_split(_mm256_or_ps(w, constant(-0.0f)));
  /* e^-|w + w_low| = e^-|w| (1 -+ w_low) */
  __m256 toward = _mm256_xor_ps(w_low, _mm256_andnot_ps(w, constant(-0.0f)));
  e.p = _mm256_fmadd_ps(e.p, toward, e.p);
  return zero_below(x, -11.5f, times_sigmoid(x, e));
}

/* x Phi(x). With u = |x|: Phi(-u) = e^(-u^2/2) P(t) / (u + 3.5), t = (u - 3.5) / (u + 3.5);
 * near zero Phi(x) = 1/2 + x Q(x^2), which is more precise there. */
AVX2_INLINE __m256 gelu_8(__m256 x) {
  static const float c[] = {0x1.01f8dp-13f, 0x1.ceceb6p-12f, -0x1.05aa26p-11f, -0x1.a249a2p-9f,
                            0x1.a974e2p-8f, 0x1.1d419ep-6f,  -0x1.db59fep-4f,  0x1.42feaep-2f,
                            -0x1.21915p-1f, 0x1.7d241ap-1f};
  static const float near_zero[] = {0x1.c1f18p-14f, -0x1.369604p-10f, 0x1.46cd8ap-7f,
                                    -0x1.105834p-4f, 0x1.988454p-2f};
  /* Right of 6.5 the result is x: no need for Phi(-u) to underflow. */
  __m256 far = _mm256_blendv_ps(constant(6.5f), constant(15.0f), x);
  __m256 u = _mm256_min_ps(far, absolute(x));
  __m256 d = _mm256_add_ps(u, constant(3.5f));
  __m256 t = _mm256_div_ps(_mm256_sub_ps(u, constant(3.5f)), d);
  __m256 tail = _mm256_div_ps(polynomial(t, c, 10), d);
  /* u^2 is exact in two parts: e^-u^2/2 turns absolute into relative errors. */
  __m256 square = _mm256_mul_ps(u, u);
  __m256 square_low = _mm256_fmsub_ps(u, u, square);
  exp_parts e = exp_split(_mm256_mul_ps(square, constant(-0.5f)));
  e.p = _mm256_fnmadd_ps(_mm256_mul_ps(e.p, square_low), constant(0.5f), e.p);
  __m256 p = _mm256_mul_ps(_mm256_mul_ps(x, tail), e.p);
  __m256 x_tail = _mm256_mul_ps(_mm256_mul_ps(p, e.s1), e.s2); /* x Phi(-|x|) */
  __m256 y = _mm256_blendv_ps(_mm256_sub_ps(x, x_tail), x_tail, x);
  __m256 phi = _mm256_fmadd_ps(x, polynomial(square, near_zero, 5), constant(0.5f));
  __m256 small = _mm256_cmp_ps(u, constant(0.6f), _CMP_LT_OQ);
  y = _mm256_blendv_ps(y, _mm256_mul_ps(x, phi), small);
  y = _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, constant(15.0f), _CMP_GT_OQ));
  return zero_below(x, -14.5f, y);
}

#endif
