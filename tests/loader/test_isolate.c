// SPDX-License-Identifier: Apache-2.0
/* The helper process: what goes wrong in it is a record here, and it sees and changes nothing
 * of the program. */
#include "loader_harness.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

START_TEST(test_crash_in_query) {
  check_refused("crash_in_query", MT_PROBE_ISOLATE, MT_ERR_BACKEND,
                "crashed in query: signal 11 (Segmentation fault)");
}
END_TEST

START_TEST(test_crash_in_open) {
  check_refused("crash_in_open", MT_PROBE_ISOLATE, MT_ERR_BACKEND,
                "crashed in open: signal 9 (Killed)");
}
END_TEST

START_TEST(test_exit_in_query) {
  check_refused("exit_in_query", MT_PROBE_ISOLATE, MT_ERR_BACKEND,
                "left the process in query with exit code 3");
}
END_TEST

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

START_TEST(test_hang_in_query) {
  struct timespec start;
  setenv("MECANTENSOR_PROBE_TIMEOUT_MS", "1500", 1);
  clock_gettime(CLOCK_MONOTONIC, &start);
  check_refused("hang_in_query", MT_PROBE_ISOLATE, MT_ERR_TIMEOUT,
                "hangs in query: no answer within 1500 ms");
  ck_assert_double_ge(seconds_since(&start), 1.4);
  ck_assert_double_lt(seconds_since(&start), 30.0);
  ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
  ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* One plugin's crash is no other's. */
START_TEST(test_next_one_loads) {
  put_mock("crash_in_query", "a.so");
  put_mock("good", "b.so");
  scan();
  ck_assert_int_eq(open_it(candidate("a.so")), MT_ERR_BACKEND);
  check_opens(candidate("b.so"));
}
END_TEST

/* A child of the plugin holds the pipe for seconds; the verdict does not wait for it. */
START_TEST(test_fork_in_query) {
  struct timespec start;
  put_mock("fork_in_query", "x.so");
  scan();
  clock_gettime(CLOCK_MONOTONIC, &start);
  check_opens(candidate("x.so"));
  ck_assert_double_lt(seconds_since(&start), 4.0);
}
END_TEST

/* ---- settings ----------------------------------------------------------------------------- */

START_TEST(test_wrong_settings) {
  const char *limits[] = {"0", "-1", "ten", "1e3", "99999999999999999999", "5 ", "3600001"};
  put_mock("crash_in_query", "x.so");
  setenv("MECANTENSOR_PROBE", "maybe", 1);
  for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
    char line[128];
    setenv("MECANTENSOR_PROBE_TIMEOUT_MS", limits[i], 1);
    scan();
    ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_BACKEND); /* the helper is used */
    snprintf(line, sizeof(line), "MECANTENSOR_PROBE_TIMEOUT_MS: '%s' is ignored", limits[i]);
    check_logged(MT_LOG_WARN, line);
  }
  check_logged(MT_LOG_WARN, "MECANTENSOR_PROBE: 'maybe' is ignored");
}
END_TEST

START_TEST(test_without_helper) {
  const struct {
    const char *helper;
    mt_log_level level;
    const char *line;
  } cases[] = {
      {"/does/not/exist", MT_LOG_INFO, "/does/not/exist cannot be run: plugins are opened"},
      {"relative/helper", MT_LOG_WARN, "'relative/helper' is not an absolute path"},
      {"/bin/false", MT_LOG_WARN, "the helper program left the process"},
  };
  put_mock("good", "x.so");
  setenv("MECANTENSOR_PROBE_HELPER", cases[_i].helper, 1);
  scan();
  check_opens(candidate("x.so"));
  check_logged(cases[_i].level, cases[_i].line);
}
END_TEST

START_TEST(test_helper_others_can_write) {
  put_mock("good", "x.so");
  write_file("helper", "#!/bin/sh\n", 10);
  ck_assert_int_eq(chmod(in_folder("helper"), 0777), 0);
  setenv("MECANTENSOR_PROBE_HELPER", in_folder("helper"), 1);
  scan();
  check_opens(candidate("x.so"));
  check_logged(MT_LOG_WARN, "helper is writable by group and others");
}
END_TEST

START_TEST(test_helper_is_no_program) {
  put_mock("good", "x.so");
  write_file("helper", "\177ELFnonsense", 12);
  ck_assert_int_eq(chmod(in_folder("helper"), 0755), 0);
  setenv("MECANTENSOR_PROBE_HELPER", in_folder("helper"), 1);
  scan();
  check_opens(candidate("x.so"));
  check_logged(MT_LOG_INFO, "Exec format error: plugins are opened without a trial");
}
END_TEST

/* A helper that says much too much, and what it should not. */
START_TEST(test_chatty_helper) {
  const char script[] = "#!/bin/sh\n"
                        "echo 'mecantensor-probe 1' >&3\n"
                        "i=0; while [ $i -lt 3000 ]; do echo 'nonsense that nobody reads' >&3\n"
                        "i=$((i+1)); done; echo ok >&3; exit 0\n";
  put_mock("good", "x.so");
  write_file("helper", script, sizeof(script) - 1);
  ck_assert_int_eq(chmod(in_folder("helper"), 0755), 0);
  setenv("MECANTENSOR_PROBE_HELPER", in_folder("helper"), 1);
  scan();
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_BACKEND); /* ok is past what is kept */
  check_stopped(candidate("x.so"), MT_PROBE_ISOLATE, MT_ERR_BACKEND, "exit code 0");
}
END_TEST

