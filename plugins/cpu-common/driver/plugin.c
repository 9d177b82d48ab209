// SPDX-License-Identifier: Apache-2.0
/* plugin.c - the entries of the plugin ABI. One device, on host memory, synchronous. */
#include "cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PLUGIN_VERSION "0.1.0"

/* ---- errors ---- */
int32_t cpu_error(mt_message_v1 *msg, int32_t code, const char *format, ...) {
  if (msg->text && msg->text_bytes > 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(msg->text, msg->text_bytes, format, args);
    va_end(args);
  }
  return code;
}

int32_t cpu_no_memory(mt_message_v1 *msg, uint64_t bytes) {
  return cpu_error(msg, MT_ABI_ERR_OUT_OF_MEMORY, "out of memory: %llu bytes",
                   (unsigned long long)bytes);
}

/* Zero-filled, or NULL with the message written. */
static void *allocate(const mt_host_v1 *host, uint64_t bytes, mt_message_v1 *msg) {
  void *memory = host->alloc(host->ctx, bytes, CPU_CACHE_LINE);
  if (memory) {
    memset(memory, 0, (size_t)bytes);
  } else {
    cpu_no_memory(msg, bytes);
  }
  return memory;
}

/* ---- the instance ---- */
static void intern_names(cpu_plugin *plugin) {
#define CPU_ATTR_NAME(key, name) name,
  static const char *const attrs[CPU_ATTR_COUNT] = {CPU_ATTRS(CPU_ATTR_NAME)};
#undef CPU_ATTR_NAME
  const mt_host_v1 *host = plugin->host;
  for (size_t i = 0; i < cpu_op_count; i++) {
    int32_t id = host->intern_op(host->ctx, cpu_ops[i].name, 1);
    plugin->op_id[i] = id;
    if (id > 0 && id < CPU_ID_MAX) {
      plugin->op_at[id] = (uint8_t)(i + 1);
    }
  }
  for (int i = 0; i < CPU_ATTR_COUNT; i++) {
    plugin->attr_id[i] = host->intern_attr(host->ctx, attrs[i]);
  }
  plugin->q8_0 = host->intern_format(host->ctx, "q8_0", CPU_BLOCK_ELEMENTS, CPU_BLOCK_BYTES);
}

static int32_t plugin_init(const mt_host_v1 *host, void **out, mt_message_v1 *msg) {
  cpu_plugin *plugin = allocate(host, sizeof(*plugin), msg);
  if (!plugin) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  plugin->host = host;
  plugin->gemm = cpu_choose_gemm(host->cpu_features);
  intern_names(plugin);
  cpu_identify(plugin->cpu_name, sizeof(plugin->cpu_name), plugin->cpu_vendor,
               sizeof(plugin->cpu_vendor));
  *out = plugin;
  return MT_ABI_OK;
}

static void plugin_shutdown(void *handle) {
  cpu_plugin *plugin = handle;
  plugin->host->free(plugin->host->ctx, plugin);
}

/* ---- the device ---- */
static int32_t device_count(void *handle, uint32_t *count, mt_message_v1 *msg) {
  (void)handle;
  (void)msg;
  *count = 1;
  return MT_ABI_OK;
}

static int32_t check_index(uint32_t index, mt_message_v1 *msg) {
  if (index != 0) {
    return cpu_error(msg, MT_ABI_ERR_NOT_FOUND, "device %u: there is only device 0", index);
  }
  return MT_ABI_OK;
}

static int32_t device_info(void *handle, uint32_t index, mt_device_info_v1 *info,
                           mt_message_v1 *msg) {
  const cpu_plugin *plugin = handle;
  mt_device_info_v1 full = {0};
  full.struct_size = sizeof(full);
  full.kind = MT_ABI_DEVICE_CPU;
  full.flags = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS | MT_ABI_DEVICE_FORK_SAFE;
  snprintf(full.name, sizeof(full.name), "%s", plugin->cpu_name);
  snprintf(full.vendor, sizeof(full.vendor), "%s", plugin->cpu_vendor);
  snprintf(full.driver, sizeof(full.driver), "%s %s", cpu_target.plugin_name, PLUGIN_VERSION);
  int32_t code = check_index(index, msg);
  if (code == MT_ABI_OK) {
    uint32_t room = info->struct_size < sizeof(full) ? info->struct_size : sizeof(full);
    full.struct_size = info->struct_size;
    memcpy(info, &full, room);
  }
  return code;
}

