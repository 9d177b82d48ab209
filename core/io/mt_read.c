// SPDX-License-Identifier: Apache-2.0
/* mt_read.c - reads the superblock and the directory of .mt version 2. */
#include "io/archive.h"

#include "checked.h"
#include "error.h"
#include "formats/format.h"
#include "io/bytes.h"
#include "io/mt_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct mt_dir {
  mt_archive *archive;
  unsigned char *data; /* the directory */
  uint64_t offset;     /* of it in the file */
  uint32_t bytes;
  uint32_t at; /* the record being read */
  uint32_t tensors, texts, formats;
  uint16_t minor;
  uint32_t start; /* of the data */
  uint32_t page;
  mt_format *format;  /* what the file says of its formats; id in the table */
  mt_io_entry *entry; /* tensors, by place in the file */
  const char *last_name;
} mt_dir;

/* ---- superblock ------------------------------------------------------------------------ */

static mt_status check_magic(const mt_source *source, const unsigned char *s) {
  if (memcmp(s, MT2_MAGIC, 8) == 0) {
    return MT_OK;
  }
  return memcmp(s, MT2_MAGIC, 4) == 0
             ? mt_source_corrupt(source, "magic", MT2_AT_MAGIC,
                                 "line ends were changed, as a transfer in text mode does")
             : mt_source_corrupt(source, "magic", MT2_AT_MAGIC, "no .mt file");
}

static mt_status check_version(const mt_source *source, const unsigned char *s) {
  unsigned major = mt_get_u16(s + MT2_AT_MAJOR);
  if (major != MT2_MAJOR) {
    return mt_source_unsupported(source, "version_major", MT2_AT_MAJOR, "version %u: expected %d",
                                 major, MT2_MAJOR);
  }
  uint64_t sum = XXH3_64bits(s, MT2_AT_XXH3), said = mt_get_u64(s + MT2_AT_XXH3);
  if (sum != said) {
    return mt_source_corrupt(source, "superblock_xxh3", MT2_AT_XXH3,
                             "%016llx, but the superblock has checksum %016llx",
                             (unsigned long long)said, (unsigned long long)sum);
  }
  uint64_t required = mt_get_u64(s + MT2_AT_REQUIRED);
  if (required != 0) {
    return mt_source_unsupported(source, "required_features", MT2_AT_REQUIRED,
                                 "the file needs feature bit %d, which this version does not know",
                                 __builtin_ctzll(required));
  }
  return MT_OK;
}

/* Where data may start: a later minor version may keep more in front of it. */
static mt_status check_start(const mt_source *source, const unsigned char *s, mt_dir *dir) {
  uint32_t start = mt_get_u32(s + MT2_AT_SUPERBLOCK);
  uint32_t most = dir->minor == 0 ? MT2_SUPERBLOCK : MT2_PAGE_MAX;
  if (start < MT2_SUPERBLOCK || start > most || start % MT2_SUPERBLOCK != 0) {
    return mt_source_corrupt(source, "superblock_bytes", MT2_AT_SUPERBLOCK,
                             "%u: expected a multiple of %d, at most %u", start, MT2_SUPERBLOCK,
                             most);
  }
  dir->start = start;
  return MT_OK;
}

/* Where the directory is; everything in bounds. A later minor version may leave bytes
 * behind file_bytes. */
