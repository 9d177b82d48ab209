// SPDX-License-Identifier: Apache-2.0
#include "fuzz_archive.h"

#include "io/bytes.h"
#include "io/mt_file.h"

#include <xxhash.h>

/*
 * Inputs are short: a byte of flags, the first HEAD bytes of the superblock, and what comes
 * behind the superblock. The flags say what is put right before the file is opened, so that
 * changes reach the code behind the checksums.
 */
enum { HEAD = 72, FIX_SUMS = 1, FIX_SIZES = 2 };

static void fix_sizes(uint8_t *file, size_t bytes) {
  uint64_t offset = mt_get_u64(file + MT2_AT_DIR_OFFSET);
  mt_put_u64(file + MT2_AT_FILE_BYTES, bytes);
  if (offset <= bytes) {
    mt_put_u64(file + MT2_AT_DIR_BYTES, bytes - offset);
  }
}

static void fix_sums(uint8_t *file, size_t bytes) {
  uint64_t offset = mt_get_u64(file + MT2_AT_DIR_OFFSET);
  if (offset <= bytes && mt_get_u64(file + MT2_AT_DIR_BYTES) <= bytes - offset) {
    mt_put_u64(file + MT2_AT_DIR_XXH3,
               XXH3_64bits(file + offset, (size_t)mt_get_u64(file + MT2_AT_DIR_BYTES)));
  }
  mt_put_u64(file + MT2_AT_XXH3, XXH3_64bits(file, MT2_AT_XXH3));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 + HEAD) {
    fuzz_archive(data, size, MT_FILE_MT);
    return 0;
  }
  size_t rest = size - 1 - HEAD, bytes = MT2_SUPERBLOCK + rest;
  uint8_t *file = calloc(1, bytes);
  memcpy(file, data + 1, HEAD);
  memcpy(file + MT2_SUPERBLOCK, data + 1 + HEAD, rest);
  if (data[0] & FIX_SIZES) {
    fix_sizes(file, bytes);
  }
  if (data[0] & FIX_SUMS) {
    fix_sums(file, bytes);
  }
  fuzz_archive(file, bytes, MT_FILE_MT);
  free(file);
  return 0;
}
