// SPDX-License-Identifier: Apache-2.0
/* Files appear whole or not at all: full disks, folders that cannot be written, links. */
#include "io_common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static mt_tensor *numbers(int64_t n, unsigned seed) {
  return pattern(MT_F32, 1, &n, seed);
}

static mode_t mode_of(const char *path) {
  struct stat info;
  ck_assert_int_eq(stat(path, &info), 0);
  return info.st_mode & 07777;
}

/* The file holds what numbers(n, seed) gives. */
static void ck_holds(const char *path, int64_t n, unsigned seed) {
  mt_tensor *expected = numbers(n, seed), *got;
  ck_ok(mt_load(path, &got));
  ck_same(got, expected);
  mt_tensor_release(&got);
  mt_tensor_release(&expected);
}

static mt_status save(const char *path, int64_t n, unsigned seed) {
  mt_tensor *tensor = numbers(n, seed);
  mt_status status = mt_save(path, tensor);
  mt_tensor_release(&tensor);
  return status;
}

/* Nothing may be larger than `bytes`: to a writer this looks like a full disk. */
static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, SIG_IGN);
}

static const char *const names[] = {"x.mt", "x.npy", "x.safetensors"};

START_TEST(test_replaces) {
  for (int i = 0; i < 3; i++) {
    ck_ok(save(in_folder(names[i]), 1000, 1));
    ck_ok(save(in_folder(names[i]), 10, 2));
    ck_holds(in_folder(names[i]), 10, 2);
  }
  ck_assert_int_eq(count_files(), 3);
}
END_TEST

START_TEST(test_invisible_before_commit) {
  mt_writer *writer;
  mt_tensor *tensor = numbers(10, 2);
  ck_ok(save(in_folder("x.mt"), 10, 1));
  ck_ok(mt_writer_create(in_folder("x.mt"), MT_FILE_MT, &writer));
  ck_ok(mt_writer_add(writer, "tensor", tensor));
  ck_holds(in_folder("x.mt"), 10, 1);
  ck_assert_int_eq(count_files(), 2);
  mt_writer_abort(&writer);
  ck_assert_int_eq(count_files(), 1);
  ck_holds(in_folder("x.mt"), 10, 1);
  mt_tensor_release(&tensor);
}
END_TEST

START_TEST(test_disk_full) {
  for (int i = 0; i < 3; i++) {
    ck_ok(save(in_folder(names[i]), 10, 1));
  }
  limit_files(8192);
  for (int i = 0; i < 3; i++) {
    ck_fails(save(in_folder(names[i]), 100000, 2), MT_ERR_IO, names[i]);
    ck_fails(save(in_folder("new.mt"), 100000, 2), MT_ERR_IO, "File too large");
  }
  ck_assert_int_eq(count_files(), 3);
  for (int i = 0; i < 3; i++) {
    ck_holds(in_folder(names[i]), 10, 1);
  }
}
END_TEST

/* The data fits and what comes with the commit does not. */
START_TEST(test_disk_full_at_the_end) {
  for (int i = 0; i < 3; i += 2) {
    mt_writer *writer;
    mt_tensor *tensor = numbers(1000, 2);
    ck_ok(save(in_folder(names[i]), 10, 1));
    ck_ok(mt_writer_create(in_folder(names[i]), mt_file_type_from_path(names[i]), &writer));
    ck_ok(mt_writer_add(writer, "tensor", tensor));
    limit_files(i == 0 ? 4096 + 4000 + 64 : 4000);
    ck_fails(mt_writer_commit(&writer), MT_ERR_IO, "File too large");
    ck_assert_ptr_null(writer);
    limit_files(RLIM_INFINITY);
    ck_holds(in_folder(names[i]), 10, 1);
    mt_tensor_release(&tensor);
  }
  ck_assert_int_eq(count_files(), 2);
}
END_TEST

