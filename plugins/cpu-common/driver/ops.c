// SPDX-License-Identifier: Apache-2.0
/* ops.c - the list of ops, what is checked for all of them, and reading attributes. */
#include "cpu.h"

#include <stdarg.h>
#include <stdio.h>

#define ATTR(name) (UINT64_C(1) << CPU_ATTR_##name)
_Static_assert(CPU_ATTR_COUNT <= 64, "cpu_op.attrs has 64 bits");
#define UNARY(name, kind)                                                                          \
  { name, 0, kind, cpu_unary_support, cpu_unary_run, NULL }
#define BINARY(name, kind)                                                                         \
  { name, 0, kind, cpu_binary_support, cpu_binary_run, NULL }
#define REDUCE(name, kind)                                                                         \
  { name, ATTR(AXES) | ATTR(KEEPDIMS), kind, cpu_reduce_support, cpu_reduce_run, NULL }

const cpu_op cpu_ops[] = {
    {"matmul", ATTR(ALPHA) | ATTR(BETA) | ATTR(ACTIVATION), 0, cpu_matmul_support, cpu_matmul_run,
     cpu_matmul_prepare},
    BINARY("add", CPU_ADD),
    BINARY("sub", CPU_SUB),
    BINARY("mul", CPU_MUL),
    BINARY("div", CPU_DIV),
    {"scale", ATTR(FACTOR), CPU_SCALE, cpu_unary_support, cpu_unary_run, NULL},
    UNARY("relu", CPU_RELU),
    UNARY("gelu", CPU_GELU),
    UNARY("gelu_tanh", CPU_GELU_TANH),
    UNARY("silu", CPU_SILU),
    UNARY("sigmoid", CPU_SIGMOID),
    UNARY("tanh", CPU_TANH),
    UNARY("exp", CPU_EXP),
    UNARY("log", CPU_LOG),
    UNARY("sqrt", CPU_SQRT),
    UNARY("sin", CPU_SIN),
    UNARY("cos", CPU_COS),
    UNARY("erf", CPU_ERF),
    UNARY("rsqrt", CPU_RSQRT),
    UNARY("reciprocal", CPU_RECIPROCAL),
    UNARY("floor", CPU_FLOOR),
    UNARY("ceil", CPU_CEIL),
    UNARY("round", CPU_ROUND),
    UNARY("neg", CPU_NEG),
    UNARY("abs", CPU_ABS),
    BINARY("maximum", CPU_MAXIMUM),
    BINARY("minimum", CPU_MINIMUM),
    BINARY("pow", CPU_POW),
    BINARY("equal", CPU_EQUAL),
    BINARY("not_equal", CPU_NOT_EQUAL),
    BINARY("less", CPU_LESS),
    BINARY("less_equal", CPU_LESS_EQUAL),
    BINARY("greater", CPU_GREATER),
    BINARY("greater_equal", CPU_GREATER_EQUAL),
    REDUCE("sum", CPU_SUM),
    REDUCE("mean", CPU_MEAN),
    REDUCE("max", CPU_MAX_OF),
    REDUCE("min", CPU_MIN_OF),
    {"softmax", ATTR(AXIS), CPU_SOFTMAX, cpu_softmax_support, cpu_softmax_run, NULL},
    {"log_softmax", ATTR(AXIS), CPU_LOG_SOFTMAX, cpu_softmax_support, cpu_softmax_run, NULL},
    {"layer_norm", ATTR(AXIS) | ATTR(EPSILON), CPU_LAYER_NORM, cpu_norm_support, cpu_norm_run,
     NULL},
    {"rms_norm", ATTR(EPSILON), CPU_RMS_NORM, cpu_norm_support, cpu_norm_run, NULL},
    {"batch_norm_train", ATTR(AXIS) | ATTR(EPSILON), CPU_BATCH_NORM_TRAIN, cpu_norm_support,
     cpu_norm_run, NULL},
    {"batch_norm", ATTR(EPSILON), 0, cpu_unary_support, cpu_batch_norm_run, NULL},
    {"rope", ATTR(DIMS) | ATTR(BASE) | ATTR(SCALE) | ATTR(INTERLEAVED) | ATTR(INVERSE), 0,
     cpu_rope_support, cpu_rope_run, NULL},
    {"conv2d", ATTR(STRIDE) | ATTR(PADDING) | ATTR(DILATION) | ATTR(GROUPS) | ATTR(ACTIVATION), 0,
     cpu_conv2d_support, cpu_conv2d_run, cpu_conv2d_prepare},
    {"attention", ATTR(SCALE) | ATTR(CAUSAL) | ATTR(SOFTCAP), 0, cpu_attention_support,
     cpu_attention_run, NULL},
    {"bitlinear", 0, 0, cpu_bitlinear_support, cpu_bitlinear_run, NULL},
    {"tsi_infuse", 0, CPU_TSI_INFUSE, cpu_tsi_support, cpu_tsi_run, NULL},
    {"tsi_read", 0, CPU_TSI_READ, cpu_tsi_support, cpu_tsi_run, NULL},
    {"tsi_scan", ATTR(CHUNK), CPU_TSI_SCAN, cpu_tsi_support, cpu_tsi_run, NULL},
    {"argmax", ATTR(AXIS) | ATTR(KEEPDIMS), CPU_ARGMAX, cpu_lines_support, cpu_lines_run, NULL},
    {"argmin", ATTR(AXIS) | ATTR(KEEPDIMS), CPU_ARGMIN, cpu_lines_support, cpu_lines_run, NULL},
    {"topk", ATTR(AXIS) | ATTR(LARGEST), CPU_TOPK, cpu_lines_support, cpu_lines_run, NULL},
    {"cumsum", ATTR(AXIS) | ATTR(EXCLUSIVE) | ATTR(REVERSE), CPU_CUMSUM, cpu_lines_support,
     cpu_lines_run, NULL},
    {"max_pool2d", ATTR(KERNEL) | ATTR(STRIDE) | ATTR(PADDING) | ATTR(DILATION), CPU_MAX_POOL,
     cpu_pool_support, cpu_pool_run, NULL},
    {"avg_pool2d", ATTR(KERNEL) | ATTR(STRIDE) | ATTR(PADDING) | ATTR(COUNT_INCLUDE_PAD),
     CPU_AVG_POOL, cpu_pool_support, cpu_pool_run, NULL},
    {"upsample", ATTR(MODE) | ATTR(ALIGN_CORNERS), 0, cpu_upsample_support, cpu_upsample_run, NULL},
    {"cross_entropy", ATTR(REDUCTION) | ATTR(IGNORE_INDEX) | ATTR(LABEL_SMOOTHING),
     CPU_CROSS_ENTROPY, cpu_loss_support, cpu_loss_run, NULL},
    {"mse", ATTR(REDUCTION), CPU_MSE, cpu_loss_support, cpu_loss_run, NULL},
    {"pad", ATTR(BEFORE) | ATTR(MODE) | ATTR(VALUE), 0, cpu_pad_support, cpu_pad_run, NULL},
    {"clamp", ATTR(MIN) | ATTR(MAX), CPU_CLAMP, cpu_unary_support, cpu_unary_run, NULL},
    {"where", 0, 0, cpu_where_support, cpu_where_run, NULL},
    {"copy", 0, 0, cpu_copy_support, cpu_copy_run, NULL},
    {"cast", 0, 0, cpu_cast_support, cpu_cast_run, NULL},
    {"concat", ATTR(AXIS), 0, cpu_concat_support, cpu_concat_run, NULL},
    {"gather", 0, 0, cpu_gather_support, cpu_gather_run, NULL},
};
const size_t cpu_op_count = sizeof(cpu_ops) / sizeof(cpu_ops[0]);
_Static_assert(sizeof(cpu_ops) / sizeof(cpu_ops[0]) <= CPU_OP_MAX, "raise CPU_OP_MAX");

