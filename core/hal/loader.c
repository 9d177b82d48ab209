// SPDX-License-Identifier: Apache-2.0
#include "loader.h"

#include "../error.h"
#include "elf_note.h"
#include "loader_parts.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *mt_env(const char *name) {
#if defined(__GLIBC__)
  const char *value = secure_getenv(name);
#else
  bool plain = getuid() == geteuid() && getgid() == getegid();
  const char *value = plain ? getenv(name) : NULL;
#endif
  return value && *value ? value : NULL;
}

/* ---- candidates --------------------------------------------------------------------- */

mt_status mt_candidate_stop(mt_candidate *candidate, mt_probe_stage stage, mt_status code,
                            const char *format, ...) {
  char *reason = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&reason, format, args) < 0) {
    reason = NULL;
  }
  va_end(args);
  free(candidate->reason);
  candidate->reason = reason;
  candidate->stage = stage;
  candidate->code = code;
  return code;
}

/* The reason is the last error. */
static mt_status stop_with_error(mt_candidate *candidate, mt_probe_stage stage, mt_status code) {
  return mt_candidate_stop(candidate, stage, code, "%s", mt_last_error());
}

void mt_loader_free(mt_candidate *list, size_t count) {
  for (size_t i = 0; list && i < count; i++) {
    free(list[i].path);
    free(list[i].reason);
    free(list[i].version);
  }
  free(list);
}

/* ---- scan --------------------------------------------------------------------------- */

static mt_status inspect(const char *real, mt_plugin_note_v1 *note) {
  /* O_NONBLOCK: a FIFO would stop us until somebody writes to it */
  int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", real);
  }
  mt_status status = mt_elf_inspect(fd, note);
  close(fd);
  return status;
}

/* SECURITY and INSPECT; *real is to be freed when MT_OK. */
static mt_status examine(mt_candidate *candidate, mt_plugin_note_v1 *note, char **real) {
  mt_status status = mt_secure_path(candidate->path, real);
  if (status != MT_OK) {
    return stop_with_error(candidate, MT_PROBE_SECURITY, status);
  }
  status = inspect(*real, note);
  if (status != MT_OK) {
    free(*real);
    *real = NULL;
    return stop_with_error(candidate, MT_PROBE_INSPECT, status);
  }
  return MT_OK;
}

typedef struct scan_rules {
  const char *setting; /* MECANTENSOR_PLUGINS */
  mt_rules dropins;
} scan_rules;

static mt_status filter(mt_candidate *candidate, const scan_rules *rules,
                        const mt_candidate *earlier) {
  const char *name = candidate->note.name;
  const mt_rule *priority = mt_rules_find(&rules->dropins, false, name);
  const mt_rule *disable = mt_rules_find(&rules->dropins, true, name);
  candidate->priority = priority ? priority->priority : candidate->note.priority;
  if (!mt_filter_allows(rules->setting, name)) {
    return mt_candidate_stop(candidate, MT_PROBE_FILTER, MT_ERR_UNSUPPORTED,
                             "MECANTENSOR_PLUGINS (or the program's plugins option) is '%s', which "
                             "leaves out '%s'",
                             rules->setting, name);
  }
  if (disable) {
    return mt_candidate_stop(candidate, MT_PROBE_FILTER, MT_ERR_UNSUPPORTED,
                             "'disable %s' in %s leaves it out", disable->pattern, disable->where);
  }
  if (earlier) {
    return mt_candidate_stop(candidate, MT_PROBE_FILTER, MT_ERR_UNSUPPORTED,
                             "the name '%s' is taken by %s, which was found first", name,
                             earlier->path);
  }
  return MT_OK;
}

static mt_status check_cpu(mt_candidate *candidate) {
  uint64_t needed = candidate->note.cpu_features, missing = needed & ~mt_cpu_detect();
  char needs[1024], lacks[1024];
  if (!missing) {
    return MT_OK;
  }
  return mt_candidate_stop(candidate, MT_PROBE_CPU, MT_ERR_UNSUPPORTED,
                           "needs CPU features %s: this machine lacks %s",
                           mt_cpu_describe(needed, needs, sizeof(needs)),
                           mt_cpu_describe(missing, lacks, sizeof(lacks)));
}

/* The first of this name that was not refused. */
static const mt_candidate *namesake(const mt_candidate *list, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (list[i].code == MT_OK && strcmp(list[i].note.name, name) == 0) {
      return &list[i];
    }
  }
  return NULL;
}

