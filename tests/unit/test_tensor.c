// SPDX-License-Identifier: Apache-2.0
/* Making tensors, asking them, their content, and who frees it when. */
#include "harness.h"

#include <mecantensor/tensor.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* A refused allocation is an answer here, also under the sanitizers. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1";
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static const mt_dtype plain_dtypes[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I8,
                                        MT_U8,  MT_I16, MT_I32, MT_I64,  MT_BOOL};
enum { PLAIN_DTYPES = sizeof(plain_dtypes) / sizeof(plain_dtypes[0]) };

/* ---- making --------------------------------------------------------------------------- */

START_TEST(create_describes_itself) {
  for (int i = 0; i < PLAIN_DTYPES; i++) {
    mt_tensor *t;
    ck_ok(mt_tensor_create(plain_dtypes[i], 3, SHAPE(2, 3, 5), &t));
    ck_assert_int_eq(mt_tensor_dtype(t), plain_dtypes[i]);
    ck_assert_ptr_null(mt_tensor_format(t));
    ck_assert_int_eq(mt_tensor_block_axis(t), -1);
    ck_assert_int_eq(mt_tensor_rank(t), 3);
    ck_assert_mem_eq(mt_tensor_shape(t), SHAPE(2, 3, 5), 3 * sizeof(int64_t));
    ck_assert_mem_eq(mt_tensor_strides(t), SHAPE(15, 5, 1), 3 * sizeof(int64_t));
    ck_assert_int_eq(mt_tensor_elements(t), 30);
    ck_assert_uint_eq(mt_tensor_bytes(t), 30 * mt_dtype_size(plain_dtypes[i]));
    ck_assert(mt_tensor_is_contiguous(t));
    mt_tensor_release(&t);
    ck_assert_ptr_null(t);
  }
}
END_TEST

START_TEST(create_fills_with_zeros_at_64_bytes) {
  for (int64_t n = 1; n < 3000; n = n * 3 / 2 + 1) {
    mt_tensor *t;
    const void *data;
    ck_ok(mt_tensor_create(MT_U8, 1, &n, &t));
    ck_ok(mt_tensor_read(t, &data));
    ck_assert_uint_eq((uintptr_t)data % 64, 0);
    for (int64_t i = 0; i < n; i++) {
      ck_assert_uint_eq(((const uint8_t *)data)[i], 0);
    }
    mt_tensor_release(&t);
  }
}
END_TEST

START_TEST(ranks_from_0_to_16) {
  int64_t ones[MT_MAX_RANK + 1];
  for (int i = 0; i <= MT_MAX_RANK; i++) {
    ones[i] = 1;
  }
  mt_tensor *t;
  for (int rank = 0; rank <= MT_MAX_RANK; rank++) {
    ck_ok(mt_tensor_create(MT_I16, rank, rank == 0 ? NULL : ones, &t));
    ck_assert_int_eq(mt_tensor_rank(t), rank);
    ck_assert_int_eq(mt_tensor_elements(t), 1);
    ck_assert_ptr_nonnull(mt_tensor_shape(t));
    ck_assert_ptr_nonnull(mt_tensor_strides(t));
    mt_tensor_release(&t);
  }
  ck_fails(mt_tensor_create(MT_I16, MT_MAX_RANK + 1, ones, &t), MT_ERR_INVALID_ARGUMENT, "rank 17");
  ck_assert_ptr_null(t);
  ck_fails(mt_tensor_create(MT_I16, -1, ones, &t), MT_ERR_INVALID_ARGUMENT, "rank -1");
  ck_fails(mt_tensor_create(MT_I16, INT32_MIN, ones, &t), MT_ERR_INVALID_ARGUMENT, "rank");
}
END_TEST

