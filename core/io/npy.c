// SPDX-License-Identifier: Apache-2.0
/*
 * npy.c - NumPy's .npy, versions 1.0 to 3.0.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 *
 * The header is a Python literal; what is read of it is the dictionary with exactly the
 * keys descr, fortran_order and shape that the description demands.
 */
#include "io/archive.h"
#include "io/writer.h"

#include "error.h"
#include "io/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NPY_MAGIC "\x93NUMPY"

enum {
  NPY_MAGIC_BYTES = 6,
  NPY_HEADER_MAX = 1 << 20,
  NPY_DESCR_MAX = 64,
  NPY_ALIGN = 64,
  NPY_GROWTH = 21
};

static const struct {
  const char *code; /* behind the byte order */
  mt_dtype dtype;
} npy_types[] = {
    {"f2", MT_F16}, {"f4", MT_F32}, {"f8", MT_F64}, {"i1", MT_I8},   {"u1", MT_U8},
    {"i2", MT_I16}, {"i4", MT_I32}, {"i8", MT_I64}, {"b1", MT_BOOL},
};

enum { NPY_TYPES = sizeof(npy_types) / sizeof(npy_types[0]) };

/* ---- the header's literal -------------------------------------------------------------- */

typedef struct npy_header {
  const mt_source *source;
  const char *text;
  size_t bytes, at;
  uint64_t offset; /* of text in the file */
  char descr[NPY_DESCR_MAX];
  bool fortran;
  int rank;
  int64_t shape[MT_MAX_RANK];
  bool has_descr, has_fortran, has_shape;
} npy_header;

#define npy_corrupt(h, field, ...)                                                                 \
  mt_source_corrupt((h)->source, field, (h)->offset + (h)->at, __VA_ARGS__)

static void skip_space(npy_header *h) {
  while (h->at < h->bytes && strchr(" \t\r\n\f\v", h->text[h->at]) && h->text[h->at]) {
    h->at++;
  }
}

static bool next_is(npy_header *h, char c) {
  skip_space(h);
  return h->at < h->bytes && h->text[h->at] == c;
}

static bool take(npy_header *h, char c) {
  bool there = next_is(h, c);
  h->at += there;
  return there;
}

static mt_status expect(npy_header *h, const char *field, char c) {
  return take(h, c) ? MT_OK : npy_corrupt(h, field, "expected '%c'", c);
}

static bool take_word(npy_header *h, const char *word) {
  size_t n = strlen(word);
  skip_space(h);
  if (h->bytes - h->at < n || memcmp(h->text + h->at, word, n) != 0) {
    return false;
  }
  h->at += n;
  return true;
}

/* 'text' or "text", plain characters only. */
static mt_status take_string(npy_header *h, const char *field, char *out, size_t size) {
  char quote = take(h, '\'') ? '\'' : take(h, '"') ? '"' : 0;
  size_t n = 0;
  if (!quote) {
    return npy_corrupt(h, field, "expected a string");
  }
  for (; h->at < h->bytes && h->text[h->at] != quote; h->at++) {
    char c = h->text[h->at];
    if (c < ' ' || c > '~' || c == '\\' || n + 1 >= size) {
      return npy_corrupt(h, field, "expected a string of less than %zu plain characters", size);
    }
    out[n++] = c;
  }
  out[n] = 0;
  return expect(h, field, quote);
}

/* A structured type, [('a', '<f4'), ...], for the message. */
static mt_status refuse_list(npy_header *h) {
  char text[NPY_DESCR_MAX];
  size_t n = h->bytes - h->at < sizeof(text) - 1 ? h->bytes - h->at : sizeof(text) - 1;
  memcpy(text, h->text + h->at, n);
  text[n] = 0;
  if (strchr(text, ']')) { /* the rest is other keys */
    strchr(text, ']')[1] = 0;
  }
  char shown[MT_SHOWN_BYTES];
  return mt_source_unsupported(h->source, "descr", h->offset + h->at, "structured type %s",
                               mt_shown(text, shown, sizeof(shown)));
}

static mt_status take_extent(npy_header *h, int64_t *out) {
  int64_t value = 0;
  size_t digits = 0;
  skip_space(h);
  for (; h->at < h->bytes && h->text[h->at] >= '0' && h->text[h->at] <= '9'; h->at++, digits++) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, h->text[h->at] - '0', &value)) {
      return npy_corrupt(h, "shape", "an extent of 2^63 or more");
    }
  }
  if (digits == 0) {
    return npy_corrupt(h, "shape", "expected digits");
  }
  if (h->at < h->bytes && h->text[h->at] == 'L') { /* a long of Python 2 */
    h->at++;
  }
  *out = value;
  return MT_OK;
}

