// SPDX-License-Identifier: Apache-2.0
/* Which device runs an op, what is done to operands first, and how that can be seen. */
#include "late_harness.h"

#include <ops/op.h>

static mt_runtime *reference;

static mt_runtime *start(const char *backend) {
  reference = runtime("reference");
  return runtime(backend);
}

static void finish(mt_runtime *rt, late_handle late) {
  check_promises(late);
  mt_runtime_release(&rt);
  mt_runtime_release(&reference);
  check_promises(late); /* everything was freed before its device was closed */
}

/* ---- choosing -------------------------------------------------------------------------------- */

START_TEST(test_strict) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(3, 4, 1), *out = NULL;
  ck_fails(mt_softmax(rt, x, -1, &out), MT_ERR_UNSUPPORTED, "late:0: no kernel for this op");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "f32[3, 4]"));
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "'late'"));
  ck_assert_ptr_null(out);
  ck_assert_uint_eq(mt_runtime_stats_count(rt), 0);
  DROP(&x);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_fallback) {
  mt_runtime *rt = start("late,reference");
  mt_tensor *x = ramp2(3, 4, 1), *expected = NULL;
  ck_ok(mt_softmax(reference, x, -1, &expected));
  for (int i = 0; i < 3; i++) {
    mt_tensor *out = NULL;
    ck_ok(mt_softmax(rt, x, -1, &out));
    check_same(out, expected);
    mt_tensor_release(&out);
  }
  mt_op_stats row = stats_of(rt, "softmax", "reference");
  ck_assert_uint_eq(row.calls, 3);
  ck_assert_uint_eq(row.fallbacks, 3);
  ck_assert_str_eq(row.reason, "late:0: no kernel for this op");
  ck_assert_int_eq(logged("softmax falls back to reference: late:0: no kernel for this op"), 1);
  DROP(&x, &expected);
  finish(rt, late_of(rt));
}
END_TEST

/* The next entry of the order may be a device too. */
START_TEST(test_fallback_to_next_device) {
  mt_runtime *rt = start("late,late:1");
  mt_tensor *x = ramp2(4, 4, 1), *y = ramp2(4, 4, 2), *out = NULL;
  ck_ok(mt_add(rt, x, y, &out));
  check_on(out, "late:0");
  ck_assert_int_eq(logged("falls back"), 0);
  mt_tensor *product = NULL;
  ck_ok(mt_mul(rt, x, y, &product));
  check_on(product, "late:1");
  ck_assert_int_eq(logged("mul falls back to late:1: late:0: no kernel"), 1);
  ck_assert_uint_eq(stats_of(rt, "mul", "late:1").fallbacks, 1);
  ck_assert_uint_eq(stats_of(rt, "add", "late:0").fallbacks, 0);
  DROP(&x, &y, &out, &product);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_f64_falls_back) {
  mt_runtime *rt = start("late,reference");
  const double values64[] = {1, -2, 3};
  mt_tensor *x = NULL, *out = NULL;
  ck_ok(mt_tensor_from_data(MT_F64, 1, (const int64_t[]){3}, values64, &x));
  ck_ok(mt_relu(rt, x, &out));
  check_on(out, "host");
  ck_assert_ptr_nonnull(strstr(stats_of(rt, "relu", "reference").reason, "f32 only"));
  DROP(&x, &out);
  finish(rt, late_of(rt));
}
END_TEST

