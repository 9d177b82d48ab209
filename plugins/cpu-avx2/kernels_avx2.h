// SPDX-License-Identifier: Apache-2.0
/* kernels_avx2.h - the parts of this plugin's kernel table, one for each *_avx2.c file. */
#ifndef KERNELS_AVX2_H
#define KERNELS_AVX2_H

#include "driver/kernels.h"
#include <mecantensor/plugin.h>

/* gemm_avx2.c */
void avx2_gemm_strip(const cpu_gemm_strip *strip);
/* pack_avx2.c */
void avx2_pack(int64_t k, int width, int room, const float *src, int64_t line, int64_t step,
               float *dst);
void avx2_transpose_4(int64_t rows, int64_t cols, const void *src, int64_t src_row, void *dst,
                      int64_t dst_row);
/* gemv_avx2.c */
void avx2_gemv_rows(int64_t k, int64_t n, const float *x, const float *b, int64_t b_row, float *y);
void avx2_dots(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, const float *b,
               int64_t b_row, float *y, int64_t y_row);
/* q8_0_avx2.c */
enum { AVX2_Q8_0_ROWS = 4 };
void avx2_q8_0_dots(int m, int64_t n, int64_t k, const float *a, int64_t a_row, const uint8_t *b,
                    int64_t b_row_bytes, float *y, int64_t y_row);
void avx2_q8_0_decode(int64_t n, const uint8_t *src, float *dst);

/* unary_avx2.c */
cpu_unary_fn avx2_relu, avx2_gelu, avx2_gelu_tanh, avx2_silu, avx2_sigmoid, avx2_tanh, avx2_exp,
    avx2_log, avx2_sqrt, avx2_scale;
cpu_binary_fn avx2_add, avx2_sub, avx2_mul, avx2_div;
/* reduce_avx2.c */
double avx2_sum(int64_t n, const float *x);
float avx2_max(int64_t n, const float *x);
void avx2_sum_rows(int64_t rows, int64_t n, const float *x, int64_t row, double *acc);
void avx2_max_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc);
void avx2_softmax(int64_t n, const float *x, float *y);
void avx2_softmax_rows(int64_t rows, int64_t n, const float *x, int64_t x_row, float *y,
                       int64_t y_row);
/* cast_avx2.c */
cpu_cast_fn *avx2_cast(int32_t from, int32_t to);

#endif
