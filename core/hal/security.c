// SPDX-License-Identifier: Apache-2.0
/*
 * May this file be run with the user's rights? Who can write to it, to its folder or to
 * a folder above, decides what runs.
 *
 * A folder above the plugin's may be writable by its group: /usr/local/lib is on some
 * systems (root:staff), and such a group is trusted with far more.
 */
#include "../error.h"
#include "loader_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mt_status check_owner(const char *path, const struct stat *info) {
  if (info->st_uid != 0 && info->st_uid != geteuid()) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s belongs to uid %u, expected root or uid %u: chown it",
                   path, (unsigned)info->st_uid, (unsigned)geteuid());
  }
  return MT_OK;
}

/* forbidden: of S_IWGRP | S_IWOTH */
static mt_status check_mode(const char *path, const struct stat *info, mode_t forbidden) {
  mode_t bad = info->st_mode & forbidden;
  if (!bad) {
    return MT_OK;
  }
  bool both = bad == (S_IWGRP | S_IWOTH);
  return mt_fail(MT_ERR_UNSUPPORTED, "%s is writable by %s (mode %04o): chmod %s %s", path,
                 both             ? "group and others"
                 : bad == S_IWGRP ? "group"
                                  : "others",
                 (unsigned)info->st_mode & 07777,
                 both             ? "go-w"
                 : bad == S_IWGRP ? "g-w"
                                  : "o-w",
                 path);
}

static mt_status look(const char *path, struct stat *info) {
  if (stat(path, info) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", path);
  }
  return check_owner(path, info);
}

/* The folder, then each above it up to "/". folder: without symbolic links; is changed. */
static mt_status check_folders(char *folder) {
  struct stat info;
  MT_TRY(look(folder, &info));
  MT_TRY(check_mode(folder, &info, S_IWGRP | S_IWOTH));
  while (strcmp(folder, "/") != 0) {
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0'; /* keep the slash of the root */
    MT_TRY(look(folder, &info));
    if (!(info.st_mode & S_ISVTX)) {
      MT_TRY(check_mode(folder, &info, S_IWOTH));
    }
  }
  return MT_OK;
}

/* path without its last part; to be freed */
static char *folder_of(const char *path) {
  char *folder = strdup(path);
  char *slash = folder ? strrchr(folder, '/') : NULL;
  if (slash) {
    slash[slash == folder] = '\0';
  }
  return folder;
}

static mt_status check_folder_of(const char *path) {
  char *folder = folder_of(path);
  char *real = folder ? realpath(folder, NULL) : NULL;
  mt_status status =
      real ? check_folders(real) : mt_fail_errno(MT_ERR_IO, errno, "the folder of %s", path);
  free(real);
  free(folder);
  return status;
}

mt_status mt_secure_path(const char *path, char **real) {
  struct stat info;
  *real = realpath(path, NULL);
  if (!*real) {
    return mt_fail_errno(MT_ERR_IO, errno, "%s", path);
  }
  mt_status status = look(*real, &info);
  if (status == MT_OK) {
    status = check_mode(*real, &info, S_IWGRP | S_IWOTH);
  }
  if (status == MT_OK) {
    status = check_folder_of(*real);
  }
  if (status == MT_OK && strcmp(path, *real) != 0) { /* where the link is counts too */
    status = check_folder_of(path);
  }
  if (status != MT_OK) {
    free(*real);
    *real = NULL;
  }
  return status;
}
