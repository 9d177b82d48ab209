// SPDX-License-Identifier: Apache-2.0
/* Work that is done later: what is given back at once, who waits, what is kept alive until
 * then, and where a failure shows. */
#include "late_harness.h"

#include <sched.h>

static mt_runtime *rt;
static late_handle late;

static void start(const char *backend) {
  rt = runtime(backend);
  late = late_of(rt);
}

static void finish(void) {
  mt_runtime_release(&rt);
  check_promises(late);
}

static void check_relu(const mt_tensor *out, int seed) {
  float *got = values(out);
  for (int64_t i = 0; i < mt_tensor_elements(out); i++) {
    float x = ramp_value(i, seed);
    ck_assert(got[i] == (x < 0 ? 0 : x));
  }
  free(got);
}

/* ---- waiting ------------------------------------------------------------------------------------
 */

START_TEST(test_ops_return_at_once) {
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_add(rt, y, x, &z));
  check_on(z, "late:0");
  ck_assert_uint_eq(counters(late, 0).done, 0);
  ck_assert_uint_eq(counters(late, 0).waiting, 3);
  check_on(x, "host");
  const void *data;
  ck_ok(mt_tensor_read(x, &data)); /* an upload that reads it is no reason to wait */
  ck_assert(((const float *)data)[5] == ramp_value(5, 1));
  ck_assert_uint_eq(counters(late, 0).done, 0);
  open_gate(late, 0);
  ck_ok(mt_runtime_sync(rt));
  ck_assert_uint_eq(counters(late, 0).waiting, 0);
  check_relu(y, 1);
  DROP(&x, &y, &z);
  finish();
}
END_TEST

START_TEST(test_read_waits) {
  pthread_t opener;
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  pthread_create(&opener, NULL, open_later, &late);
  check_relu(y, 1);
  pthread_join(opener, NULL);
  DROP(&x, &y);
  finish();
}
END_TEST

/* The upload has not read x yet: writing must wait, else the device would see the new. */
START_TEST(test_write_waits_for_the_upload) {
  pthread_t opener;
  void *data;
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  pthread_create(&opener, NULL, open_later, &late);
  ck_ok(mt_tensor_write(x, &data));
  memset(data, 0, mt_tensor_bytes(x));
  pthread_join(opener, NULL);
  check_relu(y, 1);
  DROP(&x, &y);
  finish();
}
END_TEST

/* An upload waits, and another runtime takes the tensor to its own device meanwhile. */
START_TEST(test_other_device_waits) {
  pthread_t opener;
  start("late:0");
  mt_runtime *other = runtime("late:1");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  pthread_create(&opener, NULL, open_later, &late);
  ck_ok(mt_relu(other, y, &z));
  pthread_join(opener, NULL);
  check_relu(z, 1);
  mt_runtime_release(&other);
  DROP(&x, &y, &z);
  finish();
}
END_TEST

/* Weights are packed by prepare, when their upload is done. */
START_TEST(test_prepare_waits_for_the_content) {
  pthread_t opener;
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *w = ramp2(4, 4, 2), *y = NULL, *expected = NULL;
  mt_runtime *reference = runtime("reference");
  ck_ok(mt_tensor_freeze(w));
  hold(late, 0);
  pthread_create(&opener, NULL, open_later, &late);
  ck_ok(mt_matmul(rt, x, w, NULL, &y));
  pthread_join(opener, NULL);
  ck_ok(mt_matmul(reference, x, w, NULL, &expected));
  check_same(y, expected);
  ck_assert_uint_eq(counters(late, 0).packs, 1);
  mt_runtime_release(&reference);
  DROP(&x, &w, &y, &expected);
  finish();
}
END_TEST

/* ---- what is kept until then
 * ---------------------------------------------------------------------- */

static void note_release(void *data, void *user) {
  (void)data;
  atomic_store((atomic_int *)user, 1);
}

