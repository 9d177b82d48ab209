// SPDX-License-Identifier: Apache-2.0
/* rope.c - rotary embedding: f32, f16, bf16. */
#include "cpu.h"

#include <math.h>

/* Angles are formed and reduced to one turn in double, then rounded. */
static const double full_turn = 6.283185307179586477;

enum { OUT, X, POSITION, OPERANDS };

typedef struct rope_job {
  const cpu_plugin *plugin;
  cpu_nest rows; /* those with the same position are neighbours */
  char *out;
  const char *x, *positions;
  int32_t dtype, position_dtype;
  int64_t width, pairs, x_step, out_step;
  bool interleaved;
  const double *frequencies; /* of the pairs */
  float *room;               /* for each task: 4 times pairs, and a row */
  uint32_t tasks;
  int64_t units;
} rope_job;

static int64_t position_at(const rope_job *job, int64_t offset) {
  if (job->position_dtype == MT_ABI_DTYPE_I32) {
    return ((const cpu_any_i32 *)job->positions)[offset];
  }
  return ((const cpu_any_i64 *)job->positions)[offset];
}

static void make_turns(const rope_job *job, int64_t position, float *cosine, float *sine) {
  for (int64_t i = 0; i < job->pairs; i++) {
    double angle = (double)position * job->frequencies[i];
    cosine[i] = (float)(angle - rint(angle / full_turn) * full_turn);
  }
  vec_sin(job->pairs, cosine, NULL, sine);
  vec_cos(job->pairs, cosine, NULL, cosine);
}

/* room: cosines, sines, then the parts of pairs that lie side by side, then the row. */
static void turn_row(const rope_job *job, const char *x, char *out, float *room) {
  int64_t n = job->pairs;
  float *cosine = room, *sine = room + n, *a = room + 2 * n, *b = room + 3 * n, *row = room + 4 * n;
  cpu_row_read(job->dtype, job->width, x, job->x_step, row);
  if (!job->interleaved) {
    vec_rotate(n, row, row + n, cosine, sine, row, row + n);
  } else {
    cpu_copy_strided(n, sizeof(float), (const char *)row, 2, (char *)a, 1);
    cpu_copy_strided(n, sizeof(float), (const char *)(row + 1), 2, (char *)b, 1);
    vec_rotate(n, a, b, cosine, sine, a, b);
    cpu_copy_strided(n, sizeof(float), (const char *)a, 1, (char *)row, 2);
    cpu_copy_strided(n, sizeof(float), (const char *)b, 1, (char *)(row + 1), 2);
  }
  cpu_row_write(job->dtype, job->width, row, out, job->out_step);
}

static void turn_rows(void *arg, uint32_t task) {
  const rope_job *job = arg;
  int size = cpu_dtype_size(job->dtype);
  int64_t unit = cpu_share(job->units, task, job->tasks);
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  float *room = job->room + (int64_t)task * (4 * job->pairs + job->width);
  int64_t known = 0;
  for (bool first = true; unit < end; unit++, first = false) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->rows, 0, unit, offset);
    int64_t position = position_at(job, offset[POSITION]);
    if (first || position != known) {
      make_turns(job, position, room, room + job->pairs);
      known = position;
    }
    turn_row(job, job->x + offset[X] * size, job->out + offset[OUT] * size, room);
  }
}

/* Axes along which the position changes first, then those that share it. */
static void order_rows(const mt_op_v1 *op, cpu_nest *rows) {
  const mt_operand_v1 *out = cpu_out(op), *x = cpu_in(op, 0), *positions = cpu_in(op, 1);
  cpu_nest_start(rows, OPERANDS);
  for (int shared = 0; shared < 2; shared++) {
    for (int axis = 0; axis < out->rank - 1; axis++) {
      const int64_t strides[] = {out->stride[axis], x->stride[axis], positions->stride[axis]};
      if ((positions->stride[axis] == 0) == shared) {
        cpu_nest_axis(rows, out->shape[axis], strides);
      }
    }
  }
  if (rows->rank == 0) {
    cpu_nest_finish(rows, OUT);
  }
}

void cpu_rope_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  if (cpu_is_real(cpu_in(op, 0)->dtype)) {
    answer->answer = MT_ABI_SUPPORT_YES;
  } else {
    cpu_no(answer, "dtype %s: f32, f16, bf16 only", cpu_dtype_name(cpu_in(op, 0)->dtype));
  }
}

static void set_frequencies(const cpu_plugin *plugin, const mt_op_v1 *op, int64_t pairs,
                            double *frequencies) {
  double base = cpu_attr_f64(plugin, op, CPU_ATTR_BASE, 10000);
  double scale = cpu_attr_f64(plugin, op, CPU_ATTR_SCALE, 1);
  scale = cpu_attr_i64(plugin, op, CPU_ATTR_INVERSE, 0) ? -scale : scale;
  for (int64_t i = 0; i < pairs; i++) {
    frequencies[i] = scale * pow(base, -(double)i / (double)pairs);
  }
}

int32_t cpu_rope_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  const cpu_plugin *plugin = queue->plugin;
  const mt_operand_v1 *out = cpu_out(op), *x = cpu_in(op, 0);
  int last = out->rank - 1;
  rope_job job = {.plugin = plugin,
                  .out = out->data,
                  .x = x->data,
                  .positions = cpu_in(op, 1)->data,
                  .dtype = x->dtype,
                  .position_dtype = cpu_in(op, 1)->dtype,
                  .width = out->shape[last],
                  .x_step = x->stride[last],
                  .out_step = out->stride[last],
                  .interleaved = cpu_attr_i64(plugin, op, CPU_ATTR_INTERLEAVED, 0) != 0};
  job.pairs = cpu_attr_i64(plugin, op, CPU_ATTR_DIMS, job.width) / 2;
  order_rows(op, &job.rows);
  job.units = cpu_nest_elements(&job.rows);
  uint32_t tasks = cpu_task_count(plugin, (double)cpu_elements(out), 8192.0);
  job.tasks = (uint32_t)cpu_min(tasks, job.units);
  uint64_t each = (uint64_t)(4 * job.pairs + job.width) * sizeof(float);
  uint64_t bytes = (uint64_t)job.pairs * sizeof(double) + each * job.tasks;
  double *frequencies = cpu_scratch(queue, bytes);
  if (!frequencies) {
    return cpu_no_memory(msg, bytes);
  }
  set_frequencies(plugin, op, job.pairs, frequencies);
  job.frequencies = frequencies;
  job.room = (float *)(frequencies + job.pairs);
  cpu_parallel(plugin, job.tasks, turn_rows, &job);
  return MT_ABI_OK;
}
