// SPDX-License-Identifier: Apache-2.0
/* Operands in every layout, their content, and the spacing of floating-point numbers. */
#include "conformance.h"

#include "half.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers: splitmix64 ------------------------------------------------------ */

static uint64_t next_random(conf *c) {
  uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void conf_seed(conf *c, uint64_t seed) {
  c->seed = c->random = seed;
}

uint32_t conf_below(conf *c, uint32_t n) {
  return (uint32_t)((next_random(c) >> 32) * n >> 32);
}

double conf_unit(conf *c) {
  return (double)(next_random(c) >> 11) * 0x1p-53;
}

/* ---- floating-point formats ---------------------------------------------------------- */

typedef struct float_format {
  int digits, min_exponent; /* of the significand; of the smallest normal number */
} float_format;

static float_format format_of(mt_dtype dtype) {
  switch (dtype) {
  case MT_F64: return (float_format){53, -1022};
  case MT_F16: return (float_format){11, -14};
  case MT_BF16: return (float_format){8, -126};
  default: return (float_format){24, -126};
  }
}

bool conf_is_float(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_F16 || dtype == MT_BF16;
}

double conf_spacing(mt_dtype dtype, double x) {
  float_format f = format_of(dtype);
  int exponent = x == 0 || !isfinite(x) ? f.min_exponent : ilogb(x);
  exponent = exponent < f.min_exponent ? f.min_exponent : exponent;
  return ldexp(1, exponent - (f.digits - 1));
}

double conf_roundoff(mt_dtype dtype) {
  return dtype == MT_F64 ? 0x1p-53 : 0x1p-24;
}

/* ---- elements ------------------------------------------------------------------------ */

double conf_element(mt_dtype dtype, const void *packed, int64_t i) {
  switch (dtype) {
  case MT_F32: return ((const float *)packed)[i];
  case MT_F64: return ((const double *)packed)[i];
  case MT_F16: return mt_f16_to_f32(((const uint16_t *)packed)[i]);
  case MT_BF16: return mt_bf16_to_f32(((const uint16_t *)packed)[i]);
  case MT_I8: return ((const int8_t *)packed)[i];
  case MT_U8:
  case MT_BOOL: return ((const uint8_t *)packed)[i];
  case MT_I16: return ((const int16_t *)packed)[i];
  case MT_I32: return ((const int32_t *)packed)[i];
  case MT_I64: return (double)((const int64_t *)packed)[i];
  default: return NAN;
  }
}

static void put_float(mt_dtype dtype, void *packed, int64_t i, double x) {
  switch (dtype) {
  case MT_F64: ((double *)packed)[i] = x; break;
  case MT_F16: ((uint16_t *)packed)[i] = mt_f32_to_f16((float)x); break;
  case MT_BF16: ((uint16_t *)packed)[i] = mt_f32_to_bf16((float)x); break;
  default: ((float *)packed)[i] = (float)x; break;
  }
}

/* The low bytes of x; bool: 0 or 1. */
static void put_integer(mt_dtype dtype, void *packed, int64_t i, int64_t x) {
  switch (dtype) {
  case MT_I64: ((int64_t *)packed)[i] = x; break;
  case MT_I32: ((int32_t *)packed)[i] = (int32_t)(uint32_t)x; break;
  case MT_I16: ((int16_t *)packed)[i] = (int16_t)(uint16_t)x; break;
  case MT_BOOL: ((uint8_t *)packed)[i] = (uint8_t)(x & 1); break;
  default: ((uint8_t *)packed)[i] = (uint8_t)x; break;
  }
}

/* The numbers where kernels go wrong, as the dtype has them. */
static double special(conf *c, mt_dtype dtype) {
  float_format f = format_of(dtype);
  double least_normal = ldexp(1, f.min_exponent);
  double largest = ldexp(2 - ldexp(1, 1 - f.digits), dtype == MT_F16 ? 15 : 127);
  if (dtype == MT_F64) {
    largest = DBL_MAX;
  }
  const double values[] = {NAN,
                           INFINITY,
                           -INFINITY,
                           0,
                           -0.0,
                           least_normal,
                           -least_normal,
                           least_normal / 2,
                           -least_normal / 4,
                           largest,
                           -largest,
                           1,
                           -1,
                           0.5,
                           -2,
                           3};
  return values[conf_below(c, sizeof(values) / sizeof(values[0]))];
}

static double random_float(conf *c, mt_dtype dtype, conf_fill fill) {
  static const double sparks[] = {NAN, INFINITY, -INFINITY};
  switch (fill.kind) {
  case CONF_UNIFORM: return fill.lo + conf_unit(c) * (fill.hi - fill.lo);
  case CONF_BITS:
    return ldexp(conf_unit(c) - 0.5,
                 (int)conf_below(c, dtype == MT_F16 ? 34 : 140) - (dtype == MT_F16 ? 17 : 70));
  case CONF_SPECIALS: return special(c, dtype);
  case CONF_SPARKS:
    if (conf_below(c, 40) == 0) {
      return sparks[conf_below(c, 3)];
    }
    break;
  case CONF_INTEGERS: break;
  }
  return fill.lo + conf_below(c, (uint32_t)(fill.hi - fill.lo) + 1);
}

static int64_t random_integer(conf *c, mt_dtype dtype, conf_fill fill) {
  if (fill.kind == CONF_BITS || fill.kind == CONF_SPECIALS) {
    /* the ends, too: INT_MIN / -1 is one of the traps */
    uint64_t top = UINT64_C(1) << (8 * mt_dtype_size(dtype) - 1);
    const uint64_t ends[] = {0, 1, UINT64_MAX, top, top - 1};
    return (int64_t)(conf_below(c, 4) == 0 ? ends[conf_below(c, 5)] : next_random(c));
  }
  int64_t x = (int64_t)fill.lo + conf_below(c, (uint32_t)(fill.hi - fill.lo) + 1);
  return dtype == MT_U8 && x < 0 ? -x : x;
}

static void fill_packed(conf *c, mt_dtype dtype, void *packed, int64_t count, conf_fill fill) {
  for (int64_t i = 0; i < count; i++) {
    if (conf_is_float(dtype)) {
      put_float(dtype, packed, i, random_float(c, dtype, fill));
    } else {
      put_integer(dtype, packed, i, random_integer(c, dtype, fill));
    }
  }
}

double *conf_values(conf *c, const mt_tensor *tensor) {
  int64_t count = mt_tensor_elements(tensor);
  size_t bytes = mt_tensor_bytes(tensor);
  if (count == 0) {
    return NULL;
  }
  void *packed = malloc(bytes);
  double *values = malloc((size_t)count * sizeof(*values));
  if (!packed || !values || mt_tensor_get(tensor, packed, bytes) != MT_OK) {
    free(packed);
    free(values);
    c->broken = true;
    return NULL;
  }
  for (int64_t i = 0; i < count; i++) {
    values[i] = conf_element(mt_tensor_dtype(tensor), packed, i);
  }
  free(packed);
  return values;
}

mt_tensor *conf_magnitudes(conf *c, const mt_tensor *tensor) {
  int64_t count = tensor ? mt_tensor_elements(tensor) : 0;
  double *values = tensor ? conf_values(c, tensor) : NULL;
  mt_tensor *out = NULL;
  for (int64_t i = 0; values && i < count; i++) {
    values[i] = isfinite(values[i]) ? fabs(values[i]) : 0;
  }
  if (tensor && mt_tensor_from_data(MT_F64, mt_tensor_rank(tensor), mt_tensor_shape(tensor),
                                    values ? (void *)values : (void *)&count, &out) != MT_OK) {
    c->broken = true;
  }
  free(values);
  return out;
}

double *conf_slack(conf *c, mt_tensor *tensor, double factor) {
  double *values = tensor ? conf_values(c, tensor) : NULL;
  for (int64_t i = 0; values && i < mt_tensor_elements(tensor); i++) {
    values[i] *= factor;
  }
  mt_tensor_release(&tensor);
  return values;
}

double *conf_constant_slack(conf *c, int64_t count, double value) {
  double *slack = malloc((size_t)(count > 0 ? count : 1) * sizeof(*slack));
  for (int64_t i = 0; slack && i < count; i++) {
    slack[i] = value;
  }
  c->broken = c->broken || !slack;
  return slack;
}

conf_layout conf_any_layout(conf *c) {
  return (conf_layout)conf_below(c, CONF_LAYOUTS);
}

double conf_largest(conf *c, const mt_tensor *tensor) {
  double *values = tensor ? conf_values(c, tensor) : NULL, largest = 0;
  for (int64_t i = 0; values && i < mt_tensor_elements(tensor); i++) {
    double x = fabs(values[i]);
    largest = isfinite(x) && x > largest ? x : largest;
  }
  free(values);
  return largest;
}

/* ---- layouts ------------------------------------------------------------------------- */

static void free_memory(void *data, void *user) {
  (void)data;
  free(user);
}

static int64_t count_of(int rank, const int64_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    n *= shape[i];
  }
  return n;
}

