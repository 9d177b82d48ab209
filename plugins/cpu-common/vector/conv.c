// SPDX-License-Identifier: Apache-2.0
/* conv.c - depthwise convolution, over the channels: weights stay in registers for some pixels. */
#include "kernels.h"
#include "vec.h"

enum { PIXELS = 4, VECTORS = 2 };

/* pixels, vectors, masked: known where this is inlined */
VEC_INLINE void block(int pixels, int vectors, bool masked, vm mask, const cpu_depthwise *d,
                      const float *x, const float *w, float *y) {
  vf sum[PIXELS][VECTORS];
  for (int p = 0; p < pixels; p++) {
    for (int v = 0; v < vectors; v++) {
      sum[p][v] = vf_zero();
    }
  }
  for (int64_t i = 0; i < d->kh; i++) {
    for (int64_t j = 0; j < d->kw; j++) {
      const float *from = x + i * d->row + j * d->pixel, *by = w + (i * d->kw + j) * d->tap;
      for (int v = 0; v < vectors; v++) {
        const float *weight = by + v * VF_LANES;
        vf b = masked ? vf_load_m(mask, weight) : vf_load(weight);
        for (int p = 0; p < pixels; p++) {
          const float *a = from + p * d->next + v * VF_LANES;
          sum[p][v] = vf_fma(masked ? vf_load_m(mask, a) : vf_load(a), b, sum[p][v]);
        }
      }
    }
  }
  for (int p = 0; p < pixels; p++) {
    for (int v = 0; v < vectors; v++) {
      float *to = y + p * d->out + v * VF_LANES;
      if (masked) {
        vf_store_m(mask, to, sum[p][v]);
      } else {
        vf_store(to, sum[p][v]);
      }
    }
  }
}

VEC_INLINE void channels(int pixels, int64_t n, const cpu_depthwise *d, const float *x,
                         const float *w, float *y) {
  int64_t c = 0;
  for (; c + VECTORS * VF_LANES <= n; c += VECTORS * VF_LANES) {
    block(pixels, VECTORS, false, vm_none(), d, x + c, w + c, y + c);
  }
  for (; c < n; c += VF_LANES) {
    block(pixels, 1, true, vm_first(n - c), d, x + c, w + c, y + c);
  }
}

void vec_depthwise(int64_t pixels, int64_t n, const cpu_depthwise *d, const float *x,
                   const float *w, float *y) {
  int64_t p = 0;
  for (; p + PIXELS <= pixels; p += PIXELS) {
    channels(PIXELS, n, d, x + p * d->next, w, y + p * d->out);
  }
  for (; p < pixels; p++) {
    channels(1, n, d, x + p * d->next, w, y + p * d->out);
  }
}
