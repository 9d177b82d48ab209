// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("null-string") {
  table->vendor = NULL;
}
