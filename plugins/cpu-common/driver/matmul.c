// SPDX-License-Identifier: Apache-2.0
/* matmul.c - the op: its description, batches, which way to compute it. */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>

/* ---- support ---- */
static void check_blocks(const cpu_plugin *plugin, const mt_operand_v1 *b, mt_support_v1 *answer) {
  if (plugin->q8_0 == 0 || b->format != plugin->q8_0) {
    cpu_no(answer, "block format of b: q8_0 only");
  } else if (b->block_axis != b->rank - 2) {
    cpu_no(answer, "blocks of b along axis %d: only along k, axis %d", b->block_axis, b->rank - 2);
  }
}

/* f32 all through; f16, bf16 or i8 times i8 go to typed.c. */
static bool is_typed(const mt_op_v1 *op) {
  return cpu_in(op, 0)->dtype != MT_ABI_DTYPE_F32;
}

static void check_dtypes(const mt_op_v1 *op, mt_support_v1 *answer) {
  int32_t a = cpu_in(op, 0)->dtype;
  if (!cpu_is_real(a) && a != MT_ABI_DTYPE_I8) {
    cpu_no(answer, "dtype %s: f32, f16, bf16, i8 only", cpu_dtype_name(a));
  }
}

/* The stride of an axis counted from the last, 1; 0 where there is one element. */
static int64_t stride_from_end(const mt_operand_v1 *x, int axis) {
  return x->shape[x->rank - axis] == 1 ? 0 : x->stride[x->rank - axis];
}

/* The same; 0 where x has fewer axes. */
static int64_t leading_stride(const mt_operand_v1 *x, int axis) {
  return axis > x->rank ? 0 : stride_from_end(x, axis);
}

/* ---- from the op to one problem and a nest of batches ---- */
enum { BATCH_C, BATCH_A, BATCH_B, BATCH_BIAS };

typedef struct batched {
  cpu_matmul problem; /* the first of the batch */
  cpu_nest nest;      /* of the others; the offsets of blocks are in elements */
  int64_t count;
} batched;

static void read_operands(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_matmul *p) {
  const mt_operand_v1 *a = cpu_in(op, 0), *b = cpu_in(op, 1), *bias = cpu_optional_in(op, 2);
  const mt_operand_v1 *c = cpu_out(op);
  memset(p, 0, sizeof(*p));
  p->m = c->shape[c->rank - 2];
  p->n = c->shape[c->rank - 1];
  p->k = a->shape[a->rank - 1];
  p->a = a->data;
  p->a_row = stride_from_end(a, 2);
  p->a_col = stride_from_end(a, 1);
  p->b_row = stride_from_end(b, 2);
  p->b_col = stride_from_end(b, 1);
  if (b->dtype == MT_ABI_DTYPE_BLOCK) {
    p->blocks = b->data;
    p->blocks_col = p->b_col / CPU_BLOCK_ELEMENTS * CPU_BLOCK_BYTES;
  } else {
    p->b = b->data;
  }
  p->c = c->data;
  p->c_row = stride_from_end(c, 2);
  p->c_col = stride_from_end(c, 1);
  if (bias) {
    p->bias = bias->data;
    p->bias_row = leading_stride(bias, 2);
    p->bias_col = leading_stride(bias, 1);
  }
  p->alpha = (float)cpu_attr_f64(plugin, op, CPU_ATTR_ALPHA, 1.0);
  p->beta = (float)cpu_attr_f64(plugin, op, CPU_ATTR_BETA, 0.0);
  p->activation = cpu_activation(cpu_attr_i64(plugin, op, CPU_ATTR_ACTIVATION, 0));
}

/* A batch axis that is more rows of A and C, with one B for all, becomes rows. */
static bool fold_rows(cpu_matmul *p, cpu_nest *nest) {
  int last = nest->rank - 1;
  const int64_t *stride = nest->stride[last];
  if (stride[BATCH_B] != 0 || nest->extent[last] == 1) {
    return false;
  }
  if (p->m == 1) {
    p->a_row = stride[BATCH_A];
    p->c_row = stride[BATCH_C];
    p->bias_row = stride[BATCH_BIAS];
  } else if (stride[BATCH_A] != p->a_row * p->m || stride[BATCH_C] != p->c_row * p->m ||
             stride[BATCH_BIAS] != p->bias_row * p->m) {
    return false;
  }
  p->m *= nest->extent[last];
  nest->extent[last] = 1;
  if (last > 0) {
    nest->rank = last;
  }
  return true;
}

