// SPDX-License-Identifier: Apache-2.0
/* bytes.h - little-endian numbers in files, on any machine. */
#ifndef MT_IO_BYTES_H
#define MT_IO_BYTES_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { MT_HOST_BIG_ENDIAN = 1 };
#else
enum { MT_HOST_BIG_ENDIAN = 0 };
#endif

static inline uint64_t mt_get_le(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) {
    value = value << 8 | at[i];
  }
  return value;
}

static inline uint16_t mt_get_u16(const unsigned char *at) {
  return (uint16_t)mt_get_le(at, 2);
}

static inline uint32_t mt_get_u32(const unsigned char *at) {
  return (uint32_t)mt_get_le(at, 4);
}

static inline uint64_t mt_get_u64(const unsigned char *at) {
  return mt_get_le(at, 8);
}

static inline void mt_put_le(unsigned char *at, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; i++) {
    at[i] = (unsigned char)(value >> (8 * i));
  }
}

static inline void mt_put_u16(unsigned char *at, uint16_t value) {
  mt_put_le(at, 2, value);
}

static inline void mt_put_u32(unsigned char *at, uint32_t value) {
  mt_put_le(at, 4, value);
}

static inline void mt_put_u64(unsigned char *at, uint64_t value) {
  mt_put_le(at, 8, value);
}

/* Reverses each of the bytes / unit units in place. */
static inline void mt_swap_units(unsigned char *data, size_t bytes, size_t unit) {
  for (size_t at = 0; at + unit <= bytes; at += unit) {
    for (size_t low = at, high = at + unit - 1; low < high; low++, high--) {
      unsigned char keep = data[low];
      data[low] = data[high];
      data[high] = keep;
    }
  }
}

#endif
