// SPDX-License-Identifier: Apache-2.0
/*
 * What "late" does, all f32 and contiguous:
 *   matmul  batches with equal leading axes, or one right operand for all; bias in the
 *           shape of the result; activation none and relu; q8_0 on the right when set
 *   add     operands in the shape of the result
 *   relu
 *   copy    any plain type
 *   mul     device 1 only, so that a chain can need both devices
 * Operands that are not contiguous (broadcast ones too) are asked for after relayout; all
 * else is refused with a reason.
 */
#include "late.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading descriptions ------------------------------------------------------------------- */

static const mt_operand_v1 *input(const mt_op_v1 *op, uint32_t i) {
  return (const mt_operand_v1 *)((const char *)op->inputs + (size_t)i * op->operand_stride);
}

static bool present(const mt_op_v1 *op, uint32_t i) {
  return i < op->input_count && input(op, i)->dtype != MT_ABI_DTYPE_NONE;
}

static int64_t elements(const mt_operand_v1 *operand) {
  int64_t count = 1;
  for (int32_t i = 0; i < operand->rank; i++) {
    count *= operand->shape[i];
  }
  return count;
}

static bool contiguous(const mt_operand_v1 *operand) {
  int64_t expected = 1;
  for (int32_t i = operand->rank - 1; i >= 0; i--) {
    if (operand->shape[i] != 1 && operand->stride[i] != expected) {
      return elements(operand) == 0;
    }
    expected *= operand->shape[i];
  }
  return true;
}

/* Are the first `axes` extents equal? */
static bool same_leading(const mt_operand_v1 *a, const mt_operand_v1 *b, int32_t axes) {
  return axes <= 0 || memcmp(a->shape, b->shape, (size_t)axes * sizeof(int64_t)) == 0;
}

static bool same_shape(const mt_operand_v1 *a, const mt_operand_v1 *b) {
  return a->rank == b->rank && same_leading(a, b, a->rank);
}

static uint64_t dtype_bytes(int32_t dtype) {
  static const uint8_t bytes[] = {
      [MT_ABI_DTYPE_F32] = 4,  [MT_ABI_DTYPE_F64] = 8, [MT_ABI_DTYPE_F16] = 2,
      [MT_ABI_DTYPE_BF16] = 2, [MT_ABI_DTYPE_I8] = 1,  [MT_ABI_DTYPE_U8] = 1,
      [MT_ABI_DTYPE_I16] = 2,  [MT_ABI_DTYPE_I32] = 4, [MT_ABI_DTYPE_I64] = 8,
      [MT_ABI_DTYPE_BOOL] = 1};
  return dtype > 0 && (size_t)dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

typedef struct attrs {
  double alpha, beta;
  int64_t activation;
  bool unknown; /* one that is required and not known */
} attrs;

static attrs read_attrs(const late_names *names, const mt_op_v1 *op) {
  attrs out = {.alpha = 1};
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const mt_attr_v1 *attr =
        (const mt_attr_v1 *)((const char *)op->attrs + (size_t)i * op->attr_stride);
    bool matmul = op->op == names->matmul && attr->key != 0;
    if (matmul && attr->key == names->alpha && attr->type == MT_ABI_ATTR_F64) {
      out.alpha = attr->value.f64;
    } else if (matmul && attr->key == names->beta && attr->type == MT_ABI_ATTR_F64) {
      out.beta = attr->value.f64;
    } else if (matmul && attr->key == names->activation && attr->type == MT_ABI_ATTR_I64) {
      out.activation = attr->value.i64;
    } else if (attr->flags & MT_ABI_ATTR_REQUIRED) {
      out.unknown = true;
    }
  }
  return out;
}

/* ---- answers -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int32_t refuse(mt_support_v1 *support,
                                                            const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (support->reason && support->reason_bytes > 0) {
    vsnprintf(support->reason, support->reason_bytes, format, args);
  }
  va_end(args);
  support->answer = MT_ABI_SUPPORT_NO;
  return MT_ABI_OK;
}

/* Yes, after what is not contiguous was made so. */
static int32_t accept(const mt_op_v1 *op, mt_support_v1 *support, uint64_t blocks) {
  support->relayout_inputs = support->relayout_outputs = 0;
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (present(op, i) && !(blocks >> i & 1) && !contiguous(input(op, i))) {
      support->relayout_inputs |= UINT64_C(1) << i;
    }
  }
  support->relayout_outputs = contiguous(op->outputs) ? 0 : 1;
  support->answer = support->relayout_inputs || support->relayout_outputs
                        ? MT_ABI_SUPPORT_AFTER_RELAYOUT
                        : MT_ABI_SUPPORT_YES;
  return MT_ABI_OK;
}