/* An attribute that an older plugin cannot know. */
START_TEST(test_required_attribute) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(2, 2, 1), *out = NULL;
  mt_layout layout;
  ck_ok(mt_layout_packed("test", MT_F32, NULL, 2, mt_tensor_shape(x), &layout));
  ck_ok(mt_tensor_create_lazy(&layout, &out));
  mt_op_call call = {.def = mt_op_at(mt_op_find("relu", 1)), .in = &x, .in_count = 1, .out = out};
  ck_ok(mt_dispatch(rt, &call));
  mt_op_attr_i64(&call, MT_ATTR_AXIS, 0);
  ck_fails(mt_dispatch(rt, &call), MT_ERR_UNSUPPORTED, "a required attribute is not known");
  DROP(&x, &out);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_log_lines) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *rt = NULL;
  setenv("MECANTENSOR_LOG", "dispatch", 1);
  options.backend = "late,reference";
  options.log_fn = keep_line;
  ck_ok(mt_runtime_create(&options, &rt));
  mt_tensor *a = ramp2(2, 3, 1), *b = ramp2(3, 2, 2), *at = NULL, *out = NULL, *soft = NULL;
  ck_ok(mt_tensor_transpose(a, 0, 1, &at));
  ck_ok(mt_matmul(rt, a, b, NULL, &out));
  ck_ok(mt_softmax(rt, out, -1, &soft));
  ck_assert_int_eq(logged("4 dispatch: matmul f32[2, 3], f32[3, 2] -> late:0\n"), 1);
  ck_assert_int_eq(logged("4 dispatch: softmax f32[2, 2] -> reference\n"), 1);
  mt_tensor_release(&out);
  ck_ok(mt_relu(rt, at, &out));
  ck_assert_int_eq(logged("relu f32[3, 2] -> late:0 (relayout)"), 1);
  DROP(&a, &b, &at, &out, &soft);
  mt_runtime_release(&rt);
}
END_TEST

/* ---- what is done to operands -----------------------------------------------------------------
 */

START_TEST(test_relayout_inputs) {
  mt_runtime *rt = start("late");
  mt_tensor *a = ramp2(5, 7, 1), *b = ramp2(9, 7, 2), *bt = NULL, *out = NULL, *expected = NULL;
  ck_ok(mt_tensor_transpose(b, 0, 1, &bt));
  ck_ok(mt_matmul(rt, a, bt, NULL, &out));
  check_on(out, "late:0");
  ck_ok(mt_matmul(reference, a, bt, NULL, &expected));
  check_same(out, expected);
  mt_op_stats row = stats_of(rt, "matmul", "late:0");
  ck_assert_uint_eq(row.relayouts, 1);
  ck_assert_uint_eq(row.decodes, 0);
  ck_assert_uint_eq(row.fallbacks, 0);
  DROP(&a, &b, &bt, &out, &expected);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_trans_options) {
  mt_runtime *rt = start("late");
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_a = options.trans_b = 1;
  options.alpha = 2;
  options.activation = MT_ACT_RELU;
  mt_tensor *a = ramp2(7, 5, 1), *b = ramp2(9, 7, 2), *out = NULL, *expected = NULL;
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  ck_ok(mt_matmul(reference, a, b, &options, &expected));
  check_same(out, expected);
  DROP(&a, &b, &out, &expected);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_bias_and_beta) {
  mt_runtime *rt = start("late");
  mt_tensor *a = ramp2(4, 6, 1), *b = ramp2(6, 5, 2), *bias = ramp1(5, 3);
  mt_tensor *out = ramp2(4, 5, 4), *expected = ramp2(4, 5, 4);
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.bias = bias;
  options.beta = 3;
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  check_on(out, "late:0");
  ck_ok(mt_matmul(reference, a, b, &options, &expected));
  check_same(out, expected);
  ck_assert_uint_eq(stats_of(rt, "matmul", "late:0").relayouts, 1); /* the bias */
  DROP(&a, &b, &bias, &out, &expected);
  finish(rt, late_of(rt));
}
END_TEST

/* One matrix for the whole batch becomes one tall product; one for each stays a batch. */
START_TEST(test_batches) {
  mt_runtime *rt = start("late");
  const int64_t a_shape[] = {3, 4, 5}, b_shape[] = {3, 5, 6}, one_shape[] = {1, 5, 6};
  mt_tensor *a = ramp_of(3, a_shape, 1), *flat = ramp2(5, 6, 2);
  mt_tensor *b[] = {ramp_of(3, b_shape, 3), ramp_of(3, one_shape, 4), flat};
  for (int i = 0; i < 3; i++) {
    mt_tensor *out = NULL, *expected = NULL;
    ck_ok(mt_matmul(rt, a, b[i], NULL, &out));
    check_on(out, "late:0");
    ck_ok(mt_matmul(reference, a, b[i], NULL, &expected));
    check_same(out, expected);
    DROP(&out, &expected, &b[i]);
  }
  ck_assert_uint_eq(stats_of(rt, "matmul", "late:0").relayouts, 0);
  DROP(&a);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_gelu_is_refused) {
  mt_runtime *rt = start("late");
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.activation = MT_ACT_GELU;
  mt_tensor *a = ramp2(4, 6, 1), *b = ramp2(6, 5, 2), *out = NULL;
  ck_fails(mt_matmul(rt, a, b, &options, &out), MT_ERR_UNSUPPORTED, "activation 2");
  DROP(&a, &b);
  finish(rt, late_of(rt));
}
END_TEST

