// SPDX-License-Identifier: Apache-2.0
/* Needs what no CPU has; its constructor would be seen. */
#include "mock.h"

#include <stdlib.h>

MT_PLUGIN_NOTE("needs-cpu", 10, UINT64_C(1) << 63);

__attribute__((constructor)) static void too_early(void) {
  abort();
}

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  return mock_answer(mock_table("needs-cpu"), out);
}
