// SPDX-License-Identifier: Apache-2.0
/*
 * cpu.h - the driver of a CPU plugin: its objects, and what its files share.
 *
 * plugin.c   the entries of the ABI          ops.c     the list of ops, support checks
 * nest.c     loops over strided operands     elementwise.c, reduce.c, move.c: ops
 * matmul.c   matmul's cases, batches         gemm.c, gemv.c: many rows, few rows
 */
#ifndef CPU_H
#define CPU_H

#include "../vector/kernels.h"
#include <mecantensor/plugin.h>
#include <stddef.h>

enum { CPU_MAX_RANK = 16, CPU_CACHE_LINE = 64 };

/* ---- objects -------------------------------------------------------------------------- */
/* Attributes that some op knows: X(KEY, "name"). At most 64. */
#define CPU_ATTRS(X)                                                                               \
  X(ALPHA, "alpha")                                                                                \
  X(BETA, "beta")                                                                                  \
  X(ACTIVATION, "activation")                                                                      \
  X(FACTOR, "factor")                                                                              \
  X(AXIS, "axis")                                                                                  \
  X(AXES, "axes")                                                                                  \
  X(KEEPDIMS, "keepdims")                                                                          \
  X(MIN, "min")                                                                                    \
  X(MAX, "max")                                                                                    \
  X(EPSILON, "epsilon")                                                                            \
  X(SCALE, "scale")                                                                                \
  X(CAUSAL, "causal")                                                                              \
  X(SOFTCAP, "softcap")                                                                            \
  X(STRIDE, "stride")                                                                              \
  X(PADDING, "padding")                                                                            \
  X(DILATION, "dilation")                                                                          \
  X(GROUPS, "groups")                                                                              \
  X(DIMS, "dims")                                                                                  \
  X(BASE, "base")                                                                                  \
  X(INTERLEAVED, "interleaved")                                                                    \
  X(INVERSE, "inverse")                                                                            \
  X(CHUNK, "chunk")                                                                                \
  X(LARGEST, "largest")                                                                            \
  X(EXCLUSIVE, "exclusive")                                                                        \
  X(REVERSE, "reverse")                                                                            \
  X(KERNEL, "kernel")                                                                              \
  X(COUNT_INCLUDE_PAD, "count_include_pad")                                                        \
  X(MODE, "mode")                                                                                  \
  X(ALIGN_CORNERS, "align_corners")                                                                \
  X(REDUCTION, "reduction")                                                                        \
  X(IGNORE_INDEX, "ignore_index")                                                                  \
  X(LABEL_SMOOTHING, "label_smoothing")                                                            \
  X(BEFORE, "before")                                                                              \
  X(VALUE, "value")

typedef enum cpu_attr {
#define CPU_ATTR_KEY(key, name) CPU_ATTR_##key,
  CPU_ATTRS(CPU_ATTR_KEY)
#undef CPU_ATTR_KEY
      CPU_ATTR_COUNT
} cpu_attr;

enum { CPU_OP_MAX = 80, CPU_ID_MAX = 256 };

typedef struct cpu_plugin {
  const mt_host_v1 *host;       /* valid until shutdown */
  const cpu_gemm_kernels *gemm; /* those that suit this CPU */
  /* By the number that the core interned a name under: 1 + its place in cpu_ops, or 0. Numbers from
   * CPU_ID_MAX on are looked for in op_id. */
  uint8_t op_at[CPU_ID_MAX];
  int32_t op_id[CPU_OP_MAX]; /* as interned, in the order of cpu_ops */
  int32_t attr_id[CPU_ATTR_COUNT];
  int32_t q8_0; /* as interned; 0: the core does not know it */
  char cpu_name[64];
  char cpu_vendor[16];
} cpu_plugin;

typedef struct cpu_device {
  cpu_plugin *plugin;
} cpu_device;

/* Memory that a queue keeps between ops, so that a repeated op allocates nothing. */
typedef struct cpu_queue {
  cpu_plugin *plugin;
  uint64_t point;
  void *scratch;
  uint64_t scratch_bytes;
} cpu_queue;

/* NULL when out of memory; else at least bytes, 64-byte aligned, valid until the next call. */
void *cpu_scratch(cpu_queue *queue, uint64_t bytes);

