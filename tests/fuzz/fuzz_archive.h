// SPDX-License-Identifier: Apache-2.0
/* fuzz_archive.h - what all fuzzers of file readers do with a file. */
#ifndef MT_TESTS_FUZZ_ARCHIVE_H
#define MT_TESTS_FUZZ_ARCHIVE_H

#include "io/archive.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold of anything that opens. */
static inline void fuzz_require(int condition) {
  if (!condition) {
    abort();
  }
}

static inline void fuzz_entry(mt_archive *archive, size_t index, size_t size) {
  mt_archive_entry entry;
  mt_tensor *tensor;
  size_t found;
  fuzz_require(mt_archive_entry_at(archive, index, &entry) == MT_OK);
  fuzz_require(entry.offset <= size && entry.bytes <= size - entry.offset);
  fuzz_require(entry.rank >= 0 && entry.rank <= MT_MAX_RANK);
  fuzz_require(entry.stored_as != NULL && strlen(entry.name) <= 1024);
  fuzz_require(mt_archive_find(archive, entry.name, &found) == MT_OK && found == index);
  mt_status status = mt_archive_read(archive, index, &tensor);
  if (status == MT_OK) {
    fuzz_require(mt_tensor_bytes(tensor) == entry.bytes);
    fuzz_require(mt_tensor_dtype(tensor) == entry.dtype && mt_tensor_rank(tensor) == entry.rank);
    for (int i = 0; i < entry.rank; i++) {
      fuzz_require(mt_tensor_shape(tensor)[i] == entry.shape[i]);
    }
  } else {
    fuzz_require(status == MT_ERR_CORRUPT || status == MT_ERR_UNSUPPORTED);
    fuzz_require(mt_last_error()[0] != 0);
  }
  mt_tensor_release(&tensor);
}

static inline void fuzz_archive(const uint8_t *data, size_t size, mt_file_type type) {
  mt_archive *archive;
  mt_status status = mt_archive_open_memory(data, size, type, &archive);
  if (status != MT_OK) {
    fuzz_require(status == MT_ERR_CORRUPT || status == MT_ERR_UNSUPPORTED);
    fuzz_require(archive == NULL && mt_last_error()[0] != 0);
    return;
  }
  for (size_t i = 0; i < mt_archive_count(archive); i++) {
    fuzz_entry(archive, i, size);
  }
  for (size_t i = 0; i < mt_archive_metadata_count(archive); i++) {
    const char *key, *value;
    fuzz_require(mt_archive_metadata_at(archive, i, &key, &value) == MT_OK && key && value);
  }
  mt_archive_verify(archive);
  mt_archive_close(&archive);
}

#endif
