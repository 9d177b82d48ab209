// SPDX-License-Identifier: Apache-2.0
/* cmd_matmul.c - mecantensor matmul */
#include "check.h"
#include "common.h"
#include "run.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_TRANS_A = KEY_OWN, KEY_TRANS_B, KEY_ACTIVATION, KEY_BIAS, KEY_ALPHA, KEY_CHECK };

typedef struct matmul_arguments {
  common_options common;
  const char *a, *b, *bias, *output;
  mt_matmul_options options;
  bool check;
} matmul_arguments;

typedef struct matmul_operands {
  mt_tensor *a, *b, *bias, *c;
} matmul_operands;

static mt_activation parse_activation(struct argp_state *state, const char *text) {
  static const struct {
    const char *name;
    mt_activation activation;
  } names[] = {{"none", MT_ACT_NONE},
               {"relu", MT_ACT_RELU},
               {"gelu", MT_ACT_GELU},
               {"gelu-tanh", MT_ACT_GELU_TANH},
               {"silu", MT_ACT_SILU}};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strcmp(text, names[i].name) == 0) {
      return names[i].activation;
    }
  }
  argp_error(state, "--activation: '%s' is none of none, relu, gelu, gelu-tanh, silu", text);
  return MT_ACT_NONE;
}

static void check_arguments(const matmul_arguments *arguments, struct argp_state *state) {
  if (arguments->b == NULL) {
    argp_error(state, "two tensors are needed, A and B");
  }
  if (arguments->output == NULL && !arguments->check) {
    argp_error(state, "say where C goes with -o FILE, or ask for --check");
  }
  if (arguments->output != NULL && mt_file_type_from_path(arguments->output) == MT_FILE_UNKNOWN) {
    argp_error(state, "-o: '%s' ends in none of .mt, .npy, .safetensors", arguments->output);
  }
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  matmul_arguments *arguments = state->input;
  switch (key) {
  case 'o': arguments->output = arg; return 0;
  case KEY_TRANS_A: arguments->options.trans_a = 1; return 0;
  case KEY_TRANS_B: arguments->options.trans_b = 1; return 0;
  case KEY_ACTIVATION: arguments->options.activation = parse_activation(state, arg); return 0;
  case KEY_BIAS: arguments->bias = arg; return 0;
  case KEY_ALPHA: arguments->options.alpha = parse_double(state, "--alpha", arg); return 0;
  case KEY_CHECK: arguments->check = true; return 0;
  case ARGP_KEY_ARG:
    if (state->arg_num > 1) {
      argp_error(state, "'%s': only two tensors, A and B, are expected", arg);
    }
    *(state->arg_num == 0 ? &arguments->a : &arguments->b) = arg;
    return 0;
  case ARGP_KEY_END: check_arguments(arguments, state); return 0;
  default: return common_option(&arguments->common, key, arg, state);
  }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Where C goes: .mt, .npy or .safetensors", 0},
    {"trans-a", KEY_TRANS_A, 0, 0, "Swap the last two axes of A first", 0},
    {"trans-b", KEY_TRANS_B, 0, 0, "Swap the last two axes of B first", 0},
    {"alpha", KEY_ALPHA, "X", 0, "Multiply the product by X", 0},
    {"bias", KEY_BIAS, "TENSOR", 0, "Add this tensor; it is broadcast to C", 0},
    {"activation", KEY_ACTIVATION, "NAME", 0,
     "Apply none, relu, gelu, gelu-tanh or silu at the end", 0},
    {"check", KEY_CHECK, 0, 0, "Compare C with the reference kernels; exit code 1 if it differs",
     0},
    OPTION_BACKEND,
    OPTION_JSON,
    OPTION_HELP,
    {0}};

static const struct argp argp = {
    options,
    parse_option,
    "A B",
    "Multiply: C = activation(alpha A B + bias).\v"
    "A, B and TENSOR are .mt, .npy or .safetensors files that hold one tensor, or FILE:NAME. "
    "A file is written under another name first and then renamed, so C may replace A or B. "
    "With --check, errors are relative to the size of what is summed (see the man page); "
    "C is not written when they are over the bound.",
    NULL,
    NULL,
    NULL};

static int load(const char *spec, mt_tensor **out) {
  return mt_load(spec, out) == MT_OK ? EXIT_DONE : cli_fail_library(EXIT_UNUSABLE);
}

static int load_operands(const matmul_arguments *arguments, matmul_operands *t) {
  int code = load(arguments->a, &t->a);
  if (code == EXIT_DONE) {
    code = load(arguments->b, &t->b);
  }
  if (code == EXIT_DONE && arguments->bias != NULL) {
    code = load(arguments->bias, &t->bias);
  }
  return code;
}

