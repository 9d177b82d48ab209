// SPDX-License-Identifier: Apache-2.0
/*
 * conformance [-b BACKEND] [--op GLOB] [--seed N]
 *
 * Runs every op's cases on every device that loads (or on BACKEND) and prints TAP: one
 * line for each device and op, and a table at the end of what was not supported, with
 * the reason. MT_CONFORMANCE_SEEDS: how many seeds (2); MT_CONFORMANCE_SEED: the first (1).
 * MT_CONFORMANCE_OP: as --op.
 */
#include "conformance.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DTYPES = 16, REPORTS = 5, MAX_DEVICES = 64 };

typedef struct settings {
  const char *backend; /* NULL: all */
  const char *op;      /* glob */
  uint64_t seed, seeds;
} settings;

typedef struct totals {
  int tests, failed;
} totals;

/* ---- settings ------------------------------------------------------------------------ */

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

static bool read_settings(int argc, char **argv, settings *s) {
  static const struct option long_options[] = {{"backend", required_argument, NULL, 'b'},
                                               {"op", required_argument, NULL, 'o'},
                                               {"seed", required_argument, NULL, 's'},
                                               {NULL, 0, NULL, 0}};
  const char *seed = getenv("MT_CONFORMANCE_SEED"), *seeds = getenv("MT_CONFORMANCE_SEEDS");
  const char *op = getenv("MT_CONFORMANCE_OP");
  *s = (settings){.op = op ? op : "*", .seed = 1, .seeds = 2};
  if ((seed && !parse_number("MT_CONFORMANCE_SEED", seed, &s->seed)) ||
      (seeds && !parse_number("MT_CONFORMANCE_SEEDS", seeds, &s->seeds))) {
    return false;
  }
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

/* ---- one device ---------------------------------------------------------------------- */

static void test_line(totals *t, bool passed, const char *label, const char *name,
                      const char *rest) {
  t->tests++;
  t->failed += !passed;
  printf("%sok %d - %s %s%s\n", passed ? "" : "not ", t->tests, label, name, rest);
  fflush(stdout);
}

/* All dtypes and seeds of an op; cells get the counts. */
static void run_op(const settings *s, conf *c, const conf_op *op, conf_cell *cells) {
  c->op = op->name;
  c->reports_left = REPORTS;
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE; d++) {
    c->dtype = op->dtypes[d];
    c->cell = &cells[d];
    for (uint64_t n = 0; n < s->seeds && !c->broken; n++) {
      c->number = 0;
      c->large = n == 0;
      conf_seed(c, s->seed + n);
      op->body(c, op->row);
    }
  }
}

static conf_cell sum_cells(const conf_op *op, const conf_cell *cells) {
  conf_cell sum = {0};
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE; d++) {
    sum.passed += cells[d].passed;
    sum.unsupported += cells[d].unsupported;
    sum.failed += cells[d].failed;
    sum.empty += cells[d].empty;
  }
  return sum;
}

static void print_unsupported(const conf_op *op, const conf_cell *cells) {
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE; d++) {
    if (cells[d].unsupported > 0) {
      printf("#   %-9s %-5s %6ld of %6ld cases: %s\n", op->name, mt_dtype_name(op->dtypes[d]),
             cells[d].unsupported, cells[d].unsupported + cells[d].passed + cells[d].failed,
             cells[d].reason);
    }
  }
}

/* Runs what matches s->op; returns false when memory or the reference failed. */
static bool run_device(const settings *s, mt_runtime *reference, mt_runtime *backend,
                       const char *label, totals *t) {
  conf c = {.reference = reference, .backend = backend, .label = label};
  char rest[96];
  for (size_t f = 0; f < conf_family_count; f++) {
    for (size_t i = 0; i < conf_families[f]->count; i++) {
      const conf_op *op = &conf_families[f]->ops[i];
      conf_cell cells[MAX_DTYPES] = {{0}};
      if (fnmatch(s->op, op->name, 0) != 0) {
        continue;
      }
      run_op(s, &c, op, cells);
      conf_cell sum = sum_cells(op, cells);
      bool none = sum.passed == 0 && sum.failed == 0;
      snprintf(rest, sizeof(rest), ": %ld passed, %ld unsupported, %ld failed, %ld empty%s",
               sum.passed, sum.unsupported, sum.failed, sum.empty,
               none ? " # SKIP not supported" : "");
      test_line(t, sum.failed == 0 && !c.broken, label, op->name, rest);
      print_unsupported(op, cells);
      if (c.broken) {
        printf("Bail out! %s %s: the comparison itself failed: %s\n", label, op->name,
               mt_last_error());
        return false;
      }
    }
  }
  return true;
}

