// SPDX-License-Identifier: Apache-2.0
/* The plugin "late" by its table alone, with a host of a few lines: what the tests of the
 * core rely on, it really does. */
#include "harness.h"
#include "late_control.h"

#include <dlfcn.h>
#include <mecantensor/plugin.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- a host ---------------------------------------------------------------------------------- */

static const char *const op_names[] = {"matmul", "add", "relu", "copy", "mul", "softmax"};
enum { MATMUL = 1, ADD, RELU, COPY, MUL, SOFTMAX };

static void host_log(void *ctx, int32_t level, const char *message) {
  (void)ctx;
  (void)level;
  (void)message;
}

static void *host_alloc(void *ctx, uint64_t bytes, uint64_t alignment) {
  void *ptr = NULL;
  (void)ctx;
  return posix_memalign(&ptr, alignment, bytes ? bytes : 1) == 0 ? ptr : NULL;
}

static void host_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static int64_t host_config(void *ctx, const char *key, char *buf, uint64_t bytes) {
  char name[64];
  (void)ctx;
  snprintf(name, sizeof(name), "T_%s", key);
  const char *value = getenv(name);
  if (!value) {
    return -1;
  }
  if (strlen(value) < bytes) {
    memcpy(buf, value, strlen(value) + 1);
  }
  return (int64_t)strlen(value);
}

static int32_t host_intern_op(void *ctx, const char *name, uint32_t version) {
  (void)ctx;
  for (int32_t i = 0; version == 1 && i < (int32_t)(sizeof(op_names) / sizeof(*op_names)); i++) {
    if (strcmp(op_names[i], name) == 0) {
      return i + 1;
    }
  }
  return 0;
}

static int32_t host_intern_attr(void *ctx, const char *name) {
  (void)ctx;
  return strcmp(name, "alpha") == 0 ? 1 : strcmp(name, "beta") == 0 ? 2 : 3;
}

static int32_t host_intern_format(void *ctx, const char *id, uint32_t elements, uint32_t bytes) {
  (void)ctx;
  return strcmp(id, "q8_0") == 0 && elements == 32 && bytes == 34 ? 1 : 0;
}

static const mt_host_v1 host = {
    .struct_size = sizeof(host),
    .core_version = "0",
    .log = host_log,
    .alloc = host_alloc,
    .free = host_free,
    .config = host_config,
    .intern_op = host_intern_op,
    .intern_attr = host_intern_attr,
    .intern_format = host_intern_format,
};

/* ---- one open device --------------------------------------------------------------------------
 */

static mt_plugin_v1 table;
static const late_control_v1 *control;
static void *plugin, *device, *queue;
static char text[256];
static mt_message_v1 msg = {sizeof(msg), sizeof(text), text};

