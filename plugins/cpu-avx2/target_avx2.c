// SPDX-License-Identifier: Apache-2.0
/* target_avx2.c - the plugin's note and its table of kernels. */
#include "kernels_avx2.h"

MT_PLUGIN_NOTE("cpu-avx2", 200,
               MT_CPU_X86_AVX | MT_CPU_X86_AVX2 | MT_CPU_X86_FMA | MT_CPU_X86_F16C |
                   MT_CPU_X86_BMI1 | MT_CPU_X86_BMI2 | MT_CPU_X86_POPCNT);

const cpu_kernels cpu_target = {
    .plugin_name = "cpu-avx2",
    .description = "x86-64 CPUs with AVX2 and FMA",
    .gemm =
        {
            .mr = 6,
            .nr = 16,
            .strip = avx2_gemm_strip,
            .pack = avx2_pack,
            .gemv_rows = avx2_gemv_rows,
            .dots = avx2_dots,
            .q8_0_rows = AVX2_Q8_0_ROWS,
            .q8_0_dots = avx2_q8_0_dots,
            .q8_0_decode = avx2_q8_0_decode,
        },
    .reduce =
        {
            .sum = avx2_sum,
            .max = avx2_max,
            .sum_rows = avx2_sum_rows,
            .max_rows = avx2_max_rows,
            .softmax = avx2_softmax,
            .softmax_rows = avx2_softmax_rows,
        },
    .move = {.cast = avx2_cast, .transpose_4 = avx2_transpose_4},
    .unary =
        {
            [CPU_RELU] = avx2_relu,
            [CPU_GELU] = avx2_gelu,
            [CPU_GELU_TANH] = avx2_gelu_tanh,
            [CPU_SILU] = avx2_silu,
            [CPU_SIGMOID] = avx2_sigmoid,
            [CPU_TANH] = avx2_tanh,
            [CPU_EXP] = avx2_exp,
            [CPU_LOG] = avx2_log,
            [CPU_SQRT] = avx2_sqrt,
            [CPU_SCALE] = avx2_scale,
        },
    .binary =
        {[CPU_ADD] = avx2_add, [CPU_SUB] = avx2_sub, [CPU_MUL] = avx2_mul, [CPU_DIV] = avx2_div},
};
