// SPDX-License-Identifier: Apache-2.0
/*
 * archive.h - what the readers fill in (internal side of io.h).
 *
 * A reader checks everything but the tensors' bytes when it opens the file: after that
 * each entry's offset and bytes lie in the file, and the bytes are exactly what dtype
 * and shape say. A new type is one reader here, one line in io.c's list of types.
 */
#ifndef MT_IO_ARCHIVE_H
#define MT_IO_ARCHIVE_H

#include <mecantensor/io.h>

#include "io/source.h"
#include "io/table.h"
#include "tensor_impl.h"

struct mt_archive {
  mt_source source;
  mt_io_table table;
  mt_file_type type;
  char version[32];
  bool swap;      /* elements are in the other byte order */
  bool fortran;   /* the first axis is the fastest */
  bool checksums; /* of each entry */
  /* .mt: the bytes between tensors, and up to data_end, must be zero; 0: no such rule */
  uint64_t data_start, data_end;
};

mt_status mt_read_mt(mt_archive *archive);
mt_status mt_read_npy(mt_archive *archive);
mt_status mt_read_safetensors(mt_archive *archive);

/* Opens a file that lies in memory; data must outlive the archive. type UNKNOWN: told by
 * content. */
mt_status mt_archive_open_memory(const void *data, size_t size, mt_file_type type,
                                 mt_archive **out);

/* Layout of the entry's bytes as they lie in the file (row-major); CORRUPT names field. */
mt_status mt_entry_layout(const mt_archive *archive, const mt_io_entry *entry, const char *field,
                          uint64_t at, mt_layout *out);

/* CORRUPT when bytes is not what the layout needs. */
mt_status mt_entry_size(const mt_archive *archive, const mt_io_entry *entry, const char *field,
                        uint64_t at);

#endif
