// SPDX-License-Identifier: Apache-2.0
/* harness.h - main() of a Check program with TAP output, and helpers all tests share. */
#ifndef MT_TESTS_HARNESS_H
#define MT_TESTS_HARNESS_H

#include <check.h>
#include <mecantensor/status.h>
#include <stdlib.h>
#include <string.h>

#define ck_ok(call)                                                                                \
  do {                                                                                             \
    mt_status ck_status_ = (call);                                                                 \
    ck_assert_msg(ck_status_ == MT_OK, "%s: %s: %s", #call, mt_status_name(ck_status_),            \
                  mt_last_error());                                                                \
  } while (0)

/* The call fails with exactly this status, and the sentence has `part` in it. */
#define ck_fails(call, status, part)                                                               \
  do {                                                                                             \
    mt_status ck_status_ = (call);                                                                 \
    ck_assert_msg(ck_status_ == (status), "%s: expected '%s', got '%s'", #call,                    \
                  mt_status_name(status), mt_status_name(ck_status_));                             \
    ck_assert_msg(strstr(mt_last_error(), (part)) != NULL, "%s: no '%s' in '%s'", #call, (part),   \
                  mt_last_error());                                                                \
  } while (0)

static inline int run_suite(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* TEST_MAIN(tensor, test_a, test_b): a suite with one test case */
#define TEST_MAIN(name, ...)                                                                       \
  int main(void) {                                                                                 \
    Suite *suite = suite_create(#name);                                                            \
    TCase *tcase = tcase_create(#name);                                                            \
    tcase_set_timeout(tcase, 120);                                                                 \
    const TTest *tests[] = {__VA_ARGS__};                                                          \
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {                                \
      tcase_add_test(tcase, tests[i]);                                                             \
    }                                                                                              \
    suite_add_tcase(suite, tcase);                                                                 \
    return run_suite(suite);                                                                       \
  }

#endif
