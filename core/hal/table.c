// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include "../error.h"

#include <stdbool.h>
#include <string.h>

enum { CANARY_BYTES = 1024, CANARY = 0xa5, TEXT_MAX = 255 };

/* An older minor may end anywhere after the last required entry. */
#define REQUIRED_BYTES offsetof(mt_plugin_v1, prepare)

typedef struct table_entry {
  const char *name;
  size_t offset;
} table_entry;

#define ENTRY(member)                                                                              \
  { #member, offsetof(mt_plugin_v1, member) }

static const table_entry required[] = {
    ENTRY(init),        ENTRY(shutdown),     ENTRY(device_count), ENTRY(device_info),
    ENTRY(device_open), ENTRY(device_close), ENTRY(queue_create), ENTRY(queue_destroy),
    ENTRY(queue_query), ENTRY(queue_wait),   ENTRY(op_support),   ENTRY(execute),
};
/* All of a group or none. */
static const table_entry plan_group[] = {ENTRY(prepare), ENTRY(plan_free)};
static const table_entry buffer_group[] = {ENTRY(buffer_alloc), ENTRY(buffer_free), ENTRY(upload),
                                           ENTRY(download)};
static const table_entry map_group[] = {ENTRY(buffer_map), ENTRY(buffer_unmap)};
/* Make no sense without buffers. */
static const table_entry on_buffers[] = {ENTRY(copy), ENTRY(fill), ENTRY(buffer_import),
                                         ENTRY(buffer_map)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool has(const mt_plugin_v1 *table, const table_entry *entry) {
  void (*function)(void);
  memcpy(&function, (const char *)table + entry->offset, sizeof(function));
  return function != NULL;
}

static mt_status check_group(const mt_plugin_v1 *table, const table_entry *group, size_t count) {
  const table_entry *present = NULL, *missing = NULL;
  for (size_t i = 0; i < count; i++) {
    if (has(table, &group[i])) {
      present = present ? present : &group[i];
    } else {
      missing = missing ? missing : &group[i];
    }
  }
  if (present && missing) {
    return mt_fail(MT_ERR_BACKEND, "the table has %s but not %s, which belongs to it",
                   present->name, missing->name);
  }
  return MT_OK;
}

static mt_status check_entries(const mt_plugin_v1 *table) {
  for (size_t i = 0; i < COUNT(required); i++) {
    if (!has(table, &required[i])) {
      return mt_fail(MT_ERR_BACKEND, "the table has no %s, which every plugin needs",
                     required[i].name);
    }
  }
  MT_TRY(check_group(table, plan_group, COUNT(plan_group)));
  MT_TRY(check_group(table, buffer_group, COUNT(buffer_group)));
  MT_TRY(check_group(table, map_group, COUNT(map_group)));
  for (size_t i = 0; i < COUNT(on_buffers); i++) {
    if (has(table, &on_buffers[i]) && !table->buffer_alloc) {
      return mt_fail(MT_ERR_BACKEND, "the table has %s but not buffer_alloc, which belongs to it",
                     on_buffers[i].name);
    }
  }
  return MT_OK;
}

static mt_status check_text(const char *what, const char *text) {
  if (!text) {
    return mt_fail(MT_ERR_BACKEND, "%s in the table is NULL: expected a string", what);
  }
  size_t length = strnlen(text, TEXT_MAX + 1);
  if (length == 0 || length > TEXT_MAX) {
    return mt_fail(MT_ERR_BACKEND, "%s in the table has %s: expected 1 .. %d bytes", what,
                   length ? "more" : "none", TEXT_MAX);
  }
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
      return mt_fail(MT_ERR_BACKEND, "%s in the table has the control character %u", what,
                     (unsigned)(unsigned char)text[i]);
    }
  }
  return MT_OK;
}

static mt_status check_texts(const mt_plugin_v1 *table, const char *name) {
  MT_TRY(check_text("name", table->name));
  MT_TRY(check_text("version", table->version));
  MT_TRY(check_text("vendor", table->vendor));
  MT_TRY(check_text("description", table->description));
  if (strcmp(table->name, name) != 0) {
    return mt_fail(MT_ERR_BACKEND,
                   "the table says that its name is '%s', the file's note says '%s'", table->name,
                   name);
  }
  return MT_OK;
}

static mt_status check_size(uint32_t size) {
  if (size > sizeof(mt_plugin_v1)) {
    return mt_fail(MT_ERR_BACKEND,
                   "struct_size of the table is %u, but the host gave room for %zu bytes", size,
                   sizeof(mt_plugin_v1));
  }
  if (size < REQUIRED_BYTES) {
    return mt_fail(MT_ERR_BACKEND,
                   "struct_size of the table is %u: the entries that every plugin needs take %zu "
                   "bytes",
                   size, REQUIRED_BYTES);
  }
  if (size % sizeof(void *) != 0) {
    return mt_fail(MT_ERR_BACKEND, "struct_size of the table is %u: it ends within an entry", size);
  }
  return MT_OK;
}

mt_status mt_table_no_symbol(void) {
  return mt_fail(MT_ERR_BACKEND, "the file does not export " MT_QUERY_SYMBOL
                                 ": mark it MT_PLUGIN_EXPORT and name it in the version script");
}

mt_status mt_table_query(mt_plugin_query_v1_fn *query, const mt_host_v1 *host, const char *name,
                         mt_plugin_v1 *table) {
  struct {
    mt_plugin_v1 table;
    unsigned char canary[CANARY_BYTES];
  } room;
  memset(&room.table, 0, sizeof(room.table));
  memset(room.canary, CANARY, sizeof(room.canary));
  room.table.struct_size = sizeof(room.table);
  memset(table, 0, sizeof(*table));

  int32_t code = query(host, &room.table);
  for (size_t i = 0; i < sizeof(room.canary); i++) {
    if (room.canary[i] != CANARY) {
      return mt_fail(MT_ERR_BACKEND, "query wrote past the %zu bytes that the host gave room for",
                     sizeof(room.table));
    }
  }
  if (code != MT_ABI_OK) {
    mt_status status = code > 0 && code <= MT_ABI_ERR_TIMEOUT ? (mt_status)code : MT_ERR_BACKEND;
    return mt_fail(status, "query answered with code %d (%s)", (int)code, mt_status_name(status));
  }
  MT_TRY(check_size(room.table.struct_size));
  mt_plugin_v1 known = {0};
  memcpy(&known, &room.table, room.table.struct_size);
  MT_TRY(check_entries(&known));
  MT_TRY(check_texts(&known, name));
  *table = known;
  return MT_OK;
}
