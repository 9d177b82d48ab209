// SPDX-License-Identifier: Apache-2.0
/* Runs a case on the reference and on the backend, compares, counts and reports. */
#include "conformance.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SNAPSHOT_BYTES = 1 << 16 };

/* One output. */
typedef struct result {
  mt_tensor *expected; /* of the reference */
  conf_operand given;  /* for the backend, unless it makes its own */
  mt_tensor *got;
  void *want_bytes, *got_bytes; /* packed */
  size_t bytes;
  const double *slack;
} result;

/* What a case needs while it runs. */
typedef struct attempt {
  conf *c;
  conf_case *k;
  size_t count;
  result results[CONF_OUTPUTS];
  void *snapshot[CONF_INPUTS]; /* of small inputs: they must stay */
} attempt;

/* ---- reports ------------------------------------------------------------------------- */

static void print_list(FILE *out, const char *name, int rank, const int64_t *list) {
  fprintf(out, " %s [", name);
  for (int i = 0; i < rank; i++) {
    fprintf(out, "%s%" PRId64, i ? ", " : "", list[i]);
  }
  fprintf(out, "]");
}

static void print_operand(FILE *out, const char *role, size_t number, const mt_tensor *t) {
  const mt_format *format = mt_tensor_format(t);
  const void *data = NULL;
  fprintf(out, "#   %s %zu: %s", role, number,
          format ? mt_format_id(format) : mt_dtype_name(mt_tensor_dtype(t)));
  print_list(out, "shape", mt_tensor_rank(t), mt_tensor_shape(t));
  print_list(out, "strides", mt_tensor_rank(t), mt_tensor_strides(t));
  if (mt_tensor_read(t, &data) == MT_OK) {
    fprintf(out, " address %% 64 = %u", (unsigned)((uintptr_t)data % 64));
  }
  fprintf(out, "\n");
}

static void report(const attempt *a, const char *format, ...) MT_PRINTF(2, 3);

/* Counts the case as failed and prints how to see it again, while there is room. */
static void report(const attempt *a, const char *format, ...) {
  static const char *const outs[] = {"a new output", "a given output", "in place"};
  const conf *c = a->c;
  a->c->cell->failed++;
  if (a->c->reports_left-- <= 0) {
    return;
  }
  fprintf(c->log, "# FAILED %s %s %s, case %ld, seed %" PRIu64 ": %s%s%s\n", c->label, c->op,
          mt_dtype_name(c->dtype), c->number, c->seed, a->k->what, a->k->what[0] ? "; " : "",
          outs[a->k->out]);
  for (size_t i = 0; i < a->k->in_count; i++) {
    if (a->k->in[i].view) {
      print_operand(c->log, "input", i, a->k->in[i].view);
    }
  }
  for (size_t i = 0; i < a->count; i++) {
    if (a->results[i].given.view) {
      print_operand(c->log, "output", i, a->results[i].given.view);
    }
  }
  va_list args;
  va_start(args, format);
  fprintf(c->log, "#   ");
  vfprintf(c->log, format, args);
  fprintf(c->log, "\n");
  va_end(args);
}

/* ---- comparing ----------------------------------------------------------------------- */

static double allowed_at(const conf_case *k, const result *r, mt_dtype dtype, double expected,
                         int64_t i) {
  double allowed = k->ulps > 0 ? k->ulps * conf_spacing(dtype, expected) : 0;
  if (r->slack && isfinite(r->slack[i])) {
    allowed += r->slack[i];
  }
  if (k->tiny) {
    allowed += dtype == MT_F64 ? DBL_MIN : dtype == MT_F16 ? 0x1p-24 : FLT_MIN;
  }
  return allowed;
}

static bool same_float(double got, double expected, double allowed) {
  if (isnan(expected) || isnan(got)) {
    return isnan(expected) && isnan(got);
  }
  if (isinf(expected) || isinf(got)) {
    return expected == got;
  }
  return fabs(got - expected) <= allowed;
}

