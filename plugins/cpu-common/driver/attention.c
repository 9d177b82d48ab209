// SPDX-License-Identifier: Apache-2.0
/*
 * attention.c - softmax(scale q k^T + mask) v in blocks of queries and keys: the scores of a block
 * stay in the cache, the sums so far are scaled when a larger score turns up (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention",
 * 2022). f32, f16, bf16; keys also i8.
 *
 * A block is a matrix product with the SGEMM micro-kernel when there are many queries; with few,
 * keys and values are streamed once. Blocks follow each other in the order of the keys, so
 * results do not depend on the number of threads.
 */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, MASK, K_SCALE, INPUTS };
enum { FEW = 4 }; /* up to so many queries a block is streamed */

typedef struct attention {
  const cpu_plugin *plugin;
  const mt_operand_v1 *in[INPUTS], *out;
  int64_t queries, keys, depth, width; /* width: of the values */
  int64_t group;                       /* query heads of a key head */
  float scale, softcap;
  bool causal;
  bool by_head; /* one query each: the heads of a group are the rows of a block */
  int64_t rows, row_blocks, key_block;
  int64_t k_room, v_room; /* floats */
  float *room;
  int64_t room_each;
  int64_t units;
  uint32_t tasks;
} attention;

/* A block of queries and what has been summed up for them. */
typedef struct block {
  int64_t batch, kv_head, head, first, rows; /* head, first: of row 0 */
  float *q;                                  /* [rows][depth], scaled */
  float *scores;                             /* [rows][key_block] */
  float *sums;                               /* [rows][width] */
  float *k, *packed, *v;                     /* a block of keys and values */
  float *max;
  double *total;
} block;

static const char *at(const mt_operand_v1 *x, int64_t a, int64_t b, int64_t c) {
  return (const char *)x->data +
         (a * x->stride[0] + b * x->stride[1] + c * x->stride[2]) * cpu_dtype_size(x->dtype);
}

static int64_t head_of(const attention *a, const block *b, int64_t row) {
  return a->by_head ? b->head + row : b->head;
}

static int64_t query_of(const attention *a, const block *b, int64_t row) {
  return a->by_head ? 0 : b->first + row;
}

/* ---- queries ---- */
static void read_queries(const attention *a, block *b) {
  const mt_operand_v1 *q = a->in[Q];
  for (int64_t row = 0; row < b->rows; row++) {
    float *to = b->q + row * a->depth;
    const char *from = at(q, b->batch, head_of(a, b, row), query_of(a, b, row));
    cpu_row_read(q->dtype, a->depth, from, q->stride[3], to);
    vec_scale(a->depth, to, &a->scale, to);
    b->max[row] = -INFINITY;
    b->total[row] = 0;
  }
  memset(b->sums, 0, (size_t)(b->rows * a->width) * sizeof(float));
}

/* ---- keys and values ---- */
typedef struct rows_view {
  const float *data;
  int64_t row;
} rows_view;

/* n rows of k or v from `first` on: where they are, or in room. */
static rows_view read_rows(const block *b, const mt_operand_v1 *x, int64_t first, int64_t n,
                           int64_t width, float *room) {
  const char *src = at(x, b->batch, b->kv_head, first);
  if (x->dtype == MT_ABI_DTYPE_F32 && (x->stride[3] == 1 || width == 1)) {
    return (rows_view){(const float *)src, x->stride[2]};
  }
  for (int64_t i = 0; i < n; i++) {
    cpu_row_read(x->dtype, width, at(x, b->batch, b->kv_head, first + i), x->stride[3],
                 room + i * width);
  }
  return (rows_view){room, width};
}

static bool all_finite(rows_view v, int64_t n, int64_t width) {
  if (v.row == width) {
    return vec_all_finite(n * width, v.data);
  }
  bool finite = true;
  for (int64_t i = 0; finite && i < n; i++) {
    finite = vec_all_finite(width, v.data + i * v.row);
  }
  return finite;
}

