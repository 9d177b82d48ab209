// SPDX-License-Identifier: Apache-2.0
#include "bench_cases.h"

#include "common.h"

#include <stdlib.h>

/* ---- operands ---- */
/* Values of -1 to 1, none of them 0: zeros may be faster than others. */
static mt_status make_values(int rank, const int64_t *shape, mt_tensor **out) {
  void *data;
  mt_status status = mt_tensor_create(MT_F32, rank, shape, out);
  if (status == MT_OK) {
    status = mt_tensor_write(*out, &data);
  }
  if (status == MT_OK) {
    uint32_t state = 1;
    float *values = data;
    for (int64_t i = 0; i < mt_tensor_elements(*out); i++) {
      state = state * UINT32_C(1664525) + UINT32_C(1013904223);
      values[i] = (float)((state >> 9) | 1) / 4194304.0f - 1.0f;
    }
  }
  return status;
}

static double bytes_of(const mt_tensor *t) {
  return (double)mt_tensor_bytes(t);
}

/* Inputs 0 .. count - 1 of one shape, and a result like them. */
static mt_status make_alike(bench_work *w, int count, int rank, const int64_t *shape) {
  mt_status status = MT_OK;
  for (int i = 0; status == MT_OK && i < count; i++) {
    status = make_values(rank, shape, &w->in[i]);
    w->read += status == MT_OK ? bytes_of(w->in[i]) : 0;
  }
  w->written = w->read / count;
  return status;
}

static mt_status make_one(bench_work *w) {
  return make_alike(w, 1, 2, w->d);
}

static mt_status make_two(bench_work *w) {
  return make_alike(w, 2, 2, w->d);
}

static mt_status run_unary(bench_work *w) {
  return w->row->unary(w->rt, w->in[0], &w->out);
}

static mt_status run_binary(bench_work *w) {
  return w->row->binary(w->rt, w->in[0], w->in[1], &w->out);
}

/* ---- ops along the last axis ---- */
static mt_status run_softmax(bench_work *w) {
  return mt_softmax(w->rt, w->in[0], -1, &w->out);
}

static mt_status make_norm(bench_work *w) {
  mt_status status = make_one(w);
  for (int i = 1; status == MT_OK && i < 3; i++) {
    status = make_values(1, w->d + 1, &w->in[i]);
  }
  return status;
}

static mt_status run_layer_norm(bench_work *w) {
  return mt_layer_norm(w->rt, w->in[0], 1, w->in[1], w->in[2], 1e-5, &w->out);
}

static mt_status run_rms_norm(bench_work *w) {
  return mt_rms_norm(w->rt, w->in[0], w->in[1], 1e-5, &w->out);
}

static mt_status make_sum(bench_work *w) {
  mt_status status = make_one(w);
  w->written = 4.0 * (double)w->d[0];
  return status;
}

static mt_status run_sum(bench_work *w) {
  const int axis = -1;
  return mt_sum(w->rt, w->in[0], &axis, 1, 0, &w->out);
}

/* ---- memory ---- */
static mt_status make_transposed(bench_work *w) {
  mt_tensor *x = NULL;
  mt_status status = make_values(2, w->d, &x);
  if (status == MT_OK) {
    status = mt_tensor_transpose(x, 0, 1, &w->in[0]);
    w->read = w->written = bytes_of(x);
  }
  mt_tensor_release(&x);
  return status;
}

static mt_status make_cast(bench_work *w) {
  mt_status status = make_one(w);
  w->written = w->read / 2;
  return status;
}

static mt_status run_cast(bench_work *w) {
  return mt_cast(w->rt, w->in[0], MT_BF16, &w->out);
}

static mt_status make_concat(bench_work *w) {
  mt_status status = make_two(w);
  w->written = w->read;
  return status;
}

static mt_status run_concat(bench_work *w) {
  return mt_concat(w->rt, w->in, 2, 0, &w->out);
}

/* ---- dispatch: so small that the call itself is what is measured ---- */
static mt_status make_small(bench_work *w) {
  mt_status status = make_alike(w, 2, 1, w->d);
  w->read = w->written = 0; /* no limit but the call */
  return status;
}

/* ---- quantized weights ---- */
static mt_status quantize(bench_work *w, mt_tensor *x, mt_tensor **out) {
  return mt_quantize(w->rt, x, mt_format_find("q8_0"), out);
}

static mt_status make_q8_matmul(bench_work *w) {
  const int64_t weight[2] = {w->d[2], w->d[1]};
  mt_tensor *x = NULL, *packed = NULL;
  mt_status status = make_values(2, w->d, &w->in[0]);
  status = status == MT_OK ? make_values(2, weight, &x) : status;
  status = status == MT_OK ? quantize(w, x, &packed) : status;
  if (status == MT_OK) {
    w->in[1] = mt_tensor_retain(packed);
    w->operations = 2.0 * (double)w->d[0] * (double)w->d[1] * (double)w->d[2];
    w->read = bytes_of(packed) + bytes_of(w->in[0]);
    w->written = 4.0 * (double)w->d[0] * (double)w->d[2];
    status = mt_tensor_freeze(packed);
  }
  mt_tensor_release(&x);
  mt_tensor_release(&packed);
  return status;
}

static mt_status run_q8_matmul(bench_work *w) {
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_b = 1;
  return mt_matmul(w->rt, w->in[0], w->in[1], &options, &w->out);
}

static mt_status make_weight(bench_work *w) {
  const int64_t shape[2] = {w->d[2], w->d[1]};
  mt_status status = make_values(2, shape, &w->in[0]);
  w->read = status == MT_OK ? bytes_of(w->in[0]) : 0;
  w->written = w->read * 34 / 128; /* 32 values in 34 bytes */
  return status;
}

