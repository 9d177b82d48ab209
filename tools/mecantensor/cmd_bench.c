// SPDX-License-Identifier: Apache-2.0
/* cmd_bench.c - mecantensor bench: options of the measurements. */
#include "bench.h"
#include "common.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SHAPE = KEY_OWN, KEY_AGAINST, KEY_ISA, KEY_CSV, KEY_SECONDS, KEY_ROUNDS };
enum { MAX_SHAPES = 64, MAX_CONTENDERS = 16 };

typedef struct bench_arguments {
  common_options common;
  bench_matmul_options options;
  bench_shape shapes[MAX_SHAPES];
  const char *against[MAX_CONTENDERS];
} bench_arguments;

/* "512x1024x256" */
static void parse_shape(bench_arguments *arguments, struct argp_state *state, const char *text) {
  int64_t extent[3];
  const char *at = text;
  for (int i = 0; i < 3; i++) {
    char *end = NULL;
    errno = 0;
    extent[i] = strtoll(at, &end, 10);
    if (end == at || *end != (i < 2 ? 'x' : 0) || errno != 0 || extent[i] < 1 ||
        extent[i] > INT32_MAX) {
      argp_error(state, "--shape: '%s' is not MxKxN with numbers from 1 to %d", text, INT32_MAX);
    }
    at = end + 1;
  }
  size_t count = arguments->options.shape_count;
  if (count == MAX_SHAPES) {
    argp_error(state, "--shape: at most %d shapes", MAX_SHAPES);
  }
  arguments->shapes[count] = (bench_shape){extent[0], extent[1], extent[2]};
  arguments->options.shape_count++;
}

static void parse_contender(bench_arguments *arguments, struct argp_state *state,
                            const char *name) {
  bool known = false;
  for (const char *const *at = bench_matmul_contenders; *at != NULL; at++) {
    known = known || strcmp(*at, name) == 0;
  }
  if (!known) {
    const char *near = nearest_word(name, bench_matmul_contenders);
    argp_error(state, "--against: '%s' is not known%s%s", name,
               near == NULL ? "" : "; did you mean ", near == NULL ? "" : near);
  }
  size_t count = arguments->options.against_count;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(arguments->against[i], name) == 0) {
      return;
    }
  }
  if (count < MAX_CONTENDERS) {
    arguments->against[count] = name;
    arguments->options.against_count++;
  }
}

/* "openblas,blis" */
static void parse_against(bench_arguments *arguments, struct argp_state *state, char *list) {
  for (char *rest = list, *name; (name = strsep(&rest, ",")) != NULL;) {
    parse_contender(arguments, state, name);
  }
}

static void finish_arguments(bench_arguments *arguments, struct argp_state *state) {
  bench_matmul_options *o = &arguments->options;
  o->backend = arguments->common.backend;
  o->json = arguments->common.json;
  o->against = arguments->against;
  o->shapes = arguments->shapes;
  if (o->json && o->csv) {
    argp_error(state, "--json and --csv exclude each other");
  }
  if (o->shape_count == 0) {
    arguments->shapes[o->shape_count++] = (bench_shape){1024, 1024, 1024};
    arguments->shapes[o->shape_count++] = (bench_shape){512, 1024, 256};
  }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  bench_arguments *arguments = state->input;
  bench_matmul_options *o = &arguments->options;
  switch (key) {
  case KEY_SHAPE: parse_shape(arguments, state, arg); return 0;
  case 't': o->threads = (int)parse_integer(state, "--threads", arg, 1, 4096); return 0;
  case KEY_AGAINST: parse_against(arguments, state, arg); return 0;
  case KEY_ISA:
    if (strcmp(arg, "avx2") != 0) {
      argp_error(state, "--isa: '%s': only avx2 is known", arg);
    }
    o->isa = arg;
    return 0;
  case KEY_CSV: o->csv = true; return 0;
  case KEY_SECONDS:
    o->seconds = parse_double(state, "--seconds", arg);
    if (!(o->seconds > 0 && o->seconds <= 3600)) {
      argp_error(state, "--seconds: '%s' is not above 0 and at most 3600", arg);
    }
    return 0;
  case KEY_ROUNDS: o->rounds = (int)parse_integer(state, "--rounds", arg, 1, 1000); return 0;
  case ARGP_KEY_ARG:
    if (state->arg_num > 0 || strcmp(arg, "matmul") != 0) {
      argp_error(state, "'%s': what can be measured is matmul", arg);
    }
    return 0;
  case ARGP_KEY_NO_ARGS: argp_error(state, "say what to measure: matmul"); return 0;
  case ARGP_KEY_END: finish_arguments(arguments, state); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"shape", KEY_SHAPE, "MxKxN", 0,
     "A [M, K] times B [K, N]; may be repeated (1024x1024x1024 and 512x1024x256)", 0},
    {"threads", 't', "N", 0, "Threads, for all contenders (as many as there are CPUs)", 0},
    {"against", KEY_AGAINST, "LIST", 0, "Measure openblas, blis, onednn beside, if installed", 0},
    {"isa", KEY_ISA, "NAME", 0, "Hold the others to this instruction set: avx2", 0},
    {"seconds", KEY_SECONDS, "S", 0, "Measured time of a shape, contender and round (0.3)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Rounds in which contenders take turns; the median counts (5)",
     0},
    {"csv", KEY_CSV, 0, 0, "Print comma-separated values", 0},
    OPTION_BACKEND,
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    "matmul",
    "Measure C = A B in f32, also side by side with other libraries.\v"
    "The other libraries are loaded when the program runs; one that is not installed is "
    "reported and left out.",
    NULL,
    NULL,
    NULL};

int cmd_bench(int argc, char **argv) {
  bench_arguments arguments = {.options = {.seconds = 0.3, .rounds = 5}};
  parse_arguments(&argp, argc, argv, &arguments);
  return bench_matmul(&arguments.options);
}
