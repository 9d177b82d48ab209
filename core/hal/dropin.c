// SPDX-License-Identifier: Apache-2.0
/*
 * The administrator's rules: plugins.d/?*.conf, in order of file names, later lines win.
 *
 *   # comment
 *   disable GLOB
 *   priority NAME NUMBER
 */
#include "../error.h"
#include "loader_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 64 * 1024 };

void mt_rules_free(mt_rules *rules) {
  for (size_t i = 0; i < rules->count; i++) {
    free(rules->rule[i].where);
    free(rules->rule[i].pattern);
  }
  free(rules->rule);
  *rules = (mt_rules){0};
}

const mt_rule *mt_rules_find(const mt_rules *rules, bool disable, const char *name) {
  for (size_t i = rules->count; i-- > 0;) {
    const mt_rule *rule = &rules->rule[i];
    bool match = disable ? fnmatch(rule->pattern, name, 0) == 0 : strcmp(rule->pattern, name) == 0;
    if (rule->disable == disable && match) {
      return rule;
    }
  }
  return NULL;
}

static mt_status add_rule(mt_rules *rules, const mt_rule *rule, const char *file, unsigned line) {
  mt_rule *grown = realloc(rules->rule, (rules->count + 1) * sizeof(*grown));
  if (!grown) {
    return mt_fail_memory((rules->count + 1) * sizeof(*grown), "the rules of plugins.d");
  }
  rules->rule = grown;
  mt_rule *added = &grown[rules->count];
  *added = *rule;
  added->pattern = strdup(rule->pattern);
  if (!added->pattern || asprintf(&added->where, "%s:%u", file, line) < 0) {
    free(added->pattern);
    return mt_fail_memory(sizeof(*added), "a rule of plugins.d");
  }
  rules->count++;
  return MT_OK;
}

static bool parse_priority(const char *text, int32_t *priority) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  *priority = (int32_t)value;
  return errno == 0 && end != text && *end == '\0' && value >= INT32_MIN && value <= INT32_MAX;
}

/* NULL: a rule, or nothing (rule->pattern is NULL); else what is wrong. */
static const char *parse_line(char *line, mt_rule *rule) {
  char *words[4] = {0}, *rest = NULL;
  size_t count = 0;
  *rule = (mt_rule){0};
  line[strcspn(line, "#")] = '\0';
  for (char *word = strtok_r(line, " \t\r", &rest); word && count < 4;
       word = strtok_r(NULL, " \t\r", &rest)) {
    words[count++] = word;
  }
  if (count == 0) {
    return NULL;
  }
  if (strcmp(words[0], "disable") == 0) {
    rule->disable = true;
    rule->pattern = words[1];
    return count == 2 ? NULL : "expected 'disable GLOB'";
  }
  if (strcmp(words[0], "priority") == 0) {
    rule->pattern = words[1];
    return count == 3 && parse_priority(words[2], &rule->priority)
               ? NULL
               : "expected 'priority NAME NUMBER'";
  }
  return "expected 'disable GLOB' or 'priority NAME NUMBER'";
}

static mt_status parse_file(const mt_logger *log, const char *path, char *text, mt_rules *rules) {
  unsigned number = 0;
  for (char *line; (line = strsep(&text, "\n")) != NULL;) {
    mt_rule rule;
    const char *wrong = parse_line(line, &rule);
    number++;
    if (wrong) {
      mt_log_write(log, MT_LOG_WARN, "loader", "%s:%u: the line is ignored: %s", path, number,
                   wrong);
    } else if (rule.pattern) {
      MT_TRY(add_rule(rules, &rule, path, number));
    }
  }
  return MT_OK;
}

/* *text: NUL-terminated, to be freed */
static mt_status read_text(const char *path, char **text) {
  struct stat info;
  /* a FIFO by that name must not stop us */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", path);
  }
  mt_status status = MT_OK;
  size_t used = 0;
  ssize_t n = 1;
  *text = malloc(MAX_FILE + 1);
  if (!*text) {
    status = mt_fail_memory(MAX_FILE + 1, path);
  } else if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE) {
    status = mt_fail(MT_ERR_CORRUPT, "%s: not a regular file of at most %d bytes", path, MAX_FILE);
  }
  while (status == MT_OK && n > 0 && used < MAX_FILE) {
    n = read(fd, *text + used, MAX_FILE - used);
    if (n < 0 && errno != EINTR) {
      status = mt_fail_errno(MT_ERR_IO, errno, "%s", path);
    }
    used += n > 0 ? (size_t)n : 0;
    n = n < 0 ? 1 : n;
  }
  close(fd);
  if (status != MT_OK) {
    free(*text);
    *text = NULL;
    return status;
  }
  (*text)[used] = '\0';
  if (memchr(*text, '\0', used)) {
    free(*text);
    *text = NULL;
    return mt_fail(MT_ERR_CORRUPT, "%s: not a text file", path);
  }
  return MT_OK;
}

static mt_status read_file(const mt_logger *log, const char *path, mt_rules *rules) {
  char *text;
  mt_status status = read_text(path, &text);
  if (status == MT_OK) {
    status = parse_file(log, path, text, rules);
    free(text);
  } else if (status != MT_ERR_OUT_OF_MEMORY) {
    mt_log_write(log, MT_LOG_WARN, "loader", "ignored: %s", mt_last_error());
    status = MT_OK;
  }
  return status;
}

static const char *config_folder(const mt_logger *log) {
  const char *folder = mt_env("MECANTENSOR_CONFIG_DIR");
  if (folder && folder[0] != '/') {
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "MECANTENSOR_CONFIG_DIR: '%s' is ignored: it is not an absolute path", folder);
    folder = NULL;
  }
  return folder ? folder : MT_SYSCONFDIR "/mecantensor";
}

mt_status mt_rules_read(const mt_logger *log, mt_rules *rules) {
  char folder[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
  mt_strings names;
  *rules = (mt_rules){0};
  if (snprintf(folder, sizeof(folder), "%s/plugins.d", config_folder(log)) >= (int)sizeof(folder)) {
    mt_log_write(log, MT_LOG_WARN, "loader", "MECANTENSOR_CONFIG_DIR is ignored: it is too long");
    return MT_OK;
  }
  mt_status status = mt_list_folder(folder, ".conf", &names);
  if (status != MT_OK && status != MT_ERR_OUT_OF_MEMORY) {
    if (status != MT_ERR_NOT_FOUND) {
      mt_log_write(log, MT_LOG_WARN, "loader", "no rules are read: %s", mt_last_error());
    }
    return MT_OK;
  }
  for (size_t i = 0; status == MT_OK && i < names.count; i++) {
    snprintf(path, sizeof(path), "%s/%s", folder, names.item[i]);
    status = read_file(log, path, rules);
  }
  mt_strings_free(&names);
  if (status != MT_OK) {
    mt_rules_free(rules);
  }
  return status;
}
