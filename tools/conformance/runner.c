// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPORTS = 5, MAX_DEVICES = 64 };

typedef struct run {
  const conf_settings *s;
  conf_outcome *o;
  mt_runtime *reference;
  char folder[PATH_MAX], file[PATH_MAX]; /* of settings.plugin */
} run;

/* ---- the report ---------------------------------------------------------------------- */

static void test_line(run *r, bool passed, const char *label, const char *name, const char *rest) {
  r->o->tests++;
  r->o->failed += !passed;
  fprintf(r->s->out, "%sok %d - %s %s%s\n", passed ? "" : "not ", r->o->tests, label, name, rest);
  fflush(r->s->out);
}

/* The cell of a device, op and dtype; made when it is new. NULL: no memory. */
static conf_cell *cell_of(conf_outcome *o, const char *label, const char *op, mt_dtype dtype) {
  for (size_t i = o->count; i-- > 0;) {
    conf_result *have = &o->results[i];
    if (have->dtype == dtype && strcmp(have->op, op) == 0 && strcmp(have->device, label) == 0) {
      return &have->cell;
    }
  }
  if (o->count == o->room) {
    size_t room = o->room ? 2 * o->room : 256;
    conf_result *more = realloc(o->results, room * sizeof(*more));
    if (!more) {
      return NULL;
    }
    o->results = more;
    o->room = room;
  }
  conf_result *made = &o->results[o->count++];
  *made = (conf_result){.op = op, .dtype = dtype};
  snprintf(made->device, sizeof(made->device), "%s", label);
  return &made->cell;
}

static conf_cell sum_cells(run *r, const char *label, const conf_op *op) {
  conf_cell sum = {0};
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE; d++) {
    const conf_cell *cell = cell_of(r->o, label, op->name, op->dtypes[d]);
    if (cell) {
      sum.passed += cell->passed;
      sum.unsupported += cell->unsupported;
      sum.failed += cell->failed;
      sum.empty += cell->empty;
    }
  }
  return sum;
}

/* The line of an op, and why cases of it are not supported. */
static void report_op(run *r, const char *label, const conf_op *op, bool broken) {
  char rest[96];
  conf_cell sum = sum_cells(r, label, op);
  bool none = sum.passed == 0 && sum.failed == 0;
  snprintf(rest, sizeof(rest), ": %ld passed, %ld unsupported, %ld failed, %ld empty%s", sum.passed,
           sum.unsupported, sum.failed, sum.empty, none ? " # SKIP not supported" : "");
  test_line(r, sum.failed == 0 && !broken, label, op->name, rest);
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE; d++) {
    const conf_cell *cell = cell_of(r->o, label, op->name, op->dtypes[d]);
    if (cell && cell->unsupported > 0) {
      fprintf(r->s->out, "#   %-9s %-5s %6ld of %6ld cases: %s\n", op->name,
              mt_dtype_name(op->dtypes[d]), cell->unsupported,
              cell->unsupported + cell->passed + cell->failed, cell->reason);
    }
  }
}

/* ---- one device ---------------------------------------------------------------------- */

/* All dtypes of an op with one seed. */
static void run_op(run *r, conf *c, const conf_op *op, uint64_t seed, bool large) {
  c->op = op->name;
  for (int d = 0; op->dtypes[d] != MT_DTYPE_NONE && !c->broken; d++) {
    c->dtype = op->dtypes[d];
    c->number = 0;
    c->large = large;
    c->broken = (c->cell = cell_of(r->o, c->label, op->name, c->dtype)) == NULL;
    if (!c->broken) {
      conf_seed(c, seed);
      op->body(c, op->row);
    }
  }
}

static bool bail_out(run *r, const conf *c) {
  if (c->broken) {
    fprintf(r->s->out, "Bail out! %s %s: the comparison itself failed: %s\n", c->label, c->op,
            mt_last_error());
  }
  return c->broken;
}

/* The ops that match; false when a visit ends it. */
static bool for_ops(run *r, conf *c, bool (*visit)(run *r, conf *c, const conf_op *op)) {
  for (size_t f = 0; f < conf_family_count; f++) {
    for (size_t i = 0; i < conf_families[f]->count; i++) {
      const conf_op *op = &conf_families[f]->ops[i];
      if (fnmatch(r->s->op, op->name, 0) == 0 && !visit(r, c, op)) {
        return false;
      }
    }
  }
  return true;
}