static int32_t support_elementwise(const mt_op_v1 *op, mt_support_v1 *support, uint32_t inputs) {
  if (op->input_count != inputs) {
    return refuse(support, "%u inputs: expected %u", op->input_count, inputs);
  }
  for (uint32_t i = 0; i <= inputs; i++) {
    const mt_operand_v1 *operand = i < inputs ? input(op, i) : op->outputs;
    if (operand->dtype != MT_ABI_DTYPE_F32) {
      return refuse(support, "dtype %d: f32 only", operand->dtype);
    }
    if (!same_shape(operand, op->outputs)) {
      return refuse(support, "operand %u is not in the shape of the result", i);
    }
  }
  return accept(op, support, 0);
}

static int32_t support_copy(const mt_op_v1 *op, mt_support_v1 *support) {
  if (op->input_count != 1 || dtype_bytes(input(op, 0)->dtype) == 0 ||
      input(op, 0)->dtype != op->outputs->dtype) {
    return refuse(support, "copy: one plain type only");
  }
  if (!contiguous(input(op, 0)) || !contiguous(op->outputs)) {
    return refuse(support, "copy: contiguous only");
  }
  return accept(op, support, 0);
}

/* The right operand in q8_0, blocks along K, its lines one behind the other. */
static int32_t support_blocks(const late_names *names, const mt_op_v1 *op, mt_support_v1 *support) {
  const mt_operand_v1 *b = input(op, 1);
  if (names->q8_0 == 0) {
    return refuse(support, "format q8_0: unknown");
  }
  if (b->format != names->q8_0 || b->rank != 2 || b->block_axis != 0 || b->stride[0] != 1 ||
      b->stride[1] % LATE_Q8_ELEMENTS != 0) {
    return refuse(support, "block operand: a matrix in q8_0 with blocks along K only");
  }
  return MT_ABI_OK;
}

static int32_t support_matmul_shapes(const mt_op_v1 *op, mt_support_v1 *support) {
  const mt_operand_v1 *a = input(op, 0), *b = input(op, 1), *out = op->outputs;
  if (a->rank != out->rank || (b->rank != 2 && b->rank != out->rank) ||
      !same_leading(a, out, out->rank - 2) ||
      (b->rank > 2 && !same_leading(b, out, out->rank - 2))) {
    return refuse(support, "matmul: leading axes that broadcast");
  }
  if (present(op, 2) && !same_shape(input(op, 2), out)) {
    return refuse(support, "matmul: a bias that is not in the shape of the result");
  }
  return MT_ABI_OK;
}

static int32_t support_matmul(const late_names *names, const mt_op_v1 *op, mt_support_v1 *support) {
  attrs at = read_attrs(names, op);
  if (op->input_count < 2 || op->input_count > 3) {
    return refuse(support, "matmul: %u inputs", op->input_count);
  }
  bool blocks = input(op, 1)->dtype == MT_ABI_DTYPE_BLOCK;
  for (uint32_t i = 0; i < op->input_count; i++) {
    bool fine = input(op, i)->dtype == MT_ABI_DTYPE_F32 || (i == 1 && blocks) ||
                (i == 2 && !present(op, 2));
    if (!fine) {
      return refuse(support, "dtype %d: f32 only", input(op, i)->dtype);
    }
  }
  if (at.activation != 0 && at.activation != 1) {
    return refuse(support, "activation %lld: none and relu only", (long long)at.activation);
  }
  support->answer = MT_ABI_SUPPORT_YES;
  if (blocks) {
    support_blocks(names, op, support);
  }
  if (support->answer != MT_ABI_SUPPORT_NO) {
    support_matmul_shapes(op, support);
  }
  support->wants_prepare = 1;
  return support->answer == MT_ABI_SUPPORT_NO ? MT_ABI_OK : accept(op, support, blocks ? 2 : 0);
}