static mt_status run_encode(bench_work *w) {
  mt_tensor_release(&w->out); /* mt_quantize() makes a new one */
  return quantize(w, w->in[0], &w->out);
}

static mt_status make_decode(bench_work *w) {
  mt_tensor *x = NULL;
  const int64_t shape[2] = {w->d[2], w->d[1]};
  mt_status status = make_values(2, shape, &x);
  status = status == MT_OK ? quantize(w, x, &w->in[0]) : status;
  if (status == MT_OK) {
    w->read = bytes_of(w->in[0]);
    w->written = bytes_of(x);
  }
  mt_tensor_release(&x);
  return status;
}

static mt_status run_decode(bench_work *w) {
  return mt_cast(w->rt, w->in[0], MT_F32, &w->out);
}

/* ---- convolution: one image, C channels of HxW, O filters of KxK, the same size out ---- */
static mt_status make_conv(bench_work *w) {
  const int64_t c = w->d[0], h = w->d[1], width = w->d[2], o = w->d[3], k = w->d[4];
  const int64_t x[4] = {1, c, h, width}, weight[4] = {o, c, k, k};
  mt_status status = make_values(4, x, &w->in[0]);
  status = status == MT_OK ? make_values(4, weight, &w->in[1]) : status;
  if (status == MT_OK) {
    w->written = 4.0 * (double)o * (double)h * (double)width;
    w->operations = 2.0 * (double)(c * k * k) * w->written / 4;
    w->read = bytes_of(w->in[0]) + bytes_of(w->in[1]);
    status = mt_tensor_freeze(w->in[1]);
  }
  return status;
}

static mt_status run_conv(bench_work *w) {
  mt_conv2d_options options = MT_CONV2D_OPTIONS_INIT;
  for (int i = 0; i < 4; i++) {
    options.padding[i] = i < 2 ? (w->d[4] - 1) / 2 : w->d[4] / 2;
  }
  return mt_conv2d(w->rt, w->in[0], w->in[1], NULL, &options, &w->out);
}

/* ---- attention: H heads, SQ queries, SKV keys, D wide ---- */
static mt_status make_attention(bench_work *w) {
  const int64_t heads = w->d[0], sq = w->d[1], skv = w->d[2], wide = w->d[3];
  const int64_t q[4] = {1, heads, sq, wide}, k[4] = {1, heads, skv, wide};
  mt_status status = make_values(4, q, &w->in[0]);
  for (int i = 1; status == MT_OK && i < 3; i++) {
    status = make_values(4, k, &w->in[i]);
  }
  if (status == MT_OK) {
    w->written = bytes_of(w->in[0]);
    w->read = w->written + 2 * bytes_of(w->in[1]);
    w->operations = 4.0 * (double)(heads * wide) * (double)sq * (double)skv;
  }
  return status;
}

static mt_status run_attention(bench_work *w) {
  return mt_attention(w->rt, w->in[0], w->in[1], w->in[2], NULL, &w->out);
}

/* Query i of SQ sees SKV - SQ + i + 1 keys. */
static mt_status make_causal(bench_work *w) {
  mt_status status = make_attention(w);
  double sq = (double)w->d[1], skv = (double)w->d[2], seen = 0;
  for (double i = 0; i < sq; i++) {
    double keys = skv - sq + i + 1;
    seen += keys > 0 ? keys : 0;
  }
  w->operations = 4.0 * (double)(w->d[0] * w->d[3]) * seen;
  return status;
}

static mt_status run_causal(bench_work *w) {
  mt_attention_options options = MT_ATTENTION_OPTIONS_INIT;
  options.causal = 1;
  return mt_attention(w->rt, w->in[0], w->in[1], w->in[2], &options, &w->out);
}

#define UNARY(kind, name, make)                                                                    \
  { kind, #name, make, run_unary, mt_##name, NULL }
#define BINARY(kind, name, make)                                                                   \
  { kind, #name, make, run_binary, NULL, mt_##name }
#define CASE(kind, name, make, run)                                                                \
  { kind, name, make, run, NULL, NULL }

const bench_case bench_table[] = {
    BINARY("ops", add, make_two),
    BINARY("ops", mul, make_two),
    UNARY("ops", relu, make_one),
    UNARY("ops", exp, make_one),
    UNARY("ops", tanh, make_one),
    UNARY("ops", silu, make_one),
    UNARY("ops", gelu, make_one),
    CASE("ops", "softmax", make_one, run_softmax),
    CASE("ops", "layer_norm", make_norm, run_layer_norm),
    CASE("ops", "rms_norm", make_norm, run_rms_norm),
    CASE("ops", "sum", make_sum, run_sum),
    UNARY("memory", copy, make_one),
    {"memory", "copy transposed", make_transposed, run_unary, mt_copy, NULL},
    CASE("memory", "cast to bf16", make_cast, run_cast),
    CASE("memory", "concat", make_concat, run_concat),
    UNARY("dispatch", relu, make_small),
    BINARY("dispatch", add, make_small),
    CASE("quant", "q8_0 matmul", make_q8_matmul, run_q8_matmul),
    CASE("quant", "q8_0 encode", make_weight, run_encode),
    CASE("quant", "q8_0 decode", make_decode, run_decode),
    CASE("conv", "conv2d", make_conv, run_conv),
    CASE("attention", "attention", make_attention, run_attention),
    CASE("attention", "causal", make_causal, run_causal),
};
const size_t bench_table_count = sizeof(bench_table) / sizeof(bench_table[0]);
