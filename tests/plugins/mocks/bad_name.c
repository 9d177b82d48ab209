// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("Bad_Name") {
  (void)table;
}
