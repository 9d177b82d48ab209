// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include "common.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Cells wider than this do not widen their column: one long name must not push all rows
 * off the screen. */
enum { MAX_COLUMN = 56, MAX_COLUMNS = 16, MAX_WORD = 64 };

char *escape_text(const char *text) {
  char *copy = need_memory(malloc(strlen(text) * 4 + 1));
  char *at = copy;
  for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
    if (*p == '\\') {
      *at++ = '\\';
      *at++ = '\\';
    } else if (*p >= 0x20 && *p < 0x7f) {
      *at++ = (char)*p;
    } else {
      at += sprintf(at, "\\x%02x", *p);
    }
  }
  *at = 0;
  return copy;
}

void put_escaped(FILE *out, const char *text) {
  char *copy = escape_text(text);
  fputs(copy, out);
  free(copy);
}

char *bytes_text(uint64_t bytes, char *buf, size_t size) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(buf, size, "%" PRIu64 " B", bytes);
    return buf;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    value /= 1024;
    unit++;
  }
  snprintf(buf, size, value < 100 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  return buf;
}

char *shape_text(int rank, const int64_t *shape, char *buf, size_t size) {
  size_t at = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < rank && at < size; i++) {
    at += (size_t)snprintf(buf + at, size - at, i == 0 ? "%" PRId64 : ", %" PRId64, shape[i]);
  }
  if (at < size) {
    snprintf(buf + at, size - at, "]");
  }
  return buf;
}

/* Changes of one letter that make b of a (Levenshtein); words are short. */
static size_t word_distance(const char *a, const char *b) {
  size_t row[MAX_WORD + 1];
  size_t length = strlen(b);
  if (length > MAX_WORD || strlen(a) > MAX_WORD) {
    return SIZE_MAX;
  }
  for (size_t j = 0; j <= length; j++) {
    row[j] = j;
  }
  for (size_t i = 1; a[i - 1] != 0; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= length; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      best = row[j] + 1 < best ? row[j] + 1 : best;
      row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
    }
  }
  return row[length];
}

const char *nearest_word(const char *word, const char *const *list) {
  const char *best = NULL;
  size_t best_distance = strlen(word) / 3 + 2;
  for (; *list != NULL; list++) {
    size_t distance = word_distance(word, *list);
    if (distance < best_distance) {
      best_distance = distance;
      best = *list;
    }
  }
  return best;
}

void table_cell(text_table *table, const char *format, ...) {
  if (table->count == table->room) {
    table->room = table->room == 0 ? 64 : table->room * 2;
    table->cells = need_memory(realloc(table->cells, table->room * sizeof(char *)));
  }
  va_list args;
  va_start(args, format);
  char *text = NULL;
  int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0) {
    die_memory();
  }
  table->cells[table->count++] = escape_text(text);
  free(text);
}

void table_print(text_table *table, int indent) {
  size_t columns = strlen(table->align);
  int width[MAX_COLUMNS] = {0};
  for (size_t i = 0; i < table->count; i++) {
    size_t length = strlen(table->cells[i]);
    if (length <= MAX_COLUMN && (int)length > width[i % columns]) {
      width[i % columns] = (int)length;
    }
  }
  for (size_t i = 0; i < table->count; i++) {
    size_t column = i % columns;
    bool right = table->align[column] == 'r';
    bool last = column + 1 == columns;
    if (column == 0) {
      printf("%*s", indent, "");
    }
    int pad = last && !right ? 0 : width[column];
    printf(right ? "%*s%s" : "%-*s%s", pad, table->cells[i], last ? "\n" : "  ");
  }
  table_clear(table);
}

void table_clear(text_table *table) {
  for (size_t i = 0; i < table->count; i++) {
    free(table->cells[i]);
  }
  free(table->cells);
  table->cells = NULL;
  table->count = table->room = 0;
}
