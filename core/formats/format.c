// SPDX-License-Identifier: Apache-2.0
#include "formats/format.h"

#include "error.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define MT_FORMAT(symbol) extern const mt_format symbol;
#include "formats/formats.def"
#undef MT_FORMAT

static const mt_format *const formats[] = {
#define MT_FORMAT(symbol) &symbol,
#include "formats/formats.def"
#undef MT_FORMAT
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

size_t mt_format_count(void) {
  return FORMAT_COUNT;
}

const mt_format *mt_format_at(size_t index) {
  return index < FORMAT_COUNT ? formats[index] : NULL;
}

const mt_format *mt_format_find(const char *id) {
  for (size_t i = 0; id && i < FORMAT_COUNT; i++) {
    if (strcmp(formats[i]->id, id) == 0) {
      return formats[i];
    }
  }
  return NULL;
}

int32_t mt_format_number(const mt_format *format) {
  for (size_t i = 0; format && i < FORMAT_COUNT; i++) {
    if (formats[i] == format) {
      return (int32_t)i + 1;
    }
  }
  return 0;
}

const mt_format *mt_format_from_number(int32_t number) {
  return number >= 1 && number <= FORMAT_COUNT ? formats[number - 1] : NULL;
}

const char *mt_format_id(const mt_format *format) {
  return format ? format->id : NULL;
}

const char *mt_format_description(const mt_format *format) {
  return format ? format->description : NULL;
}

int64_t mt_format_block_elements(const mt_format *format) {
  return format ? format->block_elements : 0;
}

size_t mt_format_block_bytes(const mt_format *format) {
  return format ? format->block_bytes : 0;
}

double mt_format_bits_per_weight(const mt_format *format) {
  return format ? 8.0 * format->block_bytes / format->block_elements : 0;
}

size_t mt_format_row_bytes(const mt_format *format, int64_t n) {
  size_t bytes;
  if (!format || n <= 0) {
    return 0;
  }
  uint64_t blocks = ((uint64_t)n - 1) / format->block_elements + 1;
  bool fits =
      blocks <= SIZE_MAX && !__builtin_mul_overflow((size_t)blocks, format->block_bytes, &bytes);
  return fits ? bytes : 0;
}

/* What all calls on a line of n elements check; a and b may be NULL when n is 0. */
static mt_status check_line(const char *function, const mt_format *format, const void *a,
                            const void *b, int64_t n) {
  if (!format) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: format is NULL", function);
  }
  if (n < 0 || (n > 0 && mt_format_row_bytes(format, n) == 0)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: %lld elements: expected 0 or more that fit in "
                   "memory",
                   function, (long long)n);
  }
  if (n > 0 && (!a || !b)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: NULL data with %lld elements", function,
                   (long long)n);
  }
  return MT_OK;
}

mt_status mt_format_encode(const mt_format *format, const float *src, int64_t n, void *dst) {
  MT_TRY(check_line("mt_format_encode", format, src, dst, n));
  return n > 0 ? format->encode(src, n, dst) : MT_OK;
}

mt_status mt_format_decode(const mt_format *format, const void *src, int64_t n, float *dst) {
  MT_TRY(check_line("mt_format_decode", format, src, dst, n));
  if (n > 0) {
    format->decode(src, n, dst);
  }
  return MT_OK;
}

mt_status mt_format_dot(const mt_format *format, const void *row, const float *x, int64_t n,
                        double *out) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_format_dot: out is NULL");
  }
  *out = 0;
  MT_TRY(check_line("mt_format_dot", format, row, x, n));
  if (n > 0) {
    *out = format->dot(row, x, n);
  }
  return MT_OK;
}

double mt_format_error_bound(const mt_format *format, double absmax) {
  return format && absmax >= 0 ? format->error_bound(absmax) : NAN;
}
