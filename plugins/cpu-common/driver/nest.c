// SPDX-License-Identifier: Apache-2.0
/* nest.c - loops over strided operands: fewest axes, order of memory, spread over threads. */
#include "cpu.h"

#include <string.h>

void cpu_nest_start(cpu_nest *nest, int operands) {
  nest->rank = 0;
  nest->operands = operands;
}

void cpu_nest_axis(cpu_nest *nest, int64_t extent, const int64_t *strides) {
  if (extent == 1) {
    return;
  }
  nest->extent[nest->rank] = extent;
  memcpy(nest->stride[nest->rank], strides, (size_t)nest->operands * sizeof(*strides));
  nest->rank++;
}

/* A repeated element (stride 0) is best held still in the inner loops. */
static uint64_t order_of(int64_t stride) {
  if (stride == 0) {
    return UINT64_MAX;
  }
  return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

static void sort_axes(cpu_nest *nest, int operand) {
  for (int i = 1; i < nest->rank; i++) {
    int64_t extent = nest->extent[i];
    int64_t stride[CPU_NEST_OPERANDS];
    memcpy(stride, nest->stride[i], sizeof(stride));
    int j = i;
    for (; j > 0 && order_of(nest->stride[j - 1][operand]) < order_of(stride[operand]); j--) {
      nest->extent[j] = nest->extent[j - 1];
      memcpy(nest->stride[j], nest->stride[j - 1], sizeof(stride));
    }
    nest->extent[j] = extent;
    memcpy(nest->stride[j], stride, sizeof(stride));
  }
}

static bool joins(const cpu_nest *nest, int outer, int inner) {
  for (int i = 0; i < nest->operands; i++) {
    if (nest->stride[outer][i] != nest->stride[inner][i] * nest->extent[inner]) {
      return false;
    }
  }
  return true;
}

void cpu_nest_finish(cpu_nest *nest, int operand) {
  sort_axes(nest, operand);
  int last = 0;
  for (int i = 1; i < nest->rank; i++) {
    if (joins(nest, last, i)) {
      nest->extent[last] *= nest->extent[i];
    } else {
      last++;
      nest->extent[last] = nest->extent[i];
    }
    memcpy(nest->stride[last], nest->stride[i], sizeof(nest->stride[i]));
  }
  if (nest->rank == 0) {
    nest->extent[0] = 1;
    for (int i = 0; i < nest->operands; i++) {
      nest->stride[0][i] = 1;
    }
  }
  nest->rank = last + 1;
}

void cpu_nest_build(cpu_nest *nest, int operands, const mt_operand_v1 *const *operand) {
  cpu_nest_start(nest, operands);
  for (int axis = 0; axis < operand[0]->rank; axis++) {
    int64_t strides[CPU_NEST_OPERANDS];
    for (int i = 0; i < operands; i++) {
      strides[i] = operand[i]->stride[axis];
    }
    cpu_nest_axis(nest, operand[0]->shape[axis], strides);
  }
  cpu_nest_finish(nest, 0);
}

int64_t cpu_nest_elements(const cpu_nest *nest) {
  int64_t count = 1;
  for (int i = 0; i < nest->rank; i++) {
    count *= nest->extent[i];
  }
  return count;
}

static void offsets_at(const cpu_nest *nest, const int64_t *at, int axes, int64_t *offsets) {
  for (int i = 0; i < nest->operands; i++) {
    offsets[i] = 0;
    for (int axis = 0; axis < axes; axis++) {
      offsets[i] += at[axis] * nest->stride[axis][i];
    }
  }
}

static void position(const cpu_nest *nest, int axes, int64_t index, int64_t *at) {
  for (int axis = axes - 1; axis >= 0; axis--) {
    at[axis] = index % nest->extent[axis];
    index /= nest->extent[axis];
  }
}

void cpu_nest_offsets(const cpu_nest *nest, int inner, int64_t index, int64_t *offsets) {
  int64_t at[CPU_MAX_RANK];
  position(nest, nest->rank - inner, index, at);
  offsets_at(nest, at, nest->rank - inner, offsets);
}

void cpu_nest_next(const cpu_nest *nest, int inner, int64_t *at, int64_t *offsets) {
  for (int axis = nest->rank - inner - 1; axis >= 0; axis--) {
    at[axis]++;
    for (int i = 0; i < nest->operands; i++) {
      offsets[i] += nest->stride[axis][i];
    }
    if (at[axis] < nest->extent[axis]) {
      return;
    }
    for (int i = 0; i < nest->operands; i++) {
      offsets[i] -= nest->stride[axis][i] * nest->extent[axis];
    }
    at[axis] = 0;
  }
}

/* ---- running ---- */
typedef struct rows_job {
  const cpu_nest *nest;
  char *const *data;
  const int *size;
  cpu_row_fn *fn;
  void *arg;
  int64_t pieces; /* of a row */
  int64_t units;  /* rows * pieces */
  uint32_t tasks;
} rows_job;

static void run_rows(void *arg, uint32_t task) {
  const rows_job *job = arg;
  const cpu_nest *nest = job->nest;
  int last = nest->rank - 1;
  const int64_t *step = nest->stride[last];
  int64_t unit = cpu_share(job->units, task, job->tasks);
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  int64_t at[CPU_MAX_RANK], offsets[CPU_NEST_OPERANDS];
  position(nest, last, unit / job->pieces, at);
  offsets_at(nest, at, last, offsets);
  while (unit < end) {
    int64_t piece = unit % job->pieces;
    int64_t count = cpu_min(job->pieces - piece, end - unit);
    int64_t from = nest->extent[last] * piece / job->pieces;
    int64_t to = nest->extent[last] * (piece + count) / job->pieces;
    char *data[CPU_NEST_OPERANDS];
    for (int i = 0; i < nest->operands; i++) {
      data[i] = job->data[i] + (offsets[i] + from * step[i]) * job->size[i];
    }
    job->fn(job->arg, to - from, data, step);
    unit += count;
    cpu_nest_next(nest, 1, at, offsets);
  }
}

void cpu_nest_run(const cpu_plugin *plugin, const cpu_nest *nest, char *const *data,
                  const int *size, double grain, cpu_row_fn *fn, void *arg) {
  int64_t elements = cpu_nest_elements(nest);
  if (elements == 0) {
    return;
  }
  int64_t row = nest->extent[nest->rank - 1];
  uint32_t tasks = cpu_task_count(plugin, (double)elements, grain);
  /* A row is cut only when there are fewer rows than tasks; extents are far below 2^53. */
  int64_t rows = elements / row;
  int64_t pieces = rows >= tasks ? 1 : cpu_min(row, (tasks + rows - 1) / rows);
  rows_job job = {nest, data, size, fn, arg, pieces, rows * pieces, tasks};
  job.tasks = (uint32_t)cpu_min(tasks, job.units);
  cpu_parallel(plugin, job.tasks, run_rows, &job);
}

/* ---- copying ---- */
#define COPY_LOOP(type)                                                                            \
  {                                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
      type value;                                                                                  \
      memcpy(&value, src + i * src_step, sizeof(value));                                           \
      memcpy(dst + i * dst_step, &value, sizeof(value));                                           \
    }                                                                                              \
    break;                                                                                         \
  }

