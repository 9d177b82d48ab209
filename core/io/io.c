// SPDX-License-Identifier: Apache-2.0
/* io.c - archives of any type: opening, asking, reading, checking. */
#include "../sized.h"
#include "io/archive.h"

#include "error.h"
#include "io/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* READ: fresh memory is filled faster by few large reads. Multiples of any element. */
enum { HEAD_BYTES = 16, CHUNK_BYTES = 1 << 20, READ_BYTES = 16 << 20 };

/* ---- types ----------------------------------------------------------------------------- */

static bool looks_like_mt(const unsigned char *head, size_t n) {
  return n >= 4 && memcmp(head, "\x89MEC", 4) == 0; /* the rest tells damage, not type */
}

static bool looks_like_npy(const unsigned char *head, size_t n) {
  return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

/* A length, then JSON that starts with '{'. */
static bool looks_like_safetensors(const unsigned char *head, size_t n) {
  return n >= 9 && head[8] == '{' && mt_get_u64(head) <= UINT32_MAX;
}

static const struct {
  mt_file_type type;
  const char *name, *ending;
  bool (*looks_like)(const unsigned char *head, size_t n);
  mt_status (*read)(mt_archive *archive);
} types[] = {
    {MT_FILE_MT, "mt", ".mt", looks_like_mt, mt_read_mt},
    {MT_FILE_NPY, "npy", ".npy", looks_like_npy, mt_read_npy},
    {MT_FILE_SAFETENSORS, "safetensors", ".safetensors", looks_like_safetensors,
     mt_read_safetensors},
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

const char *mt_file_type_name(mt_file_type type) {
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (types[i].type == type) {
      return types[i].name;
    }
  }
  return "unknown";
}

mt_file_type mt_file_type_from_path(const char *path) {
  size_t length = path ? strlen(path) : 0;
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    size_t ending = strlen(types[i].ending);
    if (length >= ending && strcmp(path + length - ending, types[i].ending) == 0) {
      return types[i].type;
    }
  }
  return MT_FILE_UNKNOWN;
}

static mt_status tell_type(const mt_source *source, mt_file_type *type) {
  unsigned char head[HEAD_BYTES];
  size_t n = source->size < sizeof(head) ? (size_t)source->size : sizeof(head);
  MT_TRY(mt_source_read(source, "magic", 0, head, n));
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (types[i].looks_like(head, n)) {
      *type = types[i].type;
      return MT_OK;
    }
  }
  if (n >= 8 && memcmp(head, "MECAN_MT", 8) == 0) {
    return mt_source_unsupported(source, "magic", 0, "a .mt file of version 1: expected version 2");
  }
  *type = mt_file_type_from_path(source->path); /* its reader says what is wrong */
  return *type != MT_FILE_UNKNOWN
             ? MT_OK
             : mt_source_corrupt(source, "magic", 0, "no .mt, .npy or .safetensors file");
}

/* ---- opening --------------------------------------------------------------------------- */

static mt_status read_directory(mt_archive *archive) {
  if (archive->type == MT_FILE_UNKNOWN) {
    MT_TRY(tell_type(&archive->source, &archive->type));
  }
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (types[i].type == archive->type) {
      return types[i].read(archive);
    }
  }
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "file type %d: expected mt, npy or safetensors",
                 (int)archive->type);
}

static mt_status archive_open(const char *path, const void *data, size_t size, mt_file_type type,
                              mt_archive **out) {
  mt_archive *archive = calloc(1, sizeof(*archive));
  if (!archive) {
    return mt_fail_memory(sizeof(*archive), "an archive");
  }
  archive->type = type;
  archive->source.fd = -1;
  mt_status status = path ? mt_source_open(path, &archive->source)
                          : mt_source_from_memory(data, size, &archive->source);
  if (status == MT_OK) {
    status = read_directory(archive);
  }
  if (status != MT_OK) {
    mt_archive_close(&archive);
  }
  *out = archive;
  return status;
}

mt_status mt_archive_open(const char *path, mt_archive **out) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_archive_open: out is NULL");
  }
  *out = NULL;
  if (!path) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_archive_open: path is NULL");
  }
  return archive_open(path, NULL, 0, MT_FILE_UNKNOWN, out);
}

mt_status mt_archive_open_memory(const void *data, size_t size, mt_file_type type,
                                 mt_archive **out) {
  return archive_open(NULL, data, size, type, out);
}

void mt_archive_close(mt_archive **archive) {
  if (!archive || !*archive) {
    return;
  }
  mt_source_close(&(*archive)->source);
  mt_table_free(&(*archive)->table);
  free(*archive);
  *archive = NULL;
}

/* ---- for the readers ------------------------------------------------------------------- */

