// SPDX-License-Identifier: Apache-2.0
#include "error.h"
#include "hal/hal.h"
#include "sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life --------------------------------------------------------------------------- */

static void free_choices(mt_runtime *rt) {
  for (size_t i = 0; i < rt->choice_count; i++) {
    free(rt->choices[i].text);
    free(rt->choices[i].plugin);
    free(rt->choices[i].selector);
  }
  free(rt->choices);
}

void mt_runtime_unref(mt_runtime *rt) {
  if (atomic_fetch_sub(&rt->refs, 1) != 1) {
    return;
  }
  for (size_t i = 0; rt->backends && i < rt->candidate_count; i++) {
    mt_backend_close(&rt->backends[i]);
  }
  free(rt->backends);
  mt_loader_free(rt->candidates, rt->candidate_count);
  free(rt->order);
  free_choices(rt);
  free(rt->backend_setting);
  mt_stats_free(rt->stats);
  pthread_mutex_destroy(&rt->lock);
  if (rt->has_pool) {
    mt_pool_release();
  }
  free(rt);
}

static mt_status find_plugins(mt_runtime *rt, const mt_runtime_options *options) {
  mt_loader_config config = {.plugin_path = options->plugin_path,
                             .plugins = options->plugins,
                             .path_only = options->plugin_path_only != 0,
                             .log = &rt->log};
  MT_TRY(mt_loader_scan(&config, &rt->candidates, &rt->candidate_count));
  size_t count = rt->candidate_count ? rt->candidate_count : 1;
  rt->backends = calloc(count, sizeof(*rt->backends));
  if (!rt->backends) {
    return mt_fail_memory(count * sizeof(*rt->backends), "backends");
  }
  for (size_t i = 0; i < rt->candidate_count; i++) {
    rt->backends[i].rt = rt;
    rt->backends[i].candidate = &rt->candidates[i];
  }
  return MT_OK;
}

static mt_status set_up(mt_runtime *rt, const mt_runtime_options *options) {
  const char *log = options->log ? options->log : mt_env("MECANTENSOR_LOG");
  const char *backend = options->backend ? options->backend : mt_env("MECANTENSOR_BACKEND");
  MT_TRY(mt_log_init(&rt->log, log, options->log_fn, options->log_user));
  MT_TRY(mt_pool_acquire());
  rt->has_pool = true;
  rt->backend_setting = strdup(backend ? backend : "auto");
  if (!rt->backend_setting) {
    return mt_fail_memory(1, "the backend setting");
  }
  MT_TRY(mt_choices_parse(rt, rt->backend_setting));
  MT_TRY(mt_stats_create(&rt->stats));
  MT_TRY(find_plugins(rt, options));
  pthread_mutex_lock(&rt->lock);
  mt_status status = mt_order_resolve_named(rt);
  pthread_mutex_unlock(&rt->lock);
  return status;
}

mt_status mt_runtime_create(const mt_runtime_options *options, mt_runtime **out) {
  mt_runtime_options known = MT_RUNTIME_OPTIONS_INIT;
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_create: out is NULL");
  }
  *out = NULL;
  if (options) {
    if (options->struct_size < sizeof(size_t)) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "mt_runtime_create: options.struct_size is %zu: start from "
                     "MT_RUNTIME_OPTIONS_INIT",
                     options->struct_size);
    }
    memcpy(&known, options,
           options->struct_size < sizeof(known) ? options->struct_size : sizeof(known));
  }
  mt_runtime *rt = calloc(1, sizeof(*rt));
  if (!rt) {
    return mt_fail_memory(sizeof(*rt), "a runtime");
  }
  atomic_init(&rt->refs, 1);
  pthread_mutex_init(&rt->lock, NULL);
  mt_status status = set_up(rt, &known);
  if (status != MT_OK) {
    mt_runtime_release(&rt);
    return status;
  }
  *out = rt;
  return MT_OK;
}

/* The nth device of a backend with a reference for the caller; NULL: not open. */
static mt_device *borrow_device(mt_runtime *rt, const mt_backend *backend, uint32_t n, bool *end) {
  pthread_mutex_lock(&rt->lock);
  *end = n >= backend->device_count;
  mt_device *device = *end ? NULL : backend->devices[n];
  if (device) {
    mt_device_retain(device);
  }
  pthread_mutex_unlock(&rt->lock);
  return device;
}

