// SPDX-License-Identifier: Apache-2.0
/* Source: System V gABI 4.1, chapters 4 and 5; Linux extension for notes aligned to 8. */
#include "elf_note.h"

#include "../error.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A hostile file must not keep us busy: far above what any linker writes. */
enum { MAX_SEGMENTS = 1024, MAX_NOTES = 4096 };

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#elif defined(__i386__)
enum { OUR_MACHINE = EM_386 };
#elif defined(__arm__)
enum { OUR_MACHINE = EM_ARM };
#elif defined(__riscv)
enum { OUR_MACHINE = EM_RISCV };
#elif defined(__powerpc64__)
enum { OUR_MACHINE = EM_PPC64 };
#elif defined(__s390x__)
enum { OUR_MACHINE = EM_S390 };
#else
enum { OUR_MACHINE = EM_NONE }; /* left to dlopen */
#endif

enum {
  OUR_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  OUR_DATA = ELFDATA2LSB
#else
  OUR_DATA = ELFDATA2MSB
#endif
};

typedef struct elf_file {
  int fd;
  uint64_t bytes;
  unsigned notes; /* seen so far */
} elf_file;

static const char *machine_name(unsigned machine) {
  switch (machine) {
  case EM_386: return "x86";
  case EM_MIPS: return "mips";
  case EM_PPC64: return "ppc64";
  case EM_S390: return "s390x";
  case EM_ARM: return "arm";
  case EM_X86_64: return "x86-64";
  case EM_AARCH64: return "aarch64";
  case EM_RISCV: return "riscv";
  case 258: return "loongarch";
  default: return NULL;
  }
}

static mt_status read_at(const elf_file *file, uint64_t offset, void *buf, size_t bytes,
                         const char *what) {
  if (offset > file->bytes || bytes > file->bytes - offset) {
    return mt_fail(MT_ERR_CORRUPT,
                   "truncated: %s at offset %llu takes %zu bytes, the file has %llu", what,
                   (unsigned long long)offset, bytes, (unsigned long long)file->bytes);
  }
  for (char *at = buf; bytes > 0;) {
    ssize_t n = pread(file->fd, at, bytes, (off_t)offset);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return n < 0 ? mt_fail_errno(MT_ERR_IO, errno, "reading %s at offset %llu", what,
                                   (unsigned long long)offset)
                   : mt_fail(MT_ERR_CORRUPT, "%s at offset %llu: the file became shorter", what,
                             (unsigned long long)offset);
    }
    at += n;
    offset += (uint64_t)n;
    bytes -= (size_t)n;
  }
  return MT_OK;
}

/* The first bytes have one layout in every class and byte order. */
static mt_status check_identity(const unsigned char *id) {
  if (memcmp(id, ELFMAG, SELFMAG) != 0) {
    return mt_fail(MT_ERR_CORRUPT,
                   "not an ELF file: it starts with %02x %02x %02x %02x, expected 7f 45 4c 46",
                   id[0], id[1], id[2], id[3]);
  }
  if (id[EI_CLASS] != ELFCLASS32 && id[EI_CLASS] != ELFCLASS64) {
    return mt_fail(MT_ERR_CORRUPT, "EI_CLASS at offset 4 is %u: expected 1 or 2", id[EI_CLASS]);
  }
  if (id[EI_DATA] != ELFDATA2LSB && id[EI_DATA] != ELFDATA2MSB) {
    return mt_fail(MT_ERR_CORRUPT, "EI_DATA at offset 5 is %u: expected 1 or 2", id[EI_DATA]);
  }
  if (id[EI_VERSION] != EV_CURRENT) {
    return mt_fail(MT_ERR_CORRUPT, "EI_VERSION at offset 6 is %u: expected 1", id[EI_VERSION]);
  }
  unsigned machine = id[EI_DATA] == ELFDATA2LSB ? id[18] | id[19] << 8 : id[18] << 8 | id[19];
  if ((OUR_MACHINE != EM_NONE && machine != OUR_MACHINE) || id[EI_CLASS] != OUR_CLASS ||
      id[EI_DATA] != OUR_DATA) {
    const char *theirs = machine_name(machine), *ours = machine_name(OUR_MACHINE);
    return mt_fail(
        MT_ERR_UNSUPPORTED, "built for %s (e_machine %u, %s bits, %s endian), this is %s (%d bits)",
        theirs ? theirs : "another machine", machine, id[EI_CLASS] == ELFCLASS64 ? "64" : "32",
        id[EI_DATA] == ELFDATA2LSB ? "little" : "big", ours ? ours : "another one",
        OUR_CLASS == ELFCLASS64 ? 64 : 32);
  }
  return MT_OK;
}

