// SPDX-License-Identifier: Apache-2.0
/* Takes no notice of the room it is given, and says that it did. */
#include "mock.h"

MT_PLUGIN_NOTE("writes-past", 10, 0);

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  struct {
    mt_plugin_v1 known;
    void *more[4];
  } later = {mock_table("writes-past"), {0}};
  void *to = out;
  (void)host;
  __asm__("" : "+r"(to)); /* so that the compiler does not see through it */
  memcpy(to, &later, sizeof(later));
  return MT_ABI_OK;
}
