// SPDX-License-Identifier: Apache-2.0
/* Where content is: it stays on the device until the host asks, and what the host writes is
 * seen by the device. */
#include "late_harness.h"

static mt_runtime *rt, *reference;
static late_handle late;

static void start(const char *backend) {
  reference = runtime("reference");
  rt = runtime(backend);
  late = late_of(rt);
}

static void finish(void) {
  mt_runtime_release(&rt);
  mt_runtime_release(&reference);
  check_promises(late);
}

START_TEST(test_chain_stays) {
  start("late");
  mt_tensor *x = ramp2(8, 8, 1), *w = ramp2(8, 8, 2);
  mt_tensor *a[2] = {NULL}, *b[2] = {NULL}, *c[2] = {NULL};
  for (int i = 0; i < 2; i++) {
    mt_runtime *on = i == 0 ? rt : reference;
    ck_ok(mt_matmul(on, x, w, NULL, &a[i]));
    ck_ok(mt_relu(on, a[i], &b[i]));
    ck_ok(mt_add(on, b[i], x, &c[i]));
  }
  check_on(a[0], "late:0");
  check_on(c[0], "late:0");
  check_on(x, "host"); /* it is on both sides */
  ck_ok(mt_runtime_sync(rt));
  late_counters count = counters(late, 0);
  ck_assert_uint_eq(count.uploads, 2); /* x once, w once */
  ck_assert_uint_eq(count.downloads, 0);
  ck_assert_uint_eq(count.executes, 3);
  check_same(c[0], c[1]);
  ck_assert_uint_eq(counters(late, 0).downloads, 1);
  check_on(c[0], "host");
  check_same(c[0], c[1]); /* it is here now */
  ck_assert_uint_eq(counters(late, 0).downloads, 1);
  check_same(a[0], a[1]);
  DROP(&x, &w, &a[0], &a[1], &b[0], &b[1], &c[0], &c[1]);
  ck_assert_uint_eq(counters(late, 0).live_buffers, 0);
  finish();
}
END_TEST

/* A write on the host makes the device's copy stale; reading does not. */
START_TEST(test_write_invalidates) {
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *out = NULL;
  const void *read;
  void *data;
  ck_ok(mt_relu(rt, x, &out));
  ck_ok(mt_tensor_read(x, &read));
  mt_tensor_release(&out);
  ck_ok(mt_relu(rt, x, &out));
  ck_assert_uint_eq(counters(late, 0).uploads, 1);
  ck_ok(mt_tensor_write(x, &data));
  for (int i = 0; i < 16; i++) {
    ((float *)data)[i] = (float)i;
  }
  mt_tensor_release(&out);
  ck_ok(mt_relu(rt, x, &out));
  check_same(out, x);
  ck_assert_uint_eq(counters(late, 0).uploads, 2);
  ck_ok(mt_tensor_write(out, &data)); /* an output, written on the host */
  ((float *)data)[3] = 50;
  mt_tensor *sum = NULL;
  ck_ok(mt_add(rt, out, x, &sum));
  float *got = values(sum);
  ck_assert(got[3] == 53 && got[4] == 8);
  free(got);
  DROP(&x, &out, &sum);
  finish();
}
END_TEST

/* Views of what is on the device; a write through one is a write to all. */
START_TEST(test_views_of_device_tensors) {
  start("late");
  mt_tensor *x = ramp2(4, 64, 1), *out[2] = {NULL}, *turned[2] = {NULL}, *part[2] = {NULL};
  for (int i = 0; i < 2; i++) {
    mt_runtime *on = i == 0 ? rt : reference;
    mt_tensor *y = NULL, *z = NULL;
    ck_ok(mt_relu(on, x, &out[i]));
    ck_ok(mt_tensor_transpose(out[i], 0, 1, &turned[i]));
    ck_ok(mt_tensor_slice(out[i], 0, 2, 4, 1, &part[i]));
    ck_ok(mt_add(on, turned[i], turned[i], &y));
    ck_ok(mt_relu(on, part[i], &z));
    if (i == 0) {
      check_on(y, "late:0");
      check_on(z, "late:0");
    }
    DROP(&turned[i], &part[i]);
    turned[i] = y;
    part[i] = z;
  }
  check_same(turned[0], turned[1]);
  check_same(part[0], part[1]);
  mt_tensor *view = NULL, *again = NULL;
  void *data;
  ck_ok(mt_tensor_slice(out[0], 0, 1, 2, 1, &view));
  ck_ok(mt_tensor_write(view, &data));
  ((float *)data)[0] = 99;
  ck_ok(mt_relu(rt, out[0], &again));
  float *got = values(again);
  ck_assert(got[64] == 99);
  free(got);
  DROP(&x, &out[0], &out[1], &turned[0], &turned[1], &part[0], &part[1], &view, &again);
  finish();
}
END_TEST

