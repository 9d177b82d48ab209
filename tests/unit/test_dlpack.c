// SPDX-License-Identifier: Apache-2.0
/* DLPack both ways. The structs stand here as a user's dlpack.h has them. */
#include "harness.h"

#include <mecantensor/tensor.h>
#include <stdint.h>

typedef struct DLTensor {
  void *data;
  struct {
    int32_t device_type, device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
};

typedef struct DLManagedTensor plain_t;
typedef struct DLManagedTensorVersioned versioned_t;

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void count_release(void *data, void *user) {
  (void)data;
  ++*(int *)user;
}

static void count_plain(plain_t *self) {
  ++*(int *)self->manager_ctx;
}

static void count_versioned(versioned_t *self) {
  ++*(int *)self->manager_ctx;
}

static const struct {
  mt_dtype dtype;
  uint8_t code, bits;
} types[] = {
    {MT_F32, 2, 32}, {MT_F64, 2, 64}, {MT_F16, 2, 16}, {MT_BF16, 4, 16}, {MT_I8, 0, 8},
    {MT_U8, 1, 8},   {MT_I16, 0, 16}, {MT_I32, 0, 32}, {MT_I64, 0, 64},  {MT_BOOL, 6, 8},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* ---- export ---------------------------------------------------------------------------- */

START_TEST(export_describes_every_dtype) {
  for (int i = 0; i < TYPES; i++) {
    mt_tensor *t;
    plain_t *p;
    versioned_t *v;
    ck_ok(mt_tensor_create(types[i].dtype, 2, SHAPE(2, 3), &t));
    ck_ok(mt_tensor_to_dlpack(t, &p));
    ck_ok(mt_tensor_to_dlpack_versioned(t, &v));
    const DLTensor *both[] = {&p->dl_tensor, &v->dl_tensor};
    for (int k = 0; k < 2; k++) {
      ck_assert_uint_eq(both[k]->dtype.code, types[i].code);
      ck_assert_uint_eq(both[k]->dtype.bits, types[i].bits);
      ck_assert_uint_eq(both[k]->dtype.lanes, 1);
      ck_assert_int_eq(both[k]->device.device_type, 1);
      ck_assert_int_eq(both[k]->device.device_id, 0);
      ck_assert_int_eq(both[k]->ndim, 2);
      ck_assert_mem_eq(both[k]->shape, SHAPE(2, 3), 16);
      ck_assert_mem_eq(both[k]->strides, SHAPE(3, 1), 16);
      ck_assert_uint_eq(both[k]->byte_offset, 0);
    }
    ck_assert_uint_eq(v->version.major, 1);
    ck_assert_uint_eq(v->flags, 0);
    p->deleter(p);
    v->deleter(v);
    mt_tensor_release(&t);
  }
}
END_TEST

START_TEST(export_holds_the_memory) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  mt_tensor *t, *view;
  plain_t *p;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, SHAPE(2, 3), NULL, count_release, &released, &t));
  ck_ok(mt_tensor_slice(t, 1, 1, 3, 1, &view));
  ck_ok(mt_tensor_to_dlpack(view, &p));
  mt_tensor_release(&t);
  mt_tensor_release(&view);
  ck_assert_int_eq(released, 0);
  ck_assert_ptr_eq(p->dl_tensor.data, memory + 1);
  ck_assert_mem_eq(p->dl_tensor.strides, SHAPE(3, 1), 16);
  ((float *)p->dl_tensor.data)[0] = 7;
  ck_assert(memory[1] == 7);
  p->deleter(p);
  ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(export_says_what_is_read_only) {
  mt_tensor *t, *view;
  plain_t *p = (plain_t *)1;
  versioned_t *v;
  ck_ok(mt_tensor_create(MT_F32, 1, SHAPE(1), &t));
  ck_ok(mt_tensor_broadcast(t, 1, SHAPE(5), &view));
  ck_fails(mt_tensor_to_dlpack(view, &p), MT_ERR_UNSUPPORTED, "mt_tensor_to_dlpack_versioned");
  ck_assert_ptr_null(p);
  ck_ok(mt_tensor_to_dlpack_versioned(view, &v));
  ck_assert_uint_eq(v->flags & 1, 1);
  ck_assert_int_eq(v->dl_tensor.strides[0], 0);
  v->deleter(v);
  ck_ok(mt_tensor_freeze(t));
  ck_fails(mt_tensor_to_dlpack(t, &p), MT_ERR_UNSUPPORTED, "must not be written");
  ck_ok(mt_tensor_to_dlpack_versioned(t, &v));
  ck_assert_uint_eq(v->flags & 1, 1);
  v->deleter(v);
  mt_tensor_release(&view);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(export_of_scalars_nothing_and_blocks) {
  mt_tensor *t;
  plain_t *p;
  versioned_t *v = (versioned_t *)1;
  ck_ok(mt_tensor_create(MT_I64, 0, NULL, &t));
  ck_ok(mt_tensor_to_dlpack(t, &p));
  ck_assert_int_eq(p->dl_tensor.ndim, 0);
  ck_assert_ptr_nonnull(p->dl_tensor.data);
  p->deleter(p);
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create(MT_I64, 2, SHAPE(3, 0), &t));
  ck_ok(mt_tensor_to_dlpack(t, &p));
  ck_assert_ptr_null(p->dl_tensor.data);
  p->deleter(p);
  mt_tensor_release(&t);
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), 1, SHAPE(32), &t));
  ck_fails(mt_tensor_to_dlpack(t, &p), MT_ERR_UNSUPPORTED, "block");
  ck_fails(mt_tensor_to_dlpack_versioned(t, &v), MT_ERR_UNSUPPORTED, "block");
  ck_assert_ptr_null(v);
  ck_fails(mt_tensor_to_dlpack(NULL, &p), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_to_dlpack(t, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_fails(mt_tensor_to_dlpack_versioned(NULL, &v), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_tensor_to_dlpack_versioned(t, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  mt_tensor_release(&t);
}
END_TEST

/* ---- import ---------------------------------------------------------------------------- */

static float shared_memory[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static int64_t shared_shape[17] = {2, 3};

/* A good one, for tests to spoil. */
static plain_t good_plain(int *deleted) {
  plain_t p = {.manager_ctx = deleted, .deleter = count_plain};
  p.dl_tensor.data = shared_memory;
  p.dl_tensor.device.device_type = 1;
  p.dl_tensor.ndim = 2;
  p.dl_tensor.dtype.code = 2;
  p.dl_tensor.dtype.bits = 32;
  p.dl_tensor.dtype.lanes = 1;
  p.dl_tensor.shape = shared_shape;
  return p;
}

static versioned_t good_versioned(int *deleted) {
  versioned_t v = {.manager_ctx = deleted, .deleter = count_versioned};
  v.version.major = 1;
  v.version.minor = 7; /* later minors only add */
  v.dl_tensor = good_plain(deleted).dl_tensor;
  return v;
}

START_TEST(import_takes_over) {
  int deleted = 0;
  float back[6];
  const void *data;
  mt_tensor *t, *view;
  plain_t p = good_plain(&deleted);
  p.dl_tensor.byte_offset = 4; /* NULL strides: row-major */
  ck_ok(mt_tensor_from_dlpack(&p, &t));
  ck_ok(mt_tensor_read(t, &data));
  ck_assert_ptr_eq(data, shared_memory + 1);
  ck_ok(mt_tensor_get(t, back, sizeof(back)));
  ck_assert_mem_eq(back, shared_memory + 1, sizeof(back));
  ck_ok(mt_tensor_transpose(t, 0, 1, &view));
  mt_tensor_release(&t);
  ck_assert_int_eq(deleted, 0);
  mt_tensor_release(&view);
  ck_assert_int_eq(deleted, 1);
  p.deleter = NULL; /* allowed: nothing to call */
  ck_ok(mt_tensor_from_dlpack(&p, &t));
  mt_tensor_release(&t);
  ck_assert_int_eq(deleted, 1);
}
END_TEST

START_TEST(import_keeps_strides_and_read_only) {
  int deleted = 0;
  int64_t strides[2] = {-1, 2};
  float back[6];
  void *data;
  mt_tensor *t;
  versioned_t v = good_versioned(&deleted);
  v.dl_tensor.data = shared_memory + 1;
  v.dl_tensor.strides = strides;
  ck_ok(mt_tensor_from_dlpack_versioned(&v, &t));
  ck_ok(mt_tensor_get(t, back, sizeof(back)));
  ck_assert_mem_eq(back, ((const float[]){1, 3, 5, 0, 2, 4}), sizeof(back));
  ck_ok(mt_tensor_write(t, &data));
  mt_tensor_release(&t);
  ck_assert_int_eq(deleted, 1);
  v.flags = 1;
  ck_ok(mt_tensor_from_dlpack_versioned(&v, &t));
  ck_fails(mt_tensor_write(t, &data), MT_ERR_INVALID_ARGUMENT, "read-only");
  ck_fails(mt_tensor_set(t, back, sizeof(back)), MT_ERR_INVALID_ARGUMENT, "read-only");
  plain_t *p;
  ck_fails(mt_tensor_to_dlpack(t, &p), MT_ERR_UNSUPPORTED, "must not be written");
  mt_tensor_release(&t);
  ck_assert_int_eq(deleted, 2);
}
END_TEST

START_TEST(import_knows_every_dtype) {
  for (int i = 0; i < TYPES; i++) {
    int deleted = 0;
    mt_tensor *t;
    plain_t p = good_plain(&deleted);
    p.dl_tensor.dtype.code = types[i].code;
    p.dl_tensor.dtype.bits = types[i].bits;
    p.dl_tensor.ndim = 0;
    p.dl_tensor.shape = NULL;
    ck_ok(mt_tensor_from_dlpack(&p, &t));
    ck_assert_int_eq(mt_tensor_dtype(t), types[i].dtype);
    ck_assert_int_eq(mt_tensor_elements(t), 1);
    mt_tensor_release(&t);
    ck_assert_int_eq(deleted, 1);
  }
}
END_TEST

static void refuses(const plain_t *p, mt_status status, const char *part) {
  mt_tensor *t = (mt_tensor *)1;
  versioned_t v = {.manager_ctx = p->manager_ctx, .deleter = count_versioned};
  v.version.major = 1;
  v.dl_tensor = p->dl_tensor;
  plain_t copy = *p;
  ck_fails(mt_tensor_from_dlpack(&copy, &t), status, part);
  ck_assert_ptr_null(t);
  ck_fails(mt_tensor_from_dlpack_versioned(&v, &t), status, part);
  ck_assert_ptr_null(t);
}

START_TEST(import_refuses_in_words_and_keeps_off) {
  int deleted = 0;
  plain_t good = good_plain(&deleted), p;
  for (int i = 0; i <= 16; i++) {
    shared_shape[i] = i < 2 ? 2 + i : 1;
  }
  p = good, p.dl_tensor.device.device_type = 2;
  refuses(&p, MT_ERR_UNSUPPORTED, "device type 2");
  p = good, p.dl_tensor.dtype.lanes = 4;
  refuses(&p, MT_ERR_UNSUPPORTED, "4 lanes");
  p = good, p.dl_tensor.dtype.lanes = 0;
  refuses(&p, MT_ERR_UNSUPPORTED, "0 lanes");
  p = good, p.dl_tensor.dtype.code = 5;
  refuses(&p, MT_ERR_UNSUPPORTED, "code 5");
  p = good, p.dl_tensor.dtype.bits = 128;
  refuses(&p, MT_ERR_UNSUPPORTED, "128 bits");
  p = good, p.dl_tensor.dtype.code = 1;
  refuses(&p, MT_ERR_UNSUPPORTED, "code 1, 32 bits");
  p = good, p.dl_tensor.ndim = 17;
  refuses(&p, MT_ERR_UNSUPPORTED, "rank 17");
  p = good, p.dl_tensor.ndim = -1;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "rank -1");
  p = good, p.dl_tensor.shape = NULL;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "shape is NULL");
  p = good, p.dl_tensor.data = NULL;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "data is NULL");
  int64_t negative[2] = {2, -3}, far[2] = {INT64_MAX, INT64_MAX};
  p = good, p.dl_tensor.shape = negative;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "extent -3");
  p = good, p.dl_tensor.shape = far;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "does not fit");
  p = good, p.dl_tensor.strides = far;
  refuses(&p, MT_ERR_INVALID_ARGUMENT, "63 bits");
  ck_assert_int_eq(deleted, 0);
}
END_TEST

