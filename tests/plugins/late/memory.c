// SPDX-License-Identifier: Apache-2.0
/* Buffers: each an allocation of its own, poisoned, between guard zones that are looked at
 * when it is freed. */
#include "late.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = LATE_ALIGNMENT, GUARD_BYTE = 0xa5, NEW_BYTE = 0xcb, FREED_BYTE = 0xdd };

static int32_t reserve(late_device *device, uint64_t bytes, mt_message_v1 *msg) {
  const late_config *config = &device->instance->config;
  if (device->lost) {
    return late_say(msg, MT_ABI_ERR_DEVICE_LOST, "the device is lost");
  }
  if (bytes > config->max_buffer_bytes || device->count.live_bytes > config->memory_bytes ||
      bytes > config->memory_bytes - device->count.live_bytes) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY,
                    "%llu bytes asked for, %llu of %llu in use, %llu at most in one buffer",
                    (unsigned long long)bytes, (unsigned long long)device->count.live_bytes,
                    (unsigned long long)config->memory_bytes,
                    (unsigned long long)config->max_buffer_bytes);
  }
  if (device->count.allocs >= config->fail_alloc_after) {
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "injected: allocation %llu fails",
                    (unsigned long long)device->count.allocs + 1);
  }
  device->count.allocs++;
  device->count.live_buffers++;
  device->count.live_bytes += bytes;
  return MT_ABI_OK;
}

static void unreserve(late_device *device, uint64_t bytes) {
  device->count.live_buffers--;
  device->count.live_bytes -= bytes;
}

int32_t late_buffer_alloc(void *handle, uint64_t bytes, void **out, mt_message_v1 *msg) {
  late_device *device = handle;
  const mt_host_v1 *host = device->instance->host;
  late_check_process(device->instance);
  *out = NULL;
  if (bytes == 0) {
    late_violation("buffer_alloc: 0 bytes");
  }
  pthread_mutex_lock(&device->lock);
  int32_t code = reserve(device, bytes, msg);
  pthread_mutex_unlock(&device->lock);
  if (code != MT_ABI_OK) {
    return code;
  }
  late_buffer *buffer = calloc(1, sizeof(*buffer));
  unsigned char *block =
      bytes > UINT64_MAX - 2 * GUARD ? NULL : host->alloc(host->ctx, bytes + 2 * GUARD, GUARD);
  if (!buffer || !block) {
    pthread_mutex_lock(&device->lock);
    unreserve(device, bytes);
    pthread_mutex_unlock(&device->lock);
    free(buffer);
    host->free(host->ctx, block);
    return late_say(msg, MT_ABI_ERR_OUT_OF_MEMORY, "the host has no %llu bytes",
                    (unsigned long long)bytes);
  }
  *buffer = (late_buffer){.device = device, .bytes = bytes, .data = block + GUARD};
  memset(block, GUARD_BYTE, GUARD);
  memset(buffer->data, NEW_BYTE, bytes);
  memset(buffer->data + bytes, GUARD_BYTE, GUARD);
  *out = buffer;
  return MT_ABI_OK;
}

static bool guard_intact(const unsigned char *guard) {
  for (int i = 0; i < GUARD; i++) {
    if (guard[i] != GUARD_BYTE) {
      return false;
    }
  }
  return true;
}

void late_buffer_free(void *handle, void *ptr) {
  late_device *device = handle;
  late_buffer *buffer = ptr;
  const mt_host_v1 *host = device->instance->host;
  late_check_process(device->instance);
  if (!buffer || buffer->device != device) {
    late_violation("buffer_free: not a buffer of device %u", device->index);
    return;
  }
  unsigned char *block = buffer->data - GUARD;
  if (!guard_intact(block) || !guard_intact(buffer->data + buffer->bytes)) {
    late_violation("buffer_free: written outside of a buffer of %llu bytes",
                   (unsigned long long)buffer->bytes);
  }
  pthread_mutex_lock(&device->lock);
  if (buffer->users > 0) {
    late_violation("buffer_free: %u commands still use the buffer", buffer->users);
  }
  device->count.frees++;
  unreserve(device, buffer->bytes);
  pthread_mutex_unlock(&device->lock);
  memset(block, FREED_BYTE, buffer->bytes + 2 * GUARD);
  host->free(host->ctx, block);
  memset(buffer, 0, sizeof(*buffer));
  free(buffer);
}

bool late_range_ok(const late_device *device, const late_buffer *buffer, uint64_t offset,
                   uint64_t bytes, const char *what) {
  if (!buffer || buffer->device != device) {
    late_violation("%s: not a buffer of device %u", what, device->index);
    return false;
  }
  if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
    late_violation("%s: %llu bytes at %llu of a buffer of %llu", what, (unsigned long long)bytes,
                   (unsigned long long)offset, (unsigned long long)buffer->bytes);
    return false;
  }
  return true;
}
