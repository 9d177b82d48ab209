// SPDX-License-Identifier: Apache-2.0
/* Which files are looked at. Never by libltdl: it follows .la files and variables that
 * setuid programs must not follow. */
#include "../error.h"
#include "loader_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void mt_strings_free(mt_strings *strings) {
  for (size_t i = 0; i < strings->count; i++) {
    free(strings->item[i]);
  }
  free(strings->item);
  *strings = (mt_strings){0};
}

/* Takes over text (NULL: memory ran out when it was made). */
static mt_status add(mt_strings *strings, char *text) {
  char **grown = text ? realloc(strings->item, (strings->count + 1) * sizeof(char *)) : NULL;
  if (!grown) {
    free(text);
    return mt_fail_memory((strings->count + 1) * sizeof(char *), "a list of files");
  }
  strings->item = grown;
  strings->item[strings->count++] = text;
  return MT_OK;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b); /* no locale */
}

mt_status mt_list_folder(const char *folder, const char *suffix, mt_strings *names) {
  *names = (mt_strings){0};
  DIR *dir = opendir(folder);
  if (!dir) {
    return mt_fail_errno(errno == ENOENT ? MT_ERR_NOT_FOUND : MT_ERR_IO, errno, "%s", folder);
  }
  mt_status status = MT_OK;
  for (struct dirent *entry; status == MT_OK && (errno = 0, entry = readdir(dir));) {
    size_t length = strlen(entry->d_name), tail = strlen(suffix);
    if (length > tail && entry->d_name[0] != '.' &&
        strcmp(entry->d_name + length - tail, suffix) == 0) {
      status = add(names, strdup(entry->d_name));
    }
  }
  if (status == MT_OK && errno != 0) {
    status = mt_fail_errno(MT_ERR_IO, errno, "reading %s", folder);
  }
  closedir(dir);
  if (status != MT_OK) {
    mt_strings_free(names);
    return status;
  }
  if (names->count > 1) {
    qsort(names->item, names->count, sizeof(char *), by_bytes);
  }
  return MT_OK;
}

/* ---- folders ------------------------------------------------------------------------ */

/* The same folder under two names is searched once. */
static bool seen_before(const mt_strings *folders, const char *folder) {
  struct stat a, b;
  if (stat(folder, &a) != 0) {
    return false;
  }
  for (size_t i = 0; i < folders->count; i++) {
    if (stat(folders->item[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
      return true;
    }
  }
  return false;
}

/* Takes over folder. */
static mt_status add_folder(const mt_logger *log, mt_strings *folders, char *folder) {
  if (folder && folder[0] != '/') {
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "plugin path: '%s' is not searched: it is not an absolute path", folder);
    free(folder);
    return MT_OK;
  }
  if (folder && seen_before(folders, folder)) {
    free(folder);
    return MT_OK;
  }
  return add(folders, folder);
}

static mt_status add_folders(const mt_loader_config *config, mt_strings *folders) {
  const char *path = config->plugin_path ? config->plugin_path : mt_env("MECANTENSOR_PLUGIN_PATH");
  const char *only = mt_env("MECANTENSOR_PLUGIN_PATH_ONLY");
  if (only && strcmp(only, "1") != 0 && strcmp(only, "0") != 0) {
    mt_log_write(config->log, MT_LOG_WARN, "loader",
                 "MECANTENSOR_PLUGIN_PATH_ONLY: '%s' is ignored: expected 0 or 1", only);
  }
  while (path && *path) {
    size_t length = strcspn(path, ":");
    if (length > 0) {
      MT_TRY(add_folder(config->log, folders, strndup(path, length)));
    }
    path += length + (path[length] == ':');
  }
  if (config->path_only || (only && strcmp(only, "1") == 0)) {
    return MT_OK;
  }
  return add_folder(config->log, folders, strdup(MT_PLUGINDIR));
}

static mt_status add_files(const mt_logger *log, const char *folder, mt_strings *paths) {
  mt_strings names;
  mt_status status = mt_list_folder(folder, ".so", &names);
  if (status == MT_ERR_OUT_OF_MEMORY) {
    return status;
  }
  if (status != MT_OK) {
    mt_log_write(log, status == MT_ERR_NOT_FOUND ? MT_LOG_INFO : MT_LOG_WARN, "loader",
                 "not searched: %s", mt_last_error());
    return MT_OK;
  }
  mt_log_write(log, MT_LOG_DEBUG, "loader", "%s: %zu files", folder, names.count);
  const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
  for (size_t i = 0; status == MT_OK && i < names.count; i++) {
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", folder, slash, names.item[i]) < 0) {
      path = NULL;
    }
    status = add(paths, path);
  }
  mt_strings_free(&names);
  return status;
}

mt_status mt_search_files(const mt_loader_config *config, mt_strings *paths) {
  mt_strings folders = {0};
  *paths = (mt_strings){0};
  mt_status status = add_folders(config, &folders);
  for (size_t i = 0; status == MT_OK && i < folders.count; i++) {
    status = add_files(config->log, folders.item[i], paths);
  }
  mt_strings_free(&folders);
  if (status != MT_OK) {
    mt_strings_free(paths);
  }
  return status;
}

/* ---- the user's filter -------------------------------------------------------------- */

bool mt_filter_allows(const char *setting, const char *name) {
  bool wanted = false, has_wish = false;
  while (setting && *setting) {
    char glob[256];
    size_t length = strcspn(setting, ",");
    bool deny = setting[0] == '-';
    size_t skip = deny ? 1 : 0;
    /* longer than a name can match: '*' alone is as good as what is cut */
    snprintf(glob, sizeof(glob), "%.*s", (int)(length > 255 ? 255 - skip : length - skip),
             setting + skip);
    bool match = length > skip && fnmatch(glob, name, 0) == 0;
    if (deny && match) {
      return false;
    }
    wanted |= !deny && match;
    has_wish |= !deny && length > 0;
    setting += length + (setting[length] == ',');
  }
  return wanted || !has_wish;
}
