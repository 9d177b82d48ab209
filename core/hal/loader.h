// SPDX-License-Identifier: Apache-2.0
/*
 * loader.h - from folders to opened plugins: search, inspect, open, query.
 *
 * Nothing of a file is run before it has passed: owner and mode, ELF and note, the
 * user's filter, CPU features, and (unless switched off) a trial in a helper process.
 * Each candidate file has one record whatever happens to it.
 * Opened modules are shared by the process and never unloaded. All of libltdl's use is
 * behind one mutex in loader.c.
 */
#ifndef MT_CORE_LOADER_H
#define MT_CORE_LOADER_H

#include "../log.h"
#include <mecantensor/plugin.h>
#include <mecantensor/runtime.h>

typedef struct mt_candidate {
  char *path;   /* absolute */
  char *reason; /* NULL: none */
  char *version;
  mt_probe_stage stage;
  mt_status code;
  bool opened; /* table is valid */
  int32_t priority;
  mt_plugin_note_v1 note;    /* name is "" until inspected */
  const mt_plugin_v1 *table; /* static for the life of the process; missing tail is zero */
} mt_candidate;

typedef struct mt_loader_config {
  const char *plugin_path; /* NULL: MECANTENSOR_PLUGIN_PATH */
  const char *plugins;     /* NULL: MECANTENSOR_PLUGINS */
  bool path_only;          /* or MECANTENSOR_PLUGIN_PATH_ONLY=1 */
  const mt_logger *log;
} mt_loader_config;

/* Candidates in order of search, each stopped at SECURITY, INSPECT, FILTER or CPU with a
 * reason, or with code MT_OK and stage ISOLATE: to be opened. Opens nothing. */
mt_status mt_loader_scan(const mt_loader_config *config, mt_candidate **list, size_t *count);
void mt_loader_free(mt_candidate *list, size_t count);

/* ISOLATE, OPEN, QUERY: on success opened is true, table set, stage INIT (to be done by
 * the caller). On failure stage, code and reason of the candidate are set and the same
 * code returned. Once failed, stays failed. */
mt_status mt_loader_open(mt_candidate *candidate, const mt_host_v1 *query_host,
                         const mt_logger *log);

/* Stops a candidate: sets stage, code and a formatted reason. Returns code. */
MT_PRINTF(4, 5)
mt_status mt_candidate_stop(mt_candidate *candidate, mt_probe_stage stage, mt_status code,
                            const char *format, ...);

/* getenv for our variables: NULL in setuid programs, and for "" too. */
const char *mt_env(const char *name);

/* ---- cpu.c ---- */
uint64_t mt_cpu_detect(void); /* MT_CPU_* of this machine; detected once */
/* Words for bits, e.g. "avx2 fma", into buf. */
const char *mt_cpu_describe(uint64_t features, char *buf, size_t size);
/* bytes[0..2]: L1d, L2, L3; 0 unknown */
void mt_cpu_caches(uint64_t bytes[3]);

#endif