static void report_mismatch(const attempt *a, const result *r, int64_t first, int64_t wrong,
                            double allowed) {
  char where[CONF_TEXT] = "[";
  mt_dtype dtype = mt_tensor_dtype(r->expected);
  const int64_t *shape = mt_tensor_shape(r->expected);
  int rank = mt_tensor_rank(r->expected);
  int64_t index[MT_MAX_RANK] = {0}, rest = first;
  size_t at = 1;
  for (int i = rank - 1; i >= 0; i--) {
    index[i] = rest % shape[i];
    rest /= shape[i];
  }
  for (int i = 0; i < rank && at < sizeof(where); i++) {
    at += (size_t)snprintf(where + at, sizeof(where) - at, "%s%" PRId64, i ? ", " : "", index[i]);
  }
  report(a,
         "output %zu: %" PRId64 " of %" PRId64 " elements are wrong; at %s]: got %.17g, "
         "expected %.17g, allowed %.3g",
         (size_t)(r - a->results), wrong, mt_tensor_elements(r->expected), where,
         conf_element(dtype, r->got_bytes, first), conf_element(dtype, r->want_bytes, first),
         allowed);
}

static bool compare_bytes(const attempt *a, const result *r) {
  if (memcmp(r->got_bytes, r->want_bytes, r->bytes) == 0) {
    return true;
  }
  size_t size = mt_dtype_size(mt_tensor_dtype(r->expected)), first = 0;
  const char *got = r->got_bytes, *want = r->want_bytes;
  while (got[first] == want[first]) {
    first++;
  }
  if (size == 0) {
    report(a, "blocks differ at byte %zu of %zu", first, r->bytes);
    return false;
  }
  int64_t wrong = 0;
  for (size_t i = 0; i < r->bytes; i += size) {
    wrong += memcmp(got + i, want + i, size) != 0;
  }
  report_mismatch(a, r, (int64_t)(first / size), wrong, 0);
  return false;
}

static bool compare(const attempt *a, const result *r) {
  const conf_case *k = a->k;
  mt_dtype dtype = mt_tensor_dtype(r->expected);
  if (k->bits || !conf_is_float(dtype)) {
    return compare_bytes(a, r);
  }
  int64_t wrong = 0, first = 0, count = mt_tensor_elements(r->expected);
  double first_allowed = 0;
  for (int64_t i = 0; i < count; i++) {
    double want = conf_element(dtype, r->want_bytes, i);
    double allowed = allowed_at(k, r, dtype, want, i);
    if (!same_float(conf_element(dtype, r->got_bytes, i), want, allowed) && wrong++ == 0) {
      first = i;
      first_allowed = allowed;
    }
  }
  if (wrong > 0) {
    report_mismatch(a, r, first, wrong, first_allowed);
  }
  return wrong == 0;
}

/* ---- what must stay as it was -------------------------------------------------------- */

static void *packed_copy(const mt_tensor *tensor, size_t bytes) {
  void *copy = malloc(bytes ? bytes : 1);
  if (copy && mt_tensor_get(tensor, copy, bytes) != MT_OK) {
    free(copy);
    return NULL;
  }
  return copy;
}

static void take_snapshots(attempt *a) {
  for (size_t i = 0; i < a->k->in_count; i++) {
    const mt_tensor *view = a->k->in[i].view;
    bool kept = view && !(i == 0 && a->k->out == CONF_IN_PLACE);
    size_t bytes = mt_tensor_bytes(view);
    a->snapshot[i] = kept && bytes <= SNAPSHOT_BYTES ? packed_copy(view, bytes) : NULL;
  }
}

static bool inputs_kept(const attempt *a) {
  for (size_t i = 0; i < a->k->in_count; i++) {
    size_t bytes = mt_tensor_bytes(a->k->in[i].view);
    void *now = a->snapshot[i] ? packed_copy(a->k->in[i].view, bytes) : NULL;
    bool kept = !now || memcmp(now, a->snapshot[i], bytes) == 0;
    free(now);
    if (!kept) {
      report(a, "input %zu was changed", i);
      return false;
    }
  }
  return true;
}

