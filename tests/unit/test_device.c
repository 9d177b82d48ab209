// SPDX-License-Identifier: Apache-2.0
/* Devices of a plugin that keeps to the letter of plugin.h and no further: NULL as a handle,
 * messages without an end; and what is given back to it, also in a child process. */
#include "harness.h"

#include <hal/hal.h>
#include <mecantensor/mecantensor.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
  int queues, queues_made, plans, devices, shutdowns;
  int32_t queue_code;
} live;

/* ---- the plugin --------------------------------------------------------------------- */

static int32_t open_device(void *plugin, uint32_t index, void **device, mt_message_v1 *msg) {
  (void)plugin;
  (void)index;
  (void)device;
  (void)msg;
  live.devices++;
  return MT_ABI_OK;
}

static void close_device(void *device) {
  (void)device;
  live.devices--;
}

static int32_t create_queue(void *device, void **queue, mt_message_v1 *msg) {
  (void)device;
  *queue = NULL;
  if (live.queue_code != MT_ABI_OK) {
    memset(msg->text, 'x', msg->text_bytes); /* no NUL */
    return live.queue_code;
  }
  live.queues++;
  live.queues_made++;
  return MT_ABI_OK;
}

static void destroy_queue(void *queue) {
  (void)queue;
  live.queues--;
}

static int32_t prepare(void *device, const mt_op_v1 *op, void **plan, mt_message_v1 *msg) {
  (void)device;
  (void)op;
  (void)plan;
  (void)msg;
  live.plans++;
  return MT_ABI_OK;
}

static void free_plan(void *device, void *plan) {
  (void)device;
  (void)plan;
  live.plans--;
}

static void shut_down(void *plugin) {
  (void)plugin;
  live.shutdowns++;
}

static const mt_plugin_v1 table = {
    .struct_size = sizeof(table),
    .name = "plain",
    .shutdown = shut_down,
    .device_open = open_device,
    .device_close = close_device,
    .queue_create = create_queue,
    .queue_destroy = destroy_queue,
    .prepare = prepare,
    .plan_free = free_plan,
};

/* ---- a runtime with that plugin, and no files --------------------------------------- */

static mt_runtime *rt;
static mt_candidate candidate;
static mt_device_info_v1 info;
static mt_backend backend;

static void start(uint64_t flags) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = "reference";
  ck_ok(mt_runtime_create(&options, &rt));
  memset(&live, 0, sizeof(live));
  candidate = (mt_candidate){.table = &table};
  info = (mt_device_info_v1){.struct_size = sizeof(info), .flags = flags};
  backend = (mt_backend){.rt = rt,
                         .candidate = &candidate,
                         .started = true,
                         .fork_generation = mt_fork_generation(),
                         .device_count = 1};
  backend.infos = calloc(1, sizeof(*backend.infos));
  backend.labels = calloc(1, sizeof(*backend.labels));
  ck_assert(backend.infos && backend.labels);
  backend.infos[0] = info;
  strcpy(backend.labels[0], "plain:0");
}

static void finish(void) {
  mt_backend_close(&backend);
  mt_runtime_release(&rt);
}

static const uint64_t in_place = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS;

/* ---- tests -------------------------------------------------------------------------- */

START_TEST(test_message_without_end) {
  mt_device *device = NULL;
  start(in_place);
  live.queue_code = MT_ABI_ERR_BACKEND;
  ck_fails(mt_device_open(&backend, 0, &device), MT_ERR_BACKEND, "plain:0: create a queue: xxx");
  ck_assert_uint_lt(strlen(mt_last_error()), 600);
  ck_assert_int_eq(mt_last_error()[strlen(mt_last_error()) - 1], 'x');
  ck_assert_int_eq(live.devices, 0);
  finish();
}
END_TEST

START_TEST(test_null_handles) {
  mt_device *device = NULL;
  void *one, *two;
  start(in_place);
  ck_ok(mt_device_open(&backend, 0, &device));
  for (int i = 0; i < 5; i++) {
    ck_ok(mt_device_take_queue(device, &one));
    ck_ok(mt_device_take_queue(device, &two));
    mt_device_give_queue(device, one);
    mt_device_give_queue(device, two);
  }
  ck_assert_int_eq(live.queues_made, 3); /* the device's own, and two at once */
  mt_device_release(device);
  ck_assert_int_eq(live.queues, 0);
  ck_assert_int_eq(live.devices, 0);
  finish();
  ck_assert_int_eq(live.shutdowns, 1);
}
END_TEST

/* In a child: the number of things of the plugin that are left after all was released. */
static int left_in_child(uint64_t flags) {
  mt_device *device = NULL;
  mt_plan *plan = NULL;
  mt_op_v1 op = {.struct_size = sizeof(op)};
  int status;
  start(flags);
  ck_ok(mt_device_open(&backend, 0, &device));
  ck_ok(mt_plan_get(device, &op, NULL, false, &plan));
  mt_plan_put(device, plan, 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    mt_device_release(device);
    mt_backend_close(&backend);
    _exit(live.plans + live.queues + live.devices + (live.shutdowns == 0));
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  mt_device_release(device);
  finish();
  ck_assert_int_eq(live.plans + live.queues + live.devices, 0);
  ck_assert_int_eq(live.shutdowns, 1);
  return WEXITSTATUS(status);
}

/* What works in a child is also given back there, and what does not is never called. */
START_TEST(test_in_child) {
  ck_assert_int_eq(left_in_child(in_place | MT_ABI_DEVICE_FORK_SAFE), 0);
  ck_assert_int_eq(left_in_child(in_place), 4);
}
END_TEST

TEST_MAIN(device, test_message_without_end, test_null_handles, test_in_child)
