// SPDX-License-Identifier: Apache-2.0
/*
 * source.h - the bytes of an untrusted file: a descriptor, or memory (fuzzing).
 *
 * Reads copy into the caller's memory (pread): a file that shrinks under us is an
 * error, not a SIGBUS, and several threads may read at once.
 */
#ifndef MT_IO_SOURCE_H
#define MT_IO_SOURCE_H

#include <mecantensor/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mt_source {
  char *path; /* for messages */
  int fd;     /* -1: memory */
  const unsigned char *memory;
  uint64_t size;
} mt_source;

mt_status mt_source_open(const char *path, mt_source *out);
/* data must outlive the source. */
mt_status mt_source_from_memory(const void *data, size_t size, mt_source *out);
void mt_source_close(mt_source *source);

/* All of offset .. offset + bytes or an error; `field` names what is read. */
mt_status mt_source_read(const mt_source *source, const char *field, uint64_t offset, void *dst,
                         size_t bytes);

/* MT_ERR_CORRUPT: "path: field 'dir_offset' at byte 40: ..." */
MT_PRINTF(4, 5)
mt_status mt_source_corrupt(const mt_source *source, const char *field, uint64_t at,
                            const char *format, ...);
/* The same as MT_ERR_UNSUPPORTED. */
MT_PRINTF(4, 5)
mt_status mt_source_unsupported(const mt_source *source, const char *field, uint64_t at,
                                const char *format, ...);

#endif