static mt_status check_extent(const mt_source *source, const unsigned char *s, mt_dir *dir) {
  unsigned long long size = mt_get_u64(s + MT2_AT_FILE_BYTES), file = source->size;
  unsigned long long offset = mt_get_u64(s + MT2_AT_DIR_OFFSET);
  unsigned long long bytes = mt_get_u64(s + MT2_AT_DIR_BYTES);
  uint32_t page = mt_get_u32(s + MT2_AT_PAGE);
  if (size > file || (size < file && dir->minor == 0)) {
    return mt_source_corrupt(source, "file_bytes", MT2_AT_FILE_BYTES,
                             "%llu, but the file has %llu bytes", size, file);
  }
  if (page < MT2_PAGE || page > MT2_PAGE_MAX || (page & (page - 1)) != 0) {
    return mt_source_corrupt(source, "page_bytes", MT2_AT_PAGE,
                             "%u: expected a power of two, %d .. %d", page, MT2_PAGE, MT2_PAGE_MAX);
  }
  if (offset > size) {
    return mt_source_corrupt(source, "dir_offset", MT2_AT_DIR_OFFSET,
                             "%llu is past the end (file has %llu bytes)", offset, size);
  }
  if (offset < dir->start || offset % MT2_ALIGN != 0) {
    return mt_source_corrupt(source, "dir_offset", MT2_AT_DIR_OFFSET,
                             "%llu: expected a multiple of %d, at least %u", offset, MT2_ALIGN,
                             dir->start);
  }
  if (bytes != size - offset || bytes < MT2_DIR_HEADER || bytes > MT2_DIRECTORY_MAX) {
    return mt_source_corrupt(source, "dir_bytes", MT2_AT_DIR_BYTES,
                             "%llu: expected what is behind dir_offset, %llu bytes, in %d .. %d",
                             bytes, size - offset, MT2_DIR_HEADER, MT2_DIRECTORY_MAX);
  }
  dir->page = page;
  dir->offset = offset;
  dir->bytes = (uint32_t)bytes;
  return MT_OK;
}

static mt_status load_directory(const mt_source *source, const unsigned char *s, mt_dir *dir) {
  dir->data = malloc(dir->bytes);
  if (!dir->data) {
    return mt_fail_memory(dir->bytes, "the directory of a .mt file");
  }
  MT_TRY(mt_source_read(source, "directory", dir->offset, dir->data, dir->bytes));
  uint64_t sum = XXH3_64bits(dir->data, dir->bytes), said = mt_get_u64(s + MT2_AT_DIR_XXH3);
  if (sum != said) {
    return mt_source_corrupt(source, "dir_xxh3", MT2_AT_DIR_XXH3,
                             "%016llx, but the directory has checksum %016llx",
                             (unsigned long long)said, (unsigned long long)sum);
  }
  dir->tensors = mt_get_u32(dir->data + MT2_DIR_TENSORS);
  dir->texts = mt_get_u32(dir->data + MT2_DIR_TEXTS);
  dir->formats = mt_get_u32(dir->data + MT2_DIR_FORMATS);
  dir->at = MT2_DIR_HEADER;
  return MT_OK;
}

/* ---- records --------------------------------------------------------------------------- */

static const unsigned char *record(const mt_dir *dir) {
  return dir->data + dir->at;
}

#define dir_corrupt(dir, field, within, ...)                                                       \
  mt_source_corrupt(&(dir)->archive->source, field, (dir)->offset + (dir)->at + (within),          \
                    __VA_ARGS__)

/* n records of at least `least` bytes can be there at all: before memory is taken for them. */
static mt_status check_count(const mt_dir *dir, const char *field, uint32_t within, uint32_t n,
                             uint32_t least) {
  if (n > dir->bytes / least) {
    return mt_source_corrupt(&dir->archive->source, field, dir->offset + within,
                             "%u records do not fit in a directory of %u bytes", n, dir->bytes);
  }
  return MT_OK;
}

/* The record at dir->at lies in the directory and has its fixed part. */
static mt_status open_record(const mt_dir *dir, uint32_t header) {
  uint32_t left = dir->bytes - dir->at;
  if (left < header) {
    return dir_corrupt(dir, "record", 0, "%u bytes are left in the directory: expected %u or more",
                       left, header);
  }
  uint32_t bytes = mt_get_u32(record(dir) + MT2_REC_BYTES);
  if (bytes < header || bytes > left || bytes % MT2_RECORD_ALIGN != 0) {
    return dir_corrupt(dir, "record_bytes", MT2_REC_BYTES,
                       "%u: expected a multiple of %d, %u .. %u", bytes, MT2_RECORD_ALIGN, header,
                       left);
  }
  return MT_OK;
}

