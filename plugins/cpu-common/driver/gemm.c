// SPDX-License-Identifier: Apache-2.0
/*
 * gemm.c - blocked matrix multiplication around the micro-kernel.
 *
 * The loops are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication" (2008): nc columns of B at a time, kc deep; of these, mc rows of A. A
 * strip of B (kc x nr) lives in the L1 cache, the block of A in L2. What is small
 * enough is read where it is instead of being packed.
 *
 * kc depends on k alone and every element of C is summed in the order of k, so the
 * result depends neither on the number of threads nor on where C was cut.
 */
#include "cpu.h"

#include <stdatomic.h>

enum { IN_PLACE_ROWS = 512 };

typedef struct blocking {
  int64_t kc, mc, nc;
  bool pack_a, pack_b;
  int64_t a_floats; /* packed block of A of one task */
  int64_t b_floats;
} blocking;

static int64_t l2_bytes(const cpu_plugin *plugin) {
  return plugin->host->l2_bytes ? (int64_t)plugin->host->l2_bytes : 256 * 1024;
}

int64_t cpu_in_place_floats(const cpu_plugin *plugin) {
  return l2_bytes(plugin) / 2 / (int64_t)sizeof(float);
}

/* A whose k is adjacent is read in place: its rows stream well and packing them would cost
 * more than it saves. B in place touches one line for each step of k, which is fine from
 * L2 for as long as few rows of tiles come back to it. */
static void choose_packing(const cpu_plugin *plugin, const cpu_matmul *p, blocking *b) {
  int64_t budget = cpu_in_place_floats(plugin);
  bool b_in_place = p->b && p->b_col == 1 && p->m <= IN_PLACE_ROWS && p->n * p->k <= budget;
  bool a_in_place = p->a_col == 1 || (p->a_row == 1 && p->m * p->k <= budget / 4) ||
                    (p->a_row == 1 && p->n <= plugin->gemm->nr);
  b->pack_b = !p->packed && !b_in_place;
  b->pack_a = !a_in_place;
}

static blocking choose_blocking(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads) {
  const cpu_gemm_kernels *gemm = plugin->gemm;
  const mt_host_v1 *host = plugin->host;
  int64_t l1 = host->l1d_bytes ? (int64_t)host->l1d_bytes : 32 * 1024;
  int64_t l2 = l2_bytes(plugin);
  int64_t l3 = host->l3_bytes ? (int64_t)host->l3_bytes : 2 * 1024 * 1024;
  blocking b;
  /* Half of L1 for the strip of B, an eighth of L2 for the block of A, a part of L3 for B. */
  int64_t kc = l1 / 2 / (gemm->nr * (int64_t)sizeof(float)) / CPU_BLOCK_ELEMENTS;
  kc = cpu_max(cpu_min(kc * CPU_BLOCK_ELEMENTS, 256), 64);
  int64_t parts = cpu_max((p->k + kc - 1) / kc, 1);
  b.kc = cpu_max(cpu_round_up((p->k + parts - 1) / parts, CPU_BLOCK_ELEMENTS), CPU_BLOCK_ELEMENTS);
  int64_t mc = l2 / 8 / (b.kc * (int64_t)sizeof(float));
  b.mc = cpu_max(cpu_min(mc, 192), 96) / gemm->mr * gemm->mr;
  int64_t nc = cpu_min(l3 / 4, 8 * 1024 * 1024) / (b.kc * (int64_t)sizeof(float));
  b.nc = cpu_min(cpu_max(nc / gemm->nr, 1) * gemm->nr, cpu_round_up(p->n, gemm->nr));
  int64_t share = (p->m + threads - 1) / threads;
  if (threads > 1) {
    share = cpu_max((p->m + 4 * (int64_t)threads - 1) / (4 * (int64_t)threads), 8 * gemm->mr);
  }
  b.mc = cpu_min(b.mc, cpu_round_up(share, gemm->mr));
  choose_packing(plugin, p, &b);
  b.a_floats = b.pack_a ? cpu_round_up(b.mc * b.kc, 16) : 0;
  b.b_floats = b.pack_b ? b.nc * b.kc : 0;
  return b;
}

/* ---- packing B ---- */
typedef struct pack_job {
  const cpu_plugin *plugin;
  const cpu_matmul *p;
  int64_t p0, depth, j0, width;
  float *dst;
  uint32_t tasks;
} pack_job;

enum { DECODE_K = 128 };

/* A strip of B from blocks: lines are decoded a piece at a time, then packed. */
static void pack_blocks(const pack_job *job, int64_t j, int width, float *dst) {
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  float lines[CPU_NR_MAX * DECODE_K];
  for (int64_t at = 0; at < job->depth; at += DECODE_K) {
    int64_t depth = cpu_min(DECODE_K, job->depth - at);
    int64_t first = (job->p0 + at) / CPU_BLOCK_ELEMENTS * CPU_BLOCK_BYTES;
    for (int i = 0; i < width; i++) {
      const uint8_t *line = job->p->blocks + (j + i) * job->p->blocks_col + first;
      gemm->q8_0_decode(depth, line, lines + i * DECODE_K);
    }
    gemm->pack(depth, width, gemm->nr, lines, DECODE_K, 1, dst + at * gemm->nr);
  }
}

