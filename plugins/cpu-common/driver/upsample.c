// SPDX-License-Identifier: Apache-2.0
/*
 * upsample.c - images of another size: nearest and bilinear; f32, f16, bf16.
 *
 * Where the two source rows and columns of each pixel are, and their weights, is worked out once
 * for the call, in double. Then rows are mixed whole, and columns from the row that comes out.
 */
#include "cpu.h"

typedef struct taps {
  int64_t low, high;
  float weight; /* of high; 0: high is not looked at */
} taps;

typedef struct upsample {
  const mt_operand_v1 *x, *out;
  taps *rows, *cols;
  float *room; /* for each task */
  int64_t room_each;
  int64_t units; /* rows of the output: of one plane, or of all channels */
  bool channels_last;
  uint32_t tasks;
} upsample;

static taps taps_of(int64_t in, int64_t out, int64_t at, bool bilinear, bool corners) {
  double centre = ((double)at + 0.5) * (double)in / (double)out;
  if (!bilinear) {
    int64_t index = cpu_min((int64_t)centre, in - 1);
    return (taps){index, index, 0};
  }
  double place = centre - 0.5, last = (double)(in - 1);
  if (corners) {
    place = out > 1 ? (double)at * last / (double)(out - 1) : 0;
  }
  place = place < 0 ? 0 : place > last ? last : place;
  int64_t low = (int64_t)place;
  return (taps){low, cpu_min(low + 1, in - 1), (float)(place - (double)low)};
}

static const char *x_at(const upsample *u, int64_t n, int64_t c, int64_t y, int64_t x) {
  const int64_t *s = u->x->stride;
  return (const char *)u->x->data +
         (n * s[0] + c * s[1] + y * s[2] + x * s[3]) * cpu_dtype_size(u->x->dtype);
}

static char *out_at(const upsample *u, int64_t n, int64_t c, int64_t y, int64_t x) {
  const int64_t *s = u->out->stride;
  return (char *)u->out->data +
         (n * s[0] + c * s[1] + y * s[2] + x * s[3]) * cpu_dtype_size(u->out->dtype);
}

/* a (1 - weight) + b weight, into a */
static void mix(int64_t n, float *a, float *b, float weight) {
  float rest = 1.0f - weight;
  vec_scale(n, a, &rest, a);
  vec_scale(n, b, &weight, b);
  vec_add(n, a, 1, b, 1, a);
}

/* n elements from column x on (or of channels from c on) of the two rows, mixed into line. */
static void mix_rows(const upsample *u, int64_t n, int64_t c, taps rows, int64_t x, int64_t count,
                     int64_t step, float *line, float *other) {
  cpu_row_read(u->x->dtype, count, x_at(u, n, c, rows.low, x), step, line);
  if (rows.weight != 0) {
    cpu_row_read(u->x->dtype, count, x_at(u, n, c, rows.high, x), step, other);
    mix(count, line, other, rows.weight);
  }
}

static void plane_row(const upsample *u, int64_t n, int64_t c, int64_t y, float *room) {
  int64_t in = u->x->shape[3], width = u->out->shape[3];
  float *line = room, *other = line + in, *out = other + in;
  mix_rows(u, n, c, u->rows[y], 0, in, u->x->stride[3], line, other);
  for (int64_t x = 0; x < width; x++) {
    taps t = u->cols[x];
    out[x] =
        t.weight == 0 ? line[t.low] : line[t.low] * (1.0f - t.weight) + line[t.high] * t.weight;
  }
  cpu_row_write(u->out->dtype, width, out, out_at(u, n, c, y, 0), u->out->stride[3]);
}

static void pixel_row(const upsample *u, int64_t n, int64_t y) {
  float low[CPU_ROW], high[CPU_ROW], other[CPU_ROW];
  for (int64_t x = 0; x < u->out->shape[3]; x++) {
    taps t = u->cols[x];
    for (int64_t c = 0; c < u->out->shape[1]; c += CPU_ROW) {
      int64_t many = cpu_min(CPU_ROW, u->out->shape[1] - c);
      mix_rows(u, n, c, u->rows[y], t.low, many, 1, low, other);
      if (t.weight != 0) {
        mix_rows(u, n, c, u->rows[y], t.high, many, 1, high, other);
        mix(many, low, high, t.weight);
      }
      cpu_row_out(u->out->dtype, many, low, out_at(u, n, c, y, x), u->out->stride[1]);
    }
  }
}

static void upsample_rows(void *arg, uint32_t task) {
  const upsample *u = arg;
  float *room = u->room + (int64_t)task * u->room_each;
  int64_t height = u->out->shape[2], channels = u->out->shape[1];
  int64_t end = cpu_share(u->units, task + 1, u->tasks);
  for (int64_t unit = cpu_share(u->units, task, u->tasks); unit < end; unit++) {
    int64_t y = unit % height, rest = unit / height;
    if (u->channels_last) {
      pixel_row(u, rest, y);
    } else {
      plane_row(u, rest / channels, rest % channels, y, room);
    }
  }
}

void cpu_upsample_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                          mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  const int64_t *x = cpu_in(op, 0)->shape, *y = cpu_out(op)->shape;
  if (cpu_all_real(op, answer)) {
    cpu_fits(answer, 64 * ((double)x[3] + (double)y[2] + (double)y[3]));
  }
}

int32_t cpu_upsample_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                         mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  const cpu_plugin *plugin = queue->plugin;
  upsample u = {.x = cpu_in(op, 0), .out = cpu_out(op)};
  bool bilinear = cpu_attr_i64(plugin, op, CPU_ATTR_MODE, 0) != 0;
  bool corners = cpu_attr_i64(plugin, op, CPU_ATTR_ALIGN_CORNERS, 0) != 0;
  int64_t height = u.out->shape[2], width = u.out->shape[3];
  u.channels_last = u.x->stride[1] == 1 && u.x->shape[1] > 1;
  u.units = u.out->shape[0] * height * (u.channels_last ? 1 : u.out->shape[1]);
  u.room_each = cpu_round_up(2 * u.x->shape[3] + width, 16);
  u.tasks =
      (uint32_t)cpu_min(cpu_task_count(plugin, (double)cpu_elements(u.out), 16384.0), u.units);
  uint64_t tables = (uint64_t)cpu_round_up((height + width) * (int64_t)sizeof(taps), 64);
  uint64_t bytes = tables + (uint64_t)u.room_each * u.tasks * sizeof(float);
  char *room = cpu_scratch(queue, bytes);
  if (!room) {
    return cpu_no_memory(msg, bytes);
  }
  u.rows = (taps *)room;
  u.cols = u.rows + height;
  u.room = (float *)(room + tables);
  for (int64_t y = 0; y < height; y++) {
    u.rows[y] = taps_of(u.x->shape[2], height, y, bilinear, corners);
  }
  for (int64_t x = 0; x < width; x++) {
    u.cols[x] = taps_of(u.x->shape[3], width, x, bilinear, corners);
  }
  cpu_parallel(plugin, u.tasks, upsample_rows, &u);
  return MT_ABI_OK;
}
