// SPDX-License-Identifier: Apache-2.0
#include "stats.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 1 << 16 };

typedef struct summary {
  value_stats *stats;
  int64_t finite;
  double mean, squares; /* of the deviations from mean */
} summary;

/* Mean and sum of squares of two sets joined: T. F. Chan, G. H. Golub, R. J. LeVeque,
 * "Updating formulae and a pairwise algorithm for computing sample variances", 1979. */
static void join(summary *s, int64_t count, double mean, double squares) {
  if (count == 0) {
    return;
  }
  double total = (double)(s->finite + count);
  double delta = mean - s->mean;
  s->squares += squares + delta * delta * ((double)s->finite * (double)count / total);
  s->mean += delta * ((double)count / total);
  s->finite += count;
}

static void add_chunk(summary *s, const double *values, int64_t count) {
  value_stats *out = s->stats;
  int64_t finite = 0;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) {
    double x = values[i];
    out->nan += isnan(x) != 0;
    out->infinite += isinf(x) != 0;
    out->zero += x == 0;
    if (isfinite(x)) {
      finite++;
      sum += x;
      out->min = fmin(out->min, x);
      out->max = fmax(out->max, x);
    }
  }
  double mean = sum / (double)finite;
  for (int64_t i = 0; i < count; i++) {
    if (isfinite(values[i])) {
      squares += (values[i] - mean) * (values[i] - mean);
    }
  }
  out->count += count;
  join(s, finite, mean, squares);
}

/* count elements at data, of a dtype that is none of the block formats. */
static mt_status add_elements(mt_runtime *rt, const void *data, mt_dtype dtype, int64_t count,
                              summary *s) {
  mt_tensor *chunk = NULL, *wide = NULL;
  const void *values = NULL;
  /* Only read: the cast makes a tensor of its own. */
  mt_status status = mt_tensor_wrap((void *)data, dtype, 1, &count, NULL, NULL, NULL, &chunk);
  if (status == MT_OK) {
    status = mt_cast(rt, chunk, MT_F64, &wide);
  }
  if (status == MT_OK) {
    status = mt_tensor_read(wide, &values);
  }
  if (status == MT_OK) {
    add_chunk(s, values, count);
  }
  mt_tensor_release(&wide);
  mt_tensor_release(&chunk);
  return status;
}

static mt_status add_plain(mt_runtime *rt, mt_tensor *tensor, summary *s) {
  const void *data = NULL;
  mt_dtype dtype = mt_tensor_dtype(tensor);
  mt_status status = mt_tensor_read(tensor, &data);
  int64_t left = mt_tensor_elements(tensor);
  for (int64_t done = 0; status == MT_OK && left > 0;) {
    int64_t count = left < CHUNK ? left : CHUNK;
    const char *at = (const char *)data + (size_t)done * mt_dtype_size(dtype);
    status = add_elements(rt, at, dtype, count, s);
    done += count;
    left -= count;
  }
  return status;
}

/* Whole blocks at a time of each line along the last axis. */
static mt_status add_blocks(mt_runtime *rt, mt_tensor *tensor, summary *s) {
  const mt_format *format = mt_tensor_format(tensor);
  int rank = mt_tensor_rank(tensor);
  int64_t length = mt_tensor_shape(tensor)[rank - 1];
  int64_t lines = length == 0 ? 0 : mt_tensor_elements(tensor) / length;
  int64_t blocks = CHUNK / mt_format_block_elements(format);
  int64_t step = (blocks > 0 ? blocks : 1) * mt_format_block_elements(format);
  float *values = need_memory(malloc((size_t)step * sizeof(float)));
  const void *data = NULL;
  mt_status status = mt_tensor_read(tensor, &data);
  const char *at = data;
  for (int64_t line = 0; line < lines; line++) {
    for (int64_t done = 0; status == MT_OK && done < length; done += step) {
      int64_t count = length - done < step ? length - done : step;
      status = mt_format_decode(format, at, count, values);
      if (status == MT_OK) {
        status = add_elements(rt, values, MT_F32, count, s);
      }
      at += mt_format_row_bytes(format, count);
    }
  }
  free(values);
  return status;
}

mt_status tensor_stats(mt_tensor *tensor, value_stats *out) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = "reference";
  mt_runtime *rt = NULL;
  mt_tensor *packed = NULL;
  *out = (value_stats){.min = INFINITY, .max = -INFINITY};
  summary s = {.stats = out};
  mt_status status = mt_runtime_create(&options, &rt);
  if (status == MT_OK) {
    status = mt_contiguous(rt, tensor, &packed);
  }
  if (status == MT_OK) {
    bool block = mt_tensor_dtype(packed) == MT_BLOCK;
    status = (block ? add_blocks : add_plain)(rt, packed, &s);
  }
  out->mean = s.finite > 0 ? s.mean : NAN;
  out->std = s.finite > 0 ? sqrt(s.squares / (double)s.finite) : NAN;
  if (s.finite == 0) {
    out->min = out->max = NAN;
  }
  mt_tensor_release(&packed);
  mt_runtime_release(&rt);
  return status;
}