mt_status mt_entry_layout(const mt_archive *archive, const mt_io_entry *entry, const char *field,
                          uint64_t at, mt_layout *out) {
  mt_status status =
      mt_layout_packed("tensor", entry->dtype, entry->format, entry->rank, entry->shape, out);
  if (status != MT_OK) {
    char reason[256];
    snprintf(reason, sizeof(reason), "%s", mt_last_error());
    return mt_source_corrupt(&archive->source, field, at, "%s", reason);
  }
  return MT_OK;
}

mt_status mt_entry_size(const mt_archive *archive, const mt_io_entry *entry, const char *field,
                        uint64_t at) {
  mt_layout layout;
  MT_TRY(mt_entry_layout(archive, entry, field, at, &layout));
  if (entry->bytes != layout.bytes) {
    char shape[MT_DESCRIBE_BYTES];
    return mt_source_corrupt(
        &archive->source, field, at, "%llu bytes of data: expected %zu for %s of %s",
        (unsigned long long)entry->bytes, layout.bytes,
        mt_shape_describe(entry->rank, entry->shape, shape, sizeof(shape)), entry->stored);
  }
  return MT_OK;
}

/* ---- asking ---------------------------------------------------------------------------- */

mt_file_type mt_archive_type(const mt_archive *archive) {
  return archive ? archive->type : MT_FILE_UNKNOWN;
}

const char *mt_archive_version(const mt_archive *archive) {
  return archive ? archive->version : NULL;
}

size_t mt_archive_count(const mt_archive *archive) {
  return archive ? archive->table.count : 0;
}

size_t mt_archive_metadata_count(const mt_archive *archive) {
  return archive ? archive->table.text_count : 0;
}

static mt_status get_entry(const char *function, const mt_archive *archive, size_t index,
                           const void *out, const mt_io_entry **entry) {
  if (!archive || !out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                   archive ? "the output" : "archive");
  }
  if (index >= archive->table.count) {
    return mt_fail(MT_ERR_NOT_FOUND, "%s: no tensor %zu: it has %zu", archive->source.path, index,
                   archive->table.count);
  }
  *entry = &archive->table.entries[index];
  return MT_OK;
}

mt_status mt_archive_entry_at_sized(const mt_archive *archive, size_t index,
                                    mt_archive_entry *entry, size_t bytes) {
  const mt_io_entry *e = NULL;
  if (entry) {
    memset(entry, 0, bytes);
  }
  MT_TRY(get_entry("mt_archive_entry_at", archive, index, entry, &e));
  mt_archive_entry known = {
      .name = e->name,
      .dtype = e->dtype,
      .format = e->format,
      .rank = e->rank,
      .shape = e->shape,
      .offset = e->offset,
      .bytes = e->bytes,
      .stored_as = e->stored,
  };
  mt_fill_sized(entry, bytes, &known, sizeof(known));
  return MT_OK;
}

mt_status mt_archive_metadata_at(const mt_archive *archive, size_t index, const char **key,
                                 const char **value) {
  if (!archive || !key || !value) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_archive_metadata_at: %s is NULL",
                   !archive ? "archive"
                   : !key   ? "key"
                            : "value");
  }
  *key = *value = NULL;
  if (index >= archive->table.text_count) {
    return mt_fail(MT_ERR_NOT_FOUND, "%s: no metadata %zu: it has %zu", archive->source.path, index,
                   archive->table.text_count);
  }
  *key = archive->table.texts[index].key;
  *value = archive->table.texts[index].value;
  return MT_OK;
}

/* ---- finding --------------------------------------------------------------------------- */

/* How much of the two is the same at the front and at the back. */
static size_t likeness(const char *a, const char *b) {
  size_t front = 0, back = 0, la = strlen(a), lb = strlen(b);
  while (front < la && front < lb && a[front] == b[front]) {
    front++;
  }
  while (back + front < la && back + front < lb && a[la - 1 - back] == b[lb - 1 - back]) {
    back++;
  }
  return front + back;
}

enum { LISTED = 6 };

/* Up to LISTED names, the ones most like name first, quoted into text. */
static void list_names(const mt_io_table *table, const char *name, char *text, size_t size) {
  size_t best[LISTED], score[LISTED], n = 0, at = 0;
  for (size_t i = 0; i < table->count; i++) {
    size_t like = likeness(table->entries[i].name, name);
    size_t place = n < LISTED ? n++ : LISTED;
    while (place > 0 && score[place - 1] < like) {
      if (place < LISTED) {
        best[place] = best[place - 1];
        score[place] = score[place - 1];
      }
      place--;
    }
    if (place < LISTED) {
      best[place] = i;
      score[place] = like;
    }
  }
  text[0] = 0;
  for (size_t i = 0; i < n && at < size; i++) {
    char shown[MT_SHOWN_BYTES];
    at += (size_t)snprintf(text + at, size - at, "%s'%s'", i ? ", " : "",
                           mt_shown(table->entries[best[i]].name, shown, sizeof(shown)));
  }
  if (table->count > n && at < size) {
    snprintf(text + at, size - at, ", ...");
  }
}

