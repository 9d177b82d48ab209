// SPDX-License-Identifier: Apache-2.0
/* main.c - the mecantensor command: finds the subcommand, prints help and version. */
#include "common.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static const command commands[] = {
    {"devices", cmd_devices, "list the devices found, and the plugins that cannot be used"},
    {"matmul", cmd_matmul, "multiply two tensors from files"},
    {"info", cmd_info, "show what a file holds, and statistics of a tensor"},
    {"convert", cmd_convert, "copy tensors to another file type, dtype or block format"},
    {"bench", cmd_bench, "measure operations"},
    {"conformance", cmd_conformance, "compare operations of backends with the reference"},
    {"env", cmd_env, "explain the environment variables and what they led to"},
    {"demo", cmd_demo, "show the whole way: devices, C = A B, check, save, load"},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out) {
  fputs("Usage: mecantensor COMMAND [OPTION...] [ARGUMENT...]\n"
        "Work with tensors in .mt, .npy and .safetensors files on the backends found here.\n"
        "\n"
        "Commands:\n",
        out);
  for (size_t i = 0; i < COMMANDS; i++) {
    fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].summary);
  }
  fputs("\n"
        "  mecantensor help COMMAND, mecantensor COMMAND --help: options of a command\n"
        "  mecantensor --version: versions of the command and of the library\n"
        "\n"
        "Exit codes:\n"
        "  0  done\n"
        "  1  a check did not hold or an operation failed\n"
        "  2  wrong arguments; nothing was done\n"
        "  3  a file, a backend or the output cannot be used\n",
        out);
}

static const command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i].name, name) == 0) {
      return &commands[i];
    }
  }
  return NULL;
}

static int unknown_command(const char *name) {
  const char *names[COMMANDS + 1];
  for (size_t i = 0; i < COMMANDS; i++) {
    names[i] = commands[i].name;
  }
  names[COMMANDS] = NULL;
  const char *near = nearest_word(name, names);
  if (near != NULL) {
    return cli_fail(EXIT_USAGE, "'%s' is not a command; did you mean '%s'?", name, near);
  }
  return cli_fail(EXIT_USAGE, "'%s' is not a command; see 'mecantensor --help'", name);
}

static int run_help(const char *name) {
  if (name == NULL) {
    print_help(stdout);
    return EXIT_DONE;
  }
  const command *found = find_command(name);
  if (found == NULL) {
    return unknown_command(name);
  }
  char argv0[32], argv1[] = "--help";
  snprintf(argv0, sizeof(argv0), "%s", found->name);
  char *argv[] = {argv0, argv1, NULL};
  return found->run(2, argv);
}

int main(int argc, char **argv) {
  guard_streams();
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "help") == 0) {
    return run_help(argc > 2 ? argv[2] : NULL);
  }
  if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
    return run_help(NULL);
  }
  if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
    printf("mecantensor %s (library %s)\n", MT_VERSION, mt_version());
    return EXIT_DONE;
  }
  const command *found = find_command(word);
  return found != NULL ? found->run(argc - 1, argv + 1) : unknown_command(word);
}
