// SPDX-License-Identifier: Apache-2.0
#include "io/source.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mt_status field_error(mt_status status, const mt_source *source, const char *field,
                             uint64_t at, const char *format, va_list args) {
  char text[512];
  vsnprintf(text, sizeof(text), format, args);
  return mt_fail(status, "%s: field '%s' at byte %llu: %s", source->path, field,
                 (unsigned long long)at, text);
}

mt_status mt_source_corrupt(const mt_source *source, const char *field, uint64_t at,
                            const char *format, ...) {
  va_list args;
  va_start(args, format);
  mt_status status = field_error(MT_ERR_CORRUPT, source, field, at, format, args);
  va_end(args);
  return status;
}

mt_status mt_source_unsupported(const mt_source *source, const char *field, uint64_t at,
                                const char *format, ...) {
  va_list args;
  va_start(args, format);
  mt_status status = field_error(MT_ERR_UNSUPPORTED, source, field, at, format, args);
  va_end(args);
  return status;
}

static mt_status check_kind(const char *path, int fd, uint64_t *size) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: is %s: expected a regular file", path,
                   S_ISDIR(info.st_mode) ? "a folder" : "a pipe, device or socket");
  }
  *size = (uint64_t)info.st_size;
  return MT_OK;
}

mt_status mt_source_open(const char *path, mt_source *out) {
  memset(out, 0, sizeof(*out));
  out->path = strdup(path);
  /* O_NONBLOCK: opening a named pipe must not wait for a writer. */
  out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  mt_status status = MT_OK;
  if (out->fd < 0) {
    int err = errno;
    status = mt_fail_errno(err == ENOENT || err == ENOTDIR ? MT_ERR_NOT_FOUND : MT_ERR_IO, err,
                           "%s", path);
  } else if (!out->path) {
    status = mt_fail_memory(strlen(path) + 1, "a path");
  } else {
    status = check_kind(path, out->fd, &out->size);
  }
  if (status != MT_OK) {
    mt_source_close(out);
  }
  return status;
}

mt_status mt_source_from_memory(const void *data, size_t size, mt_source *out) {
  memset(out, 0, sizeof(*out));
  out->fd = -1;
  out->memory = data;
  out->size = size;
  out->path = strdup("memory");
  return out->path ? MT_OK : mt_fail_memory(sizeof("memory"), "a path");
}

void mt_source_close(mt_source *source) {
  if (source->fd >= 0) {
    close(source->fd);
  }
  free(source->path);
  memset(source, 0, sizeof(*source));
  source->fd = -1;
}

static mt_status read_file(const mt_source *source, const char *field, uint64_t offset,
                           unsigned char *dst, size_t bytes) {
  while (bytes > 0) {
    ssize_t got = pread(source->fd, dst, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return mt_fail_errno(MT_ERR_IO, errno, "%s: reading field '%s' at byte %llu", source->path,
                           field, (unsigned long long)offset);
    }
    if (got == 0) {
      return mt_source_corrupt(source, field, offset, "the file ended here while it was read");
    }
    dst += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return MT_OK;
}

mt_status mt_source_read(const mt_source *source, const char *field, uint64_t offset, void *dst,
                         size_t bytes) {
  if (offset > source->size || bytes > source->size - offset) {
    return mt_source_corrupt(source, field, offset,
                             "%zu bytes reach past the end (file has %llu bytes)", bytes,
                             (unsigned long long)source->size);
  }
  if (source->fd >= 0) {
    return read_file(source, field, offset, dst, bytes);
  }
  if (bytes > 0) {
    memcpy(dst, source->memory + offset, bytes);
  }
  return MT_OK;
}
