// SPDX-License-Identifier: Apache-2.0
/* norm.c - moments of rows and their normalization; rotary embedding. */
#include "kernels.h"
#include "vec.h"

/* Squares are added in four vectors over so many elements, then in double. */
enum { SQUARE_BLOCK = 512 };

double vec_sum_squares(int64_t n, const float *x, float mean) {
  const vf m = vf_set(mean);
  vd total = vd_zero();
  while (n >= 4 * VF_LANES) {
    int64_t count = (n < SQUARE_BLOCK ? n : SQUARE_BLOCK) / (4 * VF_LANES) * (4 * VF_LANES);
    vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    for (int64_t i = 0; i < count; i += 4 * VF_LANES) {
      for (int v = 0; v < 4; v++) {
        vf d = vf_sub(vf_load(x + i + v * VF_LANES), m);
        s[v] = vf_fma(d, d, s[v]);
      }
    }
    s[0] = vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3]));
    total = vd_add(total, vd_widen_sum(s[0]));
    x += count;
    n -= count;
  }
  for (; n > 0; n -= VF_LANES, x += VF_LANES) {
    vm mask = vm_first(n);
    vf d = vf_keep(mask, vf_sub(vf_load_m(mask, x), m));
    total = vd_add(total, vd_widen_sum(vf_mul(d, d)));
  }
  return vd_sum(total);
}

VEC_INLINE vf load_param(const float *p, int64_t i, int step, vm mask) {
  return step ? vf_load_m(mask, p + i) : vf_load1(p);
}

/* weight, bias: known where this is inlined */
VEC_INLINE void normalize(int64_t n, const float *x, const cpu_normal *p, bool weight, bool bias,
                          float *y) {
  const vf mean = vf_set(p->mean), scale = vf_set(p->scale), shift = vf_set(p->shift);
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf z = vf_fma(vf_sub(vf_load_m(mask, x + i), mean), scale, shift);
    if (weight && bias) {
      z = vf_fma(z, load_param(p->weight, i, p->weight_step, mask),
                 load_param(p->bias, i, p->bias_step, mask));
    } else if (weight) {
      z = vf_mul(z, load_param(p->weight, i, p->weight_step, mask));
    } else if (bias) {
      z = vf_add(z, load_param(p->bias, i, p->bias_step, mask));
    }
    vf_store_m(mask, y + i, z);
  }
}

void vec_normalize(int64_t n, const float *x, const cpu_normal *p, float *y) {
  if (p->weight && p->bias) {
    normalize(n, x, p, true, true, y);
  } else if (p->weight) {
    normalize(n, x, p, true, false, y);
  } else if (p->bias) {
    normalize(n, x, p, false, true, y);
  } else {
    normalize(n, x, p, false, false, y);
  }
}

void vec_batch_norm(int64_t n, const float *x, const float *mean, const float *variance,
                    const float *weight, const float *bias, float epsilon, float *y) {
  const vf one = vf_set(1.0f), small = vf_set(epsilon);
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf scale = vf_div(one, vf_sqrt(vf_add(vf_load_m(mask, variance + i), small)));
    vf z = vf_mul(vf_sub(vf_load_m(mask, x + i), vf_load_m(mask, mean + i)), scale);
    z = weight ? vf_mul(z, vf_load_m(mask, weight + i)) : z;
    z = bias ? vf_add(z, vf_load_m(mask, bias + i)) : z;
    vf_store_m(mask, y + i, z);
  }
}

void vec_rotate(int64_t n, const float *a, const float *b, const float *cosine, const float *sine,
                float *y, float *z) {
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf p = vf_load_m(mask, a + i), q = vf_load_m(mask, b + i);
    vf c = vf_load_m(mask, cosine + i), s = vf_load_m(mask, sine + i);
    vf_store_m(mask, y + i, vf_fnma(q, s, vf_mul(p, c)));
    vf_store_m(mask, z + i, vf_fma(p, s, vf_mul(q, c)));
  }
}