const cpu_op *cpu_find_op(const cpu_plugin *plugin, int32_t id) {
  if (id > 0 && id < CPU_ID_MAX) {
    int at = plugin->op_at[id];
    return at > 0 ? &cpu_ops[at - 1] : NULL;
  }
  for (size_t i = 0; i < cpu_op_count; i++) {
    if (plugin->op_id[i] == id && id != 0) {
      return &cpu_ops[i];
    }
  }
  return NULL;
}

/* ---- attributes ---- */
static const mt_attr_v1 *attr_at(const mt_op_v1 *op, uint32_t i) {
  return (const mt_attr_v1 *)((const char *)op->attrs + (size_t)i * op->attr_stride);
}

const mt_attr_v1 *cpu_attribute(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key) {
  for (uint32_t i = 0; i < op->attr_count; i++) {
    if (attr_at(op, i)->key == plugin->attr_id[key] && plugin->attr_id[key] != 0) {
      return attr_at(op, i);
    }
  }
  return NULL;
}

double cpu_attr_f64(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, double fallback) {
  const mt_attr_v1 *attr = cpu_attribute(plugin, op, key);
  return attr && attr->type == MT_ABI_ATTR_F64 ? attr->value.f64 : fallback;
}

int64_t cpu_attr_i64(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, int64_t fallback) {
  const mt_attr_v1 *attr = cpu_attribute(plugin, op, key);
  return attr && attr->type == MT_ABI_ATTR_I64 ? attr->value.i64 : fallback;
}

