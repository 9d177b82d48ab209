// SPDX-License-Identifier: Apache-2.0
/* Opening: the true reason of a failure, tables that lie, modules that are shared. */
#include "loader_harness.h"

#include <pthread.h>
#include <sys/wait.h>

/* Each with the helper process and without. */
static const char *const modes[] = {"helper", "direct"};

static void in_mode(int i) {
  setenv("MECANTENSOR_PROBE", modes[i], 1);
}

START_TEST(test_good) {
  in_mode(_i);
  put_mock("good", "x.so");
  scan();
  mt_candidate *at = candidate("x.so");
  check_opens(at);
  ck_assert_str_eq(at->version, "1.2.3");
  ck_assert_str_eq(at->table->name, "good");
  ck_assert_uint_eq(at->table->struct_size, sizeof(mt_plugin_v1));
  const mt_plugin_v1 *table = at->table;
  check_opens(at); /* again: nothing happens */
  ck_assert_ptr_eq(at->table, table);
}
END_TEST

START_TEST(test_frozen_header) {
  in_mode(_i);
  put_mock("abi_1_0", "x.so");
  scan();
  check_opens(candidate("x.so"));
  ck_assert_str_eq(candidate("x.so")->table->name, "abi-1-0");
  uint32_t count = 0;
  ck_assert_int_eq(candidate("x.so")->table->device_count(NULL, &count, NULL), MT_ABI_OK);
  ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(test_older_table) {
  in_mode(_i);
  put_mock("short_table", "x.so");
  scan();
  check_opens(candidate("x.so"));
  const mt_plugin_v1 *table = candidate("x.so")->table;
  ck_assert_uint_eq(table->struct_size, offsetof(mt_plugin_v1, prepare));
  ck_assert(table->execute != NULL);
  ck_assert(table->prepare == NULL && table->buffer_alloc == NULL && table->get_interface == NULL);
}
END_TEST

START_TEST(test_missing_dependency) {
  in_mode(_i);
  check_refused("missing_dependency", MT_PROBE_OPEN, MT_ERR_BACKEND,
                "libmock-is-missing.so.9: cannot open shared object file");
}
END_TEST

START_TEST(test_undefined_symbol) {
  in_mode(_i);
  check_refused("undefined_symbol", MT_PROBE_OPEN, MT_ERR_BACKEND,
                "undefined symbol: defined_nowhere_at_all");
}
END_TEST

START_TEST(test_missing_symbol) {
  in_mode(_i);
  check_refused("missing_symbol", MT_PROBE_QUERY, MT_ERR_BACKEND,
                "does not export mt_plugin_query_v1");
}
END_TEST

static const struct {
  const char *mock;
  mt_status code;
  const char *reason;
} liars[] = {
    {"query_fails", MT_ERR_UNSUPPORTED, "query answered with code 3 (unsupported)"},
    {"size_too_big", MT_ERR_BACKEND, "struct_size of the table is 4096, but the host gave room"},
    {"size_too_small", MT_ERR_BACKEND, "struct_size of the table is 64: the entries"},
    {"size_odd", MT_ERR_BACKEND, "it ends within an entry"},
    {"writes_past", MT_ERR_BACKEND, "query wrote past the "},
    {"missing_entry", MT_ERR_BACKEND, "the table has no execute"},
    {"half_pair", MT_ERR_BACKEND, "the table has plan_free but not prepare"},
    {"half_buffers", MT_ERR_BACKEND, "the table has buffer_free but not buffer_alloc"},
    {"name_mismatch", MT_ERR_BACKEND, "its name is 'another-name', the file's note says"},
    {"null_string", MT_ERR_BACKEND, "vendor in the table is NULL"},
};
enum { LIARS = sizeof(liars) / sizeof(liars[0]) };

START_TEST(test_liars) {
  in_mode(_i / LIARS);
  const int at = _i % LIARS;
  check_refused(liars[at].mock, MT_PROBE_QUERY, liars[at].code, liars[at].reason);
}
END_TEST

static const struct {
  const char *mock;
  mt_status code;
  const char *reason;
} strangers[] = {
    {"wrong_abi", MT_ERR_UNSUPPORTED, "built for plugin ABI 2.7"},
    {"no_note", MT_ERR_UNSUPPORTED, "no .note.mecantensor: not a MecanTensor plugin"},
    {"bad_name", MT_ERR_CORRUPT, "the note's name at offset "},
};

START_TEST(test_strangers) {
  put_mock(strangers[_i].mock, "x.so");
  scan();
  check_stopped(candidate("x.so"), MT_PROBE_INSPECT, strangers[_i].code, strangers[_i].reason);
}
END_TEST

/* ---- one process, many runtimes ----------------------------------------------------------- */

START_TEST(test_shared_by_all) {
  put_mock("good", "x.so");
  scan();
  mt_candidate *first = bench.list;
  check_opens(first);
  bench.list = NULL;                                   /* kept by first */
  setenv("MECANTENSOR_PROBE_HELPER", "/bin/false", 1); /* not needed any more */
  ck_assert_int_eq(link(in_folder("x.so"), in_folder("y.so")), 0);
  scan();
  check_opens(candidate("x.so"));
  ck_assert_ptr_eq(candidate("x.so")->table, first->table);
  mt_loader_free(first, 1);
  ck_assert_str_eq(candidate("x.so")->table->name, "good"); /* outlives its candidate */
}
END_TEST

START_TEST(test_written_over) {
  size_t bytes;
  put_mock("good", "x.so");
  scan();
  check_opens(candidate("x.so"));
  unsigned char *content = read_mock("good", &bytes);
  int fd = open(in_folder("x.so"), O_WRONLY);
  ck_assert_int_eq(ftruncate(fd, (off_t)bytes + 4096), 0);
  close(fd);
  free(content);
  scan();
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_UNSUPPORTED);
  check_stopped(candidate("x.so"), MT_PROBE_OPEN, MT_ERR_UNSUPPORTED, "written over");
}
END_TEST

