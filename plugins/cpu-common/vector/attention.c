// SPDX-License-Identifier: Apache-2.0
/* attention.c - the softmax of a block of scores. */
#include "kernels.h"
#include "vmath.h"

/* Floats are added in two vectors over so many elements, then in double. */
enum { SUM_BLOCK = 512 };

double vec_exp_sum(int64_t n, const float *x, float shift, float *y) {
  const vf by = vf_set(shift);
  vd total = vd_zero();
  int64_t i = 0;
  while (i + 2 * VF_LANES <= n) {
    int64_t end = n - i < SUM_BLOCK ? n : i + SUM_BLOCK;
    vf s0 = vf_zero(), s1 = vf_zero();
    for (; i + 2 * VF_LANES <= end; i += 2 * VF_LANES) {
      vf e0 = exp_v(vf_sub(vf_load(x + i), by));
      vf e1 = exp_v(vf_sub(vf_load(x + i + VF_LANES), by));
      vf_store(y + i, e0);
      vf_store(y + i + VF_LANES, e1);
      s0 = vf_add(s0, e0);
      s1 = vf_add(s1, e1);
    }
    total = vd_add(total, vd_widen_sum(vf_add(s0, s1)));
  }
  for (; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf e = exp_v(vf_sub(vf_load_m(mask, x + i), by));
    vf_store_m(mask, y + i, e);
    total = vd_add(total, vd_widen_sum(vf_keep(mask, e)));
  }
  return vd_sum(total);
}

bool vec_all_finite(int64_t n, const float *x) {
  /* 0 times infinity and NaN are NaN */
  vf zeros[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  int64_t i = 0;
  for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES) {
    for (int v = 0; v < 4; v++) {
      zeros[v] = vf_fma(vf_load(x + i + v * VF_LANES), vf_zero(), zeros[v]);
    }
  }
  for (; i < n; i += VF_LANES) {
    zeros[0] = vf_fma(vf_load_m(vm_first(n - i), x + i), vf_zero(), zeros[0]);
  }
  vf all = vf_add(vf_add(zeros[0], zeros[1]), vf_add(zeros[2], zeros[3]));
  return !vm_any(vf_is_nan(all));
}