START_TEST(test_wrapped_memory_is_kept) {
  float memory[16];
  atomic_int released;
  atomic_init(&released, 0);
  start("late");
  for (int i = 0; i < 16; i++) {
    memory[i] = ramp_value(i, 1);
  }
  mt_tensor *x = NULL, *y = NULL;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, (const int64_t[]){4, 4}, NULL, note_release, &released,
                       &x));
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  mt_tensor_release(&x); /* does not wait; the upload still needs the memory */
  ck_assert_int_eq(atomic_load(&released), 0);
  ck_assert_uint_eq(counters(late, 0).done, 0);
  open_gate(late, 0);
  ck_ok(mt_runtime_sync(rt));
  ck_assert_int_eq(atomic_load(&released), 1);
  memset(memory, 0, sizeof(memory));
  check_relu(y, 1);
  DROP(&y);
  finish();
}
END_TEST

/* Outputs and inputs in the middle of a chain go while it waits. */
START_TEST(test_release_while_pending) {
  start("late");
  mt_tensor *x = ramp2(8, 8, 1), *w = ramp2(8, 8, 2), *y = NULL, *z = NULL;
  hold(late, 0);
  for (int i = 0; i < 10; i++) {
    ck_ok(mt_matmul(rt, x, w, NULL, &y));
    ck_ok(mt_relu(rt, y, &z));
    DROP(&y, &z);
  }
  DROP(&x, &w);
  ck_assert_uint_eq(counters(late, 0).live_buffers, 22);
  open_gate(late, 0);
  ck_ok(mt_runtime_sync(rt));
  ck_assert_uint_eq(counters(late, 0).live_buffers, 0);
  ck_assert_uint_eq(counters(late, 0).frees, 22);
  finish();
}
END_TEST

/* The next op finds what is done, without a sync. */
START_TEST(test_freed_along_the_way) {
  late_set("DELAY_US", "0");
  start("late");
  mt_tensor *x = ramp2(8, 8, 1);
  for (int i = 0; i < 200; i++) {
    mt_tensor *y = NULL;
    const void *data;
    ck_ok(mt_relu(rt, x, &y));
    if (i % 10 == 9) {
      ck_ok(mt_tensor_read(y, &data));
    }
    DROP(&y);
    ck_assert_uint_le(counters(late, 0).live_buffers, 16);
  }
  DROP(&x);
  finish();
}
END_TEST

START_TEST(test_runtime_released_with_work_pending) {
  pthread_t opener;
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *gone = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_relu(rt, x, &gone));
  DROP(&x, &gone);
  pthread_create(&opener, NULL, open_later, &late);
  mt_runtime_release(&rt);
  pthread_join(opener, NULL);
  check_on(y, "late:0");
  check_relu(y, 1);
  DROP(&y);
  finish();
}
END_TEST

/* ---- failures
 * --------------------------------------------------------------------------------------- */

START_TEST(test_failure_shows_at_read) {
  late_set("FAIL_EXECUTE_AT", "2");
  start("late");
  const void *data;
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL, *more = NULL;
  ck_ok(mt_relu(rt, x, &y));
  check_relu(y, 1); /* the first one works */
  hold(late, 0);
  ck_ok(mt_relu(rt, y, &z));
  open_gate(late, 0);
  ck_fails(mt_tensor_read(z, &data), MT_ERR_BACKEND, "late:0: work given earlier failed: injected");
  ck_assert_ptr_null(data);
  ck_fails(mt_tensor_read(z, &data), MT_ERR_DEVICE_LOST, "injected: execute 2 fails");
  ck_fails(mt_relu(rt, x, &more), MT_ERR_DEVICE_LOST, "injected: execute 2 fails");
  ck_assert_ptr_null(more);
  ck_fails(mt_runtime_sync(rt), MT_ERR_DEVICE_LOST, "late:0");
  check_relu(y, 1); /* it had come to the host */
  mt_tensor *same = ramp2(4, 4, 1);
  check_same(x, same);
  DROP(&x, &y, &z, &same);
  finish();
}
END_TEST

START_TEST(test_failure_shows_at_sync) {
  late_set("FAIL_EXECUTE_AT", "1");
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL;
  ck_ok(mt_relu(rt, x, &y));
  ck_fails(mt_runtime_sync(rt), MT_ERR_BACKEND, "injected: execute 1 fails");
  DROP(&x, &y);
  finish();
}
END_TEST

