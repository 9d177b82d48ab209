// SPDX-License-Identifier: Apache-2.0
/*
 * vmath.h - exp, log, tanh and what is made of them, on vectors of floats.
 *
 * Polynomials are Chebyshev fits of the functions named, computed with 40 digits and
 * rounded to f32; docs/performance.md has the measured errors. Denormal results are as
 * good as the others. NaN gives NaN, infinities their limits.
 */
#ifndef VECTOR_MATH_H
#define VECTOR_MATH_H

#include "vec.h"

/* Horner's scheme, highest coefficient first. */
VEC_INLINE vf polynomial(vf x, const float *c, int count) {
  vf sum = vf_set(c[0]);
  for (int i = 1; i < count; i++) {
    sum = vf_fma(sum, x, vf_set(c[i]));
  }
  return sum;
}

VEC_INLINE vf power_of_two(vi n) {
  return vf_of_bits(vi_shl(vi_add(n, vi_set(127)), 23));
}

/* e^x = p * s1 * s2: two powers of two, so that neither overflows where e^x does not, and
 * a denormal result is rounded once. */
typedef struct exp_parts {
  vf p, s1, s2;
} exp_parts;

/* Beyond EXP_HIGH the result is infinite; below EXP_ZERO it is zero even when it is multiplied
 * by some hundred before it is rounded. s2 is zero there: an exact zero costs nothing, where
 * a product that underflows takes the processor a hundred cycles or more. */
enum { EXP_ZERO = -110, EXP_HIGH = 89 };

VEC_INLINE exp_parts exp_split(vf x) {
  static const float c[] = {0x1.a12a42p-13f, 0x1.6d492p-10f, 0x1.1110ep-7f,
                            0x1.5554e4p-5f,  0x1.555556p-3f, 0.5f}; /* (e^r - 1 - r) / r^2 */
  vm zero = vf_lt(x, vf_set(EXP_ZERO));
  x = vf_max(vf_set(EXP_ZERO), vf_min(vf_set(EXP_HIGH), x)); /* NaN stays */
  vf n = vf_round(vf_mul(x, vf_set(0x1.715476p0f)));
  vf r = vf_fnma(n, vf_set(0x1.62e43p-1f), x); /* log 2 in two parts */
  r = vf_fnma(n, vf_set(-0x1.05c61p-29f), r);
  vf q = polynomial(r, c, 6);
  exp_parts e;
  e.p = vf_add(vf_fma(vf_mul(r, r), q, r), vf_set(1.0f));
  vi i = vi_nearest(n);
  vi half = vi_sar(i, 1);
  e.s1 = power_of_two(half);
  e.s2 = vf_select(zero, vf_zero(), power_of_two(vi_sub(i, half)));
  return e;
}

VEC_INLINE vf exp_join(exp_parts e) {
  return vf_mul(vf_mul(e.p, e.s1), e.s2);
}