/* Strides of 1 for axes of one element, so that they count as adjacent. */
static void normalize(cpu_matmul *p) {
  p->a_row = p->m == 1 ? 1 : p->a_row;
  p->c_row = p->m == 1 ? p->n : p->c_row;
  p->a_col = p->k == 1 ? 1 : p->a_col;
  p->b_row = p->k == 1 ? p->n : p->b_row;
  p->b_col = p->n == 1 ? 1 : p->b_col;
  p->c_col = p->n == 1 ? 1 : p->c_col;
}

static void describe(const cpu_plugin *plugin, const mt_op_v1 *op, batched *out) {
  const mt_operand_v1 *c = cpu_out(op), *bias = cpu_optional_in(op, 2);
  read_operands(plugin, op, &out->problem);
  cpu_nest_start(&out->nest, 4);
  for (int axis = c->rank; axis > 2; axis--) {
    int64_t strides[4] = {leading_stride(c, axis), leading_stride(cpu_in(op, 0), axis),
                          leading_stride(cpu_in(op, 1), axis),
                          bias ? leading_stride(bias, axis) : 0};
    cpu_nest_axis(&out->nest, c->shape[c->rank - axis], strides);
  }
  cpu_nest_finish(&out->nest, BATCH_C);
  while (fold_rows(&out->problem, &out->nest)) {
  }
  out->count = cpu_nest_elements(&out->nest);
  normalize(&out->problem);
}

static cpu_matmul batch_member(const batched *all, const int64_t *offsets) {
  cpu_matmul p = all->problem;
  p.c += offsets[BATCH_C];
  p.a += offsets[BATCH_A];
  if (p.blocks) {
    p.blocks += offsets[BATCH_B] / CPU_BLOCK_ELEMENTS * CPU_BLOCK_BYTES;
  } else {
    p.b += offsets[BATCH_B];
  }
  if (p.bias) {
    p.bias += offsets[BATCH_BIAS];
  }
  return p;
}

/* C^T = B^T A^T */
static void transpose(cpu_matmul *p) {
  cpu_matmul t = *p;
  t.m = p->n;
  t.n = p->m;
  t.a = p->b;
  t.a_row = p->b_col;
  t.a_col = p->b_row;
  t.b = p->a;
  t.b_row = p->a_col;
  t.b_col = p->a_row;
  t.c_row = p->c_col;
  t.c_col = p->c_row;
  t.bias_row = p->bias_col;
  t.bias_col = p->bias_row;
  *p = t;
}

/* The orientation that suits the kernels: one row rather than one column, columns of
 * C adjacent, few rows rather than few columns. */
static bool wants_transpose(const cpu_plugin *plugin, const cpu_matmul *p) {
  if (p->blocks || p->packed || cpu_few_rows(plugin, p)) {
    return false;
  }
  cpu_matmul t = *p;
  transpose(&t);
  return cpu_few_rows(plugin, &t) || (p->c_col != 1 && p->c_row == 1);
}

/* ---- the end of a tile ---- */
static void finish_row(const cpu_finish *f, int64_t n, const cpu_any_f32 *c, int64_t c_step,
                       const cpu_any_f32 *bias, int64_t bias_step, float *row) {
  if (f->alpha != 1.0f) {
    for (int64_t j = 0; j < n; j++) {
      row[j] *= f->alpha;
    }
  }
  if (f->beta != 0.0f) {
    for (int64_t j = 0; j < n; j++) {
      row[j] += f->beta * c[j * c_step];
    }
  }
  if (bias && bias_step == 1) {
    for (int64_t j = 0; j < n; j++) {
      row[j] += bias[j];
    }
  } else if (bias) {
    for (int64_t j = 0; j < n; j++) {
      row[j] += bias[j * bias_step];
    }
  }
  if (f->activation) {
    f->activation(n, row, NULL, row);
  }
}

void cpu_matmul_finish(const cpu_matmul *p, const cpu_finish *finish, int64_t i0, int64_t j0,
                       int64_t m, int64_t n, float *values, int64_t row) {
  for (int64_t i = 0; i < m; i++) {
    float *c = p->c + (i0 + i) * p->c_row + j0 * p->c_col;
    const float *bias = finish->bias;
    if (bias) {
      bias += (i0 + i) * p->bias_row + j0 * p->bias_col;
    }
    finish_row(finish, n, c, p->c_col, bias, p->bias_col, values + i * row);
    cpu_copy_strided(n, sizeof(float), (const char *)(values + i * row), 1, (char *)c, p->c_col);
  }
}

