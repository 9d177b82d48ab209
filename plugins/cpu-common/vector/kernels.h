// SPDX-License-Identifier: Apache-2.0
/*
 * kernels.h - what the driver calls: kernels on plain pointers, counts and element strides.
 *
 * A kernel has no state and never allocates. Counts are >= 1 unless a comment says otherwise;
 * pointers need no alignment. Kernels written over vec.h are plain functions: each plugin
 * has its own build of them. What a plugin chooses when it starts, by the features of the
 * CPU, is in tables of pointers.
 */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room that tiles on the stack need: no table may have larger mr, nr. */
enum { CPU_MR_MAX = 16, CPU_NR_MAX = 64 };

/* Operands may lie at any address: C code reads and writes their elements through these. */
typedef float cpu_any_f32 __attribute__((aligned(1)));
typedef int32_t cpu_any_i32 __attribute__((aligned(1)));
typedef int64_t cpu_any_i64 __attribute__((aligned(1)));

/* Q8_0: an f16 scale (little endian) and 32 int8. */
enum { CPU_BLOCK_ELEMENTS = 32, CPU_BLOCK_BYTES = 34 };

/*
 * C[0..m)[0..n) (+)= A B over k, for one strip of n <= nr columns. m is any number of
 * rows, done mr at a time. A packed strip of A has a_row = 1, a_col = mr,
 * a_step = mr * k; A as it is has a_step = mr * a_row. A packed strip of B has
 * b_row = nr and is readable up to nr columns (full_b); else only n are read.
 */
typedef struct cpu_gemm_strip {
  int64_t m, k;
  int n;
  bool full_b;
  bool accumulate; /* C += A B, else C = A B and C is not read */
  const float *a;
  int64_t a_row, a_col, a_step;
  const float *b;
  int64_t b_row;
  float *c; /* columns are adjacent */
  int64_t c_row;
} cpu_gemm_strip;

typedef struct cpu_gemm_kernels {
  int mr, nr;
  void (*strip)(const cpu_gemm_strip *strip);
  /* Packs `width` lines of k elements (element p of line i at src[i * line + p * step])
   * side by side: dst[p * room + i]. Lines width .. room-1 are filled with zeros. dst has
   * k * room elements and 8 more that may be overwritten. */
  void (*pack)(int64_t k, int width, int room, const float *src, int64_t line, int64_t step,
               float *dst);
  /* y[j] += sum over p of x[p] * b[p * b_row + j], p < k, j < n */
  void (*gemv_rows)(int64_t k, int64_t n, const float *x, const float *b, int64_t b_row, float *y);
  /* y[i * y_row + j] = sum over p of a[i * a_row + p] * b[j * b_row + p]; i < m, j < n;
   * k >= 0. For few rows: every b is read m / dots_rows times. */
  void (*dots)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, const float *b,
               int64_t b_row, float *y, int64_t y_row);
  /* The same with b in Q8_0: line j starts at b + j * b_row_bytes. m <= q8_0_rows. */
  int q8_0_rows;
  void (*q8_0_dots)(int m, int64_t n, int64_t k, const float *a, int64_t a_row, const uint8_t *b,
                    int64_t b_row_bytes, float *y, int64_t y_row);
  /* y[i * y_row + j] = sum over p of a[i * a_row + p] * b[j * b_row + p]; i < m, j < n, modulo
   * 2^32. */
  void (*i8_dots)(int64_t m, int64_t n, int64_t k, const int8_t *a, int64_t a_row, const int8_t *b,
                  int64_t b_row, int32_t *y, int64_t y_row);
  /* One line of n elements of Q8_0 to f32. */
  void (*q8_0_decode)(int64_t n, const uint8_t *src, float *dst);
} cpu_gemm_kernels;

typedef enum cpu_unary {
  CPU_RELU,
  CPU_GELU,
  CPU_GELU_TANH,
  CPU_SILU,
  CPU_SIGMOID,
  CPU_TANH,
  CPU_EXP,
  CPU_LOG,
  CPU_SQRT,
  CPU_SIN,
  CPU_COS,
  CPU_ERF,
  CPU_RSQRT,
  CPU_RECIPROCAL,
  CPU_FLOOR,
  CPU_CEIL,
  CPU_ROUND,
  CPU_NEG,
  CPU_ABS,
  CPU_SCALE, /* by p[0] */
  CPU_CLAMP, /* to p[0] .. p[1] */
  CPU_UNARY_COUNT
} cpu_unary;

