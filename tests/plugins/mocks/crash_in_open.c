// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

#include <signal.h>

__attribute__((constructor)) static void start_driver(void) {
  raise(SIGKILL);
}

MOCK("crash-in-open") {
  (void)table;
}