/* The result is known by now: with it overwritten, all of the base must be 0xff again. */
static bool surroundings_kept(const attempt *a, const result *r) {
  if (!r->given.base) {
    return true;
  }
  size_t bytes = mt_tensor_bytes(r->given.base), stray = 0;
  memset(r->got_bytes, 0xff, r->bytes);
  unsigned char *all = NULL;
  if (mt_tensor_set(r->given.view, r->got_bytes, r->bytes) == MT_OK) {
    all = packed_copy(r->given.base, bytes);
  }
  for (size_t i = 0; all && i < bytes; i++) {
    stray += all[i] != 0xff;
  }
  bool read = all != NULL;
  free(all);
  if (!read) {
    report(a, "the output's memory cannot be read: %s", mt_last_error());
  } else if (stray > 0) {
    report(a, "%zu bytes beside the output were written", stray);
  }
  return read && stray == 0;
}

/* ---- running ------------------------------------------------------------------------- */

/* The content that the output has before the call. */
static mt_status start_from_initial(attempt *a) {
  const mt_tensor *initial = a->k->initial;
  void *packed = packed_copy(initial, mt_tensor_bytes(initial));
  if (!packed) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  mt_status status = mt_tensor_from_data(mt_tensor_dtype(initial), mt_tensor_rank(initial),
                                         mt_tensor_shape(initial), packed, &a->results[0].expected);
  free(packed);
  return status;
}

static mt_status run_reference(attempt *a) {
  mt_tensor *outs[CONF_OUTPUTS] = {NULL};
  mt_status status = a->k->initial ? start_from_initial(a) : MT_OK;
  if (status != MT_OK) {
    return status;
  }
  outs[0] = a->results[0].expected;
  status = a->k->call(a->c->reference, a->k, outs);
  for (size_t i = 0; i < a->count; i++) {
    a->results[i].expected = outs[i];
  }
  if (status != MT_OK) {
    report(a, "the reference fails: %s", mt_last_error());
    return status;
  }
  for (size_t i = 0; i < a->count; i++) {
    result *r = &a->results[i];
    r->bytes = mt_tensor_bytes(r->expected);
    r->want_bytes = packed_copy(r->expected, r->bytes);
    if (!r->want_bytes) {
      return MT_ERR_OUT_OF_MEMORY;
    }
  }
  return MT_OK;
}

static mt_status prepare_output(attempt *a, size_t i) {
  result *r = &a->results[i];
  if (a->k->out == CONF_IN_PLACE && i == 0) {
    r->got = mt_tensor_retain(a->k->in[0].view);
    return MT_OK;
  }
  if (a->k->out == CONF_FRESH) {
    return MT_OK;
  }
  r->given = conf_make_out(a->c, mt_tensor_dtype(r->expected), mt_tensor_rank(r->expected),
                           mt_tensor_shape(r->expected), a->k->out_layout);
  r->got = mt_tensor_retain(r->given.view);
  if (!r->got) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  if (!a->k->initial || i > 0) {
    return MT_OK;
  }
  void *packed = packed_copy(a->k->initial, r->bytes);
  mt_status status = packed ? mt_tensor_set(r->got, packed, r->bytes) : MT_ERR_OUT_OF_MEMORY;
  free(packed);
  return status;
}

static mt_status prepare_outputs(attempt *a) {
  mt_status status = MT_OK;
  for (size_t i = 0; status == MT_OK && i < a->count; i++) {
    status = prepare_output(a, i);
  }
  return status;
}

static bool same_description(const result *r) {
  const mt_tensor *got = r->got, *want = r->expected;
  int rank = mt_tensor_rank(want);
  return mt_tensor_dtype(got) == mt_tensor_dtype(want) && mt_tensor_rank(got) == rank &&
         mt_tensor_bytes(got) == mt_tensor_bytes(want) &&
         memcmp(mt_tensor_shape(got), mt_tensor_shape(want), (size_t)rank * sizeof(int64_t)) == 0;
}

