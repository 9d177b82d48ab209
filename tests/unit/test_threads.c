// SPDX-License-Identifier: Apache-2.0
/* Several threads on one runtime, and the thread pool. Worth most under ThreadSanitizer. */
#include "late_harness.h"

#include <sched.h>

enum { THREADS = 4, ROUNDS = 25 };

static mt_runtime *rt;
static mt_tensor *shared, *weights, *expected;

/* ---- ops ------------------------------------------------------------------------------------- */

/* Chains of one thread, on inputs that all threads use. */
static void *run_chains(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    mt_tensor *a = NULL, *b = NULL, *c = NULL;
    const void *data, *right;
    mt_status status = mt_matmul(rt, shared, weights, NULL, &a);
    status = status == MT_OK ? mt_relu(rt, a, &b) : status;
    status = status == MT_OK ? mt_add(rt, b, shared, &c) : status;
    status = status == MT_OK ? mt_tensor_read(c, &data) : status;
    status = status == MT_OK ? mt_tensor_read(expected, &right) : status;
    bool same = status == MT_OK && memcmp(data, right, mt_tensor_bytes(c)) == 0;
    DROP(&a, &b, &c);
    if (!same) {
      return (void *)(status == MT_OK ? "wrong result" : "an op failed");
    }
  }
  return NULL;
}

/* Into an output of its own, while the others read what it reads. */
static void *run_given_outputs(void *arg) {
  (void)arg;
  mt_tensor *mine = ramp2(8, 8, 3);
  const char *wrong = NULL;
  for (int i = 0; i < ROUNDS && !wrong; i++) {
    const void *data;
    wrong = mt_relu(rt, shared, &mine) != MT_OK || mt_tensor_read(mine, &data) != MT_OK ||
                    mt_tensor_read(shared, &data) != MT_OK
                ? "an op failed"
                : NULL;
  }
  mt_tensor_release(&mine);
  return (void *)wrong;
}

static void *run_syncs(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    mt_op_stats row;
    mt_device_info info;
    mt_tensor_location(shared);
    mt_runtime_stats_get(rt, 0, &row);
    mt_runtime_device_get(rt, 0, &info);
    if (mt_runtime_sync(rt) != MT_OK) {
      return (void *)"sync failed";
    }
  }
  return NULL;
}

static void join_all(pthread_t *thread, int count) {
  for (int i = 0; i < count; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    ck_assert_msg(wrong == NULL, "thread %d: %s", i, (const char *)wrong);
  }
}

/* shared is the result of an op: it starts on a device. */
static void make_inputs(void) {
  mt_runtime *reference = runtime("reference");
  mt_tensor *x = ramp2(8, 8, 1), *a = NULL, *b = NULL, *host = NULL;
  weights = ramp2(8, 8, 2);
  ck_ok(mt_tensor_freeze(weights));
  ck_ok(mt_relu(rt, x, &shared));
  ck_ok(mt_relu(reference, x, &host));
  ck_ok(mt_matmul(reference, host, weights, NULL, &a));
  ck_ok(mt_relu(reference, a, &b));
  ck_ok(mt_add(reference, b, host, &expected));
  DROP(&x, &a, &b, &host);
  mt_runtime_release(&reference);
}

static void run_threads(const char *backend, bool is_late) {
  pthread_t thread[THREADS + 2];
  rt = runtime(backend);
  make_inputs();
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&thread[i], NULL, run_chains, NULL), 0);
  }
  ck_assert_int_eq(pthread_create(&thread[THREADS], NULL, run_given_outputs, NULL), 0);
  ck_assert_int_eq(pthread_create(&thread[THREADS + 1], NULL, run_syncs, NULL), 0);
  join_all(thread, THREADS + 2);
  late_handle late = {0};
  if (is_late) {
    late = late_of(rt);
    ck_assert_uint_eq(counters(late, 0).packs, 1);
  }
  DROP(&shared, &weights, &expected);
  mt_runtime_release(&rt);
  if (is_late) {
    check_promises(late);
  }
}

START_TEST(test_one_runtime) {
  run_threads("late,reference", true);
}
END_TEST

START_TEST(test_reference) {
  run_threads("reference", false);
}
END_TEST

START_TEST(test_auto) {
  run_threads("auto", false);
}
END_TEST

static void moment(void) {
  struct timespec time = {0, 50000};
  nanosleep(&time, NULL);
}

static void *run_first_op(void *arg) {
  pthread_barrier_wait(arg);
  mt_tensor *out = NULL;
  const char *wrong = mt_relu(rt, shared, &out) == MT_OK ? NULL : mt_last_error();
  mt_tensor_release(&out);
  return (void *)wrong;
}

static void *run_first_sync(void *arg) {
  const char *wrong = NULL;
  pthread_barrier_wait(arg);
  for (int i = 0; i < ROUNDS && !wrong; i++) { /* nothing else, which might order things */
    moment();
    wrong = mt_runtime_sync(rt) == MT_OK ? NULL : "sync failed";
  }
  return (void *)wrong;
}