static mt_status take_shape(npy_header *h) {
  bool comma = true;
  h->rank = 0;
  MT_TRY(expect(h, "shape", '('));
  while (!next_is(h, ')')) {
    if (!comma) {
      return npy_corrupt(h, "shape", "expected ',' or ')'");
    }
    if (h->rank == MT_MAX_RANK) {
      return mt_source_unsupported(h->source, "shape", h->offset + h->at, "more than %d axes",
                                   MT_MAX_RANK);
    }
    MT_TRY(take_extent(h, &h->shape[h->rank++]));
    comma = take(h, ',');
  }
  if (h->rank == 1 && !comma) {
    return npy_corrupt(h, "shape", "a number in brackets: expected a tuple, as in '(3,)'");
  }
  return expect(h, "shape", ')');
}

static mt_status take_pair(npy_header *h) {
  char key[16];
  MT_TRY(take_string(h, "header", key, sizeof(key)));
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
               : strcmp(key, "fortran_order") == 0 ? &h->has_fortran
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (!seen || *seen) {
    return npy_corrupt(h, "header", "key '%s': expected descr, fortran_order and shape, once each",
                       key);
  }
  *seen = true;
  MT_TRY(expect(h, key, ':'));
  if (seen == &h->has_shape) {
    return take_shape(h);
  }
  if (seen == &h->has_descr) {
    return next_is(h, '[') ? refuse_list(h) : take_string(h, key, h->descr, sizeof(h->descr));
  }
  h->fortran = take_word(h, "True");
  return h->fortran || take_word(h, "False") ? MT_OK
                                             : npy_corrupt(h, key, "expected True or False");
}

static mt_status parse_header(npy_header *h) {
  bool comma = true;
  MT_TRY(expect(h, "header", '{'));
  while (!next_is(h, '}')) {
    if (!comma) {
      return npy_corrupt(h, "header", "expected ',' or '}'");
    }
    MT_TRY(take_pair(h));
    comma = take(h, ',');
  }
  MT_TRY(expect(h, "header", '}'));
  if (!h->has_descr || !h->has_fortran || !h->has_shape) {
    return npy_corrupt(h, "header", "no key '%s'",
                       !h->has_descr     ? "descr"
                       : !h->has_fortran ? "fortran_order"
                                         : "shape");
  }
  skip_space(h);
  return h->at == h->bytes ? MT_OK : npy_corrupt(h, "header", "expected spaces up to its end");
}

/* ---- reading --------------------------------------------------------------------------- */

static mt_status set_type(mt_archive *archive, const npy_header *h, mt_io_entry *entry) {
  char order = h->descr[0];
  for (size_t i = 0; i < NPY_TYPES; i++) {
    if (order && strchr("<>=|", order) && strcmp(h->descr + 1, npy_types[i].code) == 0) {
      entry->dtype = npy_types[i].dtype;
    }
  }
  if (entry->dtype == MT_DTYPE_NONE) {
    return mt_source_unsupported(&archive->source, "descr", h->offset,
                                 "'%s': expected one of f2 f4 f8 i1 u1 i2 i4 i8 b1 behind <, > or "
                                 "|",
                                 h->descr);
  }
  bool big = order == '>' || (order != '<' && MT_HOST_BIG_ENDIAN);
  archive->swap = big != (MT_HOST_BIG_ENDIAN == 1) && mt_dtype_size(entry->dtype) > 1;
  entry->stored = mt_table_string(&archive->table, h->descr, strlen(h->descr));
  return entry->stored ? MT_OK : MT_ERR_OUT_OF_MEMORY;
}

static mt_status add_array(mt_archive *archive, const npy_header *h) {
  mt_io_entry entry = {.name = "", .rank = h->rank};
  MT_TRY(set_type(archive, h, &entry));
  entry.shape = mt_table_shape(&archive->table, h->rank, h->shape);
  if (!entry.shape) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  entry.offset = h->offset + h->bytes;
  entry.bytes = archive->source.size - entry.offset;
  MT_TRY(mt_entry_size(archive, &entry, "shape", entry.offset));
  archive->fortran = h->fortran && h->rank > 1;
  return mt_table_add(&archive->table, &entry);
}