enum { GROUP_STRIPS = 16, GROUP_ROWS = 16 };

/* Strips [from, to) of B from rows in memory: a few rows at a time across all strips, so that
 * memory is read in long runs. */
static void pack_across(const pack_job *job, int64_t from, int64_t to) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  for (int64_t row = 0; row < job->depth; row += GROUP_ROWS) {
    int64_t rows = cpu_min(GROUP_ROWS, job->depth - row);
    for (int64_t j = from * gemm->nr; j < to * gemm->nr; j += gemm->nr) {
      int width = (int)cpu_min(gemm->nr, job->width - j);
      const float *src = p->b + (job->p0 + row) * p->b_row + job->j0 + j;
      gemm->pack(rows, width, gemm->nr, src, 1, p->b_row,
                 job->dst + j * job->depth + row * gemm->nr);
    }
  }
}

static void pack_strip(const pack_job *job, int64_t strip) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  int64_t j = strip * gemm->nr;
  int width = (int)cpu_min(gemm->nr, job->width - j);
  float *dst = job->dst + j * job->depth;
  if (p->blocks) {
    pack_blocks(job, job->j0 + j, width, dst);
  } else {
    const float *src = p->b + job->p0 * p->b_row + (job->j0 + j) * p->b_col;
    gemm->pack(job->depth, width, gemm->nr, src, p->b_col, p->b_row, dst);
  }
}

static void pack_strips(void *arg, uint32_t task) {
  const pack_job *job = arg;
  int64_t nr = job->plugin->gemm->nr;
  int64_t strips = (job->width + nr - 1) / nr;
  int64_t strip = cpu_share(strips, task, job->tasks);
  int64_t end = cpu_share(strips, task + 1, job->tasks);
  while (strip < end) {
    if (job->p->b && job->p->b_col == 1) {
      int64_t to = cpu_min(strip + GROUP_STRIPS, end);
      pack_across(job, strip, to);
      strip = to;
    } else {
      pack_strip(job, strip++);
    }
  }
}

static void pack_b(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads, int64_t p0,
                   int64_t depth, int64_t j0, int64_t width, float *dst) {
  pack_job job = {plugin, p, p0, depth, j0, width, dst, 1};
  int64_t strips = (width + plugin->gemm->nr - 1) / plugin->gemm->nr;
  if (threads > 1 && width * depth >= 32768) {
    job.tasks = (uint32_t)cpu_min(strips, 4 * (int64_t)threads);
  }
  cpu_parallel(plugin, job.tasks, pack_strips, &job);
}

/* All of B, for all k: the blocks of kc one after the other. */
uint64_t cpu_gemm_packed_bytes(const cpu_plugin *plugin, const cpu_matmul *p) {
  return (uint64_t)cpu_round_up(p->n, plugin->gemm->nr) * (uint64_t)p->k * sizeof(float);
}

void cpu_gemm_pack_b(const cpu_plugin *plugin, const cpu_matmul *p, float *packed) {
  uint32_t threads = cpu_threads(plugin);
  blocking b = choose_blocking(plugin, p, threads);
  int64_t width = cpu_round_up(p->n, plugin->gemm->nr);
  for (int64_t p0 = 0; p0 < p->k; p0 += b.kc) {
    pack_b(plugin, p, threads, p0, cpu_min(b.kc, p->k - p0), 0, p->n, packed + p0 * width);
  }
}

/* ---- one block of kc x nc of B against all rows of A ---- */
typedef struct block_job {
  const cpu_plugin *plugin;
  const cpu_matmul *p;
  const blocking *b;
  int64_t p0, depth, j0, width;
  const float *packed_b; /* or NULL: B where it is */
  float *packed_a;       /* a_floats for each task */
  cpu_finish finish;
  bool direct; /* the kernel writes C itself */
  int64_t row_blocks, column_groups;
  atomic_int_fast64_t next; /* item: row block * column_groups + group */
} block_job;

enum { TILES_AT_ONCE = 4 }; /* rows of tiles in the temporary tile, which stays in L1 */

static void run_strip(const block_job *job, cpu_gemm_strip *strip, int64_t i0, int64_t j0) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  if (job->direct) {
    strip->c = p->c + i0 * p->c_row + j0;
    strip->c_row = p->c_row;
    strip->accumulate = job->finish.beta != 0.0f;
    gemm->strip(strip);
    return;
  }
  float values[CPU_MR_MAX * TILES_AT_ONCE * CPU_NR_MAX];
  int64_t rows = strip->m;
  const float *a = strip->a;
  strip->c = values;
  strip->c_row = gemm->nr;
  strip->accumulate = false;
  for (int64_t i = 0; i < rows; i += gemm->mr * TILES_AT_ONCE) {
    strip->m = cpu_min(gemm->mr * TILES_AT_ONCE, rows - i);
    strip->a = a + i / gemm->mr * strip->a_step;
    gemm->strip(strip);
    cpu_matmul_finish(p, &job->finish, i0 + i, j0, strip->m, strip->n, values, gemm->nr);
  }
}

