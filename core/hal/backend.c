// SPDX-License-Identifier: Apache-2.0
/* A plugin in use by a runtime: load, init, list the devices, open them. The runtime's
 * lock is held by every caller. */
#include "../error.h"
#include "hal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 1024 };

static mt_status stop(mt_backend *backend, mt_probe_stage stage, int32_t code, const char *text) {
  mt_status status = code > 0 && code <= MT_ABI_ERR_TIMEOUT ? (mt_status)code : MT_ERR_BACKEND;
  return mt_candidate_stop(backend->candidate, stage, status, "%s",
                           text[0] ? text : mt_status_name(status));
}

static mt_status describe_devices(mt_backend *backend, uint32_t count, char *text,
                                  mt_message_v1 *msg) {
  const mt_plugin_v1 *table = backend->candidate->table;
  for (uint32_t i = 0; i < count; i++) {
    mt_device_info_v1 *info = &backend->infos[i];
    info->struct_size = sizeof(*info);
    int32_t code = table->device_info(backend->instance, i, info, msg);
    if (code != MT_ABI_OK) {
      return stop(backend, MT_PROBE_DEVICES, code, text);
    }
    info->name[sizeof(info->name) - 1] = '\0';
    info->vendor[sizeof(info->vendor) - 1] = '\0';
    info->driver[sizeof(info->driver) - 1] = '\0';
    if (!(info->flags & MT_ABI_DEVICE_HOST_POINTERS) && !table->buffer_alloc) {
      snprintf(text, msg->text_bytes,
               "device %u has memory of its own, but the plugin has no buffer_alloc", i);
      return stop(backend, MT_PROBE_DEVICES, MT_ABI_ERR_BACKEND, text);
    }
    if (info->has_pci) {
      snprintf(backend->pci[i], sizeof(backend->pci[i]), "%04x:%02x:%02x.%x",
               info->pci_domain & 0xffff, info->pci_bus & 0xff, info->pci_device & 0xff,
               info->pci_function & 0xf);
    }
    snprintf(backend->labels[i], sizeof(backend->labels[i]), "%s:%u", table->name, i);
  }
  backend->device_count = count;
  return MT_OK;
}

static mt_status list_devices(mt_backend *backend) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  uint32_t count = 0;
  int32_t code = backend->candidate->table->device_count(backend->instance, &count, &msg);
  if (code != MT_ABI_OK) {
    return stop(backend, MT_PROBE_DEVICES, code, text);
  }
  if (count == 0 || count > MAX_DEVICES) {
    snprintf(text, sizeof(text), count ? "it claims to have %u devices" : "it found no device",
             count);
    return stop(backend, MT_PROBE_DEVICES, MT_ABI_ERR_NOT_FOUND, text);
  }
  backend->devices = calloc(count, sizeof(mt_device *));
  backend->infos = calloc(count, sizeof(*backend->infos));
  backend->labels = calloc(count, sizeof(*backend->labels));
  backend->pci = calloc(count, sizeof(*backend->pci));
  if (!backend->devices || !backend->infos || !backend->labels || !backend->pci) {
    return stop(backend, MT_PROBE_DEVICES, MT_ABI_ERR_OUT_OF_MEMORY, "");
  }
  return describe_devices(backend, count, text, &msg);
}

static mt_status init(mt_backend *backend) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  mt_candidate *candidate = backend->candidate;
  int32_t code = candidate->table->init(&backend->host, &backend->instance, &msg);
  if (code != MT_ABI_OK) {
    backend->instance = NULL;
    return stop(backend, MT_PROBE_INIT, code, text);
  }
  backend->started = true;
  backend->fork_generation = mt_fork_generation();
  return MT_OK;
}

mt_status mt_backend_open(mt_backend *backend) {
  mt_candidate *candidate = backend->candidate;
  if (candidate->stage == MT_PROBE_READY) {
    return MT_OK;
  }
  if (candidate->code != MT_OK) {
    return mt_fail(candidate->code, "%s: %s", mt_probe_stage_name(candidate->stage),
                   candidate->reason ? candidate->reason : "");
  }
  mt_host_v1 query_host;
  mt_host_table(&query_host, NULL);
  mt_host_table(&backend->host, backend);
  mt_status status = mt_loader_open(candidate, &query_host, &backend->rt->log);
  if (status == MT_OK) {
    status = init(backend);
  }
  if (status == MT_OK) {
    status = list_devices(backend);
  }
  if (status != MT_OK) {
    mt_log_write(&backend->rt->log, MT_LOG_INFO, "loader", "%s: not used: %s: %s", candidate->path,
                 mt_probe_stage_name(candidate->stage), candidate->reason ? candidate->reason : "");
    return mt_fail(status, "%s: %s", mt_probe_stage_name(candidate->stage),
                   candidate->reason ? candidate->reason : "");
  }
  candidate->stage = MT_PROBE_READY;
  mt_log_write(&backend->rt->log, MT_LOG_INFO, "loader", "%s: %s %s ready, %u device%s",
               candidate->path, candidate->table->name, candidate->table->version,
               backend->device_count, backend->device_count == 1 ? "" : "s");
  return MT_OK;
}

mt_status mt_backend_device(mt_backend *backend, uint32_t index, mt_device **out) {
  *out = NULL;
  MT_TRY(mt_backend_open(backend));
  if (index >= backend->device_count) {
    return mt_fail(MT_ERR_NOT_FOUND, "no device %u: it has %u (0 .. %u)", index,
                   backend->device_count, backend->device_count - 1);
  }
  if (!backend->devices[index]) {
    MT_TRY(mt_device_open(backend, index, &backend->devices[index]));
  }
  *out = backend->devices[index];
  return MT_OK;
}

/* As mt_device_forked(), of the plugin as a whole. */
static bool forked(const mt_backend *backend) {
  bool safe = backend->device_count > 0;
  for (uint32_t i = 0; i < backend->device_count; i++) {
    safe = safe && (backend->infos[i].flags & MT_ABI_DEVICE_FORK_SAFE);
  }
  return !safe && backend->fork_generation != mt_fork_generation();
}

void mt_backend_close(mt_backend *backend) {
  if (backend->started && !forked(backend)) {
    backend->candidate->table->shutdown(backend->instance);
  }
  free(backend->labels);
  free(backend->infos);
  free(backend->pci);
  free(backend->devices);
}
