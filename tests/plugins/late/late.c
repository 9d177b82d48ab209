// SPDX-License-Identifier: Apache-2.0
/* Instance, settings, devices, the table, and what tests may ask. See late.h. */
#include "late.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Priority 0: used when it is named, never by "auto". */
MT_PLUGIN_NOTE("late", 0, 0);

/* ---- saying --------------------------------------------------------------------------------- */

int32_t late_say(mt_message_v1 *msg, int32_t code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(msg->text, msg->text_bytes, format, args);
  va_end(args);
  return code;
}

static struct {
  pthread_mutex_t lock;
  uint64_t count;
  char first[256];
} broken = {.lock = PTHREAD_MUTEX_INITIALIZER};

void late_violation(const char *format, ...) {
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&broken.lock);
  if (broken.count++ == 0) {
    vsnprintf(broken.first, sizeof(broken.first), format, args);
  }
  pthread_mutex_unlock(&broken.lock);
  va_end(args);
}

void late_check_process(const late_instance *instance) {
  if (instance->pid != getpid()) {
    late_violation("used in a child process");
  }
}

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct setting {
  const char *key;
  size_t offset; /* of the number in late_config */
  uint64_t otherwise;
} setting;

static const setting settings[] = {
    {"fail_alloc_after", offsetof(late_config, fail_alloc_after), UINT64_MAX},
    {"fail_execute_at", offsetof(late_config, fail_execute_at), 0},
    {"lose_device_at", offsetof(late_config, lose_device_at), 0},
    {"delay_us", offsetof(late_config, delay_us), 200},
    {"memory_bytes", offsetof(late_config, memory_bytes), 256u << 20},
    {"max_buffer_bytes", offsetof(late_config, max_buffer_bytes), 128u << 20},
    {"seed", offsetof(late_config, seed), 1},
    {"q8_0", offsetof(late_config, q8_0), 0},
    {"host_pointers", offsetof(late_config, host_pointers), 0},
    {"devices", offsetof(late_config, devices), LATE_DEVICES},
    {"fail_open", offsetof(late_config, fail_open), 0},
    {"fail_info", offsetof(late_config, fail_info), 0},
    {"stale_point", offsetof(late_config, stale_point), 0},
    {"boasts", offsetof(late_config, boasts), 0},
};

static int32_t read_config(const mt_host_v1 *host, late_config *config, mt_message_v1 *msg) {
  for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    char text[32] = "", *end = text;
    uint64_t *value = (uint64_t *)((char *)config + settings[i].offset);
    int64_t length = host->config(host->ctx, settings[i].key, text, sizeof(text));
    *value = settings[i].otherwise;
    if (length < 0) {
      continue;
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    if ((uint64_t)length >= sizeof(text) || text[0] < '0' || text[0] > '9' || *end || errno) {
      return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "setting %s is '%s': expected a number",
                      settings[i].key, text);
    }
  }
  return MT_ABI_OK;
}

static void intern(const mt_host_v1 *host, const late_config *config, late_names *names) {
  *names = (late_names){
      .matmul = host->intern_op(host->ctx, "matmul", 1),
      .add = host->intern_op(host->ctx, "add", 1),
      .mul = host->intern_op(host->ctx, "mul", 1),
      .relu = host->intern_op(host->ctx, "relu", 1),
      .copy = host->intern_op(host->ctx, "copy", 1),
      .alpha = host->intern_attr(host->ctx, "alpha"),
      .beta = host->intern_attr(host->ctx, "beta"),
      .activation = host->intern_attr(host->ctx, "activation"),
  };
  if (config->q8_0 != 0) {
    names->q8_0 = host->intern_format(host->ctx, "q8_0", LATE_Q8_ELEMENTS, LATE_Q8_BYTES);
  }
}

/* ---- instance ---------------------------------------------------------------------------------
 */

static void init_device(late_instance *instance, uint32_t index) {
  late_device *device = &instance->device[index];
  pthread_condattr_t monotonic;
  device->instance = instance;
  device->index = index;
  pthread_mutex_init(&device->lock, NULL);
  pthread_cond_init(&device->work, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&device->done, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static int32_t late_init(const mt_host_v1 *host, void **out, mt_message_v1 *msg) {
  *out = NULL;
  late_instance *instance = calloc(1, sizeof(*instance));
  if (!instance) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "an instance");
  }
  instance->host = host;
  instance->pid = getpid();
  int32_t code = read_config(host, &instance->config, msg);
  if (code != MT_ABI_OK) {
    free(instance);
    return code;
  }
  intern(host, &instance->config, &instance->names);
  for (uint32_t i = 0; i < LATE_DEVICES; i++) {
    init_device(instance, i);
  }
  host->log(host->ctx, MT_ABI_LOG_DEBUG, "started");
  *out = instance;
  return MT_ABI_OK;
}

static void late_shutdown(void *plugin) {
  late_instance *instance = plugin;
  late_check_process(instance);
  for (uint32_t i = 0; i < LATE_DEVICES; i++) {
    late_device *device = &instance->device[i];
    if (device->opened) {
      late_violation("shutdown: device %u is open", i);
    }
    pthread_cond_destroy(&device->done);
    pthread_cond_destroy(&device->work);
    pthread_mutex_destroy(&device->lock);
  }
  instance->host->log(instance->host->ctx, MT_ABI_LOG_INFO, "stopped");
  free(instance);
}

static int32_t late_device_count(void *plugin, uint32_t *count, mt_message_v1 *msg) {
  const late_instance *instance = plugin;
  (void)msg;
  *count = instance->config.devices < LATE_DEVICES ? (uint32_t)instance->config.devices
                                                   : (uint32_t)LATE_DEVICES;
  return MT_ABI_OK;
}

