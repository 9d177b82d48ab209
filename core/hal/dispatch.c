// SPDX-License-Identifier: Apache-2.0
/*
 * From a valid call to the kernel that runs it: the first device of the order that
 * supports the op, after copying operands to contiguous layout or decoding block
 * formats where that is what it takes; else the reference kernel, where the backend
 * setting allows it.
 */
#include "../error.h"
#include "../formats/format.h"
#include "../ops/op.h"
#include "hal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = MT_OP_MAX_INPUTS_ABI + 1 + MT_OP_MAX_MORE, REASON_BYTES = 256 };

static const char reference_label[] = "reference";

/* One try at one device. The outputs are the operands from `inputs` on. */
typedef struct attempt {
  mt_runtime *rt;
  mt_device *device;
  const mt_op_call *call;
  size_t inputs, operands;         /* operands: inputs and outputs */
  mt_tensor *tensor[MAX_OPERANDS]; /* NULL: absent */
  bool owned[MAX_OPERANDS];        /* made here */
  mt_operand_v1 operand[MAX_OPERANDS];
  mt_op_v1 op;
  mt_support_v1 support;
  char reason[REASON_BYTES];
  uint32_t relayouts, decodes;
} attempt;

static mt_status run_on_device(attempt *a);

static mt_tensor *output_of(const mt_op_call *call, size_t i) {
  return i == 0 ? call->out : call->more[i - 1];
}

/* ---- the description that plugins see ----------------------------------------------- */

static void describe_operand(mt_operand_v1 *operand, const mt_tensor *tensor) {
  *operand = (mt_operand_v1){.struct_size = sizeof(*operand), .block_axis = -1};
  if (!tensor) {
    return;
  }
  operand->dtype = (int32_t)tensor->dtype;
  operand->format = mt_format_number(tensor->format);
  operand->block_axis = tensor->block_axis;
  operand->rank = tensor->rank;
  operand->shape = tensor->shape;
  operand->stride = tensor->stride;
  if (atomic_load_explicit(&tensor->storage->frozen, memory_order_acquire)) {
    operand->flags = MT_ABI_OPERAND_CONSTANT;
  }
}

static void describe(attempt *a) {
  const mt_op_call *call = a->call;
  a->op = (mt_op_v1){
      .struct_size = sizeof(a->op),
      .op = mt_op_number(call->def),
      .input_count = (uint32_t)a->inputs,
      .output_count = (uint32_t)(a->operands - a->inputs),
      .attr_count = call->attr_count,
      .operand_stride = sizeof(mt_operand_v1),
      .attr_stride = sizeof(mt_attr_v1),
      .inputs = a->operand,
      .outputs = &a->operand[a->inputs],
      .attrs = call->attrs,
  };
  for (size_t i = 0; i < a->operands; i++) {
    describe_operand(&a->operand[i], a->tensor[i]);
  }
}

/* Offsets that do not suit the device are a matter of layout too. */
static void add_misaligned(attempt *a) {
  uint32_t alignment = a->device->info->buffer_alignment;
  if (alignment <= 1 || mt_device_on_host(a->device)) {
    return;
  }
  for (size_t i = 0; i < a->operands; i++) {
    if (a->tensor[i] && a->tensor[i]->byte_offset % alignment != 0) {
      if (i < a->inputs) {
        a->support.relayout_inputs |= UINT64_C(1) << i;
      } else {
        a->support.relayout_outputs |= UINT64_C(1) << (i - a->inputs);
      }
      a->support.answer = MT_ABI_SUPPORT_AFTER_RELAYOUT;
    }
  }
}

