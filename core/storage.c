// SPDX-License-Identifier: Apache-2.0
#include "error.h"
#include "hal/hal.h"
#include "tensor_impl.h"

#include <stdlib.h>
#include <string.h>

static mt_status storage_new(size_t bytes, mt_storage **out) {
  mt_storage *storage = calloc(1, sizeof(*storage));
  if (!storage) {
    return mt_fail_memory(sizeof(*storage), "a tensor's storage");
  }
  if (pthread_mutex_init(&storage->lock, NULL) != 0) {
    free(storage);
    return mt_fail(MT_ERR_OUT_OF_MEMORY, "out of memory: a mutex");
  }
  atomic_init(&storage->refs, 1);
  atomic_init(&storage->valid, MT_ON_HOST);
  atomic_init(&storage->frozen, false);
  atomic_init(&storage->content_id, 0);
  storage->bytes = bytes;
  *out = storage;
  return MT_OK;
}

/* calloc of large blocks costs no memset, which aligned allocation and memset would. */
mt_status mt_storage_host_alloc(mt_storage *storage, bool zero) {
  size_t room = storage->bytes + MT_ALIGNMENT;
  void *block = room < storage->bytes ? NULL : zero ? calloc(1, room) : malloc(room);
  if (!block) {
    return mt_fail_memory(storage->bytes, "a tensor's content");
  }
  uintptr_t at = ((uintptr_t)block + MT_ALIGNMENT - 1) / MT_ALIGNMENT * MT_ALIGNMENT;
  storage->host_block = block;
  storage->host = (char *)block + (at - (uintptr_t)block);
  return MT_OK;
}

mt_status mt_storage_create(size_t bytes, bool lazy, mt_storage **out) {
  MT_TRY(storage_new(bytes, out));
  mt_status status = lazy ? MT_OK : mt_storage_host_alloc(*out, true);
  if (status != MT_OK) {
    mt_storage_release(*out);
    *out = NULL;
  }
  return status;
}

mt_status mt_storage_wrap(void *host, size_t bytes, bool read_only, mt_release_fn release,
                          void *release_data, void *release_user, mt_storage **out) {
  MT_TRY(storage_new(bytes, out));
  if (!host) { /* an empty tensor: any address will do */
    static char nothing[MT_ALIGNMENT];
    host = nothing;
  }
  (*out)->host = host;
  (*out)->wrapped = true;
  (*out)->read_only = read_only;
  (*out)->release = release;
  (*out)->release_data = release_data;
  (*out)->release_user = release_user;
  return MT_OK;
}

mt_storage *mt_storage_retain(mt_storage *storage) {
  atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
  return storage;
}

void mt_storage_free(mt_storage *storage) {
  for (uint32_t i = 0; i < storage->planner_count; i++) {
    mt_plans_forget(storage->planners[i], atomic_load(&storage->content_id));
    mt_device_release(storage->planners[i]);
  }
  free(storage->planners);
  if (storage->device) {
    mt_storage_drop_buffer(storage);
  }
  if (storage->release) {
    storage->release(storage->release_data, storage->release_user);
  }
  free(storage->host_block);
  pthread_mutex_destroy(&storage->lock);
  free(storage);
}

void mt_storage_release(mt_storage *storage) {
  if (atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (!storage->device || !mt_device_bury(storage->device, storage)) {
    mt_storage_free(storage);
  }
}

mt_status mt_storage_to_host_locked(mt_storage *storage, bool for_write) {
  if (storage->device) {
    MT_TRY(mt_storage_from_device(storage, for_write));
  }
  return storage->host ? MT_OK : mt_storage_host_alloc(storage, false);
}

mt_status mt_storage_to_host(mt_storage *storage, bool for_write) {
  pthread_mutex_lock(&storage->lock);
  mt_status status = mt_storage_to_host_locked(storage, for_write);
  pthread_mutex_unlock(&storage->lock);
  return status;
}