mt_status mt_archive_find(const mt_archive *archive, const char *name, size_t *index) {
  if (!archive || !name || !index) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_archive_find: %s is NULL",
                   !archive ? "archive"
                   : !name  ? "name"
                            : "index");
  }
  *index = 0;
  if (mt_table_find(&archive->table, name, index)) {
    return MT_OK;
  }
  char names[512], shown[MT_SHOWN_BYTES];
  list_names(&archive->table, name, names, sizeof(names));
  return mt_fail(MT_ERR_NOT_FOUND, "%s: no tensor '%s' among its %zu%s%s", archive->source.path,
                 mt_shown(name, shown, sizeof(shown)), archive->table.count,
                 archive->table.count ? ": " : "", names);
}

/* ---- reading --------------------------------------------------------------------------- */

static mt_status check_bools(const mt_archive *archive, const mt_io_entry *entry,
                             const unsigned char *data, size_t n, uint64_t at) {
  char shown[MT_SHOWN_BYTES];
  for (size_t i = 0; i < n; i++) {
    if (data[i] > 1) {
      return mt_source_corrupt(&archive->source, "data", at + i,
                               "byte 0x%02x in bool tensor '%s': expected 0 or 1", data[i],
                               mt_shown(entry->name, shown, sizeof(shown)));
    }
  }
  return MT_OK;
}

static mt_status check_sum(const mt_archive *archive, const mt_io_entry *entry, uint64_t got) {
  char shown[MT_SHOWN_BYTES];
  if (got == entry->checksum) {
    return MT_OK;
  }
  return mt_source_corrupt(&archive->source, "data", entry->offset,
                           "tensor '%s' has checksum %016llx: the directory says %016llx",
                           mt_shown(entry->name, shown, sizeof(shown)), (unsigned long long)got,
                           (unsigned long long)entry->checksum);
}

/* Reads and checks the entry piece by piece: into dst, or (dst NULL) each over the last in
 * scratch, which has CHUNK_BYTES. */
static mt_status read_pieces(const mt_archive *archive, const mt_io_entry *entry,
                             unsigned char *dst, unsigned char *scratch, XXH3_state_t *hash) {
  size_t most = dst ? READ_BYTES : CHUNK_BYTES;
  for (uint64_t done = 0; done < entry->bytes;) {
    uint64_t left = entry->bytes - done;
    size_t n = left < most ? (size_t)left : most;
    unsigned char *at = dst ? dst + done : scratch;
    MT_TRY(mt_source_read(&archive->source, "data", entry->offset + done, at, n));
    if (hash) {
      XXH3_64bits_update(hash, at, n);
    }
    if (entry->dtype == MT_BOOL) {
      MT_TRY(check_bools(archive, entry, at, n, entry->offset + done));
    }
    if (archive->swap && mt_dtype_size(entry->dtype) > 1) {
      mt_swap_units(at, n, mt_dtype_size(entry->dtype));
    }
    done += n;
  }
  return hash ? check_sum(archive, entry, XXH3_64bits_digest(hash)) : MT_OK;
}

static mt_status read_data(const mt_archive *archive, const mt_io_entry *entry, unsigned char *dst,
                           unsigned char *scratch) {
  if (!archive->checksums) {
    return read_pieces(archive, entry, dst, scratch, NULL);
  }
  XXH3_state_t *hash = XXH3_createState();
  if (!hash) {
    return mt_fail(MT_ERR_OUT_OF_MEMORY, "out of memory: a checksum");
  }
  XXH3_64bits_reset(hash);
  mt_status status = read_pieces(archive, entry, dst, scratch, hash);
  XXH3_freeState(hash);
  return status;
}

/* Fortran order: the file is the row-major transpose, so the result is a view of that. */
static mt_status reverse_axes(mt_tensor **tensor) {
  int axes[MT_MAX_RANK], rank = mt_tensor_rank(*tensor);
  mt_tensor *view;
  for (int i = 0; i < rank; i++) {
    axes[i] = rank - 1 - i;
  }
  mt_status status = mt_tensor_permute(*tensor, axes, &view);
  mt_tensor_release(tensor);
  *tensor = status == MT_OK ? view : NULL;
  return status;
}