/* k = 0: A B is zero, the rest of the formula holds. */
static void finish_zeros(const cpu_matmul *p) {
  cpu_finish finish = {p->alpha, p->beta, p->bias, p->activation};
  enum { PIECE = 256 };
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t j = 0; j < p->n; j += PIECE) {
      float zeros[PIECE] = {0};
      cpu_matmul_finish(p, &finish, i, j, 1, cpu_min(PIECE, p->n - j), zeros, PIECE);
    }
  }
}

/* ---- running ---- */
static uint64_t scratch_bytes(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads) {
  uint64_t bytes =
      cpu_few_rows(plugin, p) ? cpu_few_rows_scratch(p) : cpu_gemm_scratch(plugin, p, threads);
  return (bytes + CPU_CACHE_LINE - 1) / CPU_CACHE_LINE * CPU_CACHE_LINE;
}

static void run_one(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads,
                    void *scratch) {
  if (p->k == 0) {
    finish_zeros(p);
  } else if (cpu_few_rows(plugin, p)) {
    cpu_few_rows_run(plugin, p, threads, scratch);
  } else {
    cpu_gemm(plugin, p, threads, scratch);
  }
}

typedef struct batch_job {
  const cpu_plugin *plugin;
  const batched *all;
  uint32_t threads; /* within one problem */
  char *scratch;
  uint64_t scratch_each;
  atomic_int_fast64_t next;
} batch_job;

static void run_batch(void *arg, uint32_t task) {
  batch_job *job = arg;
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (index >= job->all->count) {
      return;
    }
    int64_t offsets[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->all->nest, 0, index, offsets);
    cpu_matmul p = batch_member(job->all, offsets);
    run_one(job->plugin, &p, job->threads, job->scratch + task * job->scratch_each);
  }
}

/* Below this many multiplications another thread costs more than it brings. */
enum { THREAD_WORK = 512 * 1024 };

static cpu_typed_operand typed_matrix(const mt_operand_v1 *x) {
  return (cpu_typed_operand){x->data, x->dtype, leading_stride(x, 2), leading_stride(x, 1)};
}

static const char *moved(const mt_operand_v1 *x, int64_t offset) {
  return (const char *)x->data + offset * cpu_dtype_size(x->dtype);
}

/* f16, bf16, i8: batches one after the other, each on all threads. */
static int32_t run_typed(cpu_queue *queue, const mt_op_v1 *op, const batched *all,
                         mt_message_v1 *msg) {
  const cpu_plugin *plugin = queue->plugin;
  const mt_operand_v1 *a = cpu_in(op, 0), *b = cpu_in(op, 1), *bias = cpu_optional_in(op, 2);
  const mt_operand_v1 *c = cpu_out(op);
  const cpu_matmul *f = &all->problem;
  cpu_typed p = {.m = f->m, .n = f->n, .k = f->k, .a = typed_matrix(a), .b = typed_matrix(b)};
  p.c = typed_matrix(c);
  p.a.row = f->a_row, p.a.col = f->a_col, p.b.row = f->b_row, p.b.col = f->b_col;
  p.c.row = f->c_row, p.c.col = f->c_col;
  p.alpha = f->alpha, p.beta = f->beta, p.activation = f->activation;
  double work = (double)p.m * (double)p.n * (double)cpu_max(p.k, 1);
  uint32_t threads = work < 2 * THREAD_WORK ? 1 : cpu_threads(plugin);
  uint64_t bytes = cpu_typed_scratch(plugin, &p, threads);
  void *scratch = cpu_scratch(queue, bytes);
  if (!scratch) {
    return cpu_no_memory(msg, bytes);
  }
  for (int64_t i = 0; i < all->count; i++) {
    int64_t offsets[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&all->nest, 0, i, offsets);
    p.c.data = moved(c, offsets[BATCH_C]);
    p.a.data = moved(a, offsets[BATCH_A]);
    p.b.data = moved(b, offsets[BATCH_B]);
    if (bias) {
      p.bias = (cpu_typed_operand){moved(bias, offsets[BATCH_BIAS]), bias->dtype, f->bias_row,
                                   f->bias_col};
    }
    cpu_typed_run(plugin, &p, threads, scratch);
  }
  return MT_ABI_OK;
}

