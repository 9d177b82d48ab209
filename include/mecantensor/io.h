// SPDX-License-Identifier: Apache-2.0
/*
 * io.h - tensors in files: .mt, .npy, .safetensors.
 *
 * Files are untrusted: every size is checked against the file before anything is
 * allocated, and an error (MT_ERR_CORRUPT) names the field and the byte offset. Tensors
 * come back on the host with memory of their own. Writing goes to a temporary file
 * in the same folder, synced and renamed over the target at the end: a failure
 * leaves the old file as it was. The new file keeps the old one's permissions; a symbolic
 * link stays, and the file it points to is replaced; other hard links keep the old
 * content; a write-protected file is refused. A process that is killed may leave
 * ".NAME.XXXXXXXX.tmp" behind. All calls block on the disk. An mt_archive may be read by
 * several threads at once; an mt_writer belongs to one.
 * docs/mt-format.md has the layout of .mt version 2.
 */
#ifndef MECANTENSOR_IO_H
#define MECANTENSOR_IO_H

#include <mecantensor/tensor.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_file_type {
  MT_FILE_UNKNOWN = 0,
  MT_FILE_MT = 1,
  MT_FILE_NPY = 2, /* https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
  MT_FILE_SAFETENSORS = 3, /* https://github.com/huggingface/safetensors, format section */
} mt_file_type;

MT_API const char *mt_file_type_name(mt_file_type type); /* "mt", "npy", "safetensors" */

/* By the ending of the name: ".mt", ".npy", ".safetensors"; UNKNOWN otherwise. */
MT_API mt_file_type mt_file_type_from_path(const char *path);

/* ---- reading ------------------------------------------------------------------------ */
typedef struct mt_archive mt_archive;

/* Opens any of the types, told by content. A .npy file holds one tensor, named "". */
MT_API mt_status mt_archive_open(const char *path, mt_archive **out);
MT_API void mt_archive_close(mt_archive **archive);

MT_API mt_file_type mt_archive_type(const mt_archive *archive);
/* e.g. "mt 2.0", "npy 1.0 fortran", "safetensors". Owned by the archive. */
MT_API const char *mt_archive_version(const mt_archive *archive);
MT_API size_t mt_archive_count(const mt_archive *archive);

typedef struct mt_archive_entry {
  const char *name;
  mt_dtype dtype;          /* MT_DTYPE_NONE: no type for it here; reading gives UNSUPPORTED */
  const mt_format *format; /* NULL unless MT_BLOCK */
  int rank;
  const int64_t *shape;
  uint64_t offset; /* of the data in the file */
  uint64_t bytes;
  const char *stored_as; /* the type in the file's own words: "F8_E4M3", ">f4", "q8_0" */
} mt_archive_entry;

/* In order of the file; pointers owned by the archive. NOT_FOUND past the end. */
MT_API mt_status mt_archive_entry_at_sized(const mt_archive *archive, size_t index,
                                           mt_archive_entry *entry, size_t bytes);
static inline mt_status mt_archive_entry_at(const mt_archive *archive, size_t index,
                                            mt_archive_entry *entry) {
  return mt_archive_entry_at_sized(archive, index, entry, sizeof(*entry));
}

/* Number of the tensor called name; NOT_FOUND names close or all names. */
MT_API mt_status mt_archive_find(const mt_archive *archive, const char *name, size_t *index);

/* Reads a tensor; .mt data is checked against its checksum, bools against 0 and 1. A .npy
 * file in Fortran order comes back as a view with strides (mt_contiguous() packs it). */
MT_API mt_status mt_archive_read(mt_archive *archive, size_t index, mt_tensor **out);

/* Text metadata of the file (safetensors __metadata__, .mt metadata), in order. */
MT_API size_t mt_archive_metadata_count(const mt_archive *archive);
MT_API mt_status mt_archive_metadata_at(const mt_archive *archive, size_t index, const char **key,
                                        const char **value);

/* Reads every byte of every tensor and checks what can be checked. */
MT_API mt_status mt_archive_verify(mt_archive *archive);

/* ---- writing ------------------------------------------------------------------------ */
typedef struct mt_writer mt_writer;

/* type: MT_FILE_MT, MT_FILE_NPY (exactly one tensor) or MT_FILE_SAFETENSORS. Nothing is
 * visible at path before mt_writer_commit(). */
MT_API mt_status mt_writer_create(const char *path, mt_file_type type, mt_writer **out);

/* Adds a tensor (any strides; copied out row-major). name: UTF-8, at most 1024 bytes, no
 * NUL, not used before. .npy ignores the name. Dtypes a type cannot hold: UNSUPPORTED. */
MT_API mt_status mt_writer_add(mt_writer *writer, const char *name, mt_tensor *tensor);

/* .mt and .safetensors; a key twice is INVALID_ARGUMENT. */
MT_API mt_status mt_writer_metadata(mt_writer *writer, const char *key, const char *value);

/* Finishes and renames; the writer is gone afterwards either way (*writer = NULL). */
MT_API mt_status mt_writer_commit(mt_writer **writer);

/* Gives up; removes the temporary file. NULL is fine. */
MT_API void mt_writer_abort(mt_writer **writer);

/* ---- short forms -------------------------------------------------------------------- */
/* One tensor to a file by the ending of path; the name is "tensor" where one is needed. */
MT_API mt_status mt_save(const char *path, mt_tensor *tensor);

/* "file" (it must hold exactly one tensor) or "file:name". A file that exists under the
 * whole spec wins over the split at the last ':' that leaves an existing file. */
MT_API mt_status mt_load(const char *spec, mt_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
