// SPDX-License-Identifier: Apache-2.0
/* rows.c - pieces of rows of any float type as adjacent floats, and back. */
#include "cpu.h"

bool cpu_is_real(int32_t dtype) {
  return dtype == MT_ABI_DTYPE_F32 || dtype == MT_ABI_DTYPE_F16 || dtype == MT_ABI_DTYPE_BF16;
}

const float *cpu_row_in(int32_t dtype, int64_t n, const char *src, int64_t step, float *buffer) {
  if (dtype == MT_ABI_DTYPE_F32) {
    if (step == 1) {
      return (const float *)src;
    }
    cpu_copy_strided(n, sizeof(float), src, step, (char *)buffer, 1);
    return buffer;
  }
  uint16_t narrow[CPU_ROW]; /* or bytes */
  if (step != 1) {
    cpu_copy_strided(n, cpu_dtype_size(dtype), src, step, (char *)narrow, 1);
    src = (const char *)narrow;
  }
  vec_cast(dtype, MT_ABI_DTYPE_F32)(n, src, buffer);
  return buffer;
}

void cpu_row_read(int32_t dtype, int64_t n, const char *src, int64_t step, float *to) {
  int size = cpu_dtype_size(dtype);
  if (dtype == MT_ABI_DTYPE_F32) {
    cpu_copy_strided(n, size, src, step, (char *)to, 1);
    return;
  }
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    cpu_row_in(dtype, cpu_min(CPU_ROW, n - i), src + i * step * size, step, to + i);
  }
}

void cpu_row_write(int32_t dtype, int64_t n, const float *row, char *dst, int64_t step) {
  int size = cpu_dtype_size(dtype);
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    cpu_row_out(dtype, cpu_min(CPU_ROW, n - i), row + i, dst + i * step * size, step);
  }
}

void cpu_row_out(int32_t dtype, int64_t n, const float *row, char *dst, int64_t step) {
  if (dtype == MT_ABI_DTYPE_F32) {
    if ((const char *)row != dst) {
      cpu_copy_strided(n, sizeof(float), (const char *)row, 1, dst, step);
    }
    return;
  }
  if (step == 1) {
    vec_cast(MT_ABI_DTYPE_F32, dtype)(n, row, dst);
    return;
  }
  uint16_t narrow[CPU_ROW]; /* or bytes */
  vec_cast(MT_ABI_DTYPE_F32, dtype)(n, row, narrow);
  cpu_copy_strided(n, cpu_dtype_size(dtype), (const char *)narrow, 1, dst, step);
}

bool cpu_all_real(const mt_op_v1 *op, mt_support_v1 *answer) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    int32_t dtype = cpu_in(op, i)->dtype;
    if (dtype != MT_ABI_DTYPE_NONE && !cpu_is_real(dtype)) {
      cpu_no(answer, "dtype %s: f32, f16, bf16 only", cpu_dtype_name(dtype));
      return false;
    }
  }
  answer->answer = MT_ABI_SUPPORT_YES;
  return true;
}
