// SPDX-License-Identifier: Apache-2.0
/* The services that a plugin is given (mt_host_v1). ctx is its mt_backend. */
#include "../formats/format.h"
#include "../ops/op.h"
#include "hal.h"

#include <ctype.h>
#include <mecantensor/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void host_log(void *ctx, int32_t level, const char *message) {
  const mt_backend *backend = ctx;
  if (!backend || !message || level < MT_ABI_LOG_ERROR || level > MT_ABI_LOG_DEBUG) {
    return; /* query is pure: it has nothing to say */
  }
  mt_log_write(&backend->rt->log, (mt_log_level)level, backend->candidate->note.name, "%s",
               message);
}

static void *host_alloc(void *ctx, uint64_t bytes, uint64_t alignment) {
  (void)ctx;
  void *ptr = NULL;
  if (alignment < sizeof(void *)) {
    alignment = sizeof(void *);
  }
  if (bytes > SIZE_MAX / 2 || (alignment & (alignment - 1)) ||
      posix_memalign(&ptr, alignment, bytes ? bytes : 1) != 0) {
    return NULL;
  }
  return ptr;
}

static void host_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static int64_t host_config(void *ctx, const char *key, char *buf, uint64_t buf_bytes) {
  const mt_backend *backend = ctx;
  char name[128];
  if (!backend || !key) {
    return -1;
  }
  int length =
      snprintf(name, sizeof(name), "MECANTENSOR_%s_%s", backend->candidate->note.name, key);
  if (length < 0 || (size_t)length >= sizeof(name)) {
    return -1;
  }
  for (char *c = name; *c; c++) {
    *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
  }
  const char *value = mt_env(name);
  if (!value) {
    return -1;
  }
  size_t bytes = strlen(value);
  if (buf && bytes < buf_bytes) {
    memcpy(buf, value, bytes + 1);
  }
  return (int64_t)bytes;
}

static int32_t host_intern_op(void *ctx, const char *name, uint32_t version) {
  (void)ctx;
  return mt_op_find(name, version);
}

static int32_t host_intern_attr(void *ctx, const char *name) {
  (void)ctx;
  return mt_attr_find(name);
}

static int32_t host_intern_format(void *ctx, const char *id, uint32_t block_elements,
                                  uint32_t block_bytes) {
  (void)ctx;
  const mt_format *format = id ? mt_format_find(id) : NULL;
  bool same =
      format && format->block_elements == block_elements && format->block_bytes == block_bytes;
  return same ? mt_format_number(format) : 0;
}

static void host_parallel_for(void *ctx, uint32_t tasks, void (*fn)(void *arg, uint32_t task),
                              void *arg) {
  (void)ctx;
  mt_pool_run(tasks, fn, arg);
}

static uint32_t host_thread_count(void *ctx) {
  (void)ctx;
  return mt_pool_threads();
}

static const void *host_get_interface(void *ctx, const char *id, uint32_t version) {
  (void)ctx;
  (void)id;
  (void)version;
  return NULL; /* version 1.0 of the ABI has no optional groups */
}

void mt_host_table(mt_host_v1 *host, mt_backend *backend) {
  uint64_t caches[3];
  mt_cpu_caches(caches);
  *host = (mt_host_v1){
      .struct_size = sizeof(*host),
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .ctx = backend,
      .core_version = MT_VERSION,
      .cpu_features = mt_cpu_detect(),
      .l1d_bytes = caches[0],
      .l2_bytes = caches[1],
      .l3_bytes = caches[2],
      .log = host_log,
      .alloc = host_alloc,
      .free = host_free,
      .config = host_config,
      .intern_op = host_intern_op,
      .intern_attr = host_intern_attr,
      .intern_format = host_intern_format,
      .parallel_for = host_parallel_for,
      .thread_count = host_thread_count,
      .get_interface = host_get_interface,
  };
}
