// SPDX-License-Identifier: Apache-2.0
/* Another file of the name "good". */
#include "mock.h"

MOCK("good") {
  table->version = "4.5.6";
}