/* Rows i0 .. i0+rows, columns [from, to) of the block */
static void run_block(const block_job *job, int64_t i0, int64_t rows, int64_t from, int64_t to,
                      float *packed_a) {
  const cpu_matmul *p = job->p;
  const cpu_gemm_kernels *gemm = job->plugin->gemm;
  const float *a = p->a + i0 * p->a_row + job->p0 * p->a_col;
  cpu_gemm_strip strip = {0};
  strip.k = job->depth;
  strip.a_row = p->a_row;
  strip.a_col = p->a_col;
  strip.a_step = gemm->mr * p->a_row;
  if (job->b->pack_a) {
    for (int64_t i = 0; i < rows; i += gemm->mr) {
      gemm->pack(job->depth, (int)cpu_min(gemm->mr, rows - i), gemm->mr, a + i * p->a_row, p->a_row,
                 p->a_col, packed_a + i * job->depth);
    }
    a = packed_a;
    strip.a_row = 1;
    strip.a_col = gemm->mr;
    strip.a_step = gemm->mr * job->depth;
  }
  for (int64_t j = from; j < to; j += gemm->nr) {
    strip.m = rows;
    strip.n = (int)cpu_min(gemm->nr, to - j);
    strip.a = a;
    strip.full_b = job->packed_b != NULL;
    strip.b =
        strip.full_b ? job->packed_b + j * job->depth : p->b + job->p0 * p->b_row + (job->j0 + j);
    strip.b_row = strip.full_b ? gemm->nr : p->b_row;
    run_strip(job, &strip, i0, job->j0 + j);
  }
}

static void run_items(void *arg, uint32_t task) {
  block_job *job = arg;
  const cpu_matmul *p = job->p;
  int64_t nr = job->plugin->gemm->nr;
  int64_t strips = (job->width + nr - 1) / nr;
  float *packed_a = job->packed_a + (int64_t)task * job->b->a_floats;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (item >= job->row_blocks * job->column_groups) {
      return;
    }
    int64_t i0 = item / job->column_groups * job->b->mc;
    uint32_t group = (uint32_t)(item % job->column_groups);
    int64_t from = cpu_share(strips, group, (uint32_t)job->column_groups) * nr;
    int64_t to = cpu_share(strips, group + 1, (uint32_t)job->column_groups) * nr;
    run_block(job, i0, cpu_min(job->b->mc, p->m - i0), from, cpu_min(to, job->width), packed_a);
  }
}

/* What is done to C after this block of k. */
static void set_finish(block_job *job) {
  const cpu_matmul *p = job->p;
  bool last = job->p0 + job->depth >= p->k;
  job->finish.alpha = p->alpha;
  job->finish.beta = job->p0 == 0 ? p->beta : 1.0f;
  job->finish.bias = last ? p->bias : NULL;
  job->finish.activation = last ? p->activation : NULL;
  job->direct = p->c_col == 1 && p->alpha == 1.0f && !job->finish.bias && !job->finish.activation &&
                (job->finish.beta == 0.0f || job->finish.beta == 1.0f);
}

static void run_b_block(block_job *job, uint32_t threads) {
  const cpu_matmul *p = job->p;
  int64_t nr = job->plugin->gemm->nr;
  int64_t strips = (job->width + nr - 1) / nr;
  set_finish(job);
  job->row_blocks = (p->m + job->b->mc - 1) / job->b->mc;
  job->column_groups = 1;
  if (job->row_blocks < 3 * (int64_t)threads && threads > 1) {
    job->column_groups =
        cpu_min(strips, (3 * (int64_t)threads + job->row_blocks - 1) / job->row_blocks);
  }
  atomic_init(&job->next, 0);
  cpu_parallel(job->plugin, (uint32_t)cpu_min(threads, job->row_blocks * job->column_groups),
               run_items, job);
}

uint64_t cpu_gemm_scratch(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads) {
  blocking b = choose_blocking(plugin, p, threads);
  return (uint64_t)(b.b_floats + b.a_floats * (int64_t)threads) * sizeof(float);
}

void cpu_gemm(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads, void *scratch) {
  blocking b = choose_blocking(plugin, p, threads);
  float *b_room = scratch;
  int64_t packed_width = cpu_round_up(p->n, plugin->gemm->nr);
  block_job job = {.plugin = plugin, .p = p, .b = &b, .packed_a = b_room + b.b_floats};
  for (job.j0 = 0; job.j0 < p->n; job.j0 += b.nc) {
    job.width = cpu_min(b.nc, p->n - job.j0);
    for (job.p0 = 0; job.p0 < p->k; job.p0 += b.kc) {
      job.depth = cpu_min(b.kc, p->k - job.p0);
      if (b.pack_b) {
        pack_b(plugin, p, threads, job.p0, job.depth, job.j0, job.width, b_room);
        job.packed_b = b_room;
      } else if (p->packed) {
        job.packed_b = p->packed + job.p0 * packed_width + job.j0 * job.depth;
      }
      run_b_block(&job, threads);
    }
  }
}
