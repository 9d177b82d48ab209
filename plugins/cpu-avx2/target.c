// SPDX-License-Identifier: Apache-2.0
/* target.c - the plugin's note, and which kernels a CPU gets. */
#include "isa.h"
#include "kernels.h"

#include <mecantensor/plugin.h>

MT_PLUGIN_NOTE("cpu-avx2", 200,
               MT_CPU_X86_AVX | MT_CPU_X86_AVX2 | MT_CPU_X86_FMA | MT_CPU_X86_F16C |
                   MT_CPU_X86_BMI1 | MT_CPU_X86_BMI2 | MT_CPU_X86_POPCNT);

const cpu_target_info cpu_target = {.plugin_name = "cpu-avx2",
                                    .description = "x86-64 CPUs with AVX2 and FMA"};

#define KERNELS(dots_of_i8)                                                                        \
  {                                                                                                \
    .mr = VEC_GEMM_MR, .nr = VEC_GEMM_NR, .strip = vec_gemm_strip, .pack = vec_pack,               \
    .gemv_rows = vec_gemv_rows, .dots = vec_dots, .q8_0_rows = VEC_Q8_0_ROWS,                      \
    .q8_0_dots = vec_q8_0_dots, .q8_0_decode = vec_q8_0_decode, .i8_dots = dots_of_i8,             \
  }

static const cpu_gemm_kernels plain = KERNELS(vec_i8_dots);
static const cpu_gemm_kernels with_vnni = KERNELS(vec_i8_dots_vnni);

const cpu_gemm_kernels *cpu_choose_gemm(uint64_t cpu_features) {
  return cpu_features & MT_CPU_X86_AVX_VNNI ? &with_vnni : &plain;
}
