// SPDX-License-Identifier: Apache-2.0
/*
 * mock.h - a plugin that keeps every rule and can do nothing. Each mock of this folder starts
 * from it and breaks one rule, in one way, which its file's name tells.
 */
#ifndef MT_TESTS_MOCK_H
#define MT_TESTS_MOCK_H

#ifndef MECANTENSOR_PLUGIN_H /* abi_1_0.c brings the header of its day */
#include <mecantensor/plugin.h>
#endif
#include <string.h>

static int32_t mock_init(const mt_host_v1 *host, void **plugin, mt_message_v1 *msg) {
  (void)host;
  (void)msg;
  *plugin = NULL;
  return MT_ABI_OK;
}

static void mock_end(void *object) {
  (void)object;
}

static int32_t mock_device_count(void *plugin, uint32_t *count, mt_message_v1 *msg) {
  (void)plugin;
  (void)msg;
  *count = 1;
  return MT_ABI_OK;
}

static int32_t mock_device_info(void *plugin, uint32_t index, mt_device_info_v1 *info,
                                mt_message_v1 *msg) {
  (void)plugin;
  (void)index;
  (void)msg;
  info->kind = MT_ABI_DEVICE_OTHER;
  info->flags = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS;
  strcpy(info->name, "mock");
  return MT_ABI_OK;
}

static int32_t mock_device_open(void *plugin, uint32_t index, void **device, mt_message_v1 *msg) {
  static char device_of_all;
  (void)plugin;
  (void)index;
  (void)msg;
  *device = &device_of_all;
  return MT_ABI_OK;
}

static int32_t mock_queue_create(void *device, void **queue, mt_message_v1 *msg) {
  (void)msg;
  *queue = device;
  return MT_ABI_OK;
}

static int32_t mock_queue_query(void *queue, uint64_t *reached, mt_message_v1 *msg) {
  (void)queue;
  (void)msg;
  *reached = 0;
  return MT_ABI_OK;
}

static int32_t mock_queue_wait(void *queue, uint64_t point, uint64_t timeout_ns,
                               mt_message_v1 *msg) {
  (void)queue;
  (void)point;
  (void)timeout_ns;
  (void)msg;
  return MT_ABI_OK;
}

static int32_t mock_op_support(void *device, const mt_op_v1 *op, mt_support_v1 *support) {
  (void)device;
  (void)op;
  support->answer = MT_ABI_SUPPORT_NO;
  return MT_ABI_OK;
}

static int32_t mock_execute(void *queue, void *plan, const mt_op_v1 *op, uint64_t *point,
                            mt_message_v1 *msg) {
  (void)queue;
  (void)plan;
  (void)op;
  (void)point;
  (void)msg;
  return MT_ABI_ERR_UNSUPPORTED;
}

static inline mt_plugin_v1 mock_table(const char *name) {
  return (mt_plugin_v1){
      .struct_size = sizeof(mt_plugin_v1),
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .name = name,
      .version = "1.2.3",
      .vendor = "MecanTensor tests",
      .description = "a mock",
      .init = mock_init,
      .shutdown = mock_end,
      .device_count = mock_device_count,
      .device_info = mock_device_info,
      .device_open = mock_device_open,
      .device_close = mock_end,
      .queue_create = mock_queue_create,
      .queue_destroy = mock_end,
      .queue_query = mock_queue_query,
      .queue_wait = mock_queue_wait,
      .op_support = mock_op_support,
      .execute = mock_execute,
  };
}

/* As a plugin should: no byte past the room there is. */
static inline int32_t mock_answer(mt_plugin_v1 table, mt_plugin_v1 *out) {
  if (table.struct_size > out->struct_size) {
    table.struct_size = out->struct_size;
  }
  memcpy(out, &table, table.struct_size);
  return MT_ABI_OK;
}

/* MOCK(name) { changes to table; } : the note, and query with a table to break. */
#define MOCK(mock_name)                                                                            \
  MT_PLUGIN_NOTE(mock_name, 10, 0);                                                                \
  static void mock_break(mt_plugin_v1 *table);                                                     \
  int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {                          \
    mt_plugin_v1 table = mock_table(mock_name);                                                    \
    (void)host;                                                                                    \
    mock_break(&table);                                                                            \
    return mock_answer(table, out);                                                                \
  }                                                                                                \
  static void mock_break(mt_plugin_v1 *table)

#endif
