// SPDX-License-Identifier: Apache-2.0
/*
 * bench.h - between the options of `mecantensor bench matmul` (cmd_bench.c) and the
 * measurement (bench_matmul.c).
 */
#ifndef MT_TOOLS_BENCH_H
#define MT_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a [m, k] times b [k, n]; written MxKxN on the command line. */
typedef struct bench_shape {
  int64_t m, k, n;
} bench_shape;

typedef struct bench_matmul_options {
  const bench_shape *shapes; /* shape_count >= 1, extents >= 1, bytes fit in int64_t */
  size_t shape_count;
  int threads; /* >= 1: for ours (MECANTENSOR_NUM_THREADS) and for the others; 0: all */
  const char *const *against; /* "openblas", "blis", "onednn"; known names only */
  size_t against_count;
  const char *isa;     /* "avx2": the others are held to it; NULL: whatever they choose */
  const char *backend; /* for mt_runtime_options.backend; NULL: the environment */
  double seconds;      /* > 0: measured time for each (shape, contender, round) */
  int rounds;          /* >= 1: contenders take turns; the median counts */
  bool json, csv;      /* at most one; neither: a table */
} bench_matmul_options;

/* NULL-terminated list of what `against` may hold. Defined in bench_matmul.c. */
extern const char *const bench_matmul_contenders[];

/* Measures, prints to stdout, errors to stderr. Returns the exit code (common.h). A
 * contender whose library is not installed is reported and left out: not an error. */
int bench_matmul(const bench_matmul_options *options);

#endif
