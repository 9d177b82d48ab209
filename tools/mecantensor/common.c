// SPDX-License-Identifier: Apache-2.0
#include "common.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *command_name;

/* ---- errors ---------------------------------------------------------------------------- */
void set_command_name(const char *name) {
  command_name = name;
}

static void put_message(const char *kind, const char *format, va_list args) {
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) {
    die_memory();
  }
  fflush(stdout); /* in order, when both streams are one file */
  fprintf(stderr, "mecantensor%s%s: %s", command_name == NULL ? "" : " ",
          command_name == NULL ? "" : command_name, kind);
  put_escaped(stderr, text);
  fputc('\n', stderr);
  free(text);
}

int cli_fail(int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_message("", format, args);
  va_end(args);
  return code;
}

int cli_fail_library(int code) {
  return cli_fail(code, "%s", mt_last_error());
}

void cli_warn(const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_message("warning: ", format, args);
  va_end(args);
}

void die_memory(void) {
  fputs("mecantensor: out of memory\n", stderr);
  exit(EXIT_UNUSABLE);
}

void *need_memory(void *pointer) {
  if (pointer == NULL) {
    die_memory();
  }
  return pointer;
}

static void finish_output(void) {
  bool failed = ferror(stdout) != 0;
  if (fclose(stdout) != 0 || failed) {
    int err = errno;
    fprintf(stderr, "mecantensor: cannot write to standard output: %s\n", strerror(err));
    _exit(EXIT_UNUSABLE);
  }
}

void guard_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    /* The lowest free number is fd; opened the wrong way round, so that its use fails. */
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
      _exit(EXIT_UNUSABLE);
    }
  }
  signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error like a full disk */
  if (atexit(finish_output) != 0) {
    _exit(EXIT_UNUSABLE);
  }
}

/* ---- options --------------------------------------------------------------------------- */
error_t common_option(common_options *options, int key, char *arg, struct argp_state *state) {
  switch (key) {
  case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
  case KEY_USAGE: argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK); return 0;
  case 'b': options->backend = arg; return 0;
  case KEY_JSON: options->json = true; return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

void parse_arguments(const struct argp *argp, int argc, char **argv, void *input) {
  static char full_name[64];
  set_command_name(argv[0]);
  snprintf(full_name, sizeof(full_name), "mecantensor %s", argv[0]);
  argv[0] = full_name;
  argp_err_exit_status = EXIT_USAGE;
  /* Exits by itself on wrong arguments and after --help. */
  error_t err = argp_parse(argp, argc, argv, ARGP_NO_HELP, NULL, input);
  if (err != 0) {
    exit(cli_fail(EXIT_UNUSABLE, "cannot read the arguments: %s", strerror(err)));
  }
}

double parse_double(struct argp_state *state, const char *option, const char *text) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end != 0 || !isfinite(value)) {
    argp_error(state, "%s: '%s' is not a finite number", option, text);
  }
  return value;
}

long parse_integer(struct argp_state *state, const char *option, const char *text, long min,
                   long max) {
  char *end = NULL;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end != 0 || errno != 0 || value < min || value > max) {
    argp_error(state, "%s: '%s' is not a whole number from %ld to %ld", option, text, min, max);
  }
  return value;
}

/* ---- runtimes and files ------------------------------------------------------------------ */
int open_runtime(const char *backend, mt_runtime **rt) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backend;
  if (mt_runtime_create(&options, rt) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  return EXIT_DONE;
}

void split_spec(const char *spec, char **file, const char **name) {
  *name = NULL;
  *file = need_memory(strdup(spec));
  if (access(spec, F_OK) == 0) {
    return;
  }
  for (size_t i = strlen(spec); i-- > 0;) {
    if (spec[i] != ':') {
      continue;
    }
    (*file)[i] = 0;
    if (access(*file, F_OK) == 0) {
      *name = spec + i + 1;
      return;
    }
  }
  strcpy(*file, spec);
}

/* ---- JSON ---------------------------------------------------------------------------------- */
void json_put(json_t *object, const char *key, json_t *value) {
  if (json_object_set_new(object, key, value) != 0) {
    die_memory();
  }
}

void json_add(json_t *array, json_t *value) {
  if (json_array_append_new(array, value) != 0) {
    die_memory();
  }
}

json_t *json_text(const char *text) {
  json_t *value = json_string(text);
  if (value == NULL) { /* not UTF-8 */
    char *copy = escape_text(text);
    value = json_string(copy);
    free(copy);
  }
  return value;
}

json_t *json_figure(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_shape(int rank, const int64_t *shape) {
  json_t *array = json_make_array();
  for (int i = 0; i < rank; i++) {
    json_add(array, json_integer(shape[i]));
  }
  return array;
}

json_t *json_make_object(void) {
  return need_memory(json_object());
}

json_t *json_make_array(void) {
  return need_memory(json_array());
}

void json_print(json_t *root) {
  const size_t flags = JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17);
  char *text = need_memory(json_dumps(root, flags));
  puts(text);
  free(text);
  json_decref(root);
}