void cpu_copy_strided(int64_t n, int size, const char *src, int64_t src_step, char *dst,
                      int64_t dst_step) {
  if (src_step == 1 && dst_step == 1) {
    memmove(dst, src, (size_t)n * (size_t)size); /* in place: the same address */
    return;
  }
  src_step *= size;
  dst_step *= size;
  switch (size) {
  case 1: COPY_LOOP(uint8_t)
  case 2: COPY_LOOP(uint16_t)
  case 4: COPY_LOOP(uint32_t)
  default: COPY_LOOP(uint64_t)
  }
}

typedef struct copy_job {
  const cpu_plugin *plugin;
  int size;
  /* of a transposition: the second axis */
  int64_t cols, dst_col, src_col;
} copy_job;

static void copy_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const copy_job *job = arg;
  cpu_copy_strided(n, job->size, data[1], step[1], data[0], step[0]);
}

enum { TRANSPOSE_BLOCK = 32 };

/* n elements of the axis along which src is adjacent, times cols of the one where dst is. */
static void copy_transposed(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const copy_job *job = arg;
  int size = job->size;
  for (int64_t i = 0; i < n; i += TRANSPOSE_BLOCK) {
    int64_t wide = cpu_min(TRANSPOSE_BLOCK, n - i);
    for (int64_t j = 0; j < job->cols; j += TRANSPOSE_BLOCK) {
      int64_t high = cpu_min(TRANSPOSE_BLOCK, job->cols - j);
      const char *src = data[1] + (i + j * job->src_col) * size;
      char *dst = data[0] + (i * step[0] + j) * size;
      if (size == 4) {
        vec_transpose_4(high, wide, src, job->src_col, dst, step[0]);
        continue;
      }
      for (int64_t q = 0; q < wide; q++) {
        cpu_copy_strided(high, size, src + q * size, job->src_col, dst + q * step[0] * size, 1);
      }
    }
  }
}

void cpu_copy_nest(const cpu_plugin *plugin, const cpu_nest *nest, int size, char *dst,
                   const char *src) {
  double grain = 262144.0 / size;
  char *data[2] = {dst, (char *)(uintptr_t)src};
  int sizes[2] = {size, size};
  copy_job job = {plugin, size, 0, 0, 0};
  int last = nest->rank - 1;
  int other = last - 1;
  while (other >= 0 && nest->stride[other][1] != 1) {
    other--;
  }
  if (other < 0 || nest->stride[last][0] != 1 || nest->stride[last][1] == 1) {
    cpu_nest_run(plugin, nest, data, sizes, grain, copy_row, &job);
    return;
  }
  job.cols = nest->extent[last];
  job.src_col = nest->stride[last][1];
  cpu_nest rows;
  cpu_nest_start(&rows, 2);
  for (int axis = 0; axis < last; axis++) {
    if (axis != other) {
      cpu_nest_axis(&rows, nest->extent[axis], nest->stride[axis]);
    }
  }
  cpu_nest_axis(&rows, nest->extent[other], nest->stride[other]);
  cpu_nest_run(plugin, &rows, data, sizes, grain / (double)job.cols, copy_transposed, &job);
}