/* ---- the program around it ---------------------------------------------------------------- */

START_TEST(test_sigchld_ignored) {
  signal(SIGCHLD, SIG_IGN);
  put_mock("good", "a.so");
  put_mock("crash_in_query", "b.so");
  scan();
  check_opens(candidate("a.so"));
  ck_assert_int_eq(open_it(candidate("b.so")), MT_ERR_BACKEND);
  check_stopped(candidate("b.so"), MT_PROBE_ISOLATE, MT_ERR_BACKEND,
                "died in query (the program takes or ignores SIGCHLD");
  ck_assert_ptr_eq(signal(SIGCHLD, SIG_DFL), SIG_IGN);
}
END_TEST

static volatile sig_atomic_t reaped;

static void reap_all(int number) {
  int saved = errno;
  (void)number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
    reaped++;
  }
  errno = saved;
}

/* As shells and servers do: whoever comes first, nothing hangs and nothing is misjudged. */
START_TEST(test_program_reaps_all) {
  struct sigaction action = {.sa_handler = reap_all};
  sigaction(SIGCHLD, &action, NULL);
  put_mock("good", "a.so");
  put_mock("crash_in_query", "b.so");
  scan();
  check_opens(candidate("a.so"));
  ck_assert_int_eq(open_it(candidate("b.so")), MT_ERR_BACKEND);
  check_stopped(candidate("b.so"), MT_PROBE_ISOLATE, MT_ERR_BACKEND, "in query");
}
END_TEST

static atomic_bool stop_storm;
static pthread_t storm_target;

static void no_action(int number) {
  (void)number;
}

static void *signal_storm(void *arg) {
  (void)arg;
  while (!stop_storm) {
    struct timespec moment = {0, 200000};
    pthread_kill(storm_target, SIGUSR1);
    nanosleep(&moment, NULL);
  }
  return NULL;
}

/* Every call is interrupted, all the time. */
START_TEST(test_interrupted) {
  struct sigaction action = {.sa_handler = no_action}; /* no SA_RESTART */
  pthread_t thread;
  sigaction(SIGUSR1, &action, NULL);
  put_mock("good", "a.so");
  put_mock("crash_in_query", "b.so");
  scan();
  storm_target = pthread_self();
  ck_assert_int_eq(pthread_create(&thread, NULL, signal_storm, NULL), 0);
  mt_status good = open_it(candidate("a.so")), bad = open_it(candidate("b.so"));
  stop_storm = true;
  pthread_join(thread, NULL);
  ck_assert_int_eq(good, MT_OK);
  ck_assert_int_eq(bad, MT_ERR_BACKEND);
  check_stopped(candidate("b.so"), MT_PROBE_ISOLATE, MT_ERR_BACKEND, "signal 11");
}
END_TEST

/* The mock fails when it sees the program's open files, signal mask or ignored signals. */
START_TEST(test_sees_nothing_of_the_program) {
  sigset_t some;
  for (int i = 0; i < 20; i++) {
    ck_assert_int_ge(open("/dev/null", O_RDONLY), 0); /* stays open over exec */
  }
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  sigaddset(&some, SIGUSR2);
  sigprocmask(SIG_BLOCK, &some, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  put_mock("sees_program", "x.so");
  scan();
  check_opens(candidate("x.so"));
}
END_TEST

static int open_files(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  ck_assert_ptr_nonnull(dir);
  while (readdir(dir)) {
    count++;
  }
  closedir(dir);
  return count;
}

START_TEST(test_leaves_nothing_open) {
  const char *mocks[] = {"good", "crash_in_query", "exit_in_query", "missing_symbol", "no_note"};
  scan();
  int before = open_files();
  for (size_t i = 0; i < sizeof(mocks) / sizeof(mocks[0]); i++) {
    put_mock(mocks[i], "x.so");
    scan();
    open_it(candidate("x.so"));
    ck_assert_int_eq(unlink(in_folder("x.so")), 0);
  }
  ck_assert_int_eq(open_files(), before);
}
END_TEST

/* The pipe then gets the numbers 0 and 1. */
START_TEST(test_program_closed_its_files) {
  put_mock("good", "a.so");
  put_mock("crash_in_query", "b.so");
  scan();
  int in = dup(0), out = dup(1), err = dup(2);
  close(0);
  close(1);
  close(2);
  mt_status good = open_it(candidate("a.so")), bad = open_it(candidate("b.so"));
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  ck_assert_int_eq(good, MT_OK);
  ck_assert_int_eq(bad, MT_ERR_BACKEND);
  check_stopped(candidate("b.so"), MT_PROBE_ISOLATE, MT_ERR_BACKEND, "signal 11");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("isolate");
  TCase *tcase = tcase_create("isolate");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_loop_test(tcase, test_without_helper, 0, 3);
  const TTest *tests[] = {test_crash_in_query,       test_crash_in_open,
                          test_exit_in_query,        test_hang_in_query,
                          test_next_one_loads,       test_fork_in_query,
                          test_wrong_settings,       test_helper_others_can_write,
                          test_helper_is_no_program, test_chatty_helper,
                          test_sigchld_ignored,      test_program_reaps_all,
                          test_interrupted,          test_sees_nothing_of_the_program,
                          test_leaves_nothing_open,  test_program_closed_its_files};
  for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
    tcase_add_test(tcase, tests[i]);
  }
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
