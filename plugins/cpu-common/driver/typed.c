// SPDX-License-Identifier: Apache-2.0
/*
 * typed.c - matrix products of f16, bf16, int8: matmul of those types, and bitlinear.
 *
 * Elements become f32 while they are packed for the SGEMM micro-kernel, a block at a time; sums
 * are f32 and are rounded once. int8 times int8 is summed in int32.
 */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>

enum {
  BLOCK_ROWS = 256,  /* of A at once */
  DEPTH = 256,       /* of a packed block of B */
  FEW = 8,           /* rows: B is streamed */
  LINES = 8,         /* of B that are converted at once then */
  LINE_DEPTH = 1024, /* elements of each */
  I8_ROWS = 64,
  I8_COLUMNS = 64
};

typedef struct typed_job {
  const cpu_plugin *plugin;
  const cpu_typed *p;
  const float *a; /* all of A as f32, row by row; int8: as it is, rows adjacent */
  const int8_t *a8;
  char *room;
  int64_t room_each;
  int64_t row_blocks, column_blocks, columns;
  atomic_int_fast64_t next;
} typed_job;

static bool is_whole(const cpu_typed *p) {
  return p->a.dtype == MT_ABI_DTYPE_I8 && p->b.dtype == MT_ABI_DTYPE_I8;
}

static const char *element(const cpu_typed_operand *x, int64_t i, int64_t j) {
  return x->data + (i * x->row + j * x->col) * cpu_dtype_size(x->dtype);
}

/* ---- the end of a row: n sums of row i from column j on ---- */
static void finish_row(const cpu_typed *p, int64_t i, int64_t j, int64_t n, float *row) {
  float other[CPU_ROW];
  char *c = (char *)(uintptr_t)element(&p->c, i, j);
  if (p->column_scale) {
    vec_mul(n, row, 1, p->column_scale + j * p->column_step, (int)p->column_step, row);
  }
  if (p->row_scale) {
    vec_scale(n, row, p->row_scale + i, row);
  }
  if (p->alpha != 1.0f) {
    vec_scale(n, row, &p->alpha, row);
  }
  if (p->beta != 0.0f) {
    cpu_row_read(p->c.dtype, n, c, p->c.col, other);
    vec_scale(n, other, &p->beta, other);
    vec_add(n, row, 1, other, 1, row);
  }
  if (p->bias.data) {
    cpu_row_read(p->bias.dtype, n, element(&p->bias, i, j), p->bias.col, other);
    vec_add(n, row, 1, other, 1, row);
  }
  if (p->activation) {
    p->activation(n, row, NULL, row);
  }
  cpu_row_out(p->c.dtype, n, row, c, p->c.col);
}

/* ---- many rows: the micro-kernel ---- */
/* B[p0 .. p0+depth)[j .. j+n) as a strip: rows or lines converted, whichever is adjacent. */
static void pack_strip(const typed_job *job, int64_t p0, int64_t depth, int64_t j, int n,
                       float *strip, float *lines) {
  const cpu_typed *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  if (p->b.col == 1) {
    for (int64_t at = 0; at < depth; at++) {
      cpu_row_read(p->b.dtype, n, element(&p->b, p0 + at, j), 1, strip + at * gemm->nr);
      memset(strip + at * gemm->nr + n, 0, (size_t)(gemm->nr - n) * sizeof(float));
    }
    return;
  }
  for (int i = 0; i < n; i++) {
    cpu_row_read(p->b.dtype, depth, element(&p->b, p0, j + i), p->b.row, lines + i * DEPTH);
  }
  gemm->pack(depth, n, gemm->nr, lines, DEPTH, 1, strip);
}

