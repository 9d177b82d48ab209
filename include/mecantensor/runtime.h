// SPDX-License-Identifier: Apache-2.0
/*
 * runtime.h - the runtime: which plugins there are, which devices run ops, logging.
 *
 * There is no hidden global: programs create a runtime, pass it to ops, release it.
 * Several may live at once. A runtime may be used by several threads at once.
 * Settings come from mt_runtime_options, else from the environment
 * (docs/environment.md lists every variable; they are ignored in setuid programs).
 */
#ifndef MECANTENSOR_RUNTIME_H
#define MECANTENSOR_RUNTIME_H

#include <mecantensor/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_runtime mt_runtime;

/* ---- logging ------------------------------------------------------------------------ */
typedef enum mt_log_level {
  MT_LOG_NONE = 0,
  MT_LOG_ERROR = 1,
  MT_LOG_WARN = 2, /* default */
  MT_LOG_INFO = 3,
  MT_LOG_DEBUG = 4,
} mt_log_level;

/* topic: "loader", "dispatch", "runtime", or a plugin's name. message: one line, no
 * newline. May be called from several threads at once, and must not call back into
 * the runtime. No call begins after mt_runtime_release() has returned. */
typedef void (*mt_log_fn)(void *user, mt_log_level level, const char *topic, const char *message);

/* ---- creating ----------------------------------------------------------------------- */
typedef struct mt_runtime_options {
  size_t struct_size; /* set by MT_RUNTIME_OPTIONS_INIT */
  /* Which backends run ops, in order; NULL: MECANTENSOR_BACKEND, else "auto".
   *   "auto"               every usable device by priority, then the reference kernels
   *   "cpu-avx2"           this backend's first device, and nothing else
   *   "opencl:1"           by index; "opencl:*Arc*" by a glob on the device's name
   *   "cuda,cpu-avx2,reference"  in this order for each op
   * A named backend that is missing or cannot be opened fails mt_runtime_create();
   * an op that no named backend supports fails with each one's reason. */
  const char *backend;
  const char *plugin_path; /* folders, ':' between; NULL: MECANTENSOR_PLUGIN_PATH */
  const char *plugins;     /* "glob,-glob" on plugin names; NULL: MECANTENSOR_PLUGINS */
  const char *log;         /* "info", "dispatch", "warn,loader=debug"; NULL: MECANTENSOR_LOG */
  mt_log_fn log_fn;        /* NULL: one line each on stderr */
  void *log_user;
  int plugin_path_only; /* 1: plugin_path replaces the built-in folder; 0: variable decides */
} mt_runtime_options;

#define MT_RUNTIME_OPTIONS_INIT                                                                    \
  { sizeof(mt_runtime_options), 0, 0, 0, 0, 0, 0, 0 }

/*
 * Finds plugins and opens what `backend` names ("auto" opens devices when they are
 * first needed). options may be NULL. May block for as long as drivers take to start.
 * Errors: NOT_FOUND (a named backend, with the reason), INVALID_ARGUMENT (a setting
 * that cannot be read), OUT_OF_MEMORY.
 */
MT_API mt_status mt_runtime_create(const mt_runtime_options *options, mt_runtime **out);

/* Gives up *runtime and sets it to NULL. Waits for pending work. Tensors may outlive
 * it: one whose content is on a device keeps that device until it is released. */
MT_API void mt_runtime_release(mt_runtime **runtime);

/* Blocks until all work given so far is done; returns the first failure. */
MT_API mt_status mt_runtime_sync(mt_runtime *runtime);

/* The setting in force, e.g. "auto" or "cpu-avx2,reference". Owned by the runtime. */
MT_API const char *mt_runtime_backend(const mt_runtime *runtime);

/* Threads that CPU work of this process is spread over, the caller's counted
 * (MECANTENSOR_NUM_THREADS, else the CPUs it may run on). 0 for NULL. */
MT_API uint32_t mt_runtime_threads(const mt_runtime *runtime);

/* ---- plugins: one record per candidate file ----------------------------------------- */
typedef enum mt_probe_stage {
  MT_PROBE_SECURITY = 1, /* owner and mode of the file and its folders */
  MT_PROBE_INSPECT = 2,  /* ELF header, machine, the note, its ABI */
  MT_PROBE_FILTER = 3,   /* MECANTENSOR_PLUGINS, plugins.d, same name seen before */
  MT_PROBE_CPU = 4,      /* CPU features the plugin needs */
  MT_PROBE_ISOLATE = 5,  /* tried out in a helper process: crash, hang */
  MT_PROBE_OPEN = 6,     /* dlopen */
  MT_PROBE_QUERY = 7,    /* mt_plugin_query_v1 and the table it fills in */
  MT_PROBE_INIT = 8,     /* the plugin's init: drivers */
  MT_PROBE_DEVICES = 9,  /* counting and describing devices */
  MT_PROBE_READY = 10,   /* usable */
} mt_probe_stage;

typedef struct mt_probe_record {
  const char *path;     /* absolute, as found */
  const char *name;     /* the plugin's name; "" when the file did not tell */
  const char *version;  /* "" until it was queried */
  mt_probe_stage stage; /* where it stopped; READY: it did not */
  mt_status code;       /* MT_OK: usable, or not needed so far (opened is false) */
  const char *reason;   /* a sentence; "" when code is MT_OK */
  bool opened;
  int32_t priority;
  uint32_t devices; /* valid when READY */
} mt_probe_record;

/*
 * Opens every plugin that is not refused, so that the records and the device list
 * are complete. Without it they hold what was needed so far. Failures of single
 * plugins are in their records, not errors of this call. Blocks on drivers.
 */
MT_API mt_status mt_runtime_probe_all(mt_runtime *runtime);

MT_API size_t mt_runtime_probe_count(const mt_runtime *runtime);
/* Fills *record; its strings are owned by the runtime and live as long as it does.
 * MT_ERR_NOT_FOUND past the end. Sorted as searched. */
MT_API mt_status mt_runtime_probe_get_sized(const mt_runtime *runtime, size_t index,
                                            mt_probe_record *record, size_t bytes);
static inline mt_status mt_runtime_probe_get(const mt_runtime *runtime, size_t index,
                                             mt_probe_record *record) {
  return mt_runtime_probe_get_sized(runtime, index, record, sizeof(*record));
}

/* "stage" as a word: "security", ..., "ready". Static. */
MT_API const char *mt_probe_stage_name(mt_probe_stage stage);

/* ---- where ops ran ------------------------------------------------------------------ */
typedef struct mt_op_stats {
  const char *op;      /* "matmul" */
  const char *backend; /* "cpu-avx2:0" or "reference" */
  uint64_t calls;
  uint64_t relayouts; /* operands copied to contiguous layout first */
  uint64_t decodes;   /* block operands decoded by the core first */
  uint64_t fallbacks; /* of the calls: those that an earlier backend in the order refused */
  char reason[512];   /* of the last refusal; "" when none */
} mt_op_stats;

/* One row for each (op, backend) that was used. MT_ERR_NOT_FOUND past the end. The
 * pointers live as long as the runtime. */
MT_API size_t mt_runtime_stats_count(mt_runtime *runtime);
MT_API mt_status mt_runtime_stats_get_sized(mt_runtime *runtime, size_t index, mt_op_stats *stats,
                                            size_t bytes);
static inline mt_status mt_runtime_stats_get(mt_runtime *runtime, size_t index,
                                             mt_op_stats *stats) {
  return mt_runtime_stats_get_sized(runtime, index, stats, sizeof(*stats));
}

#ifdef __cplusplus
}
#endif
#endif