VEC_INLINE vf exp_v(vf x) {
  return exp_join(exp_split(x));
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f / (2 + f), R a polynomial in s^2: the
 * form of fdlibm's e_logf.c, which keeps the leading terms exact. */
VEC_INLINE vf log_v(vf x) {
  static const float c[] = {0x1.dddbaap-3f, 0x1.245c08p-2f, 0x1.9999ecp-2f, 0x1.555556p-1f};
  const vi root_half = vi_set(0x3f3504f3); /* m in sqrt(1/2) .. sqrt(2) */
  vm tiny = vf_lt(x, vf_set(0x1p-126f));
  vf y = vf_select(tiny, vf_mul(x, vf_set(0x1p23f)), x);
  vi bits = vi_sub(vi_of_bits(y), root_half);
  vf e = vf_of_int(vi_sar(bits, 23));
  e = vf_sub(e, vf_keep(tiny, vf_set(23.0f)));
  vi mantissa = vi_and(bits, vi_set(0x7fffff));
  vf m = vf_of_bits(vi_add(mantissa, root_half));
  vf f = vf_sub(m, vf_set(1.0f));
  vf s = vf_div(f, vf_add(f, vf_set(2.0f)));
  vf z = vf_mul(s, s);
  vf r = vf_mul(z, polynomial(z, c, 4));
  vf half_square = vf_mul(vf_mul(f, f), vf_set(0.5f));
  vf low = vf_mul(e, vf_set(-0x1.05c61p-29f));
  low = vf_fma(s, vf_add(half_square, r), low);
  vf result = vf_sub(f, vf_sub(half_square, low));
  result = vf_fma(e, vf_set(0x1.62e43p-1f), result);
  vm zero = vf_eq(x, vf_zero());
  vm negative = vf_lt(x, vf_zero());
  /* infinity and NaN are their own logarithms */
  vm special = vf_not_lt(x, vf_set(__builtin_inff()));
  result = vf_select(special, x, result);
  result = vf_select(zero, vf_set(-__builtin_inff()), result);
  return vf_select(negative, vf_set(__builtin_nanf("")), result);
}

VEC_INLINE vf tanh_v(vf x) {
  static const float c[] = {0x1.2c83cp-9f,   -0x1.116a16p-7f, 0x1.64a976p-6f,
                            -0x1.ba08c4p-5f, 0x1.1110eap-3f,  -0x1.555556p-2f};
  vf a = vf_abs(x);
  vf z = vf_mul(x, x);
  vf small = vf_fma(vf_mul(z, polynomial(z, c, 6)), x, x);
  vf e = exp_v(vf_add(a, a));
  vf big = vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), vf_add(e, vf_set(1.0f))));
  vf y = vf_select(vf_not_lt(a, vf_set(0.625f)), big, small);
  return vf_or(y, vf_and(x, vf_set(-0.0f))); /* of -0, too */
}

/* 1 / (1 + e^-x) and e^x / (1 + e^x): whichever does not overflow. */
VEC_INLINE vf sigmoid_v(vf x) {
  vf e = exp_v(vf_or(x, vf_set(-0.0f)));
  vf numerator = vf_select(vf_sign(x), e, vf_set(1.0f));
  return vf_div(numerator, vf_add(vf_set(1.0f), e));
}

/* x sigmoid(w), where e = e^-|w| in parts and x has the sign of w. For negative x, x e^w is
 * formed before it is rounded to what may be a denormal. */
VEC_INLINE vf times_sigmoid(vf x, exp_parts e) {
  vf scaled = vf_mul(vf_mul(vf_mul(x, e.p), e.s1), e.s2);
  vf numerator = vf_select(vf_sign(x), scaled, x);
  return vf_div(numerator, vf_add(vf_set(1.0f), exp_join(e)));
}

/* Left of `bound` the result is -0 (and x * 0 makes NaN of -infinity, as the formula does). */
VEC_INLINE vf zero_below(vf x, float bound, vf result) {
  vf zero = vf_mul(x, vf_zero());
  return vf_select(vf_lt(x, vf_set(bound)), zero, result);
}

VEC_INLINE vf silu_v(vf x) {
  vf y = times_sigmoid(x, exp_split(vf_or(x, vf_set(-0.0f))));
  return zero_below(x, -110.0f, y);
}

/* x/2 (1 + tanh u) = x sigmoid(2 u). 2 u = x (c1 + c2 x^2) is needed to far below one unit of
 * its last place, because e^2u turns absolute into relative errors: two floats. */
