// SPDX-License-Identifier: Apache-2.0
/*
 * Queues: a list of commands and a worker thread that takes them in order, each after a
 * random delay and only while the device's gate is open. Host memory is read and
 * written when a command runs, never when it is given.
 */
#include "late.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- commands -------------------------------------------------------------------------------- */

/* lock is held. */
static void hold_buffers(late_command *command, bool hold) {
  for (uint32_t i = 0; i < command->buffers; i++) {
    late_buffer *buffer = command->buffer[i];
    uint32_t writer = command->writes >> i & 1u;
    buffer->users += hold ? 1u : ~0u;
    buffer->writers += hold ? writer : ~writer + 1u;
  }
  if (command->plan) {
    command->plan->users += hold ? 1u : ~0u;
  }
}

/* lock is held. */
static void drop_commands(late_queue *queue) {
  while (queue->head) {
    late_command *command = queue->head;
    queue->head = command->next;
    hold_buffers(command, false);
    queue->device->count.waiting--;
    free(command);
  }
  queue->tail = &queue->head;
}

static void fill(const late_command *command) {
  unsigned char *to = command->dst;
  for (uint64_t i = 0; i < command->bytes; i++) {
    to[i] = (unsigned char)(command->pattern >> (8 * (i % command->pattern_bytes)));
  }
}

static void run(const late_command *command) {
  switch (command->kind) {
  case LATE_TRANSFER: memcpy(command->dst, command->src, command->bytes); break;
  case LATE_FILL: fill(command); break;
  case LATE_EXECUTE: command->work.kernel(&command->work); break;
  }
}

/* lock is held. Injected failures: true when the command must not run. */
static bool inject(late_queue *queue, const late_command *command) {
  late_device *device = queue->device;
  const late_config *config = &device->instance->config;
  if (command->kind != LATE_EXECUTE) {
    return false;
  }
  if (command->number == config->fail_execute_at) {
    snprintf(queue->failure_text, sizeof(queue->failure_text), "injected: execute %llu fails",
             (unsigned long long)command->number);
    queue->failure = MT_ABI_ERR_BACKEND;
    return true;
  }
  if (command->number == config->lose_device_at) {
    device->losing = true;
    while (device->running > 1) { /* after lost nothing touches host memory */
      pthread_cond_wait(&device->done, &device->lock);
    }
    device->lost = true;
    return true;
  }
  return false;
}

/* ---- the worker -------------------------------------------------------------------------------
 */

static bool dead(const late_queue *queue) {
  return queue->failure != MT_ABI_OK || queue->device->lost;
}

static bool runnable(const late_queue *queue) {
  return queue->head && !queue->device->held && !queue->device->losing && !dead(queue);
}

/* xorshift64: the same delays in every run. */
static void delay(late_queue *queue, uint64_t longest_us) {
  if (longest_us == 0) {
    return;
  }
  queue->random ^= queue->random << 13;
  queue->random ^= queue->random >> 7;
  queue->random ^= queue->random << 17;
  uint64_t us = queue->random % (longest_us + 1);
  struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&time, NULL);
}

/* lock is held, and given up while the command runs. */
static void take_one(late_queue *queue) {
  late_device *device = queue->device;
  late_command *command = queue->head;
  queue->head = command->next;
  if (!queue->head) {
    queue->tail = &queue->head;
  }
  device->running++;
  if (!inject(queue, command)) {
    pthread_mutex_unlock(&device->lock);
    run(command);
    pthread_mutex_lock(&device->lock);
    queue->reached = command->point;
    device->count.done++;
  }
  device->running--;
  device->count.waiting--;
  hold_buffers(command, false);
  free(command);
  if (dead(queue)) {
    drop_commands(queue);
  }
  pthread_cond_broadcast(&device->done);
}

