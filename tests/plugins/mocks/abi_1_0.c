// SPDX-License-Identifier: Apache-2.0
/* Built from the header as it was at ABI 1.0, which never changes. */
#include "../../abi/plugin_v1_0.h"

#include "mock.h"

MOCK("abi-1-0") {
  (void)table;
}
