// SPDX-License-Identifier: Apache-2.0
/* bench_cases.c - measures rows of bench_table, each beside what memory and the FMA units of this
 * machine allow, measured in the same rounds. */
#include "bench_cases.h"

#include "bench.h"
#include "bench_engine.h"
#include "bench_peak.h"
#include "common.h"
#include "text.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIMIT_THREADS = 64 };

/* What a case is counted in. The limit is the time that its work takes at the measured rates; the
 * longer of the two names the unit. */
typedef enum bench_unit { UNIT_GFLOPS, UNIT_GBYTES, UNIT_NS } bench_unit;

static const char *const unit_names[] = {"GFLOP/s", "GB/s", "ns/call"};

typedef struct case_result {
  const bench_case *row;
  const bench_dims *shape;
  char where[64];
  bench_unit unit;
  bench_figures figures;
  double limit, share; /* NaN: the case has none */
} case_result;

/* State of the engine: one case. */
typedef struct case_run {
  bench_work work;
  int threads;
  bench_buffers buffers[MAX_LIMIT_THREADS];
  double *peak, *reading, *copying; /* a second, all threads together, of each round */
  int round;
} case_run;

/* ---- limits ---- */
typedef struct limit_thread {
  const bench_buffers *buffers;
  double flops, reading, copying;
} limit_thread;

static void *measure_limits(void *argument) {
  limit_thread *t = argument;
  bool memory = t->buffers->bytes > 0;
  t->flops = bench_fma_peak(true);
  t->reading = memory ? bench_read_rate(t->buffers) : 0;
  t->copying = memory ? bench_copy_rate(t->buffers) : 0;
  return NULL;
}

/* Buffers of the size of the case, so that they lie in the same cache. */
static void make_buffers(case_run *r) {
  const bench_work *w = &r->work;
  double each = (w->read + w->written) / 2 / r->threads;
  size_t bytes = (size_t)fmax(4096, fmin(each, 1 << 30)) / 256 * 256;
  for (int i = 0; w->read > 0 && i < r->threads; i++) {
    bench_buffers *b = &r->buffers[i];
    b->bytes = bytes;
    b->from = need_memory(aligned_alloc(256, bytes));
    b->to = need_memory(aligned_alloc(256, bytes));
    memset(b->from, 1, bytes);
    memset(b->to, 2, bytes);
  }
}

/* All threads at once; a thread that cannot be started is left out. */
static double limit_now(void *state) {
  case_run *r = state;
  limit_thread threads[MAX_LIMIT_THREADS] = {{.buffers = &r->buffers[0]}};
  pthread_t ids[MAX_LIMIT_THREADS];
  bool started[MAX_LIMIT_THREADS] = {false};
  for (int i = 0; i < r->threads; i++) {
    threads[i] = (limit_thread){.buffers = &r->buffers[i]};
    started[i] = i > 0 && pthread_create(&ids[i], NULL, measure_limits, &threads[i]) == 0;
  }
  measure_limits(&threads[0]);
  for (int i = 0; i < r->threads; i++) {
    if (started[i]) {
      pthread_join(ids[i], NULL);
    }
    r->peak[r->round] += threads[i].flops;
    r->reading[r->round] += threads[i].reading;
    r->copying[r->round] += threads[i].copying;
  }
  return r->peak[r->round++];
}

/* ---- one case ---- */
static int run_case(void *state, size_t contender, int64_t times) {
  bench_work *w = &((case_run *)state)->work;
  (void)contender;
  for (int64_t i = 0; i < times; i++) {
    if (w->row->run(w) != MT_OK) {
      return cli_fail_library(EXIT_FAILED);
    }
  }
  return mt_runtime_sync(w->rt) == MT_OK ? EXIT_DONE : cli_fail_library(EXIT_FAILED);
}

/* Seconds that moving takes: what is both read and written at the rate of a copy, the rest at that
 * of reading (writing alone is taken to be no slower). */
static double moving_time(const case_run *r, int rounds) {
  const bench_work *w = &r->work;
  double both = fmin(w->read, w->written), alone = fmax(w->read, w->written) - both;
  return 2 * both / bench_figures_of(r->copying, rounds).median +
         alone / bench_figures_of(r->reading, rounds).median;
}

static void summarize(const case_run *r, const double *rates, int rounds, case_result *out) {
  const bench_work *w = &r->work;
  double flops = bench_figures_of(r->peak, rounds).median, moved = w->read + w->written;
  double by_flops = flops > 0 ? w->operations / flops : 0;
  double by_bytes = moved > 0 ? moving_time(r, rounds) : 0;
  double scale = 1e-9 * (by_flops > by_bytes ? w->operations : moved);
  bench_figures rate = bench_figures_of(rates, rounds);
  out->limit = out->share = NAN;
  if (moved == 0) {
    out->unit = UNIT_NS;
    out->figures = (bench_figures){1e9 / rate.max, 1e9 / rate.median, 1e9 / rate.min};
    return;
  }
  out->unit = by_flops > by_bytes ? UNIT_GFLOPS : UNIT_GBYTES;
  out->figures = (bench_figures){scale * rate.min, scale * rate.median, scale * rate.max};
  out->limit = scale / fmax(by_flops, by_bytes);
  out->share = out->figures.median / out->limit;
}

static void end_case(case_run *r) {
  for (int i = 0; i < r->threads; i++) {
    free(r->buffers[i].from);
    free(r->buffers[i].to);
  }
  for (int i = 0; i < 3; i++) {
    mt_tensor_release(&r->work.in[i]);
  }
  mt_tensor_release(&r->work.out);
  mt_runtime_release(&r->work.rt);
  free(r->peak);
  free(r->reading);
  free(r->copying);
}

