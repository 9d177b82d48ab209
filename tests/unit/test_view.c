// SPDX-License-Identifier: Apache-2.0
/*
 * Views, each on its own, and long random chains of them against a model that knows no
 * strides: a shape and the list of memory cells its elements are in, row-major.
 */
#include "harness.h"

#include <mecantensor/tensor.h>
#include <stdint.h>

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void check_shape(const mt_tensor *t, int rank, const int64_t *shape,
                        const int64_t *strides) {
  ck_assert_int_eq(mt_tensor_rank(t), rank);
  for (int i = 0; i < rank; i++) {
    ck_assert_int_eq(mt_tensor_shape(t)[i], shape[i]);
    if (strides) {
      ck_assert_int_eq(mt_tensor_strides(t)[i], strides[i]);
    }
  }
}

/* ---- each view --------------------------------------------------------------------------- */

START_TEST(slice_takes_steps) {
  mt_tensor *t, *v;
  ck_ok(mt_tensor_create(MT_F32, 2, SHAPE(5, 7), &t));
  ck_ok(mt_tensor_slice(t, 1, 1, 7, 2, &v));
  check_shape(v, 2, SHAPE(5, 3), SHAPE(7, 2));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_slice(t, -2, 4, 5, INT64_MAX, &v));
  check_shape(v, 2, SHAPE(1, 7), NULL);
  mt_tensor_release(&v);
  ck_ok(mt_tensor_slice(t, 0, 5, 5, 1, &v));
  check_shape(v, 2, SHAPE(0, 7), NULL);
  ck_assert_int_eq(mt_tensor_elements(v), 0);
  mt_tensor_release(&v);
  ck_fails(mt_tensor_slice(t, 0, 0, 6, 1, &v), MT_ERR_INVALID_ARGUMENT, "stop <= 5");
  ck_assert_ptr_null(v);
  ck_fails(mt_tensor_slice(t, 0, -1, 5, 1, &v), MT_ERR_INVALID_ARGUMENT, "-1 .. 5");
  ck_fails(mt_tensor_slice(t, 0, 3, 2, 1, &v), MT_ERR_INVALID_ARGUMENT, "3 .. 2");
  ck_fails(mt_tensor_slice(t, 0, 0, 5, 0, &v), MT_ERR_INVALID_ARGUMENT, "step 0");
  ck_fails(mt_tensor_slice(t, 0, 0, 5, -1, &v), MT_ERR_INVALID_ARGUMENT, "step -1");
  ck_fails(mt_tensor_slice(t, 2, 0, 1, 1, &v), MT_ERR_INVALID_ARGUMENT, "axis 2");
  ck_fails(mt_tensor_slice(t, -3, 0, 1, 1, &v), MT_ERR_INVALID_ARGUMENT, "axis -3");
  ck_fails(mt_tensor_slice(NULL, 0, 0, 1, 1, &v), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_slice(t, 0, 0, 1, 1, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &t));
  ck_fails(mt_tensor_slice(t, 0, 0, 1, 1, &v), MT_ERR_INVALID_ARGUMENT, "scalar");
  mt_tensor_release(&t);
}
END_TEST