/* Calls fn for each open device; the first failure counts. */
static mt_status each_device(mt_runtime *rt, mt_status (*fn)(mt_device *device)) {
  mt_status first = MT_OK;
  for (size_t i = 0; rt->backends && i < rt->candidate_count; i++) {
    bool end = false;
    for (uint32_t n = 0; !end; n++) {
      mt_device *device = borrow_device(rt, &rt->backends[i], n, &end);
      if (device) {
        mt_status status = fn(device);
        first = first == MT_OK ? status : first;
        mt_device_release(device);
      }
    }
  }
  return first;
}

static mt_status sync_device(mt_device *device) {
  return device->in_place ? MT_OK : mt_device_sync(device);
}

mt_status mt_runtime_sync(mt_runtime *rt) {
  return rt ? each_device(rt, sync_device)
            : mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_sync: runtime is NULL");
}

/* Work that fails now is reported to those who read what it was to make. */
static mt_status let_go(mt_device *device) {
  if (mt_device_reachable(device)) {
    sync_device(device);
  }
  mt_device_reap(device);
  mt_device_release(device);
  return MT_OK;
}

void mt_runtime_release(mt_runtime **runtime) {
  if (!runtime || !*runtime) {
    return;
  }
  mt_runtime *rt = *runtime;
  *runtime = NULL;
  each_device(rt, let_go);
  if (atomic_load(&rt->refs) > 1) { /* it goes on without the one who listened to it */
    atomic_store_explicit(&rt->log.silent, true, memory_order_relaxed);
  }
  mt_runtime_unref(rt);
}

const char *mt_runtime_backend(const mt_runtime *rt) {
  return rt ? rt->backend_setting : "";
}

uint32_t mt_runtime_threads(const mt_runtime *rt) {
  return rt ? mt_pool_threads() : 0;
}

/* ---- plugins ------------------------------------------------------------------------ */

const char *mt_probe_stage_name(mt_probe_stage stage) {
  static const char *const names[] = {
      [MT_PROBE_SECURITY] = "security", [MT_PROBE_INSPECT] = "inspect",
      [MT_PROBE_FILTER] = "filter",     [MT_PROBE_CPU] = "cpu",
      [MT_PROBE_ISOLATE] = "isolate",   [MT_PROBE_OPEN] = "open",
      [MT_PROBE_QUERY] = "query",       [MT_PROBE_INIT] = "init",
      [MT_PROBE_DEVICES] = "devices",   [MT_PROBE_READY] = "ready",
  };
  return stage >= MT_PROBE_SECURITY && stage <= MT_PROBE_READY ? names[stage] : "unknown";
}

mt_status mt_runtime_probe_all(mt_runtime *rt) {
  if (!rt) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_probe_all: runtime is NULL");
  }
  pthread_mutex_lock(&rt->lock);
  for (size_t i = 0; i < rt->candidate_count; i++) {
    if (rt->candidates[i].code == MT_OK) {
      mt_backend_open(&rt->backends[i]); /* the record has the reason */
    }
  }
  pthread_mutex_unlock(&rt->lock);
  return MT_OK;
}

size_t mt_runtime_probe_count(const mt_runtime *rt) {
  return rt ? rt->candidate_count : 0;
}

mt_status mt_runtime_probe_get_sized(const mt_runtime *runtime, size_t index,
                                     mt_probe_record *record, size_t bytes) {
  mt_runtime *rt = (mt_runtime *)runtime; /* only its lock */
  if (!rt || !record) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_probe_get: %s is NULL",
                   rt ? "record" : "runtime");
  }
  memset(record, 0, bytes);
  if (index >= rt->candidate_count) {
    return mt_fail(MT_ERR_NOT_FOUND, "mt_runtime_probe_get: record %zu of %zu", index,
                   rt->candidate_count);
  }
  pthread_mutex_lock(&rt->lock);
  const mt_candidate *candidate = &rt->candidates[index];
  mt_probe_record known = {
      .path = candidate->path,
      .name = candidate->note.name,
      .version = candidate->version ? candidate->version : "",
      .stage = candidate->stage,
      .code = candidate->code,
      .reason = candidate->reason ? candidate->reason : "",
      .opened = candidate->opened,
      .priority = candidate->priority,
      .devices = rt->backends[index].device_count,
  };
  mt_fill_sized(record, bytes, &known, sizeof(known));
  pthread_mutex_unlock(&rt->lock);
  return MT_OK;
}

