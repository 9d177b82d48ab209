// SPDX-License-Identifier: Apache-2.0
/* checked.h - arithmetic on sizes that says when it does not fit. */
#ifndef MT_CORE_CHECKED_H
#define MT_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* true: fits, *out set. */
static inline bool mt_mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool mt_add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool mt_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool mt_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

/* Smallest multiple of `multiple` (> 0) that is >= n >= 0. */
static inline bool mt_round_up_i64(int64_t n, int64_t multiple, int64_t *out) {
  int64_t padded;
  if (!mt_add_i64(n, multiple - 1, &padded)) {
    return false;
  }
  *out = padded / multiple * multiple;
  return true;
}

#endif
