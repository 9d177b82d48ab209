// SPDX-License-Identifier: Apache-2.0
/*
 * ops_common.h - tensors of any dtype and layout from doubles and back, and rounding by other
 * means than the library's, for tests of the reference kernels.
 */
#ifndef MT_TESTS_OPS_COMMON_H
#define MT_TESTS_OPS_COMMON_H

#include "../harness.h"

#include <math.h>
#include <mecantensor/mecantensor.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define VALUES(...) ((const double[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})

static const mt_dtype float_types[] = {MT_F32, MT_F64, MT_F16, MT_BF16};
static const mt_dtype number_types[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,
                                        MT_U8,  MT_I16, MT_I32, MT_I64};
static const mt_dtype all_types[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,
                                     MT_U8,  MT_I16, MT_I32, MT_I64,  MT_BOOL};

static inline bool is_float_type(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_F16 || dtype == MT_BF16;
}

static inline mt_runtime *reference_runtime(void) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *rt = NULL;
  options.backend = "reference";
  ck_ok(mt_runtime_create(&options, &rt));
  return rt;
}

/* ---- 16-bit floats by arithmetic ------------------------------------------------------ */

typedef struct half_kind {
  int digits, lowest, exponent_bits; /* of the mantissa; exponent of the smallest normal */
  double largest;
} half_kind;

static inline half_kind half_kind_of(mt_dtype dtype) {
  return dtype == MT_F16 ? (half_kind){10, -14, 5, 65504.0}
                         : (half_kind){7, -126, 8, ldexp(255, 120)};
}

static inline double half_decode(mt_dtype dtype, uint16_t bits) {
  half_kind kind = half_kind_of(dtype);
  int mantissa = bits & ((1 << kind.digits) - 1);
  int exponent = bits >> kind.digits & ((1 << kind.exponent_bits) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << kind.exponent_bits) - 1) {
    return mantissa ? (double)NAN : sign * (double)INFINITY;
  }
  int scale = (exponent ? exponent - 1 : 0) + kind.lowest - kind.digits;
  return sign * ldexp(mantissa + (exponent ? 1 << kind.digits : 0), scale);
}

/* The nearest number of the type to x, ties to even: rint() in units of the last place. */
static inline double half_round(mt_dtype dtype, double x) {
  half_kind kind = half_kind_of(dtype);
  if (x == 0 || !isfinite(x)) {
    return x;
  }
  int exponent = ilogb(x) < kind.lowest ? kind.lowest : ilogb(x);
  double rounded = ldexp(rint(ldexp(x, kind.digits - exponent)), exponent - kind.digits);
  return fabs(rounded) > kind.largest ? copysign(INFINITY, x) : rounded;
}

/* The bits of x, which is a number of the type. */
static inline uint16_t half_encode(mt_dtype dtype, double x) {
  half_kind kind = half_kind_of(dtype);
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  int top = (1 << kind.exponent_bits) - 1;
  if (isnan(x)) {
    return (uint16_t)(sign | top << kind.digits | 1 << (kind.digits - 1));
  }
  if (isinf(x)) {
    return (uint16_t)(sign | top << kind.digits);
  }
  if (x == 0) {
    return sign;
  }
  int exponent = ilogb(x) < kind.lowest ? kind.lowest : ilogb(x);
  int units = (int)ldexp(fabs(x), kind.digits - exponent);
  /* adding the exponent of a normal number also adds its leading 1 */
  return (uint16_t)(sign | (units + ((exponent - kind.lowest) << kind.digits)));
}

static inline double round_to(mt_dtype dtype, double x) {
  return dtype == MT_F32 ? (double)(float)x : dtype == MT_F64 ? x : half_round(dtype, x);
}

/* ---- elements as doubles ------------------------------------------------------------------ */