/* The fields take `used` bytes: the record has these, zeros up to its end, and no more (a
 * later minor version may have appended fields). Goes to the next record. */
static mt_status close_record(mt_dir *dir, uint64_t used) {
  uint32_t bytes = mt_get_u32(record(dir) + MT2_REC_BYTES);
  uint64_t padded = (used + MT2_RECORD_ALIGN - 1) / MT2_RECORD_ALIGN * MT2_RECORD_ALIGN;
  if (padded > bytes || (padded < bytes && dir->minor == 0)) {
    return dir_corrupt(dir, "record_bytes", MT2_REC_BYTES, "%u: expected %llu for its contents",
                       bytes, (unsigned long long)padded);
  }
  for (uint32_t i = (uint32_t)used; i < padded; i++) {
    if (record(dir)[i] != 0) {
      return dir_corrupt(dir, "padding", i, "byte 0x%02x: expected 0", record(dir)[i]);
    }
  }
  dir->at += bytes;
  return MT_OK;
}

/* Text of n bytes at `within` of the record, copied into the table. */
static mt_status take_text(mt_dir *dir, const char *field, uint64_t within, uint32_t n,
                           const char **out) {
  uint32_t bytes = mt_get_u32(record(dir) + MT2_REC_BYTES);
  if (within > bytes || n > bytes - within) {
    return dir_corrupt(dir, field, within, "%u bytes: the record has %u", n, bytes);
  }
  const char *text = (const char *)record(dir) + within;
  if (!mt_is_text(text, n)) {
    return dir_corrupt(dir, field, within, "not UTF-8 without NUL");
  }
  *out = mt_table_string(&dir->archive->table, text, n);
  return *out ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

/* ---- formats --------------------------------------------------------------------------- */

static mt_status read_format(mt_dir *dir, mt_format *format) {
  MT_TRY(open_record(dir, MT2_FORMAT_HEADER));
  const unsigned char *r = record(dir);
  uint32_t n = mt_get_u16(r + MT2_FORMAT_ID_BYTES);
  format->block_elements = mt_get_u32(r + MT2_FORMAT_ELEMENTS);
  format->block_bytes = mt_get_u32(r + MT2_FORMAT_BYTES);
  if (n == 0 || n > MT_NAME_BYTES) {
    return dir_corrupt(dir, "id_bytes", MT2_FORMAT_ID_BYTES, "%u: expected 1 .. %d", n,
                       MT_NAME_BYTES);
  }
  MT_TRY(take_text(dir, "id", MT2_FORMAT_HEADER, n, &format->id));
  if (format->block_elements - 1 >= MT2_BLOCK_MAX || format->block_bytes - 1 >= MT2_BLOCK_MAX) {
    return dir_corrupt(dir, "block_elements", MT2_FORMAT_ELEMENTS,
                       "%u elements in %u bytes: expected 1 .. %d of each", format->block_elements,
                       format->block_bytes, MT2_BLOCK_MAX);
  }
  const mt_format *known = mt_format_find(format->id);
  if (known && (known->block_elements != format->block_elements ||
                known->block_bytes != format->block_bytes)) {
    return dir_corrupt(dir, "block_elements", MT2_FORMAT_ELEMENTS,
                       "%u elements in %u bytes: expected %u in %u for %s", format->block_elements,
                       format->block_bytes, known->block_elements, known->block_bytes, known->id);
  }
  char shown[MT_SHOWN_BYTES]; /* from here on the id is for messages */
  mt_shown(format->id, shown, sizeof(shown));
  format->id = known ? known->id : mt_table_string(&dir->archive->table, shown, strlen(shown));
  return format->id ? close_record(dir, MT2_FORMAT_HEADER + n) : MT_ERR_OUT_OF_MEMORY;
}

static mt_status read_formats(mt_dir *dir) {
  MT_TRY(check_count(dir, "format_count", MT2_DIR_FORMATS, dir->formats, MT2_FORMAT_HEADER + 8));
  dir->format = calloc(dir->formats + 1u, sizeof(*dir->format));
  if (!dir->format) {
    return mt_fail_memory(dir->formats * sizeof(*dir->format), "the formats of a .mt file");
  }
  for (uint32_t i = 0; i < dir->formats; i++) {
    MT_TRY(read_format(dir, &dir->format[i]));
  }
  return MT_OK;
}

/* ---- tensors --------------------------------------------------------------------------- */

/* dtype, format and what the type is called. */
static mt_status read_type(mt_dir *dir, const mt_format **shim, mt_io_entry *entry) {
  const unsigned char *r = record(dir);
  unsigned dtype = r[MT2_TENSOR_DTYPE];
  uint32_t number = mt_get_u32(r + MT2_TENSOR_FORMAT);
  char text[24];
  *shim = NULL;
  if ((number != 0) != (dtype == MT_BLOCK) || number > dir->formats) {
    return dir_corrupt(dir, "format", MT2_TENSOR_FORMAT, "%u with dtype %u: expected %s %u", number,
                       dtype, dtype == MT_BLOCK ? "1 .." : "0, of", dir->formats);
  }
  if (dtype == MT_BLOCK) {
    *shim = &dir->format[number - 1];
    entry->stored = (*shim)->id;
    entry->format = mt_format_find((*shim)->id);
    entry->dtype = MT_BLOCK;
    return MT_OK;
  }
  if (mt_dtype_size((mt_dtype)dtype) > 0) {
    entry->dtype = (mt_dtype)dtype;
    entry->stored = mt_dtype_name(entry->dtype);
    return MT_OK;
  }
  if (dir->minor == 0 || dtype == 0) {
    return dir_corrupt(dir, "dtype", MT2_TENSOR_DTYPE, "%u: expected 1 .. %d", dtype, MT_BLOCK);
  }
  snprintf(text, sizeof(text), "dtype %u", dtype); /* of a later minor version */
  entry->stored = mt_table_string(&dir->archive->table, text, strlen(text));
  return entry->stored ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status read_shape(mt_dir *dir, mt_io_entry *entry) {
  int64_t shape[MT_MAX_RANK];
  entry->rank = record(dir)[MT2_TENSOR_RANK];
  if (entry->rank > MT_MAX_RANK) {
    return dir_corrupt(dir, "rank", MT2_TENSOR_RANK, "%d: expected 0 .. %d", entry->rank,
                       MT_MAX_RANK);
  }
  MT_TRY(open_record(dir, MT2_TENSOR_HEADER + 8 * (uint32_t)entry->rank));
  for (int i = 0; i < entry->rank; i++) {
    uint32_t within = MT2_TENSOR_HEADER + 8 * (uint32_t)i;
    uint64_t extent = mt_get_u64(record(dir) + within);
    if (extent > INT64_MAX) {
      return dir_corrupt(dir, "dim", within, "%llu of axis %d: expected less than 2^63",
                         (unsigned long long)extent, i);
    }
    shape[i] = (int64_t)extent;
  }
  entry->shape = mt_table_shape(&dir->archive->table, entry->rank, shape);
  return entry->shape ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status read_name(mt_dir *dir, mt_io_entry *entry) {
  char shown[MT_SHOWN_BYTES];
  uint32_t n = mt_get_u16(record(dir) + MT2_TENSOR_NAME_BYTES);
  uint32_t within = MT2_TENSOR_HEADER + 8 * (uint32_t)entry->rank;
  if (n > MT_NAME_BYTES) {
    return dir_corrupt(dir, "name_bytes", MT2_TENSOR_NAME_BYTES, "%u: expected 0 .. %d", n,
                       MT_NAME_BYTES);
  }
  MT_TRY(take_text(dir, "name", within, n, &entry->name));
  if (dir->last_name && strcmp(dir->last_name, entry->name) >= 0) {
    return dir_corrupt(dir, "name", within, "'%s' is not behind the name before it",
                       mt_shown(entry->name, shown, sizeof(shown)));
  }
  dir->last_name = entry->name;
  return close_record(dir, within + n);
}

/* The record at dir->at, at the place in dir->entry that its order says. */
static mt_status read_tensor(mt_dir *dir) {
  mt_io_entry entry = {0};
  const mt_format *shim;
  MT_TRY(open_record(dir, MT2_TENSOR_HEADER));
  const unsigned char *r = record(dir);
  entry.offset = mt_get_u64(r + MT2_TENSOR_OFFSET);
  entry.bytes = mt_get_u64(r + MT2_TENSOR_BYTES);
  entry.checksum = mt_get_u64(r + MT2_TENSOR_XXH3);
  MT_TRY(read_type(dir, &shim, &entry));
  MT_TRY(read_shape(dir, &entry));
  if (entry.dtype != MT_DTYPE_NONE) {
    mt_io_entry sized = entry;
    sized.format = shim; /* a format that only the file knows has a size, too */
    MT_TRY(mt_entry_size(dir->archive, &sized, "data_bytes",
                         dir->offset + dir->at + MT2_TENSOR_BYTES));
  }
  if (entry.dtype == MT_BLOCK && !entry.format) {
    entry.dtype = MT_DTYPE_NONE;
  }
  uint32_t order = mt_get_u32(r + MT2_TENSOR_ORDER);
  if (order >= dir->tensors || dir->entry[order].name) {
    return dir_corrupt(dir, "order", MT2_TENSOR_ORDER, "%u: expected each of 0 .. %u once", order,
                       dir->tensors - 1);
  }
  MT_TRY(read_name(dir, &entry));
  dir->entry[order] = entry;
  return MT_OK;
}

static mt_status read_tensors(mt_dir *dir) {
  MT_TRY(check_count(dir, "tensor_count", MT2_DIR_TENSORS, dir->tensors, MT2_TENSOR_HEADER));
  dir->entry = calloc(dir->tensors + 1u, sizeof(*dir->entry));
  if (!dir->entry) {
    return mt_fail_memory(dir->tensors * sizeof(*dir->entry), "the tensors of a .mt file");
  }
  for (uint32_t i = 0; i < dir->tensors; i++) {
    MT_TRY(read_tensor(dir));
  }
  return MT_OK;
}

/* In the order of the file: aligned, behind each other, with less than a page between (a
 * later minor version may keep something there). */
static mt_status place_tensors(mt_dir *dir) {
  const mt_source *source = &dir->archive->source;
  uint64_t end = dir->start, room = dir->minor == 0 ? dir->page : UINT64_MAX;
  char shown[MT_SHOWN_BYTES];
  for (uint32_t i = 0; i < dir->tensors; i++) {
    const mt_io_entry *e = &dir->entry[i];
    uint64_t align = e->bytes >= dir->page ? dir->page : MT2_ALIGN;
    mt_shown(e->name, shown, sizeof(shown));
    if (e->offset > dir->offset || e->bytes > dir->offset - e->offset) {
      return mt_source_corrupt(source, "data_offset", dir->offset,
                               "tensor '%s': %llu bytes at %llu: expected the end before the "
                               "directory at %llu",
                               shown, (unsigned long long)e->bytes, (unsigned long long)e->offset,
                               (unsigned long long)dir->offset);
    }
    if (e->offset % align != 0 || e->offset < end || e->offset - end >= room) {
      return mt_source_corrupt(source, "data_offset", dir->offset,
                               "tensor '%s': %llu: expected a multiple of %llu, less than a page "
                               "of %u behind %llu",
                               shown, (unsigned long long)e->offset, (unsigned long long)align,
                               dir->page, (unsigned long long)end);
    }
    end = e->offset + e->bytes;
    MT_TRY(mt_table_add(&dir->archive->table, e));
  }
  if (dir->offset - end >= room) {
    return mt_source_corrupt(source, "dir_offset", MT2_AT_DIR_OFFSET,
                             "%llu: expected less than a page of %u behind %llu",
                             (unsigned long long)dir->offset, dir->page, (unsigned long long)end);
  }
  return MT_OK;
}

/* ---- metadata -------------------------------------------------------------------------- */

static mt_status read_text(mt_dir *dir) {
  const char *key, *value;
  MT_TRY(open_record(dir, MT2_TEXT_HEADER));
  const unsigned char *r = record(dir);
  unsigned type = mt_get_u16(r + MT2_TEXT_TYPE);
  uint32_t key_bytes = mt_get_u16(r + MT2_TEXT_KEY_BYTES);
  uint32_t value_bytes = mt_get_u32(r + MT2_TEXT_VALUE_BYTES);
  if (type != MT2_TEXT && dir->minor > 0) { /* a type of a later minor version */
    dir->at += mt_get_u32(r + MT2_REC_BYTES);
    return MT_OK;
  }
  if (type != MT2_TEXT) {
    return dir_corrupt(dir, "type", MT2_TEXT_TYPE, "%u: expected %d", type, MT2_TEXT);
  }
  if (key_bytes > MT_NAME_BYTES) {
    return dir_corrupt(dir, "key_bytes", MT2_TEXT_KEY_BYTES, "%u: expected 0 .. %d", key_bytes,
                       MT_NAME_BYTES);
  }
  uint64_t value_at = MT2_TEXT_HEADER + key_bytes;
  MT_TRY(take_text(dir, "key", MT2_TEXT_HEADER, key_bytes, &key));
  MT_TRY(take_text(dir, "value", value_at, value_bytes, &value));
  mt_status status = mt_table_add_text(&dir->archive->table, key, value);
  if (status == MT_ERR_INVALID_ARGUMENT) {
    char shown[MT_SHOWN_BYTES];
    return dir_corrupt(dir, "key", MT2_TEXT_HEADER, "'%s' is there twice",
                       mt_shown(key, shown, sizeof(shown)));
  }
  MT_TRY(status);
  return close_record(dir, value_at + value_bytes);
}

static mt_status read_texts(mt_dir *dir) {
  for (uint32_t i = 0; i < dir->texts; i++) {
    MT_TRY(read_text(dir));
  }
  if (dir->at != dir->bytes) {
    return dir_corrupt(dir, "dir_bytes", 0, "%u bytes behind the last record: expected none",
                       dir->bytes - dir->at);
  }
  return MT_OK;
}

static mt_status read_all(mt_dir *dir) {
  unsigned char s[MT2_SUPERBLOCK];
  const mt_source *source = &dir->archive->source;
  MT_TRY(mt_source_read(source, "superblock", 0, s, sizeof(s)));
  MT_TRY(check_magic(source, s));
  MT_TRY(check_version(source, s));
  dir->minor = mt_get_u16(s + MT2_AT_MINOR);
  MT_TRY(check_start(source, s, dir));
  MT_TRY(check_extent(source, s, dir));
  MT_TRY(load_directory(source, s, dir));
  MT_TRY(read_formats(dir));
  MT_TRY(read_tensors(dir));
  MT_TRY(place_tensors(dir));
  return read_texts(dir);
}

mt_status mt_read_mt(mt_archive *archive) {
  mt_dir dir = {.archive = archive};
  mt_status status = read_all(&dir);
  snprintf(archive->version, sizeof(archive->version), "mt %d.%u", MT2_MAJOR, dir.minor);
  archive->checksums = true;
  archive->swap = MT_HOST_BIG_ENDIAN; /* blocks are bytes on any machine */
  archive->data_start = MT2_SUPERBLOCK;
  archive->data_end = dir.minor == 0 ? dir.offset : 0;
  free(dir.data);
  free(dir.format);
  free(dir.entry);
  return status;
}
