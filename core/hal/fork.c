// SPDX-License-Identifier: Apache-2.0
/* How many forks lie between this process and the first one: a device that was opened at
 * another count belongs to an ancestor. */
#include "hal.h"

static atomic_uint generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void) {
  atomic_fetch_add(&generation, 1);
}

static void watch(void) {
  pthread_atfork(NULL, NULL, in_child);
}

unsigned mt_fork_generation(void) {
  pthread_once(&once, watch);
  return atomic_load(&generation);
}
