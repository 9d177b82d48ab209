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

/* What a case needs while it runs. */
typedef struct attempt {
  conf *c;
  conf_case *k;
  mt_tensor *expected; /* of the reference */
  conf_operand given;  /* for the backend, unless it makes its own */
  mt_tensor *got;
  void *want_bytes, *got_bytes; /* packed */
  size_t bytes;
  void *snapshot[CONF_INPUTS]; /* of small inputs: they must stay */
} attempt;

/* ---- reports ------------------------------------------------------------------------- */

static void print_list(const char *name, int rank, const int64_t *list) {
  printf(" %s [", name);
  for (int i = 0; i < rank; i++) {
    printf("%s%" PRId64, i ? ", " : "", list[i]);
  }
  printf("]");
}

static void print_operand(const char *role, size_t number, const mt_tensor *t) {
  const mt_format *format = mt_tensor_format(t);
  const void *data = NULL;
  printf("#   %s %zu: %s", role, number,
         format ? mt_format_id(format) : mt_dtype_name(mt_tensor_dtype(t)));
  print_list("shape", mt_tensor_rank(t), mt_tensor_shape(t));
  print_list("strides", mt_tensor_rank(t), mt_tensor_strides(t));
  if (mt_tensor_read(t, &data) == MT_OK) {
    printf(" address %% 64 = %u", (unsigned)((uintptr_t)data % 64));
  }
  printf("\n");
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
  printf("# FAILED %s %s %s, case %ld, seed %" PRIu64 ": %s%s%s\n", c->label, c->op,
         mt_dtype_name(c->dtype), c->number, c->seed, a->k->what, a->k->what[0] ? "; " : "",
         outs[a->k->out]);
  for (size_t i = 0; i < a->k->in_count; i++) {
    if (a->k->in[i].view) {
      print_operand("input", i, a->k->in[i].view);
    }
  }
  if (a->given.view) {
    print_operand("output", 0, a->given.view);
  }
  va_list args;
  va_start(args, format);
  printf("#   ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
}

/* ---- comparing ----------------------------------------------------------------------- */

static double allowed_at(const conf_case *k, mt_dtype dtype, double expected, int64_t i) {
  double allowed = k->ulps > 0 ? k->ulps * conf_spacing(dtype, expected) : 0;
  if (k->slack && isfinite(k->slack[i])) {
    allowed += k->slack[i];
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

static void report_mismatch(const attempt *a, int64_t first, int64_t wrong, double allowed) {
  char where[CONF_TEXT] = "[";
  mt_dtype dtype = mt_tensor_dtype(a->expected);
  const int64_t *shape = mt_tensor_shape(a->expected);
  int rank = mt_tensor_rank(a->expected);
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
         "%" PRId64 " of %" PRId64 " elements are wrong; at %s]: got %.17g, expected %.17g, "
         "allowed %.3g",
         wrong, mt_tensor_elements(a->expected), where, conf_element(dtype, a->got_bytes, first),
         conf_element(dtype, a->want_bytes, first), allowed);
}

static bool compare_bytes(const attempt *a) {
  if (memcmp(a->got_bytes, a->want_bytes, a->bytes) == 0) {
    return true;
  }
  size_t size = mt_dtype_size(mt_tensor_dtype(a->expected)), first = 0;
  const char *got = a->got_bytes, *want = a->want_bytes;
  while (got[first] == want[first]) {
    first++;
  }
  if (size == 0) {
    report(a, "blocks differ at byte %zu of %zu", first, a->bytes);
    return false;
  }
  int64_t wrong = 0;
  for (size_t i = 0; i < a->bytes; i += size) {
    wrong += memcmp(got + i, want + i, size) != 0;
  }
  report_mismatch(a, (int64_t)(first / size), wrong, 0);
  return false;
}

static bool compare(const attempt *a) {
  const conf_case *k = a->k;
  mt_dtype dtype = mt_tensor_dtype(a->expected);
  if (k->bits || !conf_is_float(dtype)) {
    return compare_bytes(a);
  }
  int64_t wrong = 0, first = 0, count = mt_tensor_elements(a->expected);
  double first_allowed = 0;
  for (int64_t i = 0; i < count; i++) {
    double want = conf_element(dtype, a->want_bytes, i);
    double allowed = allowed_at(k, dtype, want, i);
    if (!same_float(conf_element(dtype, a->got_bytes, i), want, allowed) && wrong++ == 0) {
      first = i;
      first_allowed = allowed;
    }
  }
  if (wrong > 0) {
    report_mismatch(a, first, wrong, first_allowed);
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
static bool surroundings_kept(const attempt *a) {
  if (!a->given.base) {
    return true;
  }
  size_t bytes = mt_tensor_bytes(a->given.base), stray = 0;
  memset(a->got_bytes, 0xff, a->bytes);
  unsigned char *all = NULL;
  if (mt_tensor_set(a->given.view, a->got_bytes, a->bytes) == MT_OK) {
    all = packed_copy(a->given.base, bytes);
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

static mt_status run_reference(attempt *a) {
  const mt_tensor *initial = a->k->initial;
  if (initial) {
    size_t bytes = mt_tensor_bytes(initial);
    void *packed = packed_copy(initial, bytes);
    if (!packed) {
      return MT_ERR_OUT_OF_MEMORY;
    }
    mt_status status = mt_tensor_from_data(mt_tensor_dtype(initial), mt_tensor_rank(initial),
                                           mt_tensor_shape(initial), packed, &a->expected);
    free(packed);
    if (status != MT_OK) {
      return status;
    }
  }
  mt_status status = a->k->call(a->c->reference, a->k, &a->expected);
  if (status != MT_OK) {
    report(a, "the reference fails: %s", mt_last_error());
    return status;
  }
  a->bytes = mt_tensor_bytes(a->expected);
  a->want_bytes = packed_copy(a->expected, a->bytes);
  return a->want_bytes ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status prepare_output(attempt *a) {
  if (a->k->out == CONF_IN_PLACE) {
    a->got = mt_tensor_retain(a->k->in[0].view);
    return MT_OK;
  }
  if (a->k->out == CONF_FRESH) {
    return MT_OK;
  }
  a->given = conf_make_out(a->c, mt_tensor_dtype(a->expected), mt_tensor_rank(a->expected),
                           mt_tensor_shape(a->expected), a->k->out_layout);
  a->got = mt_tensor_retain(a->given.view);
  if (!a->got) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  if (!a->k->initial) {
    return MT_OK;
  }
  void *packed = packed_copy(a->k->initial, a->bytes);
  mt_status status = packed ? mt_tensor_set(a->got, packed, a->bytes) : MT_ERR_OUT_OF_MEMORY;
  free(packed);
  return status;
}

static bool same_description(const attempt *a) {
  const mt_tensor *got = a->got, *want = a->expected;
  int rank = mt_tensor_rank(want);
  return mt_tensor_dtype(got) == mt_tensor_dtype(want) && mt_tensor_rank(got) == rank &&
         mt_tensor_bytes(got) == mt_tensor_bytes(want) &&
         memcmp(mt_tensor_shape(got), mt_tensor_shape(want), (size_t)rank * sizeof(int64_t)) == 0;
}

static void judge(attempt *a) {
  a->got_bytes = malloc(a->bytes ? a->bytes : 1);
  if (!a->got_bytes) {
    a->c->broken = true;
    return;
  }
  if (!same_description(a)) {
    report(a, "dtype or shape is not that of the reference");
  } else if (mt_tensor_get(a->got, a->got_bytes, a->bytes) != MT_OK) {
    report(a, "the result cannot be read: %s", mt_last_error());
  } else if (compare(a) && inputs_kept(a) && surroundings_kept(a)) {
    ++*(a->bytes > 0 ? &a->c->cell->passed : &a->c->cell->empty);
  }
}

static void run_backend(attempt *a) {
  mt_tensor *before = a->got;
  conf_cell *cell = a->c->cell;
  mt_status status = a->k->call(a->c->backend, a->k, &a->got);
  if (status == MT_ERR_UNSUPPORTED) {
    if (cell->unsupported++ == 0) {
      snprintf(cell->reason, sizeof(cell->reason), "%s", mt_last_error());
    }
  } else if (status != MT_OK) {
    report(a, "%s: %s", mt_status_name(status), mt_last_error());
  }
  if (before && a->got != before) {
    report(a, "the pointer to the given output was changed");
    a->got = before;
  } else if (status == MT_OK) {
    judge(a);
  }
}

void conf_check(conf *c, conf_case *k) {
  attempt a = {.c = c, .k = k};
  c->number++;
  if (!c->broken) {
    mt_status status = run_reference(&a);
    if (status == MT_OK) {
      take_snapshots(&a);
      status = prepare_output(&a);
    }
    if (status == MT_OK) {
      run_backend(&a);
    } else if (status == MT_ERR_OUT_OF_MEMORY) {
      c->broken = true;
    }
  }
  for (size_t i = 0; i < k->in_count; i++) {
    free(a.snapshot[i]);
    conf_operand_release(&k->in[i]);
  }
  mt_tensor_release(&k->initial);
  mt_tensor_release(&a.expected);
  mt_tensor_release(&a.got);
  conf_operand_release(&a.given);
  free(a.want_bytes);
  free(a.got_bytes);
  free(k->slack);
  k->slack = NULL;
}
