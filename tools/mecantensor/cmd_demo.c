// SPDX-License-Identifier: Apache-2.0
/* cmd_demo.c - mecantensor demo: the whole way, each step with its figures. */
#include "check.h"
#include "common.h"
#include "devices.h"
#include "run.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

enum { DEMO_M = 512, DEMO_K = 1024, DEMO_N = 256 };

typedef struct demo_arguments {
  common_options common;
  const char *output;
} demo_arguments;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  demo_arguments *arguments = state->input;
  switch (key) {
  case 'o': arguments->output = arg; return 0;
  case ARGP_KEY_ARG: argp_error(state, "'%s': demo takes no argument", arg); return 0;
  case ARGP_KEY_END:
    if (mt_file_type_from_path(arguments->output) == MT_FILE_UNKNOWN) {
      argp_error(state, "-o: '%s' ends in none of .mt, .npy, .safetensors", arguments->output);
    }
    return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Where C goes (output.mt)", 0}, OPTION_BACKEND, OPTION_HELP, {0}};

static const struct argp argp = {
    options,
    parse_option,
    NULL,
    "Show the whole way: list the devices, multiply A [512, 1024] by B [1024, 256], check C "
    "against the reference kernels, save it, load it back and compare every bit.\v"
    "The exit code is 1 when anything differs.",
    NULL,
    NULL,
    NULL};

typedef struct demo_state {
  mt_runtime *rt;
  mt_tensor *a, *b, *c, *loaded;
} demo_state;

/* Values in [-1, 1), the same in every run: xorshift64*, S. Vigna, "An experimental
 * exploration of Marsaglia's xorshift generators, scrambled", 2016. */
static mt_status random_matrix(int64_t rows, int64_t columns, uint64_t seed, mt_tensor **out) {
  const int64_t shape[] = {rows, columns};
  void *data = NULL;
  mt_status status = mt_tensor_create(MT_F32, 2, shape, out);
  if (status == MT_OK) {
    status = mt_tensor_write(*out, &data);
  }
  for (int64_t i = 0; status == MT_OK && i < rows * columns; i++) {
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    uint64_t bits = seed * UINT64_C(0x2545f4914f6cdd1d);
    ((float *)data)[i] = (float)((int64_t)(bits >> 40) - (1 << 23)) * 0x1p-23f;
  }
  return status;
}

static int show_devices(demo_state *s, const char *backend) {
  puts("1. Devices and plugins found");
  int code = open_runtime(backend, &s->rt);
  if (code != EXIT_DONE) {
    return code;
  }
  if (mt_runtime_probe_all(s->rt) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  print_devices(s->rt, false);
  return EXIT_DONE;
}

static int show_product(demo_state *s) {
  double seconds = 0;
  mt_matmul_options matmul_options = MT_MATMUL_OPTIONS_INIT;
  printf("\n2. C = A B, A [%d, %d], B [%d, %d], f32, backend setting '%s'\n", DEMO_M, DEMO_K,
         DEMO_K, DEMO_N, mt_runtime_backend(s->rt));
  if (random_matrix(DEMO_M, DEMO_K, 1, &s->a) != MT_OK ||
      random_matrix(DEMO_K, DEMO_N, 2, &s->b) != MT_OK ||
      timed_matmul(s->rt, s->a, s->b, &matmul_options, &s->c, &seconds) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  print_where_run(s->rt, "matmul", 3);
  printf("   time  %.3f ms (first call)\n", seconds * 1e3);

  puts("\n3. Checked against the reference kernels");
  matmul_check check;
  if (check_matmul(s->a, s->b, &matmul_options, s->c, &check) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  print_check(&check, 3);
  return check.passed ? EXIT_DONE : cli_fail(EXIT_FAILED, "C differs from the reference");
}

static int show_files(demo_state *s, const char *path) {
  char bytes[BYTES_TEXT];
  const void *c = NULL, *loaded = NULL;
  if (mt_save(path, s->c) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  printf("\n4. Saved as %s (%s of values)\n", path,
         bytes_text(mt_tensor_bytes(s->c), bytes, sizeof(bytes)));
  if (mt_load(path, &s->loaded) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  const int64_t *shape = mt_tensor_shape(s->loaded);
  if (mt_tensor_dtype(s->loaded) != MT_F32 || mt_tensor_rank(s->loaded) != 2 ||
      shape[0] != DEMO_M || shape[1] != DEMO_N || !mt_tensor_is_contiguous(s->loaded)) {
    return cli_fail(EXIT_FAILED, "%s came back with another dtype or shape", path);
  }
  if (mt_tensor_read(s->c, &c) != MT_OK || mt_tensor_read(s->loaded, &loaded) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  if (memcmp(c, loaded, mt_tensor_bytes(s->c)) != 0) {
    return cli_fail(EXIT_FAILED, "%s came back with other values", path);
  }
  printf("\n5. Loaded back: %" PRId64 " values, every bit is the same\n",
         mt_tensor_elements(s->loaded));
  return EXIT_DONE;
}

int cmd_demo(int argc, char **argv) {
  demo_arguments arguments = {.output = "output.mt"};
  parse_arguments(&argp, argc, argv, &arguments);
  demo_state state = {0};
  int code = show_devices(&state, arguments.common.backend);
  if (code == EXIT_DONE) {
    code = show_product(&state);
  }
  if (code == EXIT_DONE) {
    code = show_files(&state, arguments.output);
  }
  mt_tensor_release(&state.a);
  mt_tensor_release(&state.b);
  mt_tensor_release(&state.c);
  mt_tensor_release(&state.loaded);
  mt_runtime_release(&state.rt);
  return code;
}
