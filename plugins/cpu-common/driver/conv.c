// SPDX-License-Identifier: Apache-2.0
/*
 * conv.c - conv2d around the SGEMM micro-kernel, without a matrix of patches. f32, f16, bf16.
 *
 * An image is first laid out as [height][width][channels] floats with its padding (where it is
 * not that already). Then the taps of one row of the kernel lie side by side for each pixel, so
 * a row of output pixels is a matrix product: pixels x (KW C), times (KW C) x outputs. KH of
 * them add up. The result of a few rows is finished (bias, activation, the order of the output)
 * while it is in the cache. Depthwise convolutions go over the channels in vectors.
 *
 * Sums are in the order of the taps and channels, whatever the number of threads.
 */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>

enum { TILE_FLOATS = 24 * 1024, GATHER = 16 };

typedef struct conv {
  const cpu_plugin *plugin;
  const mt_operand_v1 *x, *w, *bias, *out;
  int64_t channels, height, width; /* of the input */
  int64_t outputs, kh, kw, oh, ow;
  int64_t groups, group_in, group_out;
  int64_t stride[2], padding[4], dilation[2];
  cpu_unary_fn *activation;
  bool depthwise;
  bool direct;          /* sums go to the output: f32, channels adjacent */
  bool merged;          /* the taps of a kernel row are one product */
  int64_t depth;        /* taps times channels of a group */
  int64_t group_floats; /* packed weights of a group */
} conv;

/* ---- the description ---- */

static void describe(const cpu_plugin *plugin, const mt_op_v1 *op, conv *c) {
  *c = (conv){.plugin = plugin,
              .x = cpu_in(op, 0),
              .w = cpu_in(op, 1),
              .bias = cpu_optional_in(op, 2),
              .out = cpu_out(op),
              .stride = {1, 1},
              .dilation = {1, 1}};
  c->channels = c->x->shape[1];
  c->height = c->x->shape[2];
  c->width = c->x->shape[3];
  c->outputs = c->w->shape[0];
  c->group_in = c->w->shape[1];
  c->kh = c->w->shape[2];
  c->kw = c->w->shape[3];
  c->oh = c->out->shape[2];
  c->ow = c->out->shape[3];
  c->groups = cpu_attr_i64(plugin, op, CPU_ATTR_GROUPS, 1);
  c->group_out = c->outputs / c->groups;
  cpu_attr_list(plugin, op, CPU_ATTR_STRIDE, c->stride);
  cpu_attr_list(plugin, op, CPU_ATTR_PADDING, c->padding);
  cpu_attr_list(plugin, op, CPU_ATTR_DILATION, c->dilation);
  c->activation = cpu_activation(cpu_attr_i64(plugin, op, CPU_ATTR_ACTIVATION, 0));
  c->depthwise = c->group_in == 1 && c->group_out == 1 && c->groups > 1;
  c->direct = c->out->dtype == MT_ABI_DTYPE_F32 && c->out->stride[1] == 1;
  c->merged = c->groups == 1 && c->dilation[1] == 1;
  c->depth = c->kh * c->kw * c->group_in;
  c->group_floats =
      c->depthwise ? c->kh * c->kw : c->depth * cpu_round_up(c->group_out, plugin->gemm->nr);
}

/* ---- weights ---- */
static int64_t weight_floats(const conv *c) {
  return c->group_floats * c->groups;
}

static int64_t weight_room(const conv *c) {
  return c->depthwise ? 0 : c->depth * c->group_out;
}

static const char *weight_at(const conv *c, int64_t o, int64_t i, int64_t j) {
  const int64_t *s = c->w->stride;
  return (const char *)c->w->data + (o * s[0] + i * s[2] + j * s[3]) * cpu_dtype_size(c->w->dtype);
}

/* [taps][channels] */
static void pack_depthwise(const conv *c, float *packed) {
  for (int64_t tap = 0; tap < c->kh * c->kw; tap++) {
    cpu_row_read(c->w->dtype, c->outputs, weight_at(c, 0, tap / c->kw, tap % c->kw),
                 c->w->stride[0], packed + tap * c->outputs);
  }
}

/* Output o as one row in the order of taps, then channels. */
static void read_filter(const conv *c, int64_t o, float *row) {
  for (int64_t tap = 0; tap < c->kh * c->kw; tap++) {
    cpu_row_read(c->w->dtype, c->group_in, weight_at(c, o, tap / c->kw, tap % c->kw),
                 c->w->stride[1], row + tap * c->group_in);
  }
}