static mt_status make_transposed(mt_dtype dtype, int rank, const int64_t *shape,
                                 conf_operand *out) {
  int64_t stored[MT_MAX_RANK];
  int axes[MT_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    stored[i] = shape[rank - 1 - i];
    axes[i] = rank - 1 - i;
  }
  mt_status status = mt_tensor_create(dtype, rank, stored, &out->base);
  return status == MT_OK ? mt_tensor_permute(out->base, axes, &out->view) : status;
}

/* Slices axis after axis; a scalar is cut out of three. */
static mt_status make_sliced(mt_dtype dtype, int rank, const int64_t *shape, conf_operand *out) {
  int64_t stored[MT_MAX_RANK] = {3};
  int axes = rank > 0 ? rank : 1;
  for (int i = 0; i < rank; i++) {
    stored[i] = i == rank - 1 ? 2 * shape[i] + 1 : shape[i] + 2;
  }
  mt_status status = mt_tensor_create(dtype, axes, stored, &out->base);
  mt_tensor *view = mt_tensor_retain(out->base);
  for (int i = 0; status == MT_OK && i < axes; i++) {
    int64_t extent = rank > 0 ? shape[i] : 1, step = rank > 0 && i == rank - 1 ? 2 : 1;
    mt_tensor *next;
    status =
        mt_tensor_slice(view, i, 1, 1 + extent * step - (step - 1) * (extent > 0), step, &next);
    mt_tensor_release(&view);
    view = next;
  }
  if (status == MT_OK && rank == 0) {
    status = mt_tensor_reshape(view, 0, NULL, &out->view);
    mt_tensor_release(&view);
  } else {
    out->view = view;
  }
  return status;
}

