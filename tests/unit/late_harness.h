// SPDX-License-Identifier: Apache-2.0
/*
 * late_harness.h - for tests that run ops on the plugin "late" (tests/plugins/late): a
 * runtime whose log is kept, a way to the plugin's control interface, and tensors of small
 * integers, whose results are exact in f32 whatever the order of the sums.
 */
#ifndef MT_TESTS_LATE_HARNESS_H
#define MT_TESTS_LATE_HARNESS_H

#include "harness.h"
#include "late_control.h"

#include <hal/hal.h>
#include <mecantensor/mecantensor.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* ---- the log -------------------------------------------------------------------------------- */

static struct {
  pthread_mutex_t lock;
  char text[1 << 16]; /* "level topic: message\n" */
  size_t length;
} journal = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void keep_line(void *user, mt_log_level level, const char *topic,
                             const char *message) {
  (void)user;
  pthread_mutex_lock(&journal.lock);
  size_t room = sizeof(journal.text) - journal.length;
  int n = snprintf(journal.text + journal.length, room, "%d %s: %s\n", (int)level, topic, message);
  journal.length += n > 0 && (size_t)n < room ? (size_t)n : 0;
  pthread_mutex_unlock(&journal.lock);
}

/* How many times part is in the log. */
static inline int logged(const char *part) {
  int count = 0;
  pthread_mutex_lock(&journal.lock);
  for (const char *at = journal.text; (at = strstr(at, part)) != NULL; at++) {
    count++;
  }
  pthread_mutex_unlock(&journal.lock);
  return count;
}

/* ---- runtimes ------------------------------------------------------------------------------- */

static inline mt_status create_runtime(const char *backend, mt_runtime **out) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backend;
  options.log = "info";
  options.log_fn = keep_line;
  return mt_runtime_create(&options, out);
}

static inline mt_runtime *runtime(const char *backend) {
  mt_runtime *rt = NULL;
  ck_ok(create_runtime(backend, &rt));
  return rt;
}

/* A setting of the plugin, for runtimes made from now on. */
static inline void late_set(const char *key, const char *value) {
  char name[64];
  snprintf(name, sizeof(name), "MECANTENSOR_LATE_%s", key);
  setenv(name, value, 1);
}

static inline mt_backend *late_backend(mt_runtime *rt) {
  for (size_t i = 0; i < rt->candidate_count; i++) {
    if (strcmp(rt->candidates[i].note.name, "late") == 0 && rt->backends[i].started) {
      return &rt->backends[i];
    }
  }
  ck_abort_msg("the plugin late is not open");
  return NULL;
}

/* The control interface of the plugin as this runtime has it. The pair stays valid while
 * the runtime's devices live. */
typedef struct late_handle {
  const late_control_v1 *control;
  void *instance;
} late_handle;

static inline late_handle late_of(mt_runtime *rt) {
  const mt_backend *backend = late_backend(rt);
  late_handle late = {.instance = backend->instance};
  late.control = backend->candidate->table->get_interface(backend->instance, LATE_CONTROL_ID, 1);
  ck_assert_ptr_nonnull(late.control);
  return late;
}

static inline void hold(late_handle late, uint32_t device) {
  late.control->hold(late.instance, device);
}

static inline void open_gate(late_handle late, uint32_t device) {
  late.control->open_gate(late.instance, device);
}

static inline late_counters counters(late_handle late, uint32_t device) {
  late_counters out;
  late.control->counters(late.instance, device, &out);
  return out;
}

/* Opens the gate of device 0 from another thread, a moment from now. */
static inline void *open_later(void *arg) {
  const late_handle *late = arg;
  struct timespec moment = {0, 20 * 1000000};
  nanosleep(&moment, NULL);
  open_gate(*late, 0);
  return NULL;
}

/* The host kept every promise of plugin.h so far. */
static inline void check_promises(late_handle late) {
  char first[256];
  uint64_t count = late.control->violations(first);
  ck_assert_msg(count == 0, "%llu violations, the first: %s", (unsigned long long)count, first);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Small integers from -4 to 4, different for each seed. */
static inline float ramp_value(int64_t i, int seed) {
  return (float)((i * 7 + seed * 13 + i / 5) % 9 - 4);
}

static inline mt_tensor *ramp_of(int rank, const int64_t *shape, int seed) {
  mt_tensor *tensor = NULL;
  void *data;
  ck_ok(mt_tensor_create(MT_F32, rank, shape, &tensor));
  ck_ok(mt_tensor_write(tensor, &data));
  for (int64_t i = 0; i < mt_tensor_elements(tensor); i++) {
    ((float *)data)[i] = ramp_value(i, seed);
  }
  return tensor;
}

static inline mt_tensor *ramp2(int64_t rows, int64_t columns, int seed) {
  return ramp_of(2, (const int64_t[]){rows, columns}, seed);
}

static inline mt_tensor *ramp1(int64_t n, int seed) {
  return ramp_of(1, &n, seed);
}

/* Packed bytes of the content; to be freed. */
static inline float *values(const mt_tensor *tensor) {
  size_t bytes = mt_tensor_bytes(tensor);
  float *out = malloc(bytes ? bytes : 1);
  ck_assert_ptr_nonnull(out);
  ck_ok(mt_tensor_get(tensor, out, bytes));
  return out;
}

/* Same shape, same bytes. */
static inline void check_same(const mt_tensor *got, const mt_tensor *expected) {
  ck_assert_int_eq(mt_tensor_rank(got), mt_tensor_rank(expected));
  for (int i = 0; i < mt_tensor_rank(got); i++) {
    ck_assert_int_eq(mt_tensor_shape(got)[i], mt_tensor_shape(expected)[i]);
  }
  float *a = values(got), *b = values(expected);
  for (int64_t i = 0; i < mt_tensor_elements(got); i++) {
    ck_assert_msg(a[i] == b[i], "element %lld: %g, expected %g", (long long)i, (double)a[i],
                  (double)b[i]);
  }
  free(a);
  free(b);
}

static inline void check_on(const mt_tensor *tensor, const char *where) {
  ck_assert_str_eq(mt_tensor_location(tensor), where);
}

/* Gives up everything passed, up to NULL: DROP(a, b). */
static inline void drop_all(mt_tensor **first, ...) {
  va_list args;
  va_start(args, first);
  for (mt_tensor **t = first; t; t = va_arg(args, mt_tensor **)) {
    mt_tensor_release(t);
  }
  va_end(args);
}
#define DROP(...) drop_all(__VA_ARGS__, (mt_tensor **)NULL)

/* The row of an op on a backend; zeros when there is none. */
static inline mt_op_stats stats_of(mt_runtime *rt, const char *op, const char *backend) {
  mt_op_stats row;
  for (size_t i = 0; i < mt_runtime_stats_count(rt); i++) {
    ck_ok(mt_runtime_stats_get(rt, i, &row));
    if (strcmp(row.op, op) == 0 && strcmp(row.backend, backend) == 0) {
      return row;
    }
  }
  return (mt_op_stats){.op = op, .backend = backend, .reason = ""};
}

#endif
