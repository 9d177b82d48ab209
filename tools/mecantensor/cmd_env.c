// SPDX-License-Identifier: Apache-2.0
/* cmd_env.c - mecantensor env: the variables, their values, and what they led to. */
#include "common.h"
#include "devices.h"
#include "text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* What the runtime made of the environment, one part at a time so that one wrong value
 * does not hide the others. */
typedef struct findings {
  mt_runtime *rt;      /* with as much of the environment as could be used; may be NULL */
  char *general_error; /* NULL: none */
  char *log_error;
  char *backend_error;
} findings;

typedef struct variable {
  const char *name;
  const char *what;
  const char *by_default;
  /* Prints lines of what value (NULL: not set) led to; may be NULL. */
  void (*effect)(FILE *out, const findings *found, const char *value);
} variable;

static void line(FILE *out, const char *text) {
  put_escaped(out, text);
  fputc('\n', out);
}

static void backend_effect(FILE *out, const findings *found, const char *value) {
  (void)value;
  if (found->backend_error != NULL) {
    line(out, found->backend_error);
    return;
  }
  size_t count = found->rt == NULL ? 0 : mt_runtime_device_count(found->rt);
  for (size_t i = 0; i < count; i++) {
    mt_device_info info = device_at(found->rt, i);
    if (info.selected) {
      fprintf(out, "%s:%u (", info.backend, info.index);
      put_escaped(out, info.name);
      fputs(")\n", out);
    }
  }
  if (found->rt != NULL && reference_selected(found->rt)) {
    fputs("reference (kernels of the core)\n", out);
  }
}

static void plugin_path_effect(FILE *out, const findings *found, const char *value) {
  (void)found;
  put_plugin_path(out, "", value);
}

static void path_only_effect(FILE *out, const findings *found, const char *value) {
  (void)found;
  put_built_in_folder(out, "", value);
}

static void plugins_effect(FILE *out, const findings *found, const char *value) {
  size_t count = found->rt == NULL || value == NULL ? 0 : mt_runtime_probe_count(found->rt);
  for (size_t i = 0; i < count; i++) {
    mt_probe_record record = record_at(found->rt, i);
    if (record.stage == MT_PROBE_FILTER && record.code != MT_OK) {
      put_escaped(out, record.name);
      fputs(": ", out);
      line(out, record.reason);
    }
  }
}

static void log_effect(FILE *out, const findings *found, const char *value) {
  if (found->log_error != NULL) {
    line(out, found->log_error);
    return;
  }
  for (const char *at = value; at != NULL && *at != 0;) {
    size_t length = strcspn(at, ",");
    const char *equals = memchr(at, '=', length);
    static const char *const levels[] = {"none", "error", "warn", "info", "debug"};
    bool is_level = false;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
      is_level = is_level || (strlen(levels[i]) == length && strncmp(at, levels[i], length) == 0);
    }
    if (equals != NULL) {
      fprintf(out, "topic %.*s at level %.*s\n", (int)(equals - at), at,
              (int)(at + length - equals - 1), equals + 1);
    } else if (length > 0) {
      fprintf(out, is_level ? "level %.*s for all other topics\n" : "topic %.*s at level debug\n",
              (int)length, at);
    }
    at += length + (at[length] == ',');
  }
}

static void threads_effect(FILE *out, const findings *found, const char *value) {
  (void)value;
  if (found->rt != NULL) {
    fprintf(out, "%u thread(s)\n", mt_runtime_threads(found->rt));
  }
}

static void probe_effect(FILE *out, const findings *found, const char *value) {
  (void)found;
  if (value != NULL && strcmp(value, "direct") == 0) {
    fputs("plugins are opened without a trial\n", out);
  } else if (value != NULL && strcmp(value, "helper") != 0) {
    fputs("ignored: expected helper or direct\n", out);
  }
}

static void helper_effect(FILE *out, const findings *found, const char *value) {
  (void)found;
  const char *path = value == NULL ? MT_LIBEXECDIR "/mecantensor-probe" : value;
  put_escaped(out, path);
  if (path[0] != '/') {
    fputs(": not used, the path is not absolute; plugins are opened without a trial\n", out);
  } else if (access(path, X_OK) != 0) {
    fputs(": cannot be run; plugins are opened without a trial\n", out);
  } else {
    fputs(": can be run\n", out);
  }
}

