// SPDX-License-Identifier: Apache-2.0
/* Files that claim to be plugins, before anything of them is run. */
#include <hal/elf_note.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mt_plugin_note_v1 note;
  int fd = memfd_create("elf", MFD_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  if (write(fd, data, size) == (ssize_t)size) {
    mt_status status = mt_elf_inspect(fd, &note);
    /* A note that is taken is sound; one that is not is nothing. */
    size_t length = strnlen(note.name, sizeof(note.name));
    if (length == sizeof(note.name) || (status == MT_OK) != (length > 0)) {
      abort();
    }
  }
  close(fd);
  return 0;
}