/* Released inputs of work that failed: their memory is given back all the same. */
START_TEST(test_failure_releases_memory) {
  float memory[4] = {1, 2, 3, 4};
  atomic_int released;
  atomic_init(&released, 0);
  late_set("FAIL_EXECUTE_AT", "1");
  start("late");
  mt_tensor *x = NULL, *y = NULL;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 1, (const int64_t[]){4}, NULL, note_release, &released, &x));
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  DROP(&x);
  open_gate(late, 0);
  mt_runtime_release(&rt);
  ck_assert_int_eq(atomic_load(&released), 1);
  const void *data;
  mt_status status = mt_tensor_read(y, &data);
  ck_assert_int_eq(status, MT_ERR_DEVICE_LOST);
  DROP(&y);
  finish();
}
END_TEST

START_TEST(test_lost_device) {
  late_set("LOSE_DEVICE_AT", "2");
  start("late");
  const void *data;
  void *writable;
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_relu(rt, y, &z));
  for (int i = 0; i < 3; i++) {
    ck_fails(mt_tensor_read(z, &data), MT_ERR_DEVICE_LOST, "late:0");
  }
  ck_fails(mt_tensor_read(y, &data), MT_ERR_DEVICE_LOST, "late:0"); /* it lived only there */
  ck_fails(mt_tensor_write(z, &writable), MT_ERR_DEVICE_LOST, "late:0");
  mt_tensor *same = ramp2(4, 4, 1);
  check_same(x, same);
  ck_ok(mt_tensor_write(x, &writable)); /* what is on the host is ours again */
  ((float *)writable)[0] = 5;
  mt_tensor *more = NULL;
  ck_fails(mt_relu(rt, x, &more), MT_ERR_DEVICE_LOST, "lost");
  mt_runtime *other = runtime("reference");
  ck_ok(mt_relu(other, x, &more));
  mt_runtime_release(&other);
  DROP(&x, &y, &z, &same, &more);
  finish();
}
END_TEST

/* The next backend of the order takes over what is still to be had. */
START_TEST(test_lost_device_falls_back) {
  late_set("LOSE_DEVICE_AT", "1");
  start("late,reference");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  ck_ok(mt_relu(rt, x, &y));
  ck_fails(mt_runtime_sync(rt), MT_ERR_DEVICE_LOST, "late:0");
  ck_assert_int_eq(logged("late:0: the device is lost and not used again: injected"), 1);
  ck_ok(mt_relu(rt, x, &z));
  check_on(z, "host");
  check_relu(z, 1);
  ck_assert_ptr_nonnull(strstr(stats_of(rt, "relu", "reference").reason, "lost"));
  mt_tensor *more = NULL;
  ck_fails(mt_relu(rt, y, &more), MT_ERR_DEVICE_LOST, "late:0");
  DROP(&x, &y, &z);
  finish();
}
END_TEST

/* A point that does not rise says nothing of when the memory is free again. */
START_TEST(test_point_that_does_not_rise) {
  late_set("STALE_POINT", "2");
  late_set("DELAY_US", "0");
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *more = NULL;
  ck_ok(mt_relu(rt, x, &y)); /* points 1 and 2 */
  ck_fails(mt_relu(rt, x, &y), MT_ERR_BACKEND, "late:0: relu: gave point 2 after 2");
  ck_fails(mt_relu(rt, x, &more), MT_ERR_DEVICE_LOST, "gave point 2 after 2");
  while (counters(late, 0).waiting > 0) { /* what it did take is not ours to disturb */
    sched_yield();
  }
  DROP(&x, &y);
  finish();
}
END_TEST

