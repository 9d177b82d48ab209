// SPDX-License-Identifier: Apache-2.0
/* reduce.c - sums, maxima and softmax. */
#include "kernels.h"
#include "vmath.h"

#include <math.h>

/* Floats are added in four vectors over so many elements, then in double. */
enum { SUM_BLOCK = 512, SUM_ROWS = 32 };

double vec_sum(int64_t n, const float *x) {
  vd total = vd_zero();
  while (n >= 4 * VF_LANES) {
    int64_t count = (n < SUM_BLOCK ? n : SUM_BLOCK) / (4 * VF_LANES) * (4 * VF_LANES);
    vf s[4];
    for (int v = 0; v < 4; v++) {
      s[v] = vf_load(x + v * VF_LANES);
    }
    for (int64_t i = 4 * VF_LANES; i < count; i += 4 * VF_LANES) {
      for (int v = 0; v < 4; v++) {
        s[v] = vf_add(s[v], vf_load(x + i + v * VF_LANES));
      }
    }
    s[0] = vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3]));
    total = vd_add(total, vd_widen_sum(s[0]));
    x += count;
    n -= count;
  }
  for (; n > 0; n -= VF_LANES, x += VF_LANES) {
    total = vd_add(total, vd_widen_sum(vf_load_m(vm_first(n), x)));
  }
  return vd_sum(total);
}

/* The largest (or smallest) so far, and which lanes saw a NaN. */
typedef struct extreme {
  vf value;
  vm nan;
} extreme;

VEC_INLINE void extreme_step(extreme *m, vf x, bool largest) {
  m->value = largest ? vf_max(m->value, x) : vf_min(m->value, x);
  m->nan = vm_or(m->nan, vf_is_nan(x));
}

VEC_INLINE float extreme_of(int64_t n, const float *x, bool largest) {
  const vf start = vf_set(largest ? -__builtin_inff() : __builtin_inff());
  extreme m[4];
  for (int v = 0; v < 4; v++) {
    m[v].value = start;
    m[v].nan = vm_none();
  }
  for (; n >= 4 * VF_LANES; n -= 4 * VF_LANES, x += 4 * VF_LANES) {
    for (int v = 0; v < 4; v++) {
      extreme_step(&m[v], vf_load(x + v * VF_LANES), largest);
    }
  }
  for (; n > 0; n -= VF_LANES, x += VF_LANES) {
    vm mask = vm_first(n);
    extreme_step(&m[0], vf_select(mask, vf_load_m(mask, x), start), largest);
  }
  for (int v = 1; v < 4; v++) {
    m[0].value = largest ? vf_max(m[0].value, m[v].value) : vf_min(m[0].value, m[v].value);
    m[0].nan = vm_or(m[0].nan, m[v].nan);
  }
  if (vm_any(m[0].nan)) {
    return __builtin_nanf("");
  }
  const vf flip = vf_set(-0.0f);
  return largest ? vf_largest(m[0].value) : -vf_largest(vf_xor(m[0].value, flip));
}

float vec_max(int64_t n, const float *x) {
  return extreme_of(n, x, true);
}

float vec_min(int64_t n, const float *x) {
  return extreme_of(n, x, false);
}

int64_t vec_find(int64_t n, const float *x, float value) {
  const vf wanted = vf_set(value);
  bool nan = value != value;
  int64_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    vf at = vf_load(x + i);
    if (vm_any(nan ? vf_is_nan(at) : vf_eq(at, wanted))) {
      break;
    }
  }
  const cpu_any_f32 *element = x;
  while (i < n && !(nan ? element[i] != element[i] : element[i] == value)) {
    i++;
  }
  return i;
}

static void add_widened(vf s, int64_t n, double *acc) {
  double lanes[VF_LANES];
  vd_store(lanes, vd_low(s));
  vd_store(lanes + VF_LANES / 2, vd_high(s));
  for (int64_t j = 0; j < n && j < VF_LANES; j++) {
    acc[j] += lanes[j];
  }
}

