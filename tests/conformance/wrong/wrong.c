// SPDX-License-Identifier: Apache-2.0
/*
 * A backend that does relu in f32, and does it wrong in the way MECANTENSOR_WRONG_FAULT
 * says. It is there to show that the conformance suite notices.
 */
#include <mecantensor/plugin.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

MT_PLUGIN_NOTE("wrong", 0, 0);

enum { MAX_RANK = 16 };

typedef struct wrong {
  mt_host_v1 host;
  int32_t relu;
  char fault[16];
} wrong;

static int32_t init(const mt_host_v1 *host, void **plugin, mt_message_v1 *msg) {
  wrong *w = host->alloc(host->ctx, sizeof(*w), 64);
  if (!w) {
    snprintf(msg->text, msg->text_bytes, "no memory");
    return MT_ABI_ERR_OUT_OF_MEMORY;
  }
  memset(w, 0, sizeof(*w));
  w->host = *host;
  w->relu = host->intern_op(host->ctx, "relu", 1);
  if (host->config(host->ctx, "fault", w->fault, sizeof(w->fault)) < 0) {
    strcpy(w->fault, "none");
  }
  *plugin = w;
  return MT_ABI_OK;
}

static void shutdown(void *plugin) {
  wrong *w = plugin;
  mt_host_v1 host = w->host;
  host.free(host.ctx, w);
}

static int32_t device_count(void *plugin, uint32_t *count, mt_message_v1 *msg) {
  (void)plugin;
  (void)msg;
  *count = 1;
  return MT_ABI_OK;
}

static int32_t device_info(void *plugin, uint32_t index, mt_device_info_v1 *info,
                           mt_message_v1 *msg) {
  (void)plugin;
  (void)index;
  (void)msg;
  info->kind = MT_ABI_DEVICE_CPU;
  info->flags = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS | MT_ABI_DEVICE_FORK_SAFE;
  strcpy(info->name, "a CPU with a fault");
  return MT_ABI_OK;
}

static int32_t device_open(void *plugin, uint32_t index, void **device, mt_message_v1 *msg) {
  (void)index;
  (void)msg;
  *device = plugin;
  return MT_ABI_OK;
}

static void device_close(void *device) {
  (void)device;
}

static int32_t queue_create(void *device, void **queue, mt_message_v1 *msg) {
  (void)msg;
  *queue = device;
  return MT_ABI_OK;
}

static void queue_destroy(void *queue) {
  (void)queue;
}

static int32_t queue_query(void *queue, uint64_t *reached, mt_message_v1 *msg) {
  (void)queue;
  (void)msg;
  *reached = UINT64_MAX;
  return MT_ABI_OK;
}

static int32_t queue_wait(void *queue, uint64_t point, uint64_t timeout_ns, mt_message_v1 *msg) {
  (void)queue;
  (void)point;
  (void)timeout_ns;
  (void)msg;
  return MT_ABI_OK;
}

static int32_t op_support(void *device, const mt_op_v1 *op, mt_support_v1 *support) {
  const wrong *w = device;
  if (op->op != w->relu || op->inputs[0].dtype != MT_ABI_DTYPE_F32 ||
      strcmp(w->fault, "refuse") == 0) {
    snprintf(support->reason, support->reason_bytes, "relu of f32 only");
    return MT_ABI_OK;
  }
  support->answer = MT_ABI_SUPPORT_YES;
  return MT_ABI_OK;
}

static int is(const wrong *w, const char *fault) {
  return strcmp(w->fault, fault) == 0;
}

static float relu(const wrong *w, float x) {
  if (isnan(x)) {
    return is(w, "nan") ? 0 : x;
  }
  return x > 0 ? x : 0;
}

/* What goes wrong after the right result was written; element 0 is the victim. */
static void spoil(const wrong *w, const mt_operand_v1 *in, const mt_operand_v1 *out, char *first) {
  int rank = out->rank;
  float value;
  memcpy(&value, first, sizeof(value));
  if (is(w, "value")) {
    value += 1;
  } else if (is(w, "ulp")) {
    value = nextafterf(value, INFINITY);
  }
  memcpy(first, &value, sizeof(value));
  if (is(w, "beside") && rank > 0 && out->stride[rank - 1] == 2) {
    memset(first + 4, 0, 4); /* a gap of the output: memory, but not the result's */
  } else if (is(w, "input") && in->data != out->data) {
    memset(in->data, 0x11, 1);
  }
}

static int32_t execute(void *queue, void *plan, const mt_op_v1 *op, uint64_t *point,
                       mt_message_v1 *msg) {
  const wrong *w = queue;
  const mt_operand_v1 *in = op->inputs, *out = op->outputs;
  int64_t index[MAX_RANK] = {0};
  const char *x = in->data; /* bytes: any alignment */
  char *y = out->data;
  (void)plan;
  *point = 1;
  if (is(w, "fail")) {
    snprintf(msg->text, msg->text_bytes, "the fault that was asked for");
    return MT_ABI_ERR_BACKEND;
  }
  for (;;) {
    float value;
    memcpy(&value, x, sizeof(value));
    value = relu(w, value);
    memcpy(y, &value, sizeof(value));
    int axis = out->rank - 1;
    while (axis >= 0 && ++index[axis] == out->shape[axis]) {
      index[axis] = 0;
      x -= 4 * in->stride[axis] * (out->shape[axis] - 1);
      y -= 4 * out->stride[axis] * (out->shape[axis] - 1);
      axis--;
    }
    if (axis < 0) {
      break;
    }
    x += 4 * in->stride[axis];
    y += 4 * out->stride[axis];
  }
  spoil(w, in, out, y);
  return MT_ABI_OK;
}

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  const mt_plugin_v1 table = {
      .struct_size = sizeof(table),
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .name = "wrong",
      .version = "1",
      .vendor = "MecanTensor",
      .description = "relu with a fault, for the tests of the conformance suite",
      .init = init,
      .shutdown = shutdown,
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
  };
  memcpy(out, &table, out->struct_size < sizeof(table) ? out->struct_size : sizeof(table));
  return MT_ABI_OK;
}