static bool run_and_report(run *r, conf *c, const conf_op *op) {
  c->reports_left = REPORTS;
  for (uint64_t n = 0; n < r->s->seeds; n++) {
    run_op(r, c, op, r->s->seed + n, n == 0);
  }
  report_op(r, c->label, op, c->broken);
  return !bail_out(r, c);
}

static bool run_round(run *r, conf *c, const conf_op *op) {
  run_op(r, c, op, r->o->last, r->o->last == r->s->seed);
  return !bail_out(r, c);
}

static bool report_only(run *r, conf *c, const conf_op *op) {
  report_op(r, c->label, op, false);
  return true;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rounds until the time is up, at least one. */
static bool run_for_seconds(run *r, conf *c, double seconds) {
  double end = now() + seconds;
  c->reports_left = REPORTS;
  for (r->o->last = r->s->seed;; r->o->last++) {
    fprintf(r->s->out, "# %s: seed %" PRIu64 "\n", c->label, r->o->last);
    fflush(r->s->out);
    if (!for_ops(r, c, run_round)) {
      return false;
    }
    if (now() >= end) {
      break;
    }
  }
  return for_ops(r, c, report_only);
}

static void ignore_log(void *user, mt_log_level level, const char *topic, const char *message) {
  (void)user;
  (void)level;
  (void)topic;
  (void)message;
}

static mt_status make_runtime(const run *r, const char *backend, mt_runtime **out) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backend;
  options.log_fn = getenv("MECANTENSOR_LOG") ? NULL : ignore_log;
  if (r->folder[0]) {
    options.plugin_path = r->folder;
    options.plugin_path_only = 1;
  }
  return mt_runtime_create(&options, out);
}

/* false: nothing more can be told. devices: over how many the seconds are spread. */
static bool run_device(run *r, const char *label, int devices) {
  mt_runtime *backend;
  if (make_runtime(r, label, &backend) != MT_OK) {
    fprintf(r->s->out, "# %s\n", mt_last_error());
    snprintf(r->o->reason, sizeof(r->o->reason), "%s", mt_last_error());
    r->o->unusable = true;
    test_line(r, false, label, "runtime", ": cannot be created");
    return true;
  }
  r->o->devices++;
  conf c = {.reference = r->reference,
            .backend = backend,
            .label = label,
            .log = r->s->out,
            .thin = r->s->thin};
  bool going = r->s->seconds > 0 ? run_for_seconds(r, &c, r->s->seconds / devices)
                                 : for_ops(r, &c, run_and_report);
  mt_status status = mt_runtime_sync(backend);
  if (going && status != MT_OK) {
    fprintf(r->s->out, "# %s\n", mt_last_error());
  }
  test_line(r, status == MT_OK, label, "runtime", ": all work done");
  mt_runtime_release(&backend);
  return going;
}

/* ---- which devices --------------------------------------------------------------------- */

/* The name of the plugin in settings.plugin, or why it is not used. */
static bool find_plugin(run *r, mt_runtime *all, char *name, size_t size) {
  mt_probe_record record;
  snprintf(r->o->reason, sizeof(r->o->reason), "%s: no plugin file of this name was found in %s",
           r->file, r->folder);
  for (size_t i = 0; i < mt_runtime_probe_count(all); i++) {
    char path[PATH_MAX];
    if (mt_runtime_probe_get(all, i, &record) != MT_OK || !realpath(record.path, path) ||
        strcmp(path, r->file) != 0) {
      continue;
    }
    if (record.code == MT_OK) {
      snprintf(name, size, "%s", record.name);
      return true;
    }
    snprintf(r->o->reason, sizeof(r->o->reason), "%s is not usable (%s): %s", record.path,
             mt_probe_stage_name(record.stage), record.reason);
  }
  return false;
}

