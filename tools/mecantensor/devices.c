// SPDX-License-Identifier: Apache-2.0
#include "devices.h"

#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

mt_device_info device_at(mt_runtime *rt, size_t index) {
  mt_device_info info;
  if (mt_runtime_device_get(rt, index, &info) != MT_OK) {
    exit(cli_fail_library(EXIT_FAILED));
  }
  return info;
}

mt_probe_record record_at(mt_runtime *rt, size_t index) {
  mt_probe_record record;
  if (mt_runtime_probe_get(rt, index, &record) != MT_OK) {
    exit(cli_fail_library(EXIT_FAILED));
  }
  return record;
}

bool reference_selected(mt_runtime *rt) {
  const char *at = mt_runtime_backend(rt);
  while (*at != 0) {
    at += strspn(at, ", \t");
    size_t length = strcspn(at, ", \t");
    if ((length == 4 && strncmp(at, "auto", length) == 0) ||
        (length == 9 && strncmp(at, "reference", length) == 0)) {
      return true;
    }
    at += length;
  }
  return false;
}

/* ---- folders ------------------------------------------------------------------------------ */
void put_folder(FILE *out, const char *indent, const char *folder) {
  struct stat info;
  fputs(indent, out);
  put_escaped(out, folder);
  if (folder[0] != '/') {
    fputs(": not searched, the path is not absolute\n", out);
  } else if (stat(folder, &info) != 0) {
    fputs(": does not exist\n", out);
  } else {
    fputs(S_ISDIR(info.st_mode) ? ": searched\n" : ": is not a folder\n", out);
  }
}

void put_plugin_path(FILE *out, const char *indent, const char *value) {
  if (value == NULL) {
    return;
  }
  char *copy = need_memory(strdup(value));
  for (char *rest = copy, *folder; (folder = strsep(&rest, ":")) != NULL;) {
    if (folder[0] != 0) {
      put_folder(out, indent, folder);
    }
  }
  free(copy);
}

void put_built_in_folder(FILE *out, const char *indent, const char *only) {
  if (only != NULL && strcmp(only, "1") == 0) {
    fprintf(out, "%s%s: not searched\n", indent, MT_PLUGINDIR);
  } else {
    put_folder(out, indent, MT_PLUGINDIR);
  }
}

/* ---- text ----------------------------------------------------------------------------------- */
static void device_memory(const mt_device_info *info, char *buf, size_t size) {
  if (info->memory_bytes == 0) {
    snprintf(buf, size, "host");
  } else {
    bytes_text(info->memory_bytes, buf, size);
  }
}

static void print_table(mt_runtime *rt) {
  static const char *const heads[] = {"DEVICE", "KIND", "MEMORY", "SELECTED", "NAME", "DRIVER"};
  text_table table = {.align = "llrlll"};
  for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
    table_cell(&table, "%s", heads[i]);
  }
  size_t count = mt_runtime_device_count(rt);
  for (size_t i = 0; i < count; i++) {
    mt_device_info info = device_at(rt, i);
    char memory[BYTES_TEXT];
    device_memory(&info, memory, sizeof(memory));
    table_cell(&table, "%s:%u", info.backend, info.index);
    table_cell(&table, "%s", mt_device_kind_name(info.kind));
    table_cell(&table, "%s", memory);
    table_cell(&table, "%s", info.selected ? "yes" : "no");
    table_cell(&table, "%s", info.name);
    table_cell(&table, "%s", info.driver);
  }
  table_cell(&table, "reference");
  table_cell(&table, "cpu");
  table_cell(&table, "host");
  table_cell(&table, "%s", reference_selected(rt) ? "yes" : "no");
  table_cell(&table, "kernels of the core, for every op");
  table_cell(&table, "MecanTensor %s", mt_version());
  table_print(&table, 0);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static void put_line(const char *label, const char *text) {
  printf("    %-9s ", label);
  put_escaped(stdout, text);
  putchar('\n');
}

static void print_unusable(mt_runtime *rt) {
  size_t count = mt_runtime_probe_count(rt);
  size_t unusable = 0;
  for (size_t i = 0; i < count; i++) {
    mt_probe_record record = record_at(rt, i);
    if (record.code == MT_OK) {
      continue;
    }
    if (unusable++ == 0) {
      puts("\nPlugins that cannot be used:");
    }
    printf("  ");
    put_escaped(stdout, record.name[0] != 0 ? record.name : base_name(record.path));
    printf(": ");
    put_escaped(stdout, record.reason);
    putchar('\n');
    put_line("file", record.path);
  }
  if (unusable == 0) {
    printf("\nPlugins that cannot be used: none (%zu found)\n", count);
  }
}

static void print_device_details(mt_runtime *rt) {
  size_t count = mt_runtime_device_count(rt);
  for (size_t i = 0; i < count; i++) {
    mt_device_info info = device_at(rt, i);
    printf("\nDevice ");
    put_escaped(stdout, info.backend);
    printf(":%u\n", info.index);
    put_line("name", info.name);
    put_line("vendor", info.vendor);
    put_line("driver", info.driver);
    put_line("operands",
             info.host_memory ? "used in place, in host memory" : "moved to memory of the device");
    if (!info.host_memory) {
      put_line("memory", info.unified_memory ? "unified with the host's" : "its own");
    }
    if (info.pci[0] != 0) {
      put_line("pci", info.pci);
    }
  }
}

