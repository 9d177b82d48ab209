// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("size-too-small") {
  table->struct_size = 64;
}
