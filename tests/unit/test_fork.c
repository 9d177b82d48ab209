// SPDX-License-Identifier: Apache-2.0
/* After fork(): accelerators are out of reach in the child, what is on the host is not, and
 * the parent notices nothing. */
#include "late_harness.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer does not follow threads that a child starts, and the allocator of
 * AddressSanitizer stays locked in the child when another thread was in it at the fork:
 * such tests are passed over there. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_THREADS 0
#endif
#if __has_feature(address_sanitizer)
#define FORK_WHILE_BUSY 0
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CHILD_THREADS 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FORK_WHILE_BUSY 0
#endif
#if !defined(CHILD_THREADS)
#define CHILD_THREADS 1
#endif
#if !defined(FORK_WHILE_BUSY)
#define FORK_WHILE_BUSY 1
#endif

/* Under an emulator (meson sets its name), too: qemu-user cannot start threads in a child. */
static bool child_threads(void) {
  return CHILD_THREADS && !getenv("MESON_EXE_WRAPPER");
}

static mt_runtime *rt;
static late_handle late;
static mt_tensor *x, *y; /* on the host; on the device only */

static void start(const char *backend) {
  rt = runtime(backend);
  late = late_of(rt);
  x = ramp2(4, 4, 1);
  ck_ok(mt_relu(rt, x, &y));
  ck_ok(mt_runtime_sync(rt)); /* the worker waits for more */
}

/* Runs fn in a child; 0: all is well there. A sentence of its own goes to stderr. */
static void in_child(int (*fn)(void)) {
  int status;
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    alarm(60); /* a deadlock is a failure */
    _exit(fn());
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
  ck_assert_int_eq(WEXITSTATUS(status), 0);
}

#define CHILD(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, mt_last_error());        \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

static bool relu_right(const mt_tensor *tensor) {
  const void *data;
  bool right = mt_tensor_read(tensor, &data) == MT_OK;
  for (int i = 0; right && i < 16; i++) {
    float value = ramp_value(i, 1);
    right = ((const float *)data)[i] == (value < 0 ? 0 : value);
  }
  return right;
}

static void finish_parent(void) {
  mt_tensor *z = NULL;
  ck_ok(mt_relu(rt, x, &z));
  ck_assert(relu_right(z));
  ck_assert(relu_right(y));
  DROP(&x, &y, &z);
  mt_runtime_release(&rt);
  check_promises(late);
}

static int accelerator_is_refused(void) {
  mt_tensor *out = NULL;
  const void *data;
  char first[256];
  CHILD(mt_relu(rt, x, &out) == MT_ERR_FORKED);
  CHILD(strstr(mt_last_error(), "late:0") && strstr(mt_last_error(), "fork"));
  CHILD(out == NULL);
  CHILD(mt_tensor_read(y, &data) == MT_ERR_FORKED);
  CHILD(mt_runtime_sync(rt) == MT_ERR_FORKED);
  CHILD(mt_tensor_read(x, &data) == MT_OK); /* the host has it */
  CHILD(((const float *)data)[3] == ramp_value(3, 1));
  void *writable;
  CHILD(mt_tensor_write(x, &writable) == MT_OK);
  DROP(&x, &y);
  mt_runtime_release(&rt);
  CHILD(late.control->violations(first) == 0); /* the plugin was not touched */
  return 0;
}

START_TEST(test_accelerator) {
  start("late");
  in_child(accelerator_is_refused);
  finish_parent();
}
END_TEST

START_TEST(test_with_work_pending) {
  start("late");
  mt_tensor *gone = NULL;
  hold(late, 0);
  ck_ok(mt_relu(rt, x, &gone));
  DROP(&gone);
  in_child(accelerator_is_refused);
  open_gate(late, 0);
  finish_parent();
}
END_TEST

static int falls_back(void) {
  mt_tensor *out = NULL;
  CHILD(mt_relu(rt, x, &out) == MT_OK);
  CHILD(strcmp(mt_tensor_location(out), "host") == 0);
  CHILD(relu_right(out));
  CHILD(mt_relu(rt, y, &out) == MT_ERR_FORKED); /* it is in the parent's device only */
  DROP(&out, &x, &y);
  mt_runtime_release(&rt);
  return 0;
}

