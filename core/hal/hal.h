// SPDX-License-Identifier: Apache-2.0
/*
 * hal.h - runtime, backends (opened plugins), devices, and their use by storage.
 *
 * Lifetime: the user holds the runtime; the runtime holds its devices; a device holds the
 * runtime's inner part alive, and storage that lives on a device holds the device. So
 * mt_runtime_release() drops the devices, and what tensors still need stays.
 */
#ifndef MT_CORE_HAL_H
#define MT_CORE_HAL_H

#include "../log.h"
#include "../tensor_impl.h"
#include "loader.h"
#include <mecantensor/device.h>
#include <pthread.h>
#include <stdatomic.h>

struct mt_device;
struct mt_plans;
struct mt_stats;

/* A plugin of a runtime. */
typedef struct mt_backend {
  mt_runtime *rt;
  mt_candidate *candidate;
  mt_host_v1 host; /* what the plugin was given; ctx is this backend */
  void *instance;  /* the plugin's own; may be NULL */
  bool started;    /* init succeeded */
  unsigned fork_generation;
  uint32_t device_count;
  struct mt_device **devices; /* device_count; an element is NULL until opened */
  mt_device_info_v1 *infos;   /* device_count */
  char (*labels)[48];         /* "name:index" */
  char (*pci)[16];            /* "0000:01:00.0" or "" */
  bool auto_tried;
} mt_backend;

typedef struct mt_device {
  atomic_uint refs;
  mt_backend *backend;
  const mt_plugin_v1 *table;
  const mt_device_info_v1 *info;
  const char *label; /* "cpu-avx2:0" */
  void *handle;
  void *queue;              /* all work of a device that is not in_place */
  bool in_place;            /* synchronous on host memory: no points, many queues */
  unsigned fork_generation; /* of the process that opened it */
  atomic_bool lost;
  char *lost_reason; /* set before lost */

  pthread_mutex_t lock; /* one thread at a time gives work to queue; guards all below */
  uint64_t submitted;   /* newest point */
  uint64_t reached;     /* known to be done */
  mt_storage *zombies;  /* released storage that pending work still uses */
  void **idle_queues;   /* of an in_place device: one for each thread that ran at once */
  uint32_t idle_count, idle_room;
  struct mt_plans *plans;
} mt_device;

/* One entry of the backend order ("opencl:1"): which devices may run ops. */
typedef struct mt_choice {
  char *text;     /* as written */
  char *plugin;   /* name, or NULL for "auto" and "reference" */
  char *selector; /* index or glob; NULL: first device */
  bool is_auto, is_reference;
} mt_choice;

struct mt_runtime {
  atomic_uint refs;
  mt_logger log;
  char *backend_setting;
  mt_choice *choices;
  size_t choice_count;
  bool has_auto;
  bool reference_allowed; /* it is an entry, or auto is */

  mt_candidate *candidates;
  size_t candidate_count;
  mt_backend *backends; /* one for each candidate, same order */

  pthread_mutex_t lock; /* opening backends and devices */
  /* Devices that may run ops, best first. Grows under lock; a reader loads the count
   * (acquire) and uses the entries below it. */
  mt_device **order;
  atomic_size_t order_count;
  size_t order_room;
  atomic_bool order_complete;
  struct mt_stats *stats;
  bool has_pool; /* counted in the thread pool's users */
};

/* ---- select.c ----------------------------------------------------------------------- */
mt_status mt_choices_parse(mt_runtime *rt, const char *setting);
/* The device to try as number `index` of the order, opening the next candidate when
 * "auto" gets there; NULL: no more. */
mt_device *mt_order_at(mt_runtime *rt, size_t index);
mt_status mt_order_resolve_named(mt_runtime *rt); /* at creation */

/* ---- backend.c ---------------------------------------------------------------------- */
mt_status mt_backend_open(mt_backend *backend); /* loads, inits, lists devices; once */
void mt_backend_close(mt_backend *backend);
mt_status mt_backend_device(mt_backend *backend, uint32_t index,
                            mt_device **out); /* opens; borrowed */

/* Room for a plugin's sentence in text, which is all zero: its last byte is kept back, so
 * that the sentence ends whatever the plugin writes. */
static inline mt_message_v1 mt_message_in(char *text, size_t bytes) {
  return (mt_message_v1){sizeof(mt_message_v1), (uint32_t)bytes - 1, text};
}