START_TEST(transpose_and_permute_move_axes) {
  mt_tensor *t, *v;
  ck_ok(mt_tensor_create(MT_F32, 3, SHAPE(2, 3, 4), &t));
  ck_ok(mt_tensor_transpose(t, 0, -1, &v));
  check_shape(v, 3, SHAPE(4, 3, 2), SHAPE(1, 4, 12));
  ck_assert(!mt_tensor_is_contiguous(v));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_transpose(t, 1, 1, &v));
  ck_assert(mt_tensor_is_contiguous(v));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_permute(t, (const int[]){-1, 0, 1}, &v));
  check_shape(v, 3, SHAPE(4, 2, 3), SHAPE(1, 12, 4));
  mt_tensor_release(&v);
  ck_fails(mt_tensor_permute(t, (const int[]){0, 1, -2}, &v), MT_ERR_INVALID_ARGUMENT,
           "axis 1 is named twice");
  ck_fails(mt_tensor_permute(t, (const int[]){0, 1, 3}, &v), MT_ERR_INVALID_ARGUMENT, "axis 3");
  ck_fails(mt_tensor_permute(t, NULL, &v), MT_ERR_INVALID_ARGUMENT, "axes is NULL");
  ck_fails(mt_tensor_permute(NULL, NULL, &v), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_transpose(t, 0, 3, &v), MT_ERR_INVALID_ARGUMENT, "axis 3");
  ck_fails(mt_tensor_transpose(t, -4, 0, &v), MT_ERR_INVALID_ARGUMENT, "axis -4");
  ck_fails(mt_tensor_transpose(t, 0, 1, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &t));
  ck_ok(mt_tensor_permute(t, NULL, &v));
  check_shape(v, 0, NULL, NULL);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(reshape_works_out_one_extent) {
  mt_tensor *t, *v;
  ck_ok(mt_tensor_create(MT_F32, 2, SHAPE(4, 6), &t));
  ck_ok(mt_tensor_reshape(t, 3, SHAPE(2, -1, 3), &v));
  check_shape(v, 3, SHAPE(2, 4, 3), SHAPE(12, 3, 1));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_reshape(t, 1, SHAPE(-1), &v));
  check_shape(v, 1, SHAPE(24), SHAPE(1));
  mt_tensor_release(&v);
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(-1, -1), &v), MT_ERR_INVALID_ARGUMENT, "at most one -1");
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(5, -1), &v), MT_ERR_INVALID_ARGUMENT, "[5, -1]");
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(24, -2), &v), MT_ERR_INVALID_ARGUMENT, "[24, -2]");
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(5, 5), &v), MT_ERR_INVALID_ARGUMENT, "f32[4, 6]");
  ck_fails(mt_tensor_reshape(t, 0, NULL, &v), MT_ERR_INVALID_ARGUMENT, "same number");
  ck_fails(mt_tensor_reshape(t, 1, SHAPE(0), &v), MT_ERR_INVALID_ARGUMENT, "same number");
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(0, -1), &v), MT_ERR_INVALID_ARGUMENT, "anything");
  ck_fails(mt_tensor_reshape(t, 3, SHAPE(INT64_C(1) << 32, INT64_C(1) << 32, -1), &v),
           MT_ERR_INVALID_ARGUMENT, "63 bits");
  ck_fails(mt_tensor_reshape(t, 17, SHAPE(24), &v), MT_ERR_INVALID_ARGUMENT, "rank 17");
  ck_fails(mt_tensor_reshape(t, -1, SHAPE(24), &v), MT_ERR_INVALID_ARGUMENT, "rank -1");
  ck_fails(mt_tensor_reshape(t, 1, NULL, &v), MT_ERR_INVALID_ARGUMENT, "NULL");
  ck_fails(mt_tensor_reshape(NULL, 1, SHAPE(24), &v), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_reshape(t, 1, SHAPE(24), NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  mt_tensor *turned;
  ck_ok(mt_tensor_transpose(t, 0, 1, &turned));
  ck_fails(mt_tensor_reshape(turned, 1, SHAPE(24), &v), MT_ERR_UNSUPPORTED, "mt_contiguous");
  ck_assert_ptr_null(v);
  mt_tensor_release(&turned);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(reshape_of_nothing_and_of_one) {
  mt_tensor *t, *v;
  int64_t ones[MT_MAX_RANK];
  for (int i = 0; i < MT_MAX_RANK; i++) {
    ones[i] = 1;
  }
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &t));
  ck_ok(mt_tensor_reshape(t, MT_MAX_RANK, ones, &v));
  check_shape(v, MT_MAX_RANK, ones, NULL);
  ck_assert(mt_tensor_is_contiguous(v));
  mt_tensor_release(&t);
  ck_ok(mt_tensor_reshape(v, 0, NULL, &t));
  check_shape(t, 0, NULL, NULL);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create(MT_F32, 3, SHAPE(2, 0, 3), &t));
  ck_ok(mt_tensor_reshape(t, 2, SHAPE(0, 1000), &v));
  check_shape(v, 2, SHAPE(0, 1000), NULL);
  mt_tensor_release(&v);
  ck_ok(mt_tensor_reshape(t, 2, SHAPE(7, -1), &v));
  check_shape(v, 2, SHAPE(7, 0), NULL);
  mt_tensor_release(&v);
  ck_fails(mt_tensor_reshape(t, 3, SHAPE(0, INT64_MAX, 3), &v), MT_ERR_INVALID_ARGUMENT, "63 bits");
  mt_tensor_release(&t);
}
END_TEST

