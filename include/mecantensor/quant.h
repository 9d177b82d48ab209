// SPDX-License-Identifier: Apache-2.0
/*
 * quant.h - block formats: quantized storage with a fixed number of bytes for a
 * fixed number of consecutive elements.
 *
 * A tensor in a block format has dtype MT_BLOCK and a format. Its blocks run along
 * one axis, the block axis (the last one when it is created); each line along that
 * axis starts a new block, and a last, partial block is padded with zeros: the
 * logical length is kept in the shape.
 *
 * Formats are static and live for ever; all functions here are thread-safe and do
 * not block.
 */
#ifndef MECANTENSOR_QUANT_H
#define MECANTENSOR_QUANT_H

#include <mecantensor/dtype.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_format mt_format;

/* Formats by number, 0 .. count-1. NULL past the end. */
MT_API size_t mt_format_count(void);
MT_API const mt_format *mt_format_at(size_t index);

/* By id, e.g. "q8_0"; NULL when there is none. */
MT_API const mt_format *mt_format_find(const char *id);

MT_API const char *mt_format_id(const mt_format *format);          /* "q8_0" */
MT_API const char *mt_format_description(const mt_format *format); /* one line, with source */
MT_API int64_t mt_format_block_elements(const mt_format *format);
MT_API size_t mt_format_block_bytes(const mt_format *format);
MT_API double mt_format_bits_per_weight(const mt_format *format); /* scales counted */

/* Bytes of one line of n >= 0 elements; 0 when n is negative or the size overflows. */
MT_API size_t mt_format_row_bytes(const mt_format *format, int64_t n);

/*
 * Encodes n floats into mt_format_row_bytes(format, n) bytes at dst.
 * NaN, infinity, or a magnitude beyond the largest scale of the format (q8_0: 8351760):
 * MT_ERR_INVALID_ARGUMENT that names the first index; dst is then unspecified. src and dst must not
 * overlap; no alignment is needed.
 */
MT_API mt_status mt_format_encode(const mt_format *format, const float *src, int64_t n, void *dst);

/* Decodes n floats. Any bit pattern decodes to something; garbage may give NaN. */
MT_API mt_status mt_format_decode(const mt_format *format, const void *src, int64_t n, float *dst);

/* Reference dot product of an encoded line and n floats, in double. */
MT_API mt_status mt_format_dot(const mt_format *format, const void *row, const float *x, int64_t n,
                               double *out);

/*
 * The largest |decode(encode(x)) - x| of an element of a block whose largest
 * magnitude is absmax: what encode promises. Infinity where encode refuses absmax; NaN
 * when absmax is negative or NaN.
 */
MT_API double mt_format_error_bound(const mt_format *format, double absmax);

#ifdef __cplusplus
}
#endif
#endif
