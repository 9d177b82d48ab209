// SPDX-License-Identifier: Apache-2.0
/*
 * safetensors.c - https://github.com/huggingface/safetensors, section "Format".
 *
 * u64 little-endian length of the header, the header (a JSON object: name ->
 * {dtype, shape, data_offsets}, and "__metadata__"), then the data without holes.
 * Tensors are listed in the order of their data, which is not always the header's.
 */
#include "io/archive.h"
#include "io/writer.h"

#include "error.h"
#include "io/bytes.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ST_LENGTH_BYTES = 8,
  ST_HEADER_MAX = 100000000, /* as the reference implementation */
  ST_VALUES_MAX = 4 << 20,   /* JSON values: what memory they may take */
  ST_ALIGN = 8,
  ST_DTYPE_MAX = 32,
};

#define ST_METADATA "__metadata__"

static const struct {
  const char *name;
  mt_dtype dtype;
} st_types[] = {
    {"F32", MT_F32}, {"F64", MT_F64}, {"F16", MT_F16}, {"BF16", MT_BF16}, {"I8", MT_I8},
    {"U8", MT_U8},   {"I16", MT_I16}, {"I32", MT_I32}, {"I64", MT_I64},   {"BOOL", MT_BOOL},
};

enum { ST_TYPES = sizeof(st_types) / sizeof(st_types[0]) };

/* ---- reading --------------------------------------------------------------------------- */

typedef struct st_reader {
  mt_archive *archive;
  uint64_t data; /* where data starts in the file */
  mt_io_entry *entries;
  size_t count;
} st_reader;

/* "field 'w.shape' at byte 8": JSON keeps no places, so the header's. */
#define st_corrupt(archive, name, member, ...)                                                     \
  st_error(archive, MT_ERR_CORRUPT, name, member, __VA_ARGS__)

MT_PRINTF(5, 6)
static mt_status st_error(const mt_archive *archive, mt_status status, const char *name,
                          const char *member, const char *format, ...) {
  char text[256], shown[MT_SHOWN_BYTES], field[MT_SHOWN_BYTES + 32];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  snprintf(field, sizeof(field), "%s%s%s", mt_shown(name, shown, sizeof(shown)), *member ? "." : "",
           member);
  return status == MT_ERR_CORRUPT
             ? mt_source_corrupt(&archive->source, field, ST_LENGTH_BYTES, "%s", text)
             : mt_source_unsupported(&archive->source, field, ST_LENGTH_BYTES, "%s", text);
}

static mt_status set_type(mt_archive *archive, const char *name, const json_t *dtype,
                          mt_io_entry *entry) {
  const char *text = json_string_value(dtype);
  if (!text || strlen(text) > ST_DTYPE_MAX) {
    return st_corrupt(archive, name, "dtype", "expected a string of at most %d bytes",
                      ST_DTYPE_MAX);
  }
  for (size_t i = 0; i < ST_TYPES; i++) {
    if (strcmp(st_types[i].name, text) == 0) {
      entry->dtype = st_types[i].dtype;
    }
  }
  char shown[MT_SHOWN_BYTES];
  mt_shown(text, shown, sizeof(shown));
  entry->stored = mt_table_string(&archive->table, shown, strlen(shown));
  return entry->stored ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status set_shape(mt_archive *archive, const char *name, const json_t *shape,
                           mt_io_entry *entry) {
  int64_t extents[MT_MAX_RANK];
  if (!json_is_array(shape)) {
    return st_corrupt(archive, name, "shape", "expected an array");
  }
  size_t rank = json_array_size(shape);
  if (rank > MT_MAX_RANK) {
    return st_error(archive, MT_ERR_UNSUPPORTED, name, "shape", "%zu axes: expected at most %d",
                    rank, MT_MAX_RANK);
  }
  for (size_t i = 0; i < rank; i++) {
    const json_t *extent = json_array_get(shape, i);
    extents[i] = json_integer_value(extent);
    if (!json_is_integer(extent) || extents[i] < 0) {
      return st_corrupt(archive, name, "shape", "extent of axis %zu: expected an integer >= 0", i);
    }
  }
  entry->rank = (int)rank;
  entry->shape = mt_table_shape(&archive->table, entry->rank, extents);
  return entry->shape ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status set_offsets(const st_reader *reader, const char *name, const json_t *offsets,
                             mt_io_entry *entry) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last)) {
    return st_corrupt(reader->archive, name, "data_offsets", "expected two integers");
  }
  json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  uint64_t room = reader->archive->source.size - reader->data;
  if (begin < 0 || end < begin || (uint64_t)end > room) {
    return st_corrupt(reader->archive, name, "data_offsets",
                      "%lld .. %lld: expected a range in the %llu bytes of data", (long long)begin,
                      (long long)end, (unsigned long long)room);
  }
  entry->offset = reader->data + (uint64_t)begin;
  entry->bytes = (uint64_t)(end - begin);
  return MT_OK;
}