START_TEST(broadcast_repeats_and_is_read_only) {
  mt_tensor *t, *v;
  void *data;
  ck_ok(mt_tensor_create(MT_F32, 2, SHAPE(3, 1), &t));
  ck_ok(mt_tensor_broadcast(t, 3, SHAPE(2, 3, 4), &v));
  check_shape(v, 3, SHAPE(2, 3, 4), SHAPE(0, 1, 0));
  ck_assert_int_eq(mt_tensor_elements(v), 24);
  ck_assert_uint_eq(mt_tensor_bytes(v), 96);
  ck_assert(!mt_tensor_is_contiguous(v));
  ck_fails(mt_tensor_write(v, &data), MT_ERR_INVALID_ARGUMENT, "broadcast");
  mt_tensor_release(&v);
  ck_ok(mt_tensor_broadcast(t, 2, SHAPE(3, 1), &v)); /* nothing repeats: may be written */
  ck_ok(mt_tensor_write(v, &data));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_broadcast(t, 2, SHAPE(3, 0), &v));
  ck_assert_int_eq(mt_tensor_elements(v), 0);
  mt_tensor_release(&v);
  ck_fails(mt_tensor_broadcast(t, 2, SHAPE(4, 1), &v), MT_ERR_INVALID_ARGUMENT,
           "axis 0 is 4: expected 3");
  ck_fails(mt_tensor_broadcast(t, 2, SHAPE(1, 4), &v), MT_ERR_INVALID_ARGUMENT,
           "axis 0 is 1: expected 3");
  ck_fails(mt_tensor_broadcast(t, 2, SHAPE(3, -1), &v), MT_ERR_INVALID_ARGUMENT, "axis 1 is -1");
  ck_fails(mt_tensor_broadcast(t, 1, SHAPE(3), &v), MT_ERR_INVALID_ARGUMENT, "rank 1");
  ck_fails(mt_tensor_broadcast(t, 17, SHAPE(3), &v), MT_ERR_INVALID_ARGUMENT, "rank 17");
  ck_fails(mt_tensor_broadcast(t, 2, NULL, &v), MT_ERR_INVALID_ARGUMENT, "NULL");
  ck_fails(mt_tensor_broadcast(NULL, 2, SHAPE(3, 1), &v), MT_ERR_INVALID_ARGUMENT,
           "tensor is NULL");
  ck_fails(mt_tensor_broadcast(t, 2, SHAPE(3, 1), NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_fails(mt_tensor_broadcast(t, 3, SHAPE(INT64_MAX / 3, 3, 4), &v), MT_ERR_INVALID_ARGUMENT,
           "does not fit");
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create(MT_I8, 0, NULL, &t)); /* 4 EiB of the same byte */
  ck_ok(mt_tensor_broadcast(t, 2, SHAPE(INT64_C(1) << 31, INT64_C(1) << 31), &v));
  ck_assert_int_eq(mt_tensor_elements(v), INT64_C(1) << 62);
  mt_tensor *w;
  ck_ok(mt_tensor_reshape(v, 1, SHAPE(-1), &w));
  check_shape(w, 1, SHAPE(INT64_C(1) << 62), SHAPE(0));
  mt_tensor_release(&w);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(empty_views_at_the_end_stay_in_the_memory) {
  float memory[4] = {1, 2, 3, 4};
  mt_tensor *t, *v, *w;
  const void *data;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 1, SHAPE(4), NULL, NULL, NULL, &t));
  ck_ok(mt_tensor_slice(t, 0, 4, 4, 3, &v));
  ck_ok(mt_tensor_read(v, &data));
  ck_assert((const float *)data >= memory && (const float *)data <= memory + 4);
  ck_ok(mt_tensor_slice(v, 0, 0, 0, 1, &w));
  mt_tensor_release(&w);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
  /* strides of an empty tensor may be anything: slicing must not compute with them */
  ck_ok(
      mt_tensor_wrap(memory, MT_F32, 2, SHAPE(0, 9), SHAPE(INT64_MAX, INT64_MAX), NULL, NULL, &t));
  ck_ok(mt_tensor_slice(t, 1, 2, 9, 3, &v));
  check_shape(v, 2, SHAPE(0, 3), NULL);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
}
END_TEST

/* ---- block formats --------------------------------------------------------------------------- */

