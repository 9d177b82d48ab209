// SPDX-License-Identifier: Apache-2.0
/* The library it needs is not where it is looked for. */
#include "mock.h"

int32_t mock_dependency(void);

MOCK("missing-dependency") {
  table->abi_minor += (uint32_t)mock_dependency();
}
