// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

#include <unistd.h>

MOCK("exit-in-query") {
  _exit(table->execute ? 3 : 0);
}
