// SPDX-License-Identifier: Apache-2.0
/* elf_note.h - what a plugin's file says before it is opened. */
#ifndef MT_CORE_ELF_NOTE_H
#define MT_CORE_ELF_NOTE_H

#include <mecantensor/plugin.h>
#include <mecantensor/status.h>

/*
 * Checks that fd is a shared object for this machine that is all there, and reads its
 * note. Trusts nothing, allocates nothing, reads a few kilobytes. On failure the last
 * error names the field and its offset: CORRUPT for what is no sound ELF file,
 * UNSUPPORTED for what is sound but not for us, IO.
 */
mt_status mt_elf_inspect(int fd, mt_plugin_note_v1 *note);

#endif