/* op_support on what describe() wrote. */
static int32_t ask_described(attempt *a) {
  a->reason[0] = '\0';
  a->support = (mt_support_v1){
      .struct_size = sizeof(a->support), .reason_bytes = sizeof(a->reason), .reason = a->reason};
  int32_t code = a->device->table->op_support(a->device->handle, &a->op, &a->support);
  a->reason[sizeof(a->reason) - 1] = '\0';
  if (code != MT_ABI_OK) {
    a->support.answer = MT_ABI_SUPPORT_NO;
  }
  if (a->support.answer == MT_ABI_SUPPORT_NO) {
    if (!a->reason[0]) {
      snprintf(a->reason, sizeof(a->reason), "not supported (no reason given)");
    }
    return MT_ABI_SUPPORT_NO;
  }
  add_misaligned(a);
  return a->support.answer;
}

static int32_t ask(attempt *a) {
  describe(a);
  return ask_described(a);
}

/* ---- attempts ----------------------------------------------------------------------- */

static void attempt_start(attempt *a, mt_runtime *rt, mt_device *device, const mt_op_call *call) {
  a->rt = rt;
  a->device = device;
  a->call = call;
  a->inputs = call->in_count;
  a->operands = call->in_count + 1 + call->more_count;
  a->relayouts = a->decodes = 0;
  for (size_t i = 0; i < a->operands; i++) {
    a->tensor[i] = i < a->inputs ? call->in[i] : output_of(call, i - a->inputs);
    a->owned[i] = false;
  }
}

static void attempt_end(attempt *a) {
  for (size_t i = 0; i < a->operands; i++) {
    if (a->owned[i]) {
      mt_tensor_release(&a->tensor[i]);
    }
  }
}

static void replace(attempt *a, size_t i, mt_tensor *tensor) {
  if (a->owned[i]) {
    mt_tensor_release(&a->tensor[i]);
  }
  a->tensor[i] = tensor;
  a->owned[i] = true;
}

/* ---- the reference kernels ---------------------------------------------------------- */

static mt_view view_of(const mt_tensor *tensor) {
  if (!tensor) {
    return (mt_view){.dtype = MT_DTYPE_NONE, .block_axis = -1};
  }
  return (mt_view){tensor->dtype,
                   tensor->format,
                   tensor->rank,
                   tensor->block_axis,
                   tensor->shape,
                   tensor->stride,
                   (char *)tensor->storage->host + tensor->byte_offset};
}

static mt_status outputs_to_host(const mt_op_call *call, mt_view *out, mt_view *more) {
  for (size_t i = 0; i <= call->more_count; i++) {
    MT_TRY(mt_storage_to_host(output_of(call, i)->storage, true));
    *(i == 0 ? out : &more[i - 1]) = view_of(output_of(call, i));
  }
  return MT_OK;
}

static mt_status run_reference(const mt_op_call *call) {
  mt_view on_stack[16], more[MT_OP_MAX_MORE];
  mt_view *in = call->in_count <= 16 ? on_stack : malloc(call->in_count * sizeof(*in));
  if (!in) {
    return mt_fail_memory(call->in_count * sizeof(*in), "operands");
  }
  mt_ref_call ref = {.in = in,
                     .in_count = call->in_count,
                     .more = more,
                     .attrs = call->attrs,
                     .attr_count = call->attr_count};
  mt_status status = MT_OK;
  for (size_t i = 0; status == MT_OK && i < call->in_count; i++) {
    status = call->in[i] ? mt_storage_to_host(call->in[i]->storage, false) : MT_OK;
    in[i] = view_of(call->in[i]);
  }
  if (status == MT_OK) {
    status = outputs_to_host(call, &ref.out, more);
  }
  if (status == MT_OK) {
    status = call->def->reference(&ref);
  }
  if (in != on_stack) {
    free(in);
  }
  return status;
}

/* ---- what it takes to be supported ----------------------------------------- */

/* from to to, which has the same shape: on the device if it can, else on the host. */
static mt_status copy_between(mt_runtime *rt, mt_device *device, mt_tensor *from, mt_tensor *to) {
  mt_op_call call = {.def = mt_op_at(mt_op_find("copy", 1)), .in = &from, .in_count = 1, .out = to};
  attempt *copy = malloc(sizeof(*copy)); /* it is large, and this one is nested */
  if (!copy) {
    return mt_fail_memory(sizeof(*copy), "a copy");
  }
  attempt_start(copy, rt, device, &call);
  mt_status status = ask(copy) == MT_ABI_SUPPORT_YES ? run_on_device(copy) : run_reference(&call);
  free(copy);
  return status;
}