static int32_t device_open(void *handle, uint32_t index, void **out, mt_message_v1 *msg) {
  cpu_plugin *plugin = handle;
  int32_t code = check_index(index, msg);
  if (code != MT_ABI_OK) {
    return code;
  }
  cpu_device *device = allocate(plugin->host, sizeof(*device), msg);
  if (!device) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  device->plugin = plugin;
  *out = device;
  return MT_ABI_OK;
}

static void device_close(void *handle) {
  cpu_device *device = handle;
  const mt_host_v1 *host = device->plugin->host;
  host->free(host->ctx, device);
}

/* ---- the queue: everything is done when a call returns ---- */
static int32_t queue_create(void *handle, void **out, mt_message_v1 *msg) {
  cpu_plugin *plugin = ((cpu_device *)handle)->plugin;
  cpu_queue *queue = allocate(plugin->host, sizeof(*queue), msg);
  if (!queue) {
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  queue->plugin = plugin;
  *out = queue;
  return MT_ABI_OK;
}

static void queue_destroy(void *handle) {
  cpu_queue *queue = handle;
  const mt_host_v1 *host = queue->plugin->host;
  host->free(host->ctx, queue->scratch);
  host->free(host->ctx, queue);
}

void *cpu_scratch(cpu_queue *queue, uint64_t bytes) {
  const mt_host_v1 *host = queue->plugin->host;
  if (bytes > queue->scratch_bytes) {
    host->free(host->ctx, queue->scratch);
    queue->scratch = host->alloc(host->ctx, bytes, CPU_CACHE_LINE);
    queue->scratch_bytes = queue->scratch ? bytes : 0;
  }
  return queue->scratch;
}

static int32_t queue_query(void *handle, uint64_t *reached, mt_message_v1 *msg) {
  (void)msg;
  *reached = ((cpu_queue *)handle)->point;
  return MT_ABI_OK;
}

static int32_t queue_wait(void *handle, uint64_t point, uint64_t timeout_ns, mt_message_v1 *msg) {
  (void)timeout_ns;
  const cpu_queue *queue = handle;
  if (point > queue->point) {
    return cpu_error(msg, MT_ABI_ERR_INVALID_ARGUMENT,
                     "point %llu was never given out, the newest is %llu",
                     (unsigned long long)point, (unsigned long long)queue->point);
  }
  return MT_ABI_OK;
}

/* ---- ops ---- */
static int32_t op_support(void *handle, const mt_op_v1 *op, mt_support_v1 *answer) {
  cpu_op_support(((cpu_device *)handle)->plugin, op, answer);
  return MT_ABI_OK;
}

static int32_t execute(void *handle, void *plan, const mt_op_v1 *op, uint64_t *point,
                       mt_message_v1 *msg) {
  cpu_queue *queue = handle;
  const cpu_op *def = cpu_find_op(queue->plugin, op->op);
  if (!def) {
    return cpu_error(msg, MT_ABI_ERR_UNSUPPORTED, "no kernel for op %d", op->op);
  }
  int32_t code = def->run(queue, def->kind, plan, op, msg);
  if (code == MT_ABI_OK) {
    *point = ++queue->point;
  }
  return code;
}

static int32_t prepare(void *handle, const mt_op_v1 *op, void **plan, mt_message_v1 *msg) {
  const cpu_plugin *plugin = ((cpu_device *)handle)->plugin;
  const cpu_op *def = cpu_find_op(plugin, op->op);
  *plan = NULL;
  return def && def->prepare ? def->prepare(plugin, op, plan, msg) : MT_ABI_OK;
}

static void plan_free(void *handle, void *plan) {
  const mt_host_v1 *host = ((cpu_device *)handle)->plugin->host;
  host->free(host->ctx, plan);
}

/* ---- query ---- */
MT_PLUGIN_EXPORT int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  mt_plugin_v1 table = {
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .name = cpu_target.plugin_name,
      .version = PLUGIN_VERSION,
      .vendor = "MecanTensor",
      .description = cpu_target.description,
      .init = plugin_init,
      .shutdown = plugin_shutdown,
      .device_count = device_count,
      .device_info = device_info,
      .device_open = device_open,
      .device_close = device_close,
      .queue_create = queue_create,
      .queue_destroy = queue_destroy,
      .queue_query = queue_query,
      .queue_wait = queue_wait,
      .op_support = op_support,
      .execute = execute,
      .prepare = prepare,
      .plan_free = plan_free,
  };
  table.struct_size = out->struct_size < sizeof(table) ? out->struct_size : sizeof(table);
  memcpy(out, &table, table.struct_size);
  return MT_ABI_OK;
}