static void config_effect(FILE *out, const findings *found, const char *value) {
  (void)found;
  char *folder = NULL;
  const char *root = value == NULL || value[0] != '/' ? MT_SYSCONFDIR "/mecantensor" : value;
  if (asprintf(&folder, "%s/plugins.d", root) < 0) {
    die_memory();
  }
  if (root != value && value != NULL) {
    fputs("ignored: the path is not absolute\n", out);
  }
  put_folder(out, "", folder);
  free(folder);
}

static const variable variables[] = {
    {"MECANTENSOR_BACKEND", "which backends run operations, in order", "auto", backend_effect},
    {"MECANTENSOR_PLUGIN_PATH", "folders searched for plugins first, ':' between", "none",
     plugin_path_effect},
    {"MECANTENSOR_PLUGIN_PATH_ONLY", "1: the built-in plugin folder is not searched", "0",
     path_only_effect},
    {"MECANTENSOR_PLUGINS", "globs on plugin names, to use and (-glob) not to use", "all",
     plugins_effect},
    {"MECANTENSOR_LOG", "what is told on stderr: a level, topics", "warn", log_effect},
    {"MECANTENSOR_NUM_THREADS", "threads of the process's pool", "one for each CPU",
     threads_effect},
    {"MECANTENSOR_PROBE", "how plugins are tried out: in a helper process, or directly", "helper",
     probe_effect},
    {"MECANTENSOR_PROBE_TIMEOUT_MS", "time limit of the helper process", "10000", NULL},
    {"MECANTENSOR_PROBE_HELPER", "the helper program", MT_LIBEXECDIR "/mecantensor-probe",
     helper_effect},
    {"MECANTENSOR_CONFIG_DIR", "folder with plugins.d/*.conf", MT_SYSCONFDIR "/mecantensor",
     config_effect},
};
enum { VARIABLES = sizeof(variables) / sizeof(variables[0]) };

/* ---- finding out ---------------------------------------------------------------------------- */
static void be_quiet(void *user, mt_log_level level, const char *topic, const char *message) {
  (void)user;
  (void)level;
  (void)topic;
  (void)message;
}

/* Replaces *rt when it works; else returns the error, allocated. */
static char *try_runtime(const char *backend, const char *log, mt_log_fn log_fn, mt_runtime **rt) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  options.backend = backend;
  options.log = log;
  options.log_fn = log_fn;
  mt_runtime *fresh = NULL;
  if (mt_runtime_create(&options, &fresh) != MT_OK) {
    return need_memory(strdup(mt_last_error()));
  }
  mt_runtime_release(rt);
  *rt = fresh;
  return NULL;
}

static findings find_out(void) {
  findings found = {0};
  found.general_error = try_runtime("auto", "none", be_quiet, &found.rt);
  if (found.general_error == NULL) {
    found.log_error = try_runtime("auto", NULL, be_quiet, &found.rt);
    /* This one speaks: values that are ignored are told as warnings. */
    const char *log = found.log_error == NULL ? NULL : "warn";
    found.backend_error = try_runtime(NULL, log, NULL, &found.rt);
    if (mt_runtime_probe_all(found.rt) != MT_OK) {
      cli_fail_library(EXIT_FAILED);
    }
  }
  return found;
}

/* ---- variables that nobody knows ------------------------------------------------------------- */
/* Is name MECANTENSOR_<PLUGIN>_<KEY> of a plugin found here? Then that plugin's name. */
static const char *setting_of_plugin(const findings *found, const char *name, const char **key) {
  size_t count = found->rt == NULL ? 0 : mt_runtime_probe_count(found->rt);
  const char *rest = name + strlen("MECANTENSOR_");
  for (size_t i = 0; i < count; i++) {
    mt_probe_record record = record_at(found->rt, i);
    size_t length = strlen(record.name);
    size_t same = 0;
    while (same < length &&
           rest[same] ==
               (record.name[same] == '-' ? '_' : toupper((unsigned char)record.name[same]))) {
      same++;
    }
    if (length > 0 && same == length && rest[length] == '_' && rest[length + 1] != 0) {
      *key = rest + length + 1;
      return record.name;
    }
  }
  return NULL;
}

