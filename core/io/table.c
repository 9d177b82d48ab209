// SPDX-License-Identifier: Apache-2.0
#include "io/table.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct mt_io_block {
  struct mt_io_block *next;
  size_t used, room;
  max_align_t data[];
};

void mt_table_free(mt_io_table *table) {
  for (struct mt_io_block *block = table->blocks; block;) {
    struct mt_io_block *next = block->next;
    free(block);
    block = next;
  }
  free(table->entries);
  free(table->texts);
  free(table->names.slots);
  free(table->keys.slots);
  memset(table, 0, sizeof(*table));
}

static struct mt_io_block *add_block(mt_io_table *table, size_t n) {
  size_t room = table->blocks ? table->blocks->room * 2 : FIRST_BLOCK;
  room = room > LARGEST_BLOCK ? LARGEST_BLOCK : room;
  room = room < n ? n : room;
  struct mt_io_block *block =
      room > SIZE_MAX - sizeof(*block) ? NULL : malloc(sizeof(*block) + room);
  if (!block) {
    mt_fail_memory(room, "the directory of a file");
    return NULL;
  }
  block->next = table->blocks;
  block->used = 0;
  block->room = room;
  table->blocks = block;
  return block;
}

void *mt_table_alloc(mt_io_table *table, size_t n) {
  struct mt_io_block *block = table->blocks;
  size_t start = block ? (block->used + 7) / 8 * 8 : 0;
  if (!block || start > block->room || n > block->room - start) {
    block = add_block(table, n);
    start = 0;
  }
  if (!block) {
    return NULL;
  }
  block->used = start + n;
  return (char *)block->data + start;
}

char *mt_table_string(mt_io_table *table, const char *text, size_t n) {
  char *copy = mt_table_alloc(table, n + 1);
  if (copy) {
    memcpy(copy, text, n);
    copy[n] = 0;
  }
  return copy;
}

int64_t *mt_table_shape(mt_io_table *table, int rank, const int64_t *shape) {
  int64_t *copy = mt_table_alloc(table, (size_t)rank * sizeof(*copy));
  if (copy && rank > 0) {
    memcpy(copy, shape, (size_t)rank * sizeof(*copy));
  }
  return copy;
}

/* ---- names ----------------------------------------------------------------------------- */

/* The slot of name, or the free one where it goes. */
static mt_io_slot *slot_of(const mt_io_names *names, const char *name) {
  size_t at = (size_t)XXH3_64bits_withSeed(name, strlen(name), names->seed);
  for (;; at++) {
    mt_io_slot *slot = &names->slots[at & (names->room - 1)];
    if (!slot->name || strcmp(slot->name, name) == 0) {
      return slot;
    }
  }
}

/* At most half full. */
static mt_status names_grow(mt_io_names *names) {
  mt_io_names grown = {.room = names->room ? names->room * 2 : 16, .seed = names->seed};
  grown.slots = calloc(grown.room, sizeof(*grown.slots));
  if (!grown.slots) {
    return mt_fail_memory(grown.room * sizeof(*grown.slots), "the names in a file");
  }
  if (names->room == 0 &&
      getrandom(&grown.seed, sizeof(grown.seed), GRND_NONBLOCK) != (ssize_t)sizeof(grown.seed)) {
    grown.seed = (uintptr_t)names; /* early in boot; addresses are random too */
  }
  for (size_t i = 0; i < names->room; i++) {
    if (names->slots[i].name) {
      *slot_of(&grown, names->slots[i].name) = names->slots[i];
    }
  }
  grown.used = names->used;
  free(names->slots);
  *names = grown;
  return MT_OK;
}