/* From the description alone. */
static int32_t answer(const late_device *device, const mt_op_v1 *op, mt_support_v1 *support) {
  const late_names *names = &device->instance->names;
  bool known =
      op->op != 0 && (op->op == names->matmul || op->op == names->add || op->op == names->relu ||
                      op->op == names->copy || (op->op == names->mul && device->index == 1));
  if (!known) {
    return refuse(support, "no kernel for this op");
  }
  if (read_attrs(names, op).unknown) {
    return refuse(support, "a required attribute is not known");
  }
  return op->op == names->matmul ? support_matmul(names, op, support)
         : op->op == names->copy ? support_copy(op, support)
                                 : support_elementwise(op, support, op->op == names->relu ? 1 : 2);
}

int32_t late_op_support(void *handle, const mt_op_v1 *op, mt_support_v1 *support) {
  const late_device *device = handle;
  late_check_process(device->instance);
  if (op->output_count != 1 || op->operand_stride < sizeof(mt_operand_v1)) {
    late_violation("op_support: %u outputs, stride %u", op->output_count, op->operand_stride);
    return refuse(support, "not a valid description");
  }
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (input(op, i)->data || input(op, i)->buffer) {
      late_violation("op_support: input %u comes with data", i);
    }
  }
  return answer(device, op, support);
}

/* ---- finding operands ---------------------------------------------------------------------------
 */

static uint64_t span(const mt_operand_v1 *operand) {
  if (operand->dtype != MT_ABI_DTYPE_BLOCK) {
    return (uint64_t)elements(operand) * dtype_bytes(operand->dtype);
  }
  int64_t last = operand->shape[1] > 0 ? (operand->shape[1] - 1) * operand->stride[1] : 0;
  int64_t blocks = (operand->shape[0] + LATE_Q8_ELEMENTS - 1) / LATE_Q8_ELEMENTS;
  return (uint64_t)((last / LATE_Q8_ELEMENTS + blocks) * LATE_Q8_BYTES);
}

/* Host memory, when the device works on that. */
static void *locate_on_host(const mt_operand_v1 *operand) {
  static char nothing[1];
  if (operand->buffer || (!operand->data && span(operand) > 0)) {
    late_violation("op: an operand is not in host memory");
    return NULL;
  }
  return operand->data ? operand->data : nothing;
}

/* Where the operand is; its buffer is noted in the command. NULL: it breaks a rule. */
static void *locate(const late_device *device, const mt_operand_v1 *operand, bool written,
                    late_command *command) {
  late_buffer *buffer = operand->buffer;
  if (device->instance->config.host_pointers != 0) {
    return locate_on_host(operand);
  }
  if (operand->data || !late_range_ok(device, buffer, operand->byte_offset, span(operand), "op")) {
    late_violation("op: an operand is not in a buffer of device %u", device->index);
    return NULL;
  }
  if (operand->byte_offset % LATE_ALIGNMENT != 0) {
    late_violation("op: an operand's offset is %llu: expected a multiple of %d",
                   (unsigned long long)operand->byte_offset, LATE_ALIGNMENT);
    return NULL;
  }
  if (written) {
    command->writes |= 1u << command->buffers;
  }
  command->buffer[command->buffers++] = buffer;
  return buffer->data + operand->byte_offset;
}

static void set_matmul(const late_device *device, const mt_op_v1 *op, late_work *work) {
  const mt_operand_v1 *a = input(op, 0), *b = input(op, 1), *out = op->outputs;
  attrs at = read_attrs(&device->instance->names, op);
  work->m = out->shape[out->rank - 2];
  work->n = out->shape[out->rank - 1];
  work->k = a->shape[a->rank - 1];
  work->batch = 1;
  for (int32_t i = 0; i < out->rank - 2; i++) {
    work->batch *= out->shape[i];
  }
  work->b_step = b->rank > 2 ? work->k * work->n : 0;
  work->b_row_bytes =
      b->dtype == MT_ABI_DTYPE_BLOCK ? b->stride[1] / LATE_Q8_ELEMENTS * LATE_Q8_BYTES : 0;
  work->alpha = at.alpha;
  work->beta = at.beta;
  work->relu = at.activation == 1;
  work->kernel = late_kernel_matmul;
}

static void set_work(const late_device *device, const mt_op_v1 *op, late_work *work) {
  const late_names *names = &device->instance->names;
  if (op->op == names->matmul) {
    set_matmul(device, op, work);
    return;
  }
  work->count = (uint64_t)elements(op->outputs);
  work->bytes = work->count * dtype_bytes(op->outputs->dtype);
  work->kernel = op->op == names->add    ? late_kernel_add
                 : op->op == names->mul  ? late_kernel_mul
                 : op->op == names->relu ? late_kernel_relu
                                         : late_kernel_copy;
}

