// SPDX-License-Identifier: Apache-2.0
/*
 * vec.h - the vector layer: kernels in this folder are written once over these names, and
 * compiled into each plugin with its own flags and its own isa.h.
 *
 *   VF_LANES               floats of a vector: 8, 16
 *   VEC_REGISTERS          vector registers, for the size of tiles: 16, 32 (a macro)
 *   VEC_GEMM_MR, _NR       the tile of the SGEMM micro-kernel
 *   vf, vi                 VF_LANES floats, as many int32
 *   vd                     VF_LANES / 2 doubles
 *   vm                     a mask: true or false for each lane
 *
 * Masks     vm_first(n): lanes 0 .. n-1 (n >= 0; more than there are: all); vm_none, vm_or,
 *           vm_and, vm_not, vm_any.
 * Floats    vf_load, vf_store: any alignment. vf_stream: past the caches, to an aligned address.
 * vf_load_m, vf_store_m: lanes of the mask; the others load as 0 and their memory is not touched.
 * vf_load1: one float for all lanes. vf_min, vf_max(a, b): b where either is NaN. vf_fma: a b + c,
 *           vf_fms: a b - c, vf_fnma: c - a b, each rounded once. vf_fma_into: *acc += a b.
 *           vf_and, vf_or, vf_xor: bits; vf_andnot: ~a & b. vf_round: to nearest even;
 *           vf_floor, vf_ceil.
 * Choosing  vf_lt, vf_le, vf_eq: false with NaN; vf_ne, vf_not_lt: true with NaN. vf_sign:
 *           lanes whose sign bit is set, for vf_select only. vf_select(m, a, b): a where m,
 *           else b. vf_keep(m, a): 0 where not m.
 * Integers  vi_shl, vi_shr, vi_sar (arithmetic). vi_of_bits, vf_of_bits: the same bits.
 *           vi_nearest, vi_trunc: INT32_MIN where the float does not fit; vf_of_int.
 * Narrow    vi_load_i8, _u8, _i16, _u16: VF_LANES elements, widened. vi_store_16, _8: the low
 *           bits of each lane. vf_load_f16, vf_store_f16, vf_load_bf16, vf_store_bf16: stores
 *           round to nearest even. *_n: the first n <= VF_LANES elements only.
 * Doubles   vd_low, vd_high: the lanes of a vf; vf_of_doubles(low, high): back, rounded. vd_add,
 *           _sub, _mul, _div, _fma, _fnma, _sqrt, _round as those of vf.
 * Across    vf_sum, vd_sum, vf_largest.
 */
#ifndef VEC_H
#define VEC_H

#include "isa.h"

/* Lanes as doubles, added pairwise. */
VEC_INLINE vd vd_widen_sum(vf v) {
  return vd_add(vd_low(v), vd_high(v));
}

/* 1 where true, else 0 */
VEC_INLINE vf vf_of_mask(vm m) {
  return vf_keep(m, vf_set(1.0f));
}

/* a where it is NaN, else the larger */
VEC_INLINE vf vf_max_or_nan(vf a, vf b) {
  return vf_select(vf_is_nan(a), a, vf_max(a, b));
}

VEC_INLINE vf vf_load_bf16(const void *p) {
  return vf_of_bits(vi_shl(vi_load_u16(p), 16));
}

VEC_INLINE void vf_store_bf16(void *p, vf x) {
  vi bits = vi_of_bits(x);
  vi odd = vi_and(vi_shr(bits, 16), vi_set(1));
  vi rounded = vi_add(bits, vi_add(odd, vi_set(0x7fff)));
  vi quiet = vi_or(bits, vi_set(0x400000));
  vi_store_16(p, vi_shr(vi_select(vf_is_nan(x), quiet, rounded), 16));
}

/* Ends of rows go through a whole vector on the stack. */
#define VEC_HALF_TAIL(name)                                                                        \
  VEC_INLINE vf vf_load_##name##_n(const void *p, int64_t n) {                                     \
    uint16_t lanes[VF_LANES] = {0};                                                                \
    memcpy(lanes, p, (size_t)n * sizeof(*lanes));                                                  \
    return vf_load_##name(lanes);                                                                  \
  }                                                                                                \
  VEC_INLINE void vf_store_##name##_n(void *p, int64_t n, vf x) {                                  \
    uint16_t lanes[VF_LANES];                                                                      \
    vf_store_##name(lanes, x);                                                                     \
    memcpy(p, lanes, (size_t)n * sizeof(*lanes));                                                  \
  }
VEC_HALF_TAIL(f16)
VEC_HALF_TAIL(bf16)

#endif