/* ---- scores ---- */
static void multiply_keys(const attention *a, const block *b, rows_view k, int64_t n) {
  const cpu_gemm_kernels *gemm = a->plugin->gemm;
  if (b->rows <= FEW || a->depth == 0) {
    gemm->dots(b->rows, n, a->depth, b->q, a->depth, k.data, k.row, b->scores, a->key_block);
    return;
  }
  cpu_gemm_strip strip = {.m = b->rows,
                          .k = a->depth,
                          .full_b = true,
                          .a = b->q,
                          .a_row = a->depth,
                          .a_col = 1,
                          .a_step = gemm->mr * a->depth,
                          .b = b->packed,
                          .b_row = gemm->nr,
                          .c_row = a->key_block};
  for (int64_t j = 0; j < n; j += gemm->nr) {
    strip.n = (int)cpu_min(gemm->nr, n - j);
    gemm->pack(a->depth, strip.n, gemm->nr, k.data + j * k.row, k.row, 1, b->packed);
    strip.c = b->scores + j;
    gemm->strip(&strip);
  }
}

static void scale_keys(const attention *a, const block *b, int64_t first, int64_t n, float *s) {
  const mt_operand_v1 *scale = a->in[K_SCALE];
  float row[CPU_ROW];
  for (int64_t i = 0; scale && i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    const char *from = at(scale, b->batch, b->kv_head, first + i);
    vec_mul(count, s + i, 1, cpu_row_in(scale->dtype, count, from, scale->stride[2], row), 1,
            s + i);
  }
}

static void cap(const attention *a, int64_t n, float *s) {
  float down = 1.0f / a->softcap;
  if (a->softcap > 0) {
    vec_scale(n, s, &down, s);
    vec_tanh(n, s, NULL, s);
    vec_scale(n, s, &a->softcap, s);
  }
}

static void add_mask(const attention *a, const block *b, int64_t row, int64_t first, int64_t n,
                     float *s) {
  const mt_operand_v1 *mask = a->in[MASK];
  float buffer[CPU_ROW];
  if (!mask) {
    return;
  }
  int64_t step = mask->stride[3], size = cpu_dtype_size(mask->dtype);
  const char *from =
      at(mask, b->batch, head_of(a, b, row), query_of(a, b, row)) + first * step * size;
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    const char *piece = from + i * step * size;
    if (mask->dtype != MT_ABI_DTYPE_BOOL) {
      vec_add(count, s + i, 1, cpu_row_in(mask->dtype, count, piece, step, buffer), 1, s + i);
      continue;
    }
    for (int64_t j = 0; j < count; j++) {
      s[i + j] = piece[j * step] ? s[i + j] : -INFINITY;
    }
  }
}

/* Keys of this block that the query sees. */
static int64_t seen_of(const attention *a, const block *b, int64_t row, int64_t first, int64_t n) {
  int64_t seen = a->causal ? query_of(a, b, row) + 1 + a->keys - a->queries - first : n;
  return cpu_max(cpu_min(seen, n), 0);
}

static float larger(float x, float y) {
  return isnan(x) || x >= y ? x : y; /* y when that is NaN */
}

/* Scores become weights relative to the largest so far; what was summed up follows. */
static void weigh_row(const attention *a, const block *b, int64_t row, int64_t seen, int64_t n) {
  float *s = b->scores + row * a->key_block, before = b->max[row];
  float max = seen > 0 ? larger(before, vec_max(seen, s)) : before;
  memset(s + seen, 0, (size_t)(n - seen) * sizeof(float));
  if (seen == 0 || max == -INFINITY) {
    memset(s, 0, (size_t)seen * sizeof(float));
    return;
  }
  float factor = before == -INFINITY ? 0.0f : expf(before - max);
  b->total[row] = b->total[row] * (double)factor + vec_exp_sum(seen, s, max, s);
  b->max[row] = max;
  if (factor != 1.0f) {
    float *sums = b->sums + row * a->width;
    vec_scale(a->width, sums, &factor, sums);
  }
}

static void weigh(const attention *a, const block *b, int64_t first, int64_t n) {
  for (int64_t row = 0; row < b->rows; row++) {
    int64_t seen = seen_of(a, b, row, first, n);
    float *s = b->scores + row * a->key_block;
    scale_keys(a, b, first, seen, s);
    cap(a, seen, s);
    add_mask(a, b, row, first, seen, s);
    weigh_row(a, b, row, seen, n);
  }
}

