// SPDX-License-Identifier: Apache-2.0
#include "../error.h"
#include "hal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mt_status open_handles(mt_device *device, uint32_t index) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  const mt_plugin_v1 *table = device->table;
  int32_t code = table->device_open(device->backend->instance, index, &device->handle, &msg);
  if (code != MT_ABI_OK) {
    return mt_device_fail(device, code, "open", text);
  }
  code = table->queue_create(device->handle, &device->queue, &msg);
  if (code != MT_ABI_OK) {
    table->device_close(device->handle);
    return mt_device_fail(device, code, "create a queue", text);
  }
  return MT_OK;
}

mt_status mt_device_open(mt_backend *backend, uint32_t index, mt_device **out) {
  const uint64_t in_place = MT_ABI_DEVICE_HOST_POINTERS | MT_ABI_DEVICE_SYNCHRONOUS;
  mt_device *device = calloc(1, sizeof(*device));
  if (!device || mt_plans_create(&device->plans) != MT_OK) {
    free(device);
    return mt_fail_memory(sizeof(*device), "a device");
  }
  atomic_init(&device->refs, 1);
  atomic_init(&device->lost, false);
  pthread_mutex_init(&device->lock, NULL);
  device->backend = backend;
  device->table = backend->candidate->table;
  device->info = &backend->infos[index];
  device->label = backend->labels[index];
  device->in_place = (device->info->flags & in_place) == in_place;
  device->fork_generation = mt_fork_generation();
  mt_status status = open_handles(device, index);
  if (status != MT_OK) {
    mt_plans_free(device);
    pthread_mutex_destroy(&device->lock);
    free(device->lost_reason);
    free(device);
    return status;
  }
  atomic_fetch_add(&backend->rt->refs, 1);
  *out = device;
  return MT_OK;
}

mt_device *mt_device_retain(mt_device *device) {
  atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
  return device;
}

