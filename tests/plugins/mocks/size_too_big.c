// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

MT_PLUGIN_NOTE("size-too-big", 10, 0);

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  mock_answer(mock_table("size-too-big"), out);
  out->struct_size = 4096;
  return MT_ABI_OK;
}