/* Each group as strips of nr outputs; rows: weight_room() floats. */
static void pack_weights(const conv *c, float *packed, float *rows) {
  const cpu_gemm_kernels *gemm = c->plugin->gemm;
  if (c->depthwise) {
    pack_depthwise(c, packed);
    return;
  }
  for (int64_t g = 0; g < c->groups; g++) {
    for (int64_t o = 0; o < c->group_out; o++) {
      read_filter(c, g * c->group_out + o, rows + o * c->depth);
    }
    for (int64_t o = 0; o < c->group_out; o += gemm->nr) {
      gemm->pack(c->depth, (int)cpu_min(gemm->nr, c->group_out - o), gemm->nr, rows + o * c->depth,
                 c->depth, 1, packed + g * c->group_floats + o * c->depth);
    }
  }
}

/* ---- the image ---- */
typedef struct image {
  const float *data; /* [rows][row] with the padding; pixels `pixel` floats apart */
  int64_t row, pixel;
} image;

/* Can the input be read where it is? */
static bool in_place(const conv *c) {
  const int64_t *s = c->x->stride;
  bool padded = false;
  for (int i = 0; i < 4; i++) {
    padded = padded || c->padding[i] != 0;
  }
  return !padded && c->x->dtype == MT_ABI_DTYPE_F32 && (s[1] == 1 || c->channels == 1) &&
         (s[3] == c->channels || c->width == 1);
}

static int64_t padded_width(const conv *c) {
  return c->width + c->padding[1] + c->padding[3];
}

static int64_t padded_height(const conv *c) {
  return c->height + c->padding[0] + c->padding[2];
}

typedef struct layout_job {
  const conv *c;
  const char *src;
  float *dst;
  uint32_t tasks;
} layout_job;

/* One row of pixels whose channels are adjacent. */
static void lay_pixels(const conv *c, const char *src, float *dst) {
  int64_t step = c->x->stride[3];
  if (step == c->channels) {
    cpu_row_read(c->x->dtype, c->width * c->channels, src, 1, dst);
    return;
  }
  for (int64_t x = 0; x < c->width; x++) {
    cpu_row_read(c->x->dtype, c->channels, src + x * step * cpu_dtype_size(c->x->dtype), 1,
                 dst + x * c->channels);
  }
}

/* One row from planes: GATHER channels at a time, transposed. */
static void lay_planes(const conv *c, const char *src, float *dst) {
  int size = cpu_dtype_size(c->x->dtype);
  const int64_t *s = c->x->stride;
  float lines[GATHER * CPU_ROW];
  bool direct = c->x->dtype == MT_ABI_DTYPE_F32 && s[3] == 1;
  if (direct) {
    vec_transpose_4(c->channels, c->width, src, s[1], dst, c->channels);
    return;
  }
  for (int64_t at = 0; at < c->channels; at += GATHER) {
    int64_t many = cpu_min(GATHER, c->channels - at);
    for (int64_t x = 0; x < c->width; x += CPU_ROW) {
      int64_t n = cpu_min(CPU_ROW, c->width - x);
      for (int64_t i = 0; i < many; i++) {
        cpu_row_read(c->x->dtype, n, src + ((at + i) * s[1] + x * s[3]) * size, s[3],
                     lines + i * CPU_ROW);
      }
      vec_transpose_4(many, n, lines, CPU_ROW, dst + x * c->channels + at, c->channels);
    }
  }
}

static void lay_rows(void *arg, uint32_t task) {
  const layout_job *job = arg;
  const conv *c = job->c;
  int64_t row = padded_width(c) * c->channels, size = cpu_dtype_size(c->x->dtype);
  int64_t end = cpu_share(padded_height(c), task + 1, job->tasks);
  for (int64_t y = cpu_share(padded_height(c), task, job->tasks); y < end; y++) {
    float *dst = job->dst + y * row;
    int64_t from = y - c->padding[0], left = c->padding[1] * c->channels;
    if (from < 0 || from >= c->height) {
      memset(dst, 0, (size_t)row * sizeof(float));
      continue;
    }
    memset(dst, 0, (size_t)left * sizeof(float));
    memset(dst + left + c->width * c->channels, 0,
           (size_t)(c->padding[3] * c->channels) * sizeof(float));
    const char *src = job->src + from * c->x->stride[2] * size;
    (c->x->stride[1] == 1 ? lay_pixels : lay_planes)(c, src, dst + left);
  }
}

