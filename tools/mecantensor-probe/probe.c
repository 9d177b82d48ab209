// SPDX-License-Identifier: Apache-2.0
/*
 * mecantensor-probe PLUGIN NAME [FD] - opens and queries one plugin, and tells on FD (stdout
 * without it) how that went. The lines are described in core/hal/isolate.c, which runs this.
 */
#include "error.h"
#include <hal/loader.h>
#include <hal/table.h>
#include <mecantensor/version.h>

#include <dlfcn.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

static int report_fd = STDOUT_FILENO;

/* One line; longer ones are cut. */
MT_PRINTF(1, 2)
static void report(const char *format, ...) {
  char line[1280];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof(line) - 1, format, args);
  va_end(args);
  size_t length = n < 0 ? 0 : strlen(line);
  for (size_t i = 0; i < length; i++) {
    if (line[i] == '\n' || line[i] == '\r') {
      line[i] = ' ';
    }
  }
  line[length++] = '\n';
  for (size_t at = 0; at < length;) {
    ssize_t written = write(report_fd, line + at, length - at);
    if (written < 0) {
      _exit(EXIT_FAILURE); /* nobody listens any more */
    }
    at += (size_t)written;
  }
}

/* ---- the host's services, as far as query may use them ------------------------------ */

static void no_log(void *ctx, int32_t level, const char *message) {
  (void)ctx, (void)level, (void)message;
}

static void *no_alloc(void *ctx, uint64_t bytes, uint64_t alignment) {
  (void)ctx, (void)bytes, (void)alignment;
  return NULL; /* query is pure */
}

static void no_free(void *ctx, void *ptr) {
  (void)ctx, (void)ptr;
}

static int64_t no_config(void *ctx, const char *key, char *buf, uint64_t buf_bytes) {
  (void)ctx, (void)key, (void)buf, (void)buf_bytes;
  return -1;
}

static int32_t no_op(void *ctx, const char *name, uint32_t version) {
  (void)ctx, (void)name, (void)version;
  return 0;
}

static int32_t no_attr(void *ctx, const char *name) {
  (void)ctx, (void)name;
  return 0;
}

static int32_t no_format(void *ctx, const char *id, uint32_t block_elements, uint32_t block_bytes) {
  (void)ctx, (void)id, (void)block_elements, (void)block_bytes;
  return 0;
}

static void serial_for(void *ctx, uint32_t tasks, void (*fn)(void *arg, uint32_t task), void *arg) {
  (void)ctx;
  for (uint32_t i = 0; i < tasks; i++) {
    fn(arg, i);
  }
}

static uint32_t one_thread(void *ctx) {
  (void)ctx;
  return 1;
}

static const void *no_interface(void *ctx, const char *id, uint32_t version) {
  (void)ctx, (void)id, (void)version;
  return NULL;
}

static mt_host_v1 query_host(void) {
  uint64_t caches[3];
  mt_cpu_caches(caches);
  return (mt_host_v1){
      .struct_size = sizeof(mt_host_v1),
      .abi_minor = MT_PLUGIN_ABI_MINOR,
      .core_version = MT_VERSION,
      .cpu_features = mt_cpu_detect(),
      .l1d_bytes = caches[0],
      .l2_bytes = caches[1],
      .l3_bytes = caches[2],
      .log = no_log,
      .alloc = no_alloc,
      .free = no_free,
      .config = no_config,
      .intern_op = no_op,
      .intern_attr = no_attr,
      .intern_format = no_format,
      .parallel_for = serial_for,
      .thread_count = one_thread,
      .get_interface = no_interface,
  };
}

/* ---- the trial ---------------------------------------------------------------------- */

static void close_from(int fd) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  closefrom(fd);
#else
  long end = sysconf(_SC_OPEN_MAX);
  for (end = end < 0 || end > 65536 ? 65536 : end; fd < end; fd++) {
    close(fd);
  }
#endif
}

/* No core dump, nothing of the program's left open, no life after the program's. */
static void settle(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (report_fd != STDOUT_FILENO) {
    close_from(report_fd + 1);
  }
}

static mt_status query(void *handle, const char *name) {
  mt_plugin_query_v1_fn *function;
  mt_plugin_v1 table;
  void *symbol = dlsym(handle, MT_QUERY_SYMBOL);
  if (!symbol) {
    return mt_table_no_symbol();
  }
  memcpy(&function, &symbol, sizeof(function));
  mt_host_v1 host = query_host();
  return mt_table_query(function, &host, name, &table);
}

static int try_out(const char *path, const char *name) {
  report("mecantensor-probe 1");
  report("at open");
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *text = dlerror();
    report("fail %d %s", MT_ERR_BACKEND, text ? text : "dlopen failed");
    return EXIT_FAILURE;
  }
  report("at query");
  mt_status status = query(handle, name);
  if (status != MT_OK) {
    report("fail %d %s", status, mt_last_error());
    return EXIT_FAILURE;
  }
  report("ok");
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4 || argv[1][0] != '/') {
    fprintf(stderr, "usage: mecantensor-probe /path/to/plugin.so NAME [FD]\n"
                    "Opens and queries a plugin; MecanTensor runs this by itself.\n");
    return 2;
  }
  if (argc == 4) {
    report_fd = atoi(argv[3]);
  }
  settle();
  /* No exit handlers: those of a driver may crash, and would be blamed on the plugin. */
  _exit(try_out(argv[1], argv[2]));
}