static bool judge_output(attempt *a, result *r) {
  r->got_bytes = malloc(r->bytes ? r->bytes : 1);
  if (!r->got_bytes) {
    a->c->broken = true;
    return false;
  }
  if (!same_description(r)) {
    report(a, "dtype or shape is not that of the reference");
    return false;
  }
  if (mt_tensor_get(r->got, r->got_bytes, r->bytes) != MT_OK) {
    report(a, "the result cannot be read: %s", mt_last_error());
    return false;
  }
  return compare(a, r);
}

static void judge(attempt *a) {
  size_t bytes = 0;
  for (size_t i = 0; i < a->count; i++) {
    if (!judge_output(a, &a->results[i])) {
      return;
    }
    bytes += a->results[i].bytes;
  }
  if (!inputs_kept(a)) {
    return;
  }
  for (size_t i = 0; i < a->count; i++) {
    if (!surroundings_kept(a, &a->results[i])) {
      return;
    }
  }
  ++*(bytes > 0 ? &a->c->cell->passed : &a->c->cell->empty);
}

/* The pointers that the call left. One that was given must be as it was. */
static bool take_outputs(attempt *a, mt_tensor *const *outs) {
  bool kept = true;
  for (size_t i = 0; i < a->count; i++) {
    if (!a->results[i].got) {
      a->results[i].got = outs[i];
    } else if (a->results[i].got != outs[i]) {
      kept = false;
    }
  }
  if (!kept) {
    report(a, "the pointer to the given output was changed");
  }
  return kept;
}

static void run_backend(attempt *a) {
  conf_cell *cell = a->c->cell;
  mt_tensor *outs[CONF_OUTPUTS] = {NULL};
  for (size_t i = 0; i < a->count; i++) {
    outs[i] = a->results[i].got;
  }
  mt_status status = a->k->call(a->c->backend, a->k, outs);
  if (status == MT_ERR_UNSUPPORTED) {
    if (cell->unsupported++ == 0) {
      snprintf(cell->reason, sizeof(cell->reason), "%s", mt_last_error());
    }
  } else if (status != MT_OK) {
    report(a, "%s: %s", mt_status_name(status), mt_last_error());
  }
  if (take_outputs(a, outs) && status == MT_OK) {
    judge(a);
  }
}

static void release_results(attempt *a) {
  for (size_t i = 0; i < CONF_OUTPUTS; i++) {
    result *r = &a->results[i];
    mt_tensor_release(&r->expected);
    mt_tensor_release(&r->got);
    conf_operand_release(&r->given);
    free(r->want_bytes);
    free(r->got_bytes);
  }
}

static void release_case(conf_case *k) {
  for (size_t i = 0; i < k->in_count; i++) {
    conf_operand_release(&k->in[i]);
  }
  for (size_t i = 0; i < CONF_OUTPUTS; i++) {
    free(k->slack[i]);
    k->slack[i] = NULL;
  }
  mt_tensor_release(&k->initial);
}

void conf_check(conf *c, conf_case *k) {
  attempt a = {.c = c, .k = k, .count = k->out_count ? k->out_count : 1};
  c->number++;
  for (size_t i = 0; i < a.count; i++) {
    a.results[i].slack = k->slack[i];
  }
  if (!c->broken && !conf_left_out(c, c->number)) {
    mt_status status = run_reference(&a);
    if (status == MT_OK) {
      take_snapshots(&a);
      status = prepare_outputs(&a);
    }
    if (status == MT_OK) {
      run_backend(&a);
    } else if (status == MT_ERR_OUT_OF_MEMORY) {
      c->broken = true;
    }
  }
  for (size_t i = 0; i < k->in_count; i++) {
    free(a.snapshot[i]);
  }
  release_results(&a);
  release_case(k);
}
