// SPDX-License-Identifier: Apache-2.0
/*
 * null - the smallest complete backend, to be copied.
 *
 * It has one device that works on host memory and knows one op, relu on f32. A one-op
 * plugin is a valid plugin: the core runs everything else elsewhere. What to change for
 * hardware of your own is in README.md; the rules are in <mecantensor/plugin.h>.
 */
#include <mecantensor/plugin.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Name, priority, CPU features. Priority 0: never chosen by "auto", only by name. */
MT_PLUGIN_NOTE("null", 0, 0);

typedef struct null_instance {
  const mt_host_v1 *host; /* valid until shutdown */
  int32_t relu;           /* this core's number for the op; 0: it does not know it */
} null_instance;

typedef struct null_device {
  null_instance *instance;
} null_device;

typedef struct null_queue {
  null_device *device;
  uint64_t submitted; /* points given so far; all are reached, as the device is synchronous */
} null_queue;

/* ---- helpers ------------------------------------------------------------------------ */

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static int32_t
say(mt_message_v1 *msg, int32_t code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(msg->text, msg->text_bytes, format, args);
  va_end(args);
  return code;
}

/* Zeroed memory of the host; NULL with a message. */
static void *new_object(const mt_host_v1 *host, size_t bytes, mt_message_v1 *msg) {
  void *object = host->alloc(host->ctx, bytes, sizeof(void *));
  if (object) {
    memset(object, 0, bytes);
  } else {
    say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
  }
  return object;
}

/* ---- instance ----------------------------------------------------------------------- */

/* Open the driver here, and look for what the machine has. */
static int32_t null_init(const mt_host_v1 *host, void **plugin, mt_message_v1 *msg) {
  null_instance *instance = new_object(host, sizeof(*instance), msg);
  *plugin = instance;
  if (!instance) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  instance->host = host;
  instance->relu = host->intern_op(host->ctx, "relu", 1);
  return MT_ABI_OK;
}

static void null_shutdown(void *plugin) {
  null_instance *instance = plugin;
  instance->host->free(instance->host->ctx, instance);
}

/* ---- devices ------------------------------------------------------------------------ */

static int32_t null_device_count(void *plugin, uint32_t *count, mt_message_v1 *msg) {
  (void)plugin;
  (void)msg;
  *count = 1;
  return MT_ABI_OK;
}

static int32_t null_device_info(void *plugin, uint32_t index, mt_device_info_v1 *info,
                                mt_message_v1 *msg) {
  (void)plugin;
  if (index != 0) {
    return say(msg, MT_ABI_ERR_NOT_FOUND, "no device %u: there is one, 0", index);
  }
  mt_device_info_v1 known = {
      .kind = MT_ABI_DEVICE_OTHER,
      .flags = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS | MT_ABI_DEVICE_FORK_SAFE,
      .name = "null",
      .vendor = "MecanTensor",
      .driver = "none",
  };
  /* An older core has a shorter struct, a newer one a longer one. */
  known.struct_size = info->struct_size < sizeof(known) ? info->struct_size : sizeof(known);
  memcpy(info, &known, known.struct_size);
  return MT_ABI_OK;
}

static int32_t null_device_open(void *plugin, uint32_t index, void **device, mt_message_v1 *msg) {
  null_instance *instance = plugin;
  *device = NULL;
  if (index != 0) {
    return say(msg, MT_ABI_ERR_NOT_FOUND, "no device %u: there is one, 0", index);
  }
  null_device *opened = new_object(instance->host, sizeof(*opened), msg);
  if (!opened) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  opened->instance = instance;
  *device = opened;
  return MT_ABI_OK;
}

static void null_device_close(void *device) {
  const mt_host_v1 *host = ((null_device *)device)->instance->host;
  host->free(host->ctx, device);
}

/* ---- queues ------------------------------------------------------------------------- */

static int32_t null_queue_create(void *device, void **queue, mt_message_v1 *msg) {
  null_device *owner = device;
  null_queue *created = new_object(owner->instance->host, sizeof(*created), msg);
  *queue = created;
  if (!created) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  created->device = owner;
  return MT_ABI_OK;
}

static void null_queue_destroy(void *queue) {
  const mt_host_v1 *host = ((null_queue *)queue)->device->instance->host;
  host->free(host->ctx, queue);
}

static int32_t null_queue_query(void *queue, uint64_t *reached, mt_message_v1 *msg) {
  (void)msg;
  *reached = ((null_queue *)queue)->submitted;
  return MT_ABI_OK;
}