/* ---- the ops ---------------------------------------------------------------------------- */
typedef struct cpu_op {
  const char *name;
  uint64_t attrs; /* bit i: it knows cpu_attr i */
  int kind;       /* which of the ops that share a function: cpu_unary, cpu_binary ... */
  /* Fills in the answer. Operands have ranks up to CPU_MAX_RANK. */
  void (*support)(const cpu_plugin *plugin, int kind, const mt_op_v1 *op, mt_support_v1 *answer);
  int32_t (*run)(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                 mt_message_v1 *msg);
  /* For ops that want it; else NULL. *plan stays NULL when there is nothing to keep. */
  int32_t (*prepare)(const cpu_plugin *plugin, const mt_op_v1 *op, void **plan, mt_message_v1 *msg);
} cpu_op;

extern const cpu_op cpu_ops[];
extern const size_t cpu_op_count;

const cpu_op *cpu_find_op(const cpu_plugin *plugin, int32_t id);
void cpu_op_support(const cpu_plugin *plugin, const mt_op_v1 *op, mt_support_v1 *answer);

/* answer->answer = NO, with a sentence */
void cpu_no(mt_support_v1 *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is so much to be copied no more than any memory holds? Repeated operands (stride 0) may have
 * extents whose product overflows. Else answers no. */
bool cpu_fits(mt_support_v1 *answer, double elements);
/* The message, and the code back. */
int32_t cpu_error(mt_message_v1 *msg, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int32_t cpu_no_memory(mt_message_v1 *msg, uint64_t bytes);

const char *cpu_dtype_name(int32_t dtype);
int cpu_dtype_size(int32_t dtype); /* 0 for BLOCK and what is no dtype */

static inline const mt_operand_v1 *cpu_in(const mt_op_v1 *op, uint32_t i) {
  return (const mt_operand_v1 *)((const char *)op->inputs + (size_t)i * op->operand_stride);
}

/* The input, or NULL when it was not given. */
static inline const mt_operand_v1 *cpu_optional_in(const mt_op_v1 *op, uint32_t i) {
  if (i >= op->input_count || cpu_in(op, i)->dtype == MT_ABI_DTYPE_NONE) {
    return NULL;
  }
  return cpu_in(op, i);
}

static inline const mt_operand_v1 *cpu_out(const mt_op_v1 *op) {
  return op->outputs;
}

static inline const mt_operand_v1 *cpu_out_at(const mt_op_v1 *op, uint32_t i) {
  return (const mt_operand_v1 *)((const char *)op->outputs + (size_t)i * op->operand_stride);
}

int64_t cpu_elements(const mt_operand_v1 *operand);

/* NULL when absent */
const mt_attr_v1 *cpu_attribute(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key);
double cpu_attr_f64(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, double fallback);
/* A list attribute over the defaults in *list, which has room for it. */
void cpu_attr_list(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, int64_t *list);
int64_t cpu_attr_i64(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, int64_t fallback);

/* ---- threads ------------------------------------------------------------------------------ */
static inline uint32_t cpu_threads(const cpu_plugin *plugin) {
  return plugin->host->thread_count(plugin->host->ctx);
}

/* fn(arg, 0 .. tasks-1), on this thread when there is one task. */
void cpu_parallel(const cpu_plugin *plugin, uint32_t tasks, void (*fn)(void *arg, uint32_t task),
                  void *arg);

/* How many tasks to cut work into: 1 when it is less than two grains, else up to four for
 * each thread and none smaller than a grain. */
uint32_t cpu_task_count(const cpu_plugin *plugin, double work, double grain);

static inline int64_t cpu_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t cpu_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static inline int64_t cpu_round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/* First of the items 0 .. total-1 that belong to this task. */
static inline int64_t cpu_share(int64_t total, uint32_t task, uint32_t tasks) {
  int64_t each = total / tasks, more = total % tasks;
  return task * each + cpu_min(task, more);
}

/* ---- nest.c: loops over strided operands of one shape --------------------------------------- */
enum { CPU_NEST_OPERANDS = 8 };

/* Axes from the outermost in; extents > 1, but for a lone axis of a single element. */
typedef struct cpu_nest {
  int rank; /* >= 1 */
  int operands;
  int64_t extent[CPU_MAX_RANK];
  int64_t stride[CPU_MAX_RANK][CPU_NEST_OPERANDS];
} cpu_nest;

void cpu_nest_start(cpu_nest *nest, int operands);
/* The next axis inwards. */
void cpu_nest_axis(cpu_nest *nest, int64_t extent, const int64_t *strides);
/* Sorts axes so that `operand` is walked in the order of memory, and joins those that
 * are one in all operands. To be called once, after the last axis. */
void cpu_nest_finish(cpu_nest *nest, int operand);
/* All of the above for operands of one shape; the order is that of operands[0]. */
void cpu_nest_build(cpu_nest *nest, int operands, const mt_operand_v1 *const *operand);
int64_t cpu_nest_elements(const cpu_nest *nest);
/* Offsets of the operands (in elements) at position `index` of all axes but the last
 * `inner` ones. */
void cpu_nest_offsets(const cpu_nest *nest, int inner, int64_t index, int64_t *offsets);
/* One position on, of all axes but the last `inner`: the odometer in `at` and offsets. */
void cpu_nest_next(const cpu_nest *nest, int inner, int64_t *at, int64_t *offsets);

/* n elements of each operand, step[i] elements apart */
typedef void cpu_row_fn(void *arg, int64_t n, char *const *data, const int64_t *step);
/* Calls fn for all rows, cut into pieces and spread over threads. size: bytes of an element.
 * grain: elements that are worth a task. */
void cpu_nest_run(const cpu_plugin *plugin, const cpu_nest *nest, char *const *data,
                  const int *size, double grain, cpu_row_fn *fn, void *arg);

/* dst[i * dst_step] = src[i * src_step]; elements of 1, 2, 4 or 8 bytes */
void cpu_copy_strided(int64_t n, int size, const char *src, int64_t src_step, char *dst,
                      int64_t dst_step);
/* dst[...] = src[...] by a nest of (dst, src) */
void cpu_copy_nest(const cpu_plugin *plugin, const cpu_nest *nest, int size, char *dst,
                   const char *src);

/* ---- matmul ------------------------------------------------------------------------------- */
/* C = activation(alpha A B + beta C + bias), strides in elements */
typedef struct cpu_matmul {
  int64_t m, n, k;
  const float *a;
  int64_t a_row, a_col;
  const float *b; /* NULL: blocks */
  int64_t b_row, b_col;
  const uint8_t *blocks; /* Q8_0, blocks along k */
  int64_t blocks_col;    /* bytes from one column to the next */
  const float *packed;   /* B as cpu_gemm_pack_b left it, or NULL */
  float *c;
  int64_t c_row, c_col;
  const float *bias; /* or NULL */
  int64_t bias_row, bias_col;
  float alpha, beta;
  cpu_unary_fn *activation; /* or NULL */
} cpu_matmul;

void cpu_matmul_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer);
int32_t cpu_matmul_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg);
int32_t cpu_matmul_prepare(const cpu_plugin *plugin, const mt_op_v1 *op, void **plan,
                           mt_message_v1 *msg);

