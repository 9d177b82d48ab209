// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MT_ERROR_TEXT = 1024 };

static _Thread_local char last_error[MT_ERROR_TEXT];

const char *mt_status_name(mt_status status) {
  switch (status) {
  case MT_OK: return "ok";
  case MT_ERR_INVALID_ARGUMENT: return "invalid argument";
  case MT_ERR_OUT_OF_MEMORY: return "out of memory";
  case MT_ERR_UNSUPPORTED: return "unsupported";
  case MT_ERR_NOT_FOUND: return "not found";
  case MT_ERR_IO: return "input/output error";
  case MT_ERR_CORRUPT: return "corrupt data";
  case MT_ERR_BACKEND: return "backend failure";
  case MT_ERR_DEVICE_LOST: return "device lost";
  case MT_ERR_FORKED: return "used after fork";
  case MT_ERR_TIMEOUT: return "timed out";
  }
  return "unknown status";
}

const char *mt_last_error(void) {
  return last_error;
}

mt_status mt_fail(mt_status status, const char *format, ...) {
  /* An argument may point into last_error itself. */
  char text[MT_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  memcpy(last_error, text, sizeof(text));
  return status;
}

static const char *errno_text(int err, char *buf, size_t size) {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
  return strerror_r(err, buf, size);
#else
  return strerror_r(err, buf, size) == 0 ? buf : "unknown error";
#endif
}

mt_status mt_fail_errno(mt_status status, int err, const char *format, ...) {
  char text[MT_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  char buf[128];
  return mt_fail(status, "%s: %s", text, errno_text(err, buf, sizeof(buf)));
}

mt_status mt_fail_prefix(mt_status status, const char *format, ...) {
  char text[MT_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return mt_fail(status, "%s: %s", text, last_error);
}

mt_status mt_fail_memory(unsigned long long bytes, const char *what) {
  return mt_fail(MT_ERR_OUT_OF_MEMORY, "out of memory: %llu bytes for %s", bytes, what);
}
