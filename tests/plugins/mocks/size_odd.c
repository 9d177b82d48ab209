// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MOCK("size-odd") {
  table->struct_size = offsetof(mt_plugin_v1, prepare) + 4;
}
