// SPDX-License-Identifier: Apache-2.0
/* bench_cases.h - what `mecantensor bench` measures beside matmul: one row a case. */
#ifndef MT_TOOLS_BENCH_CASES_H
#define MT_TOOLS_BENCH_CASES_H

#include <mecantensor/mecantensor.h>

struct bench_case;

/* One case being measured. make() sets what run() needs, and what the limit is computed from. */
typedef struct bench_work {
  const struct bench_case *row;
  mt_runtime *rt;
  const int64_t *d; /* extents, as the kind's form names them */
  mt_tensor *in[3], *out;
  double operations;    /* multiplications and additions; 0 where memory is what counts */
  double read, written; /* bytes that have to move at least */
} bench_work;

typedef mt_status bench_unary(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
typedef mt_status bench_binary(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);

typedef struct bench_case {
  const char *kind, *name;
  mt_status (*make)(bench_work *w); /* inputs */
  mt_status (*run)(bench_work *w);  /* into w->out */
  bench_unary *unary;
  bench_binary *binary;
} bench_case;

/*
 * To add a case: write make() and run() (or take run_unary, run_binary) in bench_table.c, and add a
 * row there. A new kind also has a row in `kinds` of cmd_bench.c, which names its extents.
 */
extern const bench_case bench_table[];
extern const size_t bench_table_count;

#endif
