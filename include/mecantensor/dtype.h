// SPDX-License-Identifier: Apache-2.0
/*
 * dtype.h - element types.
 *
 * All functions here are pure and thread-safe.
 */
#ifndef MECANTENSOR_DTYPE_H
#define MECANTENSOR_DTYPE_H

#include <mecantensor/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are stored in .mt files and cross the plugin ABI: they never change. */
typedef enum mt_dtype {
  MT_DTYPE_NONE = 0,
  MT_F32 = 1,
  MT_F64 = 2,
  MT_F16 = 3,  /* IEEE 754 binary16 */
  MT_BF16 = 4, /* the upper half of binary32 */
  MT_I8 = 5,
  MT_U8 = 6,
  MT_I16 = 7,
  MT_I32 = 8,
  MT_I64 = 9,
  MT_BOOL = 10,  /* one byte, 0 or 1 */
  MT_BLOCK = 11, /* a block format (quant.h): elements have no address of their own */
} mt_dtype;

/* Bytes of one element; 0 for MT_BLOCK and for numbers that are no dtype. */
MT_API size_t mt_dtype_size(mt_dtype dtype);

/* "f32", ..., "bool", "block"; "invalid" otherwise. Static. */
MT_API const char *mt_dtype_name(mt_dtype dtype);

/* The dtype called name ("f32"); MT_DTYPE_NONE when there is none. */
MT_API mt_dtype mt_dtype_from_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
