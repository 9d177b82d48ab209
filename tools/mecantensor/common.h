// SPDX-License-Identifier: Apache-2.0
/*
 * common.h - what the subcommands share: exit codes, options, errors, runtimes, JSON.
 *
 * The program runs one command and ends, so memory it holds until the end is not freed, and
 * running out of memory ends it at once (exit code 3).
 */
#ifndef MT_TOOLS_COMMON_H
#define MT_TOOLS_COMMON_H

#include <argp.h>
#include <jansson.h>
#include <mecantensor/mecantensor.h>

/* Exit codes; in the man page and in `mecantensor --help`. */
enum {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,   /* a check did not hold, an operation failed */
  EXIT_USAGE = 2,    /* wrong arguments; nothing was done */
  EXIT_UNUSABLE = 3, /* a file, a backend or the output cannot be used; no memory */
};

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
  const char *summary;
} command;

int cmd_bench(int argc, char **argv);
int cmd_conformance(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_matmul(int argc, char **argv);

/* ---- options ------------------------------------------------------------------------ */
typedef struct common_options {
  const char *backend; /* NULL: the environment */
  bool json;
} common_options;

/* Keys of options without a letter start at KEY_OWN in each command. */
enum { KEY_JSON = 0x100, KEY_USAGE, KEY_OWN = 0x200 };

#define OPTION_HELP                                                                                \
  {"help", 'h', 0, 0, "Print this help and exit", -1}, {                                           \
    "usage", KEY_USAGE, 0, 0, "Print the options alone and exit", -1                               \
  }
#define OPTION_JSON                                                                                \
  { "json", KEY_JSON, 0, 0, "Print one JSON object on standard output", 0 }
#define OPTION_BACKEND                                                                             \
  { "backend", 'b', "LIST", 0, "Backends in order, as MECANTENSOR_BACKEND", 0 }

/* The keys of the options above; ARGP_ERR_UNKNOWN for all others. */
error_t common_option(common_options *options, int key, char *arg, struct argp_state *state);

/* Fills input in; on wrong arguments prints why and ends the program with EXIT_USAGE.
 * Errors are then reported under the name argv[0]. */
void parse_arguments(const struct argp *argp, int argc, char **argv, void *input);

/* The whole of text as a number; else argp_error() that names the option. */
double parse_double(struct argp_state *state, const char *option, const char *text);
long parse_integer(struct argp_state *state, const char *option, const char *text, long min,
                   long max);

/* ---- errors --------------------------------------------------------------------------- */
/* What errors start with after the program's name. */
void set_command_name(const char *name);

/* "mecantensor matmul: <sentence>" on stderr; returns code. Control characters and bytes
 * that are not ASCII are escaped: sentences may quote files. */
MT_PRINTF(2, 3) int cli_fail(int code, const char *format, ...);
/* The same with the library's last error. */
int cli_fail_library(int code);
/* "mecantensor matmul: warning: <sentence>" */
MT_PRINTF(1, 2) void cli_warn(const char *format, ...);
_Noreturn void die_memory(void);
/* pointer, which is not NULL; else die_memory() */
void *need_memory(void *pointer);

/* Keeps output from reaching files opened later when a standard stream is closed, and
 * makes the program fail (EXIT_UNUSABLE) when its output did not get through, or a file
 * became larger than it may. */
void guard_streams(void);

/* ---- runtimes and files ------------------------------------------------------------------ */
/* EXIT_DONE, or EXIT_UNUSABLE with the error printed. */
int open_runtime(const char *backend, mt_runtime **rt);

/* "file:name" as mt_load() takes it: *file is allocated, *name points into spec, or is NULL
 * when spec is a file. */
void split_spec(const char *spec, char **file, const char **name);

/* ---- JSON ---------------------------------------------------------------------------------- */
/* Takes value over; value NULL means that jansson had no memory. */
void json_put(json_t *object, const char *key, json_t *value);
void json_add(json_t *array, json_t *value);
json_t *json_text(const char *text); /* bytes that are not UTF-8 are escaped */
json_t *json_figure(double value);   /* null when it is not finite */
json_t *json_shape(int rank, const int64_t *shape);
json_t *json_make_object(void);
json_t *json_make_array(void);
/* Prints and frees it. */
void json_print(json_t *root);

#endif