/* C of m x n, from values[i * row + j] = A B: what is left to do, in place and into C. */
typedef struct cpu_finish {
  float alpha, beta;
  const float *bias;
  cpu_unary_fn *activation;
} cpu_finish;
void cpu_matmul_finish(const cpu_matmul *p, const cpu_finish *finish, int64_t i0, int64_t j0,
                       int64_t m, int64_t n, float *values, int64_t row);

/* Bytes of scratch memory for this shape on `threads` threads. */
uint64_t cpu_gemm_scratch(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads);
void cpu_gemm(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads, void *scratch);
uint64_t cpu_gemm_packed_bytes(const cpu_plugin *plugin, const cpu_matmul *p);
void cpu_gemm_pack_b(const cpu_plugin *plugin, const cpu_matmul *p, float *packed);

/* Up to so large B is read in place, from L2. */
int64_t cpu_in_place_floats(const cpu_plugin *plugin);

bool cpu_few_rows(const cpu_plugin *plugin, const cpu_matmul *p);
uint64_t cpu_few_rows_scratch(const cpu_matmul *p);
void cpu_few_rows_run(const cpu_plugin *plugin, const cpu_matmul *p, uint32_t threads,
                      void *scratch);

/* ---- typed.c: products of f16, bf16, i8 ---------------------------------------------------- */
typedef struct cpu_typed_operand {
  const char *data; /* NULL: absent */
  int32_t dtype;
  int64_t row, col; /* elements */
} cpu_typed_operand;

/* C = activation(alpha row_scale column_scale A B + beta C + bias). A: f32, f16, bf16, i8; B:
 * f16, bf16, i8; C: f32, f16, bf16. i8 times i8 also gives i32, then without the factors. */