START_TEST(blocks_slice_by_whole_blocks) {
  mt_tensor *t, *v;
  const void *base, *data;
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), 2, SHAPE(3, 100), &t));
  ck_ok(mt_tensor_read(t, &base));
  ck_ok(mt_tensor_slice(t, 1, 32, 100, 1, &v));
  check_shape(v, 2, SHAPE(3, 68), SHAPE(128, 1));
  ck_assert(!mt_tensor_is_contiguous(v));
  ck_ok(mt_tensor_read(v, &data));
  ck_assert_int_eq((const char *)data - (const char *)base, 34);
  mt_tensor_release(&v);
  ck_ok(mt_tensor_slice(t, 0, 1, 3, 1, &v));
  ck_ok(mt_tensor_read(v, &data));
  ck_assert_int_eq((const char *)data - (const char *)base, 4 * 34);
  ck_assert(mt_tensor_is_contiguous(v));
  mt_tensor_release(&v);
  ck_fails(mt_tensor_slice(t, 1, 8, 64, 1, &v), MT_ERR_INVALID_ARGUMENT, "whole blocks of 32");
  ck_fails(mt_tensor_slice(t, 1, 0, 33, 1, &v), MT_ERR_INVALID_ARGUMENT, "whole blocks of 32");
  ck_fails(mt_tensor_slice(t, 1, 0, 64, 32, &v), MT_ERR_INVALID_ARGUMENT, "step 32");
  mt_tensor_release(&t);
}
END_TEST

START_TEST(blocks_take_their_axis_along) {
  mt_tensor *t, *v, *w;
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), 3, SHAPE(2, 3, 40), &t));
  ck_ok(mt_tensor_transpose(t, 0, 2, &v));
  ck_assert_int_eq(mt_tensor_block_axis(v), 0);
  check_shape(v, 3, SHAPE(40, 3, 2), SHAPE(1, 64, 192));
  ck_assert(!mt_tensor_is_contiguous(v));
  ck_assert_uint_eq(mt_tensor_bytes(v), mt_tensor_bytes(t));
  char bytes[6 * 2 * 34];
  ck_assert_uint_eq(sizeof(bytes), mt_tensor_bytes(v));
  ck_fails(mt_tensor_get(v, bytes, sizeof(bytes)), MT_ERR_UNSUPPORTED, "blocks along axis 0");
  ck_ok(mt_tensor_permute(v, (const int[]){2, 1, 0}, &w));
  ck_assert_int_eq(mt_tensor_block_axis(w), 2);
  ck_assert(mt_tensor_is_contiguous(w));
  mt_tensor_release(&w);
  mt_tensor_release(&v);
  ck_ok(mt_tensor_reshape(t, 2, SHAPE(6, 40), &v));
  ck_assert_int_eq(mt_tensor_block_axis(v), 1);
  check_shape(v, 2, SHAPE(6, 40), SHAPE(64, 1));
  mt_tensor_release(&v);
  ck_ok(mt_tensor_reshape(t, 4, SHAPE(1, 6, 40, 1), &v));
  ck_assert_int_eq(mt_tensor_block_axis(v), 2);
  mt_tensor_release(&v);
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(12, 20), &v), MT_ERR_UNSUPPORTED, "block axis");
  ck_fails(mt_tensor_reshape(t, 1, SHAPE(240), &v), MT_ERR_UNSUPPORTED, "block axis");
  ck_ok(mt_tensor_broadcast(t, 4, SHAPE(5, 2, 3, 40), &v));
  ck_assert_int_eq(mt_tensor_block_axis(v), 3);
  mt_tensor_release(&v);
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), 2, SHAPE(1, 1), &t));
  ck_ok(mt_tensor_broadcast(t, 2, SHAPE(8, 1), &v));
  mt_tensor_release(&v);
  ck_fails(mt_tensor_broadcast(t, 2, SHAPE(1, 8), &v), MT_ERR_INVALID_ARGUMENT, "blocks run");
  /* 2^62 lines of one element are 34 * 2^62 bytes, also with the block axis in front */
  ck_ok(mt_tensor_transpose(t, 0, 1, &v));
  ck_fails(mt_tensor_broadcast(v, 2, SHAPE(1, INT64_C(1) << 62), &w), MT_ERR_INVALID_ARGUMENT,
           "does not fit");
  mt_tensor_release(&v);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(empty_blocks_reshape) {
  mt_tensor *t, *v;
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), 2, SHAPE(0, 40), &t));
  ck_ok(mt_tensor_reshape(t, 3, SHAPE(3, 0, 40), &v));
  ck_assert_int_eq(mt_tensor_block_axis(v), 2);
  ck_assert_int_eq(mt_tensor_strides(v)[2], 1);
  ck_assert_int_eq(mt_tensor_strides(v)[0] % 32, 0);
  mt_tensor_release(&v);
  ck_fails(mt_tensor_reshape(t, 2, SHAPE(0, 41), &v), MT_ERR_UNSUPPORTED, "block axis");
  mt_tensor_release(&t);
}
END_TEST

