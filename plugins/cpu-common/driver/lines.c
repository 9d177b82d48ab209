// SPDX-License-Identifier: Apache-2.0
/* lines.c - argmax, argmin, topk, cumsum: along the lines of an axis; f32, f16, bf16. */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { OUT, MORE, IN, OPERANDS };

typedef struct lines_job {
  int kind;
  const mt_operand_v1 *in, *out, *more; /* more: topk's indices */
  cpu_nest lines;
  int64_t n, in_step, out_step, more_step;
  int64_t k; /* topk */
  bool largest, exclusive, reverse;
  char *room; /* for each task: a line as floats, then what topk has found */
  int64_t room_each;
  int64_t units;
  uint32_t tasks;
} lines_job;

/* ---- argmax, argmin ---- */
static int64_t arg_of_line(const lines_job *job, const float *x) {
  float best = job->kind == CPU_ARGMAX ? vec_max(job->n, x) : vec_min(job->n, x);
  return vec_find(job->n, x, best);
}

/* ---- topk: the best so far, in order ---- */
typedef struct found {
  float value;
  int64_t index;
} found;

/* Is x before y? NaN is the largest; equals stay in the order in which they came. */
static bool before(const lines_job *job, float x, float y) {
  if (isnan(x) || isnan(y)) {
    return job->largest ? isnan(x) && !isnan(y) : !isnan(x) && isnan(y);
  }
  return job->largest ? x > y : x < y;
}

static void find_best(const lines_job *job, const float *line, found *best) {
  const cpu_any_f32 *x = line;
  int64_t count = 0;
  for (int64_t i = 0; i < job->n; i++) {
    if (count == job->k && !before(job, x[i], best[count - 1].value)) {
      continue;
    }
    int64_t at = count < job->k ? count++ : count - 1;
    for (; at > 0 && before(job, x[i], best[at - 1].value); at--) {
      best[at] = best[at - 1];
    }
    best[at] = (found){x[i], i};
  }
}

static void put_index(char *at, int64_t index) {
  *(cpu_any_i64 *)at = index;
}

/* Values are copied bit by bit from where they came. */
static void topk_line(const lines_job *job, const float *x, const char *src, char *values,
                      char *indices, found *best) {
  int size = cpu_dtype_size(job->in->dtype);
  find_best(job, x, best);
  for (int64_t i = 0; i < job->k; i++) {
    memcpy(values + i * job->out_step * size, src + best[i].index * job->in_step * size,
           (size_t)size);
    put_index(indices + i * job->more_step * 8, best[i].index);
  }
}

/* ---- cumsum ---- */
static void sum_line(const lines_job *job, float *x) {
  double total = 0;
  for (int64_t i = 0; i < job->n; i++) {
    float *at = &x[job->reverse ? job->n - 1 - i : i];
    double so_far = total;
    total += (double)*at;
    *at = (float)(job->exclusive ? so_far : total);
  }
}

/* ---- all of them ---- */
static void run_line(const lines_job *job, const int64_t *offset, char *room) {
  int size = cpu_dtype_size(job->in->dtype);
  const char *src = (const char *)job->in->data + offset[IN] * size;
  char *out = (char *)job->out->data + offset[OUT] * cpu_dtype_size(job->out->dtype);
  float *line = (float *)room;
  bool there = job->in->dtype == MT_ABI_DTYPE_F32 && job->in_step == 1 && job->kind != CPU_CUMSUM;
  const float *x = there ? (const float *)src : line;
  if (!there) {
    cpu_row_read(job->in->dtype, job->n, src, job->in_step, line);
  }
  switch (job->kind) {
  case CPU_CUMSUM:
    sum_line(job, line);
    cpu_row_write(job->out->dtype, job->n, line, out, job->out_step);
    break;
  case CPU_TOPK:
    topk_line(job, x, src, out, (char *)job->more->data + offset[MORE] * 8,
              (found *)(room + cpu_round_up(job->n * 4, CPU_CACHE_LINE)));
    break;
  default: put_index(out, arg_of_line(job, x)); break;
  }
}

static void run_lines(void *arg, uint32_t task) {
  const lines_job *job = arg;
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->lines, 0, unit, offset);
    run_line(job, offset, job->room + (int64_t)task * job->room_each);
  }
}

static void describe(const cpu_plugin *plugin, const mt_op_v1 *op, lines_job *job) {
  int axis = (int)cpu_attr_i64(plugin, op, CPU_ATTR_AXIS, 0), out_axis = 0;
  bool lacks = cpu_out(op)->rank < cpu_in(op, 0)->rank;
  job->in = cpu_in(op, 0);
  job->out = cpu_out(op);
  job->more = op->output_count > 1 ? cpu_out_at(op, 1) : NULL;
  job->n = job->in->shape[axis];
  job->in_step = job->n == 1 ? 1 : job->in->stride[axis];
  cpu_nest_start(&job->lines, OPERANDS);
  for (int i = 0; i < job->in->rank; i++) {
    if (i != axis) {
      const int64_t strides[] = {job->out->stride[out_axis],
                                 job->more ? job->more->stride[out_axis] : 0, job->in->stride[i]};
      cpu_nest_axis(&job->lines, job->in->shape[i], strides);
    }
    out_axis += i != axis || !lacks;
  }
  cpu_nest_finish(&job->lines, IN);
  if (!lacks) {
    job->out_step = job->out->stride[axis];
    job->k = job->out->shape[axis];
    job->more_step = job->more ? job->more->stride[axis] : 0;
  }
  job->largest = cpu_attr_i64(plugin, op, CPU_ATTR_LARGEST, 1) != 0;
  job->exclusive = cpu_attr_i64(plugin, op, CPU_ATTR_EXCLUSIVE, 0) != 0;
  job->reverse = cpu_attr_i64(plugin, op, CPU_ATTR_REVERSE, 0) != 0;
  job->units = cpu_nest_elements(&job->lines);
  job->room_each = cpu_round_up(job->n * (int64_t)sizeof(float), CPU_CACHE_LINE);
  if (job->kind == CPU_TOPK) {
    job->room_each += cpu_round_up(job->k * (int64_t)sizeof(found), CPU_CACHE_LINE);
  }
}

enum { TOPK_MOST = 128 }; /* insertion is right for few; more are a sort */

void cpu_lines_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                       mt_support_v1 *answer) {
  if (!cpu_all_real(op, answer)) {
    return;
  }
  lines_job job = {.kind = kind};
  describe(plugin, op, &job);
  if (!cpu_fits(answer, (double)job.n * 64)) {
    return;
  }
  if (kind == CPU_TOPK && job.k > TOPK_MOST) {
    cpu_no(answer, "k %lld: at most %d", (long long)job.k, TOPK_MOST);
  }
}

int32_t cpu_lines_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                      mt_message_v1 *msg) {
  (void)plan;
  lines_job job = {.kind = kind};
  describe(queue->plugin, op, &job);
  double work = (double)job.units * (double)job.n;
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 16384.0), job.units);
  uint64_t bytes = (uint64_t)job.room_each * job.tasks;
  job.room = cpu_scratch(queue, bytes);
  if (!job.room) {
    return cpu_no_memory(msg, bytes);
  }
  cpu_parallel(queue->plugin, job.tasks, run_lines, &job);
  return MT_ABI_OK;
}