/* Into a part of a tensor that is on the device: the rest keeps its newest content. */
START_TEST(test_write_part_on_device) {
  start("late");
  mt_tensor *x = ramp2(4, 64, 1), *row = ramp2(1, 64, 2), *whole[2] = {NULL};
  for (int i = 0; i < 2; i++) {
    mt_runtime *on = i == 0 ? rt : reference;
    mt_tensor *part = NULL;
    ck_ok(mt_relu(on, x, &whole[i]));
    ck_ok(mt_tensor_slice(whole[i], 0, 2, 3, 1, &part));
    ck_ok(mt_add(on, row, row, &part));
    DROP(&part);
  }
  check_on(whole[0], "late:0");
  check_same(whole[0], whole[1]);
  DROP(&x, &row, &whole[0], &whole[1]);
  finish();
}
END_TEST

/* The same when the rest was written on the host: it has to be sent over first. */
START_TEST(test_write_part_from_host) {
  start("late");
  mt_tensor *row = ramp2(1, 64, 2), *whole[2] = {ramp2(4, 64, 1), ramp2(4, 64, 1)};
  for (int i = 0; i < 2; i++) {
    mt_tensor *part = NULL;
    ck_ok(mt_tensor_slice(whole[i], 0, 2, 3, 1, &part));
    ck_ok(mt_add(i == 0 ? rt : reference, row, row, &part));
    DROP(&part);
  }
  check_on(whole[0], "late:0");
  check_same(whole[0], whole[1]);
  ck_assert_uint_eq(counters(late, 0).uploads, 2);
  DROP(&row, &whole[0], &whole[1]);
  finish();
}
END_TEST

START_TEST(test_in_place) {
  start("late");
  mt_tensor *x = ramp2(6, 6, 1), *y = ramp2(6, 6, 2), *same = ramp2(6, 6, 1);
  for (int i = 0; i < 3; i++) {
    ck_ok(mt_add(rt, x, y, &x));
    ck_ok(mt_add(reference, same, y, &same));
  }
  check_on(x, "late:0");
  check_same(x, same);
  ck_assert_uint_eq(counters(late, 0).uploads, 2);
  DROP(&x, &y, &same);
  finish();
}
END_TEST

/* The output was written on the host before: no need to send that over. */
START_TEST(test_whole_output_is_not_uploaded) {
  start("late");
  mt_tensor *x = ramp2(6, 6, 1), *out = ramp2(6, 6, 2), *expected = NULL;
  ck_ok(mt_relu(rt, x, &out));
  ck_ok(mt_relu(reference, x, &expected));
  check_same(out, expected);
  ck_assert_uint_eq(counters(late, 0).uploads, 1);
  DROP(&x, &out, &expected);
  finish();
}
END_TEST

START_TEST(test_two_runtimes_share) {
  start("late:0");
  mt_runtime *other = runtime("late:1");
  late_handle other_late = late_of(other);
  mt_tensor *x = ramp2(5, 5, 1), *y[2] = {NULL}, *z[2] = {NULL}, *back[2] = {NULL};
  for (int i = 0; i < 2; i++) {
    ck_ok(mt_add(i == 0 ? rt : reference, x, x, &y[i]));
    ck_ok(mt_mul(i == 0 ? other : reference, y[i], x, &z[i]));
    ck_ok(mt_add(i == 0 ? rt : reference, z[i], y[i], &back[i]));
  }
  check_on(back[0], "late:0");
  check_same(back[0], back[1]);
  check_same(z[0], z[1]);
  check_same(y[0], y[1]);
  ck_assert_uint_eq(counters(other_late, 1).executes, 1);
  mt_runtime_release(&other);
  check_same(back[0], back[1]);
  DROP(&x, &y[0], &y[1], &z[0], &z[1], &back[0], &back[1]);
  finish();
}
END_TEST

/* What is on a device keeps it, longer than the runtime. */
START_TEST(test_tensors_outlive_the_runtime) {
  start("late");
  mt_tensor *x = ramp2(5, 5, 1), *out = NULL, *expected = NULL, *unread = NULL;
  ck_ok(mt_relu(rt, x, &out));
  ck_ok(mt_relu(rt, x, &unread));
  ck_ok(mt_relu(reference, x, &expected));
  mt_runtime_release(&rt);
  check_on(out, "late:0");
  check_same(out, expected);
  check_same(out, expected);
  mt_runtime *next = runtime("late"); /* an instance of its own */
  ck_ok(mt_add(next, out, x, &out));
  ck_ok(mt_add(reference, expected, x, &expected));
  check_same(out, expected);
  mt_runtime_release(&next);
  DROP(&x, &out, &expected, &unread);
  finish();
}
END_TEST

