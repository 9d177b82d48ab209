// SPDX-License-Identifier: Apache-2.0
/* cli.h - runs the built mecantensor command (MT_TEST_CLI) in a temporary folder. */
#ifndef MT_TESTS_CLI_H
#define MT_TESTS_CLI_H

#include "harness.h"

#include <jansson.h>
#include <mecantensor/mecantensor.h>

/* A folder of its own, made the current one; and gone again. As fixtures of a test case. */
void enter_folder(void);
void leave_folder(void);

/* Where the command's standard output goes. */
typedef enum cli_output { TO_FILE, TO_FULL_DEVICE, TO_NOTHING, TO_CLOSED_PIPE } cli_output;

typedef struct cli_result {
  int code;  /* exit code; 128 + number for a signal */
  char *out; /* both never NULL; freed when the test ends */
  char *err;
} cli_result;

cli_result run_cli(cli_output output, const char *const *arguments);
#define RUN(...) run_cli(TO_FILE, (const char *const[]){__VA_ARGS__, NULL})

/* Runs, expects the exit code, parses the output as one JSON object. Borrowed: it lives
 * until the test ends. */
json_t *run_cli_json(int code, const char *const *arguments);
#define RUN_JSON(code, ...) run_cli_json(code, (const char *const[]){__VA_ARGS__, NULL})

#define ck_code(result, expected)                                                                  \
  ck_assert_msg((result).code == (expected), "exit code %d, expected %d; stderr: %s",              \
                (result).code, (expected), (result).err)
#define ck_has(text, part)                                                                         \
  ck_assert_msg(strstr((text), (part)) != NULL, "no '%s' in: %s", (part), (text))
#define ck_has_not(text, part)                                                                     \
  ck_assert_msg(strstr((text), (part)) == NULL, "'%s' is in: %s", (part), (text))

char *read_file(const char *path, size_t *size); /* NUL added; freed when the test ends */
void write_file(const char *path, const void *data, size_t size);
/* Names in the current folder, "." and ".." not counted. */
size_t count_files(void);

/* f32 tensors in files, by mt_save() */
void save_f32(const char *path, int rank, const int64_t *shape, const float *values);
/* A .safetensors file with this header and these bytes behind it. */
void write_safetensors(const char *path, const char *header, const void *data, size_t size);

/* main() of a suite whose tests run in a folder of their own each */
int run_cli_suite(const char *name, const TTest *const *tests, size_t count);
#define CLI_TEST_MAIN(name, ...)                                                                   \
  int main(void) {                                                                                 \
    const TTest *const tests[] = {__VA_ARGS__};                                                    \
    return run_cli_suite(#name, tests, sizeof(tests) / sizeof(tests[0]));                          \
  }

#endif