static void print_candidates(mt_runtime *rt) {
  size_t count = mt_runtime_probe_count(rt);
  puts("\nFolders with plugins, in order of search:");
  put_plugin_path(stdout, "  ", secure_getenv("MECANTENSOR_PLUGIN_PATH"));
  put_built_in_folder(stdout, "  ", secure_getenv("MECANTENSOR_PLUGIN_PATH_ONLY"));
  printf("\nPlugin files, in order of search: %zu\n", count);
  for (size_t i = 0; i < count; i++) {
    mt_probe_record record = record_at(rt, i);
    char text[96];
    printf("  ");
    put_escaped(stdout, record.path);
    putchar('\n');
    put_line("plugin", record.name[0] != 0 ? record.name : "(the file did not tell)");
    if (record.version[0] != 0) {
      put_line("version", record.version);
    }
    snprintf(text, sizeof(text), "%d", record.priority);
    put_line("priority", text);
    put_line("stage", mt_probe_stage_name(record.stage));
    put_line("status", mt_status_name(record.code));
    if (record.reason[0] != 0) {
      put_line("reason", record.reason);
    }
    if (record.stage == MT_PROBE_READY) {
      snprintf(text, sizeof(text), "%u", record.devices);
      put_line("devices", text);
    }
  }
}

/* Words below each other, as many in a line as fit. */
static void print_features(void) {
  enum { WIDTH = 90 };
  const char *at = mt_cpu_features();
  size_t column = WIDTH;
  printf("\nCPU features:");
  while (*(at += strspn(at, " ")) != 0) {
    size_t length = strcspn(at, " ");
    if (column + 1 + length > WIDTH) {
      printf("\n ");
      column = 1;
    }
    printf(" %.*s", (int)length, at);
    column += 1 + length;
    at += length;
  }
  putchar('\n');
}

void print_devices(mt_runtime *rt, bool verbose) {
  print_table(rt);
  print_unusable(rt);
  if (verbose) {
    print_device_details(rt);
    print_candidates(rt);
    print_features();
  }
}

/* ---- JSON ------------------------------------------------------------------------------------ */
static json_t *device_json(const mt_device_info *info) {
  json_t *object = json_make_object();
  char id[96];
  char uuid[33] = "";
  snprintf(id, sizeof(id), "%s:%u", info->backend, info->index);
  bool has_uuid = false;
  for (int i = 0; i < 16; i++) {
    has_uuid = has_uuid || info->uuid[i] != 0;
    snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
  }
  json_put(object, "id", json_text(id));
  json_put(object, "backend", json_text(info->backend));
  json_put(object, "index", json_integer(info->index));
  json_put(object, "kind", json_text(mt_device_kind_name(info->kind)));
  json_put(object, "name", json_text(info->name));
  json_put(object, "vendor", json_text(info->vendor));
  json_put(object, "driver", json_text(info->driver));
  json_put(object, "memory_bytes", json_integer((json_int_t)info->memory_bytes));
  json_put(object, "host_memory", json_boolean(info->host_memory));
  json_put(object, "unified_memory", json_boolean(info->unified_memory));
  json_put(object, "pci", info->pci[0] != 0 ? json_text(info->pci) : json_null());
  json_put(object, "uuid", has_uuid ? json_text(uuid) : json_null());
  json_put(object, "selected", json_boolean(info->selected));
  return object;
}

static json_t *reference_json(mt_runtime *rt) {
  json_t *object = json_make_object();
  json_put(object, "id", json_text("reference"));
  json_put(object, "backend", json_text("reference"));
  json_put(object, "kind", json_text("cpu"));
  json_put(object, "name", json_text("kernels of the core, for every op"));
  json_put(object, "host_memory", json_true());
  json_put(object, "selected", json_boolean(reference_selected(rt)));
  return object;
}

static json_t *record_json(const mt_probe_record *record) {
  json_t *object = json_make_object();
  json_put(object, "path", json_text(record->path));
  json_put(object, "name", json_text(record->name));
  json_put(object, "version", json_text(record->version));
  json_put(object, "priority", json_integer(record->priority));
  json_put(object, "usable", json_boolean(record->code == MT_OK));
  json_put(object, "opened", json_boolean(record->opened));
  json_put(object, "stage", json_text(mt_probe_stage_name(record->stage)));
  json_put(object, "status", json_text(mt_status_name(record->code)));
  json_put(object, "reason", json_text(record->reason));
  json_put(object, "devices", json_integer(record->devices));
  return object;
}

static json_t *features_json(void) {
  json_t *array = json_make_array();
  const char *at = mt_cpu_features();
  while (*(at += strspn(at, " ")) != 0) {
    size_t length = strcspn(at, " ");
    json_add(array, json_stringn(at, length));
    at += length;
  }
  return array;
}

json_t *devices_json(mt_runtime *rt) {
  json_t *devices = json_make_array();
  size_t count = mt_runtime_device_count(rt);
  for (size_t i = 0; i < count; i++) {
    mt_device_info info = device_at(rt, i);
    json_add(devices, device_json(&info));
  }
  json_add(devices, reference_json(rt));
  json_t *plugins = json_make_array();
  count = mt_runtime_probe_count(rt);
  for (size_t i = 0; i < count; i++) {
    mt_probe_record record = record_at(rt, i);
    json_add(plugins, record_json(&record));
  }
  json_t *root = json_make_object();
  json_put(root, "version", json_text(mt_version()));
  json_put(root, "backend", json_text(mt_runtime_backend(rt)));
  json_put(root, "cpu_features", features_json());
  json_put(root, "devices", devices);
  json_put(root, "plugins", plugins);
  return root;
}
