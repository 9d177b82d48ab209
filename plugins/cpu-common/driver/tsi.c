// SPDX-License-Identifier: Apache-2.0
/*
 * tsi.c - tsi_infuse, tsi_read, tsi_scan: f32, f16, bf16.
 *
 * Columns of a state do not depend on each other: a block of them is kept as f32 in the cache while
 * all steps go over it, so a scan reads and writes the state in memory once.
 */
#include "cpu.h"

#include <string.h>

enum { STATE, GATE, Q, K, VALUE, Y, STATE_OUT, OPERANDS };
enum { COLUMNS = 64 };

typedef struct tsi_job {
  const mt_operand_v1 *operand[OPERANDS]; /* NULL: the op does not have it */
  cpu_nest states;
  int64_t rows, cols, steps;
  int lead;     /* leading axes */
  bool per_row; /* a gate for each row */
  bool scan;    /* q, k, v, y have an axis of steps behind the leading ones */
  float *room;  /* for each task: a block of the state, then rows */
  int64_t room_each;
  int64_t blocks, units;
  uint32_t tasks;
} tsi_job;

/* Element (step, i) of a row operand of the state at offset. */
static char *row_at(const tsi_job *job, int which, int64_t offset, int64_t step, int64_t i) {
  const mt_operand_v1 *x = job->operand[which];
  int axis = job->lead;
  if (job->scan) {
    offset += step * x->stride[axis++];
  }
  if (axis < x->rank) {
    offset += i * x->stride[axis];
  }
  return (char *)x->data + offset * cpu_dtype_size(x->dtype);
}

static void read_row(const tsi_job *job, int which, int64_t offset, int64_t step, int64_t i,
                     int64_t n, float *to) {
  const mt_operand_v1 *x = job->operand[which];
  cpu_row_read(x->dtype, n, row_at(job, which, offset, step, i), x->stride[x->rank - 1], to);
}

/* Row i of the block of columns from j on, of the state or the new one. */
static char *state_at(const mt_operand_v1 *x, int64_t offset, int64_t i, int64_t j) {
  const int64_t *stride = x->stride + x->rank - 2;
  return (char *)x->data + (offset + i * stride[0] + j * stride[1]) * cpu_dtype_size(x->dtype);
}

static void run_steps(const tsi_job *job, const int64_t *offset, int64_t j, int64_t n,
                      float *block) {
  float y[COLUMNS], v[COLUMNS], *k = block + job->rows * COLUMNS, *q = k + job->rows;
  float *gate = q + job->rows;
  cpu_tsi_step s = {.rows = job->rows,
                    .cols = n,
                    .state = block,
                    .row = COLUMNS,
                    .gate = gate,
                    .gate_step = job->per_row,
                    .v = v,
                    .y = y};
  for (int64_t t = 0; t < job->steps; t++) {
    if (job->operand[K]) {
      read_row(job, GATE, offset[GATE], t, 0, job->per_row ? job->rows : 1, gate);
      read_row(job, K, offset[K], t, 0, job->rows, k);
      read_row(job, VALUE, offset[VALUE], t, j, n, v);
      s.k = k;
    }
    if (job->operand[Q]) {
      read_row(job, Q, offset[Q], t, 0, job->rows, q);
      s.q = q;
    }
    vec_tsi_step(&s);
    if (job->operand[Y]) {
      const mt_operand_v1 *to = job->operand[Y];
      cpu_row_write(to->dtype, n, y, row_at(job, Y, offset[Y], t, j), to->stride[to->rank - 1]);
    }
  }
}

static void run_block(const tsi_job *job, const int64_t *offset, int64_t j, float *block) {
  const mt_operand_v1 *from = job->operand[STATE], *to = job->operand[STATE_OUT];
  int64_t n = cpu_min(COLUMNS, job->cols - j);
  for (int64_t i = 0; i < job->rows; i++) {
    cpu_row_read(from->dtype, n, state_at(from, offset[STATE], i, j), from->stride[from->rank - 1],
                 block + i * COLUMNS);
  }
  run_steps(job, offset, j, n, block);
  for (int64_t i = 0; to && i < job->rows; i++) {
    cpu_row_write(to->dtype, n, block + i * COLUMNS, state_at(to, offset[STATE_OUT], i, j),
                  to->stride[to->rank - 1]);
  }
}

static void run_blocks(void *arg, uint32_t task) {
  const tsi_job *job = arg;
  float *block = job->room + (int64_t)task * job->room_each;
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->states, 0, unit / job->blocks, offset);
    run_block(job, offset, unit % job->blocks * COLUMNS, block);
  }
}

static void take_operands(tsi_job *job, int kind, const mt_op_v1 *op) {
  static const int inputs[][5] = {[CPU_TSI_INFUSE] = {STATE, GATE, K, VALUE},
                                  [CPU_TSI_READ] = {STATE, Q},
                                  [CPU_TSI_SCAN] = {STATE, GATE, Q, K, VALUE}};
  for (uint32_t i = 0; i < op->input_count; i++) {
    job->operand[inputs[kind][i]] = cpu_in(op, i);
  }
  job->operand[kind == CPU_TSI_INFUSE ? STATE_OUT : Y] = cpu_out(op);
  if (kind == CPU_TSI_SCAN) {
    job->operand[STATE_OUT] = cpu_out_at(op, 1);
  }
}

static void describe(tsi_job *job, int kind, const mt_op_v1 *op) {
  take_operands(job, kind, op);
  const mt_operand_v1 *state = job->operand[STATE];
  job->lead = state->rank - 2;
  job->rows = state->shape[state->rank - 2];
  job->cols = state->shape[state->rank - 1];
  job->scan = kind == CPU_TSI_SCAN;
  job->steps = job->scan ? job->operand[Q]->shape[job->lead] : 1;
  job->per_row = job->operand[GATE] && job->operand[GATE]->rank == job->lead + 1 + job->scan;
  cpu_nest_start(&job->states, OPERANDS);
  for (int axis = 0; axis < job->lead; axis++) {
    int64_t strides[OPERANDS];
    for (int o = 0; o < OPERANDS; o++) {
      strides[o] = job->operand[o] ? job->operand[o]->stride[axis] : 0;
    }
    cpu_nest_axis(&job->states, state->shape[axis], strides);
  }
  cpu_nest_finish(&job->states, STATE);
  job->blocks = (job->cols + COLUMNS - 1) / COLUMNS;
  job->units = cpu_nest_elements(&job->states) * job->blocks;
  job->room_each = cpu_round_up(job->rows * (COLUMNS + 3) + 1, 16);
}

void cpu_tsi_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                     mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  const mt_operand_v1 *state = cpu_in(op, 0);
  if (cpu_all_real(op, answer)) {
    cpu_fits(answer, (double)state->shape[state->rank - 2] * 2 * COLUMNS);
  }
}

int32_t cpu_tsi_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                    mt_message_v1 *msg) {
  (void)plan;
  tsi_job job = {.lead = 0};
  describe(&job, kind, op);
  if (job.units == 0) {
    return MT_ABI_OK;
  }
  double work = (double)job.units * COLUMNS * (double)job.rows * (double)cpu_max(job.steps, 1);
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 65536.0), job.units);
  uint64_t bytes = (uint64_t)job.room_each * job.tasks * sizeof(float);
  job.room = cpu_scratch(queue, bytes);
  if (!job.room) {
    return cpu_no_memory(msg, bytes);
  }
  cpu_parallel(queue->plugin, job.tasks, run_blocks, &job);
  return MT_ABI_OK;
}
