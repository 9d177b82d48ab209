// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("missing-entry") {
  table->execute = NULL;
}