#define ok(call)                                                                                   \
  do {                                                                                             \
    int32_t code_ = (call);                                                                        \
    ck_assert_msg(code_ == MT_ABI_OK, "%s: %d: %s", #call, code_, text);                           \
  } while (0)

static void load(void) {
  void *module = dlopen(getenv("LATE_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(module != NULL, "%s", dlerror());
  mt_plugin_query_v1_fn *query = (mt_plugin_query_v1_fn *)dlsym(module, "mt_plugin_query_v1");
  ck_assert_ptr_nonnull(query);
  table = (mt_plugin_v1){.struct_size = sizeof(table)};
  ok(query(&host, &table));
}

static void open_device(uint32_t index) {
  load();
  ok(table.init(&host, &plugin, &msg));
  control = table.get_interface(plugin, LATE_CONTROL_ID, 1);
  ck_assert_ptr_nonnull(control);
  ok(table.device_open(plugin, index, &device, &msg));
  ok(table.queue_create(device, &queue, &msg));
}

/* Everything goes; violations are what the test expects. */
static void close_device(uint64_t violations) {
  char first[256];
  table.queue_destroy(queue);
  table.device_close(device);
  table.shutdown(plugin);
  uint64_t found = control->violations(first);
  ck_assert_msg(found == violations, "%llu violations, the first: %s", (unsigned long long)found,
                first);
}

static late_counters counters(void) {
  late_counters out;
  control->counters(plugin, 0, &out);
  return out;
}

static void *buffer_of(const void *data, uint64_t bytes, uint64_t *point) {
  void *buffer;
  ok(table.buffer_alloc(device, bytes, &buffer, &msg));
  if (data) {
    ok(table.upload(queue, buffer, 0, data, bytes, point, &msg));
  }
  return buffer;
}

static mt_operand_v1 matrix(void *buffer, const int64_t *shape, const int64_t *stride) {
  return (mt_operand_v1){.struct_size = sizeof(mt_operand_v1),
                         .dtype = MT_ABI_DTYPE_F32,
                         .block_axis = -1,
                         .rank = 2,
                         .shape = shape,
                         .stride = stride,
                         .buffer = buffer};
}

static mt_op_v1 op_of(int32_t op, const mt_operand_v1 *operands, uint32_t inputs) {
  return (mt_op_v1){.struct_size = sizeof(mt_op_v1),
                    .op = op,
                    .input_count = inputs,
                    .output_count = 1,
                    .operand_stride = sizeof(mt_operand_v1),
                    .attr_stride = sizeof(mt_attr_v1),
                    .inputs = operands,
                    .outputs = &operands[inputs]};
}

static mt_support_v1 ask(const mt_op_v1 *op, char *reason, uint32_t bytes) {
  mt_support_v1 support = {.struct_size = sizeof(support), .reason = reason, .reason_bytes = bytes};
  ok(table.op_support(device, op, &support));
  return support;
}

/* ---- tests -------------------------------------------------------------------------------------
 */

START_TEST(test_transfers) {
  char in[300], out[300];
  uint64_t point, reached;
  open_device(0);
  memset(in, 7, sizeof(in));
  memset(out, 1, sizeof(out));
  control->hold(plugin, 0);
  void *buffer = buffer_of(in, sizeof(in), &point);
  ck_assert_uint_eq(point, 1);
  memset(in, 9, sizeof(in)); /* it is read when the command runs */
  void *other = buffer_of(NULL, 100, NULL);
  ok(table.copy(queue, other, 10, buffer, 0, 50, &point, &msg));
  ok(table.fill(queue, buffer, 100, 6, 0x0201u, 2, &point, &msg));
  ok(table.download(queue, buffer, 0, out, sizeof(out), &point, &msg));
  ck_assert_uint_eq(point, 4);
  ok(table.queue_query(queue, &reached, &msg));
  ck_assert_uint_eq(reached, 0);
  ck_assert_int_eq(table.queue_wait(queue, 1, 1000000, &msg), MT_ABI_ERR_TIMEOUT);
  ck_assert_int_eq(table.queue_wait(queue, 1, 0, &msg), MT_ABI_ERR_TIMEOUT);
  ck_assert_int_eq(out[0], 1);
  ck_assert_uint_eq(counters().waiting, 4);
  control->open_gate(plugin, 0);
  ok(table.queue_wait(queue, 4, UINT64_MAX, &msg));
  ck_assert_int_eq(out[0], 9);
  ck_assert_int_eq(out[100], 1);
  ck_assert_int_eq(out[101], 2);
  ok(table.download(queue, other, 0, out, 100, &point, &msg));
  ok(table.queue_wait(queue, point, 10000000000u, &msg));
  ck_assert_int_eq((unsigned char)out[9], 0xcb); /* fresh memory is poison */
  ck_assert_int_eq(out[10], 9);
  ck_assert_int_eq((unsigned char)out[60], 0xcb);
  table.buffer_free(device, buffer);
  table.buffer_free(device, other);
  close_device(0);
}
END_TEST

START_TEST(test_support_and_execute) {
  const int64_t ashape[] = {2, 3}, bshape[] = {3, 2}, oshape[] = {2, 2};
  const int64_t astride[] = {3, 1}, bstride[] = {2, 1}, bturned[] = {1, 3}, ostride[] = {2, 1};
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  float out[4];
  uint64_t point;
  char reason[128] = "";
  void *plan;
  open_device(0);
  mt_operand_v1 operands[] = {matrix(NULL, ashape, astride), matrix(NULL, bshape, bturned),
                              matrix(NULL, oshape, ostride)};
  mt_op_v1 op = op_of(MATMUL, operands, 2);
  mt_support_v1 support = ask(&op, reason, sizeof(reason));
  ck_assert_int_eq(support.answer, MT_ABI_SUPPORT_AFTER_RELAYOUT);
  ck_assert_uint_eq(support.relayout_inputs, 2);
  ck_assert_uint_eq(support.relayout_outputs, 0);
  operands[1] = matrix(NULL, bshape, bstride);
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_YES);

  operands[0].buffer = buffer_of(a, sizeof(a), &point);
  operands[1].buffer = buffer_of(b, sizeof(b), &point);
  operands[2].buffer = buffer_of(NULL, sizeof(out), &point);
  operands[1].flags = MT_ABI_OPERAND_CONSTANT;
  ok(table.queue_wait(queue, point, UINT64_MAX, &msg));
  ok(table.prepare(device, &op, &plan, &msg));
  ok(table.fill(queue, operands[1].buffer, 0, sizeof(b), 0, 4, &point, &msg)); /* it was packed */
  ok(table.execute(queue, plan, &op, &point, &msg));
  ok(table.download(queue, operands[2].buffer, 0, out, sizeof(out), &point, &msg));
  ok(table.queue_wait(queue, point, UINT64_MAX, &msg));
  const float expected[] = {4, 5, 10, 11};
  ck_assert_mem_eq(out, expected, sizeof(out));
  ck_assert_uint_eq(counters().packs, 1);
  table.plan_free(device, plan);
  for (int i = 0; i < 3; i++) {
    table.buffer_free(device, operands[i].buffer);
  }
  close_device(0);
}
END_TEST

START_TEST(test_refusals) {
  const int64_t shape[] = {2, 2}, stride[] = {2, 1};
  char reason[128] = "";
  open_device(0);
  mt_operand_v1 operands[] = {matrix(NULL, shape, stride), matrix(NULL, shape, stride),
                              matrix(NULL, shape, stride)};
  mt_op_v1 op = op_of(MUL, operands, 2);
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_NO);
  ck_assert_ptr_nonnull(strstr(reason, "no kernel"));
  op.op = ADD;
  mt_attr_v1 attr = {.key = 77, .type = MT_ABI_ATTR_I64, .flags = MT_ABI_ATTR_REQUIRED};
  op.attrs = &attr;
  op.attr_count = 1;
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_NO);
  ck_assert_ptr_nonnull(strstr(reason, "required attribute"));
  attr.flags = 0;
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_YES);
  operands[0].dtype = MT_ABI_DTYPE_F64;
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_NO);
  ck_assert_ptr_nonnull(strstr(reason, "f32 only"));
  op = op_of(SOFTMAX, &operands[1], 1);
  ck_assert_int_eq(ask(&op, reason, 4).answer, MT_ABI_SUPPORT_NO); /* a short buffer */
  ck_assert_str_eq(reason, "no ");
  operands[0] = matrix(NULL, shape, stride);
  operands[1].dtype = MT_ABI_DTYPE_BLOCK;
  operands[1].format = 1;
  op = op_of(MATMUL, operands, 2);
  ck_assert_int_eq(ask(&op, reason, sizeof(reason)).answer, MT_ABI_SUPPORT_NO);
  ck_assert_str_eq(reason, "format q8_0: unknown");
  close_device(0);
}
END_TEST