typedef enum cpu_binary {
  CPU_ADD,
  CPU_SUB,
  CPU_MUL,
  CPU_DIV,
  CPU_MAXIMUM,
  CPU_MINIMUM,
  CPU_POW,
  CPU_EQUAL, /* comparisons: 1 or 0 */
  CPU_NOT_EQUAL,
  CPU_LESS,
  CPU_LESS_EQUAL,
  CPU_GREATER,
  CPU_GREATER_EQUAL,
  CPU_BINARY_COUNT
} cpu_binary;

/* y may be x. p: parameters of those that have any. */
typedef void cpu_unary_fn(int64_t n, const float *x, const float *p, float *y);
/* a_step, b_step: 1, or 0 (one value for all). y may be a or b. */
typedef void cpu_binary_fn(int64_t n, const float *a, int a_step, const float *b, int b_step,
                           float *y);

cpu_unary_fn vec_relu, vec_gelu, vec_gelu_tanh, vec_silu, vec_sigmoid, vec_tanh, vec_exp, vec_log,
    vec_sqrt, vec_sin, vec_cos, vec_erf, vec_rsqrt, vec_reciprocal, vec_floor, vec_ceil, vec_round,
    vec_neg, vec_abs, vec_scale, vec_clamp;
cpu_binary_fn vec_add, vec_sub, vec_mul, vec_div, vec_maximum, vec_minimum, vec_pow, vec_equal,
    vec_not_equal, vec_less, vec_less_equal, vec_greater, vec_greater_equal;
/* dst = condition ? a : b; elements of 1, 2, 4 or 8 bytes, steps 0 or 1, dst adjacent. */
void vec_where(int64_t n, int size, const void *condition, int condition_step, const void *a,
               int a_step, const void *b, int b_step, void *dst);

/* Copies past the caches. Other threads see it once this one has called vec_stream_end(). */
void vec_stream(size_t bytes, const void *src, void *dst);
void vec_stream_end(void);

/* ---- reduce.c ---- */
/* Sum of n adjacent floats; the error does not grow with n. */
double vec_sum(int64_t n, const float *x);
/* NaN if there is one. */
float vec_max(int64_t n, const float *x);
float vec_min(int64_t n, const float *x);
/* Where the first element is that equals value, or is NaN when value is; n when there is none. */
int64_t vec_find(int64_t n, const float *x, float value);
/* acc[j] += sum over i < rows of x[i * row + j], j < n */
void vec_sum_rows(int64_t rows, int64_t n, const float *x, int64_t row, double *acc);
/* acc[j] = max(acc[j], x[i * row + j]) over i < rows; NaN wins */
void vec_max_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc);
void vec_min_rows(int64_t rows, int64_t n, const float *x, int64_t row, float *acc);
/* y = exp(x - max) / sum over one line; or its logarithm. y may be x. */
void vec_softmax(int64_t n, const float *x, float *y);
void vec_log_softmax(int64_t n, const float *x, float *y);
/* softmax down each of n adjacent columns. */
void vec_softmax_rows(int64_t rows, int64_t n, const float *x, int64_t x_row, float *y,
                      int64_t y_row);

/* ---- norm.c ---- */
/* Sum of (x - mean)^2 over n adjacent floats; the error does not grow with n. */
double vec_sum_squares(int64_t n, const float *x, float mean);

/* y = ((x - mean) scale + shift) weight + bias; weight and bias may be NULL (1 and 0), their steps
 * are 0 (one value for all) or 1. */
typedef struct cpu_normal {
  float mean, scale, shift;
  const float *weight, *bias;
  int weight_step, bias_step;
} cpu_normal;
void vec_normalize(int64_t n, const float *x, const cpu_normal *p, float *y);

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias, each its own; the last two may be
 * NULL. */