static int measure_case(const bench_options *o, int *threads, case_result *out) {
  case_run r = {.work = {.row = out->row, .d = out->shape->d}};
  size_t rounds = (size_t)o->rounds;
  double *rates = need_memory(calloc(rounds, sizeof(double)));
  double *unused = need_memory(calloc(rounds, sizeof(double)));
  r.peak = need_memory(calloc(rounds, sizeof(double)));
  r.reading = need_memory(calloc(rounds, sizeof(double)));
  r.copying = need_memory(calloc(rounds, sizeof(double)));
  int code = bench_open(o, &r.work.rt, &r.threads);
  *threads = r.threads;
  r.threads = r.threads < MAX_LIMIT_THREADS ? r.threads : MAX_LIMIT_THREADS;
  if (code == EXIT_DONE && out->row->make(&r.work) != MT_OK) {
    code = cli_fail_library(EXIT_FAILED);
  }
  if (code == EXIT_DONE) {
    make_buffers(&r);
    const bench_plan plan = {1, o->rounds, o->seconds, run_case, limit_now, &r};
    code = bench_measure(&plan, &rates, unused);
  }
  if (code == EXIT_DONE) {
    summarize(&r, rates, o->rounds, out);
    bench_where(r.work.rt, NULL, out->where, sizeof(out->where));
  }
  free(rates);
  free(unused);
  end_case(&r);
  return code;
}

/* ---- output ---- */
static const char *dims_text(const bench_options *o, const bench_dims *shape, char *buf,
                             size_t size) {
  size_t used = 0;
  for (int i = 0; i < o->extents; i++) {
    used +=
        (size_t)snprintf(buf + used, size - used, "%s%lld", i ? "x" : "", (long long)shape->d[i]);
  }
  return buf;
}

/* Empty where there is none. */
static void figure_cell(text_table *t, int digits, double figure) {
  if (isnan(figure)) {
    table_cell(t, "%s", "");
  } else {
    table_cell(t, "%.*f", digits, figure);
  }
}

static void print_text(const bench_options *o, int threads, const case_result *results,
                       size_t count) {
  static const char *const head[] = {"",    "shape", "on",    "median", "min",
                                     "max", "",      "limit", "share"};
  text_table table = {.align = "lllrrrlrr"};
  char shape[BENCH_EXTENTS * 12];
  for (size_t i = 0; i < 9; i++) {
    table_cell(&table, "%s", head[i]);
  }
  for (size_t i = 0; i < count; i++) {
    const case_result *r = &results[i];
    table_cell(&table, "%s", r->row->name);
    table_cell(&table, "%s", dims_text(o, r->shape, shape, sizeof(shape)));
    table_cell(&table, "%s", r->where);
    table_cell(&table, "%.1f", r->figures.median);
    table_cell(&table, "%.1f", r->figures.min);
    table_cell(&table, "%.1f", r->figures.max);
    table_cell(&table, "%s", unit_names[r->unit]);
    figure_cell(&table, 1, r->limit);
    figure_cell(&table, 2, r->share);
  }
  printf("threads: %d, rounds: %d\n", threads, o->rounds);
  printf("limit: f32 FMAs in registers, or reading or copying as many bytes, measured now\n");
  table_print(&table, 0);
}

static void print_csv(const bench_options *o, int threads, const case_result *results,
                      size_t count) {
  char shape[BENCH_EXTENTS * 12];
  printf("case,shape,backend,threads,median,min,max,unit,limit,share\n");
  for (size_t i = 0; i < count; i++) {
    const case_result *r = &results[i];
    printf("%s,%s,%s,%d,%.4f,%.4f,%.4f,%s,", r->row->name,
           dims_text(o, r->shape, shape, sizeof(shape)), r->where, threads, r->figures.median,
           r->figures.min, r->figures.max, unit_names[r->unit]);
    if (isnan(r->limit)) {
      printf(",\n");
    } else {
      printf("%.4f,%.4f\n", r->limit, r->share);
    }
  }
}

static void print_json(const bench_options *o, int threads, const case_result *results,
                       size_t count) {
  json_t *root = json_make_object(), *list = json_make_array();
  for (size_t i = 0; i < count; i++) {
    const case_result *r = &results[i];
    json_t *row = json_make_object();
    json_put(row, "case", json_text(r->row->name));
    json_put(row, "shape", json_shape(o->extents, r->shape->d));
    json_put(row, "backend", json_text(r->where));
    json_put(row, "unit", json_text(unit_names[r->unit]));
    json_put(row, "median", json_figure(r->figures.median));
    json_put(row, "min", json_figure(r->figures.min));
    json_put(row, "max", json_figure(r->figures.max));
    json_put(row, "limit", json_figure(r->limit));
    json_put(row, "share", json_figure(r->share));
    json_add(list, row);
  }
  json_put(root, "bench", json_text(o->kind));
  json_put(root, "threads", json_integer(threads));
  json_put(root, "rounds", json_integer(o->rounds));
  json_put(root, "cases", list);
  json_print(root);
}

int bench_cases(const bench_options *o) {
  case_result *results = need_memory(calloc(bench_table_count * o->shape_count, sizeof(*results)));
  size_t count = 0;
  int code = EXIT_DONE, threads = 0;
  for (size_t s = 0; code == EXIT_DONE && s < o->shape_count; s++) {
    for (size_t i = 0; code == EXIT_DONE && i < bench_table_count; i++) {
      if (strcmp(bench_table[i].kind, o->kind) == 0) {
        results[count] = (case_result){.row = &bench_table[i], .shape = &o->shapes[s]};
        code = measure_case(o, &threads, &results[count++]);
      }
    }
  }
  if (code == EXIT_DONE) {
    (o->json ? print_json : o->csv ? print_csv : print_text)(o, threads, results, count);
  }
  free(results);
  return code;
}
