// SPDX-License-Identifier: Apache-2.0
/* tsi.c - one step of a state: rows are scaled, k v is added, and q reads them. */
#include "kernels.h"
#include "vec.h"

enum { AT_ONCE = 4 };

/* vectors, masked, infuse, read: known where this is inlined */
VEC_INLINE void columns(int vectors, bool masked, bool infuse, bool read, vm mask,
                        const cpu_tsi_step *s, int64_t j) {
  vf v[AT_ONCE], sum[AT_ONCE];
  for (int c = 0; c < vectors; c++) {
    const float *at = s->v + j + c * VF_LANES;
    v[c] = !infuse ? vf_zero() : masked ? vf_load_m(mask, at) : vf_load(at);
    sum[c] = vf_zero();
  }
  for (int64_t i = 0; i < s->rows; i++) {
    float *row = s->state + i * s->row + j;
    vf gate = infuse ? vf_load1(s->gate + i * s->gate_step) : vf_zero();
    vf key = infuse ? vf_load1(s->k + i) : vf_zero();
    vf query = read ? vf_load1(s->q + i) : vf_zero();
    for (int c = 0; c < vectors; c++) {
      float *at = row + c * VF_LANES;
      vf r = masked ? vf_load_m(mask, at) : vf_load(at);
      if (infuse) {
        r = vf_fma(r, gate, vf_mul(key, v[c]));
        if (masked) {
          vf_store_m(mask, at, r);
        } else {
          vf_store(at, r);
        }
      }
      sum[c] = read ? vf_fma(query, r, sum[c]) : sum[c];
    }
  }
  for (int c = 0; read && c < vectors; c++) {
    if (masked) {
      vf_store_m(mask, s->y + j + c * VF_LANES, sum[c]);
    } else {
      vf_store(s->y + j + c * VF_LANES, sum[c]);
    }
  }
}

VEC_INLINE void all_columns(bool infuse, bool read, const cpu_tsi_step *s) {
  int64_t j = 0;
  for (; j + AT_ONCE * VF_LANES <= s->cols; j += AT_ONCE * VF_LANES) {
    columns(AT_ONCE, false, infuse, read, vm_none(), s, j);
  }
  for (; j < s->cols; j += VF_LANES) {
    columns(1, true, infuse, read, vm_first(s->cols - j), s, j);
  }
}

void vec_tsi_step(const cpu_tsi_step *s) {
  if (s->k && s->q) {
    all_columns(true, true, s);
  } else if (s->k) {
    all_columns(true, false, s);
  } else {
    all_columns(false, true, s);
  }
}