/* One strip of columns for a block of rows. */
static void multiply_strip(const typed_job *job, int64_t i0, int64_t rows, int64_t j, float *room) {
  const cpu_typed *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  int nr = gemm->nr, n = (int)cpu_min(nr, p->n - j);
  float *sums = room, *strip = sums + BLOCK_ROWS * nr, *lines = strip + (DEPTH + 1) * nr + 16;
  cpu_gemm_strip s = {.m = rows,
                      .n = n,
                      .full_b = true,
                      .a_row = p->k,
                      .a_col = 1,
                      .a_step = gemm->mr * p->k,
                      .b = strip,
                      .b_row = nr,
                      .c = sums,
                      .c_row = nr};
  for (int64_t p0 = 0; p0 < p->k; p0 += DEPTH) {
    s.k = cpu_min(DEPTH, p->k - p0);
    pack_strip(job, p0, s.k, j, n, strip, lines);
    s.a = job->a + i0 * p->k + p0;
    s.accumulate = p0 > 0;
    gemm->strip(&s);
  }
  if (p->k == 0) {
    memset(sums, 0, (size_t)(rows * nr) * sizeof(float));
  }
  for (int64_t i = 0; i < rows; i++) {
    finish_row(p, i0 + i, j, n, sums + i * nr);
  }
}

/* ---- few rows: B is read once, a few lines or rows at a time ---- */
static void stream_lines(const typed_job *job, int64_t j, int64_t n, float *room) {
  const cpu_typed *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  float *sums = room, *lines = room + FEW * CPU_ROW, part[FEW * LINES];
  memset(sums, 0, (size_t)(p->m * CPU_ROW) * sizeof(float));
  for (int64_t at = 0; at < n; at += LINES) {
    int64_t many = cpu_min(LINES, n - at);
    for (int64_t p0 = 0; p0 < p->k; p0 += LINE_DEPTH) {
      int64_t depth = cpu_min(LINE_DEPTH, p->k - p0);
      for (int64_t i = 0; i < many; i++) {
        cpu_row_read(p->b.dtype, depth, element(&p->b, p0, j + at + i), p->b.row,
                     lines + i * LINE_DEPTH);
      }
      gemm->dots(p->m, many, depth, job->a + p0, p->k, lines, LINE_DEPTH, part, LINES);
      for (int64_t i = 0; i < p->m; i++) {
        vec_add(many, sums + i * CPU_ROW + at, 1, part + i * LINES, 1, sums + i * CPU_ROW + at);
      }
    }
  }
}

static void stream_rows(const typed_job *job, int64_t j, int64_t n, float *room) {
  const cpu_typed *p = job->p;
  float *sums = room, *rows = room + FEW * CPU_ROW;
  memset(sums, 0, (size_t)(p->m * CPU_ROW) * sizeof(float));
  for (int64_t p0 = 0; p0 < p->k; p0 += LINES) {
    int64_t depth = cpu_min(LINES, p->k - p0);
    for (int64_t i = 0; i < depth; i++) {
      cpu_row_read(p->b.dtype, n, element(&p->b, p0 + i, j), p->b.col, rows + i * CPU_ROW);
    }
    for (int64_t i = 0; i < p->m; i++) {
      job->plugin->gemm->gemv_rows(depth, n, job->a + i * p->k + p0, rows, CPU_ROW,
                                   sums + i * CPU_ROW);
    }
  }
}

static void multiply_few(const typed_job *job, int64_t j, float *room) {
  const cpu_typed *p = job->p;
  int64_t n = cpu_min(job->columns, p->n - j);
  (p->b.col == 1 ? stream_rows : stream_lines)(job, j, n, room);
  for (int64_t i = 0; i < p->m; i++) {
    finish_row(p, i, j, n, room + i * CPU_ROW);
  }
}

/* ---- int8 ---- */
static void finish_whole(const cpu_typed *p, int64_t i, int64_t j, int64_t n, const int32_t *sums) {
  if (p->c.dtype != MT_ABI_DTYPE_I32) {
    float row[I8_COLUMNS];
    for (int64_t q = 0; q < n; q++) {
      row[q] = (float)sums[q];
    }
    finish_row(p, i, j, n, row);
    return;
  }
  cpu_any_i32 *c = (cpu_any_i32 *)(uintptr_t)element(&p->c, i, j);
  const cpu_any_i32 *bias = p->bias.data ? (const cpu_any_i32 *)element(&p->bias, i, j) : NULL;
  for (int64_t q = 0; q < n; q++) {
    uint32_t sum = (uint32_t)sums[q] + (bias ? (uint32_t)bias[q * p->bias.col] : 0);
    c[q * p->c.col] = (int32_t)sum;
  }
}