START_TEST(test_failed_write_is_remembered) {
  mt_writer *writer;
  mt_tensor *large = numbers(100000, 1), *small = numbers(2, 1);
  ck_ok(mt_writer_create(in_folder("x.mt"), MT_FILE_MT, &writer));
  limit_files(8192);
  ck_fails(mt_writer_add(writer, "large", large), MT_ERR_IO, "tensor 'large'");
  limit_files(RLIM_INFINITY);
  ck_fails(mt_writer_add(writer, "small", small), MT_ERR_IO, "earlier tensor");
  ck_fails(mt_writer_commit(&writer), MT_ERR_IO, "earlier tensor");
  ck_assert_int_eq(count_files(), 0);
  mt_tensor_release(&large);
  mt_tensor_release(&small);
}
END_TEST

START_TEST(test_permissions) {
  umask(027);
  ck_ok(save(in_folder("new.mt"), 10, 1));
  ck_assert_uint_eq(mode_of(in_folder("new.mt")), 0640);
  ck_assert_int_eq(chmod(in_folder("new.mt"), 0604), 0);
  ck_ok(save(in_folder("new.mt"), 10, 2));
  ck_assert_uint_eq(mode_of(in_folder("new.mt")), 0604);
}
END_TEST

START_TEST(test_links) {
  ck_ok(save(in_folder("real.mt"), 10, 1));
  ck_assert_int_eq(symlink("real.mt", in_folder("link.mt")), 0);
  ck_assert_int_eq(link(in_folder("real.mt"), in_folder("hard.mt")), 0);
  ck_ok(save(in_folder("link.mt"), 10, 2));
  struct stat info;
  ck_assert_int_eq(lstat(in_folder("link.mt"), &info), 0);
  ck_assert(S_ISLNK(info.st_mode));
  ck_holds(in_folder("real.mt"), 10, 2);
  ck_holds(in_folder("hard.mt"), 10, 1);
  ck_assert_int_eq(symlink("nowhere.mt", in_folder("dangling.mt")), 0);
  ck_fails(save(in_folder("dangling.mt"), 10, 2), MT_ERR_IO, "symbolic link to nothing");
  ck_assert_int_eq(symlink("loop.mt", in_folder("loop.mt")), 0);
  ck_fails(save(in_folder("loop.mt"), 10, 2), MT_ERR_IO, "loop.mt: ");
  ck_assert_int_eq(count_files(), 5);
}
END_TEST

START_TEST(test_bad_targets) {
  ck_fails(save(in_folder("absent/x.mt"), 10, 1), MT_ERR_NOT_FOUND, "its folder");
  ck_ok(save(in_folder("file.mt"), 10, 1));
  ck_fails(save(in_folder("file.mt/x.mt"), 10, 1), MT_ERR_IO, "Not a directory");
  ck_assert_int_eq(mkdir(in_folder("folder.mt"), 0700), 0);
  ck_fails(save(in_folder("folder.mt"), 10, 1), MT_ERR_INVALID_ARGUMENT, "is a folder");
  ck_assert_int_eq(rmdir(in_folder("folder.mt")), 0);
  ck_assert_int_eq(mkfifo(in_folder("pipe.mt"), 0600), 0);
  ck_fails(save(in_folder("pipe.mt"), 10, 1), MT_ERR_INVALID_ARGUMENT, "regular files");
  mt_archive *archive;
  ck_fails(mt_archive_open(in_folder("pipe.mt"), &archive), MT_ERR_INVALID_ARGUMENT,
           "regular file");
  mt_writer *writer;
  ck_fails(mt_writer_create("/dev/full", MT_FILE_MT, &writer), MT_ERR_INVALID_ARGUMENT,
           "regular files");
  ck_fails(mt_writer_create("", MT_FILE_MT, &writer), MT_ERR_INVALID_ARGUMENT, "name of a file");
  ck_fails(mt_writer_create(in_folder(""), MT_FILE_MT, &writer), MT_ERR_INVALID_ARGUMENT,
           "is a folder");
  ck_assert_int_eq(count_files(), 2);
}
END_TEST

