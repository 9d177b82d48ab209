// SPDX-License-Identifier: Apache-2.0
/* loader_parts.h - what loader.c is put together from. */
#ifndef MT_CORE_LOADER_PARTS_H
#define MT_CORE_LOADER_PARTS_H

#include "loader.h"
#include <stdbool.h>

/* ---- security.c --------------------------------------------------------------------- */
/* Owner and mode of the file, its folder and those above, after symbolic links. On success
 * *real is the path without links, to be freed; on failure the last error says what to do. */
mt_status mt_secure_path(const char *path, char **real);

/* ---- search.c ----------------------------------------------------------------------- */
typedef struct mt_strings {
  char **item;
  size_t count;
} mt_strings;
void mt_strings_free(mt_strings *strings);

/* The *.so files of the folders to search, in order. Folders that cannot be used are
 * logged and skipped. */
mt_status mt_search_files(const mt_loader_config *config, mt_strings *paths);
/* Sorted names in folder that end in suffix and have something before it. */
mt_status mt_list_folder(const char *folder, const char *suffix, mt_strings *names);
/* setting: "glob,-glob": some glob without '-' must match (when there is one), none with. */
bool mt_filter_allows(const char *setting, const char *name);

/* ---- dropin.c ----------------------------------------------------------------------- */
typedef struct mt_rule {
  char *where;   /* "file:line" */
  char *pattern; /* disable: a glob; priority: a name */
  bool disable;
  int32_t priority;
} mt_rule;
typedef struct mt_rules {
  mt_rule *rule;
  size_t count;
} mt_rules;
/* The rules of plugins.d. Mistakes in them are logged with file and line, and skipped. */
mt_status mt_rules_read(const mt_logger *log, mt_rules *rules);
void mt_rules_free(mt_rules *rules);
/* The last one for this name, or NULL. */
const mt_rule *mt_rules_find(const mt_rules *rules, bool disable, const char *name);

/* ---- isolate.c ---------------------------------------------------------------------- */
/* Opens and queries the plugin in a helper process. MT_OK: nothing speaks against doing
 * it here (also when there is no helper: that is logged). Else *stage is where it ended. */
mt_status mt_isolate(const char *path, const char *name, const mt_logger *log,
                     mt_probe_stage *stage);

#endif