START_TEST(test_broadcast_add) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(6, 5, 1), *row = ramp1(5, 2), *column = ramp2(6, 1, 3);
  mt_tensor *sum = NULL, *out = NULL, *expected = NULL, *expected_sum = NULL;
  ck_ok(mt_add(rt, x, row, &sum));
  ck_ok(mt_add(rt, column, sum, &out));
  check_on(out, "late:0");
  ck_ok(mt_add(reference, x, row, &expected_sum));
  ck_ok(mt_add(reference, column, expected_sum, &expected));
  check_same(out, expected);
  ck_assert_uint_eq(stats_of(rt, "add", "late:0").relayouts, 2);
  DROP(&x, &row, &column, &sum, &out, &expected, &expected_sum);
  finish(rt, late_of(rt));
}
END_TEST

/* The result goes to every second column of a larger tensor; what is between stays. */
START_TEST(test_relayout_output) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(4, 3, 1), *y = ramp2(4, 3, 2), *whole = ramp2(4, 6, 3), *every = NULL;
  mt_tensor *same = ramp2(4, 6, 3), *same_every = NULL;
  ck_ok(mt_tensor_slice(whole, 1, 0, 6, 2, &every));
  ck_ok(mt_tensor_slice(same, 1, 0, 6, 2, &same_every));
  mt_tensor *out = every, *same_out = same_every;
  ck_ok(mt_add(rt, x, y, &out));
  ck_assert_ptr_eq(out, every);
  ck_ok(mt_add(reference, x, y, &same_out));
  check_same(whole, same);
  ck_assert_uint_eq(stats_of(rt, "add", "late:0").relayouts, 1);
  DROP(&x, &y, &whole, &every, &same, &same_every);
  finish(rt, late_of(rt));
}
END_TEST

/* Row 1 starts at byte 20: late wants multiples of 256. */
START_TEST(test_misaligned_offset) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(4, 5, 1), *rows = NULL, *out = NULL, *expected = NULL;
  ck_ok(mt_tensor_slice(x, 0, 1, 3, 1, &rows));
  ck_assert(mt_tensor_is_contiguous(rows));
  ck_ok(mt_relu(rt, rows, &out));
  ck_ok(mt_relu(reference, rows, &expected));
  check_same(out, expected);
  ck_assert_uint_eq(stats_of(rt, "relu", "late:0").relayouts, 1);
  mt_tensor *in_rows = rows; /* and as an output, in place */
  ck_ok(mt_relu(rt, rows, &in_rows));
  check_same(rows, expected);
  DROP(&x, &rows, &out, &expected);
  finish(rt, late_of(rt));
}
END_TEST

/* 64 floats a row: row 1 starts at byte 256 and needs no copy. */
START_TEST(test_aligned_offset) {
  mt_runtime *rt = start("late");
  mt_tensor *x = ramp2(4, 64, 1), *rows = NULL, *out = NULL, *expected = NULL;
  ck_ok(mt_tensor_slice(x, 0, 1, 3, 1, &rows));
  ck_ok(mt_relu(rt, rows, &out));
  ck_ok(mt_relu(reference, rows, &expected));
  check_same(out, expected);
  ck_assert_uint_eq(stats_of(rt, "relu", "late:0").relayouts, 0);
  DROP(&x, &rows, &out, &expected);
  finish(rt, late_of(rt));
}
END_TEST

static mt_tensor *q8_weights(int64_t rows, int64_t columns) {
  mt_tensor *plain = ramp2(rows, columns, 5), *out = NULL;
  ck_ok(mt_quantize(reference, plain, mt_format_find("q8_0"), &out));
  DROP(&plain);
  return out;
}

/* Results in one of two formats differ by rounding only. */
static void check_near(const mt_tensor *got, const mt_tensor *expected) {
  float *a = values(got), *b = values(expected);
  for (int64_t i = 0; i < mt_tensor_elements(got); i++) {
    ck_assert_float_eq_tol(a[i], b[i], 1e-3f);
  }
  free(a);
  free(b);
}