VEC_INLINE vf gelu_tanh_v(vf x) {
  const vf c1 = vf_set(0x1.988454p0f), c1_low = vf_set(-0x1.857936p-25f);
  const vf c2 = vf_set(0x1.2444f2p-4f), c2_low = vf_set(0x1.49b16ap-29f);
  vf v = vf_max(vf_set(-12.0f), vf_min(vf_set(12.0f), x));
  vf square = vf_mul(v, v);
  vf square_low = vf_fms(v, v, square);
  vf product = vf_mul(c2, square);
  vf product_low = vf_fms(c2, square, product);
  product_low = vf_fma(c2, square_low, product_low);
  product_low = vf_fma(c2_low, square, product_low);
  vf sum = vf_add(c1, product);
  /* the rounding error of the sum (Knuth's two-sum: either term may be the larger) */
  vf back = vf_sub(sum, c1);
  vf sum_low = vf_add(vf_sub(c1, vf_sub(sum, back)), vf_sub(product, back));
  sum_low = vf_add(vf_add(sum_low, product_low), c1_low);
  vf w = vf_mul(v, sum);
  vf w_low = vf_fma(v, sum_low, vf_fms(v, sum, w));
  exp_parts e = exp_split(vf_or(w, vf_set(-0.0f)));
  /* e^-|w + w_low| = e^-|w| (1 -+ w_low) */
  vf toward = vf_xor(w_low, vf_andnot(w, vf_set(-0.0f)));
  e.p = vf_fma(e.p, toward, e.p);
  return zero_below(x, -11.5f, times_sigmoid(x, e));
}

/* x Phi(x). With u = |x|: Phi(-u) = e^(-u^2/2) P(t) / (u + 3.5), t = (u - 3.5) / (u + 3.5);
 * near zero Phi(x) = 1/2 + x Q(x^2), which is more precise there. */
VEC_INLINE vf gelu_v(vf x) {
  static const float c[] = {0x1.01f8dp-13f, 0x1.ceceb6p-12f, -0x1.05aa26p-11f, -0x1.a249a2p-9f,
                            0x1.a974e2p-8f, 0x1.1d419ep-6f,  -0x1.db59fep-4f,  0x1.42feaep-2f,
                            -0x1.21915p-1f, 0x1.7d241ap-1f};
  static const float near_zero[] = {0x1.c1f18p-14f, -0x1.369604p-10f, 0x1.46cd8ap-7f,
                                    -0x1.105834p-4f, 0x1.988454p-2f};
  /* Right of 6.5 the result is x: no need for Phi(-u) to underflow. */
  vf far = vf_select(vf_sign(x), vf_set(15.0f), vf_set(6.5f));
  vf u = vf_min(far, vf_abs(x));
  vf d = vf_add(u, vf_set(3.5f));
  vf t = vf_div(vf_sub(u, vf_set(3.5f)), d);
  vf tail = vf_div(polynomial(t, c, 10), d);
  /* u^2 is exact in two parts: e^-u^2/2 turns absolute into relative errors. */
  vf square = vf_mul(u, u);
  vf square_low = vf_fms(u, u, square);
  exp_parts e = exp_split(vf_mul(square, vf_set(-0.5f)));
  e.p = vf_fnma(vf_mul(e.p, square_low), vf_set(0.5f), e.p);
  vf p = vf_mul(vf_mul(x, tail), e.p);
  vf x_tail = vf_mul(vf_mul(p, e.s1), e.s2); /* x Phi(-|x|) */
  vf y = vf_select(vf_sign(x), x_tail, vf_sub(x, x_tail));
  vf phi = vf_fma(x, polynomial(square, near_zero, 5), vf_set(0.5f));
  vm small = vf_lt(u, vf_set(0.6f));
  y = vf_select(small, vf_mul(x, phi), y);
  y = vf_select(vf_lt(vf_set(15.0f), x), x, y);
  return zero_below(x, -14.5f, y);
}

/* ---- sin, cos ------------------------------------------------------------------------- */
/* x = n pi/2 + r with |r| <= pi/4; n modulo 4 in q. In double, with pi/2 in two parts: r has all
 * its digits up to TRIG_LIMIT. Larger ones go another way. */
#define TRIG_LIMIT 0x1p28f

VEC_INLINE vd trig_reduce_half(vd x, vd *quadrant) {
  vd n = vd_round(vd_mul(x, vd_set(0x1.45f306dc9c883p-1)));
  vd r = vd_fnma(n, vd_set(0x1.921fb54442d18p+0), x);
  r = vd_fnma(n, vd_set(0x1.1a62633145c07p-54), r);
  *quadrant = vd_fnma(vd_round(vd_mul(n, vd_set(0.25))), vd_set(4.0), n);
  return r;
}