/* root may write anywhere: then /proc stands in for a folder that takes no files. */
START_TEST(test_unwritable_folder) {
  if (geteuid() == 0) {
    ck_fails(save("/proc/x.mt", 10, 1), MT_ERR_IO, "/proc/x.mt: making a temporary file");
    return;
  }
  ck_ok(save(in_folder("x.mt"), 10, 1));
  ck_assert_int_eq(chmod(test_folder, 0500), 0);
  ck_fails(save(in_folder("x.mt"), 10, 2), MT_ERR_IO, "x.mt: making a temporary file");
  ck_assert_int_eq(chmod(test_folder, 0700), 0);
  ck_holds(in_folder("x.mt"), 10, 1);
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* A rename needs no right to write the file; replacing what is write-protected would surprise. */
START_TEST(test_write_protected_target) {
  ck_ok(save(in_folder("x.mt"), 10, 1));
  ck_assert_int_eq(chmod(in_folder("x.mt"), 0444), 0);
  ck_assert_int_eq(chmod(test_folder, 0777), 0);
  if (geteuid() == 0) { /* root may write anything */
    ck_assert_int_eq(seteuid(65534), 0);
  }
  mt_status status = save(in_folder("x.mt"), 10, 2);
  const char *told = mt_last_error();
  ck_assert_int_eq(seteuid(getuid()), 0);
  ck_assert_int_eq(status, MT_ERR_IO);
  ck_assert_ptr_nonnull(strstr(told, "x.mt: is write-protected"));
  ck_holds(in_folder("x.mt"), 10, 1);
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(test_names) {
  char name[256], small[512];
  memset(name, 'n', 255);
  memcpy(name + 252, ".mt", 4);
  ck_ok(save(in_folder(name), 10, 1));
  ck_holds(in_folder(name), 10, 1);
  ck_assert_int_eq(chdir(test_folder), 0);
  ck_ok(save("here.mt", 10, 1));
  ck_ok(save("./here.mt", 10, 2));
  ck_holds("here.mt", 10, 2);
  snprintf(small, sizeof(small), "%s//twice.mt", test_folder);
  ck_ok(save(small, 10, 3));
  ck_holds("twice.mt", 10, 3);
  ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* A file that shrinks while it is open is an error. */
START_TEST(test_shrinking) {
  mt_archive *archive;
  mt_tensor *tensor;
  ck_ok(save(in_folder("x.mt"), 10000, 1));
  ck_ok(mt_archive_open(in_folder("x.mt"), &archive));
  ck_assert_int_eq(truncate(in_folder("x.mt"), 8192), 0);
  ck_fails(mt_archive_read(archive, 0, &tensor), MT_ERR_CORRUPT, "at byte 8192: the file ended");
  mt_archive_close(&archive);
}
END_TEST

/* A file that is being read may be replaced: the reader keeps the old one. */
START_TEST(test_replaced_while_open) {
  mt_archive *archive;
  mt_tensor *tensor, *expected = numbers(1000, 1);
  ck_ok(save(in_folder("x.mt"), 1000, 1));
  ck_ok(mt_archive_open(in_folder("x.mt"), &archive));
  ck_ok(save(in_folder("x.mt"), 10, 2));
  ck_ok(mt_archive_read(archive, 0, &tensor));
  ck_same(tensor, expected);
  mt_tensor_release(&tensor);
  mt_tensor_release(&expected);
  mt_archive_close(&archive);
}
END_TEST

IO_TEST_MAIN(io_atomic, test_replaces, test_invisible_before_commit, test_disk_full,
             test_disk_full_at_the_end, test_failed_write_is_remembered, test_permissions,
             test_links, test_bad_targets, test_unwritable_folder, test_write_protected_target,
             test_names, test_shrinking, test_replaced_while_open)
