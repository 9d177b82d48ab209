// SPDX-License-Identifier: Apache-2.0
/* The conformance program, run on a backend that is wrong in one way after the other. */
#include "harness.h"

#include <stdio.h>
#include <sys/wait.h>

typedef struct outcome {
  int code;
  char text[1 << 16];
} outcome;

static outcome seen;

/* What `conformance -b wrong --op relu` prints with this fault. */
static void run_with(const char *fault) {
  char command[1024];
  ck_assert_int_eq(setenv("MECANTENSOR_WRONG_FAULT", fault, 1), 0);
  const char *wrapper = getenv("MESON_EXE_WRAPPER"); /* an emulator */
  snprintf(command, sizeof(command), "%s '%s' -b wrong --op relu --seed 5 2>&1",
           wrapper ? wrapper : "", getenv("CONFORMANCE"));
  FILE *pipe = popen(command, "r");
  ck_assert_ptr_nonnull(pipe);
  size_t got = fread(seen.text, 1, sizeof(seen.text) - 1, pipe);
  seen.text[got] = '\0';
  while (fgetc(pipe) != EOF) {
  }
  int status = pclose(pipe);
  seen.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *fault, int code, const char *part) {
  run_with(fault);
  ck_assert_msg(seen.code == code, "%s: exit %d, expected %d:\n%s", fault, seen.code, code,
                seen.text);
  ck_assert_msg(strstr(seen.text, part) != NULL, "%s: no '%s' in:\n%s", fault, part, seen.text);
}

START_TEST(without_a_fault_it_passes) {
  expect("none", 0, "\nok 2 - wrong relu: ");
  ck_assert(strstr(seen.text, "FAILED") == NULL);
  ck_assert_ptr_nonnull(strstr(seen.text, "f64")); /* the table of what is not supported */
  ck_assert_ptr_nonnull(strstr(seen.text, "relu of f32 only"));
}
END_TEST

START_TEST(what_is_refused_is_not_passed) {
  expect("refuse", 0, "wrong relu: 0 passed");
  ck_assert_ptr_nonnull(strstr(seen.text, "# SKIP"));
}
END_TEST

START_TEST(wrong_results_fail) {
  expect("value", 1, "elements are wrong; at [");
  ck_assert_ptr_nonnull(strstr(seen.text, "\nnot ok 2 - wrong relu"));
  ck_assert_ptr_nonnull(strstr(seen.text, "FAILED wrong relu f32, case "));
  ck_assert_ptr_nonnull(strstr(seen.text, "seed 5"));
  ck_assert_ptr_nonnull(strstr(seen.text, "shape ["));
  ck_assert_ptr_nonnull(strstr(seen.text, "strides ["));
}
END_TEST

START_TEST(one_ulp_of_an_exact_op_fails) {
  expect("ulp", 1, "elements are wrong; at [");
}
END_TEST

START_TEST(a_swallowed_nan_fails) {
  expect("nan", 1, "expected nan");
}
END_TEST

START_TEST(writing_beside_the_output_fails) {
  expect("beside", 1, "bytes beside the output were written");
}
END_TEST

START_TEST(writing_an_input_fails) {
  expect("input", 1, "input 0 was changed");
}
END_TEST

START_TEST(an_error_fails) {
  expect("fail", 1, "the fault that was asked for");
}
END_TEST

TEST_MAIN(faults, without_a_fault_it_passes, what_is_refused_is_not_passed, wrong_results_fail,
          one_ulp_of_an_exact_op_fails, a_swallowed_nan_fails, writing_beside_the_output_fails,
          writing_an_input_fails, an_error_fails)
