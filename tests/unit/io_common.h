// SPDX-License-Identifier: Apache-2.0
/* io_common.h - files in a folder of their own, and what the tests of files share. */
#ifndef MT_TESTS_IO_COMMON_H
#define MT_TESTS_IO_COMMON_H

#include "harness.h"
#include "io/archive.h"

#include <dirent.h>
#include <mecantensor/io.h>
#include <mecantensor/tensor.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static char test_folder[256];

/* A new folder; Check runs each test in a process of its own. */
static inline void make_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(test_folder, sizeof(test_folder), "%s/mt-io-XXXXXX", base ? base : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(test_folder));
}

/* How many files are in it, hidden ones too. */
static inline int count_files(void) {
  DIR *folder = opendir(test_folder);
  int n = 0;
  ck_assert_ptr_nonnull(folder);
  for (struct dirent *e; (e = readdir(folder)) != NULL;) {
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  }
  closedir(folder);
  return n;
}

static inline void remove_folder(void) {
  DIR *folder = opendir(test_folder);
  ck_assert_ptr_nonnull(folder);
  for (struct dirent *e; (e = readdir(folder)) != NULL;) {
    unlinkat(dirfd(folder), e->d_name, 0);
  }
  closedir(folder);
  ck_assert_int_eq(rmdir(test_folder), 0);
}

/* In the folder; one of four buffers in turn. */
static inline const char *in_folder(const char *name) {
  static char paths[4][512];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", test_folder, name);
  return path;
}

static inline void put_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
  ck_assert_int_eq(fclose(file), 0);
}

/* The whole file; freed by the caller. */
static inline unsigned char *get_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s cannot be opened", path);
  ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  unsigned char *data = malloc(*bytes + 1);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq(fread(data, 1, *bytes, file), *bytes);
  fclose(file);
  return data;
}

/* A copy of exactly this size, so that a sanitizer sees a read past its end. */
static inline unsigned char *exact_copy(const void *data, size_t bytes) {
  unsigned char *copy = malloc(bytes ? bytes : 1);
  ck_assert_ptr_nonnull(copy);
  memcpy(copy, data, bytes);
  return copy;
}

/* Same shape, dtype and bits. */
static inline void ck_same(mt_tensor *a, mt_tensor *b) {
  ck_assert_int_eq(mt_tensor_dtype(a), mt_tensor_dtype(b));
  ck_assert_ptr_eq(mt_tensor_format(a), mt_tensor_format(b));
  ck_assert_int_eq(mt_tensor_rank(a), mt_tensor_rank(b));
  for (int i = 0; i < mt_tensor_rank(a); i++) {
    ck_assert_int_eq(mt_tensor_shape(a)[i], mt_tensor_shape(b)[i]);
  }
  size_t bytes = mt_tensor_bytes(a);
  unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ck_ok(mt_tensor_get(a, x, bytes));
  ck_ok(mt_tensor_get(b, y, bytes));
  ck_assert_mem_eq(x, y, bytes);
  free(x);
  free(y);
}

/* A tensor of any dtype with a pattern that depends on seed (bools: 0 and 1). */
static inline mt_tensor *pattern(mt_dtype dtype, int rank, const int64_t *shape, unsigned seed) {
  mt_tensor *tensor;
  void *data;
  ck_ok(mt_tensor_create(dtype, rank, shape, &tensor));
  ck_ok(mt_tensor_write(tensor, &data));
  for (size_t i = 0; i < mt_tensor_bytes(tensor); i++) {
    unsigned value = (unsigned)i * 2654435761u + seed * 40503u;
    ((unsigned char *)data)[i] = (unsigned char)(dtype == MT_BOOL ? value >> 31 : value >> 24);
  }
  return tensor;
}

static inline mt_tensor *pattern_q8(int rank, const int64_t *shape, unsigned seed) {
  mt_tensor *tensor;
  void *data;
  ck_ok(mt_tensor_create_block(mt_format_find("q8_0"), rank, shape, &tensor));
  ck_ok(mt_tensor_write(tensor, &data));
  for (size_t i = 0; i < mt_tensor_bytes(tensor); i++) {
    ((unsigned char *)data)[i] = (unsigned char)(i * 31 + seed);
  }
  return tensor;
}

/* Opens, lists, reads and checks everything; the first failure. */
static inline mt_status read_everything(const void *data, size_t bytes, mt_file_type type) {
  mt_archive *archive;
  mt_status status = mt_archive_open_memory(data, bytes, type, &archive);
  for (size_t i = 0; status == MT_OK && i < mt_archive_count(archive); i++) {
    mt_tensor *tensor = NULL;
    status = mt_archive_read(archive, i, &tensor);
    mt_tensor_release(&tensor);
  }
  if (status == MT_OK) {
    status = mt_archive_verify(archive);
  }
  mt_archive_close(&archive);
  return status;
}

/* Every shorter file is refused with a sentence. */
static inline void check_truncations(const unsigned char *data, size_t bytes, mt_file_type type) {
  for (size_t n = 0; n < bytes; n++) {
    unsigned char *cut = exact_copy(data, n);
    mt_status status = read_everything(cut, n, type);
    if (status != MT_ERR_CORRUPT || !strstr(mt_last_error(), "at byte")) {
      ck_abort_msg("%zu of %zu bytes: %s (%s)", n, bytes, mt_status_name(status), mt_last_error());
    }
    free(cut);
  }
}

static inline void copy_archive(const char *from, const char *to) {
  mt_archive *archive;
  mt_writer *writer;
  ck_ok(mt_archive_open(from, &archive));
  ck_ok(mt_writer_create(to, mt_file_type_from_path(to), &writer));
  for (size_t i = 0; i < mt_archive_metadata_count(archive); i++) {
    const char *key, *value;
    ck_ok(mt_archive_metadata_at(archive, i, &key, &value));
    ck_ok(mt_writer_metadata(writer, key, value));
  }
  for (size_t i = 0; i < mt_archive_count(archive); i++) {
    mt_archive_entry entry;
    mt_tensor *tensor;
    ck_ok(mt_archive_entry_at(archive, i, &entry));
    ck_ok(mt_archive_read(archive, i, &tensor));
    ck_ok(mt_writer_add(writer, entry.name, tensor));
    mt_tensor_release(&tensor);
  }
  ck_ok(mt_writer_commit(&writer));
  mt_archive_close(&archive);
}

/* TEST_MAIN with a folder for each test */
#define IO_TEST_MAIN(name, ...)                                                                    \
  int main(void) {                                                                                 \
    Suite *suite = suite_create(#name);                                                            \
    TCase *tcase = tcase_create(#name);                                                            \
    tcase_set_timeout(tcase, 240);                                                                 \
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);                                  \
    const TTest *tests[] = {__VA_ARGS__};                                                          \
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {                                \
      tcase_add_test(tcase, tests[i]);                                                             \
    }                                                                                              \
    suite_add_tcase(suite, tcase);                                                                 \
    return run_suite(suite);                                                                       \
  }

#endif
