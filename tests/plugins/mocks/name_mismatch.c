// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("name-mismatch") {
  table->name = "another-name";
}