START_TEST(test_memory_limits) {
  void *buffer, *more;
  setenv("T_memory_bytes", "1000", 1);
  setenv("T_max_buffer_bytes", "900", 1);
  setenv("T_fail_alloc_after", "2", 1);
  open_device(0);
  ck_assert_int_eq(table.buffer_alloc(device, 901, &buffer, &msg), MT_ABI_ERR_OUT_OF_MEMORY);
  ck_assert_ptr_null(buffer);
  ck_assert_int_eq(table.buffer_alloc(device, UINT64_MAX, &buffer, &msg), MT_ABI_ERR_OUT_OF_MEMORY);
  ok(table.buffer_alloc(device, 900, &buffer, &msg));
  ck_assert_int_eq(table.buffer_alloc(device, 101, &more, &msg), MT_ABI_ERR_OUT_OF_MEMORY);
  ok(table.buffer_alloc(device, 100, &more, &msg));
  table.buffer_free(device, buffer);
  ck_assert_int_eq(table.buffer_alloc(device, 1, &buffer, &msg), MT_ABI_ERR_OUT_OF_MEMORY);
  ck_assert_ptr_nonnull(strstr(text, "injected"));
  table.buffer_free(device, more);
  close_device(0);
}
END_TEST

static void relu_once(void *in, void *out, uint64_t *point) {
  static const int64_t shape[] = {1, 1}, stride[] = {1, 1};
  mt_operand_v1 operands[] = {matrix(in, shape, stride), matrix(out, shape, stride)};
  mt_op_v1 op = op_of(RELU, operands, 1);
  ok(table.execute(queue, NULL, &op, point, &msg));
}

