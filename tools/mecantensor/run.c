// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include "text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

mt_status timed_matmul(mt_runtime *rt, mt_tensor *a, mt_tensor *b, const mt_matmul_options *options,
                       mt_tensor **out, double *seconds) {
  double start = now();
  mt_status status = mt_matmul(rt, a, b, options, out);
  if (status == MT_OK) {
    status = mt_runtime_sync(rt);
  }
  *seconds = now() - start;
  return status;
}

/* Rows of op one after the other; false: no more. */
static bool next_row(mt_runtime *rt, const char *op, size_t *index, mt_op_stats *row) {
  while (*index < mt_runtime_stats_count(rt)) {
    if (mt_runtime_stats_get(rt, (*index)++, row) == MT_OK && strcmp(row->op, op) == 0) {
      return true;
    }
  }
  return false;
}

void print_where_run(mt_runtime *rt, const char *op, int indent) {
  mt_op_stats row;
  for (size_t i = 0; next_row(rt, op, &i, &row);) {
    printf("%*sran   on %s", indent, "", row.backend);
    if (row.relayouts > 0) {
      printf(", %" PRIu64 " operand(s) copied to another layout first", row.relayouts);
    }
    if (row.decodes > 0) {
      printf(", %" PRIu64 " operand(s) decoded first", row.decodes);
    }
    if (row.fallbacks > 0) {
      printf(", as an earlier backend refused: ");
      put_escaped(stdout, row.reason);
    }
    putchar('\n');
  }
}

json_t *where_run_json(mt_runtime *rt, const char *op) {
  json_t *array = json_make_array();
  mt_op_stats row;
  for (size_t i = 0; next_row(rt, op, &i, &row);) {
    json_t *object = json_make_object();
    json_put(object, "op", json_text(row.op));
    json_put(object, "backend", json_text(row.backend));
    json_put(object, "calls", json_integer((json_int_t)row.calls));
    json_put(object, "relayouts", json_integer((json_int_t)row.relayouts));
    json_put(object, "decodes", json_integer((json_int_t)row.decodes));
    json_put(object, "fallbacks", json_integer((json_int_t)row.fallbacks));
    json_put(object, "reason", json_text(row.reason));
    json_add(array, object);
  }
  return array;
}
