// SPDX-License-Identifier: Apache-2.0
/*
 * Where the bytes of a storage are. One device at a time may hold a copy beside the
 * host's. valid says which copies are the newest; read_point and write_point say until
 * when the device's queue uses the storage (its buffer, or the host memory that an
 * upload reads).
 */
#include "../error.h"
#include "hal.h"

static uint64_t last_use(const mt_storage *storage) {
  return storage->read_point > storage->write_point ? storage->read_point : storage->write_point;
}

static mt_status download(mt_storage *storage) {
  mt_device *device = storage->device;
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  uint64_t point = 0;
  if (!storage->host) {
    MT_TRY(mt_storage_host_alloc(storage, false));
  }
  if (storage->bytes == 0) {
    return MT_OK;
  }
  mt_device_begin(device);
  int32_t code = device->table->download(device->queue, storage->buffer, 0, storage->host,
                                         storage->bytes, &point, &msg);
  MT_TRY(mt_device_end(device, code, point, "download", text));
  return mt_device_wait(device, point);
}

mt_status mt_storage_from_device(mt_storage *storage, bool for_write) {
  mt_device *device = storage->device;
  bool on_host = atomic_load(&storage->valid) & MT_ON_HOST;
  if (on_host && !mt_device_reachable(device) &&
      (storage->buffer || mt_device_is_done(device, storage->write_point))) {
    /* The device is out of reach, but what it had was a copy, or it only read. */
    if (for_write) {
      atomic_store(&storage->valid, MT_ON_HOST);
    }
    return MT_OK;
  }
  MT_TRY(mt_device_usable(device));
  if (on_host) {
    /* Reading beside an upload that reads is fine; writing is not. */
    bool wait = for_write || !storage->buffer;
    MT_TRY(wait ? mt_device_wait(device, for_write ? last_use(storage) : storage->write_point)
                : MT_OK);
  } else {
    MT_TRY(download(storage));
    atomic_fetch_or(&storage->valid, MT_ON_HOST);
  }
  if (for_write) {
    atomic_store(&storage->valid, MT_ON_HOST);
  }
  return MT_OK;
}

void mt_storage_drop_buffer(mt_storage *storage) {
  mt_device *device = storage->device;
  if (storage->buffer && !mt_device_forked(device)) {
    device->table->buffer_free(device->handle, storage->buffer);
  }
  storage->buffer = NULL;
  storage->device = NULL;
  storage->read_point = storage->write_point = 0;
  atomic_fetch_and(&storage->valid, ~(unsigned)MT_ON_DEVICE);
  mt_device_release(device);
}

/* Content to the host, the other device's copy given up. */
static mt_status leave_device(mt_storage *storage) {
  MT_TRY(mt_storage_to_host_locked(storage, false));
  if (mt_device_reachable(storage->device)) {
    MT_TRY(mt_device_wait(storage->device, last_use(storage)));
  }
  mt_storage_drop_buffer(storage);
  return MT_OK;
}

static mt_status make_buffer(mt_storage *storage, mt_device *device) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  uint64_t limit = device->info->max_buffer_bytes;
  uint64_t bytes = storage->bytes ? storage->bytes : 1;
  if (limit && bytes > limit) {
    return mt_fail(MT_ERR_OUT_OF_MEMORY, "%s: a buffer of %llu bytes: the largest has %llu",
                   device->label, (unsigned long long)bytes, (unsigned long long)limit);
  }
  void *buffer = NULL;
  int32_t code = device->table->buffer_alloc(device->handle, bytes, &buffer, &msg);
  if (code != MT_ABI_OK) {
    return mt_device_fail(device, code, "allocate", text);
  }
  if (!buffer) {
    return mt_device_fail(device, MT_ABI_ERR_BACKEND, "allocate", "success without a buffer");
  }
  storage->buffer = buffer;
  storage->device = mt_device_retain(device);
  return MT_OK;
}

static mt_status upload(mt_storage *storage, mt_device *device) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  uint64_t point = 0;
  mt_device_begin(device);
  int32_t code = device->table->upload(device->queue, storage->buffer, 0, storage->host,
                                       storage->bytes, &point, &msg);
  MT_TRY(mt_device_end(device, code, point, "upload", text));
  storage->read_point = point;
  return MT_OK;
}

mt_status mt_storage_to_device(mt_storage *storage, mt_device *device, bool need_content) {
  if (storage->device && storage->device != device) {
    MT_TRY(leave_device(storage));
  }
  if (mt_device_on_host(device)) {
    MT_TRY(storage->host ? MT_OK : mt_storage_host_alloc(storage, false));
    if (!storage->device) {
      storage->device = mt_device_retain(device);
    }
    return MT_OK;
  }
  if (!storage->buffer) {
    MT_TRY(make_buffer(storage, device));
  }
  if (!(atomic_load(&storage->valid) & MT_ON_DEVICE)) {
    /* Without host memory nothing was ever written: any content is as good. */
    if (need_content && storage->host && storage->bytes > 0) {
      MT_TRY(upload(storage, device));
    }
    if (need_content) {
      atomic_fetch_or(&storage->valid, MT_ON_DEVICE);
    }
  }
  return MT_OK;
}

void mt_storage_mark(mt_storage *storage, mt_device *device, uint64_t point, bool written) {
  if (!written) {
    storage->read_point = point;
    return;
  }
  storage->write_point = point;
  atomic_store(&storage->valid, mt_device_on_host(device) ? MT_ON_HOST : MT_ON_DEVICE);
}
