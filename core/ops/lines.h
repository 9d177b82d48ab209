// SPDX-License-Identifier: Apache-2.0
/* lines.h - decoding lines of blocks to f32 at any stride and alignment. */
#ifndef MT_CORE_OPS_LINES_H
#define MT_CORE_OPS_LINES_H

#include "op.h"

typedef struct mt_lines {
  const mt_format *format;
  int64_t length; /* elements of a line */
  int64_t room;   /* elements of buffer: whole blocks */
  float *buffer;
} mt_lines;

mt_status mt_lines_begin(mt_lines *lines, const mt_format *format, int64_t length);
void mt_lines_end(mt_lines *lines);

/* The line at src to dst, step bytes from one f32 to the next. */
void mt_lines_decode(const mt_lines *lines, const char *src, char *dst, int64_t step);

#endif
