// SPDX-License-Identifier: Apache-2.0
/* What missing_dependency.c needs. */
#include <stdint.h>

int32_t mock_dependency(void);

int32_t mock_dependency(void) {
  return 0;
}
