// SPDX-License-Identifier: Apache-2.0
/* reduce.c - sum, mean, max and min over axes, softmax and its logarithm; f32, f16, bf16. */
#include "cpu.h"

#include <math.h>

/* Sums are cut into pieces of this many elements whatever the number of threads, and the
 * pieces are added in order: the result is always the same. */
enum { PIECE = 32768, COLUMNS = 256, MAX_PARTIALS = 4096 };

typedef struct reduction {
  cpu_nest kept;    /* operands: out, in */
  cpu_nest reduced; /* operand: in */
  int64_t count;    /* elements that make one */
  bool along;       /* the reduced elements are adjacent */
} reduction;

static bool is_reduced(const mt_attr_v1 *axes, int axis) {
  for (uint32_t i = 0; i < axes->count; i++) {
    if (axes->value.list[i] == axis) {
      return true;
    }
  }
  return false;
}

/* false: neither way is adjacent in memory */
static bool describe(const cpu_plugin *plugin, const mt_op_v1 *op, reduction *r) {
  const mt_operand_v1 *in = cpu_in(op, 0), *out = cpu_out(op);
  const mt_attr_v1 *axes = cpu_attribute(plugin, op, CPU_ATTR_AXES);
  bool keepdims = out->rank == in->rank;
  cpu_nest_start(&r->kept, 2);
  cpu_nest_start(&r->reduced, 1);
  int out_axis = 0;
  for (int axis = 0; axis < in->rank; axis++) {
    if (is_reduced(axes, axis)) {
      cpu_nest_axis(&r->reduced, in->shape[axis], &in->stride[axis]);
      out_axis += keepdims;
    } else {
      int64_t strides[2] = {out->stride[out_axis++], in->stride[axis]};
      cpu_nest_axis(&r->kept, in->shape[axis], strides);
    }
  }
  cpu_nest_finish(&r->kept, 1);
  cpu_nest_finish(&r->reduced, 0);
  r->count = cpu_nest_elements(&r->reduced);
  int inner = r->reduced.rank - 1, kept = r->kept.rank - 1;
  bool columns = r->kept.stride[kept][1] == 1;
  r->along = r->reduced.stride[inner][0] == 1 && (r->reduced.extent[inner] > 1 || !columns);
  return r->along || columns;
}

typedef struct reduce_job {
  const reduction *r;
  int kind;
  int32_t dtype;
  char *out;
  const char *in;
  int64_t pieces; /* along: of one inner row */
  double *partials;
  int64_t units;
  uint32_t tasks;
} reduce_job;

static double combine(int kind, double so_far, double value) {
  switch (kind) {
  case CPU_MAX_OF: return value > so_far || isnan(value) ? value : so_far;
  case CPU_MIN_OF: return value < so_far || isnan(value) ? value : so_far;
  default: return so_far + value;
  }
}

static double start_of(int kind) {
  return kind == CPU_MAX_OF ? -INFINITY : kind == CPU_MIN_OF ? INFINITY : 0.0;
}

static double fold(int kind, int64_t n, const float *x) {
  switch (kind) {
  case CPU_MAX_OF: return (double)vec_max(n, x);
  case CPU_MIN_OF: return (double)vec_min(n, x);
  default: return vec_sum(n, x);
  }
}

/* n adjacent elements of any type */
static double fold_row(const reduce_job *job, int64_t n, const char *src) {
  if (job->dtype == MT_ABI_DTYPE_F32) {
    return fold(job->kind, n, (const float *)src);
  }
  double total = start_of(job->kind);
  float row[CPU_ROW];
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    const float *x = cpu_row_in(job->dtype, count, src + 2 * i, 1, row);
    total = combine(job->kind, total, fold(job->kind, count, x));
  }
  return total;
}

static const char *element(const reduce_job *job, int64_t index) {
  return job->in + index * cpu_dtype_size(job->dtype);
}

static void put_result(const reduce_job *job, int64_t index, double value) {
  float result = (float)(job->kind == CPU_MEAN ? value / (double)job->r->count : value);
  cpu_row_out(job->dtype, 1, &result, job->out + index * cpu_dtype_size(job->dtype), 1);
}