static image lay_out(const conv *c, int64_t n, float *room) {
  const char *src = (const char *)c->x->data + n * c->x->stride[0] * cpu_dtype_size(c->x->dtype);
  if (in_place(c)) {
    return (image){(const float *)src, c->x->stride[2], c->channels};
  }
  layout_job job = {c, src, room, 1};
  double floats = (double)padded_height(c) * (double)padded_width(c) * (double)c->channels;
  job.tasks = (uint32_t)cpu_min(cpu_task_count(c->plugin, floats, 32768.0), padded_height(c));
  cpu_parallel(c->plugin, job.tasks, lay_rows, &job);
  return (image){room, padded_width(c) * c->channels, c->channels};
}

/* ---- the result of a tile ---- */
/* Rows y0 .. y0+rows of output channels [o0, o0+n) of image `number`, as [rows][ow][width]. */
typedef struct tile {
  int64_t number, y0, rows, o0, n;
  float *sums; /* rows sum_row apart, pixels width */
  int64_t sum_row, width;
  float *turned; /* room for one row of pixels of CPU_NR_MAX channels */
} tile;

/* Output channel o of the tile, of its row y. */
static char *out_at(const conv *c, const tile *t, int64_t y, int64_t x, int64_t o) {
  const int64_t *s = c->out->stride;
  return (char *)c->out->data +
         (t->number * s[0] + (t->o0 + o) * s[1] + (t->y0 + y) * s[2] + x * s[3]) *
             cpu_dtype_size(c->out->dtype);
}

static void finish_row(const conv *c, int64_t n, const float *bias, int bias_step, float *row) {
  if (bias) {
    vec_add(n, row, 1, bias, bias_step, row);
  }
  if (c->activation) {
    c->activation(n, row, NULL, row);
  }
}

/* Channels are adjacent in the output. The sums may be there already. */
static void finish_pixels(const conv *c, const tile *t, const float *bias) {
  if (c->direct && !bias && !c->activation) {
    return;
  }
  for (int64_t y = 0; y < t->rows; y++) {
    for (int64_t x = 0; x < c->ow; x++) {
      float *row = t->sums + y * t->sum_row + x * t->width;
      for (int64_t o = 0; o < t->n; o += CPU_ROW) {
        int64_t n = cpu_min(CPU_ROW, t->n - o);
        finish_row(c, n, bias ? bias + t->o0 + o : NULL, 1, row + o);
        cpu_row_out(c->out->dtype, n, row + o, out_at(c, t, y, x, o), 1);
      }
    }
  }
}

/* One row of pixels of one channel, in the output already or in turned. */
static void finish_plane_row(const conv *c, const tile *t, const float *bias, int64_t y, int64_t o,
                             float *row) {
  for (int64_t x = 0; x < c->ow; x += CPU_ROW) {
    int64_t n = cpu_min(CPU_ROW, c->ow - x);
    finish_row(c, n, bias ? bias + t->o0 + o : NULL, 0, row + x);
    cpu_row_out(c->out->dtype, n, row + x, out_at(c, t, y, x, o), c->out->stride[3]);
  }
}

/* Pixels are adjacent: a row of them is transposed, some channels at a time. */
static void finish_planes(const conv *c, const tile *t, const float *bias) {
  bool there = c->out->dtype == MT_ABI_DTYPE_F32 && (c->out->stride[3] == 1 || c->ow == 1);
  for (int64_t y = 0; y < t->rows; y++) {
    for (int64_t o = 0; o < t->n; o += CPU_NR_MAX) {
      int64_t many = cpu_min(CPU_NR_MAX, t->n - o);
      float *to = there ? (float *)out_at(c, t, y, 0, o) : t->turned;
      int64_t step = there ? c->out->stride[1] : c->ow;
      vec_transpose_4(c->ow, many, t->sums + y * t->sum_row + o, t->width, to, step);
      for (int64_t i = 0; (!there || bias || c->activation) && i < many; i++) {
        finish_plane_row(c, t, bias, y, o + i, to + i * step);
      }
    }
  }
}

