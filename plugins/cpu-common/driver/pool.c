// SPDX-License-Identifier: Apache-2.0
/*
 * pool.c - max_pool2d and avg_pool2d; f32, f16, bf16.
 *
 * Where channels are adjacent, the taps of a window are joined channel by channel in vectors. Else
 * the rows of a window are joined first, whole rows at a time, and then the columns of the result.
 */
#include "cpu.h"

#include <math.h>

typedef struct pool {
  const cpu_plugin *plugin;
  const mt_operand_v1 *x, *out;
  bool max, count_padding;
  int64_t kernel[2], stride[2], padding[4], dilation[2];
  float *room; /* for each task */
  int64_t room_each;
  int64_t units; /* a row of the output each: of one plane, or of all channels */
  bool channels_last;
  uint32_t tasks;
} pool;

/* The taps of window `at` along axis 0 (height) or 1 that lie in the image. */
typedef struct span {
  int64_t first, count; /* of the input; step: dilation */
  int64_t covered;      /* of the padded image */
} span;

static span span_of(const pool *p, int axis, int64_t at) {
  int64_t extent = p->x->shape[2 + axis], step = p->dilation[axis];
  int64_t start = at * p->stride[axis] - p->padding[axis];
  int64_t skip = start < 0 ? (-start + step - 1) / step : 0;
  int64_t end = p->kernel[axis];
  if (start + (end - 1) * step >= extent) {
    end = extent > start ? (extent - start + step - 1) / step : 0;
  }
  int64_t limit = extent + p->padding[2 + axis];
  int64_t covered = cpu_min(start + p->kernel[axis], limit) - start;
  return (span){start + skip * step, cpu_max(end - skip, 0), covered};
}

static float start_of(const pool *p) {
  return p->max ? -INFINITY : 0.0f;
}

static void fill(int64_t n, float value, float *row) {
  for (int64_t i = 0; i < n; i++) {
    row[i] = value;
  }
}

static void join(const pool *p, int64_t n, const float *x, float *row) {
  if (p->max) {
    vec_maximum(n, row, 1, x, 1, row);
  } else {
    vec_add(n, row, 1, x, 1, row);
  }
}

static float factor_of(const pool *p, span rows, span cols) {
  int64_t count = p->count_padding ? rows.covered * cols.covered : rows.count * cols.count;
  return p->max ? 1.0f : 1.0f / (float)count;
}

static const char *x_at(const pool *p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const int64_t *s = p->x->stride;
  return (const char *)p->x->data +
         (n * s[0] + c * s[1] + y * s[2] + x * s[3]) * cpu_dtype_size(p->x->dtype);
}

static char *out_at(const pool *p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const int64_t *s = p->out->stride;
  return (char *)p->out->data +
         (n * s[0] + c * s[1] + y * s[2] + x * s[3]) * cpu_dtype_size(p->out->dtype);
}

/* A mean of nothing is NaN: 0 times infinity. */
static void scale(const pool *p, int64_t n, float factor, float *row) {
  if (!p->max) {
    vec_scale(n, row, &factor, row);
  }
}

/* Channels adjacent: one row of pixels, some channels at a time. */
static void pool_pixels(const pool *p, int64_t n, int64_t y) {
  int64_t channels = p->out->shape[1];
  span rows = span_of(p, 0, y);
  float sums[CPU_ROW], taps[CPU_ROW];
  for (int64_t x = 0; x < p->out->shape[3]; x++) {
    span cols = span_of(p, 1, x);
    for (int64_t c = 0; c < channels; c += CPU_ROW) {
      int64_t many = cpu_min(CPU_ROW, channels - c);
      fill(many, start_of(p), sums);
      for (int64_t i = 0; i < rows.count; i++) {
        for (int64_t j = 0; j < cols.count; j++) {
          const char *from =
              x_at(p, n, c, rows.first + i * p->dilation[0], cols.first + j * p->dilation[1]);
          join(p, many, cpu_row_in(p->x->dtype, many, from, 1, taps), sums);
        }
      }
      scale(p, many, factor_of(p, rows, cols), sums);
      cpu_row_out(p->out->dtype, many, sums, out_at(p, n, c, y, x), p->out->stride[1]);
    }
  }
}