static mt_status packed_like(const mt_tensor *tensor, mt_tensor **out) {
  mt_layout layout;
  MT_TRY(mt_layout_packed("relayout", tensor->dtype, tensor->format, tensor->rank, tensor->shape,
                          &layout));
  return mt_tensor_create_lazy(&layout, out);
}

static mt_status relayout_input(attempt *a, size_t i) {
  mt_tensor *packed = NULL;
  MT_TRY(packed_like(a->tensor[i], &packed));
  mt_status status = copy_between(a->rt, a->device, a->tensor[i], packed);
  if (status != MT_OK) {
    mt_tensor_release(&packed);
    return status;
  }
  replace(a, i, packed);
  a->relayouts++;
  return MT_OK;
}

/* The op writes a packed tensor, which run_attempt copies to the real output. */
static mt_status relayout_output(attempt *a, size_t i) {
  mt_tensor *packed = NULL;
  mt_tensor *out = output_of(a->call, i);
  MT_TRY(packed_like(out, &packed));
  mt_status status =
      i == 0 && a->call->reads_out ? copy_between(a->rt, a->device, out, packed) : MT_OK;
  if (status != MT_OK) {
    mt_tensor_release(&packed);
    return status;
  }
  replace(a, a->inputs + i, packed);
  a->relayouts++;
  return MT_OK;
}

static mt_status relayout(attempt *a) {
  uint64_t inputs = a->support.relayout_inputs, outputs = a->support.relayout_outputs;
  for (size_t i = 0; i < a->inputs; i++) {
    if ((inputs >> i & 1) && a->tensor[i]) {
      if (a->tensor[i]->block_axis >= 0 && a->tensor[i]->block_axis != a->tensor[i]->rank - 1) {
        snprintf(a->reason, sizeof(a->reason), "blocks along axis %d cannot be made contiguous",
                 a->tensor[i]->block_axis);
        return MT_ERR_UNSUPPORTED;
      }
      MT_TRY(relayout_input(a, i));
    }
  }
  for (size_t i = 0; i < a->operands - a->inputs; i++) {
    if (outputs >> i & 1) {
      MT_TRY(relayout_output(a, i));
    }
  }
  return MT_OK;
}

/* The axes in order, but the block axis last; and the way back. */
static void lines_last(const mt_tensor *tensor, int *to_last, int *back) {
  int n = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (i != tensor->block_axis) {
      to_last[n++] = i;
    }
  }
  to_last[n] = tensor->block_axis;
  for (int i = 0; i < tensor->rank; i++) {
    back[to_last[i]] = i;
  }
}

/* A block tensor as f32 of the same shape. */
static mt_status decode(mt_tensor *tensor, mt_tensor **out) {
  int to_last[MT_MAX_RANK], back[MT_MAX_RANK];
  mt_tensor *lines = NULL, *plain = NULL;
  mt_layout layout;
  lines_last(tensor, to_last, back);
  mt_status status = mt_tensor_permute(tensor, to_last, &lines);
  if (status == MT_OK) {
    status = mt_layout_packed("decode", MT_F32, NULL, lines->rank, lines->shape, &layout);
  }
  if (status == MT_OK) {
    status = mt_tensor_create_lazy(&layout, &plain);
  }
  if (status == MT_OK) {
    mt_op_call call = {
        .def = mt_op_at(mt_op_find("cast", 1)), .in = &lines, .in_count = 1, .out = plain};
    status = run_reference(&call);
  }
  if (status == MT_OK) {
    status = mt_tensor_permute(plain, back, out);
  }
  mt_tensor_release(&lines);
  mt_tensor_release(&plain);
  return status;
}

