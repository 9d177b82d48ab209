// SPDX-License-Identifier: Apache-2.0
/* cmd_convert.c - mecantensor convert */
#include "common.h"
#include "text.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_DTYPE = KEY_OWN, KEY_FORMAT, KEY_SELECT };

typedef struct convert_arguments {
  common_options common;
  const char *in, *out, *select;
  mt_dtype dtype;          /* MT_DTYPE_NONE: as it is */
  const mt_format *format; /* NULL: as it is */
} convert_arguments;

static mt_dtype parse_dtype(struct argp_state *state, const char *text) {
  mt_dtype dtype = mt_dtype_from_name(text);
  if (dtype == MT_DTYPE_NONE || dtype == MT_BLOCK) {
    argp_error(state, "--dtype: '%s' is none of f32, f64, f16, bf16, i8, u8, i16, i32, i64, bool",
               text);
  }
  return dtype;
}

static const mt_format *parse_format(struct argp_state *state, const char *text) {
  const mt_format *format = mt_format_find(text);
  if (format == NULL) {
    char list[256] = "";
    for (size_t i = 0; i < mt_format_count(); i++) {
      size_t at = strlen(list);
      snprintf(list + at, sizeof(list) - at, " %s", mt_format_id(mt_format_at(i)));
    }
    argp_error(state, "--format: '%s' is no block format; there are:%s", text, list);
  }
  return format;
}

static void check_arguments(const convert_arguments *arguments, struct argp_state *state) {
  if (arguments->out == NULL) {
    argp_error(state, "two files are needed, IN and OUT");
  } else if (mt_file_type_from_path(arguments->out) == MT_FILE_UNKNOWN) {
    argp_error(state, "OUT: '%s' ends in none of .mt, .npy, .safetensors", arguments->out);
  }
  if (arguments->dtype != MT_DTYPE_NONE && arguments->format != NULL) {
    argp_error(state, "--dtype and --format exclude each other");
  }
  if (arguments->select != NULL && arguments->dtype == MT_DTYPE_NONE && arguments->format == NULL) {
    argp_error(state, "--select needs --dtype or --format");
  }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  convert_arguments *arguments = state->input;
  switch (key) {
  case KEY_DTYPE: arguments->dtype = parse_dtype(state, arg); return 0;
  case KEY_FORMAT: arguments->format = parse_format(state, arg); return 0;
  case KEY_SELECT: arguments->select = arg; return 0;
  case ARGP_KEY_ARG:
    if (state->arg_num > 1) {
      argp_error(state, "'%s': only two files, IN and OUT, are expected", arg);
    }
    *(state->arg_num == 0 ? &arguments->in : &arguments->out) = arg;
    return 0;
  case ARGP_KEY_END: check_arguments(arguments, state); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"dtype", KEY_DTYPE, "DTYPE", 0, "Cast to f32, f64, f16, bf16, i8, u8, i16, i32, i64 or bool",
     0},
    {"format", KEY_FORMAT, "ID", 0, "Quantize to a block format, e.g. q8_0 (OUT must be .mt)", 0},
    {"select", KEY_SELECT, "GLOB", 0, "Only tensors whose name matches are cast or quantized", 0},
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    "IN OUT",
    "Copy all tensors of a file, or one (FILE:NAME), to another file.\v"
    "The type of OUT is told by its ending: .mt, .npy (exactly one tensor) or .safetensors. "
    "Without --dtype and --format not a bit of a value changes. Without --select, --dtype is "
    "for tensors of floating point (and block formats), --format for those of two axes or "
    "more; the others are copied as they are. Metadata is kept where OUT can hold it.",
    NULL,
    NULL,
    NULL};

/* ---- stopping half way -------------------------------------------------------------------- */
/* So that Ctrl-C between two tensors removes the temporary file. */
static volatile sig_atomic_t stopped_by;

static void on_signal(int number) {
  stopped_by = number;
}

static void catch_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
    struct sigaction action, old;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART; /* the second one ends it at once */
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
      sigaction(signals[i], &action, NULL);
    }
  }
}

