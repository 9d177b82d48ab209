// SPDX-License-Identifier: Apache-2.0
/* cmd_conformance.c - mecantensor conformance */
#include "../conformance/runner.h"
#include "common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct conformance_arguments {
  common_options common;
  conf_settings settings;
} conformance_arguments;

enum { KEY_PLUGIN = KEY_OWN, KEY_OP, KEY_SEED, KEY_SEEDS, KEY_SECONDS };

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  conformance_arguments *a = state->input;
  switch (key) {
  case KEY_PLUGIN: a->settings.plugin = arg; return 0;
  case KEY_OP: a->settings.op = arg; return 0;
  case KEY_SEED:
    a->settings.seed = (uint64_t)parse_integer(state, "--seed", arg, 0, INT32_MAX);
    return 0;
  case KEY_SEEDS:
    a->settings.seeds = (uint64_t)parse_integer(state, "--seeds", arg, 1, 1000000);
    return 0;
  case KEY_SECONDS:
    a->settings.seconds = parse_double(state, "--seconds", arg);
    if (!(a->settings.seconds > 0)) {
      argp_error(state, "--seconds '%s': expected a number above 0", arg);
    }
    return 0;
  case ARGP_KEY_ARG: argp_error(state, "'%s': conformance takes no argument", arg); return 0;
  case ARGP_KEY_END:
    if (a->settings.plugin && a->common.backend) {
      argp_error(state, "--plugin and --backend: expected one of them");
    }
    return 0;
  default: return common_option(&a->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"backend", 'b', "NAME", 0, "One backend, as in MECANTENSOR_BACKEND; every device without", 0},
    {"plugin", KEY_PLUGIN, "FILE", 0, "The plugin in FILE, and no other", 0},
    {"op", KEY_OP, "PATTERN", 0, "Operations whose name matches the shell pattern", 0},
    {"seed", KEY_SEED, "N", 0, "The first seed of the random cases (1)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "How many seeds (2)", 0},
    {"seconds", KEY_SECONDS, "N", 0, "Rounds with new seeds until the time is up", 0},
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    NULL,
    "Compare every operation of backends with the reference: dtypes, shapes, layouts, edges.\v"
    "Prints TAP: a line for each device and operation, and in comments each wrong case with its "
    "seed, and what is not supported with the plugin's reason. The same seed gives the same "
    "cases. Exit code 0: nothing is wrong; 1: something is; 3: the backend or plugin cannot be "
    "used.",
    NULL,
    NULL,
    NULL};

static json_t *result_json(const conf_result *r) {
  json_t *row = json_make_object();
  json_put(row, "device", json_text(r->device));
  json_put(row, "op", json_text(r->op));
  json_put(row, "dtype", json_text(mt_dtype_name(r->dtype)));
  json_put(row, "passed", json_integer(r->cell.passed));
  json_put(row, "failed", json_integer(r->cell.failed));
  json_put(row, "unsupported", json_integer(r->cell.unsupported));
  json_put(row, "empty", json_integer(r->cell.empty));
  json_put(row, "reason", r->cell.unsupported > 0 ? json_text(r->cell.reason) : json_null());
  return row;
}

static void print_json(const conf_outcome *o, const char *log) {
  json_t *root = json_make_object(), *rows = json_make_array();
  for (size_t i = 0; i < o->count; i++) {
    json_add(rows, result_json(&o->results[i]));
  }
  json_put(root, "version", json_text(mt_version()));
  json_put(root, "first_seed", json_integer((json_int_t)o->first));
  json_put(root, "last_seed", json_integer((json_int_t)o->last));
  json_put(root, "devices", json_integer(o->devices));
  json_put(root, "passed", json_boolean(o->failed == 0 && !o->unusable));
  json_put(root, "error", o->unusable ? json_text(o->reason) : json_null());
  json_put(root, "results", rows);
  json_put(root, "tap", json_text(log));
  json_print(root);
}

int cmd_conformance(int argc, char **argv) {
  conformance_arguments a = {.settings = CONF_SETTINGS_INIT};
  conf_outcome outcome;
  char *log = NULL;
  size_t bytes = 0;
  parse_arguments(&argp, argc, argv, &a);
  a.settings.backend = a.common.backend;
  if (a.common.json) {
    a.settings.out = need_memory(open_memstream(&log, &bytes));
  }
  conf_run(&a.settings, &outcome);
  if (a.common.json) {
    fclose(a.settings.out);
    print_json(&outcome, log);
    free(log);
  }
  free(outcome.results);
  if (outcome.unusable) {
    return cli_fail(EXIT_UNUSABLE, "%s", outcome.reason);
  }
  return outcome.failed == 0 ? EXIT_DONE : EXIT_FAILED;
}
