// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char folder[64];

/* ---- what lives until the test ends -----------------------------------------------------------
 */
enum { MAX_KEPT = 512 };

static struct {
  void *texts[MAX_KEPT];
  json_t *roots[MAX_KEPT];
  size_t text_count, root_count;
} kept;

static char *keep_text(char *text) {
  ck_assert_uint_lt(kept.text_count, MAX_KEPT);
  kept.texts[kept.text_count++] = text;
  return text;
}

static json_t *keep_json(json_t *root) {
  ck_assert_uint_lt(kept.root_count, MAX_KEPT);
  kept.roots[kept.root_count++] = root;
  return root;
}

static void drop_kept(void) {
  while (kept.text_count > 0) {
    free(kept.texts[--kept.text_count]);
  }
  while (kept.root_count > 0) {
    json_decref(kept.roots[--kept.root_count]);
  }
}

/* ---- files -------------------------------------------------------------------------------------
 */
/* Settings of whoever runs the tests; where the plugins are stays. */
static void forget_settings(void) {
  static const char *const names[] = {"MECANTENSOR_BACKEND", "MECANTENSOR_LOG",
                                      "MECANTENSOR_NUM_THREADS", "MECANTENSOR_PLUGINS"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    unsetenv(names[i]);
  }
}

void enter_folder(void) {
  forget_settings();
  strcpy(folder, "/tmp/mecantensor-cli-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info;
  (void)kind;
  (void)walk;
  return remove(path);
}

void leave_folder(void) {
  ck_assert_int_eq(chdir("/"), 0);
  drop_kept();
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "cannot open %s", path);
  struct stat info;
  ck_assert_int_eq(fstat(fileno(file), &info), 0);
  size_t bytes = (size_t)info.st_size;
  char *data = keep_text(calloc(bytes + 1, 1));
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq(fread(data, 1, bytes, file), bytes);
  fclose(file);
  if (size != NULL) {
    *size = bytes;
  }
  return data;
}

void write_file(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(data, 1, size, file), size);
  ck_assert_int_eq(fclose(file), 0);
}

size_t count_files(void) {
  glob_t found;
  size_t count = 0;
  int code = glob("*", GLOB_PERIOD, NULL, &found);
  ck_assert(code == 0 || code == GLOB_NOMATCH);
  for (size_t i = 0; code == 0 && i < found.gl_pathc; i++) {
    count += strcmp(found.gl_pathv[i], ".") != 0 && strcmp(found.gl_pathv[i], "..") != 0;
  }
  globfree(&found);
  return count;
}

/* The captured streams lie beside the folder, so that tests can count what is in it. */
static const char *capture_path(const char *stream) {
  static char path[2][96];
  char *buf = path[strcmp(stream, "err") == 0];
  snprintf(buf, sizeof(path[0]), "%s.%s", folder, stream);
  return buf;
}

static void set_output(posix_spawn_file_actions_t *actions, cli_output output, int pipe_end) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  switch (output) {
  case TO_FILE:
    posix_spawn_file_actions_addopen(actions, 1, capture_path("out"), flags, 0600);
    break;
  case TO_FULL_DEVICE:
    posix_spawn_file_actions_addopen(actions, 1, "/dev/full", O_WRONLY, 0);
    break;
  case TO_NOTHING: posix_spawn_file_actions_addclose(actions, 1); break;
  case TO_CLOSED_PIPE: posix_spawn_file_actions_adddup2(actions, pipe_end, 1); break;
  }
  posix_spawn_file_actions_addopen(actions, 2, capture_path("err"), flags, 0600);
}

static int spawn_and_wait(cli_output output, char **argv) {
  posix_spawn_file_actions_t actions;
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  close(ends[0]);
  posix_spawn_file_actions_init(&actions);
  set_output(&actions, output, ends[1]);
  pid_t pid;
  int err = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
  ck_assert_msg(err == 0, "cannot run %s: %s", argv[0], strerror(err));
  close(ends[1]);
  posix_spawn_file_actions_destroy(&actions);
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

cli_result run_cli(cli_output output, const char *const *arguments) {
  const char *program = getenv("MT_TEST_CLI");
  ck_assert_msg(program != NULL, "MT_TEST_CLI must name the command");
  char *argv[32] = {(char *)program};
  for (size_t i = 0; arguments[i] != NULL; i++) {
    ck_assert_uint_lt(i + 2, sizeof(argv) / sizeof(argv[0]));
    argv[i + 1] = (char *)arguments[i];
  }
  write_file(capture_path("out"), "", 0);
  cli_result result = {.code = spawn_and_wait(output, argv)};
  result.out = read_file(capture_path("out"), NULL);
  result.err = read_file(capture_path("err"), NULL);
  remove(capture_path("out"));
  remove(capture_path("err"));
  return result;
}

json_t *run_cli_json(int code, const char *const *arguments) {
  cli_result result = run_cli(TO_FILE, arguments);
  json_error_t error;
  ck_code(result, code);
  json_t *root = json_loads(result.out, JSON_REJECT_DUPLICATES, &error);
  ck_assert_msg(root != NULL, "not JSON, line %d: %s: %s", error.line, error.text, result.out);
  ck_assert(json_is_object(root));
  return keep_json(root);
}

void save_f32(const char *path, int rank, const int64_t *shape, const float *values) {
  mt_tensor *tensor = NULL;
  ck_ok(mt_tensor_from_data(MT_F32, rank, shape, values, &tensor));
  ck_ok(mt_save(path, tensor));
  mt_tensor_release(&tensor);
}

void write_safetensors(const char *path, const char *header, const void *data, size_t size) {
  size_t length = strlen(header);
  char *bytes = malloc(8 + length + size);
  ck_assert_ptr_nonnull(bytes);
  for (int i = 0; i < 8; i++) {
    bytes[i] = (char)((uint64_t)length >> (8 * i));
  }
  memcpy(bytes + 8, header, length);
  memcpy(bytes + 8 + length, data, size);
  write_file(path, bytes, 8 + length + size);
  free(bytes);
}

int run_cli_suite(const char *name, const TTest *const *tests, size_t count) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, enter_folder, leave_folder);
  for (size_t i = 0; i < count; i++) {
    tcase_add_test(tcase, tests[i]);
  }
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