static void ignore_log(void *user, mt_log_level level, const char *topic, const char *message) {
  (void)user;
  (void)level;
  (void)topic;
  (void)message;
}

static mt_status make_runtime(const char *backend, mt_runtime **out) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backend;
  options.log_fn = getenv("MECANTENSOR_LOG") ? NULL : ignore_log;
  return mt_runtime_create(&options, out);
}

static bool test_backend(const settings *s, mt_runtime *reference, const char *label, totals *t) {
  mt_runtime *backend;
  if (make_runtime(label, &backend) != MT_OK) {
    printf("# %s\n", mt_last_error());
    test_line(t, false, label, "runtime", ": cannot be created");
    return true;
  }
  bool going = run_device(s, reference, backend, label, t);
  mt_status status = mt_runtime_sync(backend);
  if (going && status != MT_OK) {
    printf("# %s\n", mt_last_error());
  }
  test_line(t, status == MT_OK, label, "runtime", ": all work done");
  mt_runtime_release(&backend);
  return going;
}

/* ---- all devices --------------------------------------------------------------------- */

/* "name:index" of every device that opens; says why the others do not. */
static int list_devices(char labels[MAX_DEVICES][CONF_TEXT]) {
  mt_runtime *all;
  mt_device_info info;
  mt_probe_record record;
  int count = 0;
  if (make_runtime("auto", &all) != MT_OK || mt_runtime_probe_all(all) != MT_OK) {
    printf("# devices cannot be listed: %s\n", mt_last_error());
    return -1;
  }
  for (size_t i = 0; i < mt_runtime_probe_count(all); i++) {
    if (mt_runtime_probe_get(all, i, &record) == MT_OK && record.code != MT_OK) {
      printf("# %s is not usable (%s): %s\n", record.path, mt_probe_stage_name(record.stage),
             record.reason);
    }
  }
  for (size_t i = 0; count < MAX_DEVICES && mt_runtime_device_get(all, i, &info) == MT_OK; i++) {
    snprintf(labels[count], sizeof(labels[count]), "%s:%u", info.backend, info.index);
    printf("# device %s: %s\n", labels[count++], info.name);
  }
  mt_runtime_release(&all);
  return count;
}

static void test_all(const settings *s, mt_runtime *reference, totals *t) {
  static char labels[MAX_DEVICES][CONF_TEXT];
  int count = list_devices(labels);
  if (count <= 0) {
    printf("# no backend beside the reference was found: only the reference is tested\n");
    test_line(t, count == 0, "devices", "list", "");
  }
  for (int i = 0; i < count; i++) {
    if (!test_backend(s, reference, labels[i], t)) {
      return;
    }
  }
}

int main(int argc, char **argv) {
  settings s;
  totals t = {0, 0};
  mt_runtime *reference;
  int checks = 0;
  if (!read_settings(argc, argv, &s)) {
    fprintf(stderr, "usage: %s [-b BACKEND] [--op GLOB] [--seed N]\n", argv[0]);
    return 2;
  }
  printf("# MecanTensor %s conformance: %" PRIu64 " seeds from %" PRIu64 "\n", mt_version(),
         s.seeds, s.seed);
  if (make_runtime("reference", &reference) != MT_OK) {
    printf("Bail out! no reference: %s\n", mt_last_error());
    return 1;
  }
  int failed = conf_check_reference(reference, &checks);
  printf("# the reference: %d of %d hand-made results\n", checks - failed, checks);
  test_line(&t, failed == 0 && checks > 0, "reference", "by hand", "");
  if (s.backend) {
    test_backend(&s, reference, s.backend, &t);
  } else {
    test_all(&s, reference, &t);
  }
  mt_runtime_release(&reference);
  printf("1..%d\n", t.tests);
  return t.failed == 0 ? 0 : 1;
}
