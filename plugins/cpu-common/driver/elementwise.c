// SPDX-License-Identifier: Apache-2.0
/* elementwise.c - ops that work on one element at a time: f32, f16, bf16; where: any. */
#include "cpu.h"

static cpu_unary_fn *const unary_kernels[CPU_UNARY_COUNT] = {
    [CPU_RELU] = vec_relu,
    [CPU_GELU] = vec_gelu,
    [CPU_GELU_TANH] = vec_gelu_tanh,
    [CPU_SILU] = vec_silu,
    [CPU_SIGMOID] = vec_sigmoid,
    [CPU_TANH] = vec_tanh,
    [CPU_EXP] = vec_exp,
    [CPU_LOG] = vec_log,
    [CPU_SQRT] = vec_sqrt,
    [CPU_SIN] = vec_sin,
    [CPU_COS] = vec_cos,
    [CPU_ERF] = vec_erf,
    [CPU_RSQRT] = vec_rsqrt,
    [CPU_RECIPROCAL] = vec_reciprocal,
    [CPU_FLOOR] = vec_floor,
    [CPU_CEIL] = vec_ceil,
    [CPU_ROUND] = vec_round,
    [CPU_NEG] = vec_neg,
    [CPU_ABS] = vec_abs,
    [CPU_SCALE] = vec_scale,
    [CPU_CLAMP] = vec_clamp,
};

static cpu_binary_fn *const binary_kernels[CPU_BINARY_COUNT] = {
    [CPU_ADD] = vec_add,
    [CPU_SUB] = vec_sub,
    [CPU_MUL] = vec_mul,
    [CPU_DIV] = vec_div,
    [CPU_MAXIMUM] = vec_maximum,
    [CPU_MINIMUM] = vec_minimum,
    [CPU_POW] = vec_pow,
    [CPU_EQUAL] = vec_equal,
    [CPU_NOT_EQUAL] = vec_not_equal,
    [CPU_LESS] = vec_less,
    [CPU_LESS_EQUAL] = vec_less_equal,
    [CPU_GREATER] = vec_greater,
    [CPU_GREATER_EQUAL] = vec_greater_equal,
};

cpu_unary_fn *cpu_unary_kernel(int kind) {
  return unary_kernels[kind];
}

cpu_unary_fn *cpu_activation(int64_t number) {
  static cpu_unary_fn *const kernels[] = {NULL, vec_relu, vec_gelu, vec_gelu_tanh, vec_silu};
  return number > 0 && number < (int64_t)(sizeof(kernels) / sizeof(kernels[0])) ? kernels[number]
                                                                                : NULL;
}

typedef struct elementwise_job {
  cpu_unary_fn *unary;
  cpu_binary_fn *binary;
  float param[2];
  int32_t in, out; /* dtypes */
  bool stream;     /* the result is written past the caches */
} elementwise_job;

/* Where the kernel reads: the operand itself (step 0 or 1), or a copy in block. */
static const float *readable(int32_t dtype, int64_t n, const char *src, int64_t step, float *block,
                             int *kernel_step) {
  *kernel_step = step == 0 ? 0 : 1;
  return cpu_row_in(dtype, step == 0 ? 1 : n, src, step == 0 ? 1 : step, block);
}

static void compute(const elementwise_job *job, int64_t n, char *const *data, const int64_t *step,
                    float *y, float blocks[2][CPU_ROW]) {
  int step_a, step_b;
  const float *a = readable(job->in, n, data[1], step[1], blocks[0], &step_a);
  if (job->binary) {
    const float *b = readable(job->in, n, data[2], step[2], blocks[1], &step_b);
    job->binary(n, a, step_a, b, step_b, y);
  } else if (step_a == 0 && n > 1) {
    job->unary(1, a, job->param, y);
    cpu_copy_strided(n - 1, sizeof(float), (const char *)y, 0, (char *)(y + 1), 1);
  } else {
    job->unary(n, a, job->param, y);
  }
}

static bool direct(int64_t step) {
  return step == 0 || step == 1;
}

/* Through the cache, or (stream) past it: then memory need not be read before it is written. */
static void put_piece(const elementwise_job *job, int64_t n, const float *y, char *to,
                      int64_t step) {
  uint16_t narrow[CPU_ROW];
  if (!job->stream || step != 1) {
    cpu_row_out(job->out, n, y, to, step);
    return;
  }
  const void *from = y;
  if (job->out != MT_ABI_DTYPE_F32) {
    cpu_row_out(job->out, n, y, (char *)narrow, 1);
    from = narrow;
  }
  vec_stream((size_t)(n * cpu_dtype_size(job->out)), from, to);
}

static void elementwise_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const elementwise_job *job = arg;
  float blocks[2][CPU_ROW], y[CPU_ROW];
  int in_size = cpu_dtype_size(job->in), out_size = cpu_dtype_size(job->out);
  bool floats = job->in == MT_ABI_DTYPE_F32 && job->out == MT_ABI_DTYPE_F32;
  if (floats && !job->stream && step[0] == 1 && direct(step[1]) &&
      (!job->binary || direct(step[2]))) {
    compute(job, n, data, step, (float *)data[0], blocks);
    return;
  }
  char *at[3] = {data[0], data[1], job->binary ? data[2] : NULL};
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    compute(job, count, at, step, y, blocks);
    put_piece(job, count, y, at[0], step[0]);
    at[0] += count * step[0] * out_size;
    at[1] += count * step[1] * in_size;
    if (job->binary) {
      at[2] += count * step[2] * in_size;
    }
  }
  if (job->stream) {
    vec_stream_end();
  }
}

