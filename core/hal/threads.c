// SPDX-License-Identifier: Apache-2.0
/*
 * The process's thread pool. One parallel_for at a time has the workers; others that
 * come meanwhile, and nested ones, run on their own thread: never more threads at
 * work than the machine has. Workers spin for a moment after a job (the next one is
 * usually near), then sleep. Started by the first job, stopped with the last runtime; a
 * forked child starts its own.
 */
#include "../error.h"
#include "hal.h"

#include <sched.h>
#include <stdlib.h>

enum { MAX_THREADS = 256, SPINS = 4000 };

static struct {
  pthread_mutex_t setup; /* users, start, stop */
  unsigned users;
  uint32_t threads; /* the caller counted; 0 until known */
  uint32_t workers; /* running */
  pthread_t ids[MAX_THREADS];

  pthread_mutex_t busy; /* held by the caller whose job the workers have */
  pthread_mutex_t lock; /* the job's state below */
  pthread_cond_t wake, done;
  atomic_uint_fast64_t sequence; /* of jobs */
  bool open, quit;               /* open: workers may join the job */
  atomic_uint inside;            /* workers that have joined; changed under lock */
  void (*fn)(void *, uint32_t);
  void *arg;
  uint32_t tasks;
  atomic_uint next;
} pool = {
    .setup = PTHREAD_MUTEX_INITIALIZER,
    .busy = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
};

static _Thread_local bool in_job;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* ---- how many ----------------------------------------------------------------------- */

static uint32_t count_cpus(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (uint32_t)count;
}

static mt_status read_thread_count(uint32_t *threads) {
  const char *text = mt_env("MECANTENSOR_NUM_THREADS");
  if (!text) {
    *threads = count_cpus();
    return MT_OK;
  }
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || text[0] < '0' || text[0] > '9' || value < 1 || value > MAX_THREADS) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "MECANTENSOR_NUM_THREADS '%s': expected 1 .. %d", text,
                   MAX_THREADS);
  }
  *threads = (uint32_t)value;
  return MT_OK;
}

/* ---- workers ------------------------------------------------------------------------ */

static void take_tasks(void (*fn)(void *, uint32_t), void *arg, uint32_t tasks) {
  in_job = true;
  for (;;) {
    uint32_t task = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
    if (task >= tasks) {
      break;
    }
    fn(arg, task);
  }
  in_job = false;
}

/* Blocks until there is a job newer than seen, or the end. Returns with lock held. */
static void await_job(uint64_t seen) {
  for (int i = 0; i < SPINS && atomic_load_explicit(&pool.sequence, memory_order_relaxed) == seen;
       i++) {
    relax();
  }
  pthread_mutex_lock(&pool.lock);
  while (atomic_load_explicit(&pool.sequence, memory_order_relaxed) == seen && !pool.quit) {
    pthread_cond_wait(&pool.wake, &pool.lock);
  }
}

static void *worker(void *unused) {
  uint64_t seen = 0;
  (void)unused;
  for (;;) {
    await_job(seen);
    if (pool.quit) {
      pthread_mutex_unlock(&pool.lock);
      return NULL;
    }
    seen = atomic_load_explicit(&pool.sequence, memory_order_relaxed);
    if (pool.open) {
      atomic_fetch_add_explicit(&pool.inside, 1, memory_order_relaxed);
      pthread_mutex_unlock(&pool.lock);
      take_tasks(pool.fn, pool.arg, pool.tasks);
      pthread_mutex_lock(&pool.lock);
      if (atomic_fetch_sub_explicit(&pool.inside, 1, memory_order_relaxed) == 1) {
        pthread_cond_signal(&pool.done);
      }
    }
    pthread_mutex_unlock(&pool.lock);
  }
}

/* busy is held. A worker that cannot be started is done without. */
static void start_workers(void) {
  pool.quit = false;
  while (pool.workers + 1 < pool.threads &&
         pthread_create(&pool.ids[pool.workers], NULL, worker, NULL) == 0) {
    pool.workers++;
  }
}

/* busy is held. */
static void stop_workers(void) {
  pthread_mutex_lock(&pool.lock);
  pool.quit = true;
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  for (uint32_t i = 0; i < pool.workers; i++) {
    pthread_join(pool.ids[i], NULL);
  }
  pool.workers = 0;
}

/* ---- fork --------------------------------------------------------------------------- */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* In the child only the forking thread is left: no workers, and locks that others held
 * stay so for ever. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&pool.setup, NULL);
  pthread_mutex_init(&pool.busy, NULL);
  pthread_mutex_init(&pool.lock, NULL);
  pthread_cond_init(&pool.wake, NULL);
  pthread_cond_init(&pool.done, NULL);
  pool.workers = 0;
  atomic_store_explicit(&pool.inside, 0, memory_order_relaxed);
  pool.open = false;
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- used by the runtime and the host table
 * ------------------------------------------------------ */

mt_status mt_pool_acquire(void) {
  pthread_once(&fork_once, watch_forks);
  pthread_mutex_lock(&pool.setup);
  mt_status status = pool.users == 0 ? read_thread_count(&pool.threads) : MT_OK;
  if (status == MT_OK) {
    pool.users++;
  }
  pthread_mutex_unlock(&pool.setup);
  return status;
}

void mt_pool_release(void) {
  pthread_mutex_lock(&pool.setup);
  if (--pool.users == 0) {
    pthread_mutex_lock(&pool.busy);
    stop_workers();
    pthread_mutex_unlock(&pool.busy);
  }
  pthread_mutex_unlock(&pool.setup);
}

uint32_t mt_pool_threads(void) {
  return pool.threads ? pool.threads : 1;
}

static void run_alone(uint32_t tasks, void (*fn)(void *, uint32_t), void *arg) {
  for (uint32_t task = 0; task < tasks; task++) {
    fn(arg, task);
  }
}

void mt_pool_run(uint32_t tasks, void (*fn)(void *arg, uint32_t task), void *arg) {
  if (tasks <= 1 || pool.threads <= 1 || in_job || pthread_mutex_trylock(&pool.busy) != 0) {
    run_alone(tasks, fn, arg);
    return;
  }
  if (pool.workers + 1 < pool.threads) {
    start_workers();
  }
  pthread_mutex_lock(&pool.lock);
  pool.fn = fn;
  pool.arg = arg;
  pool.tasks = tasks;
  atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
  pool.open = true;
  atomic_fetch_add_explicit(&pool.sequence, 1, memory_order_relaxed);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);

  take_tasks(fn, arg, tasks);

  /* Workers are about to end, too: sleeping would take longer than that. */
  for (int i = 0; i < SPINS && atomic_load_explicit(&pool.inside, memory_order_relaxed) > 0; i++) {
    relax();
  }
  pthread_mutex_lock(&pool.lock);
  pool.open = false; /* who has not joined by now has nothing left to do */
  while (atomic_load_explicit(&pool.inside, memory_order_relaxed) > 0) {
    pthread_cond_wait(&pool.done, &pool.lock);
  }
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&pool.busy);
}