/* A new file under the old name, as package managers do it: the process has the old one. */
START_TEST(test_replaced_by_a_new_file) {
  put_mock("good", "x.so");
  scan();
  check_opens(candidate("x.so"));
  put_mock("twin", "new");
  ck_assert_int_eq(rename(in_folder("new"), in_folder("x.so")), 0);
  scan();
  check_opens(candidate("x.so"));
  ck_assert_str_eq(candidate("x.so")->version, "1.2.3");
  check_logged(MT_LOG_INFO, "x.so was replaced: this process goes on with version 1.2.3");
  put_mock("abi_1_0", "new");
  ck_assert_int_eq(rename(in_folder("new"), in_folder("x.so")), 0);
  scan();
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_UNSUPPORTED);
  check_stopped(candidate("x.so"), MT_PROBE_OPEN, MT_ERR_UNSUPPORTED,
                "replaced by another plugin after this process opened it: restart");
}
END_TEST

static void *open_thread(void *arg) {
  mt_candidate *list;
  size_t count;
  mt_logger quiet;
  (void)arg;
  ck_ok(mt_log_init(&quiet, "none", NULL, NULL));
  mt_loader_config config = {.plugin_path = bench.folder, .path_only = true, .log = &quiet};
  ck_ok(mt_loader_scan(&config, &list, &count));
  for (size_t i = 0; i < count; i++) {
    ck_assert_int_eq(mt_loader_open(&list[i], &bench.host, &quiet), MT_OK);
  }
  const void *table = list[0].table;
  mt_loader_free(list, count);
  return (void *)table;
}

START_TEST(test_from_threads) {
  enum { THREADS = 8 };
  pthread_t thread[THREADS];
  void *table[THREADS];
  in_mode(_i);
  put_mock("good", "a.so");
  put_mock("abi_1_0", "b.so");
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&thread[i], NULL, open_thread, NULL), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], &table[i]);
    ck_assert_ptr_eq(table[i], table[0]);
  }
}
END_TEST

START_TEST(test_after_fork) {
  int status;
  put_mock("good", "a.so");
  put_mock("abi_1_0", "b.so");
  scan();
  check_opens(candidate("a.so"));
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    _exit(open_it(candidate("b.so")) == MT_OK ? 0 : 1);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("open");
  TCase *tcase = tcase_create("open");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  const TTest *both[] = {test_good,
                         test_frozen_header,
                         test_older_table,
                         test_missing_dependency,
                         test_undefined_symbol,
                         test_missing_symbol,
                         test_from_threads};
  for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
    tcase_add_loop_test(tcase, both[i], 0, 2);
  }
  tcase_add_loop_test(tcase, test_liars, 0, 2 * LIARS);
  tcase_add_loop_test(tcase, test_strangers, 0, sizeof(strangers) / sizeof(strangers[0]));
  tcase_add_test(tcase, test_shared_by_all);
  tcase_add_test(tcase, test_written_over);
  tcase_add_test(tcase, test_replaced_by_a_new_file);
  tcase_add_test(tcase, test_after_fork);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