/* list[index], path set, is judged; those before it were. */
static void judge(mt_candidate *list, size_t index, const scan_rules *rules, const mt_logger *log) {
  mt_candidate *candidate = &list[index];
  char *real;
  mt_status status = examine(candidate, &candidate->note, &real);
  if (status == MT_OK) {
    free(real);
    status = filter(candidate, rules, namesake(list, index, candidate->note.name));
  }
  if (status == MT_OK) {
    status = check_cpu(candidate);
  }
  if (status == MT_OK) {
    candidate->stage = MT_PROBE_ISOLATE;
    mt_log_write(log, MT_LOG_DEBUG, "loader", "%s: plugin %s, priority %d", candidate->path,
                 candidate->note.name, (int)candidate->priority);
  } else {
    mt_log_write(log, MT_LOG_INFO, "loader", "%s: not used: %s: %s", candidate->path,
                 mt_probe_stage_name(candidate->stage), candidate->reason ? candidate->reason : "");
  }
}

mt_status mt_loader_scan(const mt_loader_config *config, mt_candidate **list, size_t *count) {
  mt_strings paths;
  scan_rules rules = {.setting = config->plugins ? config->plugins : mt_env("MECANTENSOR_PLUGINS")};
  *list = NULL;
  *count = 0;
  MT_TRY(mt_rules_read(config->log, &rules.dropins));
  mt_status status = mt_search_files(config, &paths);
  if (status != MT_OK) {
    mt_rules_free(&rules.dropins);
    return status;
  }
  mt_candidate *found = calloc(paths.count ? paths.count : 1, sizeof(*found));
  for (size_t i = 0; found && i < paths.count; i++) {
    found[i].path = paths.item[i];
    judge(found, i, &rules, config->log);
    paths.item[i] = NULL; /* the candidate has it */
  }
  mt_rules_free(&rules.dropins);
  size_t bytes = paths.count * sizeof(*found);
  *count = found ? paths.count : 0;
  *list = found;
  mt_strings_free(&paths);
  return found ? MT_OK : mt_fail_memory(bytes, "plugins");
}

/* ---- modules: opened files, for the life of the process ----------------------------- */

typedef struct loaded_module {
  struct loaded_module *next;
  char *path; /* what the dynamic linker knows it by */
  dev_t device;
  ino_t inode;
  off_t bytes;
  struct timespec changed;
  mt_plugin_v1 table;
} loaded_module;

/* Guards the list and all use of libltdl. Recursive: a constructor of some driver may fork
 * while we open it, and the handlers below lock. */
static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  loaded_module *modules;
  bool started; /* lt_dlinit */
} loader = {.once = PTHREAD_ONCE_INIT};

static void lock_loader(void) {
  pthread_mutex_lock(&loader.lock);
}

static void unlock_loader(void) {
  pthread_mutex_unlock(&loader.lock);
}

static void init_lock(void) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&loader.lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
}

/* The child makes the lock anew: its thread has another number than the one that holds it. */
static void set_up(void) {
  init_lock();
  pthread_atfork(lock_loader, unlock_loader, init_lock);
}

static bool same_file(const loaded_module *module, const struct stat *info) {
  return module->device == info->st_dev && module->inode == info->st_ino;
}

static bool same_content(const loaded_module *module, const struct stat *info) {
  return module->bytes == info->st_size && module->changed.tv_sec == info->st_mtim.tv_sec &&
         module->changed.tv_nsec == info->st_mtim.tv_nsec;
}

/* By file or by path, as the dynamic linker looks for it; the lock is held. */
static const loaded_module *find_module(const char *real, const struct stat *info) {
  for (const loaded_module *module = loader.modules; module; module = module->next) {
    if (same_file(module, info) || strcmp(module->path, real) == 0) {
      return module;
    }
  }
  return NULL;
}