static void multiply_whole(const typed_job *job, int64_t i0, int64_t j, char *room) {
  const cpu_typed *p = job->p;
  int64_t m = cpu_min(I8_ROWS, p->m - i0), n = cpu_min(I8_COLUMNS, p->n - j), line = p->b.col;
  const int8_t *b = (const int8_t *)element(&p->b, 0, j);
  int32_t sums[I8_ROWS * I8_COLUMNS];
  if (p->b.row != 1 && p->k != 1) {
    for (int64_t q = 0; q < n; q++) {
      cpu_copy_strided(p->k, 1, element(&p->b, 0, j + q), p->b.row, room + q * p->k, 1);
    }
    b = (const int8_t *)room;
    line = p->k;
  }
  job->plugin->gemm->i8_dots(m, n, p->k, job->a8 + i0 * p->k, p->k, b, line, sums, I8_COLUMNS);
  for (int64_t i = 0; i < m; i++) {
    finish_whole(p, i0 + i, j, n, sums + i * I8_COLUMNS);
  }
}

/* ---- running ---- */
static void run_blocks(void *arg, uint32_t task) {
  typed_job *job = arg;
  const cpu_typed *p = job->p;
  char *room = job->room + (int64_t)task * job->room_each;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (item >= job->row_blocks * job->column_blocks) {
      return;
    }
    int64_t i = item / job->column_blocks, j = item % job->column_blocks * job->columns;
    if (is_whole(p)) {
      multiply_whole(job, i * I8_ROWS, j, room);
    } else if (p->m <= FEW) {
      multiply_few(job, j, (float *)room);
    } else {
      multiply_strip(job, i * BLOCK_ROWS, cpu_min(BLOCK_ROWS, p->m - i * BLOCK_ROWS), j,
                     (float *)room);
    }
  }
}

static void plan(const cpu_plugin *plugin, const cpu_typed *p, typed_job *job) {
  int64_t nr = plugin->gemm->nr, rows = is_whole(p) ? I8_ROWS : BLOCK_ROWS;
  job->plugin = plugin;
  job->p = p;
  job->row_blocks = (p->m + rows - 1) / rows;
  if (is_whole(p)) {
    job->columns = I8_COLUMNS;
    job->room_each = p->b.row == 1 || p->k == 1 ? 0 : I8_COLUMNS * p->k;
  } else if (p->m <= FEW) {
    job->columns = p->b.col == 1 ? CPU_ROW : 64;
    job->room_each = (FEW * CPU_ROW + LINES * LINE_DEPTH) * (int64_t)sizeof(float);
  } else {
    job->columns = nr;
    job->room_each =
        (BLOCK_ROWS * nr + (DEPTH + 1) * nr + 16 + DEPTH * nr) * (int64_t)sizeof(float);
  }
  job->room_each = cpu_round_up(job->room_each, CPU_CACHE_LINE);
  job->column_blocks = (p->n + job->columns - 1) / job->columns;
}

static uint64_t a_bytes(const cpu_typed *p) {
  return (uint64_t)cpu_round_up(p->m * p->k * (is_whole(p) ? 1 : 4), CPU_CACHE_LINE);
}

uint64_t cpu_typed_scratch(const cpu_plugin *plugin, const cpu_typed *p, uint32_t threads) {
  typed_job job = {0};
  plan(plugin, p, &job);
  return a_bytes(p) + (uint64_t)job.room_each * threads;
}

void cpu_typed_run(const cpu_plugin *plugin, const cpu_typed *p, uint32_t threads, void *scratch) {
  typed_job job = {0};
  plan(plugin, p, &job);
  for (int64_t i = 0; i < p->m; i++) {
    if (is_whole(p)) {
      cpu_copy_strided(p->k, 1, element(&p->a, i, 0), p->a.col, (char *)scratch + i * p->k, 1);
    } else {
      cpu_row_read(p->a.dtype, p->k, element(&p->a, i, 0), p->a.col, (float *)scratch + i * p->k);
    }
  }
  job.a = scratch;
  job.a8 = scratch;
  job.room = (char *)scratch + a_bytes(p);
  atomic_init(&job.next, 0);
  int64_t items = job.row_blocks * job.column_blocks;
  cpu_parallel(plugin, (uint32_t)cpu_min(threads, items), run_blocks, &job);
}

