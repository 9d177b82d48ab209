// SPDX-License-Identifier: Apache-2.0
#include "lines.h"

#include "../formats/format.h"
#include "view.h"

#include <stdlib.h>

mt_status mt_lines_begin(mt_lines *lines, const mt_format *format, int64_t length) {
  int64_t block = format->block_elements;
  lines->format = format;
  lines->length = length;
  lines->room = (MT_LINE + block - 1) / block * block;
  size_t bytes = (size_t)lines->room * sizeof(float);
  lines->buffer = malloc(bytes);
  return lines->buffer ? MT_OK : mt_fail_memory(bytes, "decoded blocks");
}

void mt_lines_end(mt_lines *lines) {
  free(lines->buffer);
  lines->buffer = NULL;
}

void mt_lines_decode(const mt_lines *lines, const char *src, char *dst, int64_t step) {
  const mt_format *format = lines->format;
  for (int64_t at = 0; at < lines->length; at += lines->room) {
    int64_t n = lines->length - at < lines->room ? lines->length - at : lines->room;
    format->decode(src + at / format->block_elements * format->block_bytes, n, lines->buffer);
    mt_copy_units(sizeof(float), (const char *)lines->buffer, sizeof(float), n, dst + at * step,
                  step);
  }
}