static mt_status read_entry(st_reader *reader, const char *name, const json_t *value) {
  mt_archive *archive = reader->archive;
  mt_io_entry entry = {0};
  if (strlen(name) > MT_NAME_BYTES) {
    return st_error(archive, MT_ERR_UNSUPPORTED, name, "", "a name of %zu bytes: at most %d",
                    strlen(name), MT_NAME_BYTES);
  }
  if (!json_is_object(value) || json_object_size(value) != 3) {
    return st_corrupt(archive, name, "", "expected an object of dtype, shape and data_offsets");
  }
  entry.name = mt_table_string(&archive->table, name, strlen(name));
  if (!entry.name) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  MT_TRY(set_type(archive, name, json_object_get(value, "dtype"), &entry));
  MT_TRY(set_shape(archive, name, json_object_get(value, "shape"), &entry));
  MT_TRY(set_offsets(reader, name, json_object_get(value, "data_offsets"), &entry));
  if (entry.dtype != MT_DTYPE_NONE) {
    char shown[MT_SHOWN_BYTES], field[MT_SHOWN_BYTES + 16];
    snprintf(field, sizeof(field), "%s.data_offsets", mt_shown(name, shown, sizeof(shown)));
    MT_TRY(mt_entry_size(archive, &entry, field, ST_LENGTH_BYTES));
  }
  reader->entries[reader->count++] = entry;
  return MT_OK;
}

static mt_status read_metadata(mt_archive *archive, json_t *metadata) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) {
    return st_corrupt(archive, ST_METADATA, "", "expected an object of strings");
  }
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) {
      return st_corrupt(archive, ST_METADATA, "", "expected an object of strings");
    }
    const char *key_copy = mt_table_string(&archive->table, key, strlen(key));
    const char *value_copy =
        mt_table_string(&archive->table, json_string_value(value), json_string_length(value));
    if (!key_copy || !value_copy) {
      return MT_ERR_OUT_OF_MEMORY;
    }
    MT_TRY(mt_table_add_text(&archive->table, key_copy, value_copy));
  }
  return MT_OK;
}

/* By place in the file, the empty ones first; those of one place as the header has them
 * (what is sorted are pointers into its list). */
static int compare_places(const void *a, const void *b) {
  const mt_io_entry *x = *(const mt_io_entry *const *)a, *y = *(const mt_io_entry *const *)b;
  if (x->offset != y->offset) {
    return x->offset < y->offset ? -1 : 1;
  }
  if (x->bytes != y->bytes) {
    return x->bytes < y->bytes ? -1 : 1;
  }
  return x < y ? -1 : x > y;
}