/* ---- device.c ----------------------------------------------------------------------- */
mt_status mt_device_open(mt_backend *backend, uint32_t index, mt_device **out);
mt_device *mt_device_retain(mt_device *device);
void mt_device_release(mt_device *device);
mt_status mt_device_usable(const mt_device *device); /* an error when lost or forked */
/* It is an ancestor's, and does not survive a fork: its plugin is not called at all. */
bool mt_device_forked(const mt_device *device);
bool mt_device_reachable(const mt_device *device);         /* the same as a plain answer */
bool mt_device_is_done(mt_device *device, uint64_t point); /* as far as is known */
mt_status mt_device_wait(mt_device *device, uint64_t point);
mt_status mt_device_sync(mt_device *device);
/* Around each call that gives work to queue: begin locks; end takes what the plugin answered
 * (code, point, message), notes the point, and unlocks. A point that does not rise loses
 * the device, as nothing tells when that work is done. */
void mt_device_begin(mt_device *device);
mt_status mt_device_end(mt_device *device, int32_t code, uint64_t point, const char *doing,
                        const char *message);
/* A plugin's failure as ours: "cuda:0: execute: <message>"; DEVICE_LOST marks the device. */
mt_status mt_device_fail(mt_device *device, int32_t code, const char *doing, const char *message);
/* The same for work that was queued before: the queue is lost, and the device with it. */
mt_status mt_device_fail_late(mt_device *device, int32_t code, const char *message);
/* A queue for one execute on an in_place device, and back. */
mt_status mt_device_take_queue(mt_device *device, void **queue);
void mt_device_give_queue(mt_device *device, void *queue);
bool mt_device_on_host(const mt_device *device); /* works on host memory */
/* Puts a storage that nobody refers to aside until pending work is done with it; false:
 * no such work, free it now. */
bool mt_device_bury(mt_device *device, mt_storage *storage);
void mt_device_reap(mt_device *device); /* frees what is done with; takes lock */

/* ---- residency.c: storage and devices; the caller holds storage->lock --------------- */
mt_status mt_storage_to_device(mt_storage *storage, mt_device *device, bool need_content);
void mt_storage_mark(mt_storage *storage, mt_device *device, uint64_t point, bool written);
/* Waits and downloads as needed; storage->device is set. */
mt_status mt_storage_from_device(mt_storage *storage, bool for_write);
void mt_storage_drop_buffer(mt_storage *storage); /* pending work is done */

/* ---- plans.c: what prepare() made --------------------------------------------------- */
typedef struct mt_plan mt_plan;
mt_status mt_plans_create(struct mt_plans **out);
void mt_plans_free(mt_device *device);
/* The plan for this description, made if needed; hold it until mt_plan_put. */
mt_status mt_plan_get(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs,
                      bool storage_locked, mt_plan **out);
void *mt_plan_handle(const mt_plan *plan);
/* point: of the execute that uses it; 0 for in_place devices. */
void mt_plan_put(mt_device *device, mt_plan *plan, uint64_t point);
void mt_plans_forget(mt_device *device, uint64_t content_id);

/* ---- host.c ------------------------------------------------------------------------- */
void mt_host_table(mt_host_v1 *host, mt_backend *backend); /* NULL backend: for query */

/* ---- stats.c ------------------------------------------------------------------------ */
mt_status mt_stats_create(struct mt_stats **out);
void mt_stats_free(struct mt_stats *stats);
typedef struct mt_stat_event {
  int32_t op;
  const char *backend; /* label; lives as long as the runtime */
  uint32_t relayouts, decodes;
  const char *refusal; /* reason of an earlier backend, or NULL */
} mt_stat_event;
/* true: the first time for this (op, backend) */
bool mt_stats_count(struct mt_stats *stats, const mt_stat_event *event);

/* ---- threads.c: the process's pool -------------------------------------------------- */
mt_status mt_pool_acquire(void); /* reference-counted by runtimes */
void mt_pool_release(void);
uint32_t mt_pool_threads(void);
void mt_pool_run(uint32_t tasks, void (*fn)(void *arg, uint32_t task), void *arg);

/* ---- runtime.c ---------------------------------------------------------------------- */
void mt_runtime_unref(mt_runtime *rt); /* devices hold references beside the user's */

/* ---- fork.c ------------------------------------------------------------------------- */
unsigned mt_fork_generation(void);

#endif
