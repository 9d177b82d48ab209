// SPDX-License-Identifier: Apache-2.0
/* attention: softmax(scale q k^T + mask) v, one query at a time. */
#include "dense.h"

#include <math.h>
#include <mecantensor/nn.h>
#include <stdlib.h>
#include <string.h>

/* ---- reference ---------------------------------------------------------------------- */

enum { Q, K, V, MASK, K_SCALE, INPUTS };

typedef struct heads {
  double *q, *k, *v, *k_scale;
  const mt_view *mask;
  int64_t queries, keys, depth, width, group; /* group: query heads of a key head */
  double scale, softcap;
  bool causal;
  double *scores; /* of one query */
} heads;

/* A score behind the mask of its query: hidden, whatever it was, or added to. */
static double masked(const mt_view *mask, const char *row, int64_t key, double score) {
  const char *at = row + key * mt_view_step(mask, 3);
  double added;
  int64_t seen;
  if (mask->dtype == MT_BOOL) {
    mt_load_i64(MT_BOOL, at, 0, 1, &seen);
    return seen ? score : -INFINITY;
  }
  mt_load_f64(mask->dtype, at, 0, 1, &added);
  return score + added;
}

/* The scores of the keys that the query may see; gives their number. */
static int64_t score(const heads *h, const double *q, const double *k, const double *k_scale,
                     const char *mask, int64_t query) {
  int64_t seen = h->causal ? query + 1 + h->keys - h->queries : h->keys;
  seen = seen < 0 ? 0 : seen > h->keys ? h->keys : seen;
  for (int64_t j = 0; j < seen; j++) {
    double dot = 0;
    for (int64_t d = 0; d < h->depth; d++) {
      dot += q[d] * k[j * h->depth + d];
    }
    dot *= h->scale * (k_scale ? k_scale[j] : 1);
    dot = h->softcap > 0 ? h->softcap * tanh(dot / h->softcap) : dot;
    h->scores[j] = mask ? masked(h->mask, mask, j, dot) : dot;
  }
  return seen;
}

static void attend(const heads *h, const double *v, int64_t seen, double *out) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; j++) {
    max = isnan(max) || max >= h->scores[j] ? max : h->scores[j];
  }
  if (seen == 0 || max == -INFINITY) {
    return; /* out is 0 */
  }
  for (int64_t j = 0; j < seen; j++) {
    double p = exp(h->scores[j] - max);
    sum += p;
    for (int64_t d = 0; p != 0 && d < h->width; d++) {
      out[d] += p * v[j * h->width + d];
    }
  }
  for (int64_t d = 0; d < h->width; d++) {
    out[d] /= sum;
  }
}

static void attend_all(const mt_ref_call *call, const heads *h, double *out) {
  const int64_t *q = call->in[Q].shape;
  const mt_view *mask = h->mask;
  for (int64_t b = 0; b < q[0]; b++) {
    for (int64_t head = 0; head < q[1]; head++) {
      int64_t at = b * q[1] + head, key = b * (q[1] / h->group) + head / h->group;
      for (int64_t i = 0; i < h->queries; i++) {
        const char *row = mask ? (char *)mask->data + b * mt_view_step(mask, 0) +
                                     head * mt_view_step(mask, 1) + i * mt_view_step(mask, 2)
                               : NULL;
        int64_t seen =
            score(h, h->q + (at * h->queries + i) * h->depth, h->k + key * h->keys * h->depth,
                  h->k_scale ? h->k_scale + key * h->keys : NULL, row, i);
        attend(h, h->v + key * h->keys * h->width, seen, out + (at * h->queries + i) * h->width);
      }
    }
  }
}

static mt_status attention_reference(const mt_ref_call *call) {
  const mt_view *q = &call->in[Q], *v = &call->in[V], *mask = &call->in[MASK];
  mt_dense dense = {.count = 0};
  double *out;
  heads h = {.mask = mask->dtype == MT_DTYPE_NONE ? NULL : mask,
             .queries = q->shape[2],
             .keys = v->shape[2],
             .depth = q->shape[3],
             .width = v->shape[3],
             .group = q->shape[1] / v->shape[1],
             .scale = mt_ref_f64(call, MT_ATTR_SCALE, 1),
             .softcap = mt_ref_f64(call, MT_ATTR_SOFTCAP, 0),
             .causal = mt_ref_i64(call, MT_ATTR_CAUSAL, 0) != 0};
  h.scores = malloc((size_t)(h.keys > 0 ? h.keys : 1) * sizeof(*h.scores));
  mt_status status =
      h.scores ? MT_OK : mt_fail_memory((unsigned long long)h.keys * sizeof(double), "scores");
  status = status == MT_OK ? mt_dense_load(&dense, q, &h.q) : status;
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[K], &h.k) : status;
  status = status == MT_OK ? mt_dense_load(&dense, v, &h.v) : status;
  status = status == MT_OK ? mt_dense_load(&dense, &call->in[K_SCALE], &h.k_scale) : status;
  status = status == MT_OK ? mt_dense_room(&dense, &call->out, &out) : status;
  if (status == MT_OK) {
    attend_all(call, &h, out);
    mt_dense_store(&call->out, out);
  }
  mt_dense_free(&dense);
  free(h.scores);
  return status;
}

const mt_op_def mt_op_attention = {"attention", 1, attention_reference, mt_op_attention_number};

/* ---- validation --------------------------------------------------------------------- */

static mt_status bad_shape(const char *name, const mt_tensor *tensor, const char *expected) {
  char text[MT_DESCRIBE_BYTES];
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "attention: %s %s: expected %s", name,
                 mt_tensor_describe(tensor, text, sizeof(text)), expected);
}

