// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

int32_t defined_nowhere_at_all(void);

MOCK("undefined-symbol") {
  table->abi_minor += (uint32_t)defined_nowhere_at_all();
}