/* Would the device take the op with input i decoded? Asks before any work is done. Only
 * where the op computes with the values: copy and cast are about the bytes. */
static bool takes_decoded(attempt *a, size_t i) {
  const mt_tensor *tensor = a->tensor[i];
  int to_last[MT_MAX_RANK], back[MT_MAX_RANK];
  int64_t stride[MT_MAX_RANK], step = 1;
  if (a->call->out->dtype == MT_BLOCK || strcmp(a->call->def->name, "cast") == 0) {
    return false;
  }
  lines_last(tensor, to_last, back);
  for (int n = tensor->rank - 1; n >= 0; n--) {
    stride[to_last[n]] = step;
    step *= tensor->shape[to_last[n]];
  }
  describe(a);
  mt_operand_v1 *operand = &a->operand[i];
  operand->dtype = MT_ABI_DTYPE_F32;
  operand->format = 0;
  operand->block_axis = -1;
  operand->flags = 0;
  operand->stride = stride;
  return ask_described(a) != MT_ABI_SUPPORT_NO;
}

/* NO with a block operand (ops have at most one): decode it if that is what it takes. */
static mt_status try_decoding(attempt *a, int32_t *answer) {
  char first[REASON_BYTES];
  memcpy(first, a->reason, sizeof(first));
  for (size_t i = 0; i < a->inputs; i++) {
    mt_tensor *plain = NULL;
    if (!a->tensor[i] || a->tensor[i]->dtype != MT_BLOCK || !takes_decoded(a, i)) {
      continue;
    }
    MT_TRY(decode(a->tensor[i], &plain));
    replace(a, i, plain);
    a->decodes++;
    *answer = ask(a);
    return MT_OK;
  }
  memcpy(a->reason, first, sizeof(first));
  return MT_OK;
}

/* ---- running on a device ---------------------------------------------------- */

static mt_status plan_for(attempt *a, bool storage_locked, mt_plan **plan) {
  *plan = NULL;
  if (!a->support.wants_prepare || !a->device->table->prepare) {
    return MT_OK;
  }
  return mt_plan_get(a->device, &a->op, a->tensor, storage_locked, plan);
}

/* Devices that compute on host memory before they return: no points, no residency. */
static mt_status run_in_place(attempt *a) {
  mt_device *device = a->device;
  mt_plan *plan;
  void *queue;
  for (size_t i = 0; i < a->operands; i++) {
    if (a->tensor[i]) {
      mt_storage *storage = a->tensor[i]->storage;
      MT_TRY(mt_storage_to_host(storage, i >= a->inputs));
      a->operand[i].data = (char *)storage->host + a->tensor[i]->byte_offset;
    }
  }
  MT_TRY(plan_for(a, false, &plan));
  mt_status status = mt_device_take_queue(device, &queue);
  if (status == MT_OK) {
    char text[512];
    text[0] = '\0'; /* the rest need not be cleared, on every call */
    mt_message_v1 msg = mt_message_in(text, sizeof(text));
    uint64_t point = 0;
    int32_t code = device->table->execute(queue, mt_plan_handle(plan), &a->op, &point, &msg);
    mt_device_give_queue(device, queue);
    status = code == MT_ABI_OK ? MT_OK : mt_device_fail(device, code, a->call->def->name, text);
  }
  mt_plan_put(device, plan, 0);
  return status;
}

/* The storages of all operands, each once, by address: the order of locking. */
static size_t collect_storages(const attempt *a, mt_storage **list) {
  size_t count = 0;
  for (size_t i = 0; i < a->operands; i++) {
    mt_storage *storage = a->tensor[i] ? a->tensor[i]->storage : NULL;
    size_t at = 0;
    while (at < count && (uintptr_t)list[at] < (uintptr_t)storage) {
      at++;
    }
    if (!storage || (at < count && list[at] == storage)) {
      continue;
    }
    memmove(&list[at + 1], &list[at], (count - at) * sizeof(*list));
    list[at] = storage;
    count++;
  }
  return count;
}