/* Behind each other from the start of the data to its end. */
static mt_status place_entries(st_reader *reader, const mt_io_entry **sorted) {
  mt_archive *archive = reader->archive;
  uint64_t end = reader->data;
  for (size_t i = 0; i < reader->count; i++) {
    sorted[i] = &reader->entries[i];
  }
  qsort(sorted, reader->count, sizeof(*sorted), compare_places);
  for (size_t i = 0; i < reader->count; i++) {
    if (sorted[i]->offset != end) {
      return st_corrupt(archive, sorted[i]->name, "data_offsets",
                        "starts at %llu: expected %llu, where the one before it ends",
                        (unsigned long long)(sorted[i]->offset - reader->data),
                        (unsigned long long)(end - reader->data));
    }
    end += sorted[i]->bytes;
    MT_TRY(mt_table_add(&archive->table, sorted[i]));
  }
  if (end != archive->source.size) {
    return mt_source_corrupt(&archive->source, "data", end, "%llu bytes behind the last tensor",
                             (unsigned long long)(archive->source.size - end));
  }
  return MT_OK;
}

static mt_status read_object(st_reader *reader, json_t *header) {
  const char *name;
  json_t *value;
  size_t room = json_object_size(header) + 1;
  reader->entries = calloc(room, sizeof(*reader->entries));
  const mt_io_entry **sorted = calloc(room, sizeof(const mt_io_entry *));
  mt_status status = reader->entries && sorted
                         ? MT_OK
                         : mt_fail_memory(room * sizeof(*reader->entries), "a directory");
  if (status == MT_OK) {
    json_object_foreach(header, name, value) {
      status = strcmp(name, ST_METADATA) == 0 ? read_metadata(reader->archive, value)
                                              : read_entry(reader, name, value);
      if (status != MT_OK) {
        break;
      }
    }
  }
  if (status == MT_OK) {
    status = place_entries(reader, sorted);
  }
  free(sorted);
  free(reader->entries);
  return status;
}

/* About how many values the JSON has: jansson takes memory for each. */
static size_t count_values(const char *text, size_t bytes) {
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < bytes; i++) {
    if (in_string && text[i] == '\\') {
      i++;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      values += text[i] == ',' || text[i] == '[' || text[i] == '{' || text[i] == ':';
    }
  }
  return values;
}

static mt_status parse_header(st_reader *reader, const char *text, size_t bytes) {
  const mt_source *source = &reader->archive->source;
  size_t values = count_values(text, bytes);
  json_error_t error;
  if (bytes == 0 || text[0] != '{') {
    return mt_source_corrupt(source, "header", ST_LENGTH_BYTES, "expected '{'");
  }
  if (values > ST_VALUES_MAX) {
    return mt_source_corrupt(source, "header", ST_LENGTH_BYTES, "%zu values: expected at most %d",
                             values, ST_VALUES_MAX);
  }
  json_t *header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!header && error.text[0] == 0) { /* how jansson says it */
    return mt_fail_memory(bytes, "parsing the header of a .safetensors file");
  }
  if (!header) {
    char shown[MT_SHOWN_BYTES];
    return mt_source_corrupt(source, "header",
                             ST_LENGTH_BYTES + (uint64_t)(error.position > 0 ? error.position : 0),
                             "%s", mt_shown(error.text, shown, sizeof(shown)));
  }
  mt_status status = read_object(reader, header);
  json_decref(header);
  return status;
}

mt_status mt_read_safetensors(mt_archive *archive) {
  const mt_source *source = &archive->source;
  st_reader reader = {.archive = archive};
  unsigned char length[ST_LENGTH_BYTES];
  MT_TRY(mt_source_read(source, "header_length", 0, length, sizeof(length)));
  uint64_t bytes = mt_get_u64(length);
  if (bytes > ST_HEADER_MAX || bytes > source->size - ST_LENGTH_BYTES) {
    return mt_source_corrupt(
        source, "header_length", 0, "%llu: expected at most %d, in a file of %llu bytes",
        (unsigned long long)bytes, ST_HEADER_MAX, (unsigned long long)source->size);
  }
  reader.data = ST_LENGTH_BYTES + bytes;
  char *text = malloc((size_t)bytes + 1);
  if (!text) {
    return mt_fail_memory(bytes, "the header of a .safetensors file");
  }
  mt_status status = mt_source_read(source, "header", ST_LENGTH_BYTES, text, (size_t)bytes);
  if (status == MT_OK) {
    status = parse_header(&reader, text, (size_t)bytes);
  }
  free(text);
  archive->swap = MT_HOST_BIG_ENDIAN;
  snprintf(archive->version, sizeof(archive->version), "safetensors");
  return status;
}