static void *worker(void *arg) {
  late_queue *queue = arg;
  late_device *device = queue->device;
  pthread_mutex_lock(&device->lock);
  while (!queue->stop) {
    if (!runnable(queue)) {
      pthread_cond_wait(&device->work, &device->lock);
      continue;
    }
    pthread_mutex_unlock(&device->lock);
    delay(queue, device->instance->config.delay_us);
    pthread_mutex_lock(&device->lock);
    if (runnable(queue)) { /* the gate may have been closed meanwhile */
      take_one(queue);
    }
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

/* ---- life -------------------------------------------------------------------------------------
 */

int32_t late_queue_create(void *handle, void **out, mt_message_v1 *msg) {
  late_device *device = handle;
  late_check_process(device->instance);
  *out = NULL;
  late_queue *queue = calloc(1, sizeof(*queue));
  if (!queue) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "a queue");
  }
  queue->device = device;
  queue->tail = &queue->head;
  queue->random = device->instance->config.seed * 2654435761u + device->index + 1;
  atomic_init(&queue->entered, false);
  pthread_mutex_lock(&device->lock);
  int code = device->lost ? ENODEV : pthread_create(&queue->worker, NULL, worker, queue);
  device->count.live_queues += code == 0;
  pthread_mutex_unlock(&device->lock);
  if (code != 0) {
    free(queue);
    return late_say(msg, code == ENODEV ? MT_ABI_ERR_DEVICE_LOST : MT_ABI_ERR_BACKEND,
                    "no queue: %s", strerror(code));
  }
  *out = queue;
  return MT_ABI_OK;
}

void late_queue_destroy(void *handle) {
  late_queue *queue = handle;
  late_device *device = queue->device;
  late_check_process(device->instance);
  pthread_mutex_lock(&device->lock);
  if (!dead(queue) && queue->reached != queue->submitted) {
    late_violation("queue_destroy: point %llu of %llu is reached",
                   (unsigned long long)queue->reached, (unsigned long long)queue->submitted);
  }
  queue->stop = true;
  pthread_cond_broadcast(&device->work);
  pthread_mutex_unlock(&device->lock);
  pthread_join(queue->worker, NULL);
  pthread_mutex_lock(&device->lock);
  drop_commands(queue);
  device->count.live_queues--;
  pthread_mutex_unlock(&device->lock);
  free(queue);
}

/* ---- giving commands ----------------------------------------------------------------------------
 */

/* lock is held. */
static int32_t state(const late_queue *queue, mt_message_v1 *msg) {
  if (queue->device->lost) {
    return late_say(msg, MT_ABI_ERR_DEVICE_LOST, "injected: the device is lost");
  }
  return queue->failure == MT_ABI_OK ? MT_ABI_OK
                                     : late_say(msg, queue->failure, "%s", queue->failure_text);
}

/* lock is held. */
static void append(late_queue *queue, late_command *command) {
  late_counters *count = &queue->device->count;
  command->point = ++queue->submitted;
  if (command->kind == LATE_EXECUTE) {
    command->number = ++count->executes;
  }
  hold_buffers(command, true);
  count->waiting++;
  *queue->tail = command;
  queue->tail = &command->next;
  pthread_cond_broadcast(&queue->device->work);
}

int32_t late_submit(late_queue *queue, late_command *command, uint64_t *point, mt_message_v1 *msg) {
  late_device *device = queue->device;
  late_check_process(device->instance);
  *point = 0;
  if (atomic_exchange(&queue->entered, true)) {
    late_violation("two threads give commands to one queue at once");
  }
  pthread_mutex_lock(&device->lock);
  int32_t code = state(queue, msg);
  bool stale = command->kind == LATE_EXECUTE &&
               device->count.executes + 1 == device->instance->config.stale_point;
  if (code == MT_ABI_OK && !stale) {
    append(queue, command);
  } else {
    free(command); /* a stale answer leaves nothing in flight: the core cannot wait for it */
  }
  *point = code == MT_ABI_OK ? queue->submitted : 0;
  pthread_mutex_unlock(&device->lock);
  atomic_store(&queue->entered, false);
  return code;
}

static late_command *transfer(void *dst, const void *src, uint64_t bytes, late_buffer *from,
                              late_buffer *to) {
  late_command *command = calloc(1, sizeof(*command));
  if (command) {
    command->kind = LATE_TRANSFER;
    command->dst = dst;
    command->src = src;
    command->bytes = bytes;
    if (from) {
      command->buffer[command->buffers++] = from;
    }
    if (to) {
      command->writes = 1u << command->buffers;
      command->buffer[command->buffers++] = to;
    }
  }
  return command;
}

/* Counts and submits what transfer made. */
static int32_t give(late_queue *queue, late_command *command, uint64_t *counter, uint64_t *point,
                    mt_message_v1 *msg) {
  if (!command) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "a command");
  }
  if (queue->device->instance->config.host_pointers != 0) {
    late_violation("a transfer on a device that works on host memory");
  }
  int32_t code = late_submit(queue, command, point, msg);
  if (code == MT_ABI_OK) {
    pthread_mutex_lock(&queue->device->lock);
    ++*counter;
    pthread_mutex_unlock(&queue->device->lock);
  }
  return code;
}