void cpu_attr_list(const cpu_plugin *plugin, const mt_op_v1 *op, cpu_attr key, int64_t *list) {
  const mt_attr_v1 *attr = cpu_attribute(plugin, op, key);
  for (uint32_t i = 0; attr && attr->type == MT_ABI_ATTR_I64_LIST && i < attr->count; i++) {
    list[i] = attr->value.list[i];
  }
}

static bool knows_attribute(const cpu_plugin *plugin, const cpu_op *def, int32_t key) {
  for (int i = 0; i < CPU_ATTR_COUNT; i++) {
    if (plugin->attr_id[i] == key && key != 0) {
      return (def->attrs >> i) & 1u;
    }
  }
  return false;
}

/* ---- answering ---- */
void cpu_no(mt_support_v1 *answer, const char *format, ...) {
  answer->answer = MT_ABI_SUPPORT_NO;
  if (answer->reason && answer->reason_bytes > 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(answer->reason, answer->reason_bytes, format, args);
    va_end(args);
  }
}

bool cpu_fits(mt_support_v1 *answer, double elements) {
  bool fits = elements <= 0x1p44;
  if (!fits) {
    cpu_no(answer, "%.3g elements to be copied: more than memory holds", elements);
  }
  return fits;
}

static bool ranks_fit(const mt_op_v1 *op, mt_support_v1 *answer) {
  for (uint32_t i = 0; i <= op->input_count; i++) {
    const mt_operand_v1 *x = i < op->input_count ? cpu_in(op, i) : cpu_out(op);
    if (x->dtype != MT_ABI_DTYPE_NONE && x->rank > CPU_MAX_RANK) {
      cpu_no(answer, "rank %d: at most %d", x->rank, CPU_MAX_RANK);
      return false;
    }
  }
  return true;
}

void cpu_op_support(const cpu_plugin *plugin, const mt_op_v1 *op, mt_support_v1 *answer) {
  const cpu_op *def = cpu_find_op(plugin, op->op);
  if (!def) {
    cpu_no(answer, "no kernel for this op");
    return;
  }
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const mt_attr_v1 *attr = attr_at(op, i);
    if ((attr->flags & MT_ABI_ATTR_REQUIRED) && !knows_attribute(plugin, def, attr->key)) {
      cpu_no(answer, "%s: a required attribute (key %d) is not known", def->name, attr->key);
      return;
    }
  }
  if (ranks_fit(op, answer)) {
    def->support(plugin, def->kind, op, answer);
  }
}

/* ---- operands ---- */
const char *cpu_dtype_name(int32_t dtype) {
  static const char *const names[] = {"none", "f32", "f64", "f16", "bf16", "i8",
                                      "u8",   "i16", "i32", "i64", "bool", "block"};
  return dtype >= 0 && dtype < (int32_t)(sizeof(names) / sizeof(names[0])) ? names[dtype]
                                                                           : "unknown";
}

int cpu_dtype_size(int32_t dtype) {
  static const int sizes[] = {0, 4, 8, 2, 2, 1, 1, 2, 4, 8, 1, 0};
  return dtype >= 0 && dtype < (int32_t)(sizeof(sizes) / sizeof(sizes[0])) ? sizes[dtype] : 0;
}

int64_t cpu_elements(const mt_operand_v1 *operand) {
  int64_t count = 1;
  for (int i = 0; i < operand->rank; i++) {
    count *= operand->shape[i];
  }
  return count;
}

/* ---- threads ---- */
void cpu_parallel(const cpu_plugin *plugin, uint32_t tasks, void (*fn)(void *arg, uint32_t task),
                  void *arg) {
  if (tasks <= 1) {
    fn(arg, 0);
    return;
  }
  plugin->host->parallel_for(plugin->host->ctx, tasks, fn, arg);
}

uint32_t cpu_task_count(const cpu_plugin *plugin, double work, double grain) {
  if (work < 2 * grain) {
    return 1;
  }
  uint32_t threads = cpu_threads(plugin);
  double most = work / grain;
  if (threads <= 1) {
    return 1;
  }
  return most < 4.0 * threads ? (uint32_t)most : 4 * threads;
}