START_TEST(create_refuses_what_makes_no_tensor) {
  mt_tensor *t = (mt_tensor *)1;
  ck_fails(mt_tensor_create(MT_DTYPE_NONE, 0, NULL, &t), MT_ERR_INVALID_ARGUMENT, "dtype 0");
  ck_assert_ptr_null(t);
  ck_fails(mt_tensor_create(MT_BLOCK, 1, SHAPE(32), &t), MT_ERR_INVALID_ARGUMENT, "block");
  ck_fails(mt_tensor_create((mt_dtype)77, 1, SHAPE(32), &t), MT_ERR_INVALID_ARGUMENT, "77");
  ck_fails(mt_tensor_create(MT_F32, 2, SHAPE(3, -4), &t), MT_ERR_INVALID_ARGUMENT,
           "extent -4 of axis 1");
  ck_fails(mt_tensor_create(MT_F32, 1, NULL, &t), MT_ERR_INVALID_ARGUMENT, "shape is NULL");
  ck_fails(mt_tensor_create(MT_F32, 0, NULL, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_fails(mt_tensor_create_block(NULL, 1, SHAPE(32), &t), MT_ERR_INVALID_ARGUMENT,
           "format is NULL");
  ck_fails(mt_tensor_create_block(mt_format_find("q8_0"), 0, NULL, &t), MT_ERR_INVALID_ARGUMENT,
           "rank 0");
}
END_TEST

START_TEST(sizes_that_do_not_fit) {
  static const struct {
    mt_dtype dtype;
    int rank;
    int64_t shape[4];
  } rows[] = {
      {MT_I8, 2, {INT64_C(1) << 32, INT64_C(1) << 32}}, /* 2^64 elements: 0 when it wraps */
      {MT_I8, 2, {INT64_C(1) << 32, INT64_C(1) << 31}}, /* 2^63 */
      {MT_F64, 1, {INT64_C(1) << 60}},                  /* elements fit, bytes do not */
      {MT_F32, 1, {INT64_MAX}},
      {MT_I8, 4, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}},
      {MT_I8, 3, {0, INT64_MAX, 2}}, /* empty, but its strides would not fit */
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    mt_tensor *t;
    ck_fails(mt_tensor_create(rows[i].dtype, rows[i].rank, rows[i].shape, &t),
             MT_ERR_INVALID_ARGUMENT, "does not fit");
    ck_assert_ptr_null(t);
  }
  mt_tensor *t;
  ck_fails(mt_tensor_create(MT_I8, 1, SHAPE(INT64_C(1) << 61), &t), MT_ERR_OUT_OF_MEMORY,
           "2305843009213693952");
  ck_assert_ptr_null(t);
}
END_TEST

START_TEST(empty_tensors_are_tensors) {
  static const int64_t shapes[][3] = {{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {0, 0, 0}};
  for (int i = 0; i < 4; i++) {
    mt_tensor *t;
    const void *data;
    void *writable;
    ck_ok(mt_tensor_create(MT_F32, 3, shapes[i], &t));
    ck_assert_int_eq(mt_tensor_elements(t), 0);
    ck_assert_uint_eq(mt_tensor_bytes(t), 0);
    ck_assert(mt_tensor_is_contiguous(t));
    ck_ok(mt_tensor_read(t, &data));
    ck_ok(mt_tensor_write(t, &writable));
    ck_ok(mt_tensor_get(t, NULL, 0));
    ck_ok(mt_tensor_set(t, NULL, 0));
    mt_tensor_release(&t);
    ck_ok(mt_tensor_from_data(MT_F32, 3, shapes[i], NULL, &t));
    mt_tensor_release(&t);
    ck_ok(mt_tensor_wrap(NULL, MT_F32, 3, shapes[i], NULL, NULL, NULL, &t));
    ck_ok(mt_tensor_read(t, &data));
    mt_tensor_release(&t);
  }
}
END_TEST

START_TEST(asking_nothing) {
  ck_assert_int_eq(mt_tensor_dtype(NULL), MT_DTYPE_NONE);
  ck_assert_ptr_null(mt_tensor_format(NULL));
  ck_assert_int_eq(mt_tensor_block_axis(NULL), -1);
  ck_assert_int_eq(mt_tensor_rank(NULL), 0);
  ck_assert_ptr_null(mt_tensor_shape(NULL));
  ck_assert_ptr_null(mt_tensor_strides(NULL));
  ck_assert_int_eq(mt_tensor_elements(NULL), 0);
  ck_assert_uint_eq(mt_tensor_bytes(NULL), 0);
  ck_assert(!mt_tensor_is_contiguous(NULL));
  ck_assert_ptr_null(mt_tensor_retain(NULL));
  mt_tensor *none = NULL;
  mt_tensor_release(&none);
  mt_tensor_release(NULL);
}
END_TEST

/* ---- content -------------------------------------------------------------------------- */

START_TEST(data_round_trips_in_every_dtype) {
  uint8_t bytes[6 * 8], back[6 * 8];
  for (size_t i = 0; i < sizeof(bytes); i++) {
    bytes[i] = (uint8_t)(i * 37 + 11);
  }
  for (int i = 0; i < PLAIN_DTYPES; i++) {
    size_t size = 6 * mt_dtype_size(plain_dtypes[i]);
    mt_tensor *t;
    const void *data;
    ck_ok(mt_tensor_from_data(plain_dtypes[i], 2, SHAPE(2, 3), bytes, &t));
    ck_ok(mt_tensor_get(t, back, size));
    ck_assert_mem_eq(back, bytes, size);
    ck_ok(mt_tensor_set(t, bytes + sizeof(bytes) - size, size));
    ck_ok(mt_tensor_read(t, &data));
    ck_assert_mem_eq(data, bytes + sizeof(bytes) - size, size);
    ck_fails(mt_tensor_get(t, back, size - 1), MT_ERR_INVALID_ARGUMENT, "expected");
    ck_fails(mt_tensor_set(t, back, size + 1), MT_ERR_INVALID_ARGUMENT, "expected");
    mt_tensor_release(&t);
  }
}
END_TEST

START_TEST(content_wants_its_arguments) {
  mt_tensor *t;
  const void *data;
  void *writable;
  ck_ok(mt_tensor_create(MT_F32, 1, SHAPE(2), &t));
  ck_fails(mt_tensor_read(NULL, &data), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_read(t, NULL), MT_ERR_INVALID_ARGUMENT, "data is NULL");
  ck_fails(mt_tensor_write(NULL, &writable), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_write(t, NULL), MT_ERR_INVALID_ARGUMENT, "data is NULL");
  ck_fails(mt_tensor_get(NULL, &data, 8), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_set(NULL, &data, 8), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_get(t, NULL, 8), MT_ERR_INVALID_ARGUMENT, "NULL");
  ck_fails(mt_tensor_set(t, NULL, 8), MT_ERR_INVALID_ARGUMENT, "NULL");
  ck_fails(mt_tensor_freeze(NULL), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  mt_tensor_release(&t);
  ck_fails(mt_tensor_from_data(MT_F32, 1, SHAPE(2), NULL, &t), MT_ERR_INVALID_ARGUMENT,
           "data is NULL");
  ck_assert_ptr_null(t);
}
END_TEST

START_TEST(frozen_content_is_only_read) {
  mt_tensor *t, *view, *early;
  float values[4] = {1, 2, 3, 4}, back[4];
  const void *data;
  void *writable = &writable;
  ck_ok(mt_tensor_from_data(MT_F32, 2, SHAPE(2, 2), values, &t));
  ck_ok(mt_tensor_transpose(t, 0, 1, &early));
  ck_ok(mt_tensor_freeze(t));
  ck_ok(mt_tensor_freeze(t));
  ck_ok(mt_tensor_slice(t, 0, 0, 1, 1, &view));
  ck_fails(mt_tensor_write(t, &writable), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_assert_ptr_null(writable);
  ck_fails(mt_tensor_write(view, &writable), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_fails(mt_tensor_set(early, values, sizeof(values)), MT_ERR_INVALID_ARGUMENT, "frozen");
  ck_ok(mt_tensor_read(t, &data));
  ck_ok(mt_tensor_get(t, back, sizeof(back)));
  ck_assert_mem_eq(back, values, sizeof(values));
  mt_tensor_release(&t);
  mt_tensor_release(&view);
  mt_tensor_release(&early);
}
END_TEST

/* ---- wrapped memory ----------------------------------------------------------------------- */

typedef struct released {
  atomic_int times;
  void *data;
} released;

static void on_release(void *data, void *user) {
  released *r = user;
  r->data = data;
  atomic_fetch_add(&r->times, 1);
}

START_TEST(wrap_sees_strides_of_any_sign) {
  int32_t memory[6] = {0, 1, 2, 3, 4, 5};
  int32_t back[6];
  released r = {0};
  mt_tensor *t;
  /* rows from below, columns from the right: element (0, 0) is the last */
  ck_ok(mt_tensor_wrap(memory + 5, MT_I32, 2, SHAPE(2, 3), SHAPE(-3, -1), on_release, &r, &t));
  ck_assert(!mt_tensor_is_contiguous(t));
  const void *data;
  ck_ok(mt_tensor_read(t, &data));
  ck_assert_ptr_eq(data, memory + 5);
  ck_ok(mt_tensor_get(t, back, sizeof(back)));
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(back[i], 5 - i);
  }
  for (int i = 0; i < 6; i++) {
    back[i] = 10 + i;
  }
  ck_ok(mt_tensor_set(t, back, sizeof(back)));
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(memory[i], 15 - i);
  }
  ck_assert_int_eq(r.times, 0);
  mt_tensor_release(&t);
  ck_assert_int_eq(r.times, 1);
  ck_assert_ptr_eq(r.data, memory + 5);
}
END_TEST

START_TEST(wrap_of_unaligned_memory) {
  uint8_t memory[1 + 4 * sizeof(double)];
  double values[4] = {1.5, -2.5, 3.5, -4.5}, back[4];
  for (int shift = 0; shift <= 1; shift++) {
    mt_tensor *t, *column;
    ck_ok(mt_tensor_wrap(memory + shift, MT_F64, 2, SHAPE(2, 2), NULL, NULL, NULL, &t));
    ck_ok(mt_tensor_set(t, values, sizeof(values)));
    ck_assert_mem_eq(memory + shift, values, sizeof(values));
    ck_ok(mt_tensor_slice(t, 1, 1, 2, 1, &column));
    ck_ok(mt_tensor_get(column, back, 2 * sizeof(double)));
    ck_assert(back[0] == -2.5 && back[1] == -4.5);
    mt_tensor_release(&column);
    mt_tensor_release(&t);
  }
}
END_TEST

START_TEST(wrap_refuses_and_does_not_release) {
  released r = {0};
  float x = 0;
  mt_tensor *t = (mt_tensor *)1;
  ck_fails(mt_tensor_wrap(NULL, MT_F32, 1, SHAPE(1), NULL, on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "data is NULL");
  ck_assert_ptr_null(t);
  ck_fails(mt_tensor_wrap(&x, MT_BLOCK, 1, SHAPE(1), NULL, on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "mt_tensor_wrap_block");
  ck_fails(mt_tensor_wrap(&x, MT_F32, 1, SHAPE(-1), NULL, on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "extent -1");
  ck_fails(mt_tensor_wrap(&x, MT_F32, 17, SHAPE(1), NULL, on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "rank 17");
  ck_fails(mt_tensor_wrap(&x, MT_F32, 2, SHAPE(3, 3), SHAPE(INT64_MAX / 2, INT64_MAX / 2),
                          on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "63 bits");
  ck_fails(mt_tensor_wrap(&x, MT_F32, 1, SHAPE(2), SHAPE(INT64_MIN), on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "63 bits");
  ck_fails(mt_tensor_wrap(&x, MT_F32, 2, SHAPE(2, 2), SHAPE(INT64_MAX / 4, INT64_MIN / 4),
                          on_release, &r, &t),
           MT_ERR_INVALID_ARGUMENT, "63 bits"); /* each fits, their distance does not */
  ck_fails(mt_tensor_wrap(&x, MT_F32, 0, NULL, NULL, on_release, &r, NULL), MT_ERR_INVALID_ARGUMENT,
           "out is NULL");
  ck_fails(mt_tensor_wrap_block(&x, NULL, 1, SHAPE(1), on_release, &r, &t), MT_ERR_INVALID_ARGUMENT,
           "format is NULL");
  ck_assert_int_eq(r.times, 0);
  /* of one element the stride is of no use, so any is fine */
  ck_ok(mt_tensor_wrap(&x, MT_F32, 1, SHAPE(1), SHAPE(INT64_MIN), on_release, &r, &t));
  mt_tensor_release(&t);
  ck_assert_int_eq(r.times, 1);
}
END_TEST

/* NumPy and others leave anything in the strides of axes of one element. */
START_TEST(strides_that_step_nowhere_do_not_count) {
  double memory[] = {1, 2, 3, 4}, got[2];
  mt_tensor *t = NULL;
  ck_ok(mt_tensor_wrap(memory, MT_F64, 3, SHAPE(1, 2, 1), SHAPE(INT64_MIN, 2, INT64_MAX / 2), NULL,
                       NULL, &t));
  ck_ok(mt_tensor_get(t, got, sizeof(got)));
  ck_assert(got[0] == 1 && got[1] == 3);
  ck_assert_int_eq(mt_tensor_strides(t)[0], 2);
  ck_assert_int_eq(mt_tensor_strides(t)[1], 2);
  ck_assert_int_eq(mt_tensor_strides(t)[2], 1);
  mt_tensor_release(&t);
  ck_ok(
      mt_tensor_wrap(memory, MT_F64, 2, SHAPE(3, 0), SHAPE(INT64_MIN, INT64_MIN), NULL, NULL, &t));
  ck_assert_int_eq(mt_tensor_elements(t), 0);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(wrapped_memory_goes_with_its_last_view) {
  float memory[12] = {0};
  released r = {0};
  mt_tensor *base, *a, *b, *same;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, SHAPE(3, 4), NULL, on_release, &r, &base));
  ck_ok(mt_tensor_slice(base, 0, 1, 3, 1, &a));
  ck_ok(mt_tensor_transpose(a, 0, 1, &b));
  same = mt_tensor_retain(base);
  ck_assert_ptr_eq(same, base);
  mt_tensor_release(&base);
  mt_tensor_release(&same);
  mt_tensor_release(&a);
  ck_assert_int_eq(r.times, 0);
  float back[8];
  ck_ok(mt_tensor_get(b, back, sizeof(back)));
  mt_tensor_release(&b);
  ck_assert_int_eq(r.times, 1);
  ck_assert_ptr_eq(r.data, memory);
}
END_TEST

START_TEST(repeating_strides_are_not_written) {
  float memory[4] = {0};
  void *data;
  mt_tensor *t;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, SHAPE(3, 2), SHAPE(1, 1), NULL, NULL, &t));
  ck_fails(mt_tensor_write(t, &data), MT_ERR_INVALID_ARGUMENT, "repeat");
  mt_tensor_release(&t);
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, SHAPE(2, 2), SHAPE(1, 2), NULL, NULL, &t));
  ck_ok(mt_tensor_write(t, &data));
  mt_tensor_release(&t);
}
END_TEST

/* ---- block formats --------------------------------------------------------------------------- */

START_TEST(blocks_pad_each_line) {
  const mt_format *q8 = mt_format_find("q8_0");
  ck_assert_ptr_nonnull(q8);
  mt_tensor *t;
  ck_ok(mt_tensor_create_block(q8, 2, SHAPE(3, 33), &t));
  ck_assert_int_eq(mt_tensor_dtype(t), MT_BLOCK);
  ck_assert_ptr_eq(mt_tensor_format(t), q8);
  ck_assert_int_eq(mt_tensor_block_axis(t), 1);
  ck_assert_int_eq(mt_tensor_elements(t), 99);
  ck_assert_uint_eq(mt_tensor_bytes(t), 3 * mt_format_row_bytes(q8, 33));
  ck_assert_mem_eq(mt_tensor_strides(t), SHAPE(64, 1), 2 * sizeof(int64_t));
  ck_assert(mt_tensor_is_contiguous(t));
  mt_tensor_release(&t);
  ck_fails(mt_tensor_create_block(q8, 2, SHAPE(2, INT64_MAX), &t), MT_ERR_INVALID_ARGUMENT,
           "does not fit");
  ck_fails(mt_tensor_create_block(q8, 2, SHAPE(INT64_C(1) << 60, 1), &t), MT_ERR_INVALID_ARGUMENT,
           "does not fit"); /* only the padding makes it too large */
}
END_TEST

START_TEST(blocks_round_trip_through_views) {
  const mt_format *q8 = mt_format_find("q8_0");
  size_t row = mt_format_row_bytes(q8, 70);
  uint8_t bytes[5 * 3 * 34], back[5 * 3 * 34];
  ck_assert_uint_eq(5 * row, sizeof(bytes));
  for (size_t i = 0; i < sizeof(bytes); i++) {
    bytes[i] = (uint8_t)(i * 31 + 7);
  }
  released r = {0};
  mt_tensor *t, *rows;
  ck_ok(mt_tensor_wrap_block(bytes, q8, 2, SHAPE(5, 70), on_release, &r, &t));
  ck_ok(mt_tensor_slice(t, 0, 1, 5, 2, &rows)); /* rows 1 and 3 */
  ck_assert_uint_eq(mt_tensor_bytes(rows), 2 * row);
  ck_ok(mt_tensor_get(rows, back, 2 * row));
  ck_assert_mem_eq(back, bytes + row, row);
  ck_assert_mem_eq(back + row, bytes + 3 * row, row);
  memset(back, 0x5a, 2 * row);
  uint8_t before[sizeof(bytes)];
  memcpy(before, bytes, sizeof(bytes));
  ck_ok(mt_tensor_set(rows, back, 2 * row));
  memset(before + row, 0x5a, row);
  memset(before + 3 * row, 0x5a, row);
  ck_assert_mem_eq(bytes, before, sizeof(bytes));
  mt_tensor_release(&t);
  mt_tensor_release(&rows);
  ck_assert_int_eq(r.times, 1);
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------------
 */

enum { THREADS = 8, ROUNDS = 2000 };

typedef struct crowd {
  mt_tensor *tensor;
  released released;
  atomic_int failures;
} crowd;

/* Holds its own reference to the tensor; makes and drops views and more references. */
static void *hold_and_drop(void *arg) {
  crowd *c = arg;
  mt_tensor *mine = c->tensor;
  for (int i = 0; i < ROUNDS; i++) {
    mt_tensor *view, *again = mt_tensor_retain(mine);
    if (mt_tensor_slice(again, 0, i % 3, 4, 1, &view) != MT_OK) {
      atomic_fetch_add(&c->failures, 1);
      view = NULL;
    }
    mt_tensor_release(&again);
    const void *data;
    if (mt_tensor_read(view, &data) != MT_OK || *(const int32_t *)data != i % 3) {
      atomic_fetch_add(&c->failures, 1);
    }
    mt_tensor_release(&view);
  }
  if (atomic_load(&c->released.times) != 0) {
    atomic_fetch_add(&c->failures, 1);
  }
  mt_tensor_release(&mine);
  return NULL;
}

START_TEST(references_count_across_threads) {
  int32_t memory[4] = {0, 1, 2, 3};
  crowd c = {0};
  pthread_t threads[THREADS];
  ck_ok(mt_tensor_wrap(memory, MT_I32, 1, SHAPE(4), NULL, on_release, &c.released, &c.tensor));
  for (int i = 1; i < THREADS; i++) {
    mt_tensor_retain(c.tensor);
  }
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, hold_and_drop, &c), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  ck_assert_int_eq(c.failures, 0);
  ck_assert_int_eq(c.released.times, 1);
}
END_TEST

static void *drop_view(void *arg) {
  mt_tensor *view = arg;
  mt_tensor_release(&view);
  return NULL;
}

START_TEST(the_last_view_may_go_on_any_thread) {
  int32_t memory[THREADS] = {0};
  for (int round = 0; round < 50; round++) {
    released r = {0};
    mt_tensor *base, *views[THREADS];
    pthread_t threads[THREADS];
    ck_ok(mt_tensor_wrap(memory, MT_I32, 1, SHAPE(THREADS), NULL, on_release, &r, &base));
    for (int i = 0; i < THREADS; i++) {
      ck_ok(mt_tensor_slice(base, 0, i, i + 1, 1, &views[i]));
    }
    mt_tensor_release(&base);
    for (int i = 0; i < THREADS; i++) {
      ck_assert_int_eq(pthread_create(&threads[i], NULL, drop_view, views[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(r.times, 1);
  }
}
END_TEST

TEST_MAIN(tensor, create_describes_itself, create_fills_with_zeros_at_64_bytes, ranks_from_0_to_16,
          create_refuses_what_makes_no_tensor, sizes_that_do_not_fit, empty_tensors_are_tensors,
          asking_nothing, data_round_trips_in_every_dtype, content_wants_its_arguments,
          frozen_content_is_only_read, wrap_sees_strides_of_any_sign, wrap_of_unaligned_memory,
          wrap_refuses_and_does_not_release, strides_that_step_nowhere_do_not_count,
          wrapped_memory_goes_with_its_last_view, repeating_strides_are_not_written,
          blocks_pad_each_line, blocks_round_trip_through_views, references_count_across_threads,
          the_last_view_may_go_on_any_thread)