int32_t late_upload(void *handle, void *ptr, uint64_t offset, const void *src, uint64_t bytes,
                    uint64_t *point, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_buffer *buffer = ptr;
  if (!late_range_ok(queue->device, buffer, offset, bytes, "upload") || !src) {
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "upload: out of bounds");
  }
  return give(queue, transfer(buffer->data + offset, src, bytes, NULL, buffer),
              &queue->device->count.uploads, point, msg);
}

int32_t late_download(void *handle, void *ptr, uint64_t offset, void *dst, uint64_t bytes,
                      uint64_t *point, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_buffer *buffer = ptr;
  if (!late_range_ok(queue->device, buffer, offset, bytes, "download") || !dst) {
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "download: out of bounds");
  }
  return give(queue, transfer(dst, buffer->data + offset, bytes, buffer, NULL),
              &queue->device->count.downloads, point, msg);
}

int32_t late_copy(void *handle, void *dst, uint64_t dst_offset, void *src, uint64_t src_offset,
                  uint64_t bytes, uint64_t *point, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_buffer *from = src, *to = dst;
  if (!late_range_ok(queue->device, from, src_offset, bytes, "copy") ||
      !late_range_ok(queue->device, to, dst_offset, bytes, "copy") || from == to) {
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "copy: out of bounds or one buffer");
  }
  return give(queue, transfer(to->data + dst_offset, from->data + src_offset, bytes, from, to),
              &queue->device->count.copies, point, msg);
}

int32_t late_fill(void *handle, void *ptr, uint64_t offset, uint64_t bytes, uint32_t pattern,
                  uint32_t pattern_bytes, uint64_t *point, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_buffer *buffer = ptr;
  if (!late_range_ok(queue->device, buffer, offset, bytes, "fill") ||
      (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4)) {
    return late_say(msg, MT_ABI_ERR_INVALID_ARGUMENT, "fill: out of bounds or a bad pattern");
  }
  late_command *command = transfer(buffer->data + offset, NULL, bytes, NULL, buffer);
  if (command) {
    command->kind = LATE_FILL;
    command->pattern = pattern;
    command->pattern_bytes = pattern_bytes;
  }
  return give(queue, command, &queue->device->count.fills, point, msg);
}

/* ---- waiting --------------------------------------------------------------------------------- */

int32_t late_queue_query(void *handle, uint64_t *reached, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_check_process(queue->device->instance);
  pthread_mutex_lock(&queue->device->lock);
  int32_t code = state(queue, msg);
  *reached = queue->device->instance->config.boasts != 0 ? UINT64_MAX : queue->reached;
  pthread_mutex_unlock(&queue->device->lock);
  return code;
}

/* Absolute time after timeout_ns, on the clock of done. */
static struct timespec deadline(uint64_t timeout_ns) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  uint64_t most = (uint64_t)INT32_MAX * 1000000000u; /* decades */
  uint64_t ns = (uint64_t)at.tv_nsec + (timeout_ns < most ? timeout_ns : most);
  at.tv_sec += (time_t)(ns / 1000000000u);
  at.tv_nsec = (long)(ns % 1000000000u);
  return at;
}

int32_t late_queue_wait(void *handle, uint64_t point, uint64_t timeout_ns, mt_message_v1 *msg) {
  late_queue *queue = handle;
  late_device *device = queue->device;
  struct timespec until = deadline(timeout_ns);
  late_check_process(device->instance);
  pthread_mutex_lock(&device->lock);
  if (point > queue->submitted) {
    late_violation("queue_wait: point %llu, the newest is %llu", (unsigned long long)point,
                   (unsigned long long)queue->submitted);
    point = queue->submitted;
  }
  bool late = false;
  while (!dead(queue) && queue->reached < point && !late) {
    if (timeout_ns == UINT64_MAX) {
      pthread_cond_wait(&device->done, &device->lock);
    } else {
      late = pthread_cond_timedwait(&device->done, &device->lock, &until) == ETIMEDOUT;
    }
  }
  int32_t code = state(queue, msg);
  if (code == MT_ABI_OK && queue->reached < point) {
    code = late_say(msg, MT_ABI_ERR_TIMEOUT, "point %llu is not reached, %llu is",
                    (unsigned long long)point, (unsigned long long)queue->reached);
  }
  pthread_mutex_unlock(&device->lock);
  return code;
}
