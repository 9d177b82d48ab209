// SPDX-License-Identifier: Apache-2.0
/*
 * norm.c - layer_norm, rms_norm, batch_norm_train (which all normalize sets of elements by their
 * own moments) and batch_norm. f32, f16, bf16; parameters in the type of x or in f32.
 *
 * The variance is that of the differences from the mean, in a second pass over what is in the
 * cache by then: E[x^2] - E[x]^2 would cancel.
 */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { OUT, X, WEIGHT, BIAS, OPERANDS };

typedef struct norm_job {
  int kind;
  cpu_nest sets;  /* all sets that are normalized */
  cpu_nest inner; /* the elements of one, in the order of x */
  char *data[OPERANDS];
  int32_t dtype[OPERANDS]; /* NONE: absent */
  char *statistic[2];      /* batch_norm_train: mean, variance (f32), or NULL */
  int64_t statistic_step[2];
  int64_t count; /* elements of a set */
  bool stream;   /* the result is written past the caches */
  double epsilon;
  int64_t units;
  uint32_t tasks;
} norm_job;

/* ---- one set ---- */
/* A piece of a row of the inner nest: at most CPU_ROW elements, or all of it where x is f32 and
 * adjacent. */
typedef struct piece {
  int64_t n;
  char *at[OPERANDS];
} piece;

typedef void piece_fn(const norm_job *job, const piece *p, void *arg);

static int64_t piece_length(const norm_job *job) {
  const int64_t *step = job->inner.stride[job->inner.rank - 1];
  bool whole = true;
  for (int o = 0; o < OPERANDS; o++) {
    bool absent = job->dtype[o] == MT_ABI_DTYPE_NONE;
    bool plain = job->dtype[o] == MT_ABI_DTYPE_F32 && (step[o] == 1 || (o > X && step[o] == 0));
    whole = whole && (absent || plain);
  }
  return whole ? INT64_MAX : CPU_ROW;
}

static void for_pieces(const norm_job *job, const int64_t *start, piece_fn *fn, void *arg) {
  const cpu_nest *inner = &job->inner;
  int last = inner->rank - 1;
  int64_t length = inner->extent[last], most = piece_length(job), rows = job->count / length;
  int64_t at[CPU_MAX_RANK] = {0}, offset[CPU_NEST_OPERANDS];
  memcpy(offset, start, OPERANDS * sizeof(*offset));
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t i = 0; i < length; i += most) {
      piece p = {.n = cpu_min(most, length - i)};
      for (int o = 0; o < OPERANDS; o++) {
        int64_t element = offset[o] + i * inner->stride[last][o];
        p.at[o] = job->data[o] ? job->data[o] + element * cpu_dtype_size(job->dtype[o]) : NULL;
      }
      fn(job, &p, arg);
      if (most == INT64_MAX) {
        break;
      }
    }
    cpu_nest_next(inner, 1, at, offset);
  }
}

typedef struct moments {
  double sum;
  float mean;
} moments;

static const float *row_of(const norm_job *job, const piece *p, int operand, float *buffer) {
  int64_t step = job->inner.stride[job->inner.rank - 1][operand];
  return cpu_row_in(job->dtype[operand], p->n, p->at[operand], step, buffer);
}

static void add_sum(const norm_job *job, const piece *p, void *arg) {
  float buffer[CPU_ROW];
  ((moments *)arg)->sum += vec_sum(p->n, row_of(job, p, X, buffer));
}

static void add_squares(const norm_job *job, const piece *p, void *arg) {
  float buffer[CPU_ROW];
  moments *m = arg;
  m->sum += vec_sum_squares(p->n, row_of(job, p, X, buffer), m->mean);
}

/* weight or bias of a piece: NULL, one value, or a row. */
static const float *param_of(const norm_job *job, const piece *p, int operand, float *buffer,
                             int *step) {
  int64_t stride = job->inner.stride[job->inner.rank - 1][operand];
  if (!p->at[operand]) {
    return NULL;
  }
  *step = stride == 0 ? 0 : 1;
  return cpu_row_in(job->dtype[operand], stride == 0 ? 1 : p->n, p->at[operand],
                    stride == 0 ? 1 : stride, buffer);
}

/* Adjacent f32, past the caches: CPU_ROW elements at a time go through room. */
static void stream_row(int64_t n, const float *x, cpu_normal normal, float *y) {
  float room[CPU_ROW];
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    vec_normalize(count, x + i, &normal, room);
    vec_stream((size_t)count * sizeof(float), room, y + i);
    normal.weight += normal.weight ? count * normal.weight_step : 0;
    normal.bias += normal.bias ? count * normal.bias_step : 0;
  }
}

