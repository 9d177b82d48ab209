// SPDX-License-Identifier: Apache-2.0
/*
 * writer.h - what the writers of the types share (internal side of io.h).
 *
 * writer.c checks arguments, turns tensors into packed bytes, sums them and writes them
 * at writer->position. A type says where data goes and writes what is around it. A new
 * type is one mt_writer_type and one line in writer.c.
 */
#ifndef MT_IO_WRITER_H
#define MT_IO_WRITER_H

#include <mecantensor/io.h>

#include "io/atomic_file.h"
#include "io/table.h"

typedef struct mt_writer_type {
  mt_file_type type;
  bool metadata;
  /* Before the first tensor; may be NULL. */
  void (*begin)(mt_writer *writer);
  /* Refuses what the type cannot hold, sets entry->stored, and moves writer->position to
   * where the data goes. name and shape are set; rank, dtype, format, bytes, too. */
  mt_status (*place)(mt_writer *writer, mt_io_entry *entry);
  /* All data is written up to writer->position; sets it to the length of the file. */
  mt_status (*finish)(mt_writer *writer);
} mt_writer_type;

struct mt_writer {
  const mt_writer_type *type;
  mt_atomic_file file;
  mt_io_table table;
  uint64_t position;
  bool failed; /* an earlier write did: the file cannot be finished */
};

extern const mt_writer_type mt_writer_mt, mt_writer_npy, mt_writer_safetensors;

#endif