static void fail_second(const char *setting, int32_t expected) {
  const float one = 1;
  uint64_t point, reached;
  float got = 0;
  setenv(setting, "2", 1);
  open_device(0);
  void *in = buffer_of(&one, sizeof(one), &point), *out = buffer_of(NULL, sizeof(one), &point);
  relu_once(in, out, &point);
  ok(table.queue_wait(queue, point, UINT64_MAX, &msg));
  control->hold(plugin, 0);
  relu_once(in, out, &point);
  ok(table.download(queue, out, 0, &got, sizeof(got), &point, &msg));
  control->open_gate(plugin, 0);
  ck_assert_int_eq(table.queue_wait(queue, point, UINT64_MAX, &msg), expected);
  ck_assert_int_eq(table.queue_query(queue, &reached, &msg), expected);
  ck_assert_uint_eq(reached, 2);
  ck_assert(got == 0); /* what came behind it was dropped */
  ck_assert_int_eq(table.upload(queue, in, 0, &one, sizeof(one), &point, &msg), expected);
  table.buffer_free(device, in);
  table.buffer_free(device, out);
  close_device(0);
}

START_TEST(test_fails_late) {
  fail_second("T_fail_execute_at", MT_ABI_ERR_BACKEND);
}
END_TEST

START_TEST(test_lost) {
  fail_second("T_lose_device_at", MT_ABI_ERR_DEVICE_LOST);
}
END_TEST

START_TEST(test_violations_are_seen) {
  char data[8] = {0}, first[256];
  uint64_t point;
  open_device(0);
  control->hold(plugin, 0);
  void *buffer = buffer_of(data, sizeof(data), &point);
  ck_assert_int_eq(table.upload(queue, buffer, 4, data, 5, &point, &msg),
                   MT_ABI_ERR_INVALID_ARGUMENT);
  ck_assert_uint_eq(control->violations(first), 1);
  ck_assert_str_eq(first, "upload: 5 bytes at 4 of a buffer of 8");
  control->open_gate(plugin, 0);
  ok(table.queue_wait(queue, point = 1, UINT64_MAX, &msg));
  table.queue_destroy(queue);
  ok(table.queue_create(device, &queue, &msg));
  control->hold(plugin, 0);
  ok(table.upload(queue, buffer, 0, data, 8, &point, &msg));
  table.queue_destroy(queue); /* with work that waits */
  ck_assert_uint_eq(control->violations(first), 2);
  ok(table.queue_create(device, &queue, &msg));
  table.buffer_free(device, buffer);
  close_device(2);
}
END_TEST

START_TEST(test_bad_setting) {
  load();
  setenv("T_delay_us", "12x", 1);
  ck_assert_int_eq(table.init(&host, &plugin, &msg), MT_ABI_ERR_INVALID_ARGUMENT);
  ck_assert_str_eq(text, "setting delay_us is '12x': expected a number");
  ck_assert_ptr_null(plugin);
}
END_TEST

TEST_MAIN(late_table, test_transfers, test_support_and_execute, test_refusals, test_memory_limits,
          test_fails_late, test_lost, test_violations_are_seen, test_bad_setting)
