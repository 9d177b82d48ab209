// SPDX-License-Identifier: Apache-2.0
/*
 * gemv.c - few rows of A: B is read once where it is, packing it would cost more.
 *
 * Two kernels: sums of rows of B (columns adjacent), and dot products (B runs along k in
 * memory, as weights do, or is made of blocks).
 */
#include "cpu.h"

enum {
  DOT_ROWS = 8,     /* more rows: packing B pays */
  BLOCK_ROWS = 16,  /* the same, where B is made of blocks */
  SUM_ROWS = 24,    /* the same, where B's columns are adjacent */
  COLUMNS = 1024,   /* of a chunk of sums ... */
  VECTOR = 4096,    /* ... for a single row, at most */
  DOT_COLUMNS = 96, /* of a chunk of dot products ... */
  BLOCK_LINES = 8,  /* ... and of these, what all rows are done with at once */
  SUM_DEPTH = 16,   /* rows of B that are read side by side */
  CHUNK = SUM_ROWS * COLUMNS
};

/* a's rows as they are, when k is adjacent */
static bool rows_adjacent(const cpu_matmul *p) {
  return p->a_col == 1 || p->k == 1;
}

/* Several rows: only where the micro-kernel would have to fetch B from beyond L2. */
static bool sums_rows(const cpu_plugin *plugin, const cpu_matmul *p) {
  if (!p->b || p->b_col != 1 || (p->n == 1 && p->b_row == 1)) {
    return false;
  }
  return p->m == 1 || (p->m <= SUM_ROWS && p->n * p->k > cpu_in_place_floats(plugin));
}

bool cpu_few_rows(const cpu_plugin *plugin, const cpu_matmul *p) {
  if (p->packed) {
    return false;
  }
  if (p->blocks) {
    return p->m <= BLOCK_ROWS;
  }
  return sums_rows(plugin, p) || (p->m <= DOT_ROWS && p->b_row == 1);
}

uint64_t cpu_few_rows_scratch(const cpu_matmul *p) {
  return rows_adjacent(p) ? 0 : (uint64_t)p->m * (uint64_t)p->k * sizeof(float);
}

typedef struct few_job {
  const cpu_plugin *plugin;
  const cpu_matmul *p;
  const float *a;
  int64_t a_row;
  int64_t columns; /* of a chunk */
  cpu_finish finish;
  uint32_t tasks;
} few_job;

/* One row: values += whole rows of B. */
static void sum_vector(const few_job *job, int64_t j, int64_t n, float *values) {
  const cpu_matmul *p = job->p;
  for (int64_t i = 0; i < n; i++) {
    values[i] = 0.0f;
  }
  job->plugin->gemm->gemv_rows(p->k, n, job->a, p->b + j, p->b_row, values);
}

/* Some rows: the micro-kernel on B in place, a few of its rows at a time, so that memory is
 * read in long runs. */
static void sum_rows(const few_job *job, int64_t j, int64_t n, float *values) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  cpu_gemm_strip strip = {.m = p->m, .a_row = job->a_row, .a_col = 1, .b_row = p->b_row};
  strip.a_step = gemm->mr * job->a_row;
  strip.c_row = job->columns;
  for (int64_t at = 0; at < p->k; at += SUM_DEPTH) {
    strip.k = cpu_min(SUM_DEPTH, p->k - at);
    strip.a = job->a + at;
    strip.accumulate = at > 0;
    for (int64_t column = 0; column < n; column += gemm->nr) {
      strip.n = (int)cpu_min(gemm->nr, n - column);
      strip.b = p->b + at * p->b_row + j + column;
      strip.c = values + column;
      gemm->strip(&strip);
    }
  }
}

static void block_dots(const few_job *job, int64_t j, int64_t n, float *values) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  for (int64_t line = 0; line < n; line += BLOCK_LINES) {
    for (int64_t i = 0; i < p->m; i += gemm->q8_0_rows) {
      gemm->q8_0_dots((int)cpu_min(gemm->q8_0_rows, p->m - i), cpu_min(BLOCK_LINES, n - line), p->k,
                      job->a + i * job->a_row, job->a_row, p->blocks + (j + line) * p->blocks_col,
                      p->blocks_col, values + i * job->columns + line, job->columns);
    }
  }
}

static void run_chunk(const few_job *job, int64_t j, int64_t n) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  float values[CHUNK];
  int64_t row = job->columns;
  if (p->blocks) {
    block_dots(job, j, n, values);
  } else if (sums_rows(job->plugin, p) && p->m == 1) {
    sum_vector(job, j, n, values);
  } else if (sums_rows(job->plugin, p)) {
    sum_rows(job, j, n, values);
  } else {
    gemm->dots(p->m, n, p->k, job->a, job->a_row, p->b + j * p->b_col, p->b_col, values, row);
  }
  cpu_matmul_finish(p, &job->finish, 0, j, p->m, n, values, row);
}

static void run_chunks(void *arg, uint32_t task) {
  const few_job *job = arg;
  int64_t n = job->p->n;
  int64_t chunks = (n + job->columns - 1) / job->columns;
  int64_t end = cpu_share(chunks, task + 1, job->tasks);
  for (int64_t chunk = cpu_share(chunks, task, job->tasks); chunk < end; chunk++) {
    int64_t j = chunk * job->columns;
    run_chunk(job, j, cpu_min(job->columns, n - j));
  }
}

/* Wide chunks read memory in long runs; each thread should have one all the same. */
static int64_t chunk_columns(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads) {
  if (!sums_rows(plugin, p)) {
    return DOT_COLUMNS;
  }
  int64_t share = cpu_round_up((p->n + threads - 1) / threads, CPU_CACHE_LINE);
  return cpu_min(share, p->m == 1 ? VECTOR : COLUMNS);
}

void cpu_few_rows_run(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads,
                      void *scratch) {
  few_job job = {.plugin = plugin, .p = p, .a = p->a, .a_row = p->a_row};
  if (!rows_adjacent(p)) {
    for (int64_t i = 0; i < p->m; i++) {
      cpu_copy_strided(p->k, sizeof(float), (const char *)(p->a + i * p->a_row), p->a_col,
                       (char *)((float *)scratch + i * p->k), 1);
    }
    job.a = scratch;
    job.a_row = p->k;
  }
  job.columns = chunk_columns(plugin, p, threads);
  job.finish = (cpu_finish){p->alpha, p->beta, p->bias, p->activation};
  /* Bound by reading B: its elements are the work. */
  job.tasks = threads > 1 ? cpu_task_count(plugin, (double)p->n * (double)p->k, 32768.0) : 1;
  job.tasks = (uint32_t)cpu_min(job.tasks, (p->n + job.columns - 1) / job.columns);
  cpu_parallel(plugin, job.tasks, run_chunks, &job);
}