static int32_t late_device_info(void *plugin, uint32_t index, mt_device_info_v1 *info,
                                mt_message_v1 *msg) {
  const late_instance *instance = plugin;
  if (index >= LATE_DEVICES) {
    late_violation("device_info: device %u", index);
    return late_say(msg, MT_ABI_ERR_NOT_FOUND, "device %u", index);
  }
  if (index > 0 && instance->config.fail_info != 0) {
    return late_say(msg, MT_ABI_ERR_BACKEND, "injected: device %u has no description", index);
  }
  mt_device_info_v1 known = {
      .kind = MT_ABI_DEVICE_OTHER,
      .flags = instance->config.host_pointers != 0 ? MT_ABI_DEVICE_HOST_POINTERS : 0,
      .memory_bytes = instance->config.memory_bytes,
      .max_buffer_bytes = instance->config.max_buffer_bytes,
      .buffer_alignment = LATE_ALIGNMENT,
      .pci_bus = index + 1,
      .has_pci = 1,
      .uuid = {0x1a, 0x7e, (uint8_t)index},
  };
  known.struct_size = info->struct_size < sizeof(known) ? info->struct_size : sizeof(known);
  snprintf(known.name, sizeof(known.name), "Late Accelerator %s", index == 0 ? "Zero" : "One");
  snprintf(known.vendor, sizeof(known.vendor), "MecanTensor tests");
  snprintf(known.driver, sizeof(known.driver), "late 1.0");
  memcpy(info, &known, known.struct_size);
  return MT_ABI_OK;
}

static int32_t late_device_open(void *plugin, uint32_t index, void **out, mt_message_v1 *msg) {
  late_instance *instance = plugin;
  late_check_process(instance);
  *out = NULL;
  if (index >= LATE_DEVICES || instance->device[index].opened) {
    late_violation("device_open: device %u is not there or open", index);
    return late_say(msg, MT_ABI_ERR_NOT_FOUND, "device %u", index);
  }
  if (instance->config.fail_open != 0) {
    return late_say(msg, MT_ABI_ERR_BACKEND, "injected: device %u does not open", index);
  }
  late_device *device = &instance->device[index];
  pthread_mutex_lock(&device->lock);
  device->opened = true;
  pthread_mutex_unlock(&device->lock);
  *out = device;
  return MT_ABI_OK;
}

static void late_device_close(void *handle) {
  late_device *device = handle;
  const late_counters *count = &device->count;
  late_check_process(device->instance);
  pthread_mutex_lock(&device->lock);
  if (count->live_buffers || count->live_plans || count->live_queues) {
    late_violation("device_close: %llu buffers, %llu plans, %llu queues are left",
                   (unsigned long long)count->live_buffers, (unsigned long long)count->live_plans,
                   (unsigned long long)count->live_queues);
  }
  device->opened = device->held = false;
  pthread_mutex_unlock(&device->lock);
}

/* ---- control ----------------------------------------------------------------------------------
 */

static void control_hold(void *plugin, uint32_t index) {
  late_device *device = &((late_instance *)plugin)->device[index];
  pthread_mutex_lock(&device->lock);
  device->held = true;
  while (device->running > 0) {
    pthread_cond_wait(&device->done, &device->lock);
  }
  pthread_mutex_unlock(&device->lock);
}

static void control_open_gate(void *plugin, uint32_t index) {
  late_device *device = &((late_instance *)plugin)->device[index];
  pthread_mutex_lock(&device->lock);
  device->held = false;
  pthread_cond_broadcast(&device->work);
  pthread_mutex_unlock(&device->lock);
}

static void control_counters(void *plugin, uint32_t index, late_counters *out) {
  late_device *device = &((late_instance *)plugin)->device[index];
  pthread_mutex_lock(&device->lock);
  *out = device->count;
  pthread_mutex_unlock(&device->lock);
}

static uint64_t control_violations(char *text) {
  pthread_mutex_lock(&broken.lock);
  uint64_t count = broken.count;
  memcpy(text, broken.first, sizeof(broken.first));
  pthread_mutex_unlock(&broken.lock);
  return count;
}

static const void *late_get_interface(void *plugin, const char *id, uint32_t version) {
  static const late_control_v1 control = {
      sizeof(control), 0, control_hold, control_open_gate, control_counters, control_violations};
  (void)plugin;
  return version == 1 && strcmp(id, LATE_CONTROL_ID) == 0 ? &control : NULL;
}

/* ---- the table
 * ----------------------------------------------------------------------------------- */

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  const mt_plugin_v1 table = {
      .struct_size = out->struct_size < sizeof(table) ? out->struct_size : sizeof(table),
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .name = "late",
      .version = "1.0",
      .vendor = "MecanTensor tests",
      .description = "a make-believe accelerator with memory of its own that works late",
      .init = late_init,
      .shutdown = late_shutdown,
      .device_count = late_device_count,
      .device_info = late_device_info,
      .device_open = late_device_open,
      .device_close = late_device_close,
      .queue_create = late_queue_create,
      .queue_destroy = late_queue_destroy,
      .queue_query = late_queue_query,
      .queue_wait = late_queue_wait,
      .op_support = late_op_support,
      .execute = late_execute,
      .prepare = late_prepare,
      .plan_free = late_plan_free,
      .buffer_alloc = late_buffer_alloc,
      .buffer_free = late_buffer_free,
      .upload = late_upload,
      .download = late_download,
      .copy = late_copy,
      .fill = late_fill,
      .get_interface = late_get_interface,
  };
  memcpy(out, &table, table.struct_size);
  return MT_ABI_OK;
}