static inline double element(mt_dtype dtype, const void *at) {
  union {
    float f32;
    double f64;
    uint16_t half;
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
  } u;
  memcpy(&u, at, mt_dtype_size(dtype));
  switch (dtype) {
  case MT_F32: return u.f32;
  case MT_F64: return u.f64;
  case MT_F16:
  case MT_BF16: return half_decode(dtype, u.half);
  case MT_I8: return u.i8;
  case MT_U8:
  case MT_BOOL: return u.u8;
  case MT_I16: return u.i16;
  case MT_I32: return u.i32;
  case MT_I64: return (double)u.i64;
  default: ck_abort_msg("dtype %d", (int)dtype);
  }
  return 0;
}

/* x has to be a number of the dtype, but for floats, which round. */
static inline void set_element(mt_dtype dtype, void *at, double x) {
  float f32 = (float)x;
  uint16_t half;
  int64_t i64;
  switch (dtype) {
  case MT_F32: memcpy(at, &f32, sizeof(f32)); break;
  case MT_F64: memcpy(at, &x, sizeof(x)); break;
  case MT_F16:
  case MT_BF16:
    half = half_encode(dtype, half_round(dtype, x));
    memcpy(at, &half, sizeof(half));
    break;
  default:
    i64 = (int64_t)x;
    memcpy(at, &i64, mt_dtype_size(dtype)); /* little endian: the low bytes */
    break;
  }
}

/* ---- tensors -------------------------------------------------------------------------- */

typedef enum layout { PACKED, TRANSPOSED, SLICED, NEGATIVE, MISALIGNED, LAYOUTS } layout;

static inline void free_memory(void *data, void *user) {
  (void)data;
  free(user);
}

/* Row-major index to the byte offset in a tensor. */
static inline int64_t offset_of(const mt_tensor *t, int64_t index) {
  int64_t offset = 0;
  for (int i = mt_tensor_rank(t) - 1; i >= 0; i--) {
    int64_t extent = mt_tensor_shape(t)[i];
    offset += index % extent * mt_tensor_strides(t)[i];
    index /= extent;
  }
  return offset * (int64_t)mt_dtype_size(mt_tensor_dtype(t));
}

static inline mt_tensor *wrapped(mt_dtype dtype, int rank, const int64_t *shape, bool negative) {
  int64_t stride[MT_MAX_RANK], elements = 1, first = 0;
  for (int i = rank - 1; i >= 0; i--) {
    stride[i] = negative ? -elements : elements;
    first += negative && shape[i] > 0 ? (shape[i] - 1) * elements : 0;
    elements *= shape[i];
  }
  int64_t size = (int64_t)mt_dtype_size(dtype);
  char *memory = calloc(1, (size_t)(elements * size) + 1);
  ck_assert_ptr_nonnull(memory);
  mt_tensor *t = NULL;
  ck_ok(mt_tensor_wrap(memory + (negative ? first * size : 1), dtype, rank, shape, stride,
                       free_memory, memory, &t));
  return t;
}

static inline mt_tensor *sliced(mt_dtype dtype, int rank, const int64_t *shape) {
  int64_t outer[MT_MAX_RANK] = {0};
  mt_tensor *t = NULL, *view = NULL;
  for (int i = 0; i < rank; i++) {
    outer[i] = 2 * shape[i] + 1;
  }
  ck_ok(mt_tensor_create(dtype, rank, outer, &t));
  for (int i = 0; i < rank; i++) {
    ck_ok(mt_tensor_slice(t, i, 1, 2 * shape[i] + 1, 2, &view));
    mt_tensor_release(&t);
    t = view;
  }
  return t;
}

static inline mt_tensor *transposed(mt_dtype dtype, int rank, const int64_t *shape) {
  int64_t back[MT_MAX_RANK] = {0};
  int axes[MT_MAX_RANK];
  mt_tensor *t = NULL, *view = NULL;
  for (int i = 0; i < rank; i++) {
    back[i] = shape[rank - 1 - i];
    axes[i] = rank - 1 - i;
  }
  ck_ok(mt_tensor_create(dtype, rank, back, &t));
  ck_ok(mt_tensor_permute(t, axes, &view));
  mt_tensor_release(&t);
  return view;
}