static void multiply_q8(const char *knows, uint64_t decodes) {
  late_set("Q8_0", knows);
  mt_runtime *rt = start("late");
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.trans_b = 1;
  mt_tensor *a = ramp2(3, 70, 1), *b = q8_weights(6, 70), *out = NULL, *expected = NULL;
  ck_ok(mt_matmul(rt, a, b, &options, &out));
  check_on(out, "late:0");
  ck_ok(mt_matmul(reference, a, b, &options, &expected));
  check_near(out, expected);
  mt_op_stats row = stats_of(rt, "matmul", "late:0");
  ck_assert_uint_eq(row.calls, 1);
  ck_assert_uint_eq(row.decodes, decodes);
  DROP(&a, &b, &out, &expected);
  finish(rt, late_of(rt));
}

START_TEST(test_format_unknown) {
  multiply_q8("0", 1);
}
END_TEST

START_TEST(test_format_known) {
  multiply_q8("1", 0);
}
END_TEST

START_TEST(test_empty) {
  mt_runtime *rt = start("late");
  mt_tensor *a = ramp2(0, 3, 1), *b = ramp2(3, 4, 2), *out = NULL;
  ck_ok(mt_matmul(rt, a, b, NULL, &out));
  ck_assert_int_eq(mt_tensor_elements(out), 0);
  DROP(&a, &b, &out);
  a = ramp2(2, 0, 1);
  b = ramp2(0, 4, 2);
  ck_ok(mt_matmul(rt, a, b, NULL, &out)); /* K = 0: zeros */
  float *got = values(out);
  for (int i = 0; i < 8; i++) {
    ck_assert(got[i] == 0);
  }
  free(got);
  DROP(&a, &b, &out);
  finish(rt, late_of(rt));
}
END_TEST

/* ---- two devices -------------------------------------------------------------------------------
 */

START_TEST(test_chain_over_two_devices) {
  mt_runtime *rt = start("late:0,late:1,reference");
  mt_tensor *x = ramp2(8, 8, 1), *y = ramp2(8, 8, 2);
  mt_tensor *sum[2] = {NULL}, *product[2] = {NULL}, *result[2] = {NULL}, *soft[2] = {NULL};
  for (int i = 0; i < 2; i++) {
    mt_runtime *on = i == 0 ? rt : reference;
    ck_ok(mt_add(on, x, y, &sum[i]));
    ck_ok(mt_mul(on, sum[i], y, &product[i]));      /* late:1 */
    ck_ok(mt_relu(on, product[i], &result[i]));     /* late:0 */
    ck_ok(mt_softmax(on, result[i], -1, &soft[i])); /* the host */
  }
  check_on(sum[0], "host"); /* it went through */
  check_on(soft[0], "host");
  check_same(soft[0], soft[1]);
  check_same(result[0], result[1]);
  check_same(sum[0], sum[1]);
  ck_assert_uint_eq(stats_of(rt, "mul", "late:1").calls, 1);
  for (int i = 0; i < 2; i++) {
    DROP(&sum[i], &product[i], &result[i], &soft[i]);
  }
  DROP(&x, &y);
  finish(rt, late_of(rt));
}
END_TEST

/* ---- plans
 * --------------------------------------------------------------------------------------- */

START_TEST(test_prepared_once) {
  mt_runtime *rt = start("late");
  late_handle late = late_of(rt);
  mt_tensor *weights = ramp2(16, 8, 1);
  ck_ok(mt_tensor_freeze(weights));
  for (int i = 0; i < 5; i++) {
    mt_tensor *x = ramp2(4, 16, i), *out = NULL, *expected = NULL;
    ck_ok(mt_matmul(rt, x, weights, NULL, &out));
    ck_ok(mt_matmul(reference, x, weights, NULL, &expected));
    check_same(out, expected);
    DROP(&x, &out, &expected);
  }
  ck_assert_uint_eq(counters(late, 0).prepares, 1);
  ck_assert_uint_eq(counters(late, 0).packs, 1);
  mt_tensor *other = ramp2(3, 16, 9), *out = NULL; /* another shape */
  ck_ok(mt_matmul(rt, other, weights, NULL, &out));
  ck_assert_uint_eq(counters(late, 0).prepares, 2);
  ck_ok(mt_runtime_sync(rt));
  ck_assert_uint_eq(counters(late, 0).live_plans, 2);
  DROP(&weights);
  ck_ok(mt_runtime_sync(rt));
  ck_assert_uint_eq(counters(late, 0).live_plans, 0); /* went with the weights */
  DROP(&other, &out);
  finish(rt, late);
}
END_TEST

