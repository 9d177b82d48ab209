// SPDX-License-Identifier: Apache-2.0
/*
 * conformance [-b BACKEND] [--op GLOB] [--seed N]
 *
 * The suite as a test: on every device that loads (or on BACKEND), as TAP. For people there is
 * `mecantensor conformance`. MT_CONFORMANCE_SEEDS: how many seeds (2); MT_CONFORMANCE_SEED: the
 * first (1); MT_CONFORMANCE_THIN: only every so manieth case (1); MT_CONFORMANCE_SECONDS: random
 * rounds for so long; MT_CONFORMANCE_OP: as --op.
 */
#include "runner.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

static bool parse_number(const char *what, const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  if (errno != 0 || end == text || *end != '\0' || text[0] == '-') {
    fprintf(stderr, "conformance: %s '%s': expected a number\n", what, text);
    return false;
  }
  *out = value;
  return true;
}

static bool from_environment(const char *name, uint64_t *value) {
  const char *text = getenv(name);
  return !text || parse_number(name, text, value);
}

static bool read_settings(int argc, char **argv, conf_settings *s) {
  static const struct option long_options[] = {{"backend", required_argument, NULL, 'b'},
                                               {"op", required_argument, NULL, 'o'},
                                               {"seed", required_argument, NULL, 's'},
                                               {NULL, 0, NULL, 0}};
  uint64_t seconds = 0;
  const char *op = getenv("MT_CONFORMANCE_OP");
  s->op = op ? op : s->op;
  if (!from_environment("MT_CONFORMANCE_SEED", &s->seed) ||
      !from_environment("MT_CONFORMANCE_SEEDS", &s->seeds) ||
      !from_environment("MT_CONFORMANCE_THIN", &s->thin) ||
      !from_environment("MT_CONFORMANCE_SECONDS", &seconds)) {
    return false;
  }
  s->seconds = (double)seconds;
  int option;
  while ((option = getopt_long(argc, argv, "b:", long_options, NULL)) != -1) {
    if (option == 'b') {
      s->backend = optarg;
    } else if (option == 'o') {
      s->op = optarg;
    } else if (option == 's' && parse_number("--seed", optarg, &s->seed)) {
      s->seeds = 1;
    } else {
      return false;
    }
  }
  return optind == argc;
}

int main(int argc, char **argv) {
  conf_settings settings = CONF_SETTINGS_INIT;
  conf_outcome outcome;
  if (!read_settings(argc, argv, &settings)) {
    fprintf(stderr, "usage: %s [-b BACKEND] [--op GLOB] [--seed N]\n", argv[0]);
    return 2;
  }
  conf_run(&settings, &outcome);
  free(outcome.results);
  return outcome.failed == 0 && !outcome.unusable ? 0 : 1;
}