typedef struct cpu_typed {
  int64_t m, n, k;
  cpu_typed_operand a, b, c, bias;
  float alpha, beta;
  cpu_unary_fn *activation;  /* or NULL */
  const float *column_scale; /* n, column_step apart; or NULL */
  int64_t column_step;
  const float *row_scale; /* m; or NULL */
} cpu_typed;

uint64_t cpu_typed_scratch(const cpu_plugin *plugin, const cpu_typed *p, uint32_t threads);
void cpu_typed_run(const cpu_plugin *plugin, const cpu_typed *p, uint32_t threads, void *scratch);

/* ---- rows.c: pieces of rows of f32, f16 or bf16 as adjacent floats ------------------------- */
enum { CPU_ROW = 512 }; /* the most elements of a piece */

bool cpu_is_real(int32_t dtype);
/* All inputs that are there are; else answers no. */
bool cpu_all_real(const mt_op_v1 *op, mt_support_v1 *answer);
/* n elements (also of i8) at any step: where they are when that is so already (f32, step 1; n may
 * be anything then), else in buffer. */
const float *cpu_row_in(int32_t dtype, int64_t n, const char *src, int64_t step, float *buffer);
/* And into memory of that type (also bool). */
void cpu_row_out(int32_t dtype, int64_t n, const float *row, char *dst, int64_t step);
/* The same for any n, always copied. */
void cpu_row_read(int32_t dtype, int64_t n, const char *src, int64_t step, float *to);
void cpu_row_write(int32_t dtype, int64_t n, const float *row, char *dst, int64_t step);

/* Results of so many bytes are not looked for in a cache by what comes next: elementwise ops write
 * them past the caches. */
#define CPU_STREAM_BYTES (16.0 * 1024 * 1024)

/* ---- elementwise.c ---- */
cpu_unary_fn *cpu_unary_kernel(int kind); /* cpu_unary */
/* Of an activation attribute; NULL: none, or not known. */
cpu_unary_fn *cpu_activation(int64_t number);

/* ---- the other ops -------------------------------------------------------------------------- */
#define CPU_DECLARE_OP(name)                                                                       \
  void cpu_##name##_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,                \
                            mt_support_v1 *answer);                                                \
  int32_t cpu_##name##_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,       \
                           mt_message_v1 *msg)
CPU_DECLARE_OP(binary);
CPU_DECLARE_OP(unary);
CPU_DECLARE_OP(where);
CPU_DECLARE_OP(reduce);
CPU_DECLARE_OP(softmax);
CPU_DECLARE_OP(copy);
CPU_DECLARE_OP(cast);
CPU_DECLARE_OP(concat);
CPU_DECLARE_OP(gather);

CPU_DECLARE_OP(norm);
CPU_DECLARE_OP(rope);
CPU_DECLARE_OP(attention);
CPU_DECLARE_OP(loss);
CPU_DECLARE_OP(pad);
CPU_DECLARE_OP(pool);
CPU_DECLARE_OP(upsample);
CPU_DECLARE_OP(tsi);
CPU_DECLARE_OP(lines);
CPU_DECLARE_OP(bitlinear);
CPU_DECLARE_OP(conv2d);
int32_t cpu_conv2d_prepare(const cpu_plugin *plugin, const mt_op_v1 *op, void **plan,
                           mt_message_v1 *msg);
int32_t cpu_batch_norm_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                           mt_message_v1 *msg);

typedef enum cpu_tsi { CPU_TSI_INFUSE, CPU_TSI_READ, CPU_TSI_SCAN } cpu_tsi;
typedef enum cpu_lines { CPU_ARGMAX, CPU_ARGMIN, CPU_TOPK, CPU_CUMSUM } cpu_lines;
typedef enum cpu_loss { CPU_CROSS_ENTROPY, CPU_MSE } cpu_loss;
typedef enum cpu_pool { CPU_MAX_POOL, CPU_AVG_POOL } cpu_pool;
typedef enum cpu_norm { CPU_LAYER_NORM, CPU_RMS_NORM, CPU_BATCH_NORM_TRAIN } cpu_norm;
typedef enum cpu_line_op { CPU_SOFTMAX, CPU_LOG_SOFTMAX } cpu_line_op;
typedef enum cpu_reduction { CPU_SUM, CPU_MEAN, CPU_MAX_OF, CPU_MIN_OF } cpu_reduction;

/* ---- cpuid.c ----------------------------------------------------------------------------------
 */
void cpu_identify(char *name, size_t name_bytes, char *vendor, size_t vendor_bytes);

#endif
