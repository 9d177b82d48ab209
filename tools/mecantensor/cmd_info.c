// SPDX-License-Identifier: Apache-2.0
/* cmd_info.c - mecantensor info */
#include "common.h"
#include "stats.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { KEY_VERIFY = KEY_OWN };

typedef struct info_arguments {
  common_options common;
  bool verify;
  char **specs;
  int spec_count;
} info_arguments;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  info_arguments *arguments = state->input;
  switch (key) {
  case KEY_VERIFY: arguments->verify = true; return 0;
  case ARGP_KEY_ARGS:
    arguments->specs = state->argv + state->next;
    arguments->spec_count = state->argc - state->next;
    return 0;
  case ARGP_KEY_NO_ARGS: argp_error(state, "say which FILE"); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"verify", KEY_VERIFY, 0, 0, "Read every byte and check what can be checked (checksums)", 0},
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    "FILE[:NAME]...",
    "Show the tensors and the metadata of files, or figures of one tensor.\v"
    "FILE is a .mt, .npy or .safetensors file; what it is is told by its content. With :NAME, "
    "that tensor is read and its smallest and largest value, mean and standard deviation "
    "(of the finite values, as doubles) are shown.",
    NULL,
    NULL,
    NULL};

/* One file being shown; object is NULL for text. */
typedef struct shown_file {
  const char *spec;
  char *path;
  const char *name; /* of one tensor, or NULL */
  mt_archive *archive;
  json_t *object;
} shown_file;

static mt_archive_entry entry_at(const mt_archive *archive, size_t index) {
  mt_archive_entry entry;
  if (mt_archive_entry_at(archive, index, &entry) != MT_OK) {
    exit(cli_fail_library(EXIT_UNUSABLE));
  }
  return entry;
}

static const char *entry_dtype(const mt_archive_entry *entry) {
  return entry->format != NULL ? mt_format_id(entry->format) : mt_dtype_name(entry->dtype);
}

static json_t *entry_json(const mt_archive_entry *entry) {
  json_t *object = json_make_object();
  json_put(object, "name", json_text(entry->name));
  json_put(object, "dtype",
           entry->dtype == MT_DTYPE_NONE ? json_null() : json_text(entry_dtype(entry)));
  json_put(object, "stored_as", json_text(entry->stored_as));
  json_put(object, "shape", json_shape(entry->rank, entry->shape));
  json_put(object, "bytes", json_integer((json_int_t)entry->bytes));
  json_put(object, "offset", json_integer((json_int_t)entry->offset));
  return object;
}

static void show_entries(const shown_file *file) {
  static const char *const heads[] = {"NAME", "DTYPE", "SHAPE", "BYTES", "OFFSET"};
  text_table table = {.align = "lllrr"};
  size_t count = mt_archive_count(file->archive);
  if (count == 0) {
    return;
  }
  for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
    table_cell(&table, "%s", heads[i]);
  }
  for (size_t i = 0; i < count; i++) {
    char shape[SHAPE_TEXT];
    mt_archive_entry entry = entry_at(file->archive, i);
    table_cell(&table, "%s", entry.name[0] != 0 ? entry.name : "-");
    if (entry.dtype == MT_DTYPE_NONE) {
      table_cell(&table, "%s (unreadable)", entry.stored_as);
    } else {
      table_cell(&table, "%s", entry_dtype(&entry));
    }
    table_cell(&table, "%s", shape_text(entry.rank, entry.shape, shape, sizeof(shape)));
    table_cell(&table, "%" PRIu64, entry.bytes);
    table_cell(&table, "%" PRIu64, entry.offset);
  }
  table_print(&table, 2);
}

static void show_metadata(const shown_file *file) {
  size_t count = mt_archive_metadata_count(file->archive);
  json_t *object = file->object == NULL ? NULL : json_make_object();
  for (size_t i = 0; i < count; i++) {
    const char *key, *value;
    if (mt_archive_metadata_at(file->archive, i, &key, &value) != MT_OK) {
      exit(cli_fail_library(EXIT_UNUSABLE));
    }
    if (object != NULL) {
      json_t *safe_key = json_text(key); /* a key must be UTF-8 too */
      json_put(object, json_string_value(safe_key), json_text(value));
      json_decref(safe_key);
      continue;
    }
    printf("  metadata  ");
    put_escaped(stdout, key);
    printf(" = ");
    put_escaped(stdout, value);
    putchar('\n');
  }
  if (object != NULL) {
    json_put(file->object, "metadata", object);
  }
}

static void show_file(const shown_file *file) {
  size_t count = mt_archive_count(file->archive);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) {
    bytes += entry_at(file->archive, i).bytes;
  }
  if (file->object != NULL) {
    json_t *tensors = json_make_array();
    for (size_t i = 0; i < count; i++) {
      mt_archive_entry entry = entry_at(file->archive, i);
      json_add(tensors, entry_json(&entry));
    }
    json_put(file->object, "bytes", json_integer((json_int_t)bytes));
    json_put(file->object, "tensors", tensors);
  } else {
    char text[BYTES_TEXT];
    printf("%s: %s, %zu tensor%s, %s\n", file->path, mt_archive_version(file->archive), count,
           count == 1 ? "" : "s", bytes_text(bytes, text, sizeof(text)));
  }
  show_metadata(file);
  if (file->object == NULL) {
    show_entries(file);
  }
}