/* ---- converting ------------------------------------------------------------------------------ */
typedef struct conversion {
  const convert_arguments *arguments;
  mt_runtime *rt; /* for casts */
  mt_archive *in;
  mt_writer *out;
  size_t first, count; /* tensors of in */
  text_table table;
  json_t *tensors; /* NULL: text */
} conversion;

static bool is_float(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_F16 || dtype == MT_BF16;
}

static const char *type_name(mt_dtype dtype, const mt_format *format) {
  return format != NULL ? mt_format_id(format) : mt_dtype_name(dtype);
}

static bool is_selected(const convert_arguments *arguments, const mt_archive_entry *entry) {
  if (arguments->dtype == MT_DTYPE_NONE && arguments->format == NULL) {
    return false;
  }
  if (arguments->select != NULL) {
    return fnmatch(arguments->select, entry->name, 0) == 0;
  }
  bool values = is_float(entry->dtype) || entry->format != NULL;
  return values && (arguments->format == NULL || entry->rank >= 2);
}

/* Replaces *tensor by its cast. */
static mt_status cast(mt_runtime *rt, mt_tensor **tensor, mt_dtype dtype) {
  if (mt_tensor_dtype(*tensor) == dtype) {
    return MT_OK;
  }
  mt_tensor *result = NULL;
  mt_status status = mt_cast(rt, *tensor, dtype, &result);
  if (status == MT_OK) {
    mt_tensor_release(tensor);
    *tensor = result;
  }
  return status;
}

static mt_status change(const conversion *c, mt_tensor **tensor) {
  const convert_arguments *arguments = c->arguments;
  if (arguments->format == NULL) {
    bool block = mt_tensor_dtype(*tensor) == MT_BLOCK; /* these decode to f32 only */
    mt_status status = block ? cast(c->rt, tensor, MT_F32) : MT_OK;
    return status == MT_OK ? cast(c->rt, tensor, arguments->dtype) : status;
  }
  if (mt_tensor_format(*tensor) == arguments->format) {
    return MT_OK;
  }
  mt_tensor *result = NULL;
  mt_status status = cast(c->rt, tensor, MT_F32);
  if (status == MT_OK) {
    status = mt_quantize(c->rt, *tensor, arguments->format, &result);
  }
  if (status == MT_OK) {
    mt_tensor_release(tensor);
    *tensor = result;
  }
  return status;
}

static void report(conversion *c, const mt_archive_entry *entry, const char *name,
                   const mt_tensor *tensor) {
  const char *from = type_name(entry->dtype, entry->format);
  const char *to = type_name(mt_tensor_dtype(tensor), mt_tensor_format(tensor));
  if (c->tensors != NULL) {
    json_t *object = json_make_object();
    json_put(object, "name", json_text(name));
    json_put(object, "shape", json_shape(entry->rank, entry->shape));
    json_put(object, "from", json_text(from));
    json_put(object, "to", json_text(to));
    json_put(object, "bytes", json_integer((json_int_t)mt_tensor_bytes(tensor)));
    json_add(c->tensors, object);
    return;
  }
  char shape[SHAPE_TEXT];
  table_cell(&c->table, "%s", name);
  table_cell(&c->table, "%s", shape_text(entry->rank, entry->shape, shape, sizeof(shape)));
  if (strcmp(from, to) == 0) {
    table_cell(&c->table, "%s", to);
  } else {
    table_cell(&c->table, "%s -> %s", from, to);
  }
}

