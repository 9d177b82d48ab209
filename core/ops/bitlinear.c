// SPDX-License-Identifier: Apache-2.0
/* bitlinear: a linear layer of ternary (or any int8) weights. */
#include "dense.h"

#include <mecantensor/nn.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

enum { X, WEIGHT, WEIGHT_SCALE, X_SCALE, BIAS, INPUTS };

static double dot(const double *x, const double *w, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * w[i];
  }
  return sum;
}

static void multiply(double *const *in, int64_t m, int64_t n, int64_t k, double *out) {
  for (int64_t i = 0; i < m; i++) {
    double row = in[X_SCALE] ? in[X_SCALE][i] : 1;
    for (int64_t j = 0; j < n; j++) {
      double scale = row * (in[WEIGHT_SCALE] ? in[WEIGHT_SCALE][j] : 1);
      double sum = scale * dot(in[X] + i * k, in[WEIGHT] + j * k, k);
      out[i * n + j] = sum + (in[BIAS] ? in[BIAS][j] : 0);
    }
  }
}

static mt_status bitlinear_reference(const mt_ref_call *call) {
  const mt_view *weight = &call->in[WEIGHT];
  int64_t m = 1, n = weight->shape[0], k = weight->shape[1];
  mt_dense dense = {.count = 0};
  double *in[INPUTS], *out;
  for (int i = 0; i < call->out.rank - 1; i++) {
    m *= call->out.shape[i];
  }
  mt_status status = mt_dense_room(&dense, &call->out, &out);
  for (int i = 0; status == MT_OK && i < INPUTS; i++) {
    status = mt_dense_load(&dense, &call->in[i], &in[i]);
  }
  if (status == MT_OK) {
    multiply(in, m, n, k, out);
    mt_dense_store(&call->out, out);
  }
  mt_dense_free(&dense);
  return status;
}

const mt_op_def mt_op_bitlinear = {"bitlinear", 1, bitlinear_reference, mt_op_bitlinear_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status check_operands(const mt_tensor *x, const mt_tensor *weight,
                                const mt_bitlinear_options *o) {
  char text[MT_DESCRIBE_BYTES], other[MT_DESCRIBE_BYTES];
  if (x->dtype != MT_F32 && x->dtype != MT_F16 && x->dtype != MT_BF16 && x->dtype != MT_I8) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "bitlinear: x %s: expected f32, f16, bf16 or i8",
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  if (weight->dtype != MT_I8 || weight->rank != 2 || x->rank < 1 ||
      weight->shape[1] != x->shape[x->rank - 1]) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "bitlinear: weight %s: expected i8 [N, K] with K the last extent of x %s",
                   mt_tensor_describe(weight, text, sizeof(text)),
                   mt_tensor_describe(x, other, sizeof(other)));
  }
  if (o->x_scale && x->dtype != MT_I8) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "bitlinear: x_scale with x %s: expected x in i8",
                   mt_tensor_describe(x, text, sizeof(text)));
  }
  return MT_OK;
}

/* A scale or bias of that shape, or (one_ok) of one element for all; NULL stays NULL. */
static mt_status spread(const char *name, mt_tensor *tensor, int rank, const int64_t *shape,
                        bool one_ok, mt_tensor **out) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  if (!tensor) {
    return MT_OK;
  }
  bool same = tensor->rank == rank &&
              (rank == 0 || memcmp(tensor->shape, shape, (size_t)rank * sizeof(*shape)) == 0);
  bool one = one_ok && tensor->rank == 1 && tensor->shape[0] == 1;
  if (tensor->dtype != MT_F32 || !(same || one)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "bitlinear: %s %s: expected f32%s%s", name,
                   mt_tensor_describe(tensor, given, sizeof(given)),
                   mt_shape_describe(rank, shape, wanted, sizeof(wanted)), one_ok ? " or [1]" : "");
  }
  if (same) {
    *out = mt_tensor_retain(tensor);
    return MT_OK;
  }
  const int64_t stride[MT_MAX_RANK] = {0};
  return mt_tensor_restride(tensor, rank, shape, stride, out);
}

static mt_status run(mt_runtime *rt, mt_tensor **in, const mt_bitlinear_options *o,
                     mt_tensor **out) {
  const mt_tensor *x = in[X], *weight = in[WEIGHT];
  mt_op_call call = {.def = &mt_op_bitlinear, .in = in, .in_count = INPUTS};
  int64_t shape[MT_MAX_RANK];
  MT_TRY(spread("weight_scale", o->weight_scale, 1, weight->shape, true, &in[WEIGHT_SCALE]));
  MT_TRY(spread("x_scale", o->x_scale, x->rank - 1, x->shape, true, &in[X_SCALE]));
  MT_TRY(spread("bias", o->bias, 1, weight->shape, false, &in[BIAS]));
  memcpy(shape, x->shape, sizeof(shape));
  shape[x->rank - 1] = weight->shape[0];
  MT_TRY(mt_op_output("bitlinear", out, x->dtype == MT_I8 ? MT_F32 : x->dtype, x->rank, shape,
                      &call.out));
  return mt_op_run(rt, &call, false, out);
}

mt_status mt_bitlinear(mt_runtime *rt, mt_tensor *x, mt_tensor *weight,
                       const mt_bitlinear_options *options, mt_tensor **out) {
  mt_bitlinear_options o = MT_BITLINEAR_OPTIONS_INIT;
  mt_tensor *in[INPUTS] = {x, weight, NULL, NULL, NULL};
  MT_TRY(mt_op_require("bitlinear", "rt", rt));
  MT_TRY(mt_op_require("bitlinear", "x", x));
  MT_TRY(mt_op_require("bitlinear", "weight", weight));
  MT_TRY(mt_op_require("bitlinear", "out", out));
  MT_TRY(mt_op_options("bitlinear", options, &o, sizeof(o)));
  MT_TRY(check_operands(x, weight, &o));
  mt_status status = run(rt, in, &o, out);
  for (int i = WEIGHT_SCALE; i < INPUTS; i++) {
    mt_tensor_release(&in[i]);
  }
  return status;
}