static float join_columns(const pool *p, const float *line, span cols) {
  float all = start_of(p);
  for (int64_t j = 0; j < cols.count; j++) {
    float x = line[cols.first + j * p->dilation[1]];
    if (!p->max) {
      all += x;
    } else if (!(x <= all) && !isnan(all)) { /* larger, or NaN */
      all = x;
    }
  }
  return all;
}

/* One row of one plane. room: a line of the input, then two rows. */
static void pool_plane_row(const pool *p, int64_t n, int64_t c, int64_t y, float *room) {
  int64_t width = p->x->shape[3];
  span rows = span_of(p, 0, y);
  float *line = room, *next = room + width, *out = next + width;
  fill(width, start_of(p), line);
  for (int64_t i = 0; i < rows.count; i++) {
    cpu_row_read(p->x->dtype, width, x_at(p, n, c, rows.first + i * p->dilation[0], 0),
                 p->x->stride[3], next);
    join(p, width, next, line);
  }
  for (int64_t x = 0; x < p->out->shape[3]; x++) {
    span cols = span_of(p, 1, x);
    out[x] = join_columns(p, line, cols);
    out[x] = p->max ? out[x] : out[x] * factor_of(p, rows, cols);
  }
  cpu_row_write(p->out->dtype, p->out->shape[3], out, out_at(p, n, c, y, 0), p->out->stride[3]);
}

static void pool_rows(void *arg, uint32_t task) {
  const pool *p = arg;
  float *room = p->room + (int64_t)task * p->room_each;
  int64_t height = p->out->shape[2], channels = p->out->shape[1];
  int64_t end = cpu_share(p->units, task + 1, p->tasks);
  for (int64_t unit = cpu_share(p->units, task, p->tasks); unit < end; unit++) {
    int64_t y = unit % height, rest = unit / height;
    if (p->channels_last) {
      pool_pixels(p, rest, y);
    } else {
      pool_plane_row(p, rest / channels, rest % channels, y, room);
    }
  }
}

void cpu_pool_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  if (cpu_all_real(op, answer)) {
    cpu_fits(answer, (double)cpu_in(op, 0)->shape[3] * 64 + (double)cpu_out(op)->shape[3] * 64);
  }
}

int32_t cpu_pool_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  (void)plan;
  const cpu_plugin *plugin = queue->plugin;
  pool p = {.plugin = plugin, .x = cpu_in(op, 0), .out = cpu_out(op), .dilation = {1, 1}};
  p.max = kind == CPU_MAX_POOL;
  p.count_padding = cpu_attr_i64(plugin, op, CPU_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  cpu_attr_list(plugin, op, CPU_ATTR_KERNEL, p.kernel);
  cpu_attr_list(plugin, op, CPU_ATTR_STRIDE, p.stride);
  cpu_attr_list(plugin, op, CPU_ATTR_PADDING, p.padding);
  cpu_attr_list(plugin, op, CPU_ATTR_DILATION, p.dilation);
  p.channels_last = p.x->stride[1] == 1 && p.x->shape[1] > 1;
  p.units = p.out->shape[0] * p.out->shape[2] * (p.channels_last ? 1 : p.out->shape[1]);
  p.room_each = cpu_round_up(2 * p.x->shape[3] + p.out->shape[3], 16);
  double work = (double)cpu_elements(p.out) * (double)p.kernel[0] * (double)p.kernel[1];
  p.tasks = (uint32_t)cpu_min(cpu_task_count(plugin, work, 32768.0), p.units);
  uint64_t bytes = (uint64_t)p.room_each * p.tasks * sizeof(float);
  p.room = cpu_scratch(queue, bytes);
  if (!p.room) {
    return cpu_no_memory(msg, bytes);
  }
  cpu_parallel(plugin, p.tasks, pool_rows, &p);
  return MT_ABI_OK;
}