/* ---- computing ---- */
typedef struct conv_job {
  const conv *c;
  image in;
  const float *weights, *bias;
  int64_t number;
  int64_t rows;    /* of a tile */
  int64_t columns; /* output channels of a tile, of one group */
  int64_t row_tiles, column_tiles;
  float *room;
  int64_t room_each;
  atomic_int_fast64_t next;
} conv_job;

/* One row of output pixels: the products of one row (or tap) of the kernel. */
static void add_product(const conv_job *job, cpu_gemm_strip *strip, const tile *t, int64_t y,
                        int64_t i, int64_t j, const float *a) {
  const conv *c = job->c;
  int64_t row = (t->y0 + y) * c->stride[0] + i * c->dilation[0];
  strip->a = a + row * job->in.row + j * c->dilation[1] * job->in.pixel;
  strip->a_row = c->stride[1] * job->in.pixel;
  strip->a_col = 1;
  strip->a_step = c->plugin->gemm->mr * strip->a_row;
  strip->accumulate = i + j > 0;
  c->plugin->gemm->strip(strip);
}

static void multiply(const conv_job *job, const tile *t, int64_t group) {
  const conv *c = job->c;
  int64_t nr = c->plugin->gemm->nr, first = t->o0 - group * c->group_out;
  const float *a = job->in.data + group * c->group_in;
  int64_t taps = c->merged ? 1 : c->kw, k = c->merged ? c->kw * c->group_in : c->group_in;
  for (int64_t o = 0; o < t->n; o += nr) {
    const float *b = job->weights + group * c->group_floats + (first + o) * c->depth;
    cpu_gemm_strip strip = {.m = c->ow,
                            .k = k,
                            .n = (int)cpu_min(nr, t->n - o),
                            .full_b = true,
                            .b_row = nr,
                            .c_row = t->width};
    for (int64_t i = 0; i < c->kh; i++) {
      for (int64_t j = 0; j < taps; j++) {
        strip.b = b + (i * taps + j) * k * nr;
        for (int64_t y = 0; y < t->rows; y++) {
          strip.c = t->sums + y * t->sum_row + o;
          add_product(job, &strip, t, y, i, j, a);
        }
      }
    }
  }
}

static void multiply_depthwise(const conv_job *job, const tile *t) {
  const conv *c = job->c;
  const cpu_depthwise taps = {.kh = c->kh,
                              .kw = c->kw,
                              .row = c->dilation[0] * job->in.row,
                              .pixel = c->dilation[1] * job->in.pixel,
                              .next = c->stride[1] * job->in.pixel,
                              .tap = c->outputs,
                              .out = t->width};
  for (int64_t y = 0; y < t->rows; y++) {
    const float *from = job->in.data + (t->y0 + y) * c->stride[0] * job->in.row + t->o0;
    vec_depthwise(c->ow, t->n, &taps, from, job->weights + t->o0, t->sums + y * t->sum_row);
  }
}

static void run_tile(const conv_job *job, int64_t item, float *room) {
  const conv *c = job->c;
  int64_t column = item % job->column_tiles, row = item / job->column_tiles;
  int64_t each = (c->group_out + job->columns - 1) / job->columns; /* column tiles of a group */
  int64_t group = c->depthwise ? 0 : column / each;
  int64_t limit = c->depthwise ? c->outputs : (group + 1) * c->group_out;
  tile t = {.number = job->number, .y0 = row * job->rows, .width = job->columns};
  t.o0 = c->depthwise ? column * job->columns : group * c->group_out + column % each * job->columns;
  t.n = cpu_min(job->columns, limit - t.o0);
  t.rows = cpu_min(job->rows, c->oh - t.y0);
  t.turned = room;
  t.sums = room + CPU_NR_MAX * c->ow;
  t.sum_row = c->ow * t.width;
  if (c->direct) {
    t.sums = (float *)out_at(c, &t, 0, 0, 0);
    t.sum_row = c->out->stride[2];
    t.width = c->out->stride[3];
  }
  if (c->depthwise) {
    multiply_depthwise(job, &t);
  } else {
    multiply(job, &t, group);
  }
  (c->out->stride[1] == 1 ? finish_pixels : finish_planes)(c, &t, job->bias);
}

static void run_tiles(void *arg, uint32_t task) {
  conv_job *job = arg;
  float *room = job->room + (int64_t)task * job->room_each;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (item >= job->row_tiles * job->column_tiles) {
      return;
    }
    run_tile(job, item, room);
  }
}