void vec_sum_rows(int64_t rows, int64_t n, const float *x, int64_t row, double *acc) {
  for (int64_t i = 0; i < rows; i += SUM_ROWS) {
    int64_t count = rows - i < SUM_ROWS ? rows - i : SUM_ROWS;
    int64_t j = 0;
    for (; j + 2 * VF_LANES <= n; j += 2 * VF_LANES) {
      const float *from = x + i * row + j;
      vf s0 = vf_load(from), s1 = vf_load(from + VF_LANES);
      for (int64_t r = 1; r < count; r++) {
        s0 = vf_add(s0, vf_load(from + r * row));
        s1 = vf_add(s1, vf_load(from + r * row + VF_LANES));
      }
      add_widened(s0, VF_LANES, acc + j);
      add_widened(s1, VF_LANES, acc + j + VF_LANES);
    }
    for (; j < n; j += VF_LANES) {
      vm mask = vm_first(n - j);
      vf s = vf_zero();
      for (int64_t r = 0; r < count; r++) {
        s = vf_add(s, vf_load_m(mask, x + (i + r) * row + j));
      }
      add_widened(s, n - j, acc + j);
    }
  }
}

VEC_INLINE void extreme_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc,
                             bool largest) {
  for (int64_t j = 0; j < n; j += VF_LANES) {
    vm mask = vm_first(n - j);
    vf m = vf_load_m(mask, acc + j);
    for (int64_t i = 0; i < rows; i++) {
      vf next = vf_load_m(mask, x + i * row + j);
      m = vf_select(vf_is_nan(m), m, largest ? vf_max(m, next) : vf_min(m, next));
    }
    vf_store_m(mask, acc + j, m);
  }
}

void vec_max_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc) {
  extreme_rows(rows, n, x, row, acc, true);
}

void vec_min_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc) {
  extreme_rows(rows, n, x, row, acc, false);
}

/* ---- softmax ---- */
void vec_softmax(int64_t n, const float *x, float *y) {
  float factor = (float)(1.0 / vec_exp_sum(n, x, vec_max(n, x), y));
  vec_scale(n, y, &factor, y);
}

void vec_log_softmax(int64_t n, const float *x, float *y) {
  float max = vec_max(n, x);
  vd total = vd_zero();
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf e = exp_v(vf_sub(vf_load_m(mask, x + i), vf_set(max)));
    total = vd_add(total, vd_widen_sum(vf_keep(mask, e)));
  }
  const vf low = vf_set((float)log(vd_sum(total)));
  for (int64_t i = 0; i < n; i += VF_LANES) {
    vm mask = vm_first(n - i);
    vf_store_m(mask, y + i, vf_sub(vf_sub(vf_load_m(mask, x + i), vf_set(max)), low));
  }
}

void vec_softmax_rows(int64_t rows, int64_t n, const float *x, int64_t x_row, float *y,
                      int64_t y_row) {
  for (int64_t j = 0; j < n; j += VF_LANES) {
    vm mask = vm_first(n - j);
    vf max = vf_set(-__builtin_inff());
    for (int64_t i = 0; i < rows; i++) {
      max = vf_max_or_nan(max, vf_load_m(mask, x + i * x_row + j));
    }
    vd low = vd_zero(), high = low;
    for (int64_t i = 0; i < rows; i++) {
      vf e = exp_v(vf_sub(vf_load_m(mask, x + i * x_row + j), max));
      vf_store_m(mask, y + i * y_row + j, e);
      low = vd_add(low, vd_low(e));
      high = vd_add(high, vd_high(e));
    }
    const vd one = vd_set(1.0);
    vf factor = vf_of_doubles(vd_div(one, low), vd_div(one, high));
    for (int64_t i = 0; i < rows; i++) {
      float *at = y + i * y_row + j;
      vf_store_m(mask, at, vf_mul(vf_load_m(mask, at), factor));
    }
  }
}