/* ---- chains against the model ------------------------------------------------------------------
 */

enum { CELLS = 4096, CHAINS = 1500, LINKS = 6, MODEL_RANK = 6 };

typedef struct model {
  int rank;
  int64_t shape[MT_MAX_RANK];
  int64_t count;
  int32_t cell[CELLS];
} model;

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((random_state >> 33) % n);
}

static int64_t product(int rank, const int64_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    n *= shape[i];
  }
  return n;
}

/* The position in m of element `index` of a shape, where old axis i of m has index
 * pick(i): all views but reshape are this with another pick. */
typedef int64_t pick_fn(const void *how, const int64_t *index, int axis);

static void remap(model *m, int rank, const int64_t *shape, pick_fn *pick, const void *how) {
  static model old;
  old = *m;
  int64_t index[MT_MAX_RANK] = {0};
  m->rank = rank;
  memcpy(m->shape, shape, (size_t)rank * sizeof(*shape));
  m->count = product(rank, shape);
  for (int64_t n = 0; n < m->count; n++) {
    int64_t rest = n, at = 0;
    for (int i = rank - 1; i >= 0; i--) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    for (int i = 0; i < old.rank; i++) {
      at = at * old.shape[i] + pick(how, index, i);
    }
    m->cell[n] = old.cell[at];
  }
}

typedef struct slice_how {
  int axis;
  int64_t start, step;
} slice_how;

static int64_t pick_slice(const void *how, const int64_t *index, int axis) {
  const slice_how *s = how;
  return axis == s->axis ? s->start + index[axis] * s->step : index[axis];
}

static int64_t pick_permute(const void *how, const int64_t *index, int axis) {
  const int *axes = how;
  for (int i = 0;; i++) {
    if (axes[i] == axis) {
      return index[i];
    }
  }
}

typedef struct broadcast_how {
  int missing;
  int64_t old_shape[MT_MAX_RANK];
} broadcast_how;

static int64_t pick_broadcast(const void *how, const int64_t *index, int axis) {
  const broadcast_how *b = how;
  return b->old_shape[axis] == 1 ? 0 : index[axis + b->missing];
}

/* Can one step per axis reach every cell? Decided by trying. */
static bool expressible(const model *m, int rank, const int64_t *shape) {
  int64_t step[MT_MAX_RANK] = {0}, inner = 1;
  if (m->count == 0) {
    return true;
  }
  for (int i = rank - 1; i >= 0; i--) {
    step[i] = shape[i] > 1 ? m->cell[inner] - m->cell[0] : 0;
    inner *= shape[i];
  }
  for (int64_t n = 0; n < m->count; n++) {
    int64_t rest = n, at = m->cell[0];
    for (int i = rank - 1; i >= 0; i--) {
      at += rest % shape[i] * step[i];
      rest /= shape[i];
    }
    if (at != m->cell[n]) {
      return false;
    }
  }
  return true;
}

/* A random shape of count elements (0 gives a shape with a zero in it). */
static int random_shape(int64_t count, int64_t *shape) {
  int rank = 0;
  int64_t left = count;
  if (count == 0) {
    rank = 1 + (int)random_below(3);
    for (int i = 0; i < rank; i++) {
      shape[i] = random_below(4);
    }
    shape[random_below((uint32_t)rank)] = 0;
    return rank;
  }
  while (rank < MODEL_RANK - 1 && (left > 1 || random_below(3) == 0)) {
    int64_t divisor = left;
    do {
      divisor = 1 + random_below((uint32_t)left);
    } while (left % divisor != 0);
    shape[rank++] = divisor;
    left /= divisor;
  }
  if (left > 1) {
    shape[rank++] = left;
  }
  return rank;
}

