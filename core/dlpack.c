// SPDX-License-Identifier: Apache-2.0
/*
 * dlpack.c - tensors to and from other libraries without a copy.
 *
 * The structs below are the C ABI of DLPack (https://dmlc.github.io/dlpack/latest/c_api.html),
 * written down anew: version 1.x and the unversioned struct that came before it.
 */
#include "tensor_impl.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

enum { DL_CPU = 1, DL_VERSION_MAJOR = 1, DL_VERSION_MINOR = 0 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
#define DL_FLAG_READ_ONLY UINT64_C(1)

typedef struct dl_type {
  uint8_t code, bits;
  uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  dl_type dtype;
  int64_t *shape;
  int64_t *strides; /* elements; NULL: row-major */
  uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
  dl_tensor tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
  uint64_t flags;
  dl_tensor tensor;
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(dl_tensor, device_type) == 8, "DLTensor.device moved");
_Static_assert(offsetof(dl_tensor, ndim) == 16, "DLTensor.ndim moved");
_Static_assert(offsetof(dl_tensor, dtype) == 20, "DLTensor.dtype moved");
_Static_assert(offsetof(dl_tensor, shape) == 24, "DLTensor.shape moved");
_Static_assert(offsetof(dl_tensor, strides) == 32, "DLTensor.strides moved");
_Static_assert(offsetof(dl_tensor, byte_offset) == 40, "DLTensor.byte_offset moved");
_Static_assert(sizeof(dl_tensor) == 48, "DLTensor changed its size");
_Static_assert(offsetof(struct DLManagedTensor, manager_ctx) == 48, "manager_ctx moved");
_Static_assert(offsetof(struct DLManagedTensor, deleter) == 56, "deleter moved");
_Static_assert(sizeof(struct DLManagedTensor) == 64, "DLManagedTensor changed its size");
_Static_assert(offsetof(struct DLManagedTensorVersioned, manager_ctx) == 8, "manager_ctx moved");
_Static_assert(offsetof(struct DLManagedTensorVersioned, deleter) == 16, "deleter moved");
_Static_assert(offsetof(struct DLManagedTensorVersioned, flags) == 24, "flags moved");
_Static_assert(offsetof(struct DLManagedTensorVersioned, tensor) == 32, "dl_tensor moved");
_Static_assert(sizeof(struct DLManagedTensorVersioned) == 80, "versioned struct changed");
#endif

static const struct {
  mt_dtype dtype;
  uint8_t code, bits;
} dl_types[] = {
    {MT_F32, DL_FLOAT, 32},   {MT_F64, DL_FLOAT, 64}, {MT_F16, DL_FLOAT, 16},
    {MT_BF16, DL_BFLOAT, 16}, {MT_I8, DL_INT, 8},     {MT_U8, DL_UINT, 8},
    {MT_I16, DL_INT, 16},     {MT_I32, DL_INT, 32},   {MT_I64, DL_INT, 64},
    {MT_BOOL, DL_BOOL, 8},
};

enum { DL_TYPE_COUNT = sizeof(dl_types) / sizeof(dl_types[0]) };

/* ---- export ------------------------------------------------------------------------- */

/* What a consumer holds on to: one of the two structs, our reference and its shape. */
typedef struct export_holder {
  struct DLManagedTensor plain;
  struct DLManagedTensorVersioned versioned;
  mt_tensor *tensor;
  int64_t shape[MT_MAX_RANK], stride[MT_MAX_RANK];
} export_holder;

static void holder_free(export_holder *holder) {
  mt_tensor_release(&holder->tensor);
  free(holder);
}

static void delete_plain(struct DLManagedTensor *self) {
  if (self) {
    holder_free(self->manager_ctx);
  }
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
  if (self) {
    holder_free(self->manager_ctx);
  }
}

static bool is_read_only(const mt_tensor *tensor) {
  return tensor->repeats || tensor->storage->read_only ||
         atomic_load_explicit(&tensor->storage->frozen, memory_order_acquire);
}

static mt_status dtype_to_dl(const char *function, mt_dtype dtype, dl_type *out) {
  for (int i = 0; i < DL_TYPE_COUNT; i++) {
    if (dl_types[i].dtype == dtype) {
      *out = (dl_type){dl_types[i].code, dl_types[i].bits, 1};
      return MT_OK;
    }
  }
  return mt_fail(MT_ERR_UNSUPPORTED, "%s: dtype %s: DLPack has no such type", function,
                 mt_dtype_name(dtype));
}

/* Makes the holder and fills in the part that both structs share. */
static mt_status export_tensor(const char *function, mt_tensor *tensor, bool read_only,
                               export_holder **out, dl_tensor *dl) {
  memset(dl, 0, sizeof(*dl));
  MT_TRY(dtype_to_dl(function, tensor->dtype, &dl->dtype));
  /* A consumer that may write makes copies on devices stale. */
  MT_TRY(mt_storage_to_host(tensor->storage, !read_only));
  export_holder *holder = calloc(1, sizeof(*holder));
  if (!holder) {
    return mt_fail_memory(sizeof(*holder), "a DLPack tensor");
  }
  holder->tensor = mt_tensor_retain(tensor);
  memcpy(holder->shape, tensor->shape, sizeof(holder->shape));
  memcpy(holder->stride, tensor->stride, sizeof(holder->stride));
  dl->device_type = DL_CPU;
  dl->ndim = tensor->rank;
  dl->shape = holder->shape;
  dl->strides = holder->stride;
  if (tensor->elements > 0) { /* DLPack: the data of empty tensors is NULL */
    dl->data = (char *)tensor->storage->host + tensor->byte_offset;
  }
  *out = holder;
  return MT_OK;
}

static mt_status export_begin(const char *function, const mt_tensor *tensor, const void *out) {
  if (!tensor || !out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function, tensor ? "out" : "tensor");
  }
  return MT_OK;
}

