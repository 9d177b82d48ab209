// SPDX-License-Identifier: Apache-2.0
/*
 * bench_matmul.c - mecantensor bench matmul: C = A B in f32 through the public API, side by
 * side with other libraries.
 *
 * Contenders take turns, so that all meet the same clock rate and the same neighbours; the
 * ratio is the median of the ratios within a round. Values are small integers: every right
 * result is exact, whatever the order of summation, and is checked as such.
 */
#include "bench.h"
#include "bench_engine.h"
#include "bench_peak.h"
#include "bench_peers.h"
#include "common.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PEERS = 8, SAMPLES = 64 };

/* a [m, k] times b [k, n]; written MxKxN on the command line. */
typedef struct bench_shape {
  int64_t m, k, n;
} bench_shape;

typedef struct bench {
  const bench_options *options;
  int threads;
  const char *isa; /* what the others are held to; NULL: what they choose */
  mt_runtime *rt;
  bench_peer peers[MAX_PEERS];
  size_t peer_count;
} bench;

/* Contender 0 is this library, i + 1 is peer i. */
enum { OURS = 0, MAX_CONTENDERS = MAX_PEERS + 1 };

typedef struct result {
  bench_shape shape;
  bench_figures peak; /* of one core */
  bench_figures rate[MAX_CONTENDERS];
  double ratio; /* ours to the fastest peer; NaN without one */
  size_t fastest;
  char where[64]; /* the backend that ran ours */
} result;

/* One shape being measured */
typedef struct trial {
  bench *b;
  bench_problem problem; /* c: of the peers */
  mt_tensor *ta, *tb, *tc;
  double *peak;                 /* rounds */
  double *rate[MAX_CONTENDERS]; /* rounds each */
} trial;

/* ---- values ---- */
static uint32_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

/* Integers -limit .. limit without 0 */
static void fill(float *values, int64_t count, int limit, uint64_t *state) {
  for (int64_t i = 0; i < count; i++) {
    int magnitude = 1 + (int)(next_random(state) % (uint32_t)limit);
    values[i] = (float)(next_random(state) & 1 ? magnitude : -magnitude);
  }
}