static void print_unusable(const run *r, mt_runtime *all) {
  mt_probe_record record;
  for (size_t i = 0; i < mt_runtime_probe_count(all); i++) {
    if (mt_runtime_probe_get(all, i, &record) == MT_OK && record.code != MT_OK) {
      fprintf(r->s->out, "# %s is not usable (%s): %s\n", record.path,
              mt_probe_stage_name(record.stage), record.reason);
    }
  }
}

/* "name:index" of every device that opens, or only of that backend. */
static int list_devices(run *r, mt_runtime *all, const char *backend,
                        char labels[MAX_DEVICES][CONF_TEXT]) {
  mt_device_info info;
  int count = 0;
  for (size_t i = 0; count < MAX_DEVICES && mt_runtime_device_get(all, i, &info) == MT_OK; i++) {
    if (!backend || strcmp(backend, info.backend) == 0) {
      snprintf(labels[count], sizeof(labels[count]), "%s:%u", info.backend, info.index);
      fprintf(r->s->out, "# device %s: %s\n", labels[count++], info.name);
    }
  }
  return count;
}

static void run_all(run *r) {
  static char labels[MAX_DEVICES][CONF_TEXT];
  char name[CONF_TEXT];
  mt_runtime *all;
  if (make_runtime(r, "auto", &all) != MT_OK || mt_runtime_probe_all(all) != MT_OK) {
    snprintf(r->o->reason, sizeof(r->o->reason), "devices cannot be listed: %s", mt_last_error());
    r->o->unusable = true;
    test_line(r, false, "devices", "list", "");
    return;
  }
  bool found = !r->file[0] || find_plugin(r, all, name, sizeof(name));
  int count = 0;
  if (found) {
    print_unusable(r, all);
    count = list_devices(r, all, r->file[0] ? name : NULL, labels);
    snprintf(r->o->reason, sizeof(r->o->reason), "%s: no device opens", r->file);
  }
  mt_runtime_release(&all);
  if (r->file[0] && count == 0) {
    fprintf(r->s->out, "# %s\n", r->o->reason);
    r->o->unusable = true;
    test_line(r, false, "plugin", "file", "");
  } else if (count == 0) {
    fprintf(r->s->out,
            "# no backend beside the reference was found: only the reference is tested\n");
    test_line(r, true, "devices", "list", "");
  }
  for (int i = 0; i < count && run_device(r, labels[i], count); i++) {
  }
}

static void set_plugin(run *r) {
  char copy[PATH_MAX];
  if (r->s->plugin && !realpath(r->s->plugin, r->file)) {
    r->file[0] = '\0';
  } else if (r->s->plugin) {
    snprintf(copy, sizeof(copy), "%s", r->file);
    snprintf(r->folder, sizeof(r->folder), "%s", dirname(copy));
  }
}

void conf_run(const conf_settings *settings, conf_outcome *outcome) {
  run r = {.s = settings, .o = outcome};
  int checks = 0;
  *outcome = (conf_outcome){.first = settings->seed, .last = settings->seed + settings->seeds - 1};
  set_plugin(&r);
  fprintf(settings->out, "# MecanTensor %s conformance: %" PRIu64 " seeds from %" PRIu64,
          mt_version(), settings->seeds, settings->seed);
  if (settings->thin > 1) {
    fprintf(settings->out, ", one of %" PRIu64 " cases", settings->thin);
  }
  fprintf(settings->out, "\n");
  if (settings->plugin && !r.file[0]) {
    snprintf(outcome->reason, sizeof(outcome->reason), "%s: no such file", settings->plugin);
    outcome->unusable = true;
    return;
  }
  if (make_runtime(&r, "reference", &r.reference) != MT_OK) {
    fprintf(settings->out, "Bail out! no reference: %s\n", mt_last_error());
    snprintf(outcome->reason, sizeof(outcome->reason), "%s", mt_last_error());
    outcome->unusable = true;
    return;
  }
  int failed = conf_check_reference(r.reference, settings->out, &checks);
  fprintf(settings->out, "# the reference: %d of %d hand-made results\n", checks - failed, checks);
  test_line(&r, failed == 0 && checks > 0, "reference", "by hand", "");
  if (settings->backend) {
    run_device(&r, settings->backend, 1);
  } else {
    run_all(&r);
  }
  mt_runtime_release(&r.reference);
  fprintf(settings->out, "1..%d\n", outcome->tests);
}
