// SPDX-License-Identifier: Apache-2.0
/* text.h - text for people: escapes, units, shapes, tables. */
#ifndef MT_TOOLS_TEXT_H
#define MT_TOOLS_TEXT_H

#include <mecantensor/status.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A copy in printable ASCII: other bytes become \xNN, a backslash becomes two. A file
 * cannot send escape sequences to the terminal through it. Allocated. */
char *escape_text(const char *text);
void put_escaped(FILE *out, const char *text);

/* "1.50 MiB" into buf (at least 16 bytes); returns buf. */
char *bytes_text(uint64_t bytes, char *buf, size_t size);

/* "[512, 1024]" into buf; MT_MAX_RANK extents fit in SHAPE_TEXT. Returns buf. */
enum { SHAPE_TEXT = 16 * 22 + 3, BYTES_TEXT = 32 };
char *shape_text(int rank, const int64_t *shape, char *buf, size_t size);

/* The word of a NULL-terminated list that a typing mistake may have meant, or NULL. */
const char *nearest_word(const char *word, const char *const *list);

/* ---- tables ---------------------------------------------------------------------------- */
/* Columns as wide as their widest cell. align: one letter a column, 'l' or 'r'. */
typedef struct text_table {
  const char *align;
  char **cells;
  size_t count, room;
} text_table;

/* Appends a cell, escaped; rows fill from the left. */
MT_PRINTF(2, 3) void table_cell(text_table *table, const char *format, ...);
/* Prints indented by `indent` and empties the table. */
void table_print(text_table *table, int indent);
void table_clear(text_table *table);

#endif
