// SPDX-License-Identifier: Apache-2.0
/*
 * format.h - what a block format is made of (internal side of quant.h).
 *
 * A format is one file here and one line in formats.def. The wrappers in format.c
 * check arguments; the functions below see valid ones.
 */
#ifndef MT_CORE_FORMAT_H
#define MT_CORE_FORMAT_H

#include <mecantensor/quant.h>

struct mt_format {
  const char *id;
  const char *description;
  uint32_t block_elements;
  uint32_t block_bytes;
  /* One line of n elements, n > 0; the tail of the last block is zero padded.
   * encode fails on NaN and infinity (mt_fail names the index). */
  mt_status (*encode)(const float *src, int64_t n, void *dst);
  void (*decode)(const void *src, int64_t n, float *dst);
  double (*dot)(const void *row, const float *x, int64_t n);
  double (*error_bound)(double absmax);
};

/* 1-based number for the plugin ABI (mt_operand_v1.format); 0 for NULL. And back. */
int32_t mt_format_number(const mt_format *format);
const mt_format *mt_format_from_number(int32_t number);

#endif