/* The first op opens what auto takes, from whichever thread comes first, while others look. */
START_TEST(test_auto_opens_a_device) {
  pthread_t thread[4];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 4);
  rt = runtime("auto");
  rt->candidates[0].priority = 300; /* as plugins.d can say */
  shared = ramp2(8, 8, 1);
  for (int i = 0; i < 4; i++) {
    void *(*fn)(void *) = i < 2 ? run_first_op : run_first_sync;
    ck_assert_int_eq(pthread_create(&thread[i], NULL, fn, &barrier), 0);
  }
  join_all(thread, 4);
  pthread_barrier_destroy(&barrier);
  late_handle late = late_of(rt);
  ck_assert_uint_eq(counters(late, 0).executes, 2);
  DROP(&shared);
  mt_runtime_release(&rt);
  check_promises(late);
}
END_TEST

static void *read_shared(void *arg) {
  const void *data;
  pthread_barrier_wait(arg);
  return mt_tensor_read(shared, &data) == MT_OK ? NULL : (void *)"read failed";
}

/* One thread brings a tensor to the host while another op has it as input, with an output
 * that is looked at for overlap. */
START_TEST(test_read_beside_an_op) {
  rt = runtime("late");
  for (int i = 0; i < ROUNDS; i++) {
    pthread_t thread;
    pthread_barrier_t barrier;
    mt_tensor *x = ramp2(8, 8, 1), *given = ramp2(8, 8, 2);
    pthread_barrier_init(&barrier, NULL, 2);
    ck_ok(mt_relu(rt, x, &shared));
    ck_assert_int_eq(pthread_create(&thread, NULL, read_shared, &barrier), 0);
    pthread_barrier_wait(&barrier);
    if (i % 2) {
      moment();
    }
    ck_ok(mt_relu(rt, shared, &given));
    join_all(&thread, 1);
    check_same(given, shared);
    pthread_barrier_destroy(&barrier);
    DROP(&x, &given, &shared);
  }
  late_handle late = late_of(rt);
  mt_runtime_release(&rt);
  check_promises(late);
}
END_TEST

/* A tensor that runtimes with different devices use at once travels between them. */
static void *run_relu(void *arg) {
  mt_runtime *mine = runtime(arg);
  const char *wrong = NULL;
  for (int i = 0; i < ROUNDS && !wrong; i++) {
    mt_tensor *out = NULL;
    const void *data, *right;
    bool ok = mt_relu(mine, shared, &out) == MT_OK && mt_tensor_read(out, &data) == MT_OK &&
              mt_tensor_read(expected, &right) == MT_OK &&
              memcmp(data, right, mt_tensor_bytes(out)) == 0;
    wrong = ok ? NULL : mt_last_error();
    mt_tensor_release(&out);
  }
  mt_runtime_release(&mine);
  return (void *)wrong;
}

START_TEST(test_shared_between_runtimes) {
  static const char *const backends[] = {"late:0", "late:1", "reference", "late:0"};
  pthread_t thread[4];
  shared = ramp2(8, 8, 1);
  rt = runtime("reference");
  ck_ok(mt_relu(rt, shared, &expected));
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(pthread_create(&thread[i], NULL, run_relu, (void *)backends[i]), 0);
  }
  join_all(thread, 4);
  DROP(&shared, &expected);
  mt_runtime_release(&rt);
}
END_TEST

/* ---- the pool -----------------------------------------------------------------------------------
 */

typedef struct job {
  atomic_uint ran[1000];
  atomic_uint at_once, most;
  pthread_t caller;
  atomic_bool elsewhere; /* a task ran on another thread than the caller's */
  mt_runtime *unused;
} job;

static void run_task(void *arg, uint32_t task) {
  job *j = arg;
  unsigned now = atomic_fetch_add(&j->at_once, 1) + 1, most = atomic_load(&j->most);
  while (now > most && !atomic_compare_exchange_weak(&j->most, &most, now)) {
  }
  if (!pthread_equal(pthread_self(), j->caller)) {
    atomic_store(&j->elsewhere, true);
  }
  atomic_fetch_add(&j->ran[task], 1);
  sched_yield();
  atomic_fetch_sub(&j->at_once, 1);
}

static job *new_job(void) {
  job *j = calloc(1, sizeof(*j));
  ck_assert_ptr_nonnull(j);
  j->caller = pthread_self();
  return j;
}

static void check_job(job *j, uint32_t tasks) {
  for (uint32_t i = 0; i < 1000; i++) {
    ck_assert_uint_eq(atomic_load(&j->ran[i]), i < tasks);
  }
  free(j);
}

static void pool_runs(const char *threads, uint32_t expected_threads) {
  setenv("MECANTENSOR_NUM_THREADS", threads, 1);
  rt = runtime("reference");
  ck_assert_uint_eq(mt_runtime_threads(rt), expected_threads);
  for (uint32_t tasks = 0; tasks <= 1000; tasks = tasks * 3 + 1) {
    job *j = new_job();
    mt_pool_run(tasks, run_task, j);
    ck_assert_uint_le(atomic_load(&j->most), expected_threads);
    check_job(j, tasks);
  }
  mt_runtime_release(&rt);
}

