// SPDX-License-Identifier: Apache-2.0
/* error.h - the calling thread's last error (internal side of status.h). */
#ifndef MT_CORE_ERROR_H
#define MT_CORE_ERROR_H

#include <mecantensor/status.h>

/* Stores the sentence (cut at 1023 bytes) and returns status:
 *   return mt_fail(MT_ERR_INVALID_ARGUMENT, "axis %d: expected -%d .. %d", ...); */
MT_PRINTF(2, 3) mt_status mt_fail(mt_status status, const char *format, ...);

/* The same with the text for errno `err` behind it: "...: No such file or directory". */
MT_PRINTF(3, 4) mt_status mt_fail_errno(mt_status status, int err, const char *format, ...);

/* Puts "text: " in front of the last error; returns status. */
MT_PRINTF(2, 3) mt_status mt_fail_prefix(mt_status status, const char *format, ...);

#define MT_TRY(expression)                                                                         \
  do {                                                                                             \
    mt_status mt_try_status_ = (expression);                                                       \
    if (mt_try_status_ != MT_OK) {                                                                 \
      return mt_try_status_;                                                                       \
    }                                                                                              \
  } while (0)

/* "out of memory: <n> bytes for <what>" */
mt_status mt_fail_memory(unsigned long long bytes, const char *what);

#endif