/* Is the storage that of one of the operands from `first` up to `end`? */
static bool has_storage(const attempt *a, size_t first, size_t end, const mt_storage *storage) {
  for (size_t i = first; i < end; i++) {
    if (a->tensor[i] && a->tensor[i]->storage == storage) {
      return true;
    }
  }
  return false;
}

static mt_status make_resident(attempt *a) {
  for (size_t i = 0; i < a->operands; i++) {
    mt_tensor *tensor = a->tensor[i];
    if (!tensor) {
      continue;
    }
    mt_storage *storage = tensor->storage;
    bool whole = i >= a->inputs && tensor->contiguous && !a->call->reads_out &&
                 mt_tensor_bytes(tensor) == storage->bytes &&
                 !has_storage(a, 0, a->inputs, storage);
    MT_TRY(mt_storage_to_device(storage, a->device, !whole));
    if (mt_device_on_host(a->device)) {
      a->operand[i].data = (char *)storage->host + tensor->byte_offset;
    } else {
      a->operand[i].buffer = storage->buffer;
      a->operand[i].byte_offset = tensor->byte_offset;
    }
  }
  return MT_OK;
}

static mt_status submit(attempt *a, mt_plan *plan, uint64_t *point) {
  mt_device *device = a->device;
  char text[512];
  text[0] = '\0';
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  mt_device_begin(device);
  int32_t code = device->table->execute(device->queue, mt_plan_handle(plan), &a->op, point, &msg);
  return mt_device_end(device, code, *point, a->call->def->name, text);
}

static mt_status run_queued(attempt *a) {
  mt_storage *list[MAX_OPERANDS];
  size_t count = collect_storages(a, list);
  mt_plan *plan = NULL;
  uint64_t point = 0;
  for (size_t i = 0; i < count; i++) {
    pthread_mutex_lock(&list[i]->lock);
  }
  mt_status status = make_resident(a);
  if (status == MT_OK) {
    status = plan_for(a, true, &plan);
  }
  if (status == MT_OK) {
    status = submit(a, plan, &point);
  }
  if (status == MT_OK) {
    for (size_t i = 0; i < count; i++) {
      bool written = has_storage(a, a->inputs, a->operands, list[i]);
      mt_storage_mark(list[i], a->device, point, written);
    }
  }
  for (size_t i = count; i-- > 0;) {
    pthread_mutex_unlock(&list[i]->lock);
  }
  mt_plan_put(a->device, plan, point);
  mt_device_reap(a->device);
  return status;
}

static mt_status run_on_device(attempt *a) {
  return a->device->in_place ? run_in_place(a) : run_queued(a);
}

/* ---- choosing --------------------------------------------------------------- */

/* Sets *refused when the device does not do this op; a->reason then says why. */
static mt_status run_attempt(attempt *a, bool *refused) {
  *refused = false;
  int32_t answer = ask(a);
  if (answer == MT_ABI_SUPPORT_NO) {
    MT_TRY(try_decoding(a, &answer));
  }
  if (answer == MT_ABI_SUPPORT_AFTER_RELAYOUT) {
    mt_status status = relayout(a);
    *refused = status == MT_ERR_UNSUPPORTED;
    MT_TRY(status);
    answer = ask(a);
    if (answer != MT_ABI_SUPPORT_YES) {
      snprintf(a->reason, sizeof(a->reason), "asked for a relayout, then did not take it");
    }
  }
  if (answer != MT_ABI_SUPPORT_YES) {
    *refused = true;
    return MT_ERR_UNSUPPORTED;
  }
  MT_TRY(run_on_device(a));
  for (size_t i = a->inputs; i < a->operands; i++) {
    if (a->owned[i]) {
      MT_TRY(copy_between(a->rt, a->device, a->tensor[i], output_of(a->call, i - a->inputs)));
    }
  }
  return MT_OK;
}

