// SPDX-License-Identifier: Apache-2.0
/*
 * table.h - the tensors and the metadata of a file, while it is read or written.
 *
 * Names, shapes and texts live in an arena: their addresses stay until the table goes.
 * Entries are in the order of the file; names and keys are unique.
 */
#ifndef MT_IO_TABLE_H
#define MT_IO_TABLE_H

#include <mecantensor/quant.h>
#include <mecantensor/tensor.h>

enum { MT_NAME_BYTES = 1024 };

typedef struct mt_io_entry {
  const char *name;
  const char *stored; /* the type in the file's words: "F32", ">f4", "q8_0" */
  const int64_t *shape;
  const mt_format *format;
  mt_dtype dtype; /* MT_DTYPE_NONE: listed, but cannot be read */
  int rank;
  uint64_t offset, bytes;
  uint64_t checksum; /* .mt */
} mt_io_entry;

typedef struct mt_io_text {
  const char *key, *value;
} mt_io_text;

typedef struct mt_io_slot {
  const char *name;
  size_t index;
} mt_io_slot;

/* name -> index, open addressing; a random seed, since names come from strangers. */
typedef struct mt_io_names {
  mt_io_slot *slots;
  size_t room, used; /* room: 0 or a power of two */
  uint64_t seed;
} mt_io_names;

typedef struct mt_io_table {
  struct mt_io_block *blocks; /* the arena */
  mt_io_entry *entries;
  size_t count, entry_room;
  mt_io_text *texts;
  size_t text_count, text_room;
  mt_io_names names, keys;
} mt_io_table;

void mt_table_free(mt_io_table *table);

/* n bytes that live as long as the table, aligned for int64_t; NULL: out of memory,
 * with the last error set. */
void *mt_table_alloc(mt_io_table *table, size_t n);
/* A copy with a NUL behind it. */
char *mt_table_string(mt_io_table *table, const char *text, size_t n);
/* A copy of rank extents. */
int64_t *mt_table_shape(mt_io_table *table, int rank, const int64_t *shape);

/* entry->name, ->stored and ->shape must live as long as the table. A name or key that is
 * there already gives INVALID_ARGUMENT ("... is there twice"). */
mt_status mt_table_add(mt_io_table *table, const mt_io_entry *entry);
mt_status mt_table_add_text(mt_io_table *table, const char *key, const char *value);

/* The number of the entry, or of the text; false: there is none. */
bool mt_table_find(const mt_io_table *table, const char *name, size_t *index);

/* Valid UTF-8 (RFC 3629: shortest form, no surrogates) without NUL. */
bool mt_is_text(const char *text, size_t n);

/* A name for messages: control characters as '?', cut to fit. Returns buf. */
const char *mt_shown(const char *name, char *buf, size_t size);
enum { MT_SHOWN_BYTES = 96 };

#endif