void vec_batch_norm(int64_t n, const float *x, const float *mean, const float *variance,
                    const float *weight, const float *bias, float epsilon, float *y);

/* y = a cos - b sin, z = a sin + b cos; y may be a and z b. */
void vec_rotate(int64_t n, const float *a, const float *b, const float *cosine, const float *sine,
                float *y, float *z);

/* ---- attention.c ---- */
/* y = exp(x - shift); the sum of all. y may be x. */
double vec_exp_sum(int64_t n, const float *x, float shift, float *y);
/* Is no element infinite or NaN? */
bool vec_all_finite(int64_t n, const float *x);

/* ---- tsi.c ---- */
typedef struct cpu_tsi_step {
  int64_t rows, cols;
  float *state; /* rows x cols, rows `row` apart */
  int64_t row;
  const float *gate; /* of row i at i * gate_step */
  int64_t gate_step;
  const float *k, *v; /* k NULL: nothing is added */
  const float *q;     /* NULL: nothing is read */
  float *y;
} cpu_tsi_step;

/* state[i][j] = state[i][j] gate[i] + k[i] v[j], then y[j] = sum over i of q[i] state[i][j] */
void vec_tsi_step(const cpu_tsi_step *s);

/* ---- conv.c ---- */
typedef struct cpu_depthwise {
  int64_t kh, kw;
  int64_t row, pixel; /* from tap to tap in x */
  int64_t next;       /* from pixel to pixel in x, in y: out */
  int64_t tap;        /* from tap to tap in w */
  int64_t out;
} cpu_depthwise;

/* y[p * out + c] = sum over i < kh, j < kw of
 * x[p * next + i * row + j * pixel + c] w[(i * kw + j) * tap + c]; p < pixels, c < n */
void vec_depthwise(int64_t pixels, int64_t n, const cpu_depthwise *d, const float *x,
                   const float *w, float *y);

/* ---- cast.c ---- */
/* n adjacent elements of one type to another */
typedef void cpu_cast_fn(int64_t n, const void *src, void *dst);
/* NULL: this pair of MT_ABI_DTYPE_* is not there */
cpu_cast_fn *vec_cast(int32_t from, int32_t to);

/* ---- pack.c ---- */
void vec_pack(int64_t k, int width, int room, const float *src, int64_t line, int64_t step,
              float *dst);
/* dst[j * dst_row + i] = src[i * src_row + j]; i < rows, j < cols; 4-byte elements */
void vec_transpose_4(int64_t rows, int64_t cols, const void *src, int64_t src_row, void *dst,
                     int64_t dst_row);

/* ---- gemm.c, gemv.c, q8_0.c: members of cpu_gemm_kernels ---- */
void vec_gemm_strip(const cpu_gemm_strip *strip);
void vec_gemv_rows(int64_t k, int64_t n, const float *x, const float *b, int64_t b_row, float *y);
void vec_dots(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, const float *b,
              int64_t b_row, float *y, int64_t y_row);
enum { VEC_Q8_0_ROWS = 4 };
void vec_q8_0_dots(int m, int64_t n, int64_t k, const float *a, int64_t a_row, const uint8_t *b,
                   int64_t b_row_bytes, float *y, int64_t y_row);
void vec_q8_0_decode(int64_t n, const uint8_t *src, float *dst);

void vec_i8_dots(int64_t m, int64_t n, int64_t k, const int8_t *a, int64_t a_row, const int8_t *b,
                 int64_t b_row, int32_t *y, int64_t y_row);
/* For CPUs with AVX512_VNNI (in cpu-avx512) or AVX_VNNI (in cpu-avx2). */
void vec_i8_dots_vnni(int64_t m, int64_t n, int64_t k, const int8_t *a, int64_t a_row,
                      const int8_t *b, int64_t b_row, int32_t *y, int64_t y_row);

/* ---- the plugin that all of this is compiled into: target.c ---- */
typedef struct cpu_target_info {
  const char *plugin_name;
  const char *description;
} cpu_target_info;
extern const cpu_target_info cpu_target;

/* The kernels for a CPU with these MT_CPU_* features. */
const cpu_gemm_kernels *cpu_choose_gemm(uint64_t cpu_features);

#endif
