// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_file.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SHIFT_BYTES = 4 << 20, TEMP_TRIES = 100, TEMP_BASE_MAX = 200 };

static void free_names(mt_atomic_file *file) {
  free(file->path);
  free(file->base);
  free(file->temp);
  memset(file, 0, sizeof(*file));
  file->folder = file->fd = -1;
}

void mt_atomic_abort(mt_atomic_file *file) {
  if (file->temp) {
    unlinkat(file->folder, file->temp, 0);
  }
  if (file->fd >= 0) {
    close(file->fd);
  }
  if (file->folder >= 0) {
    close(file->folder);
  }
  free_names(file);
}

/* The file that path leads to, through symbolic links; one that is not there yet is path
 * itself. Sets exists and mode. Caller frees. */
static mt_status resolve(mt_atomic_file *file, char **target) {
  struct stat info;
  *target = realpath(file->path, NULL);
  if (*target) {
    if (stat(*target, &info) != 0) {
      return mt_fail_errno(MT_ERR_IO, errno, "%s", file->path);
    }
    if (!S_ISREG(info.st_mode)) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: is %s: only regular files are replaced",
                     file->path, S_ISDIR(info.st_mode) ? "a folder" : "a pipe, device or socket");
    }
    if (faccessat(AT_FDCWD, *target, W_OK, AT_EACCESS) != 0) {
      return mt_fail_errno(MT_ERR_IO, errno, "%s: is write-protected", file->path);
    }
    file->exists = true;
    file->mode = info.st_mode & 0777;
    return MT_OK;
  }
  if (errno != ENOENT) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", file->path);
  }
  if (lstat(file->path, &info) == 0) {
    return mt_fail(MT_ERR_IO, "%s: is a symbolic link to nothing", file->path);
  }
  *target = strdup(file->path);
  return *target ? MT_OK : mt_fail_memory(strlen(file->path) + 1, "a path");
}

/* Opens the folder of target (cuts it up) and keeps the name in it. */
static mt_status open_folder(mt_atomic_file *file, char *target) {
  char *slash = strrchr(target, '/');
  const char *base = slash ? slash + 1 : target;
  if (base[0] == 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: expected the name of a file", file->path);
  }
  file->base = strdup(base);
  if (!file->base) {
    return mt_fail_memory(strlen(base) + 1, "a path");
  }
  const char *folder = slash == target ? "/" : slash ? target : ".";
  if (slash) {
    *slash = 0;
    folder = slash == target ? "/" : target;
  }
  file->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file->folder < 0 && errno == EACCES) { /* may be entered and written, but not listed */
    file->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  if (file->folder < 0) {
    int err = errno;
    return mt_fail_errno(err == ENOENT ? MT_ERR_NOT_FOUND : MT_ERR_IO, err, "%s: its folder",
                         file->path);
  }
  return MT_OK;
}

static uint32_t random_number(void) {
  uint32_t number;
  struct timespec now;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) == (ssize_t)sizeof(number)) {
    return number;
  }
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)now.tv_nsec ^ (uint32_t)getpid() << 16;
}

/* Never more open than the file it will replace. */
static mt_status open_temp(mt_atomic_file *file) {
  size_t size = TEMP_BASE_MAX + sizeof("..XXXXXXXX.tmp");
  char *temp = malloc(size);
  if (!temp) {
    return mt_fail_memory(size, "a path");
  }
  for (int i = 0; i < TEMP_TRIES && file->fd < 0; i++) {
    snprintf(temp, size, ".%.*s.%08" PRIx32 ".tmp", TEMP_BASE_MAX, file->base, random_number());
    file->fd = openat(file->folder, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                      file->exists ? 0600 : 0666);
    if (file->fd < 0 && errno != EEXIST) {
      break;
    }
  }
  if (file->fd < 0) {
    int err = errno;
    free(temp);
    return mt_fail_errno(MT_ERR_IO, err, "%s: making a temporary file beside it", file->path);
  }
  file->temp = temp;
  return MT_OK;
}

mt_status mt_atomic_open(const char *path, mt_atomic_file *out) {
  char *target = NULL;
  memset(out, 0, sizeof(*out));
  out->fd = out->folder = -1;
  out->path = strdup(path);
  mt_status status = out->path ? resolve(out, &target) : mt_fail_memory(strlen(path) + 1, "a path");
  if (status == MT_OK) {
    status = open_folder(out, target);
  }
  if (status == MT_OK) {
    status = open_temp(out);
  }
  free(target);
  if (status != MT_OK) {
    mt_atomic_abort(out);
  }
  return status;
}

mt_status mt_atomic_write(mt_atomic_file *file, uint64_t offset, const void *data, size_t bytes) {
  const char *from = data;
  while (bytes > 0) {
    ssize_t put = pwrite(file->fd, from, bytes, (off_t)offset);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return mt_fail_errno(MT_ERR_IO, put < 0 ? errno : ENOSPC, "%s: writing %zu bytes at %llu",
                           file->path, bytes, (unsigned long long)offset);
    }
    from += put;
    offset += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return MT_OK;
}

static mt_status read_back(mt_atomic_file *file, uint64_t offset, char *dst, size_t bytes) {
  while (bytes > 0) {
    ssize_t got = pread(file->fd, dst, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return mt_fail_errno(MT_ERR_IO, got < 0 ? errno : EIO, "%s: reading back its temporary file",
                           file->path);
    }
    dst += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return MT_OK;
}

mt_status mt_atomic_shift(mt_atomic_file *file, uint64_t bytes, uint64_t distance) {
  size_t room = bytes < SHIFT_BYTES ? (size_t)bytes : SHIFT_BYTES;
  char *piece = malloc(room + 1);
  mt_status status = piece ? MT_OK : mt_fail_memory(room, "moving data in a file");
  while (status == MT_OK && bytes > 0) { /* from the end, so that nothing is overwritten */
    size_t n = bytes < room ? (size_t)bytes : room;
    bytes -= n;
    status = read_back(file, bytes, piece, n);
    if (status == MT_OK) {
      status = mt_atomic_write(file, bytes + distance, piece, n);
    }
  }
  free(piece);
  return status;
}

/* Some file systems cannot sync a folder, and one that was opened with O_PATH cannot be. */
static mt_status sync_folder(const mt_atomic_file *file) {
  if (fsync(file->folder) != 0 && errno != EINVAL && errno != EBADF && errno != ENOTSUP) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s: is in place, but syncing its folder", file->path);
  }
  return MT_OK;
}

static mt_status publish(mt_atomic_file *file, uint64_t bytes) {
  if (ftruncate(file->fd, (off_t)bytes) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s: setting its length", file->path);
  }
  if (file->exists && fchmod(file->fd, file->mode) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s: setting its permissions", file->path);
  }
  if (fdatasync(file->fd) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s: syncing", file->path);
  }
  int fd = file->fd;
  file->fd = -1;
  if (close(fd) != 0 && errno != EINTR) { /* network file systems report here */
    return mt_fail_errno(MT_ERR_IO, errno, "%s: closing", file->path);
  }
  if (renameat(file->folder, file->temp, file->folder, file->base) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s: renaming the temporary file", file->path);
  }
  free(file->temp);
  file->temp = NULL;
  return sync_folder(file);
}

mt_status mt_atomic_commit(mt_atomic_file *file, uint64_t bytes) {
  mt_status status = publish(file, bytes);
  mt_atomic_abort(file);
  return status;
}
