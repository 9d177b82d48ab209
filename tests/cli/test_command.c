// SPDX-License-Identifier: Apache-2.0
/* test_command.c - help, arguments, output that does not get through, devices, env, bench. */
#include "cli.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const commands[] = {"devices", "matmul",      "info", "convert",
                                       "bench",   "conformance", "env",  "demo"};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

START_TEST(test_help) {
  cli_result all = RUN("--help");
  ck_code(all, 0);
  ck_has(all.out, "Exit codes:");
  ck_assert_str_eq(RUN("help").out, all.out);
  ck_assert_str_eq(RUN("-h").out, all.out);
  for (size_t i = 0; i < COMMANDS; i++) {
    ck_has(all.out, commands[i]);
    cli_result one = RUN(commands[i], "--help");
    ck_code(one, 0);
    ck_has(one.out, "Usage: mecantensor");
    ck_assert_str_eq(one.err, "");
    ck_assert_str_eq(RUN("help", commands[i]).out, one.out);
    ck_assert_str_eq(RUN(commands[i], "-h").out, one.out);
  }
  cli_result version = RUN("--version");
  ck_code(version, 0);
  ck_has(version.out, "mecantensor " MT_VERSION);
}
END_TEST

/* Every option in the help of a command is in the completion and in the man page. */
START_TEST(test_options_are_documented) {
  const char *folder = getenv("MT_TEST_CLI_SOURCE");
  char path[4096];
  ck_assert_ptr_nonnull(folder);
  snprintf(path, sizeof(path), "%s/completion.bash", folder);
  char *completion = read_file(path, NULL);
  snprintf(path, sizeof(path), "%s/mecantensor.1", folder);
  char *page = read_file(path, NULL);
  int seen = 0;
  for (size_t i = 0; i < COMMANDS; i++) {
    char *help = RUN(commands[i], "--help").out;
    ck_has(page, commands[i]);
    ck_has(completion, commands[i]);
    for (char *at = help; (at = strstr(at, " --")) != NULL; seen++) {
      char plain[64] = "--", escaped[128] = "\\-\\-";
      size_t length = 2, escaped_length = 4;
      for (at += 3; isalnum((unsigned char)*at) || *at == '-'; at++) {
        plain[length++] = *at;
        if (*at == '-') {
          escaped[escaped_length++] = '\\';
        }
        escaped[escaped_length++] = *at;
      }
      ck_has(completion, plain);
      ck_has(page, escaped);
    }
  }
  ck_assert_int_gt(seen, 2 * COMMANDS);
}
END_TEST