/* Piece number `piece` of all rows of the reduced nest, in memory order */
static double reduce_piece(const reduce_job *job, const char *in, int64_t piece) {
  const cpu_nest *reduced = &job->r->reduced;
  int64_t row = reduced->extent[reduced->rank - 1];
  int64_t offset[CPU_NEST_OPERANDS];
  cpu_nest_offsets(reduced, 1, piece / job->pieces, offset);
  int64_t from = piece % job->pieces * PIECE;
  int64_t n = cpu_min(PIECE, row - from);
  return fold_row(job, n, in + (offset[0] + from) * cpu_dtype_size(job->dtype));
}

static int64_t pieces_of_all(const reduce_job *job) {
  int64_t row = job->r->reduced.extent[job->r->reduced.rank - 1];
  return row == 0 ? 0 : job->r->count / row * job->pieces;
}

static void reduce_along(void *arg, uint32_t task) {
  const reduce_job *job = arg;
  int64_t all = pieces_of_all(job);
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->r->kept, 0, unit, offset);
    double value = start_of(job->kind);
    for (int64_t piece = 0; piece < all; piece++) {
      value = combine(job->kind, value, reduce_piece(job, element(job, offset[1]), piece));
    }
    put_result(job, offset[0], value);
  }
}

/* Few results: the pieces are the units, and are put together afterwards. */
static void reduce_partials(void *arg, uint32_t task) {
  const reduce_job *job = arg;
  int64_t all = pieces_of_all(job);
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->r->kept, 0, unit / all, offset);
    job->partials[unit] = reduce_piece(job, element(job, offset[1]), unit % all);
  }
}

static void join_partials(const reduce_job *job, int64_t results) {
  int64_t all = pieces_of_all(job);
  for (int64_t i = 0; i < results; i++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->r->kept, 0, i, offset);
    double value = start_of(job->kind);
    for (int64_t piece = 0; piece < all; piece++) {
      value = combine(job->kind, value, job->partials[i * all + piece]);
    }
    put_result(job, offset[0], value);
  }
}

/* n adjacent results so far: sums in double, extremes in float. */
typedef struct columns {
  double sums[COLUMNS];
  float extremes[COLUMNS];
} columns;

/* rows of n elements, `row` apart, of the kind's own type. */
static void add_rows(int kind, int64_t rows, int64_t n, const float *x, int64_t row, columns *to) {
  switch (kind) {
  case CPU_MAX_OF: vec_max_rows(rows, n, x, row, to->extremes); break;
  case CPU_MIN_OF: vec_min_rows(rows, n, x, row, to->extremes); break;
  default: vec_sum_rows(rows, n, x, row, to->sums); break;
  }
}

enum { HALF_ROWS = 16 };

static void add_typed_rows(const reduce_job *job, int64_t rows, int64_t n, const char *src,
                           int64_t row, columns *to) {
  if (job->dtype == MT_ABI_DTYPE_F32) {
    add_rows(job->kind, rows, n, (const float *)src, row, to);
    return;
  }
  float x[HALF_ROWS * COLUMNS];
  for (int64_t i = 0; i < rows; i += HALF_ROWS) {
    int64_t count = cpu_min(HALF_ROWS, rows - i);
    for (int64_t r = 0; r < count; r++) {
      cpu_row_in(job->dtype, n, src + 2 * (i + r) * row, 1, x + r * COLUMNS);
    }
    add_rows(job->kind, count, n, x, COLUMNS, to);
  }
}

/* Adjacent results: COLUMNS of them at a time, down the reduced rows. */
static void reduce_columns(void *arg, uint32_t task) {
  const reduce_job *job = arg;
  const cpu_nest *kept = &job->r->kept, *reduced = &job->r->reduced;
  int inner = kept->rank - 1, down = reduced->rank - 1;
  int64_t rows = reduced->extent[down], row = reduced->stride[down][0];
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(kept, 1, unit / job->pieces, offset);
    int64_t from = unit % job->pieces * COLUMNS;
    int64_t n = cpu_min(COLUMNS, kept->extent[inner] - from);
    columns so_far;
    for (int64_t j = 0; j < n; j++) {
      so_far.sums[j] = 0.0;
      so_far.extremes[j] = (float)start_of(job->kind);
    }
    for (int64_t i = 0; i < job->r->count; i += rows) {
      int64_t at[CPU_NEST_OPERANDS];
      cpu_nest_offsets(reduced, 1, i / rows, at);
      add_typed_rows(job, rows, n, element(job, offset[1] + from + at[0]), row, &so_far);
    }
    bool extreme = job->kind == CPU_MAX_OF || job->kind == CPU_MIN_OF;
    for (int64_t j = 0; j < n; j++) {
      put_result(job, offset[0] + (from + j) * kept->stride[inner][0],
                 extreme ? (double)so_far.extremes[j] : so_far.sums[j]);
    }
  }
}

