// SPDX-License-Identifier: Apache-2.0
/* elementwise.c - ops that work on one element at a time, f32. */
#include "cpu.h"

/* Elements that are gathered, computed and scattered at once where strides are not 1. */
enum { BLOCK = 512 };

static cpu_unary_fn *const unary_kernels[CPU_UNARY_COUNT] = {
    [CPU_RELU] = vec_relu,   [CPU_GELU] = vec_gelu,       [CPU_GELU_TANH] = vec_gelu_tanh,
    [CPU_SILU] = vec_silu,   [CPU_SIGMOID] = vec_sigmoid, [CPU_TANH] = vec_tanh,
    [CPU_EXP] = vec_exp,     [CPU_LOG] = vec_log,         [CPU_SQRT] = vec_sqrt,
    [CPU_SCALE] = vec_scale,
};

static cpu_binary_fn *const binary_kernels[CPU_BINARY_COUNT] = {
    [CPU_ADD] = vec_add, [CPU_SUB] = vec_sub, [CPU_MUL] = vec_mul, [CPU_DIV] = vec_div};

cpu_unary_fn *cpu_unary_kernel(int kind) {
  return unary_kernels[kind];
}

typedef struct elementwise_job {
  cpu_unary_fn *unary;
  cpu_binary_fn *binary;
  float factor;
} elementwise_job;

/* Where the kernel reads: the operand itself (step 0 or 1), or a copy in block. */
static const float *readable(int64_t n, const char *src, int64_t step, float *block,
                             int *kernel_step) {
  *kernel_step = step == 0 ? 0 : 1;
  if (step == 0 || step == 1) {
    return (const float *)src;
  }
  cpu_copy_strided(n, sizeof(float), src, step, (char *)block, 1);
  return block;
}

static void compute(const elementwise_job *job, int64_t n, char *const *data, const int64_t *step,
                    float *y, float blocks[2][BLOCK]) {
  int step_a, step_b;
  const float *a = readable(n, data[1], step[1], blocks[0], &step_a);
  if (job->binary) {
    const float *b = readable(n, data[2], step[2], blocks[1], &step_b);
    job->binary(n, a, step_a, b, step_b, y);
  } else if (step_a == 0 && n > 1) {
    job->unary(1, a, job->factor, y);
    cpu_copy_strided(n - 1, sizeof(float), (const char *)y, 0, (char *)(y + 1), 1);
  } else {
    job->unary(n, a, job->factor, y);
  }
}

static bool direct(int64_t step) {
  return step == 0 || step == 1;
}

static void elementwise_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const elementwise_job *job = arg;
  float blocks[2][BLOCK], y[BLOCK];
  if (step[0] == 1 && direct(step[1]) && (!job->binary || direct(step[2]))) {
    compute(job, n, data, step, (float *)data[0], blocks);
    return;
  }
  char *at[3] = {data[0], data[1], job->binary ? data[2] : NULL};
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t count = cpu_min(BLOCK, n - i);
    compute(job, count, at, step, y, blocks);
    cpu_copy_strided(count, sizeof(float), (const char *)y, 1, at[0], step[0]);
    at[0] += count * step[0] * (int64_t)sizeof(float);
    at[1] += count * step[1] * (int64_t)sizeof(float);
    if (job->binary) {
      at[2] += count * step[2] * (int64_t)sizeof(float);
    }
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
  int size[3] = {sizeof(float), sizeof(float), sizeof(float)};
  cpu_nest nest;
  cpu_nest_build(&nest, operands, operand);
  cpu_nest_run(plugin, &nest, data, size, grain, elementwise_row, job);
}

static void f32_only(const mt_op_v1 *op, mt_support_v1 *answer) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (cpu_in(op, i)->dtype != MT_ABI_DTYPE_F32) {
      cpu_no(answer, "dtype %s: f32 only", cpu_dtype_name(cpu_in(op, i)->dtype));
      return;
    }
  }
  answer->answer = MT_ABI_SUPPORT_YES;
}

void cpu_unary_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                       mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  f32_only(op, answer);
}

void cpu_binary_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  f32_only(op, answer);
}

int32_t cpu_unary_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                      mt_message_v1 *msg) {
  (void)plan;
  (void)msg;
  const cpu_plugin *plugin = queue->plugin;
  bool light = kind == CPU_RELU || kind == CPU_SCALE || kind == CPU_SQRT;
  elementwise_job job = {cpu_unary_kernel(kind), NULL,
                         (float)cpu_attr_f64(plugin, op, CPU_ATTR_FACTOR, 1.0)};
  run(plugin, op, &job, light ? 65536.0 : 8192.0);
  return MT_ABI_OK;
}

int32_t cpu_binary_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)plan;
  (void)msg;
  elementwise_job job = {NULL, binary_kernels[kind], 0.0f};
  run(queue->plugin, op, &job, 65536.0);
  return MT_ABI_OK;
}