START_TEST(test_fallback) {
  start("late,reference");
  in_child(falls_back);
  finish_parent();
}
END_TEST

/* A runtime made in the child has the accelerator. */
static int new_runtime_works(void) {
  mt_runtime *mine = NULL;
  mt_tensor *out = NULL;
  char first[256];
  CHILD(create_runtime("late", &mine) == MT_OK);
  CHILD(mt_relu(mine, x, &out) == MT_OK); /* x leaves the parent's device */
  CHILD(relu_right(out));
  DROP(&out, &x, &y);
  mt_runtime_release(&mine);
  mt_runtime_release(&rt);
  CHILD(late.control->violations(first) == 0);
  return 0;
}

START_TEST(test_new_runtime) {
  start("late");
  if (child_threads()) {
    in_child(new_runtime_works);
  }
  finish_parent();
}
END_TEST

static int reference_works(void) {
  mt_runtime *mine = NULL;
  mt_tensor *out = NULL;
  CHILD(create_runtime("reference", &mine) == MT_OK);
  CHILD(mt_relu(mine, x, &out) == MT_OK && relu_right(out));
  mt_runtime_release(&mine);
  DROP(&out);
  return 0;
}

START_TEST(test_reference) {
  start("late");
  in_child(reference_works);
  finish_parent();
}
END_TEST

/* ---- the pool -----------------------------------------------------------------------------------
 */

static void count_task(void *arg, uint32_t task) {
  (void)task;
  atomic_fetch_add((atomic_uint *)arg, 1);
}

enum { POOL = 3 };

/* Returns only when every thread of the pool has come. */
static void meet(void *arg, uint32_t task) {
  (void)task;
  atomic_fetch_add((atomic_uint *)arg, 1);
  while (atomic_load((atomic_uint *)arg) < POOL) {
    sched_yield();
  }
}

static int pool_works(void) {
  atomic_uint tasks, met;
  atomic_init(&met, 0);
  mt_pool_run(POOL, meet, &met); /* it has workers of its own */
  atomic_init(&tasks, 0);
  for (int i = 0; i < 20; i++) {
    mt_pool_run(10, count_task, &tasks);
  }
  CHILD(atomic_load(&tasks) == 200);
  mt_runtime_release(&rt);
  return 0;
}

START_TEST(test_pool) {
  atomic_uint tasks, met;
  atomic_init(&tasks, 0);
  atomic_init(&met, 0);
  setenv("MECANTENSOR_NUM_THREADS", "3", 1);
  rt = runtime("reference");
  mt_pool_run(POOL, meet, &met); /* these workers do not come along */
  mt_pool_run(100, count_task, &tasks);
  if (child_threads()) {
    in_child(pool_works);
  }
  mt_pool_run(100, count_task, &tasks);
  ck_assert_uint_eq(atomic_load(&tasks), 200);
  mt_runtime_release(&rt);
}
END_TEST

static atomic_bool stop;

static void *keep_pool_busy(void *arg) {
  while (!atomic_load(&stop)) {
    mt_pool_run(10, count_task, arg);
  }
  return NULL;
}

/* Forked while another thread is in the middle of a job and holds its locks. */
START_TEST(test_pool_busy_at_fork) {
  pthread_t other;
  atomic_uint tasks;
  atomic_init(&tasks, 0);
  setenv("MECANTENSOR_NUM_THREADS", "3", 1);
  rt = runtime("reference");
  ck_assert_int_eq(pthread_create(&other, NULL, keep_pool_busy, &tasks), 0);
  for (int i = 0; child_threads() && FORK_WHILE_BUSY && i < 20; i++) {
    in_child(pool_works);
  }
  atomic_store(&stop, true);
  pthread_join(other, NULL);
  mt_runtime_release(&rt);
}
END_TEST

TEST_MAIN(fork, test_accelerator, test_with_work_pending, test_fallback, test_reference,
          test_new_runtime, test_pool, test_pool_busy_at_fork)