/* ---- values ---- */
/* A weight of 0 takes nothing, not even infinity or NaN: what a query may not see must not show. */
static void add_values_one_by_one(const attention *a, const block *b, rows_view v, int64_t n) {
  for (int64_t row = 0; row < b->rows; row++) {
    float *sums = b->sums + row * a->width;
    const float *s = b->scores + row * a->key_block;
    for (int64_t j = 0; j < n; j++) {
      const cpu_any_f32 *value = v.data + j * v.row;
      for (int64_t d = 0; s[j] != 0.0f && d < a->width; d++) {
        sums[d] += s[j] * value[d];
      }
    }
  }
}

static void add_values(const attention *a, const block *b, rows_view v, int64_t n) {
  const cpu_gemm_kernels *gemm = a->plugin->gemm;
  if (!all_finite(v, n, a->width)) {
    add_values_one_by_one(a, b, v, n);
    return;
  }
  if (b->rows <= FEW) {
    for (int64_t row = 0; row < b->rows; row++) {
      gemm->gemv_rows(n, a->width, b->scores + row * a->key_block, v.data, v.row,
                      b->sums + row * a->width);
    }
    return;
  }
  cpu_gemm_strip strip = {.m = b->rows,
                          .k = n,
                          .accumulate = true,
                          .a = b->scores,
                          .a_row = a->key_block,
                          .a_col = 1,
                          .a_step = gemm->mr * a->key_block,
                          .full_b = true,
                          .b = b->packed,
                          .b_row = gemm->nr,
                          .c_row = a->width};
  for (int64_t j = 0; j < a->width; j += gemm->nr) {
    strip.n = (int)cpu_min(gemm->nr, a->width - j);
    gemm->pack(n, strip.n, gemm->nr, v.data + j, 1, v.row, b->packed);
    strip.c = b->sums + j;
    gemm->strip(&strip);
  }
}

static void write_rows(const attention *a, const block *b) {
  int64_t step = a->out->stride[3];
  for (int64_t row = 0; row < b->rows; row++) {
    float *sums = b->sums + row * a->width;
    bool nothing = b->max[row] == -INFINITY;
    float factor = nothing ? 0.0f : (float)(1.0 / b->total[row]);
    char *to = (char *)(uintptr_t)at(a->out, b->batch, head_of(a, b, row), query_of(a, b, row));
    vec_scale(a->width, sums, &factor, sums);
    cpu_row_write(a->out->dtype, a->width, sums, to, step);
  }
}

/* ---- running ---- */
/* How far the last query of the block sees. */
static int64_t keys_needed(const attention *a, const block *b) {
  if (!a->causal) {
    return a->keys;
  }
  int64_t last = query_of(a, b, b->rows - 1) + 1 + a->keys - a->queries;
  return cpu_max(cpu_min(last, a->keys), 0);
}

static void attend(const attention *a, block *b) {
  int64_t needed = keys_needed(a, b);
  read_queries(a, b);
  for (int64_t first = 0; first < needed; first += a->key_block) {
    int64_t n = cpu_min(a->key_block, needed - first);
    multiply_keys(a, b, read_rows(b, a->in[K], first, n, a->depth, b->k), n);
    weigh(a, b, first, n);
    add_values(a, b, read_rows(b, a->in[V], first, n, a->width, b->v), n);
  }
  write_rows(a, b);
}

static void locate(const attention *a, int64_t unit, block *b) {
  int64_t kv_heads = a->in[K]->shape[1], row_block = unit % a->row_blocks, head;
  unit /= a->row_blocks;
  if (a->by_head) {
    b->kv_head = unit % kv_heads;
    b->batch = unit / kv_heads;
    b->head = b->kv_head * a->group + row_block * a->rows;
    b->rows = cpu_min(a->rows, (b->kv_head + 1) * a->group - b->head);
    return;
  }
  head = unit % (kv_heads * a->group);
  b->batch = unit / (kv_heads * a->group);
  b->kv_head = head / a->group;
  b->head = head;
  b->first = row_block * a->rows;
  b->rows = cpu_min(a->rows, a->queries - b->first);
}

/* Causal blocks are longer towards the end: tasks take every tasks-th, from the last on. */
static void attend_units(void *arg, uint32_t task) {
  const attention *a = arg;
  const cpu_gemm_kernels *gemm = a->plugin->gemm;
  float *room = a->room + (int64_t)task * a->room_each;
  block b = {.q = room};
  b.scores = b.q + cpu_round_up(a->rows * a->depth, 16);
  b.sums = b.scores + cpu_round_up(a->rows * a->key_block, 16);
  b.packed = b.sums + cpu_round_up(a->rows * a->width, 16);
  b.k = b.packed + cpu_round_up(cpu_max(a->depth, a->key_block) * gemm->nr + 8, 16);
  b.v = b.k + a->k_room;
  b.max = b.v + a->v_room;
  b.total = (double *)(b.max + cpu_round_up(a->rows, 16));
  for (int64_t unit = a->units - 1 - task; unit >= 0; unit -= a->tasks) {
    locate(a, unit, &b);
    attend(a, &b);
  }
}

