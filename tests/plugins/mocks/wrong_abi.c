// SPDX-License-Identifier: Apache-2.0
#include <mecantensor/plugin.h>

__attribute__((used, section(".note.mecantensor"),
               aligned(8))) static const mt_plugin_elf_note_v1 note = {
    sizeof(MT_PLUGIN_NOTE_OWNER),
    sizeof(mt_plugin_note_v1),
    MT_PLUGIN_NOTE_TYPE_V1,
    MT_PLUGIN_NOTE_OWNER,
    {sizeof(mt_plugin_note_v1), 2, 7, 10, 0, "wrong-abi"},
};

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  (void)host;
  (void)out;
  return MT_ABI_ERR_UNSUPPORTED;
}
