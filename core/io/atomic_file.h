// SPDX-License-Identifier: Apache-2.0
/*
 * atomic_file.h - a file that appears whole or not at all.
 *
 * Bytes go to ".NAME.XXXXXXXX.tmp" in the folder of the target; commit syncs them,
 * renames over the target and syncs the folder. Until then, and after any failure, the
 * target is what it was, and the temporary file is removed. Permissions: those of the
 * target when it exists (the owner is the writer), else 0666 less the umask. When the
 * target is a symbolic link, the file that it points to is replaced; other hard links
 * to it keep the old content. Targets that are no regular files, or that the caller may
 * not write to, are refused.
 */
#ifndef MT_IO_ATOMIC_FILE_H
#define MT_IO_ATOMIC_FILE_H

#include <mecantensor/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mt_atomic_file {
  char *path; /* as given, for messages */
  char *base; /* name of the target in the folder */
  char *temp; /* name of the temporary file; NULL: there is none */
  int folder, fd;
  bool exists; /* the target did, when it was opened */
  mode_t mode; /* of it */
} mt_atomic_file;

mt_status mt_atomic_open(const char *path, mt_atomic_file *out);
mt_status mt_atomic_write(mt_atomic_file *file, uint64_t offset, const void *data, size_t bytes);
/* Moves the first bytes of the file up by distance: makes room at the start. */
mt_status mt_atomic_shift(mt_atomic_file *file, uint64_t bytes, uint64_t distance);
/* The file has `bytes` bytes. Frees everything, also on failure. */
mt_status mt_atomic_commit(mt_atomic_file *file, uint64_t bytes);
void mt_atomic_abort(mt_atomic_file *file);

#endif
