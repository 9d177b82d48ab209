// SPDX-License-Identifier: Apache-2.0
/* loss.c - cross_entropy and mse; f32, f16, bf16. Losses of rows are added in double, in their
 * order. */
#include "cpu.h"

#include <math.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };
enum { OUT, X, Y, OPERANDS };

typedef struct loss_job {
  int kind;
  const mt_operand_v1 *x, *y, *out; /* logits, targets; a, b */
  cpu_nest rows;
  int64_t n; /* of a row */
  int64_t reduction, ignore;
  float smoothing;
  double *losses; /* of rows */
  bool *counted;
  float *room; /* for each task: two rows */
  int64_t room_each;
  int64_t units;
  uint32_t tasks;
} loss_job;

static const char *at(const mt_operand_v1 *x, int64_t offset) {
  return (const char *)x->data + offset * cpu_dtype_size(x->dtype);
}

static int64_t target_at(const mt_operand_v1 *x, int64_t offset) {
  return x->dtype == MT_ABI_DTYPE_I32 ? ((const cpu_any_i32 *)x->data)[offset]
                                      : ((const cpu_any_i64 *)x->data)[offset];
}

/* -(1 - s) log p[target] - s/C sum log p, with log p = x - max - log(sum) */
static double entropy(const loss_job *job, int64_t target, const float *x, float *room) {
  double max = (double)vec_max(job->n, x), sum = vec_exp_sum(job->n, x, (float)max, room);
  double shift = max + log(sum), loss = shift - (double)x[target];
  if (job->smoothing > 0) {
    double all = (double)job->n * shift - vec_sum(job->n, x);
    double s = (double)job->smoothing;
    loss = (1 - s) * loss + s / (double)job->n * all;
  }
  return loss;
}

static double squares(const loss_job *job, float *x, float *y) {
  vec_sub(job->n, x, 1, y, 1, x);
  return vec_sum_squares(job->n, x, 0.0f);
}

static void write_squares(const loss_job *job, float *x, float *y, char *out) {
  vec_sub(job->n, x, 1, y, 1, x);
  vec_mul(job->n, x, 1, x, 1, x);
  cpu_row_write(job->out->dtype, job->n, x, out, job->out->stride[job->out->rank - 1]);
}

static void run_row(const loss_job *job, int64_t row, const int64_t *offset, float *room) {
  const mt_operand_v1 *x = job->x;
  float *first = room, *second = room + job->n;
  int64_t step = x->rank > 0 ? x->stride[x->rank - 1] : 1;
  job->counted[row] = true;
  if (job->kind == CPU_CROSS_ENTROPY) {
    int64_t target = target_at(job->y, offset[Y]);
    job->losses[row] = 0;
    job->counted[row] = target != job->ignore;
    if (job->counted[row]) {
      cpu_row_read(x->dtype, job->n, at(x, offset[X]), step, first);
      job->losses[row] = entropy(job, target, first, second);
    }
    return;
  }
  cpu_row_read(x->dtype, job->n, at(x, offset[X]), step, first);
  cpu_row_read(x->dtype, job->n, at(job->y, offset[Y]),
               job->y->rank > 0 ? job->y->stride[job->y->rank - 1] : 1, second);
  if (job->reduction == REDUCE_NONE && job->out->rank > 0) {
    write_squares(job, first, second, (char *)(uintptr_t)at(job->out, offset[OUT]));
  } else {
    job->losses[row] = squares(job, first, second);
  }
}

static void run_rows(void *arg, uint32_t task) {
  const loss_job *job = arg;
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t row = cpu_share(job->units, task, job->tasks); row < end; row++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->rows, 0, row, offset);
    run_row(job, row, offset, job->room + (int64_t)task * job->room_each);
  }
}

static void put(const loss_job *job, int64_t offset, double value) {
  float result = (float)value;
  cpu_row_out(job->out->dtype, 1, &result, (char *)(uintptr_t)at(job->out, offset), 1);
}

