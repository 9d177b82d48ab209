// SPDX-License-Identifier: Apache-2.0
/* loader_harness.h - a folder of the test's own, mocks copied into it, the log kept. */
#ifndef MT_TESTS_LOADER_HARNESS_H
#define MT_TESTS_LOADER_HARNESS_H

#include "harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <hal/loader.h>
#include <hal/loader_parts.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  char folder[64]; /* without symbolic links */
  char log[16384]; /* "level: message\n" */
  size_t log_used;
  mt_logger logger;
  mt_host_v1 host;
  mt_candidate *list;
  size_t count;
} bench;

static inline void keep_line(void *user, mt_log_level level, const char *topic,
                             const char *message) {
  (void)user;
  (void)topic;
  size_t room = sizeof(bench.log) - bench.log_used;
  int n = snprintf(bench.log + bench.log_used, room, "%d: %s\n", (int)level, message);
  bench.log_used += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

static inline void check_logged(mt_log_level level, const char *part) {
  for (char *line = bench.log; *line; line += strcspn(line, "\n") + 1) {
    char *at = strstr(line, part);
    if (line[0] == '0' + (char)level && at && !memchr(line, '\n', (size_t)(at - line))) {
      return;
    }
  }
  ck_abort_msg("no line of level %d with '%s' in the log:\n%s", (int)level, part, bench.log);
}

static inline void set_up(void) {
  umask(022);
  const char *names[] = {"MECANTENSOR_PLUGINS", "MECANTENSOR_PLUGIN_PATH", "MECANTENSOR_PROBE",
                         "MECANTENSOR_PLUGIN_PATH_ONLY", "MECANTENSOR_PROBE_TIMEOUT_MS"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    unsetenv(names[i]);
  }
  char pattern[] = "/tmp/mecantensor-loader-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(pattern));
  char *real = realpath(pattern, NULL);
  snprintf(bench.folder, sizeof(bench.folder), "%s", real);
  free(real);
  setenv("MECANTENSOR_CONFIG_DIR", bench.folder, 1);
  ck_ok(mt_log_init(&bench.logger, "debug", keep_line, NULL));
  bench.host = (mt_host_v1){.struct_size = sizeof(bench.host), .ctx = &bench};
}

static inline int remove_one(const char *path, const struct stat *info, int type,
                             struct FTW *where) {
  (void)info;
  (void)type;
  (void)where;
  return remove(path);
}

static inline void tear_down(void) {
  mt_loader_free(bench.list, bench.count);
  bench.list = NULL;
  nftw(bench.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* folder/name; static */
static inline const char *in_folder(const char *name) {
  static char path[4][512];
  static unsigned next;
  char *out = path[next++ % 4];
  snprintf(out, sizeof(path[0]), "%s/%s", bench.folder, name);
  return out;
}

static inline void make_folder(const char *name, mode_t mode) {
  ck_assert_int_eq(mkdir(in_folder(name), 0755), 0);
  ck_assert_int_eq(chmod(in_folder(name), mode), 0);
}

static inline void write_file(const char *name, const void *bytes, size_t count) {
  FILE *file = fopen(in_folder(name), "wb");
  ck_assert_msg(file != NULL, "%s", in_folder(name));
  ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
  ck_assert_int_eq(fclose(file), 0);
}

/* Content of a mock, to be freed. */
static inline unsigned char *read_mock(const char *mock, size_t *bytes) {
  const char *mocks = getenv("LOADER_MOCKS");
  char path[512];
  struct stat info;
  ck_assert_msg(mocks != NULL, "LOADER_MOCKS is not set");
  snprintf(path, sizeof(path), "%s/%s.so", mocks, mock);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL && fstat(fileno(file), &info) == 0, "%s", path);
  unsigned char *content = malloc((size_t)info.st_size);
  *bytes = fread(content, 1, (size_t)info.st_size, file);
  ck_assert_uint_eq(*bytes, (size_t)info.st_size);
  fclose(file);
  return content;
}

static inline void put_mock(const char *mock, const char *as) {
  size_t bytes;
  unsigned char *content = read_mock(mock, &bytes);
  write_file(as, content, bytes);
  free(content);
}

static inline void scan_path(const char *path) {
  mt_loader_config config = {.plugin_path = path, .path_only = true, .log = &bench.logger};
  mt_loader_free(bench.list, bench.count);
  ck_ok(mt_loader_scan(&config, &bench.list, &bench.count));
}

static inline void scan(void) {
  scan_path(bench.folder);
}

/* The candidate whose path ends so. */
static inline mt_candidate *candidate(const char *end) {
  for (size_t i = 0; i < bench.count; i++) {
    size_t length = strlen(bench.list[i].path), tail = strlen(end);
    if (length >= tail && strcmp(bench.list[i].path + length - tail, end) == 0) {
      return &bench.list[i];
    }
  }
  ck_abort_msg("no candidate '%s' among %zu", end, bench.count);
  return NULL;
}

static inline void check_stopped(const mt_candidate *at, mt_probe_stage stage, mt_status code,
                                 const char *part) {
  ck_assert_msg(at->stage == stage && at->code == code && at->reason && strstr(at->reason, part),
                "%s: expected %s, %s, '%s'; got %s, %s, '%s'", at->path, mt_probe_stage_name(stage),
                mt_status_name(code), part, mt_probe_stage_name(at->stage),
                mt_status_name(at->code), at->reason ? at->reason : "(none)");
  ck_assert(!at->opened && !at->table);
}

static inline void check_found(const mt_candidate *at) {
  ck_assert_msg(at->stage == MT_PROBE_ISOLATE && at->code == MT_OK, "%s: %s: %s", at->path,
                mt_probe_stage_name(at->stage), at->reason ? at->reason : "(none)");
}

static inline mt_status open_it(mt_candidate *at) {
  return mt_loader_open(at, &bench.host, &bench.logger);
}

static inline void check_opens(mt_candidate *at) {
  mt_status status = open_it(at);
  ck_assert_msg(status == MT_OK, "%s: %s: %s", at->path, mt_probe_stage_name(at->stage),
                at->reason ? at->reason : "(none)");
  ck_assert(at->opened && at->table && at->stage == MT_PROBE_INIT && at->code == MT_OK);
}

/* The mock is found, and stopped when it is to be opened. */
static inline void check_refused(const char *mock, mt_probe_stage stage, mt_status code,
                                 const char *part) {
  put_mock(mock, "x.so");
  scan();
  mt_candidate *at = candidate("x.so");
  check_found(at);
  ck_assert_int_eq(open_it(at), code);
  check_stopped(at, stage, code, part);
  ck_assert_int_eq(open_it(at), code); /* once failed, stays failed */
}

#define LOADER_MAIN(name, ...)                                                                     \
  int main(void) {                                                                                 \
    Suite *suite = suite_create(#name);                                                            \
    TCase *tcase = tcase_create(#name);                                                            \
    tcase_set_timeout(tcase, 120);                                                                 \
    tcase_add_checked_fixture(tcase, set_up, tear_down);                                           \
    const TTest *tests[] = {__VA_ARGS__};                                                          \
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {                                \
      tcase_add_test(tcase, tests[i]);                                                             \
    }                                                                                              \
    suite_add_tcase(suite, tcase);                                                                 \
    return run_suite(suite);                                                                       \
  }

#endif
