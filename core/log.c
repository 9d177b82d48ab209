// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[] = {
    [MT_LOG_NONE] = "none", [MT_LOG_ERROR] = "error", [MT_LOG_WARN] = "warn",
    [MT_LOG_INFO] = "info", [MT_LOG_DEBUG] = "debug",
};

enum { LEVELS = sizeof(level_names) / sizeof(level_names[0]) };

static void log_to_stderr(void *user, mt_log_level level, const char *topic, const char *message) {
  (void)user;
  fprintf(stderr, "mecantensor: %s: %s: %s\n", level_names[level], topic, message);
}

static bool level_from_name(const char *name, size_t length, mt_log_level *level) {
  for (int i = 0; i < LEVELS; i++) {
    if (strlen(level_names[i]) == length && strncmp(level_names[i], name, length) == 0) {
      *level = (mt_log_level)i;
      return true;
    }
  }
  return false;
}

/* One item: "level", "topic" or "topic=level". */
static mt_status parse_item(mt_logger *log, const char *item, size_t length) {
  mt_log_level level;
  if (level_from_name(item, length, &level)) {
    log->level = level;
    return MT_OK;
  }
  const char *equal = memchr(item, '=', length);
  size_t name = equal ? (size_t)(equal - item) : length;
  level = MT_LOG_DEBUG;
  if (equal && !level_from_name(equal + 1, length - name - 1, &level)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "log setting '%.*s': expected TOPIC=none, error, warn, info or debug",
                   (int)length, item);
  }
  if (name == 0 || name >= MT_LOG_TOPIC_NAME || log->topics == MT_LOG_TOPICS) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "log setting '%.*s': expected at most %d topics of 1 .. %d characters",
                   (int)length, item, MT_LOG_TOPICS, MT_LOG_TOPIC_NAME - 1);
  }
  memcpy(log->topic[log->topics].name, item, name);
  log->topic[log->topics].name[name] = '\0';
  log->topic[log->topics++].level = level;
  return MT_OK;
}

mt_status mt_log_init(mt_logger *log, const char *spec, mt_log_fn fn, void *user) {
  memset(log, 0, sizeof(*log));
  log->fn = fn ? fn : log_to_stderr;
  log->user = fn ? user : NULL;
  log->level = MT_LOG_WARN;
  while (spec && *spec) {
    size_t length = strcspn(spec, ",");
    if (length > 0) {
      MT_TRY(parse_item(log, spec, length));
    }
    spec += length + (spec[length] == ',');
  }
  return MT_OK;
}

bool mt_log_wants(const mt_logger *log, mt_log_level level, const char *topic) {
  if (atomic_load_explicit(&log->silent, memory_order_relaxed)) {
    return false;
  }
  for (int i = 0; i < log->topics; i++) {
    if (strcmp(log->topic[i].name, topic) == 0) {
      return level <= log->topic[i].level;
    }
  }
  return level <= log->level;
}

void mt_log_write(const mt_logger *log, mt_log_level level, const char *topic, const char *format,
                  ...) {
  if (!mt_log_wants(log, level, topic)) {
    return;
  }
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (char *c = text; *c; c++) { /* messages may carry a driver's or a file's words */
    if (*c == '\n' || *c == '\r') {
      *c = ' ';
    }
  }
  log->fn(log->user, level, topic, text);
}