static void write_piece(const norm_job *job, const piece *p, void *arg) {
  float x[CPU_ROW], w[CPU_ROW], b[CPU_ROW], room[CPU_ROW];
  int64_t step = job->inner.stride[job->inner.rank - 1][OUT];
  cpu_normal normal = *(const cpu_normal *)arg;
  normal.weight = param_of(job, p, WEIGHT, w, &normal.weight_step);
  normal.bias = param_of(job, p, BIAS, b, &normal.bias_step);
  bool direct = job->dtype[OUT] == MT_ABI_DTYPE_F32 && step == 1;
  float *y = direct ? (float *)p->at[OUT] : room;
  if (direct && job->stream) {
    stream_row(p->n, row_of(job, p, X, x), normal, y);
    return;
  }
  vec_normalize(p->n, row_of(job, p, X, x), &normal, y);
  if (!direct) {
    cpu_row_out(job->dtype[OUT], p->n, y, p->at[OUT], step);
  }
}

static void put_statistics(const norm_job *job, int64_t set, double mean, double variance) {
  const double values[] = {mean, variance};
  for (int i = 0; i < 2 && job->statistic[0]; i++) {
    cpu_any_f32 *to = (cpu_any_f32 *)job->statistic[i];
    to[set * job->statistic_step[i]] = (float)values[i];
  }
}

/* The float nearest to the mean is taken away from x, and what is left of the mean later. */
static void normalize_set(const norm_job *job, const int64_t *start, int64_t set) {
  double count = (double)job->count, mean = 0;
  moments m = {0, 0};
  if (job->kind != CPU_RMS_NORM) {
    for_pieces(job, start, add_sum, &m);
    mean = m.sum / count;
  }
  m = (moments){0, (float)mean};
  for_pieces(job, start, add_squares, &m);
  double rest = mean - (double)m.mean, variance = m.sum / count - rest * rest;
  variance = variance < 0 ? 0 : variance; /* NaN stays */
  double scale = 1 / sqrt(variance + job->epsilon);
  cpu_normal normal = {.mean = m.mean, .scale = (float)scale, .shift = (float)(-rest * scale)};
  put_statistics(job, set, mean, variance);
  for_pieces(job, start, write_piece, &normal);
}

static void normalize_sets(void *arg, uint32_t task) {
  const norm_job *job = arg;
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t set = cpu_share(job->units, task, job->tasks); set < end; set++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->sets, 0, set, offset);
    normalize_set(job, offset, set);
  }
  if (job->stream) {
    vec_stream_end();
  }
}

/* ---- the ops ---- */
/* Is the axis one of those that are normalized together? */
static bool within(const norm_job *job, const mt_op_v1 *op, int axis, int64_t named) {
  switch (job->kind) {
  case CPU_LAYER_NORM: return axis >= named;
  case CPU_RMS_NORM: return axis == cpu_out(op)->rank - 1;
  default: return axis != named;
  }
}

static void describe(const cpu_plugin *plugin, const mt_op_v1 *op, norm_job *job) {
  const mt_operand_v1 *operand[OPERANDS] = {cpu_out(op), cpu_in(op, 0), cpu_optional_in(op, 1),
                                            cpu_optional_in(op, 2)};
  int64_t named = cpu_attr_i64(plugin, op, CPU_ATTR_AXIS, 0);
  cpu_nest_start(&job->sets, OPERANDS);
  cpu_nest_start(&job->inner, OPERANDS);
  for (int axis = 0; axis < operand[OUT]->rank; axis++) {
    int64_t strides[OPERANDS];
    for (int o = 0; o < OPERANDS; o++) {
      strides[o] = operand[o] ? operand[o]->stride[axis] : 0;
    }
    cpu_nest_axis(within(job, op, axis, named) ? &job->inner : &job->sets,
                  operand[OUT]->shape[axis], strides);
  }
  cpu_nest_finish(&job->inner, X);
  cpu_nest_finish(&job->sets, X); /* batch_norm_train: one axis, in the order of the statistics */
  for (int o = 0; o < OPERANDS; o++) {
    job->data[o] = operand[o] ? operand[o]->data : NULL;
    job->dtype[o] = operand[o] ? operand[o]->dtype : MT_ABI_DTYPE_NONE;
  }
  job->count = cpu_nest_elements(&job->inner);
  job->units = cpu_nest_elements(&job->sets);
  job->epsilon = cpu_attr_f64(plugin, op, CPU_ATTR_EPSILON, 0);
}

void cpu_norm_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  if (cpu_all_real(op, answer) && cpu_elements(cpu_in(op, 0)) == 0) {
    cpu_no(answer, "no elements to normalize");
  }
}