/* ---- devices ------------------------------------------------------------------------ */

const char *mt_device_kind_name(mt_device_kind kind) {
  static const char *const names[] = {
      [MT_DEVICE_CPU] = "cpu",   [MT_DEVICE_GPU] = "gpu",     [MT_DEVICE_NPU] = "npu",
      [MT_DEVICE_FPGA] = "fpga", [MT_DEVICE_OTHER] = "other",
  };
  return kind >= MT_DEVICE_CPU && kind <= MT_DEVICE_OTHER ? names[kind] : "unknown";
}

/* Backends by priority, then order of search: the nth opened one. */
static mt_backend *backend_at_rank(mt_runtime *rt, size_t rank) {
  for (size_t i = 0; i < rt->candidate_count; i++) {
    size_t before = 0;
    for (size_t j = 0; j < rt->candidate_count; j++) {
      int32_t pi = rt->candidates[i].priority, pj = rt->candidates[j].priority;
      before += pj > pi || (pj == pi && j < i);
    }
    if (before == rank) {
      return &rt->backends[i];
    }
  }
  return NULL;
}

size_t mt_runtime_device_count(mt_runtime *rt) {
  size_t count = 0;
  if (rt) {
    pthread_mutex_lock(&rt->lock);
    for (size_t i = 0; i < rt->candidate_count; i++) {
      count += rt->backends[i].device_count;
    }
    pthread_mutex_unlock(&rt->lock);
  }
  return count;
}

static bool is_selected(mt_runtime *rt, const mt_device *device) {
  size_t count = atomic_load_explicit(&rt->order_count, memory_order_acquire);
  for (size_t i = 0; device && i < count; i++) {
    if (rt->order[i] == device) {
      return true;
    }
  }
  return false;
}

static void fill_device(mt_runtime *rt, const mt_backend *backend, uint32_t index,
                        mt_device_info *info) {
  const mt_device_info_v1 *from = &backend->infos[index];
  *info = (mt_device_info){
      .backend = backend->candidate->note.name,
      .index = index,
      .kind = (mt_device_kind)from->kind,
      .name = from->name,
      .vendor = from->vendor,
      .driver = from->driver,
      .memory_bytes = from->memory_bytes,
      .host_memory = from->flags & MT_ABI_DEVICE_HOST_POINTERS,
      .unified_memory = from->flags & MT_ABI_DEVICE_UNIFIED_MEMORY,
      .selected = is_selected(rt, backend->devices[index]),
      .pci = backend->pci[index],
      .uuid = from->uuid,
  };
}

mt_status mt_runtime_device_get_sized(mt_runtime *rt, size_t index, mt_device_info *info,
                                      size_t bytes) {
  mt_device_info known;
  if (!rt || !info) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_device_get: %s is NULL",
                   rt ? "info" : "runtime");
  }
  memset(info, 0, bytes);
  if (rt->has_auto) {
    mt_order_at(rt, 0); /* so that selected tells what auto takes */
  }
  size_t skip = index;
  bool found = false;
  pthread_mutex_lock(&rt->lock);
  for (size_t rank = 0; !found && rank < rt->candidate_count; rank++) {
    const mt_backend *backend = backend_at_rank(rt, rank);
    found = skip < backend->device_count;
    if (found) {
      fill_device(rt, backend, (uint32_t)skip, &known);
      mt_fill_sized(info, bytes, &known, sizeof(known));
    }
    skip -= found ? 0 : backend->device_count;
  }
  pthread_mutex_unlock(&rt->lock);
  return found ? MT_OK : mt_fail(MT_ERR_NOT_FOUND, "mt_runtime_device_get: no device %zu", index);
}

const char *mt_tensor_location(const mt_tensor *tensor) {
  const char *where = "host";
  if (tensor) {
    mt_storage *storage = tensor->storage;
    pthread_mutex_lock(&storage->lock);
    if (storage->device && !(atomic_load(&storage->valid) & MT_ON_HOST)) {
      where = storage->device->label;
    }
    pthread_mutex_unlock(&storage->lock);
  }
  return where;
}

static char cpu_words[512];

static void describe_cpu(void) {
  mt_cpu_describe(mt_cpu_detect(), cpu_words, sizeof(cpu_words));
}

const char *mt_cpu_features(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, describe_cpu);
  return cpu_words;
}
