// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

#include <unistd.h>

MOCK("hang-in-query") {
  while (table->execute) {
    pause();
  }
}