static mt_status check_header(const ElfW(Ehdr) * header) {
  if (header->e_type != ET_DYN) {
    return mt_fail(MT_ERR_CORRUPT, "e_type at offset 16 is %u: expected 3, a shared object",
                   header->e_type);
  }
  if (header->e_phentsize != sizeof(ElfW(Phdr))) {
    return mt_fail(MT_ERR_CORRUPT, "e_phentsize at offset %zu is %u: expected %zu",
                   offsetof(ElfW(Ehdr), e_phentsize), header->e_phentsize, sizeof(ElfW(Phdr)));
  }
  if (header->e_phnum == 0 || header->e_phnum > MAX_SEGMENTS) {
    return mt_fail(MT_ERR_CORRUPT, "e_phnum at offset %zu is %u: expected 1 .. %d",
                   offsetof(ElfW(Ehdr), e_phnum), header->e_phnum, MAX_SEGMENTS);
  }
  return MT_OK;
}

/* ---- the note ----------------------------------------------------------------------- */

static bool name_ok(const char name[MT_PLUGIN_NAME_MAX]) {
  size_t length = strnlen(name, MT_PLUGIN_NAME_MAX);
  return length > 0 && length < MT_PLUGIN_NAME_MAX && name[0] != '-' &&
         strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static mt_status check_note(const mt_plugin_note_v1 *note, uint32_t desc_bytes, uint64_t offset) {
  unsigned long long at = offset;
  if (note->struct_size < sizeof(*note) || note->struct_size > desc_bytes) {
    return mt_fail(MT_ERR_CORRUPT,
                   "the note's struct_size at offset %llu is %u: expected %zu .. %u (descsz)", at,
                   note->struct_size, sizeof(*note), desc_bytes);
  }
  if (note->abi_major != MT_PLUGIN_ABI_MAJOR) {
    return mt_fail(MT_ERR_UNSUPPORTED,
                   "built for plugin ABI %u.%u (note at offset %llu), this core has %u.%u: use a "
                   "build of the plugin for ABI %u",
                   note->abi_major, note->abi_minor, at, MT_PLUGIN_ABI_MAJOR, MT_PLUGIN_ABI_MINOR,
                   MT_PLUGIN_ABI_MAJOR);
  }
  if (!name_ok(note->name)) {
    return mt_fail(MT_ERR_CORRUPT,
                   "the note's name at offset %llu is not 1 .. %d characters of a-z, 0-9 and '-', "
                   "not '-' first",
                   at + offsetof(mt_plugin_note_v1, name), MT_PLUGIN_NAME_MAX - 1);
  }
  if (strcmp(note->name, "auto") == 0 || strcmp(note->name, "reference") == 0) {
    return mt_fail(MT_ERR_CORRUPT,
                   "the note's name at offset %llu is '%s', which means something else where users "
                   "name backends",
                   at + offsetof(mt_plugin_note_v1, name), note->name);
  }
  return MT_OK;
}

/* Is it ours? *found stays false for notes of others. */
static mt_status take_note(const elf_file *file, const ElfW(Nhdr) * header, uint64_t name_at,
                           uint64_t desc_at, bool *found, mt_plugin_note_v1 *note) {
  char owner[sizeof(MT_PLUGIN_NOTE_OWNER)];
  if (header->n_type != MT_PLUGIN_NOTE_TYPE_V1 || header->n_namesz != sizeof(owner)) {
    return MT_OK;
  }
  MT_TRY(read_at(file, name_at, owner, sizeof(owner), "the name of a note"));
  if (memcmp(owner, MT_PLUGIN_NOTE_OWNER, sizeof(owner)) != 0) {
    return MT_OK;
  }
  if (header->n_descsz < sizeof(*note)) {
    return mt_fail(MT_ERR_CORRUPT, "the note at offset %llu has %u bytes, expected at least %zu",
                   (unsigned long long)desc_at, (unsigned)header->n_descsz, sizeof(*note));
  }
  MT_TRY(read_at(file, desc_at, note, sizeof(*note), "the note"));
  MT_TRY(check_note(note, header->n_descsz, desc_at));
  *found = true;
  return MT_OK;
}

static uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

static mt_status walk_notes(elf_file *file, const ElfW(Phdr) * segment, bool *found,
                            mt_plugin_note_v1 *note) {
  uint64_t alignment = segment->p_align == 8 ? 8 : 4;
  uint64_t start = segment->p_offset, size = segment->p_filesz;
  /* size is that of a part of the file, the 32-bit fields cannot make sums overflow */
  for (uint64_t at = 0; !*found && size - at >= sizeof(ElfW(Nhdr));) {
    ElfW(Nhdr) header;
    MT_TRY(read_at(file, start + at, &header, sizeof(header), "a note"));
    uint64_t desc = at + align_up(sizeof(header) + (uint64_t)header.n_namesz, alignment);
    if (desc > size || header.n_descsz > size - desc) {
      return mt_fail(MT_ERR_CORRUPT,
                     "the note at offset %llu (namesz %u, descsz %u) passes the end of its segment "
                     "at %llu",
                     (unsigned long long)(start + at), (unsigned)header.n_namesz,
                     (unsigned)header.n_descsz, (unsigned long long)(start + size));
    }
    if (++file->notes > MAX_NOTES) {
      return mt_fail(MT_ERR_CORRUPT, "more than %d notes (at offset %llu)", MAX_NOTES,
                     (unsigned long long)(start + at));
    }
    MT_TRY(take_note(file, &header, start + at + sizeof(header), start + desc, found, note));
    uint64_t next = align_up(desc + header.n_descsz, alignment);
    at = next < size ? next : size;
  }
  return MT_OK;
}

static mt_status walk_segments(elf_file *file, const ElfW(Ehdr) * header, bool *found,
                               mt_plugin_note_v1 *note) {
  for (unsigned i = 0; i < header->e_phnum; i++) {
    ElfW(Phdr) segment;
    uint64_t at = header->e_phoff;
    if (at > file->bytes) { /* so that the sum below cannot overflow */
      return mt_fail(MT_ERR_CORRUPT, "e_phoff at offset %zu is %llu, the file has %llu bytes",
                     offsetof(ElfW(Ehdr), e_phoff), (unsigned long long)at,
                     (unsigned long long)file->bytes);
    }
    at += i * sizeof(segment);
    MT_TRY(read_at(file, at, &segment, sizeof(segment), "a program header"));
    if (segment.p_type != PT_LOAD && segment.p_type != PT_NOTE) {
      continue;
    }
    /* A mapping past the end would be a SIGBUS later. */
    if (segment.p_offset > file->bytes || segment.p_filesz > file->bytes - segment.p_offset) {
      return mt_fail(MT_ERR_CORRUPT,
                     "truncated: segment %u (program header at offset %llu) has %llu bytes from "
                     "%llu, the file has %llu",
                     i, (unsigned long long)at, (unsigned long long)segment.p_filesz,
                     (unsigned long long)segment.p_offset, (unsigned long long)file->bytes);
    }
    if (segment.p_type == PT_NOTE && !*found) {
      MT_TRY(walk_notes(file, &segment, found, note));
    }
  }
  return MT_OK;
}

mt_status mt_elf_inspect(int fd, mt_plugin_note_v1 *note) {
  unsigned char identity[20];
  ElfW(Ehdr) header;
  struct stat info;
  bool found = false;
  memset(note, 0, sizeof(*note));
  if (fstat(fd, &info) != 0) {
    return mt_fail_errno(MT_ERR_IO, errno, "fstat");
  }
  if (!S_ISREG(info.st_mode)) {
    return mt_fail(MT_ERR_CORRUPT, "not a regular file");
  }
  elf_file file = {.fd = fd, .bytes = (uint64_t)info.st_size};
  MT_TRY(read_at(&file, 0, identity, sizeof(identity), "the ELF header"));
  MT_TRY(check_identity(identity));
  MT_TRY(read_at(&file, 0, &header, sizeof(header), "the ELF header"));
  MT_TRY(check_header(&header));
  mt_plugin_note_v1 read;
  MT_TRY(walk_segments(&file, &header, &found, &read));
  if (!found) {
    return mt_fail(MT_ERR_UNSUPPORTED, "no .note.mecantensor: not a MecanTensor plugin");
  }
  *note = read;
  return MT_OK;
}