static int32_t null_queue_wait(void *queue, uint64_t point, uint64_t timeout_ns,
                               mt_message_v1 *msg) {
  (void)queue;
  (void)point;
  (void)timeout_ns;
  (void)msg;
  return MT_ABI_OK; /* every call has completed by the time it returns */
}

/* ---- ops ---------------------------------------------------------------------------- */

static int64_t element_count(const mt_operand_v1 *operand) {
  int64_t count = 1;
  for (int32_t i = 0; i < operand->rank; i++) {
    count *= operand->shape[i];
  }
  return count;
}

static bool is_contiguous(const mt_operand_v1 *operand) {
  int64_t expected = 1;
  for (int32_t i = operand->rank - 1; i >= 0; i--) {
    if (operand->shape[i] != 1 && operand->stride[i] != expected) {
      return false;
    }
    expected *= operand->shape[i];
  }
  return true;
}

static void refuse(mt_support_v1 *support, const char *reason) {
  support->answer = MT_ABI_SUPPORT_NO;
  if (support->reason_bytes > 0) {
    snprintf(support->reason, support->reason_bytes, "%s", reason);
  }
}

/* An attribute that the op needs and that we do not know: saying yes would compute
 * something else. relu has none so far. */
static bool has_required_attr(const mt_op_v1 *op) {
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const char *at = (const char *)op->attrs + (size_t)i * op->attr_stride;
    if (((const mt_attr_v1 *)at)->flags & MT_ABI_ATTR_REQUIRED) {
      return true;
    }
  }
  return false;
}

/* Looks at the description alone: no data, no state, any thread. */
static int32_t null_op_support(void *device, const mt_op_v1 *op, mt_support_v1 *support) {
  const null_instance *instance = ((null_device *)device)->instance;
  const mt_operand_v1 *x = op->inputs, *y = op->outputs;
  if (instance->relu == 0 || op->op != instance->relu) {
    refuse(support, "relu only");
  } else if (op->input_count != 1 || op->output_count != 1 || has_required_attr(op)) {
    refuse(support, "relu of a later version");
  } else if (x->dtype != MT_ABI_DTYPE_F32 || y->dtype != MT_ABI_DTYPE_F32) {
    refuse(support, "f32 only");
  } else {
    support->relayout_inputs = is_contiguous(x) ? 0 : 1;
    support->relayout_outputs = is_contiguous(y) ? 0 : 1;
    support->answer = support->relayout_inputs | support->relayout_outputs
                          ? MT_ABI_SUPPORT_AFTER_RELAYOUT
                          : MT_ABI_SUPPORT_YES;
  }
  return MT_ABI_OK;
}

/* Only what op_support said yes to comes here. x and y may be the same memory, and lie at any
 * address: memory of the user. Compilers make plain loads and stores of memcpy. */
static int32_t null_execute(void *queue, void *plan, const mt_op_v1 *op, uint64_t *point,
                            mt_message_v1 *msg) {
  const char *x = op->inputs->data;
  char *y = op->outputs->data;
  int64_t count = element_count(op->outputs);
  (void)plan;
  (void)msg;
  for (int64_t i = 0; i < count; i++, x += sizeof(float), y += sizeof(float)) {
    float value;
    memcpy(&value, x, sizeof(value));
    value = value < 0.0f ? 0.0f : value; /* NaN stays NaN */
    memcpy(y, &value, sizeof(value));
  }
  *point = ++((null_queue *)queue)->submitted;
  return MT_ABI_OK;
}

/* ---- the table ---------------------------------------------------------------------- */

/* Pure: no driver calls, no threads, no allocation. Entries left out are not supported. */
int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  mt_plugin_v1 table = {
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .name = "null",
      .version = "0.1.0",
      .vendor = "MecanTensor",
      .description = "skeleton to copy: relu on f32",
      .init = null_init,
      .shutdown = null_shutdown,
      .device_count = null_device_count,
      .device_info = null_device_info,
      .device_open = null_device_open,
      .device_close = null_device_close,
      .queue_create = null_queue_create,
      .queue_destroy = null_queue_destroy,
      .queue_query = null_queue_query,
      .queue_wait = null_queue_wait,
      .op_support = null_op_support,
      .execute = null_execute,
  };
  table.struct_size = out->struct_size < sizeof(table) ? out->struct_size : sizeof(table);
  memcpy(out, &table, table.struct_size);
  return MT_ABI_OK;
}