START_TEST(test_wrong_arguments) {
  static const struct {
    const char *arguments[6];
    const char *part;
  } cases[] = {
      {{"matmull"}, "did you mean 'matmul'?"},
      {{"xyzzyxyzzy"}, "is not a command; see"},
      {{"help", "devise"}, "did you mean 'devices'?"},
      {{"devices", "extra"}, "'extra'"},
      {{"devices", "--frob"}, "--frob"},
      {{"matmul", "a.npy"}, "two tensors"},
      {{"matmul", "a.npy", "b.npy"}, "-o FILE"},
      {{"matmul", "a.npy", "b.npy", "c.npy", "--check"}, "'c.npy'"},
      {{"matmul", "a.npy", "b.npy", "-o", "c.txt"}, "'c.txt' ends in none of"},
      {{"matmul", "a.npy", "b.npy", "--alpha=1.5x", "--check"}, "'1.5x' is not a finite number"},
      {{"matmul", "a.npy", "b.npy", "--alpha=nan", "--check"}, "'nan' is not a finite number"},
      {{"matmul", "a.npy", "b.npy", "--activation=tanh"}, "'tanh' is none of"},
      {{"info"}, "which FILE"},
      {{"convert", "a.npy"}, "two files"},
      {{"convert", "a.npy", "b"}, "'b' ends in none of"},
      {{"convert", "a.npy", "b.mt", "--dtype=f17"}, "'f17' is none of"},
      {{"convert", "a.npy", "b.mt", "--dtype=block"}, "'block' is none of"},
      {{"convert", "a.npy", "b.mt", "--format=q9"}, "q8_0"},
      {{"convert", "a.npy", "b.mt", "--dtype=f16", "--format=q8_0"}, "exclude"},
      {{"convert", "a.npy", "b.mt", "--select=*"}, "--select needs"},
      {{"bench"}, "matmul"},
      {{"bench", "convolution"}, "'convolution'"},
      {{"bench", "conv", "--shape=1x2x3x4"}, "'1x2x3x4' is not CxHxWxOxK"},
      {{"bench", "ops", "--against=openblas"}, "only for matmul"},
      {{"bench", "matmul", "--isa=sse"}, "'sse'"},
      {{"bench", "matmul", "--shape=12x13"}, "'12x13' is not MxKxN"},
      {{"bench", "matmul", "--shape=1x2x0"}, "'1x2x0' is not MxKxN"},
      {{"bench", "matmul", "--against=openblass"}, "did you mean openblas"},
      {{"bench", "matmul", "--threads=0"}, "from 1 to"},
      {{"bench", "matmul", "--seconds=-1"}, "'-1'"},
      {{"bench", "matmul", "--json", "--csv"}, "exclude"},
      {{"env", "x"}, "'x'"},
      {{"demo", "-o", "x.txt"}, "'x.txt'"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    cli_result result = run_cli(TO_FILE, cases[i].arguments);
    ck_assert_msg(result.code == 2, "case %zu: exit code %d: %s", i, result.code, result.err);
    ck_has(result.err, cases[i].part);
    ck_has(result.err, "mecantensor");
    ck_assert_str_eq(result.out, "");
  }
  cli_result nothing = run_cli(TO_FILE, (const char *const[]){NULL});
  ck_code(nothing, 2);
  ck_has(nothing.err, "Usage:");
  ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(test_output_does_not_get_through) {
  static const char *const runs[][3] = {
      {"--help"}, {"--version"},    {"matmul", "--help"}, {"devices"}, {"devices", "--json"},
      {"env"},    {"env", "--json"}};
  signal(SIGPIPE, SIG_IGN); /* inherited: the write fails instead */
  for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
    const char *const arguments[] = {runs[i][0], runs[i][1], NULL};
    cli_result full = run_cli(TO_FULL_DEVICE, arguments);
    ck_code(full, 3);
    ck_has(full.err, "standard output: No space left on device");
    cli_result closed = run_cli(TO_NOTHING, arguments);
    ck_code(closed, 3);
    ck_has(closed.err, "standard output");
    cli_result pipe = run_cli(TO_CLOSED_PIPE, arguments);
    ck_code(pipe, 3);
    ck_has(pipe.err, "standard output: Broken pipe");
  }
}
END_TEST

/* ---- devices ------------------------------------------------------------------------------ */
/* The element of the array whose member `key` is this text, or NULL. */
static json_t *find_by(json_t *array, const char *key, const char *text) {
  size_t i;
  json_t *element;
  json_array_foreach(array, i, element) {
    if (strcmp(json_string_value(json_object_get(element, key)), text) == 0) {
      return element;
    }
  }
  return NULL;
}

START_TEST(test_devices) {
  cli_result text = RUN("devices");
  ck_code(text, 0);
  ck_has(text.out, "SELECTED");
  ck_has(text.out, "reference");
  ck_has(text.out, "Plugins that cannot be used");
  cli_result details = RUN("devices", "-v");
  ck_code(details, 0);
  ck_has(details.out, "CPU features:");
  const char *feature = strrchr(mt_cpu_features(), ' ');
  ck_has(details.out, feature == NULL ? mt_cpu_features() : feature);
  ck_has(details.out, "Folders with plugins, in order of search:");
  ck_has(details.out, ": not searched"); /* MECANTENSOR_PLUGIN_PATH_ONLY is 1 */
  ck_has(details.out, "Plugin files, in order of search");

  json_t *root = RUN_JSON(0, "devices", "--json");
  ck_assert(json_is_null(json_object_get(root, "error")));
  ck_assert_str_eq(json_string_value(json_object_get(root, "backend")), "auto");
  json_t *reference = find_by(json_object_get(root, "devices"), "id", "reference");
  ck_assert(json_is_true(json_object_get(reference, "selected")));
}
END_TEST

START_TEST(test_devices_selected) {
  json_t *root = RUN_JSON(0, "devices", "--json", "-b", "reference");
  ck_assert_str_eq(json_string_value(json_object_get(root, "backend")), "reference");
  size_t i;
  json_t *device;
  json_array_foreach(json_object_get(root, "devices"), i, device) {
    bool reference = strcmp(json_string_value(json_object_get(device, "id")), "reference") == 0;
    ck_assert_int_eq(json_is_true(json_object_get(device, "selected")), reference);
  }
}
END_TEST

START_TEST(test_devices_missing_backend) {
  setenv("MECANTENSOR_BACKEND", "nosuch", 1);
  cli_result text = RUN("devices");
  ck_code(text, 1);
  ck_has(text.err, "mecantensor devices: ");
  ck_has(text.err, "nosuch");
  ck_has(text.out, "reference");
  json_t *root = RUN_JSON(1, "devices", "--json");
  ck_has(json_string_value(json_object_get(root, "error")), "nosuch");
  ck_assert_uint_ge(json_array_size(json_object_get(root, "devices")), 1);
}
END_TEST

START_TEST(test_devices_unusable_plugin) {
  char here[4096], path[5000];
  ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
  snprintf(path, sizeof(path), "%s/plugins", here);
  ck_assert_int_eq(mkdir(path, 0755), 0);
  setenv("MECANTENSOR_PLUGIN_PATH", path, 1);
  strcat(path, "/gar\x1b[31mbage.so");
  write_file(path, "this is no ELF file", 19);

  cli_result text = RUN("devices", "-v");
  ck_code(text, 0);
  ck_has(text.out, "gar\\x1b[31mbage.so");
  ck_has_not(text.out, "\x1b");
  ck_has_not(text.err, "\x1b");
  json_t *root = RUN_JSON(0, "devices", "--json");
  json_t *record = find_by(json_object_get(root, "plugins"), "path", path);
  ck_assert_ptr_nonnull(record);
  ck_assert(json_is_false(json_object_get(record, "usable")));
  const char *reason = json_string_value(json_object_get(record, "reason"));
  ck_assert_uint_gt(strlen(reason), 5);
  ck_has(RUN("devices").out, "gar\\x1b[31mbage.so");
}
END_TEST

/* ---- env ------------------------------------------------------------------------------------ */
START_TEST(test_env) {
  static const char *const names[] = {
      "MECANTENSOR_BACKEND",   "MECANTENSOR_PLUGIN_PATH",  "MECANTENSOR_PLUGIN_PATH_ONLY",
      "MECANTENSOR_PLUGINS",   "MECANTENSOR_LOG",          "MECANTENSOR_NUM_THREADS",
      "MECANTENSOR_PROBE",     "MECANTENSOR_PROBE_HELPER", "MECANTENSOR_PROBE_TIMEOUT_MS",
      "MECANTENSOR_CONFIG_DIR"};
  setenv("MECANTENSOR_BACKEND", "reference", 1);
  setenv("MECANTENSOR_LOG", "error,loader=debug", 1);
  setenv("MECANTENSOR_PLUGIN_PATH", "/tmp:/no/such/folder", 1);
  cli_result text = RUN("env");
  ck_code(text, 0);
  ck_has(text.out, "MECANTENSOR_BACKEND=reference\n");
  ck_has(text.out, "-> topic loader at level debug");
  ck_has(text.out, "-> /no/such/folder: does not exist");
  json_t *root = RUN_JSON(0, "env", "--json");
  json_t *list = json_object_get(root, "variables");
  char path[4096];
  snprintf(path, sizeof(path), "%s/../../docs/environment.md", getenv("MT_TEST_CLI_SOURCE"));
  char *page = read_file(path, NULL);
  ck_assert_uint_eq(json_array_size(list), sizeof(names) / sizeof(names[0]));
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    ck_has(text.out, names[i]);
    ck_has(page, names[i]);
    ck_assert_ptr_nonnull(find_by(list, "name", names[i]));
  }
  json_t *backend = find_by(list, "name", "MECANTENSOR_BACKEND");
  ck_assert_str_eq(json_string_value(json_object_get(backend, "value")), "reference");
  ck_assert_uint_eq(json_array_size(json_object_get(backend, "effect")), 1);
}
END_TEST

