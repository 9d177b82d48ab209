// SPDX-License-Identifier: Apache-2.0
/* mt_write.c - writes .mt version 2. The same tensors in the same order give the same
 * bytes. */
#include "io/writer.h"

#include "error.h"
#include "io/bytes.h"
#include "io/mt_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct mt_dir_out {
  unsigned char *data;
  size_t bytes, at;
  const mt_format **formats; /* used by the tensors, by first use */
  uint32_t format_count;
  size_t *by_name; /* numbers of the tensors */
} mt_dir_out;

static uint64_t round_up(uint64_t n, uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

static void begin(mt_writer *writer) {
  writer->position = MT2_SUPERBLOCK; /* written last */
}

static mt_status place(mt_writer *writer, mt_io_entry *entry) {
  entry->stored = entry->format ? mt_format_id(entry->format) : mt_dtype_name(entry->dtype);
  writer->position = round_up(writer->position, entry->bytes >= MT2_PAGE ? MT2_PAGE : MT2_ALIGN);
  return MT_OK;
}

/* ---- sizes ----------------------------------------------------------------------------- */

/* 1-based number of format among those used; adds it when it is new. 0 for NULL. */
static uint32_t format_number(mt_dir_out *dir, const mt_format *format) {
  uint32_t i = 0;
  if (!format) {
    return 0;
  }
  while (i < dir->format_count && dir->formats[i] != format) {
    i++;
  }
  if (i == dir->format_count) {
    dir->formats[dir->format_count++] = format;
  }
  return i + 1;
}

static size_t format_bytes(const mt_format *format) {
  return round_up(MT2_FORMAT_HEADER + strlen(mt_format_id(format)), MT2_RECORD_ALIGN);
}

static size_t tensor_bytes(const mt_io_entry *entry) {
  return round_up(MT2_TENSOR_HEADER + 8 * (uint64_t)entry->rank + strlen(entry->name),
                  MT2_RECORD_ALIGN);
}

static size_t text_bytes(const mt_io_text *text) {
  return round_up(MT2_TEXT_HEADER + strlen(text->key) + strlen(text->value), MT2_RECORD_ALIGN);
}

static mt_status measure(const mt_writer *writer, mt_dir_out *dir) {
  const mt_io_table *table = &writer->table;
  uint64_t bytes = MT2_DIR_HEADER;
  for (size_t i = 0; i < table->count; i++) {
    format_number(dir, table->entries[i].format);
    bytes += tensor_bytes(&table->entries[i]);
  }
  for (uint32_t i = 0; i < dir->format_count; i++) {
    bytes += format_bytes(dir->formats[i]);
  }
  for (size_t i = 0; i < table->text_count; i++) {
    bytes += text_bytes(&table->texts[i]);
  }
  if (bytes > MT2_DIRECTORY_MAX) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "%s: names and metadata take %llu bytes: a .mt file holds at most %d",
                   writer->file.path, (unsigned long long)bytes, MT2_DIRECTORY_MAX);
  }
  dir->bytes = (size_t)bytes;
  return MT_OK;
}

/* ---- records: data is zero to begin with ------------------------------------------------- */

static unsigned char *begin_record(mt_dir_out *dir, size_t bytes) {
  unsigned char *r = dir->data + dir->at;
  mt_put_u32(r + MT2_REC_BYTES, (uint32_t)bytes);
  dir->at += bytes;
  return r;
}

static void put_format(mt_dir_out *dir, const mt_format *format) {
  unsigned char *r = begin_record(dir, format_bytes(format));
  const char *id = mt_format_id(format);
  mt_put_u32(r + MT2_FORMAT_ELEMENTS, (uint32_t)mt_format_block_elements(format));
  mt_put_u32(r + MT2_FORMAT_BYTES, (uint32_t)mt_format_block_bytes(format));
  mt_put_u16(r + MT2_FORMAT_ID_BYTES, (uint16_t)strlen(id));
  memcpy(r + MT2_FORMAT_HEADER, id, strlen(id));
}

static void put_tensor(mt_dir_out *dir, const mt_io_entry *entry, size_t order) {
  unsigned char *r = begin_record(dir, tensor_bytes(entry));
  mt_put_u16(r + MT2_TENSOR_NAME_BYTES, (uint16_t)strlen(entry->name));
  r[MT2_TENSOR_DTYPE] = (unsigned char)entry->dtype;
  r[MT2_TENSOR_RANK] = (unsigned char)entry->rank;
  mt_put_u32(r + MT2_TENSOR_ORDER, (uint32_t)order);
  mt_put_u32(r + MT2_TENSOR_FORMAT, format_number(dir, entry->format));
  mt_put_u64(r + MT2_TENSOR_OFFSET, entry->offset);
  mt_put_u64(r + MT2_TENSOR_BYTES, entry->bytes);
  mt_put_u64(r + MT2_TENSOR_XXH3, entry->checksum);
  r += MT2_TENSOR_HEADER;
  for (int i = 0; i < entry->rank; i++, r += 8) {
    mt_put_u64(r, (uint64_t)entry->shape[i]);
  }
  memcpy(r, entry->name, strlen(entry->name));
}