static inline mt_tensor *blank(mt_dtype dtype, int rank, const int64_t *shape, layout how) {
  mt_tensor *t = NULL;
  switch (how) {
  case TRANSPOSED: return transposed(dtype, rank, shape);
  case SLICED: return sliced(dtype, rank, shape);
  case NEGATIVE: return wrapped(dtype, rank, shape, true);
  case MISALIGNED: return wrapped(dtype, rank, shape, false);
  default: ck_ok(mt_tensor_create(dtype, rank, shape, &t)); return t;
  }
}

/* values in row-major order */
static inline mt_tensor *arrange(mt_dtype dtype, int rank, const int64_t *shape,
                                 const double *values, layout how) {
  mt_tensor *t = blank(dtype, rank, shape, how);
  void *data;
  ck_ok(mt_tensor_write(t, &data));
  for (int64_t i = 0; i < mt_tensor_elements(t); i++) {
    set_element(dtype, (char *)data + offset_of(t, i), values[i]);
  }
  return t;
}

static inline mt_tensor *make(mt_dtype dtype, int rank, const int64_t *shape,
                              const double *values) {
  return arrange(dtype, rank, shape, values, PACKED);
}

static inline double at(const mt_tensor *t, int64_t index) {
  const void *data;
  ck_ok(mt_tensor_read(t, &data));
  return element(mt_tensor_dtype(t), (const char *)data + offset_of(t, index));
}

/* 1 value for rank 0; whole numbers from lo, repeating after `period`. */
static inline void ramp(double *values, int64_t count, int period, double lo) {
  for (int64_t i = 0; i < count; i++) {
    values[i] = lo + (double)(i * 7 % period);
  }
}

static inline void check_shape(const mt_tensor *t, mt_dtype dtype, int rank, const int64_t *shape) {
  ck_assert_ptr_nonnull(t);
  ck_assert_str_eq(mt_dtype_name(mt_tensor_dtype(t)), mt_dtype_name(dtype));
  ck_assert_int_eq(mt_tensor_rank(t), rank);
  for (int i = 0; i < rank; i++) {
    ck_assert_int_eq(mt_tensor_shape(t)[i], shape[i]);
  }
}

/* As ck_assert_msg(), which leaves a mark in a file each time: too slow for every element. */
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      ck_abort_msg(__VA_ARGS__);                                                                   \
    }                                                                                              \
  } while (0)

/* Equal, NaN to NaN. */
static inline void check_value(double got, double want, int64_t index) {
  EXPECT(got == want || (isnan(got) && isnan(want)), "element %lld: got %.17g, want %.17g",
         (long long)index, got, want);
}

static inline void check_values(const mt_tensor *t, const double *want) {
  for (int64_t i = 0; i < mt_tensor_elements(t); i++) {
    check_value(at(t, i), want[i], i);
  }
}

static inline void check_near(const mt_tensor *t, const double *want, double relative) {
  for (int64_t i = 0; i < mt_tensor_elements(t); i++) {
    double got = at(t, i);
    EXPECT(fabs(got - want[i]) <= relative * fabs(want[i]) + 1e-17,
           "element %lld: got %.17g, want %.17g", (long long)i, got, want[i]);
  }
}

/* main() of a suite whose tests each have a runtime. */
static inline int run_ops_tests(const char *name, const TTest **tests, size_t count,
                                void (*setup)(void), void (*teardown)(void)) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, setup, teardown);
  for (size_t i = 0; i < count; i++) {
    tcase_add_test(tcase, tests[i]);
  }
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}

static inline void drop(mt_tensor *t) {
  mt_tensor_release(&t);
}

#endif