static int convert_tensor(conversion *c, size_t index) {
  mt_archive_entry entry;
  mt_tensor *tensor = NULL;
  if (mt_archive_entry_at(c->in, index, &entry) != MT_OK ||
      mt_archive_read(c->in, index, &tensor) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  /* .npy has no names; "tensor" is what mt_save() gives. */
  const char *name = entry.name[0] != 0 ? entry.name : "tensor";
  int code = EXIT_DONE;
  if (is_selected(c->arguments, &entry) && change(c, &tensor) != MT_OK) {
    code = cli_fail(EXIT_FAILED, "tensor '%s': %s", name, mt_last_error());
  } else if (mt_writer_add(c->out, name, tensor) != MT_OK) {
    code = cli_fail_library(EXIT_UNUSABLE);
  } else {
    report(c, &entry, name, tensor);
  }
  mt_tensor_release(&tensor);
  return code;
}

static int copy_metadata(conversion *c) {
  size_t count = mt_archive_metadata_count(c->in);
  if (count > 0 && mt_file_type_from_path(c->arguments->out) == MT_FILE_NPY) {
    cli_warn("a .npy file holds no metadata: %zu of '%s' left out", count, c->arguments->in);
    return EXIT_DONE;
  }
  for (size_t i = 0; i < count; i++) {
    const char *key, *value;
    if (mt_archive_metadata_at(c->in, i, &key, &value) != MT_OK ||
        mt_writer_metadata(c->out, key, value) != MT_OK) {
      return cli_fail_library(EXIT_UNUSABLE);
    }
  }
  return EXIT_DONE;
}

static void print_report(conversion *c) {
  const convert_arguments *arguments = c->arguments;
  if (c->tensors == NULL) {
    printf("%s -> %s (%s): %zu tensor%s\n", arguments->in, arguments->out,
           mt_file_type_name(mt_file_type_from_path(arguments->out)), c->count,
           c->count == 1 ? "" : "s");
    table_print(&c->table, 2);
    return;
  }
  json_t *root = json_make_object();
  json_put(root, "input", json_text(arguments->in));
  json_put(root, "output", json_text(arguments->out));
  json_put(root, "type", json_text(mt_file_type_name(mt_file_type_from_path(arguments->out))));
  json_put(root, "tensors", c->tensors);
  json_print(root);
}

/* in is open, rt there. */
static int convert_all(conversion *c) {
  mt_file_type type = mt_file_type_from_path(c->arguments->out);
  if (type == MT_FILE_NPY && c->count != 1) {
    return cli_fail(EXIT_UNUSABLE,
                    "a .npy file holds one tensor, '%s' has %zu; choose one with %s:NAME",
                    c->arguments->in, c->count, c->arguments->in);
  }
  if (mt_writer_create(c->arguments->out, type, &c->out) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  catch_signals();
  int code = copy_metadata(c);
  for (size_t i = 0; code == EXIT_DONE && i < c->count; i++) {
    code = convert_tensor(c, c->first + i);
    if (stopped_by != 0) {
      mt_writer_abort(&c->out);
      raise(stopped_by); /* as if it had not been caught */
    }
  }
  if (code == EXIT_DONE && mt_writer_commit(&c->out) != MT_OK) {
    code = cli_fail_library(EXIT_UNUSABLE);
  }
  mt_writer_abort(&c->out);
  return code;
}

static int open_input(conversion *c) {
  char *path;
  const char *name;
  split_spec(c->arguments->in, &path, &name);
  mt_status status = mt_archive_open(path, &c->in);
  if (status == MT_OK) {
    c->count = mt_archive_count(c->in);
  }
  if (status == MT_OK && name != NULL) {
    c->count = 1;
    status = mt_archive_find(c->in, name, &c->first);
  }
  free(path);
  /* Casts only: no backend is asked. */
  return status == MT_OK ? open_runtime("reference", &c->rt) : cli_fail_library(EXIT_UNUSABLE);
}

int cmd_convert(int argc, char **argv) {
  convert_arguments arguments = {0};
  parse_arguments(&argp, argc, argv, &arguments);
  conversion c = {.arguments = &arguments, .table = {.align = "lll"}};
  c.tensors = arguments.common.json ? json_make_array() : NULL;
  int code = open_input(&c);
  if (code == EXIT_DONE) {
    code = convert_all(&c);
  }
  if (code == EXIT_DONE) {
    print_report(&c);
  } else {
    table_clear(&c.table);
    json_decref(c.tensors);
  }
  mt_archive_close(&c.in);
  mt_runtime_release(&c.rt);
  return code;
}