static int make_matrix(int64_t rows, int64_t cols, int limit, uint64_t *state, mt_tensor **out) {
  int64_t shape[2] = {rows, cols};
  void *data;
  if (mt_tensor_create(MT_F32, 2, shape, out) != MT_OK || mt_tensor_write(*out, &data) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  fill(data, rows * cols, limit, state);
  return EXIT_DONE;
}

static int make_trial(bench *b, const bench_shape *shape, trial *t) {
  uint64_t state = 1;
  /* k products of up to limit^2 stay below 2^24. */
  int limit = shape->k <= 1 << 18 ? 8 : 1;
  const void *data[2];
  memset(t, 0, sizeof(*t));
  t->b = b;
  int code = make_matrix(shape->m, shape->k, limit, &state, &t->ta);
  code = code ? code : make_matrix(shape->k, shape->n, limit, &state, &t->tb);
  code = code ? code : make_matrix(shape->m, shape->n, limit, &state, &t->tc);
  if (code != EXIT_DONE) {
    return code;
  }
  if (mt_tensor_read(t->ta, &data[0]) != MT_OK || mt_tensor_read(t->tb, &data[1]) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  float *c = need_memory(calloc((size_t)(shape->m * shape->n), sizeof(float)));
  t->problem = (bench_problem){shape->m, shape->k, shape->n, data[0], data[1], c};
  size_t rounds = (size_t)b->options->rounds;
  t->peak = need_memory(calloc(rounds, sizeof(double)));
  for (size_t i = 0; i <= b->peer_count; i++) {
    t->rate[i] = need_memory(calloc(rounds, sizeof(double)));
  }
  return EXIT_DONE;
}

static void end_trial(trial *t) {
  mt_tensor_release(&t->ta);
  mt_tensor_release(&t->tb);
  mt_tensor_release(&t->tc);
  free(t->problem.c);
  free(t->peak);
  for (size_t i = 0; i < MAX_CONTENDERS; i++) {
    free(t->rate[i]);
  }
}

/* ---- running ---- */
static int run_contender(void *state, size_t contender, int64_t times) {
  trial *t = state;
  if (contender != OURS) {
    const bench_peer *peer = &t->b->peers[contender - 1];
    for (int64_t i = 0; i < times; i++) {
      peer->run(peer, &t->problem);
    }
    return EXIT_DONE;
  }
  for (int64_t i = 0; i < times; i++) {
    if (mt_matmul(t->b->rt, t->ta, t->tb, NULL, &t->tc) != MT_OK) {
      return cli_fail_library(EXIT_FAILED);
    }
  }
  return mt_runtime_sync(t->b->rt) == MT_OK ? EXIT_DONE : cli_fail_library(EXIT_FAILED);
}

/* Elements of our result against sums in 64-bit integers. */
static int check_ours(const trial *t, const float *c) {
  const bench_problem *p = &t->problem;
  uint64_t state = 2;
  for (int s = 0; s < SAMPLES; s++) {
    int64_t i = next_random(&state) % p->m, j = next_random(&state) % p->n;
    int64_t sum = 0;
    for (int64_t q = 0; q < p->k; q++) {
      sum += (int64_t)p->a[i * p->k + q] * (int64_t)p->b[q * p->n + j];
    }
    if (c[i * p->n + j] != (float)sum) {
      return cli_fail(EXIT_FAILED, "%lldx%lldx%lld: element (%lld, %lld) is %g, not %lld",
                      (long long)p->m, (long long)p->k, (long long)p->n, (long long)i, (long long)j,
                      (double)c[i * p->n + j], (long long)sum);
    }
  }
  return EXIT_DONE;
}

/* Every contender once: warms up, and compares all results. */
static int check_all(trial *t) {
  const bench_problem *p = &t->problem;
  const void *ours;
  int code = run_contender(t, OURS, 1);
  if (code == EXIT_DONE && mt_tensor_read(t->tc, &ours) != MT_OK) {
    code = cli_fail_library(EXIT_FAILED);
  }
  code = code ? code : check_ours(t, ours);
  for (size_t i = 1; code == EXIT_DONE && i <= t->b->peer_count; i++) {
    size_t bytes = (size_t)(p->m * p->n) * sizeof(float);
    memset(p->c, 0xff, bytes); /* NaN */
    code = run_contender(t, i, 1);
    if (code == EXIT_DONE && memcmp(p->c, ours, bytes) != 0) {
      code = cli_fail(EXIT_FAILED, "%lldx%lldx%lld: %s has another result than this library",
                      (long long)p->m, (long long)p->k, (long long)p->n, t->b->peers[i - 1].name);
    }
  }
  return code;
}

static double operations(const bench_problem *p) {
  return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

/* The operations of one core, as far as the libraries are held to it. */
static double peak_now(void *state) {
  const trial *t = state;
  return bench_fma_peak(t->b->isa == NULL || strcmp(t->b->isa, "avx2") != 0);
}

static int measure_rounds(trial *t) {
  const bench_plan plan = {.contenders = t->b->peer_count + 1,
                           .rounds = t->b->options->rounds,
                           .seconds = t->b->options->seconds,
                           .run = run_contender,
                           .limit = peak_now,
                           .state = t};
  int code = bench_measure(&plan, t->rate, t->peak);
  for (size_t i = 0; code == EXIT_DONE && i < plan.contenders; i++) {
    for (int round = 0; round < plan.rounds; round++) {
      t->rate[i][round] *= operations(&t->problem);
    }
  }
  return code;
}

/* ---- figures ---- */
static void summarize(trial *t, result *r) {
  int rounds = t->b->options->rounds;
  r->peak = bench_figures_of(t->peak, rounds);
  r->fastest = OURS;
  for (size_t i = 0; i <= t->b->peer_count; i++) {
    r->rate[i] = bench_figures_of(t->rate[i], rounds);
    if (i > 0 && (r->fastest == OURS || r->rate[i].median > r->rate[r->fastest].median)) {
      r->fastest = i;
    }
  }
  r->ratio = NAN;
  if (r->fastest != OURS) {
    double *ratio = need_memory(calloc((size_t)rounds, sizeof(double)));
    for (int i = 0; i < rounds; i++) {
      ratio[i] = t->rate[OURS][i] / t->rate[r->fastest][i];
    }
    r->ratio = bench_figures_of(ratio, rounds).median;
    free(ratio);
  }
}

static int measure(bench *b, const bench_shape *shape, result *r) {
  trial t;
  int code = make_trial(b, shape, &t);
  code = code ? code : check_all(&t);
  code = code ? code : measure_rounds(&t);
  if (code == EXIT_DONE) {
    r->shape = *shape;
    summarize(&t, r);
    bench_where(b->rt, "matmul", r->where, sizeof(r->where));
  }
  end_trial(&t);
  return code;
}

/* ---- output ---- */
static const char *contender_name(const bench *b, const result *r, size_t i) {
  return i == OURS ? r->where : b->peers[i - 1].name;
}

static void print_table(const bench *b, const result *results) {
  text_table table = {.align = "llrrrr"};
  static const char *const head[] = {"MxKxN", "", "GFLOP/s", "min", "max", "ratio"};
  for (size_t i = 0; i < 6; i++) {
    table_cell(&table, "%s", head[i]);
  }
  for (size_t s = 0; s < b->options->shape_count; s++) {
    const result *r = &results[s];
    for (size_t i = 0; i <= b->peer_count; i++) {
      if (i == 0) {
        table_cell(&table, "%lldx%lldx%lld", (long long)r->shape.m, (long long)r->shape.k,
                   (long long)r->shape.n);
      } else {
        table_cell(&table, "%s", "");
      }
      table_cell(&table, "%s", contender_name(b, r, i));
      table_cell(&table, "%.1f", r->rate[i].median / 1e9);
      table_cell(&table, "%.1f", r->rate[i].min / 1e9);
      table_cell(&table, "%.1f", r->rate[i].max / 1e9);
      if (i == OURS && !isnan(r->ratio)) {
        table_cell(&table, "%.3f", r->ratio);
      } else {
        table_cell(&table, "%s", "");
      }
    }
    if (r->peak.median > 0) {
      table_cell(&table, "%s", "");
      table_cell(&table, "%s", "limit: FMA, one core");
      table_cell(&table, "%.1f", r->peak.median / 1e9);
      table_cell(&table, "%.1f", r->peak.min / 1e9);
      table_cell(&table, "%.1f", r->peak.max / 1e9);
      table_cell(&table, "%s", "");
    }
  }
  table_print(&table, 0);
}

static void print_text(const bench *b, const bench_peer *all, const result *results) {
  const bench_options *o = b->options;
  printf("C = A B in f32, threads: %d, rounds: %d\n", b->threads, o->rounds);
  for (size_t i = 0; i < o->against_count; i++) {
    printf("%s: %s%s%s\n", all[i].name, all[i].library, all[i].library[0] ? ", " : "", all[i].note);
  }
  if (b->peer_count > 0) {
    printf("the others are held to: %s\n", b->isa ? b->isa : "nothing, they choose their kernels");
    printf("ratio: to the fastest of the others, median of the rounds\n");
  }
  print_table(b, results);
}

static void print_csv(const bench *b, const result *results) {
  printf("m,k,n,threads,contender,gflops_median,gflops_min,gflops_max,peak_gflops_core,ratio\n");
  for (size_t s = 0; s < b->options->shape_count; s++) {
    const result *r = &results[s];
    for (size_t i = 0; i <= b->peer_count; i++) {
      printf("%lld,%lld,%lld,%d,%s,%.3f,%.3f,%.3f,%.3f,", (long long)r->shape.m,
             (long long)r->shape.k, (long long)r->shape.n, b->threads, contender_name(b, r, i),
             r->rate[i].median / 1e9, r->rate[i].min / 1e9, r->rate[i].max / 1e9,
             r->peak.median / 1e9);
      if (i == OURS && !isnan(r->ratio)) {
        printf("%.4f", r->ratio);
      }
      printf("\n");
    }
  }
}

static json_t *figures_json(const bench_figures *f) {
  json_t *object = json_make_object();
  json_put(object, "median", json_figure(f->median / 1e9));
  json_put(object, "min", json_figure(f->min / 1e9));
  json_put(object, "max", json_figure(f->max / 1e9));
  return object;
}

static json_t *result_json(const bench *b, const result *r) {
  json_t *object = json_make_object();
  json_put(object, "m", json_integer(r->shape.m));
  json_put(object, "k", json_integer(r->shape.k));
  json_put(object, "n", json_integer(r->shape.n));
  json_t *list = json_make_array();
  for (size_t i = 0; i <= b->peer_count; i++) {
    json_t *contender = json_make_object();
    json_put(contender, "name", json_text(contender_name(b, r, i)));
    json_put(contender, "gflops", figures_json(&r->rate[i]));
    json_add(list, contender);
  }
  json_put(object, "contenders", list);
  json_put(object, "ratio_to_fastest", json_figure(r->ratio));
  json_put(object, "fma_gflops_per_core",
           r->peak.median > 0 ? figures_json(&r->peak) : json_null());
  return object;
}

static void print_json(const bench *b, const bench_peer *all, const result *results) {
  const bench_options *o = b->options;
  json_t *root = json_make_object();
  json_put(root, "threads", json_integer(b->threads));
  json_put(root, "rounds", json_integer(o->rounds));
  json_put(root, "isa", b->isa ? json_text(b->isa) : json_null());
  json_t *against = json_make_array();
  for (size_t i = 0; i < o->against_count; i++) {
    json_t *peer = json_make_object();
    json_put(peer, "name", json_text(all[i].name));
    json_put(peer, "usable", json_boolean(all[i].usable));
    json_put(peer, "library", json_text(all[i].library));
    json_put(peer, "note", json_text(all[i].note));
    json_add(against, peer);
  }
  json_put(root, "against", against);
  json_t *shapes = json_make_array();
  for (size_t s = 0; s < o->shape_count; s++) {
    json_add(shapes, result_json(b, &results[s]));
  }
  json_put(root, "shapes", shapes);
  json_print(root);
}

/* ---- the command ---- */
/* Unequal kernels tell nothing: the others get the instruction set of ours unless told. */
static const char *choose_isa(const bench_options *o, mt_runtime *rt) {
  if (o->isa != NULL) {
    return strcmp(o->isa, "any") == 0 ? NULL : o->isa;
  }
  mt_device_info info;
  char name[64] = "";
  snprintf(name, sizeof(name), "%s", mt_runtime_backend(rt));
  if (strstr(name, "avx") == NULL && mt_runtime_device_get(rt, 0, &info) == MT_OK) {
    snprintf(name, sizeof(name), "%s", info.backend);
  }
  return strstr(name, "avx512") ? "avx512" : strstr(name, "avx2") ? "avx2" : NULL;
}

static int open_bench(bench *b, bench_peer *all) {
  const bench_options *o = b->options;
  int code = bench_open(o, &b->rt, &b->threads);
  if (code != EXIT_DONE) {
    return code;
  }
  b->isa = choose_isa(o, b->rt);
  bench_peers_settle(b->isa, b->threads);
  for (size_t i = 0; i < o->against_count && i < MAX_PEERS; i++) {
    bench_peer_load(o->against[i], b->isa, b->threads, &all[i]);
    if (all[i].usable) {
      b->peers[b->peer_count++] = all[i];
    }
  }
  return code;
}

int bench_matmul(const bench_options *options) {
  bench b = {.options = options};
  bench_peer all[MAX_PEERS];
  int code = open_bench(&b, all);
  result *results = need_memory(calloc(options->shape_count, sizeof(*results)));
  for (size_t i = 0; code == EXIT_DONE && i < options->shape_count; i++) {
    const int64_t *d = options->shapes[i].d;
    bench_shape shape = {d[0], d[1], d[2]};
    code = measure(&b, &shape, &results[i]);
  }
  if (code == EXIT_DONE) {
    if (options->json) {
      print_json(&b, all, results);
    } else if (options->csv) {
      print_csv(&b, results);
    } else {
      print_text(&b, all, results);
    }
  }
  free(results);
  mt_runtime_release(&b.rt);
  return code;
}