VEC_INLINE vf trig_reduce(vf x, vi *quadrant) {
  vd low, high;
  vd r_low = trig_reduce_half(vd_low(x), &low), r_high = trig_reduce_half(vd_high(x), &high);
  *quadrant = vi_nearest(vf_of_doubles(low, high));
  return vf_of_doubles(r_low, r_high);
}

/* sin(x + shift pi/2); |x| < TRIG_LIMIT or NaN */
VEC_INLINE vf sin_shifted(vf x, int shift) {
  static const float s[] = {0x1.6da928p-19f, -0x1.a01366p-13f, 0x1.11110ep-7f, -0x1.555556p-3f};
  static const float c[] = {-0x1.25165ap-22f, 0x1.a0159ap-16f, -0x1.6c16c0p-10f, 0x1.555556p-5f};
  vi q;
  vf r = trig_reduce(x, &q);
  q = vi_add(q, vi_set(shift));
  vf z = vf_mul(r, r);
  vf sine = vf_fma(vf_mul(r, z), polynomial(z, s, 4), r);
  vf half = vf_mul(z, vf_set(0.5f)), w = vf_sub(vf_set(1.0f), half);
  /* 1 - z/2 rounds: what it loses is added last */
  vf lost = vf_sub(vf_sub(vf_set(1.0f), w), half);
  vf cosine = vf_add(w, vf_fma(vf_mul(z, z), polynomial(z, c, 4), lost));
  vm odd = vf_ne(vf_of_int(vi_and(q, vi_set(1))), vf_zero());
  vi sign = vi_shl(vi_and(q, vi_set(2)), 30);
  vf y = vf_xor(vf_select(odd, cosine, sine), vf_of_bits(sign));
  return shift == 0 ? vf_or(vf_and(x, vf_keep(vf_eq(x, vf_zero()), vf_set(-0.0f))), y) : y;
}

/* ---- erf -------------------------------------------------------------------------------- */
/* Below 0.9 a polynomial; above 1 - erfc, where erfc(a) = 2 Phi(-u), u = a sqrt 2, as in gelu. */
VEC_INLINE vf erf_v(vf x) {
  static const float near[] = {-0x1.64087ep-17f, 0x1.e4a572p-14f, -0x1.be9ec0p-11f, 0x1.564c66p-8f,
                               -0x1.b82c52p-6f,  0x1.ce2f20p-4f,  -0x1.812746p-2f};
  static const float far[] = {0x1.01f8dp-13f, 0x1.ceceb6p-12f, -0x1.05aa26p-11f, -0x1.a249a2p-9f,
                              0x1.a974e2p-8f, 0x1.1d419ep-6f,  -0x1.db59fep-4f,  0x1.42feaep-2f,
                              -0x1.21915p-1f, 0x1.7d241ap-1f};
  vf a = vf_min(vf_set(4.0f), vf_abs(x)); /* NaN stays; erf(4) is 1 in f32 */
  vf z = vf_mul(a, a);
  vf q = vf_mul(z, polynomial(z, near, 7));
  vf small = vf_fma(a, q, vf_fma(a, vf_set(-0x1.f7ac92p-25f), vf_mul(a, vf_set(0x1.20dd76p0f))));
  vf u = vf_mul(a, vf_set(0x1.6a09e6p0f));
  vf d = vf_add(u, vf_set(3.5f));
  vf t = vf_div(vf_sub(u, vf_set(3.5f)), d);
  vf tail = vf_mul(vf_div(polynomial(t, far, 10), d), exp_v(vf_xor(z, vf_set(-0.0f))));
  vf big = vf_fnma(vf_set(2.0f), tail, vf_set(1.0f));
  vf y = vf_select(vf_lt(z, vf_set(0.81f)), small, big);
  return vf_or(vf_select(vf_is_nan(x), x, y), vf_and(x, vf_set(-0.0f)));
}

#endif