static bool is_known(const char *name) {
  for (size_t i = 0; i < VARIABLES; i++) {
    if (strcmp(variables[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

static void warn_unknown(const char *name) {
  const char *names[VARIABLES + 1] = {0};
  for (size_t i = 0; i < VARIABLES; i++) {
    names[i] = variables[i].name;
  }
  const char *near = nearest_word(name, names);
  if (near != NULL) {
    cli_warn("%s is not a variable of MecanTensor and has no effect; did you mean %s?", name, near);
  } else {
    cli_warn("%s is not a variable of MecanTensor, nor a setting of a plugin found here", name);
  }
}

/* ---- printing
 * ------------------------------------------------------------------------------------ */
typedef struct printed {
  json_t *variables, *settings, *unknown; /* NULL: text */
} printed;

static json_t *optional_text(const char *text) {
  return text == NULL ? json_null() : json_text(text);
}

/* lines: '\n' after each; taken apart. */
static void show_lines(char *lines, json_t *array) {
  for (char *rest = lines, *one; (one = strsep(&rest, "\n")) != NULL;) {
    if (one[0] == 0) {
      continue;
    }
    if (array != NULL) {
      json_add(array, json_text(one));
    } else {
      printf("    -> %s\n", one);
    }
  }
}

static void show_variable(const variable *v, const findings *found, const printed *to) {
  const char *value = getenv(v->name);
  value = value != NULL && value[0] == 0 ? NULL : value;
  char *lines = NULL;
  size_t size = 0;
  FILE *out = need_memory(open_memstream(&lines, &size));
  if (v->effect != NULL) {
    v->effect(out, found, value);
  }
  if (fclose(out) != 0) {
    die_memory();
  }
  if (to->variables != NULL) {
    json_t *object = json_make_object(), *effect = json_make_array();
    show_lines(lines, effect);
    json_put(object, "name", json_text(v->name));
    json_put(object, "what", json_text(v->what));
    json_put(object, "default", json_text(v->by_default));
    json_put(object, "value", optional_text(value));
    json_put(object, "effect", effect);
    json_add(to->variables, object);
  } else {
    printf(value == NULL ? "%s (not set)" : "%s=", v->name);
    put_escaped(stdout, value == NULL ? "" : value);
    printf("\n    %s (default: %s)\n", v->what, v->by_default);
    show_lines(lines, NULL);
  }
  free(lines);
}

static void show_others(const findings *found, const printed *to) {
  for (char **entry = environ; *entry != NULL; entry++) {
    size_t length = strcspn(*entry, "=");
    char *name = need_memory(strndup(*entry, length));
    const char *key = NULL;
    if (strncmp(name, "MECANTENSOR_", strlen("MECANTENSOR_")) != 0 || is_known(name)) {
      free(name);
      continue;
    }
    const char *plugin = setting_of_plugin(found, name, &key);
    if (plugin == NULL) {
      warn_unknown(name);
    }
    json_t *list = plugin == NULL ? to->unknown : to->settings;
    if (list != NULL) {
      json_t *object = json_make_object();
      json_put(object, "name", json_text(name));
      json_put(object, "value", json_text(*entry + length + 1));
      json_put(object, "plugin", optional_text(plugin));
      json_add(list, object);
    } else if (plugin != NULL) {
      put_escaped(stdout, *entry);
      printf("\n    setting %s of the plugin %s\n", key, plugin);
    }
    free(name);
  }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  if (key == ARGP_KEY_ARG) {
    argp_error(state, "'%s': env takes no argument", arg);
  }
  return common_option(state->input, key, arg, state);
}

static const struct argp_option options[] = {OPTION_JSON, OPTION_HELP, {0}};

static const struct argp argp = {
    options,
    parse_option,
    NULL,
    "Explain each MECANTENSOR_* variable: what it is, its value, what it led to here.\v"
    "Warns about variables that nobody reads. The exit code is 1 when a value cannot be used. "
    "Programs that run setuid ignore all of them.",
    NULL,
    NULL,
    NULL};

int cmd_env(int argc, char **argv) {
  common_options arguments = {0};
  parse_arguments(&argp, argc, argv, &arguments);
  findings found = find_out();
  printed to = {0};
  if (arguments.json) {
    to = (printed){json_make_array(), json_make_array(), json_make_array()};
  }
  for (size_t i = 0; i < VARIABLES; i++) {
    show_variable(&variables[i], &found, &to);
  }
  show_others(&found, &to);
  char *const errors[] = {found.general_error, found.log_error, found.backend_error};
  int code = EXIT_DONE;
  json_t *messages = arguments.json ? json_make_array() : NULL;
  for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
    if (errors[i] != NULL) {
      code = cli_fail(EXIT_FAILED, "%s", errors[i]);
      if (messages != NULL) {
        json_add(messages, json_text(errors[i]));
      }
      free(errors[i]);
    }
  }
  if (arguments.json) {
    json_t *root = json_make_object();
    json_put(root, "variables", to.variables);
    json_put(root, "plugin_settings", to.settings);
    json_put(root, "unknown", to.unknown);
    json_put(root, "errors", messages);
    json_print(root);
  }
  mt_runtime_release(&found.rt);
  return code;
}