START_TEST(import_checks_version_and_pointers) {
  int deleted = 0;
  mt_tensor *t = (mt_tensor *)1;
  versioned_t v = good_versioned(&deleted);
  plain_t p = good_plain(&deleted);
  v.version.major = 2;
  ck_fails(mt_tensor_from_dlpack_versioned(&v, &t), MT_ERR_UNSUPPORTED, "version 2.7");
  ck_assert_ptr_null(t);
  v.version.major = 0;
  ck_fails(mt_tensor_from_dlpack_versioned(&v, &t), MT_ERR_UNSUPPORTED, "version 0.7");
  ck_fails(mt_tensor_from_dlpack_versioned(NULL, &t), MT_ERR_INVALID_ARGUMENT, "managed is NULL");
  ck_fails(mt_tensor_from_dlpack(NULL, &t), MT_ERR_INVALID_ARGUMENT, "managed is NULL");
  ck_fails(mt_tensor_from_dlpack(&p, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  v.version.major = 1;
  ck_fails(mt_tensor_from_dlpack_versioned(&v, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_assert_int_eq(deleted, 0);
}
END_TEST

START_TEST(there_and_back) {
  int released = 0;
  float memory[6] = {0, 1, 2, 3, 4, 5}, back[6];
  mt_tensor *t, *turned, *again;
  versioned_t *v;
  ck_ok(mt_tensor_wrap(memory, MT_F32, 2, SHAPE(2, 3), NULL, count_release, &released, &t));
  ck_ok(mt_tensor_transpose(t, 0, 1, &turned));
  ck_ok(mt_tensor_to_dlpack_versioned(turned, &v));
  ck_ok(mt_tensor_from_dlpack_versioned(v, &again));
  mt_tensor_release(&t);
  mt_tensor_release(&turned);
  ck_assert_mem_eq(mt_tensor_strides(again), SHAPE(1, 3), 16);
  ck_ok(mt_tensor_get(again, back, sizeof(back)));
  ck_assert_mem_eq(back, ((const float[]){0, 3, 1, 4, 2, 5}), sizeof(back));
  ck_assert_int_eq(released, 0);
  mt_tensor_release(&again);
  ck_assert_int_eq(released, 1);
}
END_TEST

TEST_MAIN(dlpack, export_describes_every_dtype, export_holds_the_memory,
          export_says_what_is_read_only, export_of_scalars_nothing_and_blocks, import_takes_over,
          import_keeps_strides_and_read_only, import_knows_every_dtype,
          import_refuses_in_words_and_keeps_off, import_checks_version_and_pointers, there_and_back)
