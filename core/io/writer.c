// SPDX-License-Identifier: Apache-2.0
/* writer.c - files of any type: adding tensors, committing. */
#include "io/writer.h"

#include "checked.h"
#include "error.h"
#include "io/bytes.h"
#include "tensor_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { PIECE_BYTES = 1 << 20 };

static const mt_writer_type *const types[] = {&mt_writer_mt, &mt_writer_npy,
                                              &mt_writer_safetensors};

static const mt_writer_type *type_of(mt_file_type type) {
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    if (types[i]->type == type) {
      return types[i];
    }
  }
  return NULL;
}

mt_status mt_writer_create(const char *path, mt_file_type type, mt_writer **out) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_writer_create: out is NULL");
  }
  *out = NULL;
  if (!path) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_writer_create: path is NULL");
  }
  if (!type_of(type)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: file type %d: expected mt, npy or safetensors",
                   path, (int)type);
  }
  mt_writer *writer = calloc(1, sizeof(*writer));
  if (!writer) {
    return mt_fail_memory(sizeof(*writer), "a writer");
  }
  mt_status status = mt_atomic_open(path, &writer->file);
  if (status != MT_OK) {
    free(writer);
    return status;
  }
  writer->type = type_of(type);
  if (writer->type->begin) {
    writer->type->begin(writer);
  }
  *out = writer;
  return MT_OK;
}

static void writer_free(mt_writer **writer) {
  mt_table_free(&(*writer)->table);
  free(*writer);
  *writer = NULL;
}

void mt_writer_abort(mt_writer **writer) {
  if (writer && *writer) {
    mt_atomic_abort(&(*writer)->file);
    writer_free(writer);
  }
}

mt_status mt_writer_commit(mt_writer **writer) {
  if (!writer || !*writer) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_writer_commit: writer is NULL");
  }
  mt_writer *w = *writer;
  mt_status status =
      w->failed ? mt_fail(MT_ERR_IO, "%s: an earlier tensor could not be written", w->file.path)
                : w->type->finish(w);
  if (status == MT_OK) {
    status = mt_atomic_commit(&w->file, w->position);
  } else {
    mt_atomic_abort(&w->file);
  }
  writer_free(writer);
  return status;
}

/* ---- metadata -------------------------------------------------------------------------- */

static mt_status check_text(const mt_writer *writer, const char *what, const char *text,
                            size_t most) {
  size_t n = strlen(text);
  char shown[MT_SHOWN_BYTES];
  mt_shown(text, shown, sizeof(shown));
  if (n > most) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s '%s' has %zu bytes: expected at most %zu",
                   writer->file.path, what, shown, n, most);
  }
  if (!mt_is_text(text, n)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s '%s' is not UTF-8", writer->file.path, what,
                   shown);
  }
  return MT_OK;
}

mt_status mt_writer_metadata(mt_writer *writer, const char *key, const char *value) {
  if (!writer || !key || !value) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_writer_metadata: %s is NULL",
                   !writer ? "writer"
                   : !key  ? "key"
                           : "value");
  }
  if (!writer->type->metadata) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: a .%s file holds no metadata", writer->file.path,
                   mt_file_type_name(writer->type->type));
  }
  MT_TRY(check_text(writer, "metadata key", key, MT_NAME_BYTES));
  MT_TRY(check_text(writer, "metadata", value, UINT32_MAX));
  const char *key_copy = mt_table_string(&writer->table, key, strlen(key));
  const char *value_copy = mt_table_string(&writer->table, value, strlen(value));
  if (!key_copy || !value_copy) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  mt_status status = mt_table_add_text(&writer->table, key_copy, value_copy);
  return status == MT_OK ? MT_OK : mt_fail_prefix(status, "%s", writer->file.path);
}

/* ---- the bytes of a tensor ------------------------------------------------------------- */

typedef struct mt_output {
  mt_writer *writer;
  uint64_t at;
  XXH3_state_t *hash;
  unsigned char *piece; /* PIECE_BYTES */
  mt_dtype dtype;
} mt_output;

/* On a big-endian host, data is in piece. */
static mt_status put_piece(mt_output *output, const unsigned char *data, size_t n) {
  if (output->dtype == MT_BOOL) {
    for (size_t i = 0; i < n; i++) {
      if (data[i] > 1) {
        return mt_fail(MT_ERR_INVALID_ARGUMENT, "byte 0x%02x in a bool tensor: expected 0 or 1",
                       data[i]);
      }
    }
  }
  if (MT_HOST_BIG_ENDIAN && output->dtype != MT_BLOCK) {
    mt_swap_units(output->piece, n, mt_dtype_size(output->dtype));
  }
  XXH3_64bits_update(output->hash, data, n);
  MT_TRY(mt_atomic_write(&output->writer->file, output->at, data, n));
  output->at += n;
  return MT_OK;
}

static mt_status put_contiguous(mt_output *output, mt_tensor *tensor) {
  const void *data;
  size_t bytes = mt_tensor_bytes(tensor);
  MT_TRY(mt_tensor_read(tensor, &data));
  for (size_t done = 0; done < bytes;) {
    size_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
    const unsigned char *from = (const unsigned char *)data + done;
    if (MT_HOST_BIG_ENDIAN) {
      memcpy(output->piece, from, n);
      from = output->piece;
    }
    MT_TRY(put_piece(output, from, n));
    done += n;
  }
  return MT_OK;
}