static const char *dtype_text(const mt_tensor *tensor) {
  const mt_format *format = mt_tensor_format(tensor);
  return format != NULL ? mt_format_id(format) : mt_dtype_name(mt_tensor_dtype(tensor));
}

static void print_operand(const char *label, const mt_tensor *tensor, const char *spec) {
  char shape[SHAPE_TEXT];
  if (tensor == NULL) {
    return;
  }
  printf("%-5s %s %s", label, dtype_text(tensor),
         shape_text(mt_tensor_rank(tensor), mt_tensor_shape(tensor), shape, sizeof(shape)));
  if (spec != NULL) {
    printf("  %s", spec); /* as typed by the user */
  }
  putchar('\n');
}

static json_t *operand_json(const mt_tensor *tensor, const char *spec) {
  if (tensor == NULL) {
    return json_null();
  }
  json_t *object = json_make_object();
  json_put(object, "source", spec == NULL ? json_null() : json_text(spec));
  json_put(object, "dtype", json_text(dtype_text(tensor)));
  json_put(object, "shape", json_shape(mt_tensor_rank(tensor), mt_tensor_shape(tensor)));
  return object;
}

static void print_text(const matmul_arguments *arguments, const matmul_operands *t, mt_runtime *rt,
                       double seconds, const matmul_check *check, bool written) {
  print_operand("A", t->a, arguments->a);
  print_operand("B", t->b, arguments->b);
  print_operand("bias", t->bias, arguments->bias);
  print_operand("C", t->c, written ? arguments->output : NULL);
  print_where_run(rt, "matmul", 0);
  printf("time  %.3f ms (one call, start of the backend included)\n", seconds * 1e3);
  if (check != NULL) {
    print_check(check, 0);
  }
}

static void print_json(const matmul_arguments *arguments, const matmul_operands *t, mt_runtime *rt,
                       double seconds, const matmul_check *check, bool written) {
  json_t *root = json_make_object();
  json_put(root, "a", operand_json(t->a, arguments->a));
  json_put(root, "b", operand_json(t->b, arguments->b));
  json_put(root, "bias", operand_json(t->bias, arguments->bias));
  json_put(root, "c", operand_json(t->c, NULL));
  json_put(root, "output", written ? json_text(arguments->output) : json_null());
  json_put(root, "backend", json_text(mt_runtime_backend(rt)));
  json_put(root, "ran_on", where_run_json(rt, "matmul"));
  json_put(root, "seconds", json_figure(seconds));
  json_put(root, "check", check == NULL ? json_null() : check_json(check));
  json_print(root);
}

/* Multiplies, checks, writes, prints. */
static int multiply(const matmul_arguments *arguments, mt_runtime *rt, matmul_operands *t) {
  mt_matmul_options matmul_options = arguments->options;
  matmul_options.bias = t->bias;
  double seconds = 0;
  if (timed_matmul(rt, t->a, t->b, &matmul_options, &t->c, &seconds) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  matmul_check check = {.passed = true};
  if (arguments->check && check_matmul(t->a, t->b, &matmul_options, t->c, &check) != MT_OK) {
    return cli_fail_library(EXIT_FAILED);
  }
  bool write = arguments->output != NULL && check.passed;
  if (write && mt_save(arguments->output, t->c) != MT_OK) {
    return cli_fail_library(EXIT_UNUSABLE);
  }
  (arguments->common.json ? print_json : print_text)(arguments, t, rt, seconds,
                                                     arguments->check ? &check : NULL, write);
  if (!check.passed) {
    return cli_fail(EXIT_FAILED, "C differs from the reference%s",
                    arguments->output == NULL ? "" : " and was not written");
  }
  return EXIT_DONE;
}

int cmd_matmul(int argc, char **argv) {
  matmul_arguments arguments = {.options = MT_MATMUL_OPTIONS_INIT};
  parse_arguments(&argp, argc, argv, &arguments);
  matmul_operands t = {0};
  mt_runtime *rt = NULL;
  int code = load_operands(&arguments, &t);
  if (code == EXIT_DONE) {
    code = open_runtime(arguments.common.backend, &rt);
  }
  if (code == EXIT_DONE) {
    code = multiply(&arguments, rt, &t);
  }
  mt_tensor_release(&t.a);
  mt_tensor_release(&t.b);
  mt_tensor_release(&t.bias);
  mt_tensor_release(&t.c);
  mt_runtime_release(&rt);
  return code;
}
