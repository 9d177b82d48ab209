// SPDX-License-Identifier: Apache-2.0
/*
 * bench.h - between the options of `mecantensor bench` (cmd_bench.c) and the measurements
 * (bench_matmul.c with peers; bench_cases.c for all other kinds).
 */
#ifndef MT_TOOLS_BENCH_H
#define MT_TOOLS_BENCH_H

#include <mecantensor/runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_EXTENTS = 5 };

/* Extents as the measurement reads them ("MxKxN"), each 1 .. INT32_MAX. */
typedef struct bench_dims {
  int64_t d[BENCH_EXTENTS];
} bench_dims;

typedef struct bench_options {
  const char *kind;         /* "matmul", "ops", ... */
  int extents;              /* of each shape */
  const bench_dims *shapes; /* shape_count >= 1 */
  size_t shape_count;
  int threads;                /* >= 1: 0: MECANTENSOR_NUM_THREADS, else all CPUs that may be used */
  const char *const *against; /* "openblas", "blis", "onednn"; known names only */
  size_t against_count;
  const char *isa;     /* "avx2", "avx512": the others are held to it; "any": they choose; NULL: as
                          the backend that runs ours */
  const char *backend; /* for mt_runtime_options.backend; NULL: the environment */
  double seconds;      /* > 0: measured time for each (shape, contender, round) */
  int rounds;          /* >= 1: contenders take turns; the median counts */
  bool json, csv;      /* at most one; neither: a table */
} bench_options;

/* NULL-terminated list of what `against` may hold. Defined in bench_matmul.c. */
extern const char *const bench_matmul_contenders[];

/* Measures, prints to stdout, errors to stderr. Returns the exit code (common.h). A
 * contender whose library is not installed is reported and left out: not an error. */
int bench_matmul(const bench_options *options);

/* Every other kind: rows of the table in bench_cases.c. */
int bench_cases(const bench_options *options);

/* A runtime with options->threads and the number that it has. An exit code. */
int bench_open(const bench_options *options, mt_runtime **rt, int *threads);

#endif
