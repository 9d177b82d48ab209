// SPDX-License-Identifier: Apache-2.0
#include "bench_engine.h"

#include "bench.h"
#include "bench_peak.h"
#include "common.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

bench_figures bench_figures_of(const double *values, int count) {
  double *sorted = need_memory(calloc((size_t)count, sizeof(double)));
  memcpy(sorted, values, (size_t)count * sizeof(double));
  qsort(sorted, (size_t)count, sizeof(double), compare_doubles);
  double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
  bench_figures f = {sorted[0], middle, sorted[count - 1]};
  free(sorted);
  return f;
}

/* How often this contender has to run to fill the time. */
static int calibrate(const bench_plan *plan, size_t contender, int64_t *times) {
  *times = 1;
  for (;;) {
    double start = bench_now();
    int code = plan->run(plan->state, contender, *times);
    double taken = bench_now() - start;
    if (code != EXIT_DONE) {
      return code;
    }
    if (taken >= plan->seconds / 8 || *times >= INT64_C(1) << 40) {
      *times = (int64_t)fmax(1, (double)*times * plan->seconds / taken);
      return EXIT_DONE;
    }
    *times *= 4;
  }
}

static int measure_round(const bench_plan *plan, const int64_t *times, int round,
                         double *const *rates) {
  for (size_t i = 0; i < plan->contenders; i++) {
    double start = bench_now();
    int code = plan->run(plan->state, i, times[i]);
    if (code != EXIT_DONE) {
      return code;
    }
    rates[i][round] = (double)times[i] / (bench_now() - start);
  }
  return EXIT_DONE;
}

int bench_measure(const bench_plan *plan, double *const *rates, double *limits) {
  int64_t *times = need_memory(calloc(plan->contenders, sizeof(*times)));
  int code = EXIT_DONE;
  for (size_t i = 0; code == EXIT_DONE && i < plan->contenders; i++) {
    code = calibrate(plan, i, &times[i]);
  }
  for (int round = 0; code == EXIT_DONE && round < plan->rounds; round++) {
    limits[round] = plan->limit(plan->state);
    code = measure_round(plan, times, round, rates);
  }
  free(times);
  return code;
}

int bench_open(const bench_options *options, mt_runtime **rt, int *threads) {
  if (options->threads > 0) {
    char count[16];
    snprintf(count, sizeof(count), "%d", options->threads);
    setenv("MECANTENSOR_NUM_THREADS", count, 1);
  }
  int code = open_runtime(options->backend, rt);
  *threads = (int)mt_runtime_threads(*rt);
  int cpu = sched_getcpu();
  if (*threads == 1 && cpu >= 0 && cpu < CPU_SETSIZE) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set); /* only steadies the figures: may fail */
  }
  return code;
}

void bench_where(mt_runtime *rt, const char *op, char *where, size_t size) {
  uint64_t most = 0;
  mt_op_stats stats;
  for (size_t i = 0; mt_runtime_stats_get(rt, i, &stats) == MT_OK; i++) {
    if ((op == NULL || strcmp(stats.op, op) == 0) && stats.calls > most) {
      most = stats.calls;
      snprintf(where, size, "%s", stats.backend);
    }
  }
}
