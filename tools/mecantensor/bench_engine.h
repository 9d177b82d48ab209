// SPDX-License-Identifier: Apache-2.0
/* bench_engine.h - the one way in which every `mecantensor bench` measures: contenders take turns
 * in rounds, with the limit measured at the start of each. */
#ifndef MT_TOOLS_BENCH_ENGINE_H
#define MT_TOOLS_BENCH_ENGINE_H

#include <mecantensor/mecantensor.h>

typedef struct bench_figures {
  double min, median, max;
} bench_figures;

bench_figures bench_figures_of(const double *values, int count);

typedef struct bench_plan {
  size_t contenders;
  int rounds;
  double seconds; /* for each contender and round */
  /* Runs a contender so many times and waits; an exit code of common.h, printed if not 0. */
  int (*run)(void *state, size_t contender, int64_t times);
  double (*limit)(void *state); /* in any unit */
  void *state;
} bench_plan;

/* rates[contender][round]: runs a second; limits[round]. */
int bench_measure(const bench_plan *plan, double *const *rates, double *limits);

/* The device on which most calls ran, of `op` or (NULL) of any; "" when none did. */
void bench_where(mt_runtime *rt, const char *op, char *where, size_t size);

#endif