START_TEST(test_pool_sizes) {
  pool_runs("1", 1);
  pool_runs("2", 2);
  pool_runs("7", 7);
}
END_TEST

static atomic_uint met;

/* Returns only when another thread has come too. */
static void meet(void *arg, uint32_t task) {
  (void)arg;
  (void)task;
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < 2) {
    sched_yield();
  }
}

START_TEST(test_pool_is_parallel) {
  setenv("MECANTENSOR_NUM_THREADS", "2", 1);
  rt = runtime("reference");
  for (int i = 0; i < 50; i++) {
    atomic_store(&met, 0);
    mt_pool_run(2, meet, NULL);
  }
  mt_runtime_release(&rt);
}
END_TEST

START_TEST(test_pool_settings) {
  static const char *const bad[] = {"0", "-1", "two", "4x", "257", "99999999999999999999", " 2"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    setenv("MECANTENSOR_NUM_THREADS", bad[i], 1);
    ck_fails(create_runtime("reference", &rt), MT_ERR_INVALID_ARGUMENT, "MECANTENSOR_NUM_THREADS");
    ck_assert_ptr_nonnull(strstr(mt_last_error(), bad[i]));
    ck_assert_ptr_null(rt);
  }
  setenv("MECANTENSOR_NUM_THREADS", "256", 1);
  rt = runtime("reference");
  ck_assert_uint_eq(mt_runtime_threads(rt), 256);
  mt_runtime_release(&rt);
}
END_TEST

START_TEST(test_pool_respects_affinity) {
  cpu_set_t all, one;
  int first = 0;
  unsetenv("MECANTENSOR_NUM_THREADS");
  ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
  while (!CPU_ISSET(first, &all)) {
    first++;
  }
  rt = runtime("reference");
  ck_assert_uint_eq(mt_runtime_threads(rt), (unsigned)CPU_COUNT(&all));
  mt_runtime_release(&rt);
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
  rt = runtime("reference");
  ck_assert_uint_eq(mt_runtime_threads(rt), 1);
  mt_runtime_release(&rt);
}
END_TEST

/* The inner job of each task stays on the task's thread. */
static void run_nested(void *arg, uint32_t task) {
  (void)task;
  job *inner = new_job();
  mt_pool_run(10, run_task, inner);
  bool elsewhere = atomic_load(&inner->elsewhere);
  bool all = true;
  for (int i = 0; i < 10; i++) {
    all = all && atomic_load(&inner->ran[i]) == 1;
  }
  free(inner);
  if (elsewhere || !all) {
    atomic_store((atomic_bool *)arg, true);
  }
}

START_TEST(test_pool_nested) {
  atomic_bool wrong;
  atomic_init(&wrong, false);
  setenv("MECANTENSOR_NUM_THREADS", "4", 1);
  rt = runtime("reference");
  mt_pool_run(20, run_nested, &wrong);
  ck_assert(!atomic_load(&wrong));
  mt_runtime_release(&rt);
}
END_TEST

static atomic_bool inside, leave;

static void block(void *arg, uint32_t task) {
  (void)arg;
  (void)task;
  atomic_store(&inside, true);
  while (!atomic_load(&leave)) {
    sched_yield();
  }
}

static void *run_block(void *arg) {
  mt_pool_run(2, block, NULL);
  return arg;
}

/* While another caller has the workers, a job runs on its own thread. */
START_TEST(test_pool_busy) {
  pthread_t other;
  setenv("MECANTENSOR_NUM_THREADS", "4", 1);
  rt = runtime("reference");
  ck_assert_int_eq(pthread_create(&other, NULL, run_block, NULL), 0);
  while (!atomic_load(&inside)) {
    sched_yield();
  }
  job *j = new_job();
  mt_pool_run(100, run_task, j);
  ck_assert(!atomic_load(&j->elsewhere));
  check_job(j, 100);
  atomic_store(&leave, true);
  pthread_join(other, NULL);
  mt_runtime_release(&rt);
}
END_TEST

static void *run_jobs(void *arg) {
  for (int i = 0; i < 200; i++) {
    job *j = new_job();
    mt_pool_run(50, run_task, j);
    for (int n = 0; n < 50; n++) {
      if (atomic_load(&j->ran[n]) != 1) {
        return (void *)"a task ran not once";
      }
    }
    free(j);
  }
  return arg;
}

START_TEST(test_pool_many_callers) {
  pthread_t thread[THREADS];
  setenv("MECANTENSOR_NUM_THREADS", "3", 1);
  rt = runtime("reference");
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_create(&thread[i], NULL, run_jobs, NULL), 0);
  }
  join_all(thread, THREADS);
  mt_runtime_release(&rt);
}
END_TEST

TEST_MAIN(threads, test_one_runtime, test_reference, test_auto, test_auto_opens_a_device,
          test_read_beside_an_op, test_shared_between_runtimes, test_pool_sizes,
          test_pool_is_parallel, test_pool_settings, test_pool_respects_affinity, test_pool_nested,
          test_pool_busy, test_pool_many_callers)