/* ---- bitlinear ---- */
enum { X, WEIGHT, WEIGHT_SCALE, X_SCALE, BIAS };

void cpu_bitlinear_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                           mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  const mt_operand_v1 *x = cpu_in(op, X), *out = cpu_out(op);
  answer->answer = MT_ABI_SUPPORT_YES;
  double k = (double)cpu_in(op, WEIGHT)->shape[1], n = (double)cpu_in(op, WEIGHT)->shape[0];
  if (!cpu_fits(answer, (double)cpu_elements(out) / n * k) || !cpu_fits(answer, n * k)) {
    return;
  }
  /* rows of x and of the result follow each other at one distance */
  for (int i = 0; i < 2; i++) {
    const mt_operand_v1 *t = i ? out : x;
    for (int axis = 0; axis + 2 < t->rank; axis++) {
      if (t->stride[axis] != t->stride[axis + 1] * t->shape[axis + 1]) {
        answer->answer = MT_ABI_SUPPORT_AFTER_RELAYOUT;
        answer->relayout_inputs |= i ? 0 : 1;
        answer->relayout_outputs |= i ? 1 : 0;
      }
    }
  }
  const mt_operand_v1 *scale = cpu_optional_in(op, X_SCALE);
  for (int axis = 0; scale && axis + 1 < scale->rank; axis++) {
    if (scale->stride[axis] != scale->stride[axis + 1] * scale->shape[axis + 1]) {
      answer->answer = MT_ABI_SUPPORT_AFTER_RELAYOUT;
      answer->relayout_inputs |= UINT64_C(1) << X_SCALE;
    }
  }
}

static cpu_typed_operand matrix(const mt_operand_v1 *x) {
  return (cpu_typed_operand){x->data, x->dtype, x->rank > 1 ? x->stride[x->rank - 2] : 0,
                             x->stride[x->rank - 1]};
}

int32_t cpu_bitlinear_run(cpu_queue *queue, int kind, const void *packed, const mt_op_v1 *op,
                          mt_message_v1 *msg) {
  (void)kind;
  (void)packed;
  const cpu_plugin *plugin = queue->plugin;
  const mt_operand_v1 *x = cpu_in(op, X), *w = cpu_in(op, WEIGHT);
  const mt_operand_v1 *scale = cpu_optional_in(op, WEIGHT_SCALE);
  const mt_operand_v1 *x_scale = cpu_optional_in(op, X_SCALE), *bias = cpu_optional_in(op, BIAS);
  uint32_t threads = cpu_threads(plugin);
  cpu_typed p = {.m = cpu_elements(cpu_out(op)) / w->shape[0],
                 .n = w->shape[0],
                 .k = w->shape[1],
                 .a = matrix(x),
                 .b = {w->data, w->dtype, w->stride[1], w->stride[0]},
                 .c = matrix(cpu_out(op)),
                 .alpha = 1.0f};
  if (bias) {
    p.bias = (cpu_typed_operand){bias->data, bias->dtype, 0, bias->stride[0]};
  }
  uint64_t columns = (uint64_t)cpu_round_up(p.n, 16) * sizeof(float);
  uint64_t rows = (uint64_t)cpu_round_up(p.m, 16) * sizeof(float);
  uint64_t bytes = columns + rows + cpu_typed_scratch(plugin, &p, threads);
  float *room = cpu_scratch(queue, bytes);
  if (!room) {
    return cpu_no_memory(msg, bytes);
  }
  if (scale) {
    cpu_row_read(scale->dtype, p.n, scale->data, scale->stride[0], room);
    p.column_scale = room;
    p.column_step = 1;
  }
  if (x_scale) {
    float *to = room + columns / sizeof(float);
    int64_t step = x_scale->rank > 0 ? x_scale->stride[x_scale->rank - 1] : 0;
    cpu_row_read(x_scale->dtype, p.m, x_scale->data, step, to);
    p.row_scale = to;
  }
  cpu_typed_run(plugin, &p, threads, (char *)room + columns + rows);
  return MT_ABI_OK;
}