static void choose_blocks(attention *a) {
  bool large = a->plugin->host->l2_bytes >= 1024 * 1024;
  int64_t most = large ? 128 : 64, rows = a->by_head ? a->group : a->queries;
  a->key_block = large ? 256 : 128;
  a->rows = cpu_min(rows, most / a->plugin->gemm->mr * a->plugin->gemm->mr); /* whole tiles */
  a->row_blocks = (rows + a->rows - 1) / a->rows;
  const mt_operand_v1 *k = a->in[K], *v = a->in[V];
  bool k_there = k->dtype == MT_ABI_DTYPE_F32 && (k->stride[3] == 1 || a->depth == 1);
  bool v_there = v->dtype == MT_ABI_DTYPE_F32 && (v->stride[3] == 1 || a->width == 1);
  a->k_room = k_there ? 0 : cpu_round_up(a->key_block * a->depth, 16);
  a->v_room = v_there ? 0 : cpu_round_up(a->key_block * a->width, 16);
  a->room_each = cpu_round_up(a->rows * a->depth, 16) + cpu_round_up(a->rows * a->key_block, 16) +
                 cpu_round_up(a->rows * a->width, 16) +
                 cpu_round_up(cpu_max(a->depth, a->key_block) * a->plugin->gemm->nr + 8, 16) +
                 a->k_room + a->v_room + 3 * cpu_round_up(a->rows, 16);
  a->units =
      a->in[Q]->shape[0] * a->row_blocks * (a->by_head ? k->shape[1] : k->shape[1] * a->group);
}

void cpu_attention_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                           mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  for (uint32_t i = 0; i < op->input_count; i++) {
    int32_t dtype = cpu_in(op, i)->dtype;
    bool fine = cpu_is_real(dtype) || (i == K && dtype == MT_ABI_DTYPE_I8) ||
                (i == MASK && dtype == MT_ABI_DTYPE_BOOL) ||
                (i >= MASK && dtype == MT_ABI_DTYPE_NONE);
    if (!fine) {
      cpu_no(answer, "dtype %s: f32, f16, bf16 only (keys also i8)", cpu_dtype_name(dtype));
      return;
    }
  }
  answer->answer = MT_ABI_SUPPORT_YES;
  /* of a block; the values' width is that of the output */
  cpu_fits(answer, (double)cpu_in(op, Q)->shape[3] * 1024);
}

int32_t cpu_attention_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                          mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  const cpu_plugin *plugin = queue->plugin;
  attention a = {.plugin = plugin, .out = cpu_out(op)};
  for (uint32_t i = 0; i < INPUTS; i++) {
    a.in[i] = cpu_optional_in(op, i);
  }
  a.queries = a.in[Q]->shape[2];
  a.depth = a.in[Q]->shape[3];
  a.keys = a.in[K]->shape[2];
  a.width = a.in[V]->shape[3];
  a.group = a.in[Q]->shape[1] / a.in[K]->shape[1];
  a.scale = (float)cpu_attr_f64(plugin, op, CPU_ATTR_SCALE, 1.0);
  a.softcap = (float)cpu_attr_f64(plugin, op, CPU_ATTR_SOFTCAP, 0.0);
  a.causal = cpu_attr_i64(plugin, op, CPU_ATTR_CAUSAL, 0) != 0;
  a.by_head = a.queries == 1;
  choose_blocks(&a);
  double work = (double)cpu_elements(a.out) * (double)cpu_max(a.keys, 1);
  a.tasks = (uint32_t)cpu_min(cpu_task_count(plugin, work, 131072.0), a.units);
  uint64_t bytes = (uint64_t)a.room_each * a.tasks * sizeof(float);
  a.room = cpu_scratch(queue, bytes);
  if (!a.room) {
    return cpu_no_memory(msg, bytes);
  }
  cpu_parallel(plugin, a.tasks, attend_units, &a);
  return MT_ABI_OK;
}