/* Any strides: cut along the first axis that is longer than 1 until the parts fit into a
 * piece, so that no second copy of a large tensor is made. */
static mt_status put_tensor(mt_output *output, mt_tensor *tensor) {
  size_t bytes = mt_tensor_bytes(tensor);
  if (mt_tensor_is_contiguous(tensor)) {
    return put_contiguous(output, tensor);
  }
  if (bytes <= PIECE_BYTES) {
    MT_TRY(mt_tensor_get(tensor, output->piece, bytes));
    return put_piece(output, output->piece, bytes);
  }
  int axis = 0;
  while (mt_tensor_shape(tensor)[axis] == 1) {
    axis++;
  }
  int64_t extent = mt_tensor_shape(tensor)[axis];
  int64_t lines = (int64_t)(PIECE_BYTES / (bytes / (size_t)extent + 1));
  if (axis == mt_tensor_block_axis(tensor)) { /* whole blocks */
    int64_t block = mt_format_block_elements(mt_tensor_format(tensor));
    lines = lines / block * block;
    lines = lines < block ? block : lines;
  }
  lines = lines < 1 ? 1 : lines;
  for (int64_t first = 0; first < extent; first += lines) {
    int64_t stop = extent - first < lines ? extent : first + lines;
    mt_tensor *part;
    MT_TRY(mt_tensor_slice(tensor, axis, first, stop, 1, &part));
    mt_status status = put_tensor(output, part);
    mt_tensor_release(&part);
    MT_TRY(status);
  }
  return MT_OK;
}

static mt_status put_data(mt_writer *writer, mt_tensor *tensor, mt_io_entry *entry) {
  mt_output output = {.writer = writer, .at = writer->position, .dtype = entry->dtype};
  output.hash = XXH3_createState();
  output.piece = malloc(PIECE_BYTES);
  mt_status status = MT_OK;
  if (!output.hash || !output.piece) {
    status = mt_fail_memory(PIECE_BYTES, "writing a tensor");
  } else {
    XXH3_64bits_reset(output.hash);
    status = put_tensor(&output, tensor);
    entry->checksum = XXH3_64bits_digest(output.hash);
    entry->offset = writer->position;
    writer->position = output.at;
  }
  XXH3_freeState(output.hash);
  free(output.piece);
  return status;
}

/* ---- adding ---------------------------------------------------------------------------- */

static mt_status check_new(const mt_writer *writer, const char *name, const mt_tensor *tensor) {
  size_t index;
  char shown[MT_SHOWN_BYTES];
  MT_TRY(check_text(writer, "tensor name", name, MT_NAME_BYTES));
  if (mt_table_find(&writer->table, name, &index)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: tensor '%s' is there already", writer->file.path,
                   mt_shown(name, shown, sizeof(shown)));
  }
  int axis = mt_tensor_block_axis(tensor);
  if (axis >= 0 && axis != mt_tensor_rank(tensor) - 1) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "%s: tensor '%s' has its blocks along axis %d: expected the last one (permute "
                   "it back, or decode it)",
                   writer->file.path, mt_shown(name, shown, sizeof(shown)), axis);
  }
  return MT_OK;
}

static mt_status add(mt_writer *writer, const char *name, mt_tensor *tensor) {
  mt_io_entry entry = {
      .name = mt_table_string(&writer->table, name, strlen(name)),
      .shape = mt_table_shape(&writer->table, mt_tensor_rank(tensor), mt_tensor_shape(tensor)),
      .format = mt_tensor_format(tensor),
      .dtype = mt_tensor_dtype(tensor),
      .rank = mt_tensor_rank(tensor),
      .bytes = mt_tensor_bytes(tensor),
  };
  if (!entry.name || !entry.shape) {
    return MT_ERR_OUT_OF_MEMORY;
  }
  MT_TRY(writer->type->place(writer, &entry));
  mt_status status = put_data(writer, tensor, &entry);
  if (status == MT_OK) {
    status = mt_table_add(&writer->table, &entry);
  }
  writer->failed = status != MT_OK;
  return status;
}

mt_status mt_writer_add(mt_writer *writer, const char *name, mt_tensor *tensor) {
  char shown[MT_SHOWN_BYTES];
  if (!writer || !name || !tensor) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_writer_add: %s is NULL",
                   !writer ? "writer"
                   : !name ? "name"
                           : "tensor");
  }
  if (writer->failed) {
    return mt_fail(MT_ERR_IO, "%s: an earlier tensor could not be written", writer->file.path);
  }
  MT_TRY(check_new(writer, name, tensor));
  mt_status status = add(writer, name, tensor);
  return status == MT_OK
             ? MT_OK
             : mt_fail_prefix(status, "tensor '%s'", mt_shown(name, shown, sizeof(shown)));
}

mt_status mt_save(const char *path, mt_tensor *tensor) {
  mt_writer *writer;
  if (!path || !tensor) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_save: %s is NULL", path ? "tensor" : "path");
  }
  mt_file_type type = mt_file_type_from_path(path);
  if (type == MT_FILE_UNKNOWN) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: expected a name that ends in .mt, .npy or "
                   ".safetensors",
                   path);
  }
  MT_TRY(mt_writer_create(path, type, &writer));
  mt_status status = mt_writer_add(writer, "tensor", tensor);
  if (status != MT_OK) {
    mt_writer_abort(&writer);
    return status;
  }
  return mt_writer_commit(&writer);
}