START_TEST(test_env_mistakes) {
  setenv("MECANTENSOR_BACKENDS", "reference", 1);
  cli_result typo = RUN("env");
  ck_code(typo, 0);
  ck_has(typo.err, "warning: MECANTENSOR_BACKENDS");
  ck_has(typo.err, "did you mean MECANTENSOR_BACKEND?");
  json_t *root = RUN_JSON(0, "env", "--json");
  json_t *unknown = json_object_get(root, "unknown");
  ck_assert_ptr_nonnull(find_by(unknown, "name", "MECANTENSOR_BACKENDS"));
  ck_assert_uint_eq(json_array_size(json_object_get(root, "errors")), 0);

  setenv("MECANTENSOR_BACKEND", "nosuch", 1);
  cli_result missing = RUN("env");
  ck_code(missing, 1);
  ck_has(missing.err, "nosuch");
  setenv("MECANTENSOR_BACKEND", "reference", 1);
  setenv("MECANTENSOR_LOG", "loader=loud", 1);
  cli_result log = RUN("env");
  ck_code(log, 1);
  ck_has(log.err, "loud");
  ck_has(log.out, "-> reference");
}
END_TEST

START_TEST(test_env_plugin_setting) {
  json_t *plugins = json_object_get(RUN_JSON(0, "devices", "--json"), "plugins");
  json_t *plugin = json_array_get(plugins, 0);
  if (plugin == NULL || json_string_length(json_object_get(plugin, "name")) == 0) {
    return; /* built without plugins */
  }
  const char *name = json_string_value(json_object_get(plugin, "name"));
  char variable[128] = "MECANTENSOR_";
  size_t length = strlen(variable);
  for (; *name != 0; name++) {
    variable[length++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
  }
  strcpy(variable + length, "_TILE");
  setenv(variable, "7", 1);
  cli_result result = RUN("env");
  ck_code(result, 0);
  ck_assert_str_eq(result.err, "");
  ck_has(result.out, variable);
  ck_has(result.out, "setting TILE of the plugin");
}
END_TEST

START_TEST(test_bench) {
  json_t *root = RUN_JSON(0, "bench", "matmul", "--shape=8x16x4", "--seconds=0.01", "--rounds=1",
                          "--threads=1", "-b", "reference", "--json");
  ck_assert_uint_gt(json_object_size(root), 0);
  cli_result text = RUN("bench", "matmul", "--shape=8x16x4", "--shape=5x1x3", "--seconds=0.01",
                        "--rounds=1", "-b", "reference");
  ck_code(text, 0);
  ck_has(text.out, "8x16x4");
  ck_has(text.out, "5x1x3");
  cli_result csv = RUN("bench", "matmul", "--shape=8x16x4", "--seconds=0.01", "--rounds=1", "-b",
                       "reference", "--csv");
  ck_code(csv, 0);
  ck_has(csv.out, ",");
  cli_result missing = RUN("bench", "matmul", "--shape=8x8x8", "-b", "nosuch");
  ck_code(missing, 3);
  ck_has(missing.err, "nosuch");
}
END_TEST

/* Every kind on a small shape: rows with ordered figures, and a limit where there is one. */
START_TEST(test_bench_kinds) {
  static const struct {
    const char *kind, *shape;
    size_t rows;
  } cases[] = {{"ops", "4x64", 11},    {"memory", "4x64", 4},    {"dispatch", "8", 2},
               {"quant", "2x64x8", 3}, {"conv", "2x5x4x3x3", 1}, {"attention", "2x3x5x8", 2}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    json_t *root = RUN_JSON(0, "bench", cases[i].kind, "--shape", cases[i].shape, "--threads=1",
                            "--seconds=0.001", "--rounds=2", "-b", "reference", "--json");
    json_t *rows = json_object_get(root, "cases"), *row;
    size_t n;
    ck_assert_str_eq(json_string_value(json_object_get(root, "bench")), cases[i].kind);
    ck_assert_uint_eq(json_array_size(rows), cases[i].rows);
    json_array_foreach(rows, n, row) {
      double median = json_real_value(json_object_get(row, "median"));
      ck_assert_double_gt(median, 0);
      ck_assert_double_le(json_real_value(json_object_get(row, "min")), median);
      ck_assert_double_ge(json_real_value(json_object_get(row, "max")), median);
      bool limited = json_real_value(json_object_get(row, "limit")) > 0;
      ck_assert(limited == (strcmp(cases[i].kind, "dispatch") != 0));
    }
  }
  cli_result csv = RUN("bench", "memory", "--shape=3x5", "--seconds=0.001", "--rounds=1", "--csv");
  ck_code(csv, 0);
  ck_has(csv.out, "case,shape,backend,threads,median,min,max,unit,limit,share\ncopy,3x5,");
}
END_TEST

/* -t, else MECANTENSOR_NUM_THREADS. */
START_TEST(test_bench_threads) {
  setenv("MECANTENSOR_NUM_THREADS", "3", 1);
  json_t *root = RUN_JSON(0, "bench", "matmul", "--shape=8x8x8", "--seconds=0.001", "--rounds=1",
                          "-b", "reference", "--json");
  ck_assert_int_eq(json_integer_value(json_object_get(root, "threads")), 3);
  root = RUN_JSON(0, "bench", "dispatch", "--shape=8", "-t", "2", "--seconds=0.001", "--rounds=1",
                  "-b", "reference", "--json");
  ck_assert_int_eq(json_integer_value(json_object_get(root, "threads")), 2);
  unsetenv("MECANTENSOR_NUM_THREADS");
}
END_TEST

START_TEST(test_conformance) {
  cli_result tap = RUN("conformance", "-b", "reference", "--op=rel*", "--seed=7", "--seeds=1");
  ck_code(tap, 0);
  ck_has(tap.out, "1 seeds from 7");
  ck_has(tap.out, "ok 2 - reference relu: ");
  ck_has(tap.out, "\n1..3\n");
  cli_result rounds = RUN("conformance", "-b", "reference", "--op=relu", "--seconds=0.01");
  ck_code(rounds, 0);
  ck_has(rounds.out, "# reference: seed 1\n");
  json_t *root = RUN_JSON(0, "conformance", "-b", "reference", "--op=relu", "--json");
  ck_assert(json_is_true(json_object_get(root, "passed")));
  json_t *row = json_array_get(json_object_get(root, "results"), 0);
  ck_assert_str_eq(json_string_value(json_object_get(row, "op")), "relu");
  ck_assert_int_gt(json_integer_value(json_object_get(row, "passed")), 100);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "failed")), 0);
}
END_TEST

START_TEST(test_conformance_mistakes) {
  cli_result missing = RUN("conformance", "-b", "nosuch", "--op=relu");
  ck_code(missing, 3);
  ck_has(missing.err, "nosuch");
  cli_result file = RUN("conformance", "--plugin=/no/such.so");
  ck_code(file, 3);
  ck_has(file.err, "/no/such.so: no such file");
  ck_code(RUN("conformance", "--plugin=x.so", "-b", "cpu-avx2"), 2);
  ck_code(RUN("conformance", "--seconds=0"), 2);
  ck_code(RUN("conformance", "extra"), 2);
}
END_TEST

CLI_TEST_MAIN(command, test_conformance, test_conformance_mistakes, test_help,
              test_options_are_documented, test_wrong_arguments, test_output_does_not_get_through,
              test_devices, test_devices_selected, test_devices_missing_backend,
              test_devices_unusable_plugin, test_env, test_env_mistakes, test_env_plugin_setting,
              test_bench, test_bench_kinds, test_bench_threads)