/* Tiles whose sums stay in L2, and enough of them for the threads. */
static void choose_tiles(conv_job *job, uint32_t threads) {
  const conv *c = job->c;
  int64_t nr = c->plugin->gemm->nr, width = c->depthwise ? c->outputs : c->group_out;
  job->columns = cpu_min(cpu_round_up(width, nr), cpu_max(TILE_FLOATS / c->ow / nr, 1) * nr);
  job->columns = cpu_min(job->columns, 8 * nr);
  job->rows = cpu_max(cpu_min(TILE_FLOATS / (job->columns * c->ow), c->oh), 1);
  int64_t per_group = (width + job->columns - 1) / job->columns;
  job->column_tiles = per_group * (c->depthwise ? 1 : c->groups);
  while (job->rows > 1 &&
         (c->oh + job->rows - 1) / job->rows * job->column_tiles < 4 * (int64_t)threads) {
    job->rows = (job->rows + 1) / 2;
  }
  job->row_tiles = (c->oh + job->rows - 1) / job->rows;
  job->room_each = cpu_round_up(CPU_NR_MAX * c->ow + job->rows * c->ow * job->columns, 16);
}

static void read_bias(const conv *c, float *to) {
  cpu_row_read(c->bias->dtype, c->outputs, c->bias->data, c->bias->stride[0], to);
}

/* ---- kernels of one tap: a matrix product ---- */
/* Every pixel of the input is one of the output, and they follow each other. */
static bool is_pointwise(const conv *c) {
  const int64_t *x = c->x->stride, *y = c->out->stride;
  for (int i = 0; i < 4; i++) {
    if (c->padding[i] != 0 || c->stride[i % 2] != 1) {
      return false;
    }
  }
  bool f32 = c->x->dtype == MT_ABI_DTYPE_F32 && c->out->dtype == MT_ABI_DTYPE_F32;
  bool rows = (x[2] == c->width * x[3] && y[2] == c->ow * y[3]) || c->oh == 1;
  bool planes = (x[3] == 1 && y[3] == 1) || c->ow == 1, pixels = x[1] == 1 && y[1] == 1;
  return f32 && rows && (planes || pixels) && c->kh * c->kw == 1 && c->groups == 1 &&
         c->ow * c->oh > 1 && c->w->stride[1] == 1 && c->channels > 1;
}

/* Planes: outputs x channels, times channels x pixels. Else: pixels x channels, times channels x
 * outputs. */
static cpu_matmul pointwise(const conv *c, const float *bias) {
  const int64_t *x = c->x->stride, *y = c->out->stride, *w = c->w->stride;
  bool planes = x[3] == 1 && y[3] == 1;
  cpu_matmul p = {.k = c->channels, .alpha = 1.0f, .activation = c->activation, .bias = bias};
  p.m = planes ? c->outputs : c->oh * c->ow;
  p.n = planes ? c->oh * c->ow : c->outputs;
  p.a_row = planes ? w[0] : x[3];
  p.a_col = planes ? w[1] : x[1];
  p.b_row = planes ? x[1] : w[1];
  p.b_col = planes ? x[3] : w[0];
  p.c_row = planes ? y[1] : y[3];
  p.c_col = planes ? y[3] : y[1];
  p.bias_row = planes ? 1 : 0;
  p.bias_col = planes ? 0 : 1;
  return p;
}

static int32_t run_pointwise(cpu_queue *queue, const conv *c, mt_message_v1 *msg) {
  const cpu_plugin *plugin = queue->plugin;
  uint32_t threads = cpu_threads(plugin);
  bool planes = c->x->stride[3] == 1 && c->out->stride[3] == 1;
  cpu_matmul p = pointwise(c, NULL);
  uint64_t bias = (uint64_t)cpu_round_up(c->outputs, 16) * sizeof(float);
  uint64_t bytes = bias + cpu_gemm_scratch(plugin, &p, threads);
  float *room = cpu_scratch(queue, bytes);
  if (!room) {
    return cpu_no_memory(msg, bytes);
  }
  if (c->bias) {
    read_bias(c, room);
    p.bias = room;
  }
  for (int64_t n = 0; n < c->out->shape[0]; n++) {
    const float *x = (const float *)c->x->data + n * c->x->stride[0], *w = c->w->data;
    p.a = planes ? w : x;
    p.b = planes ? x : w;
    p.c = (float *)c->out->data + n * c->out->stride[0];
    cpu_gemm(plugin, &p, threads, (char *)room + bias);
  }
  return MT_ABI_OK;
}