static mt_status read_tensor(const mt_archive *archive, const mt_io_entry *entry,
                             mt_tensor **tensor) {
  mt_io_entry as_stored = *entry;
  int64_t reversed[MT_MAX_RANK];
  if (archive->fortran) {
    for (int i = 0; i < entry->rank; i++) {
      reversed[i] = entry->shape[entry->rank - 1 - i];
    }
    as_stored.shape = reversed;
  }
  mt_layout layout;
  void *data;
  MT_TRY(mt_entry_layout(archive, &as_stored, "shape", entry->offset, &layout));
  MT_TRY(mt_tensor_create_lazy(&layout, tensor));
  MT_TRY(mt_tensor_write(*tensor, &data));
  MT_TRY(read_data(archive, entry, data, NULL));
  return archive->fortran ? reverse_axes(tensor) : MT_OK;
}

mt_status mt_archive_read(mt_archive *archive, size_t index, mt_tensor **out) {
  const mt_io_entry *entry = NULL;
  char shown[MT_SHOWN_BYTES];
  if (out) {
    *out = NULL;
  }
  MT_TRY(get_entry("mt_archive_read", archive, index, out, &entry));
  if (entry->dtype == MT_DTYPE_NONE) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: tensor '%s' is stored as %s: no type for that here",
                   archive->source.path, mt_shown(entry->name, shown, sizeof(shown)),
                   entry->stored);
  }
  mt_tensor *tensor = NULL;
  mt_status status = read_tensor(archive, entry, &tensor);
  if (status != MT_OK) {
    mt_tensor_release(&tensor);
  }
  *out = tensor;
  return status;
}

/* ---- checking -------------------------------------------------------------------------- */

static mt_status check_zeros(const mt_archive *archive, uint64_t from, uint64_t to,
                             unsigned char *scratch) {
  while (from < to) {
    size_t n = to - from < CHUNK_BYTES ? (size_t)(to - from) : CHUNK_BYTES;
    MT_TRY(mt_source_read(&archive->source, "padding", from, scratch, n));
    for (size_t i = 0; i < n; i++) {
      if (scratch[i] != 0) {
        return mt_source_corrupt(&archive->source, "padding", from + i, "byte 0x%02x: expected 0",
                                 scratch[i]);
      }
    }
    from += n;
  }
  return MT_OK;
}

static mt_status verify(const mt_archive *archive, unsigned char *scratch) {
  uint64_t end = archive->data_start;
  for (size_t i = 0; i < archive->table.count; i++) {
    const mt_io_entry *entry = &archive->table.entries[i];
    MT_TRY(read_data(archive, entry, NULL, scratch));
    if (archive->data_end > 0) {
      MT_TRY(check_zeros(archive, end, entry->offset, scratch));
      end = entry->offset + entry->bytes;
    }
  }
  return check_zeros(archive, end, archive->data_end, scratch);
}

mt_status mt_archive_verify(mt_archive *archive) {
  if (!archive) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_archive_verify: archive is NULL");
  }
  unsigned char *scratch = malloc(CHUNK_BYTES);
  if (!scratch) {
    return mt_fail_memory(CHUNK_BYTES, "checking a file");
  }
  mt_status status = verify(archive, scratch);
  free(scratch);
  return status;
}

/* ---- mt_load --------------------------------------------------------------------------- */

/* Cuts spec (a copy) at the last ':' that leaves a file; NULL: it is a file as a whole. */
static const char *split_spec(char *spec) {
  if (access(spec, F_OK) == 0) {
    return NULL;
  }
  for (size_t i = strlen(spec); i-- > 0;) {
    if (spec[i] == ':') {
      spec[i] = 0;
      if (access(spec, F_OK) == 0) {
        return spec + i + 1;
      }
      spec[i] = ':';
    }
  }
  return NULL;
}

static mt_status load_one(mt_archive *archive, const char *name, mt_tensor **out) {
  size_t index = 0, count = mt_archive_count(archive);
  if (name) {
    MT_TRY(mt_archive_find(archive, name, &index));
  } else if (count != 1) {
    char names[512];
    list_names(&archive->table, "", names, sizeof(names));
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: holds %zu tensors: name one as 'FILE:NAME'%s%s",
                   archive->source.path, count, count ? ": " : "", names);
  }
  return mt_archive_read(archive, index, out);
}

mt_status mt_load(const char *spec, mt_tensor **out) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_load: out is NULL");
  }
  *out = NULL;
  if (!spec) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_load: spec is NULL");
  }
  char *path = strdup(spec);
  if (!path) {
    return mt_fail_memory(strlen(spec) + 1, "a path");
  }
  const char *name = split_spec(path);
  mt_archive *archive;
  mt_status status = mt_archive_open(path, &archive);
  if (status == MT_OK) {
    status = load_one(archive, name, out);
  }
  mt_archive_close(&archive);
  free(path);
  return status;
}