/* Weights with the same description but other content; one of them is a later part. */
START_TEST(test_plans_know_the_content) {
  mt_runtime *rt = start("late");
  mt_tensor *both = ramp2(32, 16, 1), *part[2] = {NULL}, *x = ramp2(4, 16, 2);
  ck_ok(mt_tensor_freeze(both));
  for (int i = 0; i < 2; i++) {
    mt_tensor *out = NULL, *expected = NULL;
    ck_ok(mt_tensor_slice(both, 0, 16 * i, 16 * i + 16, 1, &part[i]));
    ck_ok(mt_matmul(rt, x, part[i], NULL, &out));
    ck_ok(mt_matmul(reference, x, part[i], NULL, &expected));
    check_same(out, expected);
    DROP(&out, &expected, &part[i]);
  }
  ck_assert_uint_eq(counters(late_of(rt), 0).packs, 2);
  DROP(&both, &x);
  finish(rt, late_of(rt));
}
END_TEST

/* Plans that pending work uses stay, however many. */
START_TEST(test_plans_in_use_stay) {
  mt_runtime *rt = start("late");
  late_handle late = late_of(rt);
  hold(late, 0);
  for (int64_t k = 1; k <= 150; k++) {
    mt_tensor *x = ramp2(2, k, 1), *y = ramp2(k, 2, 2), *out = NULL;
    ck_ok(mt_matmul(rt, x, y, NULL, &out));
    DROP(&x, &y, &out);
  }
  ck_assert_uint_eq(counters(late, 0).live_plans, 150);
  check_promises(late);
  open_gate(late, 0);
  ck_ok(mt_runtime_sync(rt));
  finish(rt, late);
}
END_TEST

/* Two weights with the same description. */
START_TEST(test_weights_alike) {
  mt_runtime *rt = start("late");
  mt_tensor *w[2] = {ramp2(16, 16, 1), ramp2(16, 16, 2)}, *x = ramp2(4, 16, 3);
  for (int i = 0; i < 2; i++) {
    mt_tensor *out = NULL, *expected = NULL;
    ck_ok(mt_tensor_freeze(w[i]));
    ck_ok(mt_matmul(rt, x, w[i], NULL, &out));
    ck_ok(mt_matmul(reference, x, w[i], NULL, &expected));
    check_same(out, expected);
    DROP(&out, &expected);
  }
  ck_assert_uint_eq(counters(late_of(rt), 0).packs, 2);
  DROP(&w[0], &w[1], &x);
  finish(rt, late_of(rt));
}
END_TEST

/* More descriptions than are kept. */
START_TEST(test_plans_are_bounded) {
  late_set("DELAY_US", "0");
  mt_runtime *rt = start("late");
  late_handle late = late_of(rt);
  for (int64_t k = 1; k <= 200; k++) {
    mt_tensor *x = ramp2(2, k, 1), *y = ramp2(k, 2, 2), *out = NULL;
    ck_ok(mt_matmul(rt, x, y, NULL, &out));
    if (k % 50 == 0) {
      ck_ok(mt_runtime_sync(rt));
    }
    DROP(&x, &y, &out);
  }
  ck_assert_uint_eq(counters(late, 0).prepares, 200);
  ck_assert_uint_le(counters(late, 0).live_plans, 160);
  finish(rt, late);
}
END_TEST

TEST_MAIN(dispatch, test_strict, test_fallback, test_fallback_to_next_device, test_f64_falls_back,
          test_required_attribute, test_log_lines, test_relayout_inputs, test_trans_options,
          test_bias_and_beta, test_batches, test_gelu_is_refused, test_broadcast_add,
          test_relayout_output, test_misaligned_offset, test_aligned_offset, test_format_unknown,
          test_format_known, test_empty, test_chain_over_two_devices, test_prepared_once,
          test_plans_know_the_content, test_plans_in_use_stay, test_weights_alike,
          test_plans_are_bounded)
