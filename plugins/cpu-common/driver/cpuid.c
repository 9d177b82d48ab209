// SPDX-License-Identifier: Apache-2.0
/* cpuid.c - what the processor calls itself. */
#include "cpu.h"

#include <cpuid.h>
#include <string.h>

/* Copies text without spaces at its ends. */
static void copy_trimmed(const char *text, char *dst, size_t room) {
  while (*text == ' ') {
    text++;
  }
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ') {
    length--;
  }
  length = length < room ? length : room - 1;
  memcpy(dst, text, length);
  dst[length] = '\0';
}

void cpu_identify(char *name, size_t name_bytes, char *vendor, size_t vendor_bytes) {
  unsigned words[12] = {0};
  unsigned a = 0, b = 0, c = 0, d = 0;
  char text[sizeof(words) + 1] = {0};
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    memcpy(text, &b, 4);
    memcpy(text + 4, &d, 4);
    memcpy(text + 8, &c, 4);
  }
  copy_trimmed(text, vendor, vendor_bytes);
  for (unsigned i = 0; i < 3; i++) {
    if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                     &words[4 * i + 3])) {
      copy_trimmed("x86-64 CPU", name, name_bytes);
      return;
    }
  }
  memcpy(text, words, sizeof(words));
  copy_trimmed(text, name, name_bytes);
}
