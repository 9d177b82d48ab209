// SPDX-License-Identifier: Apache-2.0
/* log.h - levels by topic (internal side of runtime.h). */
#ifndef MT_CORE_LOG_H
#define MT_CORE_LOG_H

#include <mecantensor/runtime.h>
#include <stdatomic.h>

enum { MT_LOG_TOPICS = 16, MT_LOG_TOPIC_NAME = 32 };

typedef struct mt_logger {
  mt_log_fn fn;
  void *user;
  mt_log_level level; /* of topics not listed */
  struct {
    char name[MT_LOG_TOPIC_NAME];
    mt_log_level level;
  } topic[MT_LOG_TOPICS];
  int topics;
  atomic_bool silent; /* the one who listened is gone */
} mt_logger;

/* spec: "info", "dispatch" (that topic at debug), "warn,loader=debug"; NULL: warn. */
mt_status mt_log_init(mt_logger *log, const char *spec, mt_log_fn fn, void *user);
bool mt_log_wants(const mt_logger *log, mt_log_level level, const char *topic);
MT_PRINTF(4, 5)
void mt_log_write(const mt_logger *log, mt_log_level level, const char *topic, const char *format,
                  ...);

#endif