mt_status mt_tensor_to_dlpack(mt_tensor *tensor, struct DLManagedTensor **out) {
  export_holder *holder;
  dl_tensor dl;
  if (out) {
    *out = NULL;
  }
  MT_TRY(export_begin("mt_tensor_to_dlpack", tensor, out));
  if (is_read_only(tensor)) {
    char text[MT_DESCRIBE_BYTES];
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "mt_tensor_to_dlpack: %s must not be written, and only the versioned struct can "
                   "say so: use mt_tensor_to_dlpack_versioned",
                   mt_tensor_describe(tensor, text, sizeof(text)));
  }
  MT_TRY(export_tensor("mt_tensor_to_dlpack", tensor, false, &holder, &dl));
  holder->plain = (struct DLManagedTensor){dl, holder, delete_plain};
  *out = &holder->plain;
  return MT_OK;
}

mt_status mt_tensor_to_dlpack_versioned(mt_tensor *tensor, struct DLManagedTensorVersioned **out) {
  export_holder *holder;
  dl_tensor dl;
  if (out) {
    *out = NULL;
  }
  MT_TRY(export_begin("mt_tensor_to_dlpack_versioned", tensor, out));
  bool read_only = is_read_only(tensor);
  MT_TRY(export_tensor("mt_tensor_to_dlpack_versioned", tensor, read_only, &holder, &dl));
  holder->versioned = (struct DLManagedTensorVersioned){
      .major = DL_VERSION_MAJOR,
      .minor = DL_VERSION_MINOR,
      .manager_ctx = holder,
      .deleter = delete_versioned,
      .flags = read_only ? DL_FLAG_READ_ONLY : 0,
      .tensor = dl,
  };
  *out = &holder->versioned;
  return MT_OK;
}

/* ---- import ------------------------------------------------------------------------- */

static void release_plain(void *data, void *user) {
  struct DLManagedTensor *managed = user;
  (void)data;
  if (managed->deleter) {
    managed->deleter(managed);
  }
}

static void release_versioned(void *data, void *user) {
  struct DLManagedTensorVersioned *managed = user;
  (void)data;
  if (managed->deleter) {
    managed->deleter(managed);
  }
}

static mt_status dtype_from_dl(const char *function, dl_type type, mt_dtype *out) {
  for (int i = 0; i < DL_TYPE_COUNT && type.lanes == 1; i++) {
    if (dl_types[i].code == type.code && dl_types[i].bits == type.bits) {
      *out = dl_types[i].dtype;
      return MT_OK;
    }
  }
  return mt_fail(MT_ERR_UNSUPPORTED, "%s: DLPack type code %u, %u bits, %u lanes: no dtype for it",
                 function, (unsigned)type.code, (unsigned)type.bits, (unsigned)type.lanes);
}

static mt_status import_tensor(const char *function, const dl_tensor *dl, bool read_only,
                               mt_release_fn release, void *managed, mt_tensor **out) {
  mt_dtype dtype = MT_DTYPE_NONE;
  if (dl->device_type != DL_CPU) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: DLPack device type %d: expected %d (CPU)", function,
                   (int)dl->device_type, DL_CPU);
  }
  MT_TRY(dtype_from_dl(function, dl->dtype, &dtype));
  if (dl->ndim > MT_MAX_RANK) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: rank %d: expected 0 .. %d", function, (int)dl->ndim,
                   MT_MAX_RANK);
  }
  void *data = dl->data ? (char *)dl->data + dl->byte_offset : NULL;
  return mt_tensor_wrap_layout(function, data, dtype, dl->ndim, dl->shape, dl->strides, read_only,
                               release, managed, out);
}

static mt_status import_begin(const char *function, const void *managed, mt_tensor **out) {
  if (out) {
    *out = NULL;
  }
  if (!managed || !out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                   managed ? "out" : "managed");
  }
  return MT_OK;
}

mt_status mt_tensor_from_dlpack(struct DLManagedTensor *managed, mt_tensor **out) {
  MT_TRY(import_begin("mt_tensor_from_dlpack", managed, out));
  return import_tensor("mt_tensor_from_dlpack", &managed->tensor, false, release_plain, managed,
                       out);
}

mt_status mt_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                          mt_tensor **out) {
  const char *function = "mt_tensor_from_dlpack_versioned";
  MT_TRY(import_begin(function, managed, out));
  if (managed->major != DL_VERSION_MAJOR) { /* nothing past the version is known then */
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: DLPack version %u.%u: expected %d.x", function,
                   (unsigned)managed->major, (unsigned)managed->minor, DL_VERSION_MAJOR);
  }
  return import_tensor(function, &managed->tensor, (managed->flags & DL_FLAG_READ_ONLY) != 0,
                       release_versioned, managed, out);
}
