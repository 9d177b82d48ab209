// SPDX-License-Identifier: Apache-2.0
/* Norms, rope, attention, TSI, bitlinear, losses, i8 matmul: values by hand, edges, errors. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

static void check_close(const mt_tensor *t, const double *want, double slack) {
  for (int64_t i = 0; i < mt_tensor_elements(t); i++) {
    double got = at(t, i);
    EXPECT(isnan(want[i]) ? isnan(got) : fabs(got - want[i]) <= slack,
           "element %d: %.17g, want %.17g", (int)i, got, want[i]);
  }
}

static double slack_of(mt_dtype dtype) {
  return dtype == MT_F64 ? 1e-14 : dtype == MT_F32 ? 1e-6 : dtype == MT_F16 ? 2e-3 : 2e-2;
}

/* ---- norms --------------------------------------------------------------------------------- */

START_TEST(test_layer_norm) {
  for (size_t d = 0; d < COUNT(float_types); d++) {
    mt_dtype t = float_types[d];
    mt_tensor *x = make(t, 3, SHAPE(2, 1, 2), VALUES(1, 3, -2, 2)), *out = NULL, *both = NULL;
    mt_tensor *w = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)), *b = make(t, 1, SHAPE(2), VALUES(0, 1));
    ck_ok(mt_layer_norm(rt, x, 1, w, b, 0, &out));
    check_close(out, VALUES(-1, 3, -1, 3), slack_of(t));
    ck_ok(mt_layer_norm(rt, x, 3, NULL, NULL, 0.5, &both)); /* mean 1, variance 3.5 */
    check_close(both, VALUES(0, 1, -1.5, 0.5), slack_of(t));
    mt_tensor *same = x;
    ck_ok(mt_rms_norm(rt, x, w, 0, &same)); /* mean squares 5, 4 */
    check_close(x, VALUES(1 / sqrt(5), 6 / sqrt(5), -1, 2), 2 * slack_of(t));
    drop(x), drop(out), drop(both), drop(w), drop(b);
  }
  mt_tensor *flat = make(MT_F32, 2, SHAPE(1, 3), VALUES(5, 5, 5)), *zero = NULL, *error = NULL;
  ck_ok(mt_layer_norm(rt, flat, 1, NULL, NULL, 1e-5, &zero));
  check_values(zero, VALUES(0, 0, 0));
  mt_tensor *two = make(MT_F32, 1, SHAPE(2), VALUES(1, 1));
  ck_fails(mt_layer_norm(rt, flat, 1, two, NULL, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "layer_norm: weight f32[2] does not fit x f32[1, 3] from axis 1 on");
  ck_fails(mt_layer_norm(rt, flat, 0, NULL, NULL, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "layer_norm: axes 0: expected 1 .. 2");
  ck_fails(mt_layer_norm(rt, flat, 2, two, NULL, 0, &error), MT_ERR_INVALID_ARGUMENT,
           "layer_norm: weight f32[2]: expected rank 2");
  ck_fails(mt_rms_norm(rt, flat, NULL, -1, &error), MT_ERR_INVALID_ARGUMENT, "epsilon -1");
  ck_fails(mt_rms_norm(rt, flat, NULL, NAN, &error), MT_ERR_INVALID_ARGUMENT, "epsilon");
  drop(flat), drop(zero), drop(two);
}
END_TEST

START_TEST(test_group_norm) {
  /* two groups of two channels with two pixels: 1 3 5 7 | 2 2 2 6 */
  mt_tensor *x = make(MT_F64, 3, SHAPE(1, 4, 2), VALUES(1, 3, 5, 7, 2, 2, 2, 6)), *out = NULL;
  mt_tensor *w = make(MT_F64, 1, SHAPE(4), VALUES(1, 10, 1, 10)), *last = NULL;
  mt_tensor *b = make(MT_F64, 1, SHAPE(4), VALUES(0, 0, 0, 1)), *turned = NULL, *back = NULL;
  double s = sqrt(5), r = sqrt(3);
  const double *want =
      VALUES(-3 / s, -1 / s, 10 / s, 30 / s, -1 / r, -1 / r, -10 / r + 1, 30 / r + 1);
  ck_ok(mt_group_norm(rt, x, 2, w, b, 0, MT_NCHW, &out));
  check_shape(out, MT_F64, 3, SHAPE(1, 4, 2));
  check_close(out, want, 1e-13);
  ck_ok(mt_tensor_transpose(x, 1, 2, &turned));
  ck_ok(mt_group_norm(rt, turned, 2, w, b, 0, MT_NHWC, &last));
  check_shape(last, MT_F64, 3, SHAPE(1, 2, 4));
  ck_ok(mt_tensor_transpose(last, 1, 2, &back));
  check_close(back, want, 1e-13);
  mt_tensor *error = NULL, *same = x;
  ck_fails(mt_group_norm(rt, x, 3, NULL, NULL, 0, MT_NCHW, &error), MT_ERR_INVALID_ARGUMENT,
           "group_norm: groups 3: expected a divisor of the 4 channels");
  ck_ok(mt_group_norm(rt, x, 2, w, b, 0, MT_NCHW, &same)); /* in place */
  check_close(x, want, 1e-13);
  drop(x), drop(out), drop(w), drop(b), drop(turned), drop(last), drop(back);
}
END_TEST

START_TEST(test_batch_norm) {
  mt_tensor *x = make(MT_F32, 3, SHAPE(2, 2, 1), VALUES(1, 10, 3, 30)), *out = NULL, *train = NULL;
  mt_tensor *m = make(MT_F32, 1, SHAPE(2), VALUES(1, 20)),
            *v = make(MT_F32, 1, SHAPE(2), VALUES(4, 25));
  mt_tensor *w = make(MT_F32, 1, SHAPE(2), VALUES(2, 1)), *mean = NULL, *variance = NULL;
  ck_ok(mt_batch_norm(rt, x, m, v, w, NULL, 0, 1, &out));
  check_close(out, VALUES(0, -2, 2, 2), 1e-6);
  ck_ok(mt_batch_norm_train(rt, x, w, NULL, 0, -2, &train, &mean, &variance));
  check_close(train, VALUES(-2, -1, 2, 1), 1e-6);
  check_values(mean, VALUES(2, 20));
  check_values(variance, VALUES(1, 100));
  mt_tensor *h = make(MT_BF16, 2, SHAPE(2, 1), VALUES(1, 3)), *o = NULL, *hm = NULL, *hv = NULL;
  ck_ok(mt_batch_norm_train(rt, h, NULL, NULL, 0, 1, &o, &hm, &hv));
  check_shape(hm, MT_F32, 1, SHAPE(1));
  mt_tensor *none = make(MT_F32, 2, SHAPE(0, 2), NULL), *e = NULL, *em = NULL, *ev = NULL,
            *error = NULL;
  ck_ok(mt_batch_norm_train(rt, none, NULL, NULL, 0, 1, &e, &em, &ev));
  check_values(em, VALUES(NAN, NAN));
  ck_fails(mt_batch_norm(rt, x, m, v, hm, NULL, 0, 1, &error), MT_ERR_INVALID_ARGUMENT,
           "batch_norm: weight f32[1] does not fit x f32[2, 2, 1] from axis 1 on");
  ck_fails(mt_batch_norm(rt, x, NULL, v, w, NULL, 0, 1, &error), MT_ERR_INVALID_ARGUMENT,
           "mean is NULL");
  drop(x), drop(out), drop(train), drop(m), drop(v), drop(w), drop(mean), drop(variance);
  drop(h), drop(o), drop(hm), drop(hv), drop(none), drop(e), drop(em), drop(ev);
}
END_TEST

/* ---- rope ---------------------------------------------------------------------------------- */

START_TEST(test_rope) {
  mt_tensor *x = make(MT_F64, 2, SHAPE(2, 4), VALUES(1, 2, 3, 4, 1, 2, 3, 4)), *out = NULL;
  mt_tensor *p = make(MT_I32, 1, SHAPE(2), VALUES(0, 3)), *pairs = NULL, *back = NULL, *part = NULL;
  mt_rope_options o = MT_ROPE_OPTIONS_INIT;
  double c = cos(3), s = sin(3), c2 = cos(0.03), s2 = sin(0.03);
  ck_ok(mt_rope(rt, x, p, NULL, &out));
  check_close(out, VALUES(1, 2, 3, 4, c - 3 * s, 2 * c2 - 4 * s2, s + 3 * c, 2 * s2 + 4 * c2),
              1e-14);
  o.interleaved = 1;
  ck_ok(mt_rope(rt, x, p, &o, &pairs));
  check_close(pairs, VALUES(1, 2, 3, 4, c - 2 * s, s + 2 * c, 3 * c2 - 4 * s2, 3 * s2 + 4 * c2),
              1e-14);
  o.inverse = 1;
  ck_ok(mt_rope(rt, pairs, p, &o, &back));
  check_close(back, VALUES(1, 2, 3, 4, 1, 2, 3, 4), 1e-14);
  o.inverse = 0, o.dims = 2, o.scale = 0.5;
  ck_ok(mt_rope(rt, x, p, &o, &part));
  check_close(part, VALUES(1, 2, 3, 4, cos(1.5) - 2 * sin(1.5), sin(1.5) + 2 * cos(1.5), 3, 4),
              1e-14);
  mt_tensor *error = NULL, *three = make(MT_I64, 1, SHAPE(3), VALUES(0, 1, 2));
  ck_fails(mt_rope(rt, x, three, NULL, &error), MT_ERR_INVALID_ARGUMENT, "[3]");
  o.dims = 3;
  ck_fails(mt_rope(rt, x, p, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "rope: dims 3: expected an even number up to 4");
  ck_fails(mt_rope(rt, x, x, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "rope: positions f64[2, 4]: expected i32");
  drop(x), drop(out), drop(p), drop(pairs), drop(back), drop(part), drop(three);
}
END_TEST

/* ---- attention ------------------------------------------------------------------------------- */

/* Two heads on one key head, D = 1: scores are q k. ln 2 and ln 4 make weights of 2 and 4. */
START_TEST(test_attention) {
  const double l = log(2);
  mt_tensor *q = make(MT_F64, 4, SHAPE(1, 2, 2, 1), VALUES(1, 0, 2, 1)), *out = NULL,
            *causal = NULL;
  mt_tensor *k = make(MT_F64, 4, SHAPE(1, 1, 3, 1), VALUES(0, l, 2 * l));
  mt_tensor *v = make(MT_F64, 4, SHAPE(1, 1, 3, 2), VALUES(7, 0, 0, 7, 14, 7)), *cache = NULL;
  mt_attention_options o = MT_ATTENTION_OPTIONS_INIT;
  ck_ok(mt_attention(rt, q, k, v, NULL, &out));
  check_shape(out, MT_F64, 4, SHAPE(1, 2, 2, 2));
  /* weights 1 2 4 | 1 1 1 | 1 4 16 | 1 2 4 */
  check_close(out, VALUES(9, 6, 7, 14.0 / 3, 11, 20.0 / 3, 9, 6), 1e-12);
  o.causal = 1; /* query 0 sees keys 0, 1; query 1 all */
  ck_ok(mt_attention(rt, q, k, v, &o, &causal));
  check_close(causal, VALUES(7.0 / 3, 14.0 / 3, 7, 14.0 / 3, 7.0 / 5, 28.0 / 5, 9, 6), 1e-12);
  o.kv_length = 1; /* query 0 sees nothing */
  ck_ok(mt_attention(rt, q, k, v, &o, &cache));
  check_close(cache, VALUES(0, 0, 7, 0, 0, 0, 7, 0), 1e-12);
  drop(q), drop(k), drop(v), drop(out), drop(causal), drop(cache);
}
END_TEST

START_TEST(test_attention_masks) {
  const double l = log(2);
  mt_tensor *q = make(MT_F32, 4, SHAPE(1, 1, 2, 1), VALUES(1, 1)), *out = NULL, *added = NULL;
  mt_tensor *k = make(MT_I8, 4, SHAPE(1, 1, 3, 1), VALUES(0, 1, -1)), *none = NULL;
  mt_tensor *v = make(MT_F32, 4, SHAPE(1, 1, 3, 1), VALUES(1, 2, 4)),
            *s = make(MT_F32, 0, NULL, VALUES(l));
  mt_tensor *seen = make(MT_BOOL, 2, SHAPE(2, 3), VALUES(1, 1, 0, 0, 0, 0));
  mt_attention_options o = MT_ATTENTION_OPTIONS_INIT;
  o.k_scale = s, o.mask = seen;
  ck_ok(mt_attention(rt, q, k, v, &o, &out)); /* weights 1 2 0 | nothing */
  check_close(out, VALUES(5.0 / 3, 0), 1e-6);
  mt_tensor *more = make(MT_F32, 1, SHAPE(3), VALUES(0, -INFINITY, 2 * l));
  o.mask = more;
  ck_ok(mt_attention(rt, q, k, v, &o, &added)); /* weights 1 0 2 */
  check_close(added, VALUES(3, 3), 1e-6);
  o.mask = NULL, o.softcap = 1e-30; /* all scores 0 */
  ck_ok(mt_attention(rt, q, k, v, &o, &none));
  check_close(none, VALUES(7.0 / 3, 7.0 / 3), 1e-6);
  drop(q), drop(k), drop(v), drop(s), drop(seen), drop(out), drop(more), drop(added), drop(none);
}
END_TEST

START_TEST(test_attention_errors) {
  mt_tensor *q = blank(MT_F32, 4, SHAPE(1, 3, 2, 4), PACKED),
            *k = blank(MT_F32, 4, SHAPE(1, 2, 5, 4), PACKED);
  mt_tensor *v = blank(MT_F32, 4, SHAPE(1, 2, 5, 6), PACKED),
            *flat = blank(MT_F32, 2, SHAPE(2, 4), PACKED);
  mt_tensor *q4 = blank(MT_F32, 4, SHAPE(1, 4, 2, 4), PACKED),
            *v3 = blank(MT_F32, 4, SHAPE(1, 2, 3, 6), PACKED);
  mt_tensor *out = NULL, *mask = blank(MT_I32, 1, SHAPE(5), PACKED),
            *wide = blank(MT_BOOL, 1, SHAPE(4), PACKED);
  mt_attention_options o = MT_ATTENTION_OPTIONS_INIT;
  ck_fails(mt_attention(rt, q, k, v, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "attention: k f32[1, 2, 5, 4]: expected a number of heads that divides that of q");
  ck_fails(mt_attention(rt, flat, k, v, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "attention: q f32[2, 4]: expected rank 4");
  ck_fails(mt_attention(rt, q4, k, v3, NULL, &out), MT_ERR_INVALID_ARGUMENT,
           "attention: v f32[1, 2, 3, 6]");
  o.kv_length = 6;
  ck_fails(mt_attention(rt, q4, k, v, &o, &out), MT_ERR_INVALID_ARGUMENT,
           "kv_length 6: expected 0 .. 5");
  o.kv_length = -1, o.mask = mask;
  ck_fails(mt_attention(rt, q4, k, v, &o, &out), MT_ERR_INVALID_ARGUMENT, "attention: mask i32[5]");
  o.mask = wide;
  ck_fails(mt_attention(rt, q4, k, v, &o, &out), MT_ERR_INVALID_ARGUMENT, "[4]");
  o.mask = NULL, o.k_scale = v;
  ck_fails(mt_attention(rt, q4, k, v, &o, &out), MT_ERR_INVALID_ARGUMENT, "k_scale");
  o.k_scale = NULL, o.scale = NAN;
  ck_fails(mt_attention(rt, q4, k, v, &o, &out), MT_ERR_INVALID_ARGUMENT, "attention: scale");
  ck_assert_ptr_null(out);
  drop(q), drop(k), drop(v), drop(flat), drop(q4), drop(v3), drop(mask), drop(wide);
}
END_TEST

/* ---- TSI ------------------------------------------------------------------------------------ */

START_TEST(test_tsi) {
  mt_tensor *r = make(MT_F32, 3, SHAPE(1, 2, 2), VALUES(1, 2, 3, 4)),
            *g = make(MT_F32, 1, SHAPE(1), VALUES(0.5));
  mt_tensor *k = make(MT_F32, 2, SHAPE(1, 2), VALUES(1, 10)),
            *v = make(MT_F32, 2, SHAPE(1, 2), VALUES(2, 3));
  mt_tensor *rows = make(MT_F32, 2, SHAPE(1, 2), VALUES(0, 2)), *next = NULL, *y = NULL, *same = r;
  ck_ok(mt_tsi_infuse(rt, r, g, k, v, &next));
  check_values(next, VALUES(2.5, 4, 21.5, 32));
  ck_ok(mt_tsi_read(rt, next, k, &y));
  check_shape(y, MT_F32, 2, SHAPE(1, 2));
  check_values(y, VALUES(217.5, 324));
  ck_ok(mt_tsi_infuse(rt, r, rows, k, v, &same)); /* in place */
  check_values(r, VALUES(2, 3, 26, 38));
  mt_tensor *error = NULL, *bad = make(MT_F32, 1, SHAPE(2), VALUES(1, 1));
  ck_fails(mt_tsi_infuse(rt, r, g, bad, v, &error), MT_ERR_INVALID_ARGUMENT,
           "tsi_infuse: k f32[2]: expected f32[1, 2]");
  ck_fails(mt_tsi_read(rt, bad, k, &error), MT_ERR_INVALID_ARGUMENT, "tsi_read: rank of state 1");
  drop(r), drop(g), drop(k), drop(v), drop(rows), drop(next), drop(y), drop(bad);
}
END_TEST

/* The scan is infuse and read, step by step. */
START_TEST(test_tsi_scan) {
  enum { T = 5, K = 3, V = 2 };
  double x[T * K];
  mt_tensor *r = make(MT_F64, 2, SHAPE(K, V), VALUES(1, 2, 3, 4, 5, 6)), *y = NULL, *last = NULL;
  ramp(x, T * K, 7, -3);
  mt_tensor *k = make(MT_F64, 2, SHAPE(T, K), x),
            *q = arrange(MT_F64, 2, SHAPE(T, K), x, TRANSPOSED);
  mt_tensor *v = make(MT_F64, 2, SHAPE(T, V), x), *g = make(MT_F64, 2, SHAPE(T, K), x), *now = NULL;
  ck_ok(mt_tsi_scan(rt, r, g, q, k, v, 2, &y, &last));
  check_shape(y, MT_F64, 2, SHAPE(T, V));
  ck_ok(mt_copy(rt, r, &now));
  for (int t = 0; t < T; t++) {
    mt_tensor *step[4], *read = NULL, *of[] = {g, k, v, q};
    for (int i = 0; i < 4; i++) {
      mt_tensor *row = NULL;
      ck_ok(mt_tensor_slice(of[i], 0, t, t + 1, 1, &row));
      step[i] = NULL;
      ck_ok(mt_tensor_reshape(row, 1, SHAPE(i == 2 ? V : K), &step[i]));
      drop(row);
    }
    ck_ok(mt_tsi_infuse(rt, now, step[0], step[1], step[2], &now));
    ck_ok(mt_tsi_read(rt, now, step[3], &read));
    for (int i = 0; i < V; i++) {
      check_value(at(y, t * V + i), at(read, i), t * V + i);
    }
    drop(read);
    for (int i = 0; i < 4; i++) {
      drop(step[i]);
    }
  }
  for (int i = 0; i < K * V; i++) {
    check_value(at(last, i), at(now, i), i);
  }
  mt_tensor *none = blank(MT_F64, 2, SHAPE(0, K), PACKED),
            *no_v = blank(MT_F64, 2, SHAPE(0, V), PACKED);
  mt_tensor *no_gate = blank(MT_F64, 1, SHAPE(0), PACKED), *empty = NULL, *kept = NULL;
  ck_ok(mt_tsi_scan(rt, r, no_gate, none, none, no_v, 0, &empty, &kept)); /* no step: the state */
  check_values(kept, VALUES(1, 2, 3, 4, 5, 6));
  drop(r), drop(y), drop(last), drop(k), drop(q), drop(v), drop(g), drop(now), drop(none);
  drop(no_v), drop(no_gate), drop(empty), drop(kept);
}
END_TEST

/* ---- int8 -------------------------------------------------------------------------------------
 */

START_TEST(test_int8_matmul) {
  mt_tensor *a = make(MT_I8, 2, SHAPE(2, 3), VALUES(127, -128, 1, 0, 5, -6)), *out = NULL,
            *error = NULL;
  mt_tensor *b = make(MT_I8, 2, SHAPE(3, 1), VALUES(127, -128, -1)),
            *bias = make(MT_I32, 1, SHAPE(1), VALUES(7));
  mt_matmul_options o = MT_MATMUL_OPTIONS_INIT;
  o.bias = bias;
  ck_ok(mt_matmul(rt, a, b, &o, &out));
  check_shape(out, MT_I32, 2, SHAPE(2, 1));
  check_values(out, VALUES(127 * 127 + 128 * 128 - 1 + 7, -640 + 6 + 7));
  o.alpha = 2;
  ck_fails(mt_matmul(rt, a, b, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "alpha 2, beta 0, activation 0 with i8");
  drop(a), drop(b), drop(out), drop(bias);
}
END_TEST

START_TEST(test_bitlinear) {
  mt_tensor *w = make(MT_I8, 2, SHAPE(2, 3), VALUES(1, 0, -1, 1, 1, 1)), *out = NULL, *whole = NULL;
  mt_tensor *x = make(MT_F16, 2, SHAPE(1, 3), VALUES(1, 2, 4)),
            *scale = make(MT_F32, 1, SHAPE(1), VALUES(0.5));
  mt_tensor *bias = make(MT_F32, 1, SHAPE(2), VALUES(0, 100)),
            *n = make(MT_I8, 1, SHAPE(3), VALUES(127, 1, -127));
  mt_tensor *each = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)),
            *of_x = make(MT_F32, 1, SHAPE(1), VALUES(0.25));
  mt_bitlinear_options o = MT_BITLINEAR_OPTIONS_INIT;
  o.weight_scale = scale, o.bias = bias;
  ck_ok(mt_bitlinear(rt, x, w, &o, &out));
  check_shape(out, MT_F16, 2, SHAPE(1, 2));
  check_values(out, VALUES(-1.5, 103.5));
  o.weight_scale = each, o.x_scale = of_x;
  ck_ok(mt_bitlinear(rt, n, w, &o, &whole));
  check_shape(whole, MT_F32, 1, SHAPE(2));
  check_values(whole, VALUES(63.5, 100.5));
  mt_tensor *error = NULL;
  ck_fails(mt_bitlinear(rt, x, w, &o, &error), MT_ERR_INVALID_ARGUMENT,
           "bitlinear: x_scale with x f16[1, 3]");
  ck_fails(mt_bitlinear(rt, n, x, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "bitlinear: weight f16[1, 3]: expected i8 [N, K]");
  drop(w), drop(out), drop(whole), drop(x), drop(scale), drop(bias), drop(n), drop(each),
      drop(of_x);
}
END_TEST

/* ---- losses ------------------------------------------------------------------------------------
 */

START_TEST(test_cross_entropy) {
  mt_tensor *x = make(MT_F64, 2, SHAPE(3, 2), VALUES(0, 0, 0, log(3), 5, 5)), *mean = NULL,
            *each = NULL;
  mt_tensor *t = make(MT_I64, 1, SHAPE(3), VALUES(0, 1, -100)), *smooth = NULL, *error = NULL;
  mt_cross_entropy_options o = MT_CROSS_ENTROPY_OPTIONS_INIT;
  ck_ok(mt_cross_entropy(rt, x, t, NULL, &mean));
  check_shape(mean, MT_F64, 0, NULL);
  check_close(mean, VALUES((log(2) + log(4.0 / 3)) / 2), 1e-14);
  o.reduction = MT_REDUCE_NONE;
  ck_ok(mt_cross_entropy(rt, x, t, &o, &each));
  check_close(each, VALUES(log(2), log(4.0 / 3), 0), 1e-14);
  o.reduction = MT_REDUCE_SUM, o.label_smoothing = 0.5;
  ck_ok(mt_cross_entropy(rt, x, t, &o, &smooth));
  check_close(smooth, VALUES(log(2) + 0.75 * log(4.0 / 3) + 0.25 * log(4)), 1e-14);
  mt_tensor *bad = make(MT_I32, 1, SHAPE(3), VALUES(0, 2, 0)),
            *none = make(MT_I32, 1, SHAPE(3), VALUES(-100, -100, -100));
  mt_tensor *nothing = NULL;
  ck_fails(mt_cross_entropy(rt, x, bad, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "cross_entropy: target 2 at position 1: expected 0 .. 1, or -100 to ignore it");
  ck_fails(mt_cross_entropy(rt, x, x, NULL, &error), MT_ERR_INVALID_ARGUMENT,
           "cross_entropy: targets f64");
  ck_ok(mt_cross_entropy(rt, x, none, NULL, &nothing));
  check_values(nothing, VALUES(NAN));
  drop(x), drop(mean), drop(t), drop(each), drop(smooth), drop(bad), drop(none), drop(nothing);
}
END_TEST

START_TEST(test_mse) {
  mt_tensor *a = make(MT_F32, 2, SHAPE(1, 3), VALUES(1, 2, 3)),
            *b = make(MT_F32, 2, SHAPE(1, 3), VALUES(3, 2, 0));
  mt_tensor *each = NULL, *mean = NULL, *sum = NULL, *error = NULL,
            *other = make(MT_F32, 1, SHAPE(3), VALUES(0, 0, 0));
  ck_ok(mt_mse(rt, a, b, MT_REDUCE_NONE, &each));
  check_values(each, VALUES(4, 0, 9));
  ck_ok(mt_mse(rt, a, b, MT_REDUCE_SUM, &sum));
  check_values(sum, VALUES(13));
  ck_ok(mt_mse(rt, a, b, MT_REDUCE_MEAN, &mean));
  check_close(mean, VALUES(13.0 / 3), 1e-6);
  ck_fails(mt_mse(rt, a, other, MT_REDUCE_SUM, &error), MT_ERR_INVALID_ARGUMENT,
           "mse: a f32[1, 3] and b f32[3]");
  ck_fails(mt_mse(rt, a, b, (mt_reduction)5, &error), MT_ERR_INVALID_ARGUMENT, "mse: reduction 5");
  drop(a), drop(b), drop(each), drop(mean), drop(sum), drop(other);
}
END_TEST

int main(void) {
  const TTest *tests[] = {
      test_layer_norm,      test_group_norm,       test_batch_norm, test_rope,     test_attention,
      test_attention_masks, test_attention_errors, test_tsi,        test_tsi_scan, test_int8_matmul,
      test_bitlinear,       test_cross_entropy,    test_mse};
  return run_ops_tests("nn", tests, COUNT(tests), setup, teardown);
}