/* log_fn may be gone with the program's own things when the last tensor goes. */
START_TEST(test_no_log_after_release) {
  start("late");
  mt_tensor *x = ramp2(5, 5, 1), *out = NULL;
  mt_runtime_release(&rt); /* nothing keeps it: its end is heard */
  ck_assert_int_eq(logged("late: stopped"), 1);
  rt = runtime("late");
  ck_ok(mt_relu(rt, x, &out));
  mt_runtime_release(&rt);
  DROP(&x, &out);
  ck_assert_int_eq(logged("late: stopped"), 1);
  finish();
}
END_TEST

/* ---- too little memory ------------------------------------------------------------------------
 */

START_TEST(test_out_of_device_memory) {
  late_set("MEMORY_BYTES", "3000");
  start("late");
  mt_tensor *x = ramp2(16, 16, 1), *out = NULL, *second = NULL, *expected = NULL; /* 1024 bytes */
  ck_ok(mt_relu(rt, x, &out));
  ck_fails(mt_relu(rt, out, &second), MT_ERR_OUT_OF_MEMORY, "late:0: allocate: 1024 bytes");
  ck_assert_ptr_null(second);
  ck_ok(mt_relu(reference, x, &expected));
  check_same(out, expected); /* nothing is lost */
  DROP(&x);
  ck_ok(mt_relu(rt, out, &second)); /* and there is room again */
  check_same(second, expected);
  DROP(&out, &second, &expected);
  finish();
}
END_TEST

START_TEST(test_largest_buffer) {
  late_set("MAX_BUFFER_BYTES", "500");
  start("late");
  mt_tensor *x = ramp2(16, 16, 1), *out = NULL;
  ck_fails(mt_relu(rt, x, &out), MT_ERR_OUT_OF_MEMORY, "the largest has 500");
  mt_tensor *expected = ramp2(16, 16, 1);
  check_same(x, expected);
  DROP(&x, &expected);
  finish();
}
END_TEST

/* Each allocation of a chain fails in turn: an error each time, no leak, no damage. */
START_TEST(test_every_allocation_fails) {
  mt_tensor *a = ramp2(6, 4, 1), *b = ramp2(5, 4, 2), *bt = NULL, *bias = ramp1(5, 3);
  ck_ok(mt_tensor_transpose(b, 0, 1, &bt));
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  options.bias = bias;
  bool through = false;
  for (int n = 0; !through; n++) {
    char number[16];
    ck_assert_int_lt(n, 20);
    snprintf(number, sizeof(number), "%d", n);
    late_set("FAIL_ALLOC_AFTER", number);
    start("late");
    mt_tensor *out = NULL, *expected = NULL, *activated = NULL;
    mt_status status = mt_matmul(rt, a, bt, &options, &out);
    status = status == MT_OK ? mt_relu(rt, out, &activated) : status;
    through = status == MT_OK;
    if (through) {
      ck_ok(mt_matmul(reference, a, bt, &options, &expected));
      check_same(out, expected);
    } else {
      ck_assert_int_eq(status, MT_ERR_OUT_OF_MEMORY);
      ck_assert_ptr_nonnull(strstr(mt_last_error(), "injected"));
    }
    DROP(&out, &expected, &activated);
    finish();
  }
  DROP(&a, &b, &bt, &bias);
}
END_TEST

START_TEST(test_frozen) {
  start("late");
  mt_tensor *w = ramp2(4, 4, 1), *x = ramp2(4, 4, 2), *view = NULL;
  void *data;
  ck_ok(mt_tensor_freeze(w));
  ck_ok(mt_tensor_freeze(w));
  ck_ok(mt_tensor_slice(w, 0, 0, 2, 1, &view));
  ck_fails(mt_tensor_write(w, &data), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_fails(mt_tensor_write(view, &data), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_fails(mt_add(rt, x, x, &w), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_ok(mt_add(rt, w, x, &x));
  DROP(&w, &x, &view);
  finish();
}
END_TEST

TEST_MAIN(residency, test_chain_stays, test_write_invalidates, test_views_of_device_tensors,
          test_write_part_on_device, test_write_part_from_host, test_in_place,
          test_whole_output_is_not_uploaded, test_two_runtimes_share,
          test_tensors_outlive_the_runtime, test_no_log_after_release, test_out_of_device_memory,
          test_largest_buffer, test_every_allocation_fails, test_frozen)