static void put_text(mt_dir_out *dir, const mt_io_text *text) {
  unsigned char *r = begin_record(dir, text_bytes(text));
  size_t key = strlen(text->key), value = strlen(text->value);
  mt_put_u16(r + MT2_TEXT_TYPE, MT2_TEXT);
  mt_put_u16(r + MT2_TEXT_KEY_BYTES, (uint16_t)key);
  mt_put_u32(r + MT2_TEXT_VALUE_BYTES, (uint32_t)value);
  memcpy(r + MT2_TEXT_HEADER, text->key, key);
  memcpy(r + MT2_TEXT_HEADER + key, text->value, value);
}

static int compare_names(const void *a, const void *b, void *user) {
  const mt_io_entry *entries = user;
  return strcmp(entries[*(const size_t *)a].name, entries[*(const size_t *)b].name);
}

static void fill_directory(const mt_io_table *table, mt_dir_out *dir) {
  mt_put_u32(dir->data + MT2_DIR_TENSORS, (uint32_t)table->count);
  mt_put_u32(dir->data + MT2_DIR_TEXTS, (uint32_t)table->text_count);
  mt_put_u32(dir->data + MT2_DIR_FORMATS, dir->format_count);
  dir->at = MT2_DIR_HEADER;
  for (uint32_t i = 0; i < dir->format_count; i++) {
    put_format(dir, dir->formats[i]);
  }
  for (size_t i = 0; i < table->count; i++) {
    dir->by_name[i] = i;
  }
  if (table->count > 1) {
    qsort_r(dir->by_name, table->count, sizeof(*dir->by_name), compare_names, table->entries);
  }
  for (size_t i = 0; i < table->count; i++) {
    put_tensor(dir, &table->entries[dir->by_name[i]], dir->by_name[i]);
  }
  for (size_t i = 0; i < table->text_count; i++) {
    put_text(dir, &table->texts[i]);
  }
}

static mt_status write_superblock(mt_writer *writer, const mt_dir_out *dir) {
  unsigned char s[MT2_SUPERBLOCK] = {0};
  memcpy(s + MT2_AT_MAGIC, MT2_MAGIC, 8);
  mt_put_u16(s + MT2_AT_MAJOR, MT2_MAJOR);
  mt_put_u16(s + MT2_AT_MINOR, MT2_MINOR);
  mt_put_u32(s + MT2_AT_SUPERBLOCK, MT2_SUPERBLOCK);
  mt_put_u64(s + MT2_AT_FILE_BYTES, writer->position + dir->bytes);
  mt_put_u64(s + MT2_AT_DIR_OFFSET, writer->position);
  mt_put_u64(s + MT2_AT_DIR_BYTES, dir->bytes);
  mt_put_u64(s + MT2_AT_DIR_XXH3, XXH3_64bits(dir->data, dir->bytes));
  mt_put_u32(s + MT2_AT_PAGE, MT2_PAGE);
  mt_put_u64(s + MT2_AT_XXH3, XXH3_64bits(s, MT2_AT_XXH3));
  return mt_atomic_write(&writer->file, 0, s, sizeof(s));
}

static mt_status write_directory(mt_writer *writer, mt_dir_out *dir) {
  const mt_io_table *table = &writer->table;
  dir->formats = malloc((mt_format_count() + 1) * sizeof(const mt_format *));
  dir->by_name = malloc((table->count + 1) * sizeof(*dir->by_name));
  if (!dir->formats || !dir->by_name) {
    return mt_fail_memory((table->count + 1) * sizeof(*dir->by_name), "a directory");
  }
  MT_TRY(measure(writer, dir));
  dir->data = calloc(1, dir->bytes);
  if (!dir->data) {
    return mt_fail_memory(dir->bytes, "a directory");
  }
  fill_directory(table, dir);
  writer->position = round_up(writer->position, MT2_ALIGN);
  MT_TRY(mt_atomic_write(&writer->file, writer->position, dir->data, dir->bytes));
  MT_TRY(write_superblock(writer, dir));
  writer->position += dir->bytes;
  return MT_OK;
}

static mt_status finish(mt_writer *writer) {
  mt_dir_out dir = {0};
  mt_status status = write_directory(writer, &dir);
  free(dir.data);
  free(dir.formats);
  free(dir.by_name);
  return status;
}

const mt_writer_type mt_writer_mt = {MT_FILE_MT, true, begin, place, finish};