static bool find_operands(const late_device *device, const mt_op_v1 *op, late_command *command) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (present(op, i)) {
      command->work.in[i] = locate(device, input(op, i), false, command);
      if (!command->work.in[i]) {
        return false;
      }
    }
  }
  command->work.out = locate(device, op->outputs, true, command);
  return command->work.out != NULL;
}

/* Matches what prepare saw? */
static bool plan_fits(const late_plan *plan, const late_device *device, const late_work *work) {
  return plan->device == device && plan->m == work->m && plan->n == work->n && plan->k == work->k;
}

int32_t late_execute(void *handle, void *plan_handle, const mt_op_v1 *op, uint64_t *point,
                     mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_device *device = queue->device;
  late_plan *plan = plan_handle;
  mt_support_v1 support = {.struct_size = sizeof(support)};
  answer(device, op, &support);
  if (support.answer != MT_ABI_SUPPORT_YES || !!plan != !!support.wants_prepare) {
    late_violation("execute: of what op_support does not take, or the plan is %s",
                   plan ? "one too many" : "missing");
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "execute: not supported");
  }
  late_command *command = calloc(1, sizeof(*command));
  if (!command) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "a command");
  }
  command->kind = LATE_EXECUTE;
  command->plan = plan;
  set_work(device, op, &command->work);
  bool fine = find_operands(device, op, command);
  if (fine && plan && !plan_fits(plan, device, &command->work)) {
    late_violation("execute: the plan was made for another description");
    fine = false;
  }
  if (!fine) {
    free(command);
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "execute: bad operands or plan");
  }
  if (plan && plan->packed) {
    command->work.in[1] = plan->packed;
  }
  return late_submit(queue, command, point, msg);
}

/* ---- plans -------------------------------------------------------------------------------------
 */

/* A copy of the constant right operand: its content must be there by now. */
static bool pack(late_device *device, const mt_operand_v1 *b, late_plan *plan) {
  const mt_host_v1 *host = device->instance->host;
  late_command probe = {0}; /* notes the buffer */
  const void *data = locate(device, b, false, &probe);
  plan->packed = host->alloc(host->ctx, span(b), LATE_ALIGNMENT);
  if (!plan->packed || !data) {
    return plan->packed != NULL;
  }
  pthread_mutex_lock(&device->lock);
  bool pending = probe.buffers > 0 && probe.buffer[0]->writers > 0;
  device->count.packs++;
  pthread_mutex_unlock(&device->lock);
  if (pending) {
    late_violation("prepare: the constant operand is still to be written");
    memset(plan->packed, 0, span(b));
    return true;
  }
  memcpy(plan->packed, data, span(b));
  return true;
}

int32_t late_prepare(void *handle, const mt_op_v1 *op, void **out, mt_message_v1 *msg) {
  late_device *device = handle;
  mt_support_v1 support = {.struct_size = sizeof(support)};
  *out = NULL;
  answer(device, op, &support);
  if (support.answer != MT_ABI_SUPPORT_YES || !support.wants_prepare) {
    late_violation("prepare: of what op_support does not take so");
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "prepare: not supported");
  }
  late_plan *plan = calloc(1, sizeof(*plan));
  late_work work = {0};
  set_work(device, op, &work);
  if (plan) {
    *plan = (late_plan){.device = device, .m = work.m, .n = work.n, .k = work.k};
  }
  if (!plan ||
      (input(op, 1)->flags & MT_ABI_OPERAND_CONSTANT && !pack(device, input(op, 1), plan))) {
    free(plan);
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "a plan");
  }
  pthread_mutex_lock(&device->lock);
  device->count.prepares++;
  device->count.live_plans++;
  pthread_mutex_unlock(&device->lock);
  *out = plan;
  return MT_ABI_OK;
}

void late_plan_free(void *handle, void *ptr) {
  late_device *device = handle;
  late_plan *plan = ptr;
  const mt_host_v1 *host = device->instance->host;
  late_check_process(device->instance);
  pthread_mutex_lock(&device->lock);
  if (plan->device != device || plan->users > 0) {
    late_violation("plan_free: of another device, or %u commands still use it", plan->users);
  }
  device->count.live_plans--;
  pthread_mutex_unlock(&device->lock);
  host->free(host->ctx, plan->packed);
  free(plan);
}
