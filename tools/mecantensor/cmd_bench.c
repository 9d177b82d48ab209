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

/* What can be measured, how its shapes are written, and those measured when none is given. */
typedef struct bench_kind {
  const char *name, *form;
  int extents;
  bench_dims defaults[4]; /* the first extent 0 ends */
} bench_kind;

static const bench_kind kinds[] = {
    {"matmul", "MxKxN", 3, {{{1024, 1024, 1024}}, {{512, 1024, 256}}}},
    {"quant", "MxKxN", 3, {{{1, 4096, 4096}}, {{8, 4096, 4096}}, {{128, 4096, 4096}}}},
    {"ops", "ROWSxCOLUMNS", 2, {{{4096, 4096}}}},
    {"memory", "ROWSxCOLUMNS", 2, {{{4096, 4096}}}},
    {"dispatch", "ELEMENTS", 1, {{{1}}, {{64}}, {{4096}}}},
    {"conv",
     "CxHxWxOxK",
     5,
     {{{64, 56, 56, 64, 3}}, {{128, 28, 28, 128, 3}}, {{256, 28, 28, 256, 3}}}},
    {"attention", "HxSQxSKVxD", 4, {{{32, 1024, 1024, 128}}, {{32, 1, 4096, 128}}}},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
#define KIND_NAMES "matmul, quant, ops, memory, dispatch, conv, attention"

typedef struct bench_arguments {
  common_options common;
  bench_options options;
  const bench_kind *kind;
  const char *shape_texts[MAX_SHAPES]; /* read when the kind is known */
  size_t shape_count;
  bench_dims shapes[MAX_SHAPES];
  const char *against[MAX_CONTENDERS];
} bench_arguments;

/* "512x1024x256" */
static void parse_shape(const bench_kind *kind, struct argp_state *state, const char *text,
                        bench_dims *out) {
  const char *at = text;
  for (int i = 0; i < kind->extents; i++) {
    char *end = NULL;
    errno = 0;
    out->d[i] = strtoll(at, &end, 10);
    if (end == at || *end != (i + 1 < kind->extents ? 'x' : 0) || errno != 0 || out->d[i] < 1 ||
        out->d[i] > INT32_MAX) {
      argp_error(state, "--shape: '%s' is not %s with numbers from 1 to %d", text, kind->form,
                 INT32_MAX);
    }
    at = end + 1;
  }
}

static void add_shape(bench_arguments *arguments, struct argp_state *state, const char *text) {
  if (arguments->shape_count == MAX_SHAPES) {
    argp_error(state, "--shape: at most %d shapes", MAX_SHAPES);
  }
  arguments->shape_texts[arguments->shape_count++] = text;
}

static void choose_kind(bench_arguments *arguments, struct argp_state *state, const char *name) {
  for (size_t i = 0; state->arg_num == 0 && i < KINDS; i++) {
    if (strcmp(kinds[i].name, name) == 0) {
      arguments->kind = &kinds[i];
      return;
    }
  }
  argp_error(state, "'%s': what can be measured is one of " KIND_NAMES, name);
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
  bench_options *o = &arguments->options;
  o->backend = arguments->common.backend;
  o->json = arguments->common.json;
  o->against = arguments->against;
  o->shapes = arguments->shapes;
  if (o->json && o->csv) {
    argp_error(state, "--json and --csv exclude each other");
  }
  const bench_kind *kind = arguments->kind;
  if (kind == NULL) {
    return; /* reported by ARGP_KEY_NO_ARGS */
  }
  if (o->against_count > 0 && strcmp(kind->name, "matmul") != 0) {
    argp_error(state, "--against: no other library is measured for %s, only for matmul",
               kind->name);
  }
  o->kind = kind->name;
  o->extents = kind->extents;
  for (size_t i = 0; i < arguments->shape_count; i++) {
    parse_shape(kind, state, arguments->shape_texts[i], &arguments->shapes[o->shape_count++]);
  }
  while (arguments->shape_count == 0 && kind->defaults[o->shape_count].d[0] > 0) {
    arguments->shapes[o->shape_count] = kind->defaults[o->shape_count];
    o->shape_count++;
  }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  bench_arguments *arguments = state->input;
  bench_options *o = &arguments->options;
  switch (key) {
  case KEY_SHAPE: add_shape(arguments, state, arg); return 0;
  case 't': o->threads = (int)parse_integer(state, "--threads", arg, 1, 4096); return 0;
  case KEY_AGAINST: parse_against(arguments, state, arg); return 0;
  case KEY_ISA:
    if (strcmp(arg, "avx2") != 0 && strcmp(arg, "avx512") != 0 && strcmp(arg, "any") != 0) {
      argp_error(state, "--isa: '%s' is not avx2, avx512 or any", arg);
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
  case ARGP_KEY_ARG: choose_kind(arguments, state, arg); return 0;
  case ARGP_KEY_NO_ARGS: argp_error(state, "say what to measure: " KIND_NAMES); return 0;
  case ARGP_KEY_END: finish_arguments(arguments, state); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"shape", KEY_SHAPE, "EXTENTS", 0, "What to measure instead of the defaults; may be repeated",
     0},
    {"threads", 't', "N", 0, "Threads, for all contenders (MECANTENSOR_NUM_THREADS, else the CPUs)",
     0},
    {"against", KEY_AGAINST, "LIST", 0,
     "matmul: measure openblas, blis, onednn beside, if installed", 0},
    {"isa", KEY_ISA, "NAME", 0,
     "matmul: hold the others to avx2 or avx512, or any: to none (as the backend that runs ours)",
     0},
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
    "matmul|quant|ops|memory|dispatch|conv|attention",
    "Measure operations in f32, each beside what this machine could do at most.\v"
    "Extents: matmul and quant MxKxN (A [M, K] times B [K, N]); ops and memory ROWSxCOLUMNS; "
    "dispatch ELEMENTS; conv CxHxWxOxK (channels, image, filters and their size); attention "
    "HxSQxSKVxD (heads, queries, keys, width).\n"
    "The other libraries are loaded when the program runs; one that is not installed is "
    "reported and left out.",
    NULL,
    NULL,
    NULL};

int cmd_bench(int argc, char **argv) {
  bench_arguments arguments = {.options = {.seconds = 0.3, .rounds = 5}};
  parse_arguments(&argp, argc, argv, &arguments);
  bool peers = strcmp(arguments.kind->name, "matmul") == 0;
  return (peers ? bench_matmul : bench_cases)(&arguments.options);
}