static mt_status link_slice(model *m, mt_tensor *t, mt_tensor **out) {
  int axis = (int)random_below((uint32_t)m->rank);
  int64_t shape[MT_MAX_RANK], extent = m->shape[axis];
  int64_t start = random_below((uint32_t)extent + 1);
  int64_t stop = start + random_below((uint32_t)(extent - start) + 1);
  if (random_below(2)) { /* small cuts, so that something is left to slice */
    start = extent > 2 ? random_below(2) : 0;
    stop = extent;
  }
  slice_how how = {axis, start, 1 + random_below(3)};
  memcpy(shape, m->shape, sizeof(shape));
  shape[axis] = (stop - start + how.step - 1) / how.step;
  remap(m, m->rank, shape, pick_slice, &how);
  return mt_tensor_slice(t, random_below(2) ? axis : axis - m->rank, start, stop, how.step, out);
}

static mt_status link_permute(model *m, mt_tensor *t, mt_tensor **out) {
  int axes[MT_MAX_RANK];
  int64_t shape[MT_MAX_RANK];
  for (int i = 0; i < m->rank; i++) {
    axes[i] = i;
  }
  bool two_only = random_below(2);
  int a = (int)random_below((uint32_t)m->rank), b = (int)random_below((uint32_t)m->rank);
  axes[a] = b;
  axes[b] = a;
  for (int i = m->rank - 1; !two_only && i > 0; i--) {
    int j = (int)random_below((uint32_t)i + 1), swap = axes[i];
    axes[i] = axes[j];
    axes[j] = swap;
  }
  for (int i = 0; i < m->rank; i++) {
    shape[i] = m->shape[axes[i]];
  }
  remap(m, m->rank, shape, pick_permute, axes);
  return two_only ? mt_tensor_transpose(t, a, b - m->rank, out) : mt_tensor_permute(t, axes, out);
}

static mt_status link_broadcast(model *m, mt_tensor *t, mt_tensor **out) {
  broadcast_how how = {.missing = m->rank < MODEL_RANK ? (int)random_below(2) : 0};
  int64_t shape[MT_MAX_RANK], room = CELLS / (m->count > 0 ? m->count : 1);
  int rank = m->rank + how.missing;
  memcpy(how.old_shape, m->shape, sizeof(how.old_shape));
  for (int i = 0; i < rank; i++) {
    int64_t old = i < how.missing ? 1 : m->shape[i - how.missing];
    int64_t times = random_below(4);
    shape[i] = old == 1 && times > 0 && times <= room ? times : old;
    room /= old == 1 ? shape[i] : 1;
  }
  remap(m, rank, shape, pick_broadcast, &how);
  return mt_tensor_broadcast(t, rank, shape, out);
}

/* The one that may be impossible: then the library must say so, and only then. */
static mt_status link_reshape(model *m, mt_tensor *t, mt_tensor **out) {
  int64_t shape[MT_MAX_RANK], asked[MT_MAX_RANK];
  int rank = random_shape(m->count, shape);
  memcpy(asked, shape, sizeof(asked));
  if (rank > 0 && m->count > 0 && random_below(2)) {
    asked[random_below((uint32_t)rank)] = -1;
  }
  if (!expressible(m, rank, shape)) {
    ck_fails(mt_tensor_reshape(t, rank, asked, out), MT_ERR_UNSUPPORTED, "strides");
    *out = mt_tensor_retain(t);
    return MT_OK;
  }
  m->rank = rank;
  memcpy(m->shape, shape, sizeof(shape));
  return mt_tensor_reshape(t, rank, asked, out);
}

static bool has_duplicates(const model *m) {
  static bool seen[CELLS];
  memset(seen, 0, sizeof(seen));
  for (int64_t n = 0; n < m->count; n++) {
    if (seen[m->cell[n]]) {
      return true;
    }
    seen[m->cell[n]] = true;
  }
  return false;
}