void mt_device_release(mt_device *device) {
  if (atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (!mt_device_forked(device)) {
    if (!atomic_load(&device->lost) && !device->in_place) {
      mt_device_wait(device, device->submitted);
    }
    mt_plans_free(device);
    for (uint32_t i = 0; i < device->idle_count; i++) {
      device->table->queue_destroy(device->idle_queues[i]);
    }
    device->table->queue_destroy(device->queue);
    device->table->device_close(device->handle);
  }
  mt_runtime *rt = device->backend->rt;
  free(device->idle_queues);
  pthread_mutex_destroy(&device->lock);
  free(device->lost_reason);
  free(device);
  mt_runtime_unref(rt);
}

bool mt_device_on_host(const mt_device *device) {
  return device->info->flags & MT_ABI_DEVICE_HOST_POINTERS;
}

/* ---- failures ----------------------------------------------------------------------- */

static void mark_lost(mt_device *device, const char *reason) {
  pthread_mutex_lock(&device->lock);
  bool first = !atomic_load(&device->lost);
  if (first) {
    device->lost_reason = strdup(reason);
    atomic_store_explicit(&device->lost, true, memory_order_release);
  }
  pthread_mutex_unlock(&device->lock);
  if (first) {
    mt_log_write(&device->backend->rt->log, MT_LOG_WARN, "runtime",
                 "%s: the device is lost and not used again: %s", device->label, reason);
  }
}

mt_status mt_device_fail(mt_device *device, int32_t code, const char *doing, const char *message) {
  if (code == MT_ABI_ERR_DEVICE_LOST) {
    mark_lost(device, message);
  }
  mt_status status = code > 0 && code <= MT_ABI_ERR_TIMEOUT ? (mt_status)code : MT_ERR_BACKEND;
  if (status == MT_ERR_INVALID_ARGUMENT) {
    status = MT_ERR_BACKEND; /* between the core and the plugin, not the user's doing */
  }
  return mt_fail(status, "%s: %s: %s", device->label, doing,
                 message[0] ? message : mt_status_name(status));
}

mt_status mt_device_fail_late(mt_device *device, int32_t code, const char *message) {
  mark_lost(device, message);
  return mt_device_fail(device, code, "work given earlier failed", message);
}

bool mt_device_forked(const mt_device *device) {
  return device->fork_generation != mt_fork_generation() &&
         !(device->info->flags & MT_ABI_DEVICE_FORK_SAFE);
}

bool mt_device_reachable(const mt_device *device) {
  return !mt_device_forked(device) && !atomic_load_explicit(&device->lost, memory_order_acquire);
}

mt_status mt_device_usable(const mt_device *device) {
  if (mt_device_forked(device)) {
    return mt_fail(MT_ERR_FORKED,
                   "%s: used in a child process after fork(): create a runtime in the child",
                   device->label);
  }
  if (atomic_load_explicit(&device->lost, memory_order_acquire)) {
    return mt_fail(MT_ERR_DEVICE_LOST, "%s: the device is lost: %s", device->label,
                   device->lost_reason ? device->lost_reason : "no reason given");
  }
  return MT_OK;
}

/* ---- queues ------------------------------------------------------------------------- */

void mt_device_begin(mt_device *device) {
  pthread_mutex_lock(&device->lock);
}

mt_status mt_device_end(mt_device *device, int32_t code, uint64_t point, const char *doing,
                        const char *message) {
  uint64_t newest = device->submitted;
  bool rises = point > newest;
  if (code == MT_ABI_OK && rises) {
    device->submitted = point;
  }
  pthread_mutex_unlock(&device->lock);
  if (code != MT_ABI_OK) {
    return mt_device_fail(device, code, doing, message);
  }
  if (!rises) {
    char text[96];
    snprintf(text, sizeof(text), "gave point %llu after %llu: expected a higher one",
             (unsigned long long)point, (unsigned long long)newest);
    mark_lost(device, text);
    return mt_device_fail(device, MT_ABI_ERR_BACKEND, doing, text);
  }
  return MT_OK;
}

bool mt_device_is_done(mt_device *device, uint64_t point) {
  pthread_mutex_lock(&device->lock);
  bool done = point <= device->reached;
  pthread_mutex_unlock(&device->lock);
  return done;
}

/* Waits outside the lock, so that others can go on giving work. */
mt_status mt_device_wait(mt_device *device, uint64_t point) {
  if (mt_device_is_done(device, point)) {
    return MT_OK;
  }
  MT_TRY(mt_device_usable(device));
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  int32_t code = device->table->queue_wait(device->queue, point, UINT64_MAX, &msg);
  if (code != MT_ABI_OK) {
    return mt_device_fail_late(device, code, text);
  }
  pthread_mutex_lock(&device->lock);
  if (point > device->reached) {
    device->reached = point;
  }
  pthread_mutex_unlock(&device->lock);
  return MT_OK;
}

mt_status mt_device_sync(mt_device *device) {
  MT_TRY(mt_device_usable(device));
  pthread_mutex_lock(&device->lock);
  uint64_t point = device->submitted;
  pthread_mutex_unlock(&device->lock);
  mt_status status = mt_device_wait(device, point);
  mt_device_reap(device);
  return status;
}

mt_status mt_device_take_queue(mt_device *device, void **queue) {
  *queue = NULL;
  pthread_mutex_lock(&device->lock);
  bool idle = device->idle_count > 0;
  if (idle) {
    *queue = device->idle_queues[--device->idle_count]; /* NULL may be a plugin's handle */
  }
  pthread_mutex_unlock(&device->lock);
  if (idle) {
    return MT_OK;
  }
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  int32_t code = device->table->queue_create(device->handle, queue, &msg);
  return code == MT_ABI_OK ? MT_OK : mt_device_fail(device, code, "create a queue", text);
}

void mt_device_give_queue(mt_device *device, void *queue) {
  pthread_mutex_lock(&device->lock);
  if (device->idle_count == device->idle_room) {
    uint32_t room = device->idle_room ? 2 * device->idle_room : 4;
    void **more = realloc(device->idle_queues, room * sizeof(*more));
    if (more) {
      device->idle_queues = more;
      device->idle_room = room;
    }
  }
  bool kept = device->idle_count < device->idle_room;
  if (kept) {
    device->idle_queues[device->idle_count++] = queue;
  }
  pthread_mutex_unlock(&device->lock);
  if (!kept) {
    device->table->queue_destroy(queue);
  }
}

/* ---- released storage that is still in use ------------------------------------------ */

static bool in_use(const mt_device *device, const mt_storage *storage) {
  return storage->read_point > device->reached || storage->write_point > device->reached;
}

/* What the queue says it has reached; a failure there is reported by the next wait. More than
 * was given to it cannot be reached: such an answer says nothing. */
static void update_reached(mt_device *device) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  uint64_t reached = 0;
  if (device->table->queue_query(device->queue, &reached, &msg) == MT_ABI_OK &&
      reached > device->reached && reached <= device->submitted) {
    device->reached = reached;
  }
}

bool mt_device_bury(mt_device *device, mt_storage *storage) {
  if (!mt_device_reachable(device)) {
    return false;
  }
  pthread_mutex_lock(&device->lock);
  if (in_use(device, storage)) {
    update_reached(device);
  }
  bool buried = in_use(device, storage);
  if (buried) {
    storage->next_zombie = device->zombies;
    device->zombies = storage;
  }
  pthread_mutex_unlock(&device->lock);
  return buried;
}

void mt_device_reap(mt_device *device) {
  mt_storage *done = NULL;
  bool usable = mt_device_reachable(device);
  pthread_mutex_lock(&device->lock);
  if (usable && device->zombies) {
    update_reached(device);
  }
  for (mt_storage **link = &device->zombies; *link;) {
    mt_storage *storage = *link;
    if (usable && in_use(device, storage)) {
      link = &storage->next_zombie;
      continue;
    }
    *link = storage->next_zombie;
    storage->next_zombie = done;
    done = storage;
  }
  pthread_mutex_unlock(&device->lock);
  /* Outside the lock: release callbacks are the user's code. */
  mt_device_retain(device);
  while (done) {
    mt_storage *next = done->next_zombie;
    mt_storage_free(done);
    done = next;
  }
  mt_device_release(device);
}
