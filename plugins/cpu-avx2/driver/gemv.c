// SPDX-License-Identifier: Apache-2.0
/*
 * gemv.c - few rows of A: B is read once where it is, packing it would cost more.
 *
 * Two kernels: sums of rows of B (columns adjacent), and dot products (B runs along k in
 * memory, as weights do, or is made of blocks).
 */
#include "cpu.h"

enum {
  FEW_ROWS = 8,
  CHUNK = 4096,     /* results of a chunk, on the stack */
  DOT_COLUMNS = 96, /* of a chunk of dot products */
  SUM_DEPTH = 8     /* rows of B that all rows of A are done with before the next: L1 */
};

/* a's rows as they are, when k is adjacent */
static bool rows_adjacent(const cpu_matmul *p) {
  return p->a_col == 1 || p->k == 1;
}

static bool sums_rows(const cpu_matmul *p) {
  return p->m <= FEW_ROWS && p->b && p->b_col == 1 && (p->n > 1 || p->b_row != 1);
}

bool cpu_few_rows(const cpu_plugin *plugin, const cpu_matmul *p) {
  if (p->packed) {
    return false;
  }
  if (p->blocks) {
    return p->m <= plugin->kernels->gemm.q8_0_rows;
  }
  return sums_rows(p) || (p->m <= FEW_ROWS && p->b_row == 1);
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

/* values[i][j] = sum over p of a[i][p] b[p][j] */
static void sum_rows(const few_job *job, int64_t j, int64_t n, float *values) {
  const cpu_matmul *p = job->p;
  for (int64_t i = 0; i < p->m * job->columns; i++) {
    values[i] = 0.0f;
  }
  int64_t depth = p->m == 1 ? p->k : SUM_DEPTH;
  for (int64_t at = 0; at < p->k; at += depth) {
    for (int64_t i = 0; i < p->m; i++) {
      job->plugin->kernels->gemm.gemv_rows(cpu_min(depth, p->k - at), n,
                                           job->a + i * job->a_row + at, p->b + at * p->b_row + j,
                                           p->b_row, values + i * job->columns);
    }
  }
}

static void run_chunk(const few_job *job, int64_t j, int64_t n) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = &job->plugin->kernels->gemm;
  float values[CHUNK];
  int64_t row = job->columns;
  if (p->blocks) {
    gemm->q8_0_dots((int)p->m, n, p->k, job->a, job->a_row, p->blocks + j * p->blocks_col,
                    p->blocks_col, values, row);
  } else if (sums_rows(p)) {
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
  job.columns = sums_rows(p) ? (p->m == 1 ? 1024 : CHUNK / FEW_ROWS) : DOT_COLUMNS;
  job.finish = (cpu_finish){p->alpha, p->beta, p->bias, p->activation};
  /* Bound by reading B: its elements are the work. */
  job.tasks = threads > 1 ? cpu_task_count(plugin, (double)p->n * (double)p->k, 32768.0) : 1;
  job.tasks = (uint32_t)cpu_min(job.tasks, (p->n + job.columns - 1) / job.columns);
  cpu_parallel(plugin, job.tasks, run_chunks, &job);
}