/* dlerror() says what libltdl would not; the lock is held. */
static mt_status open_handle(const char *real, lt_dlhandle *handle) {
  if (!dlopen(real, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    const char *text = dlerror();
    return mt_fail(MT_ERR_BACKEND, "%s", text ? text : "dlopen failed");
  }
  if (!loader.started && lt_dlinit() != 0) {
    const char *text = lt_dlerror();
    return mt_fail(MT_ERR_BACKEND, "lt_dlinit: %s", text ? text : "failed");
  }
  loader.started = true;
  lt_dladvise advise = NULL;
  bool ready = lt_dladvise_init(&advise) == 0 && lt_dladvise_local(&advise) == 0 &&
               lt_dladvise_resident(&advise) == 0;
  *handle = ready ? lt_dlopenadvise(real, advise) : NULL;
  const char *text = *handle ? NULL : lt_dlerror();
  lt_dladvise_destroy(&advise);
  return *handle ? MT_OK : mt_fail(MT_ERR_BACKEND, "lt_dlopenadvise: %s", text ? text : "failed");
}

static mt_status query(lt_dlhandle handle, const mt_host_v1 *host, const char *name,
                       mt_plugin_v1 *table) {
  mt_plugin_query_v1_fn *function;
  void *symbol = lt_dlsym(handle, MT_QUERY_SYMBOL);
  if (!symbol) {
    return mt_table_no_symbol();
  }
  memcpy(&function, &symbol, sizeof(function));
  return mt_table_query(function, host, name, table);
}

static mt_status take_table(mt_candidate *candidate, const loaded_module *module) {
  candidate->version = strdup(module->table.version);
  if (!candidate->version) {
    mt_fail_memory(strlen(module->table.version) + 1, "a plugin's version");
    return stop_with_error(candidate, MT_PROBE_QUERY, MT_ERR_OUT_OF_MEMORY);
  }
  candidate->table = &module->table;
  candidate->opened = true;
  candidate->stage = MT_PROBE_INIT;
  return MT_OK;
}

static loaded_module *new_module(const char *real, const struct stat *info) {
  loaded_module *module = calloc(1, sizeof(*module));
  char *path = strdup(real);
  if (!module || !path) {
    mt_fail_memory(sizeof(*module), "a plugin");
    free(module);
    free(path);
    return NULL;
  }
  *module = (loaded_module){.path = path,
                            .device = info->st_dev,
                            .inode = info->st_ino,
                            .bytes = info->st_size,
                            .changed = info->st_mtim};
  return module;
}

/* OPEN and QUERY of a file that is new to the process; the lock is held. */
static mt_status add_module(mt_candidate *candidate, const char *real, const struct stat *info,
                            const mt_host_v1 *host) {
  lt_dlhandle handle;
  mt_status status = open_handle(real, &handle);
  if (status != MT_OK) {
    return stop_with_error(candidate, MT_PROBE_OPEN, status);
  }
  loaded_module *added = new_module(real, info);
  if (!added) {
    return stop_with_error(candidate, MT_PROBE_QUERY, MT_ERR_OUT_OF_MEMORY);
  }
  status = query(handle, host, candidate->note.name, &added->table);
  if (status != MT_OK) {
    free(added->path);
    free(added);
    return stop_with_error(candidate, MT_PROBE_QUERY, status);
  }
  added->next = loader.modules;
  loader.modules = added;
  return take_table(candidate, added);
}

/* Takes what the process has opened before. A file that was written over in place may be
 * mapped as a mixture by now. One that was replaced is not: its old self is still there, and
 * the dynamic linker would give us that one under this path. */
static mt_status reuse(mt_candidate *candidate, const char *real, const struct stat *info,
                       const mt_logger *log, bool *done) {
  const loaded_module *module = find_module(real, info);
  *done = module != NULL;
  if (!module) {
    return MT_OK;
  }
  bool replaced = !same_file(module, info);
  if ((!replaced && !same_content(module, info)) ||
      strcmp(module->table.name, candidate->note.name) != 0) {
    return mt_candidate_stop(candidate, MT_PROBE_OPEN, MT_ERR_UNSUPPORTED,
                             "the file was %s after this process opened it: restart the program",
                             replaced ? "replaced by another plugin" : "written over");
  }
  if (replaced) {
    mt_log_write(log, MT_LOG_INFO, "loader",
                 "%s was replaced: this process goes on with version %s, which it opened before",
                 candidate->path, module->table.version);
  }
  return take_table(candidate, module);
}

static mt_status open_real(mt_candidate *candidate, const char *real, const mt_host_v1 *host,
                           const mt_logger *log) {
  struct stat info;
  bool done;
  if (stat(real, &info) != 0) {
    mt_fail_errno(MT_ERR_IO, errno, "%s", real);
    return stop_with_error(candidate, MT_PROBE_OPEN, MT_ERR_IO);
  }
  lock_loader();
  mt_status status = reuse(candidate, real, &info, log, &done);
  unlock_loader();
  if (done) {
    return status;
  }
  /* Without the lock: it may take as long as the time limit. */
  mt_probe_stage stage;
  status = mt_isolate(real, candidate->note.name, log, &stage);
  if (status != MT_OK) {
    return stop_with_error(candidate, stage, status);
  }
  lock_loader();
  status = reuse(candidate, real, &info, log, &done); /* another thread may have been faster */
  if (!done) {
    status = add_module(candidate, real, &info, host);
  }
  unlock_loader();
  return status;
}

mt_status mt_loader_open(mt_candidate *candidate, const mt_host_v1 *query_host,
                         const mt_logger *log) {
  if (candidate->opened) {
    return MT_OK;
  }
  if (candidate->code != MT_OK) {
    return mt_fail(candidate->code, "%s", candidate->reason ? candidate->reason : "");
  }
  pthread_once(&loader.once, set_up);
  mt_plugin_note_v1 note;
  char *real;
  /* Again: much may have happened since the scan. */
  mt_status status = examine(candidate, &note, &real);
  if (status != MT_OK) {
    return status;
  }
  if (memcmp(&note, &candidate->note, sizeof(note)) != 0) {
    status = mt_candidate_stop(candidate, MT_PROBE_INSPECT, MT_ERR_UNSUPPORTED,
                               "the file's note changed after it was found: create the runtime "
                               "again");
  } else {
    status = open_real(candidate, real, query_host, log);
  }
  free(real);
  return status;
}