static mt_status check_operands(const mt_runtime *rt, const mt_tensor *q, const mt_tensor *k,
                                const mt_tensor *v, mt_tensor *const *out) {
  MT_TRY(mt_op_require("attention", "rt", rt));
  MT_TRY(mt_op_input("attention", "q", q, MT_KIND_FLOAT));
  MT_TRY(mt_op_require("attention", "k", k));
  MT_TRY(mt_op_input("attention", "v", v, MT_KIND_FLOAT));
  MT_TRY(mt_op_require("attention", "out", out));
  MT_TRY(mt_op_same_dtype("attention", "q", q, "v", v));
  return k->dtype == q->dtype || k->dtype == MT_I8 ? MT_OK
                                                   : bad_shape("k", k, "the dtype of q, or i8");
}

static mt_status check_shapes(const mt_tensor *q, const mt_tensor *k, const mt_tensor *v) {
  if (q->rank != 4 || k->rank != 4 || v->rank != 4) {
    const mt_tensor *t = q->rank != 4 ? q : k->rank != 4 ? k : v;
    return bad_shape(t == q ? "q" : t == k ? "k" : "v", t, "rank 4 (batch, head, position, depth)");
  }
  if (k->shape[0] != q->shape[0] || k->shape[3] != q->shape[3]) {
    return bad_shape("k", k, "the batch and depth of q");
  }
  if (memcmp(v->shape, k->shape, 3 * sizeof(int64_t)) != 0) {
    return bad_shape("v", v, "the batch, heads and positions of k");
  }
  bool grouped = k->shape[1] > 0 ? q->shape[1] % k->shape[1] == 0 : q->shape[1] == 0;
  return grouped ? MT_OK : bad_shape("k", k, "a number of heads that divides that of q");
}

/* Fills in the defaults. */
static mt_status check_options(mt_attention_options *o, const mt_tensor *q, const mt_tensor *k) {
  o->kv_length = o->kv_length == -1 ? k->shape[2] : o->kv_length;
  MT_TRY(mt_op_range("attention", "kv_length", o->kv_length, 0, k->shape[2]));
  if (!isfinite(o->scale) || !(o->softcap >= 0) || !isfinite(o->softcap)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "attention: scale %g, softcap %g: expected finite numbers, softcap 0 or more",
                   o->scale, o->softcap);
  }
  if (o->scale == 0) {
    o->scale = q->shape[3] > 0 ? 1 / sqrt((double)q->shape[3]) : 1;
  }
  const mt_tensor *mask = o->mask;
  if (mask && mask->dtype != MT_BOOL && mask->dtype != MT_F32 && mask->dtype != q->dtype) {
    return bad_shape("mask", mask, "bool, f32 or the dtype of q");
  }
  if (o->k_scale && (k->dtype != MT_I8 || o->k_scale->dtype != MT_F32)) {
    return bad_shape("k_scale", o->k_scale, "f32, and k in i8");
  }
  return MT_OK;
}

typedef struct request {
  mt_attention_options o;
  mt_tensor *in[INPUTS];
} request;

/* k and v cut to the keys that count; mask and scales in the shapes that backends see. */
static mt_status make_views(request *r, mt_tensor *q, mt_tensor *k, mt_tensor *v) {
  const int64_t scores[] = {q->shape[0], q->shape[1], q->shape[2], r->o.kv_length};
  r->in[Q] = mt_tensor_retain(q);
  MT_TRY(mt_tensor_slice(k, 2, 0, r->o.kv_length, 1, &r->in[K]));
  MT_TRY(mt_tensor_slice(v, 2, 0, r->o.kv_length, 1, &r->in[V]));
  if (r->o.mask) {
    MT_TRY(mt_op_broadcast(r->o.mask, 4, scores, &r->in[MASK]));
  }
  if (r->o.k_scale) {
    mt_tensor *whole = NULL;
    MT_TRY(mt_op_broadcast(r->o.k_scale, 3, k->shape, &whole));
    mt_status status = mt_tensor_slice(whole, 2, 0, r->o.kv_length, 1, &r->in[K_SCALE]);
    mt_tensor_release(&whole);
    return status;
  }
  return MT_OK;
}

static mt_status run(mt_runtime *rt, request *r, mt_tensor **out) {
  const mt_tensor *q = r->in[Q];
  const int64_t shape[] = {q->shape[0], q->shape[1], q->shape[2], r->in[V]->shape[3]};
  mt_op_call call = {.def = &mt_op_attention, .in = r->in, .in_count = INPUTS};
  MT_TRY(mt_op_output("attention", out, q->dtype, 4, shape, &call.out));
  mt_op_attr_f64(&call, MT_ATTR_SCALE, r->o.scale);
  if (r->o.causal) {
    mt_op_attr_i64(&call, MT_ATTR_CAUSAL, 1);
  }
  if (r->o.softcap > 0) {
    mt_op_attr_f64(&call, MT_ATTR_SOFTCAP, r->o.softcap);
  }
  return mt_op_run(rt, &call, false, out);
}

mt_status mt_attention(mt_runtime *rt, mt_tensor *q, mt_tensor *k, mt_tensor *v,
                       const mt_attention_options *options, mt_tensor **out) {
  request r = {.o = MT_ATTENTION_OPTIONS_INIT};
  MT_TRY(check_operands(rt, q, k, v, out));
  MT_TRY(mt_op_options("attention", options, &r.o, sizeof(r.o)));
  MT_TRY(check_shapes(q, k, v));
  MT_TRY(check_options(&r.o, q, k));
  mt_status status = make_views(&r, q, k, v);
  if (status == MT_OK) {
    status = run(rt, &r, out);
  }
  for (int i = 0; i < INPUTS; i++) {
    mt_tensor_release(&r.in[i]);
  }
  return status;
}