/* Where the header is; version and length are checked. */
static mt_status find_header(mt_archive *archive, npy_header *h) {
  const mt_source *source = &archive->source;
  unsigned char head[NPY_MAGIC_BYTES + 6];
  MT_TRY(mt_source_read(source, "magic", 0, head, NPY_MAGIC_BYTES + 4));
  if (memcmp(head, NPY_MAGIC, NPY_MAGIC_BYTES) != 0) {
    return mt_source_corrupt(source, "magic", 0, "no .npy file");
  }
  unsigned major = head[NPY_MAGIC_BYTES], minor = head[NPY_MAGIC_BYTES + 1];
  if (major < 1 || major > 3 || minor != 0) {
    return mt_source_unsupported(source, "version", NPY_MAGIC_BYTES,
                                 "%u.%u: expected 1.0, 2.0 or 3.0", major, minor);
  }
  size_t width = major == 1 ? 2 : 4, at = NPY_MAGIC_BYTES + 2;
  MT_TRY(mt_source_read(source, "header_len", at, head + at, width));
  h->source = source;
  h->bytes = mt_get_le(head + at, (int)width);
  h->offset = at + width;
  if (h->bytes > NPY_HEADER_MAX || h->bytes > source->size - h->offset) {
    return mt_source_corrupt(source, "header_len", at,
                             "%zu: expected at most %d, in a file of %llu bytes", h->bytes,
                             NPY_HEADER_MAX, (unsigned long long)source->size);
  }
  snprintf(archive->version, sizeof(archive->version), "npy %u.%u", major, minor);
  return MT_OK;
}

mt_status mt_read_npy(mt_archive *archive) {
  npy_header h = {0};
  MT_TRY(find_header(archive, &h));
  char *text = malloc(h.bytes + 1);
  if (!text) {
    return mt_fail_memory(h.bytes, "the header of a .npy file");
  }
  h.text = text;
  mt_status status = mt_source_read(&archive->source, "header", h.offset, text, h.bytes);
  if (status == MT_OK) {
    status = parse_header(&h);
  }
  if (status == MT_OK) {
    status = add_array(archive, &h);
  }
  if (h.fortran) {
    strcat(archive->version, " fortran");
  }
  free(text);
  return status;
}

/* ---- writing --------------------------------------------------------------------------- */

/* As numpy writes it, so that the same array gives the same file: with room behind it for
 * the first extent to grow to NPY_GROWTH digits in place. NUL-terminated; returns the length. */
static size_t format_header(const mt_io_entry *entry, char *text, size_t size) {
  size_t n = (size_t)snprintf(text, size, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                              entry->stored);
  for (int i = 0; i < entry->rank; i++) {
    n += (size_t)snprintf(text + n, size - n, "%s%lld%s", i ? ", " : "", (long long)entry->shape[i],
                          entry->rank == 1 ? "," : "");
  }
  n += (size_t)snprintf(text + n, size - n, "), }");
  if (entry->rank > 0) {
    int digits = snprintf(NULL, 0, "%lld", (long long)entry->shape[0]);
    n += (size_t)snprintf(text + n, size - n, "%*s", NPY_GROWTH - digits, "");
  }
  return n;
}

static const char *npy_descr(mt_writer *writer, mt_dtype dtype) {
  for (size_t i = 0; i < NPY_TYPES; i++) {
    if (npy_types[i].dtype == dtype) {
      char descr[8];
      int n = snprintf(descr, sizeof(descr), "%c%s", mt_dtype_size(dtype) > 1 ? '<' : '|',
                       npy_types[i].code);
      return mt_table_string(&writer->table, descr, (size_t)n);
    }
  }
  return NULL;
}

static mt_status place(mt_writer *writer, mt_io_entry *entry) {
  /* 16 axes of 19 digits and their commas leave room: version 1.0 always fits. */
  char file[NPY_MAGIC_BYTES + 4 + 512 + NPY_ALIGN] = NPY_MAGIC "\x01";
  const size_t at = NPY_MAGIC_BYTES + 4;
  if (writer->table.count > 0) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: a .npy file holds one tensor", writer->file.path);
  }
  if (entry->dtype == MT_BF16 || entry->dtype == MT_BLOCK) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "%s: a .npy file holds no %s: cast to f32 first, or write .mt%s",
                   writer->file.path,
                   entry->format ? mt_format_id(entry->format) : mt_dtype_name(entry->dtype),
                   entry->format ? "" : " or .safetensors");
  }
  entry->stored = npy_descr(writer, entry->dtype);
  if (!entry->stored) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  size_t used = at + format_header(entry, file + at, sizeof(file) - at);
  size_t end = (used + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
  memset(file + used, ' ', end - used);
  file[end - 1] = '\n';
  mt_put_u16((unsigned char *)file + at - 2, (uint16_t)(end - at));
  writer->position = end;
  return mt_atomic_write(&writer->file, 0, file, end);
}

static mt_status finish(mt_writer *writer) {
  return writer->table.count == 1
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: a .npy file holds one tensor: none was added",
                       writer->file.path);
}

const mt_writer_type mt_writer_npy = {MT_FILE_NPY, false, NULL, place, finish};