/* ---- writing --------------------------------------------------------------------------- */
/* The header comes first but is known last: data is written from the start of the file,
 * and moved up at the end. */

static mt_status place(mt_writer *writer, mt_io_entry *entry) {
  for (size_t i = 0; i < ST_TYPES; i++) {
    if (st_types[i].dtype == entry->dtype) {
      entry->stored = st_types[i].name;
    }
  }
  if (!entry->stored) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "%s: a .safetensors file holds no %s: decode to f32 first, or write .mt",
                   writer->file.path,
                   entry->format ? mt_format_id(entry->format) : mt_dtype_name(entry->dtype));
  }
  if (strcmp(entry->name, ST_METADATA) == 0) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: a .safetensors file keeps this name for metadata",
                   writer->file.path);
  }
  return MT_OK;
}

/* Each takes over its arguments; NULL or non-zero: out of memory. */
static json_t *entry_json(const mt_io_entry *entry) {
  json_t *shape = json_array();
  int failed = shape == NULL;
  for (int i = 0; !failed && i < entry->rank; i++) {
    failed = json_array_append_new(shape, json_integer(entry->shape[i]));
  }
  json_t *object =
      json_pack("{s:s, s:o, s:[I, I]}", "dtype", entry->stored, "shape", shape, "data_offsets",
                (json_int_t)entry->offset, (json_int_t)(entry->offset + entry->bytes));
  if (failed) {
    json_decref(object);
    return NULL;
  }
  return object;
}

static int put_metadata(json_t *header, const mt_io_table *table) {
  json_t *metadata = json_object();
  int failed = metadata == NULL;
  for (size_t i = 0; !failed && i < table->text_count; i++) {
    failed = json_object_set_new(metadata, table->texts[i].key, json_string(table->texts[i].value));
  }
  if (failed) {
    json_decref(metadata);
    return -1;
  }
  return json_object_set_new(header, ST_METADATA, metadata);
}

/* The JSON text, to be freed; NULL: out of memory. */
static char *header_text(const mt_io_table *table) {
  json_t *header = json_object();
  int failed = header == NULL;
  if (!failed && table->text_count > 0) {
    failed = put_metadata(header, table);
  }
  for (size_t i = 0; !failed && i < table->count; i++) {
    failed = json_object_set_new(header, table->entries[i].name, entry_json(&table->entries[i]));
  }
  char *text = failed ? NULL : json_dumps(header, JSON_COMPACT);
  json_decref(header);
  return text;
}

static mt_status write_header(mt_writer *writer, const char *text) {
  size_t used = strlen(text), padded = (used + ST_ALIGN - 1) / ST_ALIGN * ST_ALIGN;
  unsigned char length[ST_LENGTH_BYTES];
  if (padded > ST_HEADER_MAX) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: a header of %zu bytes: at most %d", writer->file.path,
                   padded, ST_HEADER_MAX);
  }
  mt_put_u64(length, padded);
  MT_TRY(mt_atomic_shift(&writer->file, writer->position, ST_LENGTH_BYTES + padded));
  MT_TRY(mt_atomic_write(&writer->file, 0, length, sizeof(length)));
  MT_TRY(mt_atomic_write(&writer->file, ST_LENGTH_BYTES, text, used));
  MT_TRY(mt_atomic_write(&writer->file, ST_LENGTH_BYTES + used, "        ", padded - used));
  writer->position += ST_LENGTH_BYTES + padded;
  return MT_OK;
}

static mt_status finish(mt_writer *writer) {
  char *text = header_text(&writer->table);
  if (!text) {
    return mt_fail(MT_ERR_OUT_OF_MEMORY, "%s: out of memory: its header", writer->file.path);
  }
  mt_status status = write_header(writer, text);
  free(text);
  return status;
}

const mt_writer_type mt_writer_safetensors = {MT_FILE_SAFETENSORS, true, NULL, place, finish};
