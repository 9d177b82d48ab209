// SPDX-License-Identifier: Apache-2.0
#include <mecantensor/dtype.h>
#include <mecantensor/plugin.h>
#include <mecantensor/version.h>
#include <string.h>

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
    [MT_F32] = {"f32", 4},   [MT_F64] = {"f64", 8},     [MT_F16] = {"f16", 2},
    [MT_BF16] = {"bf16", 2}, [MT_I8] = {"i8", 1},       [MT_U8] = {"u8", 1},
    [MT_I16] = {"i16", 2},   [MT_I32] = {"i32", 4},     [MT_I64] = {"i64", 8},
    [MT_BOOL] = {"bool", 1}, [MT_BLOCK] = {"block", 0},
};

enum { DTYPE_COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };

/* The numbers of the plugin ABI are ours. */
_Static_assert(MT_ABI_DTYPE_F32 == MT_F32 && MT_ABI_DTYPE_F64 == MT_F64, "dtype");
_Static_assert(MT_ABI_DTYPE_F16 == MT_F16 && MT_ABI_DTYPE_BF16 == MT_BF16, "dtype");
_Static_assert(MT_ABI_DTYPE_I8 == MT_I8 && MT_ABI_DTYPE_U8 == MT_U8, "dtype");
_Static_assert(MT_ABI_DTYPE_I16 == MT_I16 && MT_ABI_DTYPE_I32 == MT_I32, "dtype");
_Static_assert(MT_ABI_DTYPE_I64 == MT_I64 && MT_ABI_DTYPE_BOOL == MT_BOOL, "dtype");
_Static_assert(MT_ABI_DTYPE_BLOCK == MT_BLOCK, "dtype");
_Static_assert(MT_ABI_OK == MT_OK && MT_ABI_ERR_INVALID_ARGUMENT == MT_ERR_INVALID_ARGUMENT, "");
_Static_assert(MT_ABI_ERR_OUT_OF_MEMORY == MT_ERR_OUT_OF_MEMORY, "status");
_Static_assert(MT_ABI_ERR_UNSUPPORTED == MT_ERR_UNSUPPORTED, "status");
_Static_assert(MT_ABI_ERR_NOT_FOUND == MT_ERR_NOT_FOUND && MT_ABI_ERR_IO == MT_ERR_IO, "status");
_Static_assert(MT_ABI_ERR_CORRUPT == MT_ERR_CORRUPT, "status");
_Static_assert(MT_ABI_ERR_BACKEND == MT_ERR_BACKEND, "status");
_Static_assert(MT_ABI_ERR_DEVICE_LOST == MT_ERR_DEVICE_LOST, "status");
_Static_assert(MT_ABI_ERR_TIMEOUT == MT_ERR_TIMEOUT, "status");

size_t mt_dtype_size(mt_dtype dtype) {
  return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *mt_dtype_name(mt_dtype dtype) {
  const char *name = (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].name : NULL;
  return name ? name : "invalid";
}

mt_dtype mt_dtype_from_name(const char *name) {
  for (unsigned i = 1; name && i < DTYPE_COUNT; i++) {
    if (strcmp(dtypes[i].name, name) == 0) {
      return (mt_dtype)i;
    }
  }
  return MT_DTYPE_NONE;
}

const char *mt_version(void) {
  return MT_VERSION;
}