void cpu_reduce_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)kind;
  if (!cpu_all_real(op, answer)) {
    return;
  }
  const mt_attr_v1 *axes = cpu_attribute(plugin, op, CPU_ATTR_AXES);
  if (!axes || axes->type != MT_ABI_ATTR_I64_LIST) {
    cpu_no(answer, "attribute axes is missing");
    return;
  }
  reduction r;
  answer->answer = MT_ABI_SUPPORT_YES;
  if (!describe(plugin, op, &r)) {
    answer->answer = MT_ABI_SUPPORT_AFTER_RELAYOUT;
    answer->relayout_inputs = 1;
  }
}

enum { REDUCE_GRAIN = 65536 };

static int32_t run_along(cpu_queue *queue, reduce_job *job, int64_t results, mt_message_v1 *msg) {
  const cpu_plugin *plugin = queue->plugin;
  int64_t row = job->r->reduced.extent[job->r->reduced.rank - 1];
  job->pieces = (row + PIECE - 1) / PIECE;
  double work = (double)results * (double)job->r->count;
  uint32_t tasks = cpu_task_count(plugin, work, REDUCE_GRAIN);
  int64_t partials = results * pieces_of_all(job);
  if (tasks > results && partials <= MAX_PARTIALS) {
    job->partials = cpu_scratch(queue, (uint64_t)partials * sizeof(double));
    if (!job->partials) {
      return cpu_no_memory(msg, (uint64_t)partials * sizeof(double));
    }
    job->units = partials;
    job->tasks = (uint32_t)cpu_min(tasks, partials);
    cpu_parallel(plugin, job->tasks, reduce_partials, job);
    join_partials(job, results);
    return MT_ABI_OK;
  }
  job->units = results;
  job->tasks = (uint32_t)cpu_min(tasks, results);
  cpu_parallel(plugin, job->tasks, reduce_along, job);
  return MT_ABI_OK;
}

int32_t cpu_reduce_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)plan;
  const cpu_plugin *plugin = queue->plugin;
  reduction r;
  describe(plugin, op, &r);
  int64_t results = cpu_nest_elements(&r.kept);
  if (results == 0) {
    return MT_ABI_OK;
  }
  reduce_job job = {.r = &r,
                    .kind = kind,
                    .dtype = cpu_in(op, 0)->dtype,
                    .out = cpu_out(op)->data,
                    .in = cpu_in(op, 0)->data};
  if (r.along || r.count == 0) {
    return run_along(queue, &job, results, msg);
  }
  int64_t wide = r.kept.extent[r.kept.rank - 1];
  job.pieces = (wide + COLUMNS - 1) / COLUMNS;
  job.units = results / wide * job.pieces;
  uint32_t tasks = cpu_task_count(plugin, (double)results * (double)r.count, REDUCE_GRAIN);
  job.tasks = (uint32_t)cpu_min(tasks, job.units);
  cpu_parallel(plugin, job.tasks, reduce_columns, &job);
  return MT_ABI_OK;
}

/* ---- softmax ---- */
typedef struct softmax_job {
  cpu_nest lines; /* operands: out, in; all axes but the one */
  int64_t n, out_step, in_step;
  bool columns; /* the innermost of the others is adjacent, the one is not */
  int kind;
  int32_t dtype;
  bool direct; /* f32, and the line adjacent in both */
  float *room; /* else: a line for each task */
  int64_t pieces;
  char *out;
  const char *in;
  int64_t units;
  uint32_t tasks;
} softmax_job;

enum { SOFTMAX_COLUMNS = 64 };