static void run(const cpu_plugin *plugin, const mt_op_v1 *op, elementwise_job *job, double grain) {
  int operands = job->binary ? 3 : 2;
  const mt_operand_v1 *operand[3] = {cpu_out(op), cpu_in(op, 0), NULL};
  char *data[3] = {operand[0]->data, operand[1]->data, NULL};
  if (job->binary) {
    operand[2] = cpu_in(op, 1);
    data[2] = operand[2]->data;
  }
  job->in = operand[1]->dtype;
  job->out = operand[0]->dtype;
  double bytes = (double)cpu_elements(operand[0]) * cpu_dtype_size(job->out);
  job->stream = bytes >= CPU_STREAM_BYTES && data[0] != data[1] && data[0] != data[2];
  int in = cpu_dtype_size(job->in), size[3] = {cpu_dtype_size(job->out), in, in};
  cpu_nest nest;
  cpu_nest_build(&nest, operands, operand);
  cpu_nest_run(plugin, &nest, data, size, grain, elementwise_row, job);
}

void cpu_unary_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                       mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  cpu_all_real(op, answer);
}

void cpu_binary_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  cpu_all_real(op, answer);
}

/* Elements that are worth a task. */
static double grain_of(int kind) {
  switch (kind) {
  case CPU_GELU:
  case CPU_GELU_TANH:
  case CPU_SILU:
  case CPU_SIGMOID:
  case CPU_TANH:
  case CPU_EXP:
  case CPU_LOG:
  case CPU_SIN:
  case CPU_COS:
  case CPU_ERF: return 8192.0;
  default: return 65536.0;
  }
}

int32_t cpu_unary_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                      mt_message_v1 *msg) {
  (void)plan;
  (void)msg;
  const cpu_plugin *plugin = queue->plugin;
  elementwise_job job = {.unary = cpu_unary_kernel(kind)};
  if (kind == CPU_CLAMP) {
    job.param[0] = (float)cpu_attr_f64(plugin, op, CPU_ATTR_MIN, -(double)__builtin_inff());
    job.param[1] = (float)cpu_attr_f64(plugin, op, CPU_ATTR_MAX, (double)__builtin_inff());
  } else {
    job.param[0] = (float)cpu_attr_f64(plugin, op, CPU_ATTR_FACTOR, 1.0);
  }
  run(plugin, op, &job, grain_of(kind));
  return MT_ABI_OK;
}

int32_t cpu_binary_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)plan;
  (void)msg;
  elementwise_job job = {.binary = binary_kernels[kind]};
  run(queue->plugin, op, &job, kind == CPU_POW ? 4096.0 : 65536.0);
  return MT_ABI_OK;
}

/* ---- where ---- */
/* Bytes as they are: elements of the operand's size, where a step is neither 0 nor 1 in a copy. */
static const char *adjacent(int64_t n, int size, const char *src, int64_t step, char *block,
                            int *kernel_step) {
  *kernel_step = step == 0 ? 0 : 1;
  if (direct(step)) {
    return src;
  }
  cpu_copy_strided(n, size, src, step, block, 1);
  return block;
}

static void where_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  int size = *(const int *)arg, kernel_step[4];
  uint64_t blocks[4][CPU_ROW];
  for (int64_t i = 0; i < n; i += CPU_ROW) {
    int64_t count = cpu_min(CPU_ROW, n - i);
    const char *in[4];
    for (int o = 1; o < 4; o++) {
      int each = o == 1 ? 1 : size;
      in[o] = adjacent(count, each, data[o] + i * step[o] * each, step[o], (char *)blocks[o],
                       &kernel_step[o]);
    }
    char *to = data[0] + i * step[0] * size;
    char *y = step[0] == 1 ? to : (char *)blocks[0];
    vec_where(count, size, in[1], kernel_step[1], in[2], kernel_step[2], in[3], kernel_step[3], y);
    if (y != to) {
      cpu_copy_strided(count, size, y, 1, to, step[0]);
    }
  }
}

void cpu_where_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                       mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  (void)op;
  answer->answer = MT_ABI_SUPPORT_YES;
}

int32_t cpu_where_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                      mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  const mt_operand_v1 *operand[4] = {cpu_out(op), cpu_in(op, 0), cpu_in(op, 1), cpu_in(op, 2)};
  char *data[4] = {operand[0]->data, operand[1]->data, operand[2]->data, operand[3]->data};
  int each = cpu_dtype_size(operand[0]->dtype), size[4] = {each, 1, each, each};
  cpu_nest nest;
  cpu_nest_build(&nest, 4, operand);
  cpu_nest_run(queue->plugin, &nest, data, size, 65536.0, where_row, &each);
  return MT_ABI_OK;
}