/* Nor does an answer that is ahead of all that was asked for. */
START_TEST(test_query_that_boasts) {
  late_set("BOASTS", "1");
  start("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  DROP(&y);
  ck_assert_uint_eq(counters(late, 0).live_buffers, 2);
  open_gate(late, 0);
  ck_ok(mt_relu(rt, x, &z));
  check_relu(z, 1);
  DROP(&x, &z);
  finish();
}
END_TEST

/* ---- a device that works late on host memory ----------------------------------------------------
 */

static void start_on_host(const char *backend) {
  late_set("HOST_POINTERS", "1");
  start(backend);
}

START_TEST(test_host_memory_chain) {
  start_on_host("late");
  mt_runtime *reference = runtime("reference");
  mt_tensor *x = ramp2(8, 8, 1), *w = ramp2(8, 8, 2), *wt = NULL;
  mt_tensor *a[2] = {NULL}, *b[2] = {NULL}, *c[2] = {NULL};
  ck_ok(mt_tensor_transpose(w, 0, 1, &wt));
  ck_ok(mt_tensor_freeze(w));
  for (int i = 0; i < 2; i++) {
    mt_runtime *on = i == 0 ? rt : reference;
    ck_ok(mt_matmul(on, x, w, NULL, &a[i]));
    ck_ok(mt_matmul(on, a[i], wt, NULL, &b[i])); /* the relayout has to wait for w only */
    ck_ok(mt_add(on, b[i], x, &c[i]));
    ck_ok(mt_add(on, c[i], c[i], &c[i]));
  }
  check_on(c[0], "host");
  check_same(c[0], c[1]);
  check_same(a[0], a[1]);
  ck_assert_uint_eq(counters(late, 0).packs, 1);
  ck_assert_uint_eq(counters(late, 0).allocs, 0);
  mt_runtime_release(&reference);
  DROP(&x, &w, &wt, &a[0], &a[1], &b[0], &b[1], &c[0], &c[1]);
  finish();
}
END_TEST

START_TEST(test_host_memory_waits) {
  pthread_t opener;
  void *data;
  start_on_host("late");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_relu(rt, y, &z));
  const void *read;
  ck_ok(mt_tensor_read(x, &read)); /* the device only reads it */
  ck_assert_uint_eq(counters(late, 0).done, 0);
  mt_tensor_release(&y); /* it still goes through */
  pthread_create(&opener, NULL, open_later, &late);
  ck_ok(mt_tensor_write(x, &data));
  memset(data, 0, mt_tensor_bytes(x));
  pthread_join(opener, NULL);
  check_relu(z, 1);
  DROP(&x, &z);
  finish();
}
END_TEST

/* From there to a device with its own memory, to the reference kernels, and back. */
START_TEST(test_host_memory_travels) {
  start_on_host("late,reference");
  late_set("HOST_POINTERS", "0");
  mt_runtime *other = runtime("late:1");
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL, *soft = NULL, *back = NULL;
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_relu(other, y, &z));
  check_on(z, "late:1");
  ck_ok(mt_relu(rt, z, &back));
  ck_ok(mt_softmax(rt, back, -1, &soft));
  check_relu(back, 1);
  check_relu(z, 1);
  late_handle other_late = late_of(other);
  mt_runtime_release(&other);
  DROP(&x, &y, &z, &soft, &back);
  check_promises(other_late);
  finish();
}
END_TEST

START_TEST(test_host_memory_lost) {
  late_set("LOSE_DEVICE_AT", "2");
  start_on_host("late");
  const void *data;
  mt_tensor *x = ramp2(4, 4, 1), *y = NULL, *z = NULL, *same = ramp2(4, 4, 1);
  ck_ok(mt_relu(rt, x, &y));
  check_relu(y, 1);
  ck_ok(mt_relu(rt, x, &z));
  ck_fails(mt_runtime_sync(rt), MT_ERR_DEVICE_LOST, "late:0");
  check_same(x, same); /* only read */
  check_relu(y, 1);    /* done before */
  ck_fails(mt_tensor_read(z, &data), MT_ERR_DEVICE_LOST, "late:0");
  void *writable;
  ck_ok(mt_tensor_write(x, &writable));
  DROP(&x, &y, &z, &same);
  finish();
}
END_TEST

TEST_MAIN(async, test_ops_return_at_once, test_read_waits, test_write_waits_for_the_upload,
          test_other_device_waits, test_prepare_waits_for_the_content, test_wrapped_memory_is_kept,
          test_release_while_pending, test_freed_along_the_way,
          test_runtime_released_with_work_pending, test_failure_shows_at_read,
          test_failure_shows_at_sync, test_failure_releases_memory, test_lost_device,
          test_lost_device_falls_back, test_point_that_does_not_rise, test_query_that_boasts,
          test_host_memory_chain, test_host_memory_waits, test_host_memory_travels,
          test_host_memory_lost)