static void print_stats(const value_stats *s) {
  printf("  values    %" PRId64 ", zero %" PRId64 ", NaN %" PRId64 ", infinite %" PRId64 "\n",
         s->count, s->zero, s->nan, s->infinite);
  printf("  min       %.9g\n  max       %.9g\n  mean      %.9g\n  std       %.9g\n", s->min, s->max,
         s->mean, s->std);
}

static json_t *stats_json(const value_stats *s) {
  json_t *object = json_make_object();
  json_put(object, "count", json_integer(s->count));
  json_put(object, "zero", json_integer(s->zero));
  json_put(object, "nan", json_integer(s->nan));
  json_put(object, "infinite", json_integer(s->infinite));
  json_put(object, "min", json_figure(s->min));
  json_put(object, "max", json_figure(s->max));
  json_put(object, "mean", json_figure(s->mean));
  json_put(object, "std", json_figure(s->std));
  return object;
}

static void print_entry(const shown_file *file, const mt_archive_entry *entry) {
  char shape[SHAPE_TEXT], bytes[BYTES_TEXT];
  printf("%s:", file->path);
  put_escaped(stdout, entry->name);
  printf("\n  dtype     %s\n  shape     %s\n", entry_dtype(entry),
         shape_text(entry->rank, entry->shape, shape, sizeof(shape)));
  if (entry->format != NULL) {
    printf("  format    %s\n", mt_format_description(entry->format));
  }
  printf("  bytes     %" PRIu64 " (%s) at offset %" PRIu64 "\n", entry->bytes,
         bytes_text(entry->bytes, bytes, sizeof(bytes)), entry->offset);
}

static int show_tensor(const shown_file *file) {
  size_t index = 0;
  mt_tensor *tensor = NULL;
  value_stats stats;
  if (mt_archive_find(file->archive, file->name, &index) != MT_OK ||
      mt_archive_read(file->archive, index, &tensor) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  mt_status status = tensor_stats(tensor, &stats);
  mt_tensor_release(&tensor);
  if (status != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  mt_archive_entry entry = entry_at(file->archive, index);
  if (file->object != NULL) {
    json_t *object = entry_json(&entry);
    json_put(object, "stats", stats_json(&stats));
    json_put(file->object, "tensor", object);
  } else {
    print_entry(file, &entry);
    print_stats(&stats);
  }
  return EXIT_DONE;
}

static int verify_file(const shown_file *file) {
  mt_status status = mt_archive_verify(file->archive);
  if (file->object != NULL) {
    json_put(file->object, "verified", json_boolean(status == MT_OK));
  } else if (status == MT_OK) {
    puts("  verified  every tensor was read");
  }
  return status == MT_OK ? EXIT_DONE : cli_fail_library(EXIT_UNUSABLE);
}

static int show_archive(const shown_file *file, bool verify) {
  if (file->object != NULL) {
    json_put(file->object, "file", json_text(file->path));
    json_put(file->object, "type", json_text(mt_file_type_name(mt_archive_type(file->archive))));
    json_put(file->object, "version", json_text(mt_archive_version(file->archive)));
  }
  int code = EXIT_DONE;
  if (file->name != NULL) {
    code = show_tensor(file);
  } else {
    show_file(file);
  }
  return code == EXIT_DONE && verify ? verify_file(file) : code;
}

static int show(const char *spec, bool verify, json_t *object) {
  shown_file file = {.spec = spec, .object = object};
  split_spec(spec, &file.path, &file.name);
  int code;
  if (mt_archive_open(file.path, &file.archive) != MT_OK) {
    code = cli_fail_library(EXIT_UNUSABLE);
  } else {
    code = show_archive(&file, verify);
  }
  if (object != NULL && code != EXIT_DONE) {
    json_put(object, "file", json_text(file.path));
    json_put(object, "error", json_text(mt_last_error()));
  }
  mt_archive_close(&file.archive);
  free(file.path);
  return code;
}

int cmd_info(int argc, char **argv) {
  info_arguments arguments = {0};
  parse_arguments(&argp, argc, argv, &arguments);
  json_t *files = arguments.common.json ? json_make_array() : NULL;
  int code = EXIT_DONE;
  for (int i = 0; i < arguments.spec_count; i++) {
    json_t *object = files == NULL ? NULL : json_make_object();
    int one = show(arguments.specs[i], arguments.verify, object);
    code = one > code ? one : code;
    if (files != NULL) {
      json_add(files, object);
    }
  }
  if (files != NULL) {
    json_t *root = json_make_object();
    json_put(root, "files", files);
    json_print(root);
  }
  return code;
}