int32_t cpu_norm_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  (void)plan;
  (void)msg;
  norm_job job = {.kind = kind};
  describe(queue->plugin, op, &job);
  for (uint32_t i = 1; i < op->output_count; i++) {
    const mt_operand_v1 *out = cpu_out_at(op, i);
    job.statistic[i - 1] = out->data;
    job.statistic_step[i - 1] = out->stride[0];
  }
  double work = (double)job.count * (double)job.units;
  job.stream = work * sizeof(float) >= CPU_STREAM_BYTES && job.data[OUT] != job.data[X];
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 16384.0), job.units);
  cpu_parallel(queue->plugin, job.tasks, normalize_sets, &job);
  return MT_ABI_OK;
}

/* ---- batch_norm: the statistics are given ---- */
enum { B_OUT, B_X, B_MEAN, B_VARIANCE, B_WEIGHT, B_BIAS, B_OPERANDS };

typedef struct batch_job {
  int32_t dtype[B_OPERANDS];
  float epsilon;
} batch_job;

/* Statistics that are the same along the row: the row is scaled and shifted. */
static void scale_piece(const batch_job *job, int64_t n, const float *x, const float *const *param,
                        float *y) {
  const cpu_any_f32 *mean = param[B_MEAN], *variance = param[B_VARIANCE];
  double scale = 1 / sqrt((double)*variance + (double)job->epsilon);
  const cpu_normal normal = {
      .mean = *mean, .scale = (float)scale, .weight = param[B_WEIGHT], .bias = param[B_BIAS]};
  vec_normalize(n, x, &normal, y);
}

static void spread_value(int64_t n, float *row) {
  for (int64_t i = 1; i < n; i++) {
    row[i] = row[0];
  }
}

static void batch_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const batch_job *job = arg;
  float rows[B_OPERANDS][CPU_ROW];
  bool constant = true;
  for (int o = B_MEAN; o < B_OPERANDS; o++) {
    constant = constant && (job->dtype[o] == MT_ABI_DTYPE_NONE || step[o] == 0);
  }
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    const float *in[B_OPERANDS] = {NULL};
    for (int o = B_X; o < B_OPERANDS; o++) {
      int size = cpu_dtype_size(job->dtype[o]);
      bool one = o > B_X && step[o] == 0;
      if (job->dtype[o] == MT_ABI_DTYPE_NONE) {
        continue;
      }
      in[o] = cpu_row_in(job->dtype[o], one ? 1 : count, data[o] + i * step[o] * size,
                         one ? 1 : step[o], rows[o]);
      if (one && !constant) {
        rows[o][0] = *(const cpu_any_f32 *)in[o];
        spread_value(count, rows[o]);
        in[o] = rows[o];
      }
    }
    float *y = rows[B_OUT];
    if (constant) {
      scale_piece(job, count, in[B_X], in, y);
    } else {
      vec_batch_norm(count, in[B_X], in[B_MEAN], in[B_VARIANCE], in[B_WEIGHT], in[B_BIAS],
                     job->epsilon, y);
    }
    cpu_row_out(job->dtype[B_OUT], count, y,
                data[B_OUT] + i * step[B_OUT] * cpu_dtype_size(job->dtype[B_OUT]), step[B_OUT]);
  }
}

int32_t cpu_batch_norm_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                           mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  batch_job job = {.epsilon = (float)cpu_attr_f64(queue->plugin, op, CPU_ATTR_EPSILON, 0)};
  char *data[B_OPERANDS];
  int size[B_OPERANDS];
  cpu_nest nest;
  const mt_operand_v1 *out = cpu_out(op), *operand[B_OPERANDS] = {out};
  for (uint32_t i = 1; i < B_OPERANDS; i++) {
    operand[i] = cpu_optional_in(op, i - 1);
  }
  for (int o = 0; o < B_OPERANDS; o++) {
    job.dtype[o] = operand[o] ? operand[o]->dtype : MT_ABI_DTYPE_NONE;
    data[o] = operand[o] ? operand[o]->data : NULL;
    size[o] = cpu_dtype_size(job.dtype[o]);
  }
  cpu_nest_start(&nest, B_OPERANDS);
  for (int axis = 0; axis < out->rank; axis++) {
    int64_t strides[B_OPERANDS];
    for (int o = 0; o < B_OPERANDS; o++) {
      strides[o] = operand[o] ? operand[o]->stride[axis] : 0;
    }
    cpu_nest_axis(&nest, out->shape[axis], strides);
  }
  cpu_nest_finish(&nest, B_OUT);
  cpu_nest_run(queue->plugin, &nest, data, size, 32768.0, batch_row, &job);
  return MT_ABI_OK;
}
