// SPDX-License-Identifier: Apache-2.0
/* mt_file.h - numbers of .mt version 2. docs/mt-format.md is the description. */
#ifndef MT_IO_MT_FILE_H
#define MT_IO_MT_FILE_H

enum {
  MT2_MAJOR = 2,
  MT2_MINOR = 0,
  MT2_SUPERBLOCK = 4096, /* bytes, at the start of the file */
  MT2_PAGE = 4096,       /* alignment of tensors of at least this size, when written */
  MT2_PAGE_MAX = 2 << 20,
  MT2_ALIGN = 64, /* of smaller ones, and of the directory */
  MT2_DIRECTORY_MAX = 64 << 20,
  MT2_RECORD_ALIGN = 8,
  MT2_TEXT = 1,            /* type of a metadata record: UTF-8 */
  MT2_BLOCK_MAX = 1 << 20, /* elements or bytes of a block */
};

#define MT2_MAGIC "\x89MEC\r\n\x1a\n"

/* Superblock: offsets of the fields. */
enum {
  MT2_AT_MAGIC = 0,
  MT2_AT_MAJOR = 8,
  MT2_AT_MINOR = 10,
  MT2_AT_SUPERBLOCK = 12,
  MT2_AT_REQUIRED = 16,
  MT2_AT_OPTIONAL = 24,
  MT2_AT_FILE_BYTES = 32,
  MT2_AT_DIR_OFFSET = 40,
  MT2_AT_DIR_BYTES = 48,
  MT2_AT_DIR_XXH3 = 56,
  MT2_AT_PAGE = 64,
  MT2_AT_XXH3 = 4088, /* of the bytes before it */
};

/* Directory: the header, then records of formats, tensors and metadata. Offsets of the
 * fields, each record from its own start. */
enum {
  MT2_DIR_TENSORS = 0,
  MT2_DIR_TEXTS = 4,
  MT2_DIR_FORMATS = 8,
  MT2_DIR_HEADER = 16,

  MT2_REC_BYTES = 0, /* of all records */

  MT2_FORMAT_ELEMENTS = 4,
  MT2_FORMAT_BYTES = 8,
  MT2_FORMAT_ID_BYTES = 12,
  MT2_FORMAT_HEADER = 16,

  MT2_TENSOR_NAME_BYTES = 4,
  MT2_TENSOR_DTYPE = 6,
  MT2_TENSOR_RANK = 7,
  MT2_TENSOR_ORDER = 8,
  MT2_TENSOR_FORMAT = 12,
  MT2_TENSOR_OFFSET = 16,
  MT2_TENSOR_BYTES = 24,
  MT2_TENSOR_XXH3 = 32,
  MT2_TENSOR_HEADER = 40,

  MT2_TEXT_TYPE = 4,
  MT2_TEXT_KEY_BYTES = 6,
  MT2_TEXT_VALUE_BYTES = 8,
  MT2_TEXT_HEADER = 16,
};

#endif