static mt_status names_add(mt_io_names *names, const char *what, const char *name, size_t index) {
  if ((names->used + 1) * 2 > names->room) {
    MT_TRY(names_grow(names));
  }
  mt_io_slot *slot = slot_of(names, name);
  if (slot->name) {
    char shown[MT_SHOWN_BYTES];
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s '%s' is there twice", what,
                   mt_shown(name, shown, sizeof(shown)));
  }
  slot->name = name;
  slot->index = index;
  names->used++;
  return MT_OK;
}

bool mt_table_find(const mt_io_table *table, const char *name, size_t *index) {
  if (table->names.room == 0) {
    return false;
  }
  const mt_io_slot *slot = slot_of(&table->names, name);
  if (slot->name) {
    *index = slot->index;
  }
  return slot->name != NULL;
}

/* ---- lists ----------------------------------------------------------------------------- */

/* Room for one more; the list doubles. */
static mt_status grow(void **list, size_t count, size_t *room, size_t size) {
  if (count < *room) {
    return MT_OK;
  }
  size_t wanted = *room ? *room * 2 : 8;
  void *grown = wanted > SIZE_MAX / size ? NULL : realloc(*list, wanted * size);
  if (!grown) {
    return mt_fail_memory(wanted * (unsigned long long)size, "the directory of a file");
  }
  *list = grown;
  *room = wanted;
  return MT_OK;
}

mt_status mt_table_add(mt_io_table *table, const mt_io_entry *entry) {
  void *list = table->entries;
  mt_status status = grow(&list, table->count, &table->entry_room, sizeof(*entry));
  table->entries = list;
  MT_TRY(status);
  MT_TRY(names_add(&table->names, "tensor", entry->name, table->count));
  table->entries[table->count++] = *entry;
  return MT_OK;
}

mt_status mt_table_add_text(mt_io_table *table, const char *key, const char *value) {
  void *list = table->texts;
  mt_status status = grow(&list, table->text_count, &table->text_room, sizeof(*table->texts));
  table->texts = list;
  MT_TRY(status);
  MT_TRY(names_add(&table->keys, "metadata key", key, table->text_count));
  table->texts[table->text_count++] = (mt_io_text){key, value};
  return MT_OK;
}

/* ---- text ------------------------------------------------------------------------------ */

/* Length of the UTF-8 sequence at s (n > 0 bytes left); 0: there is none. */
static size_t utf8_length(const unsigned char *s, size_t n) {
  static const struct {
    unsigned char first, last, low, high; /* low .. high: of the second byte */
    size_t length;
  } rows[] = {
      {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  size_t row = 0, rows_count = sizeof(rows) / sizeof(rows[0]);
  while (row < rows_count && (s[0] < rows[row].first || s[0] > rows[row].last)) {
    row++;
  }
  if (row == rows_count || rows[row].length > n) {
    return 0;
  }
  for (size_t i = 1; i < rows[row].length; i++) {
    unsigned char low = i == 1 ? rows[row].low : 0x80, high = i == 1 ? rows[row].high : 0xbf;
    if (s[i] < low || s[i] > high) {
      return 0;
    }
  }
  return rows[row].length;
}

bool mt_is_text(const char *text, size_t n) {
  for (size_t at = 0; at < n;) {
    size_t length = utf8_length((const unsigned char *)text + at, n - at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

const char *mt_shown(const char *name, char *buf, size_t size) {
  size_t at = 0, left = strlen(name);
  while (left > 0) {
    const unsigned char *s = (const unsigned char *)name;
    size_t length = utf8_length(s, left);
    bool plain =
        length > 1 ? !(s[0] == 0xc2 && s[1] < 0xa0) : length == 1 && s[0] >= ' ' && s[0] != 0x7f;
    length = length == 0 ? 1 : length;
    if (at + length + sizeof("...") > size) {
      memcpy(buf + at, "...", 3);
      at += 3;
      break;
    }
    if (plain) {
      memcpy(buf + at, name, length);
      at += length;
    } else {
      buf[at++] = '?';
    }
    name += length;
    left -= length;
  }
  buf[at] = 0;
  return buf;
}
