// SPDX-License-Identifier: Apache-2.0
/* Leaves a process behind that keeps everything open for a while. */
#include "mock.h"

#include <unistd.h>

MOCK("fork-in-query") {
  if (table->execute && fork() == 0) {
    sleep(5);
    _exit(0);
  }
}