static void describe_call(const mt_op_call *call, char *buf, size_t size) {
  char text[MT_DESCRIBE_BYTES];
  size_t at = (size_t)snprintf(buf, size, "%s", call->def->name);
  for (size_t i = 0; i < call->in_count && at < size; i++) {
    if (call->in[i]) {
      at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : " ",
                             mt_tensor_describe(call->in[i], text, sizeof(text)));
    }
  }
}

static void report(mt_runtime *rt, const mt_op_call *call, const char *label, uint32_t relayouts,
                   uint32_t decodes, const char *refusal) {
  mt_stat_event event = {mt_op_number(call->def), label, relayouts, decodes,
                         refusal[0] ? refusal : NULL};
  bool first = mt_stats_count(rt->stats, &event);
  if (first && refusal[0]) {
    mt_log_write(&rt->log, MT_LOG_INFO, "dispatch", "%s falls back to %s: %s", call->def->name,
                 label, refusal);
  }
  if (mt_log_wants(&rt->log, MT_LOG_DEBUG, "dispatch")) {
    char text[512];
    describe_call(call, text, sizeof(text));
    mt_log_write(&rt->log, MT_LOG_DEBUG, "dispatch", "%s -> %s%s%s", text, label,
                 relayouts ? " (relayout)" : "", decodes ? " (decoded)" : "");
  }
}

static void add_refusal(char *refusals, size_t size, const char *label, const char *reason) {
  size_t at = strlen(refusals);
  snprintf(refusals + at, size - at, "%s%s: %s", at ? "; " : "", label, reason);
}

static mt_status no_backend(const mt_runtime *rt, const mt_op_call *call, mt_status status,
                            const char *refusals) {
  char text[512];
  describe_call(call, text, sizeof(text));
  return mt_fail(status, "%s: no backend of '%s' can run it: %s", text, rt->backend_setting,
                 refusals[0] ? refusals : "none is usable");
}

/* Tries one device. true: settled, with *status. */
static bool try_device(mt_runtime *rt, mt_device *device, const mt_op_call *call, char *refusals,
                       size_t size, mt_status *status) {
  bool refused;
  *status = mt_device_usable(device);
  if (*status != MT_OK) {
    add_refusal(refusals, size, device->label, mt_last_error() + strlen(device->label) + 2);
    return false;
  }
  if (call->in_count > MT_OP_MAX_INPUTS_ABI) {
    add_refusal(refusals, size, device->label, "more inputs than a plugin can be given");
    *status = MT_ERR_UNSUPPORTED;
    return false;
  }
  attempt a;
  attempt_start(&a, rt, device, call);
  *status = run_attempt(&a, &refused);
  attempt_end(&a);
  if (refused) {
    add_refusal(refusals, size, device->label, a.reason);
    return false;
  }
  if (*status == MT_OK) {
    report(rt, call, device->label, a.relayouts, a.decodes, refusals);
  }
  return true;
}

static bool nothing_to_write(const mt_op_call *call) {
  for (size_t i = 0; i <= call->more_count; i++) {
    if (output_of(call, i)->elements > 0) {
      return false;
    }
  }
  return true;
}

mt_status mt_dispatch(mt_runtime *rt, const mt_op_call *call) {
  char refusals[768];
  mt_status status, unreachable = MT_ERR_UNSUPPORTED;
  mt_device *device;
  refusals[0] = '\0';
  if (nothing_to_write(call)) {
    return MT_OK;
  }
  for (size_t i = 0; (device = mt_order_at(rt, i)) != NULL; i++) {
    if (try_device(rt, device, call, refusals, sizeof(refusals), &status)) {
      return status;
    }
    unreachable = status == MT_ERR_UNSUPPORTED ? unreachable : status;
  }
  if (!rt->reference_allowed) {
    return no_backend(rt, call, unreachable, refusals);
  }
  MT_TRY(run_reference(call));
  report(rt, call, reference_label, 0, 0, refusals);
  return MT_OK;
}
