// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <float.h>
#include <math.h>

/* Operands and results in f64, on a runtime with the reference kernels alone. */
typedef struct check_state {
  mt_runtime *rt;
  mt_tensor *a, *b, *bias;
  mt_tensor *c, *reference;
  mt_tensor *rounded; /* reference in the dtype of c and back: where that overflows */
  mt_tensor *scale;
} check_state;

#define TRY(call)                                                                                  \
  do {                                                                                             \
    mt_status status_ = (call);                                                                    \
    if (status_ != MT_OK) {                                                                        \
      return status_;                                                                              \
    }                                                                                              \
  } while (0)

static mt_status to_f64(mt_runtime *rt, mt_tensor *x, mt_tensor **out) {
  if (x == NULL) {
    return MT_OK;
  }
  if (mt_tensor_dtype(x) != MT_BLOCK) {
    return mt_cast(rt, x, MT_F64, out);
  }
  mt_tensor *decoded = NULL;
  TRY(mt_cast(rt, x, MT_F32, &decoded));
  mt_status status = mt_cast(rt, decoded, MT_F64, out);
  mt_tensor_release(&decoded);
  return status;
}

/* |x| in place; x is a contiguous f64 tensor. */
static mt_status take_magnitudes(mt_tensor *x) {
  void *data = NULL;
  if (x == NULL || mt_tensor_elements(x) == 0) {
    return MT_OK;
  }
  TRY(mt_tensor_write(x, &data));
  double *values = data;
  for (int64_t i = 0; i < mt_tensor_elements(x); i++) {
    values[i] = fabs(values[i]);
  }
  return MT_OK;
}

static mt_status compute(check_state *s, mt_tensor *a, mt_tensor *b,
                         const mt_matmul_options *options, mt_tensor *c) {
  mt_runtime_options runtime_options = MT_RUNTIME_OPTIONS_INIT;
  runtime_options.backend = "reference";
  TRY(mt_runtime_create(&runtime_options, &s->rt));
  TRY(to_f64(s->rt, a, &s->a));
  TRY(to_f64(s->rt, b, &s->b));
  TRY(to_f64(s->rt, options->bias, &s->bias));
  TRY(to_f64(s->rt, c, &s->c));
  mt_matmul_options exact = *options;
  exact.bias = s->bias;
  TRY(mt_matmul(s->rt, s->a, s->b, &exact, &s->reference));

  mt_tensor *narrow = NULL;
  TRY(mt_cast(s->rt, s->reference, mt_tensor_dtype(c), &narrow));
  mt_status status = mt_cast(s->rt, narrow, MT_F64, &s->rounded);
  mt_tensor_release(&narrow);
  TRY(status);

  TRY(take_magnitudes(s->a));
  TRY(take_magnitudes(s->b));
  TRY(take_magnitudes(s->bias));
  exact.alpha = fabs(exact.alpha);
  exact.activation = MT_ACT_NONE;
  return mt_matmul(s->rt, s->a, s->b, &exact, &s->scale);
}

/* Below this, a difference is the granularity of the dtype around zero. */
static double smallest_difference(mt_dtype dtype) {
  switch (dtype) {
  case MT_F64: return DBL_MIN;
  case MT_F16: return 0x1p-25; /* half of the smallest subnormal */
  default: return FLT_MIN;
  }
}

static double element_error(double c, double reference, double rounded, double scale, double tiny) {
  if (isnan(rounded) || isnan(c)) {
    return isnan(rounded) && isnan(c) ? 0 : INFINITY;
  }
  if (isinf(rounded) || isinf(c)) {
    return c == rounded ? 0 : INFINITY;
  }
  double difference = fabs(c - reference);
  return difference <= tiny ? 0 : difference / scale;
}

static mt_status compare(const check_state *s, mt_dtype dtype, matmul_check *out) {
  const void *c, *reference, *rounded, *scale;
  TRY(mt_tensor_read(s->c, &c));
  TRY(mt_tensor_read(s->reference, &reference));
  TRY(mt_tensor_read(s->rounded, &rounded));
  TRY(mt_tensor_read(s->scale, &scale));
  double tiny = smallest_difference(dtype);
  double difference_squares = 0, reference_squares = 0;
  out->elements = (size_t)mt_tensor_elements(s->c);
  for (size_t i = 0; i < out->elements; i++) {
    double value = ((const double *)c)[i];
    double expected = ((const double *)reference)[i];
    double error = element_error(value, expected, ((const double *)rounded)[i],
                                 ((const double *)scale)[i], tiny);
    out->max_error = fmax(out->max_error, error);
    out->over += !(error <= out->bound);
    if (isfinite(value) && isfinite(expected)) {
      difference_squares += (value - expected) * (value - expected);
      reference_squares += expected * expected;
    }
  }
  if (difference_squares > 0) {
    out->frobenius_error = sqrt(difference_squares / reference_squares);
  }
  out->passed = out->over == 0;
  return MT_OK;
}

static double error_bound(mt_dtype dtype, double k, mt_activation activation) {
  double terms = 8 + fmin(k, 16 * sqrt(k)) + (activation == MT_ACT_NONE ? 0 : 32);
  switch (dtype) {
  case MT_F64: return 2 * terms * 0x1p-53;
  case MT_F16: return terms * 0x1p-24 + 0x1p-11;
  case MT_BF16: return terms * 0x1p-24 + 0x1p-8;
  default: return terms * 0x1p-24;
  }
}

static void release_state(check_state *s) {
  mt_tensor **tensors[] = {&s->a, &s->b, &s->bias, &s->c, &s->reference, &s->rounded, &s->scale};
  for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
    mt_tensor_release(tensors[i]);
  }
  mt_runtime_release(&s->rt);
}

mt_status check_matmul(mt_tensor *a, mt_tensor *b, const mt_matmul_options *options, mt_tensor *c,
                       matmul_check *out) {
  check_state state = {0};
  *out = (matmul_check){0};
  int64_t k = mt_tensor_shape(a)[mt_tensor_rank(a) - (options->trans_a ? 2 : 1)];
  out->bound = error_bound(mt_tensor_dtype(c), (double)k, options->activation);
  mt_status status = compute(&state, a, b, options, c);
  if (status == MT_OK) {
    status = compare(&state, mt_tensor_dtype(c), out);
  }
  release_state(&state);
  return status;
}

void print_check(const matmul_check *check, int indent) {
  printf("%*s%s: largest error %.2e (bound %.2e), Frobenius %.2e", indent, "",
         check->passed ? "agrees with the reference" : "DIFFERS FROM THE REFERENCE",
         check->max_error, check->bound, check->frobenius_error);
  if (!check->passed) {
    printf(", %zu of %zu elements over the bound", check->over, check->elements);
  }
  putchar('\n');
}

json_t *check_json(const matmul_check *check) {
  json_t *object = json_make_object();
  json_put(object, "passed", json_boolean(check->passed));
  json_put(object, "max_error", json_figure(check->max_error));
  json_put(object, "frobenius_error", json_figure(check->frobenius_error));
  json_put(object, "bound", json_figure(check->bound));
  json_put(object, "elements", json_integer((json_int_t)check->elements));
  json_put(object, "over_bound", json_integer((json_int_t)check->over));
  return object;
}