int32_t cpu_matmul_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)kind;
  const cpu_plugin *plugin = queue->plugin;
  batched all;
  describe(plugin, op, &all);
  cpu_matmul *p = &all.problem;
  if (all.count == 0 || p->m == 0 || p->n == 0) {
    return MT_ABI_OK;
  }
  if (is_typed(op)) {
    return run_typed(queue, op, &all, msg);
  }
  p->packed = plan; /* B as cpu_gemm_pack_b() left it, or NULL */
  if (wants_transpose(plugin, p)) {
    transpose(p);
    for (int i = 0; i < all.nest.rank; i++) {
      int64_t a = all.nest.stride[i][BATCH_A];
      all.nest.stride[i][BATCH_A] = all.nest.stride[i][BATCH_B];
      all.nest.stride[i][BATCH_B] = a;
    }
  }
  double work = (double)p->m * (double)p->n * (double)p->k;
  uint32_t threads = cpu_threads(plugin);
  uint32_t tasks = 1;
  if (all.count >= 2 * (int64_t)threads && work * (double)all.count >= 2 * THREAD_WORK) {
    tasks = threads; /* whole problems each */
    threads = 1;
  } else if (work < 2 * THREAD_WORK) {
    threads = 1;
  }
  batch_job job = {.plugin = plugin, .all = &all, .threads = threads};
  job.scratch_each = p->k == 0 ? 0 : scratch_bytes(plugin, p, threads);
  if (job.scratch_each > 0) {
    job.scratch = cpu_scratch(queue, job.scratch_each * tasks);
    if (!job.scratch) {
      return cpu_no_memory(msg, job.scratch_each * tasks);
    }
  }
  atomic_init(&job.next, 0);
  cpu_parallel(plugin, tasks, run_batch, &job);
  return MT_ABI_OK;
}

/* ---- weights packed ahead ---- */
/* The same B for the whole batch, enough rows to need it packed. */
static bool worth_packing(const cpu_plugin *plugin, const mt_op_v1 *op) {
  const mt_operand_v1 *b = cpu_in(op, 1);
  if (b->dtype != MT_ABI_DTYPE_F32 || !(b->flags & MT_ABI_OPERAND_CONSTANT)) {
    return false;
  }
  batched all;
  describe(plugin, op, &all);
  for (int i = 0; i < all.nest.rank; i++) {
    if (all.nest.stride[i][BATCH_B] != 0 && all.nest.extent[i] != 1) {
      return false;
    }
  }
  const cpu_matmul *p = &all.problem;
  return p->m >= 4 && p->n >= 4 && p->k > 0;
}

void cpu_matmul_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)kind;
  answer->answer = MT_ABI_SUPPORT_YES;
  check_dtypes(op, answer);
  const mt_operand_v1 *a = cpu_in(op, 0), *c = cpu_out(op);
  double k = (double)a->shape[a->rank - 1];
  if (!cpu_fits(answer, (double)c->shape[c->rank - 2] * k) ||
      !cpu_fits(answer, (double)c->shape[c->rank - 1] * k)) {
    return;
  }
  if (answer->answer == MT_ABI_SUPPORT_YES && cpu_in(op, 1)->dtype == MT_ABI_DTYPE_BLOCK) {
    check_blocks(plugin, cpu_in(op, 1), answer);
  }
  int64_t activation = cpu_attr_i64(plugin, op, CPU_ATTR_ACTIVATION, 0);
  if (answer->answer == MT_ABI_SUPPORT_YES && activation != 0 && !cpu_activation(activation)) {
    cpu_no(answer, "activation %lld is not known", (long long)activation);
  }
  answer->wants_prepare = answer->answer == MT_ABI_SUPPORT_YES && worth_packing(plugin, op);
}

int32_t cpu_matmul_prepare(const cpu_plugin *plugin, const mt_op_v1 *op, void **plan,
                           mt_message_v1 *msg) {
  if (!worth_packing(plugin, op)) {
    return MT_ABI_OK; /* nothing to keep: *plan stays NULL */
  }
  batched all;
  describe(plugin, op, &all);
  const mt_host_v1 *host = plugin->host;
  uint64_t bytes = cpu_gemm_packed_bytes(plugin, &all.problem);
  float *packed = host->alloc(host->ctx, bytes, CPU_CACHE_LINE);
  if (!packed) {
    return cpu_no_memory(msg, bytes);
  }
  cpu_gemm_pack_b(plugin, &all.problem, packed);
  *plan = packed;
  return MT_ABI_OK;
}