/* One number of all rows, or (cross_entropy) one of each. */
static void finish(const loss_job *job) {
  double sum = 0, count = 0;
  bool each = job->reduction == REDUCE_NONE;
  for (int64_t row = 0; row < job->units; row++) {
    int64_t offset[CPU_NEST_OPERANDS];
    sum += job->losses[row];
    count += job->counted[row];
    if (each) {
      cpu_nest_offsets(&job->rows, 0, row, offset);
      put(job, offset[OUT], job->losses[row]);
    }
  }
  if (!each) {
    count = job->kind == CPU_MSE ? count * (double)job->n : count;
    put(job, 0, job->reduction == REDUCE_MEAN ? sum / count : sum);
  }
}

/* Rows are the lines of the last axis; the losses of rows are in row-major order. */
static void describe(const cpu_plugin *plugin, const mt_op_v1 *op, loss_job *job) {
  job->x = cpu_in(op, 0);
  job->y = cpu_in(op, 1);
  job->out = cpu_out(op);
  job->reduction = cpu_attr_i64(plugin, op, CPU_ATTR_REDUCTION, REDUCE_NONE);
  job->ignore = cpu_attr_i64(plugin, op, CPU_ATTR_IGNORE_INDEX, -100);
  job->smoothing = (float)cpu_attr_f64(plugin, op, CPU_ATTR_LABEL_SMOOTHING, 0);
  int last = job->x->rank - 1;
  job->n = last >= 0 ? job->x->shape[last] : 1;
  cpu_nest_start(&job->rows, OPERANDS);
  for (int axis = 0; axis < last; axis++) {
    const int64_t strides[] = {job->out->rank > 0 ? job->out->stride[axis] : 0,
                               job->x->stride[axis], job->y->stride[axis]};
    cpu_nest_axis(&job->rows, job->x->shape[axis], strides);
  }
  if (job->rows.rank == 0) {
    cpu_nest_finish(&job->rows, X);
  }
  job->units = cpu_nest_elements(&job->rows);
  job->room_each = cpu_round_up(2 * job->n, 16);
}

void cpu_loss_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  const mt_operand_v1 *x = cpu_in(op, 0);
  if (!cpu_is_real(x->dtype)) {
    cpu_no(answer, "dtype %s: f32, f16, bf16 only", cpu_dtype_name(x->dtype));
  } else if (cpu_elements(x) == 0) {
    cpu_no(answer, "no elements");
  } else {
    answer->answer = MT_ABI_SUPPORT_YES;
    double n = x->rank > 0 ? (double)x->shape[x->rank - 1] : 1;
    if (cpu_fits(answer, n * 64) && kind == CPU_MSE) {
      cpu_fits(answer, (double)cpu_elements(x));
    }
  }
}

int32_t cpu_loss_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  (void)plan;
  loss_job job = {.kind = kind};
  describe(queue->plugin, op, &job);
  double work = (double)job.units * (double)job.n;
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 16384.0), job.units);
  uint64_t losses = (uint64_t)cpu_round_up(job.units * (int64_t)sizeof(double), CPU_CACHE_LINE);
  uint64_t flags = (uint64_t)cpu_round_up(job.units, CPU_CACHE_LINE);
  uint64_t bytes = losses + flags + (uint64_t)job.room_each * job.tasks * sizeof(float);
  char *room = cpu_scratch(queue, bytes);
  if (!room) {
    return cpu_no_memory(msg, bytes);
  }
  job.losses = (double *)room;
  job.counted = (bool *)(room + losses);
  job.room = (float *)(room + losses + flags);
  cpu_parallel(queue->plugin, job.tasks, run_rows, &job);
  bool written = kind == CPU_MSE && job.reduction == REDUCE_NONE && job.out->rank > 0;
  if (!written) {
    finish(&job);
  }
  return MT_ABI_OK;
}
