// SPDX-License-Identifier: Apache-2.0
/* cmd_devices.c - mecantensor devices */
#include "common.h"
#include "devices.h"

#include <string.h>

typedef struct devices_arguments {
  common_options common;
  bool verbose;
} devices_arguments;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  devices_arguments *arguments = state->input;
  switch (key) {
  case 'v': arguments->verbose = true; return 0;
  case ARGP_KEY_ARG: argp_error(state, "'%s': devices takes no argument", arg); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"verbose", 'v', 0, 0, "Show all that is known of devices and plugin files", 0},
    OPTION_BACKEND,
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    NULL,
    "List the devices found here, and the plugins that cannot be used with the reason.\v"
    "Opens every plugin. SELECTED tells which devices take part in running operations under "
    "the backend setting. A backend that is named but missing is reported, the list is printed "
    "all the same, and the exit code is 1.",
    NULL,
    NULL,
    NULL};

/* The runtime as asked for; when that cannot be, the error and a runtime for "auto". */
static int open_to_list(const char *backend, mt_runtime **rt, json_t **error) {
  mt_runtime_options as_asked = MT_RUNTIME_OPTIONS_INIT;
  as_asked.backend = backend;
  if (mt_runtime_create(&as_asked, rt) == MT_OK) {
    *error = json_null();
    return EXIT_DONE;
  }
  *error = json_text(mt_last_error());
  cli_fail_library(EXIT_FAILED);
  as_asked.backend = "auto";
  if (mt_runtime_create(&as_asked, rt) == MT_OK) {
    return EXIT_FAILED;
  }
  /* Another setting is wrong; most often that was the error already printed. */
  if (strcmp(json_string_value(*error), mt_last_error()) != 0) {
    cli_fail_library(EXIT_UNUSABLE);
  }
  return EXIT_UNUSABLE;
}

int cmd_devices(int argc, char **argv) {
  devices_arguments arguments = {0};
  parse_arguments(&argp, argc, argv, &arguments);
  mt_runtime *rt = NULL;
  json_t *error = NULL;
  int code = open_to_list(arguments.common.backend, &rt, &error);
  if (rt == NULL) {
    return code;
  }
  if (mt_runtime_probe_all(rt) != MT_OK) {
    code = cli_fail_library(EXIT_FAILED);
  }
  if (arguments.common.json) {
    json_t *root = devices_json(rt);
    json_put(root, "error", error);
    json_print(root);
  } else {
    print_devices(rt, arguments.verbose);
    json_decref(error);
  }
  mt_runtime_release(&rt);
  return code;
}