static mt_status make_offset(mt_dtype dtype, int rank, const int64_t *shape, conf_operand *out) {
  int64_t count = count_of(rank, shape), stored = count + 1;
  mt_tensor *tail = NULL;
  mt_status status = mt_tensor_create(dtype, 1, &stored, &out->base);
  if (status == MT_OK) {
    status = mt_tensor_slice(out->base, 0, 1, stored, 1, &tail);
  }
  if (status == MT_OK) {
    status = mt_tensor_reshape(tail, rank, shape, &out->view);
  }
  mt_tensor_release(&tail);
  return status;
}

/* On memory of our own: one byte off, or from the end backwards. */
static mt_status make_wrapped(mt_dtype dtype, int rank, const int64_t *shape, bool reversed,
                              conf_operand *out) {
  int64_t stride[MT_MAX_RANK], step = reversed ? -1 : 1;
  size_t size = mt_dtype_size(dtype), bytes = (size_t)count_of(rank, shape) * size;
  for (int i = rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  char *memory = aligned_alloc(64, (bytes + 2 * size + 64) / 64 * 64);
  if (!memory) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  char *first = reversed ? memory + (bytes > 0 ? bytes - size : 0) : memory + 1;
  mt_status status =
      mt_tensor_wrap(first, dtype, rank, shape, stride, free_memory, memory, &out->view);
  if (status != MT_OK) {
    free(memory);
  }
  return status;
}

static mt_status make_broadcast(conf *c, mt_dtype dtype, int rank, const int64_t *shape,
                                conf_operand *out) {
  int64_t stored[MT_MAX_RANK];
  int always = rank > 0 ? (int)conf_below(c, (uint32_t)rank) : 0;
  for (int i = 0; i < rank; i++) {
    stored[i] = i == always || conf_below(c, 3) == 0 ? 1 : shape[i];
  }
  mt_status status = mt_tensor_create(dtype, rank, stored, &out->base);
  return status == MT_OK ? mt_tensor_broadcast(out->base, rank, shape, &out->view) : status;
}

static mt_status make_layout(conf *c, mt_dtype dtype, int rank, const int64_t *shape,
                             conf_layout layout, conf_operand *out) {
  switch (layout) {
  case CONF_TRANSPOSED: return make_transposed(dtype, rank, shape, out);
  case CONF_SLICED: return make_sliced(dtype, rank, shape, out);
  case CONF_BROADCAST: return make_broadcast(c, dtype, rank, shape, out);
  case CONF_OFFSET: return make_offset(dtype, rank, shape, out);
  case CONF_MISALIGNED: return make_wrapped(dtype, rank, shape, false, out);
  case CONF_REVERSED: return make_wrapped(dtype, rank, shape, true, out);
  default: return mt_tensor_create(dtype, rank, shape, &out->view);
  }
}

void conf_operand_release(conf_operand *operand) {
  mt_tensor_release(&operand->view);
  mt_tensor_release(&operand->base);
}

/* fill NULL: 0xff everywhere. */
static mt_status set_content(conf *c, mt_tensor *tensor, const conf_fill *fill) {
  size_t bytes = mt_tensor_bytes(tensor);
  void *packed = malloc(bytes ? bytes : 1);
  if (!packed) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  memset(packed, 0xff, bytes);
  if (fill) {
    fill_packed(c, mt_tensor_dtype(tensor), packed, mt_tensor_elements(tensor), *fill);
  }
  mt_status status = mt_tensor_set(tensor, packed, bytes);
  free(packed);
  return status;
}

static conf_operand give_up(conf *c, conf_operand *operand) {
  conf_operand_release(operand);
  c->broken = true;
  return *operand;
}

bool conf_left_out(const conf *c, long number) {
  return c->thin > 1 && ((uint64_t)number + c->seed) % c->thin != 0;
}

conf_operand conf_make(conf *c, mt_dtype dtype, int rank, const int64_t *shape, conf_layout layout,
                       conf_fill fill) {
  if (conf_left_out(c, c->number + 1)) {
    return (conf_operand){NULL, NULL};
  }
  conf_operand operand = {NULL, NULL};
  mt_status status = make_layout(c, dtype, rank, shape, layout, &operand);
  if (status == MT_OK) { /* a broadcast view is not written: its source is */
    status = set_content(c, layout == CONF_BROADCAST ? operand.base : operand.view, &fill);
  }
  mt_tensor_release(&operand.base);
  return status == MT_OK ? operand : give_up(c, &operand);
}

conf_operand conf_make_out(conf *c, mt_dtype dtype, int rank, const int64_t *shape,
                           conf_layout layout) {
  conf_operand operand = {NULL, NULL};
  mt_status status = make_layout(c, dtype, rank, shape, layout, &operand);
  if (status == MT_OK) {
    status = set_content(c, operand.base ? operand.base : operand.view, NULL);
  }
  return status == MT_OK ? operand : give_up(c, &operand);
}
