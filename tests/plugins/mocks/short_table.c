// SPDX-License-Identifier: Apache-2.0
/* As built before anything after execute was in the header: the host sees zeros there, even
 * where this one left something. */
#include "mock.h"

MT_PLUGIN_NOTE("short-table", 10, 0);

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  mt_plugin_v1 table = mock_table("short-table");
  (void)host;
  table.struct_size = offsetof(mt_plugin_v1, prepare);
  mock_answer(table, out);
  memset((char *)out + table.struct_size, 0x5a, sizeof(*out) - table.struct_size);
  return MT_ABI_OK;
}