/* memory[i] holds i. */
static void check_against_model(const model *m, mt_tensor *t, int32_t *memory) {
  static int32_t packed[CELLS];
  size_t bytes = (size_t)m->count * sizeof(int32_t);
  ck_assert_int_eq(mt_tensor_rank(t), m->rank);
  ck_assert_int_eq(mt_tensor_elements(t), m->count);
  ck_assert_uint_eq(mt_tensor_bytes(t), bytes);
  for (int i = 0; i < m->rank; i++) {
    ck_assert_int_eq(mt_tensor_shape(t)[i], m->shape[i]);
  }
  ck_ok(mt_tensor_get(t, packed, bytes));
  ck_assert(memcmp(packed, m->cell, bytes) == 0);
  bool consecutive = true;
  for (int64_t n = 1; n < m->count; n++) {
    consecutive = consecutive && m->cell[n] == m->cell[0] + n;
  }
  ck_assert_int_eq(mt_tensor_is_contiguous(t), consecutive);
  for (int64_t n = 0; n < m->count; n++) {
    packed[n] = (int32_t)(-1 - n);
  }
  if (has_duplicates(m)) {
    ck_fails(mt_tensor_set(t, packed, bytes), MT_ERR_INVALID_ARGUMENT, "repeat");
    return;
  }
  ck_ok(mt_tensor_set(t, packed, bytes));
  int wrong = 0; /* ck_assert talks to the parent: too slow for each cell */
  for (int64_t n = 0; n < m->count; n++) { /* each cell written, and put back ... */
    wrong += memory[m->cell[n]] != -1 - n;
    memory[m->cell[n]] = m->cell[n];
  }
  for (int i = 0; i < CELLS; i++) { /* ... and no other touched */
    wrong += memory[i] != i;
  }
  ck_assert_int_eq(wrong, 0);
}

/* A tensor somewhere in memory, with gaps and signs of its own. */
static void random_base(model *m, int32_t *memory, mt_tensor **out) {
  int64_t stride[MT_MAX_RANK], step = 1, first = 0;
  m->rank = (int)random_below(5);
  for (int i = m->rank - 1; i >= 0; i--) {
    m->shape[i] = random_below(20) == 0 ? 0 : 1 + random_below(5);
    bool gap = step < 64 && random_below(4) == 0, backwards = random_below(4) == 0;
    step += gap ? step : 0;
    stride[i] = backwards ? -step : step;
    first += backwards && m->shape[i] > 0 ? step * (m->shape[i] - 1) : 0;
    step *= m->shape[i] > 0 ? m->shape[i] : 1;
  }
  m->count = product(m->rank, m->shape);
  first += random_below(16);
  for (int64_t n = 0; n < m->count; n++) {
    int64_t rest = n, at = first;
    for (int i = m->rank - 1; i >= 0; i--) {
      at += rest % m->shape[i] * stride[i];
      rest /= m->shape[i];
    }
    m->cell[n] = (int32_t)at;
  }
  ck_ok(mt_tensor_wrap(memory + first, MT_I32, m->rank, m->shape, stride, NULL, NULL, out));
}

START_TEST(chains_agree_with_the_model) {
  static int32_t memory[CELLS];
  static model m;
  int reshaped = 0;
  for (int i = 0; i < CELLS; i++) {
    memory[i] = i;
  }
  for (int chain = 0; chain < CHAINS; chain++) {
    mt_tensor *t, *next;
    random_state = (uint64_t)chain * 977 + (uint64_t)_i;
    random_base(&m, memory, &t);
    for (int i = 0; i < LINKS; i++) {
      uint32_t kind = random_below(m.rank > 0 ? 4 : 2);
      if (kind == 0) {
        ck_ok(link_broadcast(&m, t, &next));
      } else if (kind == 1) {
        reshaped++;
        ck_ok(link_reshape(&m, t, &next));
      } else if (kind == 2) {
        ck_ok(link_slice(&m, t, &next));
      } else {
        ck_ok(link_permute(&m, t, &next));
      }
      mt_tensor_release(&t);
      t = next;
      check_against_model(&m, t, memory);
    }
    mt_tensor_release(&t);
  }
  ck_assert_int_gt(reshaped, CHAINS); /* the random numbers do reach it */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("view");
  TCase *tcase = tcase_create("view");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, slice_takes_steps);
  tcase_add_test(tcase, transpose_and_permute_move_axes);
  tcase_add_test(tcase, reshape_works_out_one_extent);
  tcase_add_test(tcase, reshape_of_nothing_and_of_one);
  tcase_add_test(tcase, broadcast_repeats_and_is_read_only);
  tcase_add_test(tcase, empty_views_at_the_end_stay_in_the_memory);
  tcase_add_test(tcase, blocks_slice_by_whole_blocks);
  tcase_add_test(tcase, blocks_take_their_axis_along);
  tcase_add_test(tcase, empty_blocks_reshape);
  tcase_add_loop_test(tcase, chains_agree_with_the_model, 0, 4);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