static void describe_softmax(const cpu_plugin *plugin, const mt_op_v1 *op, softmax_job *job) {
  const mt_operand_v1 *in = cpu_in(op, 0), *out = cpu_out(op);
  int axis = (int)cpu_attr_i64(plugin, op, CPU_ATTR_AXIS, in->rank - 1);
  bool f32 = in->dtype == MT_ABI_DTYPE_F32;
  job->n = in->rank == 0 ? 1 : in->shape[axis];
  job->in_step = job->n == 1 ? 1 : in->stride[axis];
  job->out_step = job->n == 1 ? 1 : out->stride[axis];
  cpu_nest_start(&job->lines, 2);
  for (int i = 0; i < in->rank; i++) {
    int64_t strides[2] = {out->stride[i], in->stride[i]};
    if (i != axis) {
      cpu_nest_axis(&job->lines, in->shape[i], strides);
    }
  }
  cpu_nest_finish(&job->lines, 0);
  const int64_t *inner = job->lines.stride[job->lines.rank - 1];
  job->direct = f32 && job->in_step == 1 && job->out_step == 1;
  job->columns = f32 && !job->direct && job->kind == CPU_SOFTMAX && inner[0] == 1 && inner[1] == 1;
}

void cpu_softmax_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                         mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  cpu_all_real(op, answer);
}

/* One line, where it is or in room. */
static void softmax_line(const softmax_job *job, const int64_t *offset, float *room) {
  int size = cpu_dtype_size(job->dtype);
  char *y = job->out + offset[0] * size;
  const char *x = job->in + offset[1] * size;
  void (*line)(int64_t, const float *, float *) =
      job->kind == CPU_SOFTMAX ? vec_softmax : vec_log_softmax;
  if (job->direct) {
    line(job->n, (const float *)x, (float *)y);
    return;
  }
  cpu_row_read(job->dtype, job->n, x, job->in_step, room);
  line(job->n, room, room);
  cpu_row_write(job->dtype, job->n, room, y, job->out_step);
}

static void softmax_lines(void *arg, uint32_t task) {
  const softmax_job *job = arg;
  int64_t end = cpu_share(job->units, task + 1, job->tasks);
  for (int64_t unit = cpu_share(job->units, task, job->tasks); unit < end; unit++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->lines, job->columns ? 1 : 0, unit / job->pieces, offset);
    if (!job->columns) {
      softmax_line(job, offset, job->room + (int64_t)task * job->n);
      continue;
    }
    float *y = (float *)job->out + offset[0];
    const float *x = (const float *)job->in + offset[1];
    int64_t from = unit % job->pieces * SOFTMAX_COLUMNS;
    int64_t wide = cpu_min(SOFTMAX_COLUMNS, job->lines.extent[job->lines.rank - 1] - from);
    vec_softmax_rows(job->n, wide, x + from, job->in_step, y + from, job->out_step);
  }
}

int32_t cpu_softmax_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                        mt_message_v1 *msg) {
  (void)plan;
  softmax_job job = {.kind = kind, .dtype = cpu_in(op, 0)->dtype};
  describe_softmax(queue->plugin, op, &job);
  int64_t lines = cpu_nest_elements(&job.lines);
  if (lines == 0 || job.n == 0) {
    return MT_ABI_OK;
  }
  job.out = cpu_out(op)->data;
  job.in = cpu_in(op, 0)->data;
  job.pieces = 1;
  job.units = lines;
  if (job.columns) {
    int64_t wide = job.lines.extent[job.lines.rank - 1];
    job.pieces = (wide + SOFTMAX_COLUMNS - 1) / SOFTMAX_COLUMNS;
    job.units = lines / wide * job.pieces;
  }
  uint32_t tasks = cpu_task_count(queue->plugin, (double)lines * (double)job.n, 8192.0);
  job.tasks = (uint32_t)cpu_min(tasks, job.units);
  if (!job.direct && !job.columns) {
    uint64_t bytes = (uint64_t)job.tasks * (uint64_t)job.n * sizeof(float);
    job.room = cpu_scratch(queue, bytes);
    if (!job.room) {
      return cpu_no_memory(msg, bytes);
    }
  }
  cpu_parallel(queue->plugin, job.tasks, softmax_lines, &job);
  return MT_ABI_OK;
}