/* ---- the op ---- */
void cpu_conv2d_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)kind;
  if (!cpu_all_real(op, answer)) {
    return;
  }
  int64_t activation = cpu_attr_i64(plugin, op, CPU_ATTR_ACTIVATION, 0);
  if (activation != 0 && !cpu_activation(activation)) {
    cpu_no(answer, "activation %lld is not known", (long long)activation);
    return;
  }
  if (cpu_in(op, 1)->shape[1] == 0) {
    cpu_no(answer, "no input channels");
    return;
  }
  conv c;
  describe(plugin, op, &c);
  double pixels = ((double)c.height + (double)c.padding[0] + (double)c.padding[2]) *
                  ((double)c.width + (double)c.padding[1] + (double)c.padding[3]);
  double filter = (double)c.kh * (double)c.kw * (double)c.group_in;
  if (!cpu_fits(answer, pixels * (double)c.channels) ||
      !cpu_fits(answer, filter * (double)cpu_round_up(c.outputs, CPU_NR_MAX) * CPU_NR_MAX)) {
    return;
  }
  answer->wants_prepare = (cpu_in(op, 1)->flags & MT_ABI_OPERAND_CONSTANT) != 0;
}

int32_t cpu_conv2d_prepare(const cpu_plugin *plugin, const mt_op_v1 *op, void **plan,
                           mt_message_v1 *msg) {
  const mt_host_v1 *host = plugin->host;
  conv c;
  describe(plugin, op, &c);
  if (is_pointwise(&c)) {
    return MT_ABI_OK; /* weights are read where they are */
  }
  /* the packing kernel may write 8 floats past the end */
  uint64_t kept = (uint64_t)(weight_floats(&c) + 16) * sizeof(float);
  uint64_t room = (uint64_t)weight_room(&c) * sizeof(float);
  float *packed = host->alloc(host->ctx, kept, CPU_CACHE_LINE);
  float *rows = room > 0 && packed ? host->alloc(host->ctx, room, CPU_CACHE_LINE) : NULL;
  if (!packed || (room > 0 && !rows)) {
    host->free(host->ctx, packed);
    return cpu_no_memory(msg, kept + room);
  }
  pack_weights(&c, packed, rows);
  host->free(host->ctx, rows);
  *plan = packed;
  return MT_ABI_OK;
}

int32_t cpu_conv2d_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)kind;
  const cpu_plugin *plugin = queue->plugin;
  uint32_t threads = cpu_threads(plugin);
  conv c;
  describe(plugin, op, &c);
  if (is_pointwise(&c)) {
    return run_pointwise(queue, &c, msg);
  }
  conv_job job = {.c = &c};
  choose_tiles(&job, threads);
  uint32_t tasks = (uint32_t)cpu_min(threads, job.row_tiles * job.column_tiles);
  int64_t weights = plan ? 0 : cpu_round_up(weight_floats(&c) + 16, 16);
  int64_t picture =
      in_place(&c) ? 0 : cpu_round_up(padded_height(&c) * padded_width(&c) * c.channels, 16);
  int64_t bias = c.bias ? cpu_round_up(c.outputs, 16) : 0;
  int64_t work = cpu_max(job.room_each * tasks, plan ? 0 : weight_room(&c));
  uint64_t bytes = (uint64_t)(weights + picture + bias + work) * sizeof(float);
  float *room = cpu_scratch(queue, bytes);
  if (!room) {
    return cpu_no_memory(msg, bytes);
  }
  float *picture_room = room + weights, *bias_room = picture_room + picture;
  job.room = bias_room + bias;
  if (!plan) {
    pack_weights(&c, room, job.room);
  }
  job.weights = plan ? plan : room;
  if (c.bias) {
    read_bias(&c, bias_room);
    job.bias = bias_room;
  }
  for (job.number = 0; job.number < c.out->shape[0]; job.number++) {
    job.in = lay_out(&c, job.number, picture_room);
    atomic_init(&job.next, 0);
    cpu_parallel(plugin, tasks, run_tiles, &job);
  }
  return MT_ABI_OK;
}
