// SPDX-License-Identifier: Apache-2.0
/* The parser of files that nobody vouches for. */
#include "loader_harness.h"

#include <elf.h>
#include <hal/elf_note.h>
#include <link.h>
#include <sys/mman.h>

static int memory = -1; /* a file in memory that is written anew for each case */

static mt_status inspect(const void *bytes, size_t count, mt_plugin_note_v1 *note) {
  if (memory < 0) {
    memory = memfd_create("elf", MFD_CLOEXEC);
    ck_assert_int_ge(memory, 0);
  }
  ck_assert_int_eq(ftruncate(memory, 0), 0);
  ck_assert_int_eq(pwrite(memory, bytes, count, 0), (ssize_t)count);
  return mt_elf_inspect(memory, note);
}

#define elf_fails(bytes, count, status, part)                                                      \
  do {                                                                                             \
    mt_plugin_note_v1 elf_note_;                                                                   \
    ck_fails(inspect(bytes, count, &elf_note_), status, part);                                     \
    ck_assert_uint_eq(elf_note_.struct_size, 0);                                                   \
  } while (0)

START_TEST(test_good) {
  size_t count;
  mt_plugin_note_v1 note;
  unsigned char *good = read_mock("good", &count);
  ck_ok(inspect(good, count, &note));
  ck_assert_str_eq(note.name, "good");
  ck_assert_int_eq(note.priority, 10);
  ck_assert_uint_eq(note.abi_major, MT_PLUGIN_ABI_MAJOR);
  free(good);
}
END_TEST

START_TEST(test_garbage) {
  elf_fails("", 0, MT_ERR_CORRUPT, "truncated: the ELF header at offset 0");
  elf_fails("\177ELF", 4, MT_ERR_CORRUPT, "truncated: the ELF header");
  elf_fails("This is some text and no plugin", 31, MT_ERR_CORRUPT, "not an ELF file: it starts");
}
END_TEST

typedef struct change {
  size_t offset;
  const char *bytes;
  size_t count;
  mt_status status;
  const char *reason;
} change;

#define HEADER(member) offsetof(ElfW(Ehdr), member)

START_TEST(test_header_fields) {
  const change changes[] = {
      {0, "\177elf", 4, MT_ERR_CORRUPT, "expected 7f 45 4c 46"},
      {EI_CLASS, "\3", 1, MT_ERR_CORRUPT, "EI_CLASS at offset 4 is 3"},
      {EI_CLASS, "\1", 1, MT_ERR_UNSUPPORTED, "32 bits"},
      {EI_DATA, "\0", 1, MT_ERR_CORRUPT, "EI_DATA at offset 5 is 0"},
      {EI_DATA, "\2", 1, MT_ERR_UNSUPPORTED, "big endian"},
      {EI_VERSION, "\7", 1, MT_ERR_CORRUPT, "EI_VERSION at offset 6 is 7"},
      {HEADER(e_type), "\2\0", 2, MT_ERR_CORRUPT, "e_type at offset 16 is 2"},
      {HEADER(e_machine), "\x16\0", 2, MT_ERR_UNSUPPORTED, "built for s390x"},
      {HEADER(e_machine), "\x34\x12", 2, MT_ERR_UNSUPPORTED, "another machine (e_machine 4660"},
      {HEADER(e_phentsize), "\x20\0", 2, MT_ERR_CORRUPT, "e_phentsize at offset 54 is 32"},
      {HEADER(e_phnum), "\0\0", 2, MT_ERR_CORRUPT, "e_phnum at offset 56 is 0"},
      {HEADER(e_phnum), "\xff\xff", 2, MT_ERR_CORRUPT, "e_phnum at offset 56 is 65535"},
      {HEADER(e_phoff), "\xff\xff\xff\xff\xff\xff\xff\xff", 8, MT_ERR_CORRUPT,
       "e_phoff at offset 32"},
      {HEADER(e_phoff), "\0\0\0\0\0\0\0\x70", 8, MT_ERR_CORRUPT, "e_phoff at offset 32"},
  };
  size_t count;
  unsigned char *good = read_mock("good", &count);
  for (size_t i = 0; sizeof(void *) == 8 && i < sizeof(changes) / sizeof(changes[0]); i++) {
    unsigned char *bad = malloc(count);
    memcpy(bad, good, count);
    memcpy(bad + changes[i].offset, changes[i].bytes, changes[i].count);
    elf_fails(bad, count, changes[i].status, changes[i].reason);
    free(bad);
  }
  free(good);
}
END_TEST

/* A copy for another machine, as a file. */
START_TEST(test_other_machine) {
  size_t count;
  unsigned char *content = read_mock("good", &count);
  uint16_t other = EM_AARCH64, own;
  memcpy(&own, content + HEADER(e_machine), 2);
  other = own == other ? EM_X86_64 : other;
  memcpy(content + HEADER(e_machine), &other, 2);
  write_file("x.so", content, count);
  free(content);
  scan();
  check_stopped(candidate("x.so"), MT_PROBE_INSPECT, MT_ERR_UNSUPPORTED,
                other == EM_AARCH64 ? "built for aarch64" : "built for x86-64");
}
END_TEST

/* Bytes up to the end of what is mapped; section headers and debug information come after. */
static size_t needed_bytes(const unsigned char *content) {
  ElfW(Ehdr) header;
  size_t end = 0;
  memcpy(&header, content, sizeof(header));
  for (unsigned i = 0; i < header.e_phnum; i++) {
    ElfW(Phdr) segment;
    memcpy(&segment, content + header.e_phoff + i * sizeof(segment), sizeof(segment));
    size_t to = segment.p_offset + segment.p_filesz;
    bool counts = segment.p_type == PT_LOAD || segment.p_type == PT_NOTE;
    end = counts && to > end ? to : end;
  }
  return end;
}

START_TEST(test_truncated_file) {
  size_t count;
  unsigned char *content = read_mock("good", &count);
  write_file("x.so", content, needed_bytes(content) - 1);
  write_file("empty.so", content, 0);
  free(content);
  scan();
  check_stopped(candidate("x.so"), MT_PROBE_INSPECT, MT_ERR_CORRUPT, "truncated: ");
  check_stopped(candidate("empty.so"), MT_PROBE_INSPECT, MT_ERR_CORRUPT, "truncated: ");
}
END_TEST

/* ---- notes -------------------------------------------------------------------------------- */

/* The smallest file with notes: header, one program header, the notes. */
typedef struct tiny {
  ElfW(Ehdr) header;
  ElfW(Phdr) segment;
  unsigned char notes[1 << 17];
  size_t used;
} tiny;

static tiny *start_tiny(size_t alignment) {
  size_t count;
  unsigned char *good = read_mock("good", &count);
  tiny *file = calloc(1, sizeof(*file));
  memcpy(&file->header, good, sizeof(file->header));
  free(good);
  file->header.e_phoff = sizeof(file->header);
  file->header.e_phnum = 1;
  file->segment.p_type = PT_NOTE;
  file->segment.p_offset = offsetof(tiny, notes);
  file->segment.p_align = alignment;
  return file;
}

static void add_note(tiny *file, uint32_t type, const char *owner, uint32_t owner_bytes,
                     const void *desc, uint32_t desc_bytes) {
  size_t alignment = file->segment.p_align == 8 ? 8 : 4;
  uint32_t head[3] = {owner_bytes, desc_bytes, type};
  unsigned char *at = file->notes + file->used;
  memcpy(at, head, sizeof(head));
  memcpy(at + sizeof(head), owner, owner_bytes);
  size_t start = (sizeof(head) + owner_bytes + alignment - 1) / alignment * alignment;
  memcpy(at + start, desc, desc_bytes);
  file->used += (start + desc_bytes + alignment - 1) / alignment * alignment;
  file->segment.p_filesz = file->used;
}

static mt_plugin_note_v1 tiny_note(const char *name) {
  mt_plugin_note_v1 note = {sizeof(note), MT_PLUGIN_ABI_MAJOR, 0, 7, 0, ""};
  memcpy(note.name, name, strlen(name));
  return note;
}

static mt_status inspect_tiny(tiny *file, mt_plugin_note_v1 *note) {
  mt_status status = inspect(file, offsetof(tiny, notes) + file->used, note);
  free(file);
  return status;
}

/* Ours among others', at both alignments, and longer than we know. */
START_TEST(test_note_is_found) {
  const size_t alignments[] = {1, 4, 8};
  for (size_t i = 0; i < 3; i++) {
    struct {
      mt_plugin_note_v1 note;
      char later[24];
    } longer = {tiny_note("acme-2"), "more"};
    mt_plugin_note_v1 note;
    longer.note.struct_size = sizeof(longer);
    tiny *file = start_tiny(alignments[i]);
    add_note(file, 3, "GNU", 4, "12345678901234567890", 20);
    add_note(file, 1, "", 0, "", 0);
    add_note(file, 9, "MecanTensor", 12, "x", 1);
    add_note(file, 1, "MecanTensoR", 12, "x", 1);
    add_note(file, 1, "MecanTensor", 12, &longer, sizeof(longer));
    ck_ok(inspect_tiny(file, &note));
    ck_assert_str_eq(note.name, "acme-2");
    ck_assert_int_eq(note.priority, 7);
  }
}
END_TEST

START_TEST(test_note_fields) {
  const struct {
    mt_plugin_note_v1 note;
    uint32_t bytes;
    mt_status status;
    const char *reason;
  } cases[] = {
      {tiny_note("short"), 48, MT_ERR_CORRUPT, "has 48 bytes, expected at least 56"},
      {{.struct_size = 55, .abi_major = 1}, 56, MT_ERR_CORRUPT, "struct_size at offset "},
      {{.struct_size = 57, .abi_major = 1}, 56, MT_ERR_CORRUPT, "is 57: expected 56 .. 56"},
      {{.struct_size = 56, .abi_major = 9}, 56, MT_ERR_UNSUPPORTED, "plugin ABI 9.0"},
      {{.struct_size = 56, .abi_major = 0}, 56, MT_ERR_UNSUPPORTED, "plugin ABI 0.0"},
      {tiny_note(""), 56, MT_ERR_CORRUPT, "the note's name"},
      {tiny_note("a b"), 56, MT_ERR_CORRUPT, "the note's name"},
      {tiny_note("-a"), 56, MT_ERR_CORRUPT, "the note's name"},
      {tiny_note("a/../b"), 56, MT_ERR_CORRUPT, "the note's name"},
      {tiny_note("0123456789012345678901234567890x"), 56, MT_ERR_CORRUPT, "the note's name"},
      {tiny_note("auto"), 56, MT_ERR_CORRUPT, "'auto'"},
      {tiny_note("reference"), 56, MT_ERR_CORRUPT, "'reference'"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    mt_plugin_note_v1 note;
    tiny *file = start_tiny(8);
    add_note(file, 1, "MecanTensor", 12, &cases[i].note, cases[i].bytes);
    ck_fails(inspect_tiny(file, &note), cases[i].status, cases[i].reason);
  }
}
END_TEST

START_TEST(test_notes_that_do_not_fit) {
  mt_plugin_note_v1 note, ours = tiny_note("acme");
  const uint32_t sizes[] = {60, 4096, 0x7fffffff, 0xfffffff0, 0xffffffff};
  for (size_t i = 0; i < 10; i++) {
    tiny *file = start_tiny(8);
    add_note(file, 1, "MecanTensor", 12, &ours, sizeof(ours));
    uint32_t size = sizes[i / 2];
    memcpy(file->notes + (i % 2 ? 4 : 0), &size, 4);
    ck_fails(inspect_tiny(file, &note), MT_ERR_CORRUPT, "passes the end of its segment");
  }
  tiny *file = start_tiny(4); /* a segment that passes the end of the file */
  add_note(file, 1, "MecanTensor", 12, &ours, sizeof(ours));
  file->segment.p_filesz = (ElfW(Xword)) - 8;
  ck_fails(inspect_tiny(file, &note), MT_ERR_CORRUPT, "truncated: segment 0");
}
END_TEST

/* Thousands of notes without content would keep us reading. */
START_TEST(test_too_many_notes) {
  mt_plugin_note_v1 note;
  tiny *file = start_tiny(4);
  for (int i = 0; i < 5000; i++) {
    add_note(file, 1, "", 0, "", 0);
  }
  ck_fails(inspect_tiny(file, &note), MT_ERR_CORRUPT, "more than 4096 notes");
  file = start_tiny(4);
  add_note(file, 1, "", 0, "", 0);
  ck_fails(inspect_tiny(file, &note), MT_ERR_UNSUPPORTED, "no .note.mecantensor");
}
END_TEST

/* ---- anything ----------------------------------------------------------------------------- */

/* Cut anywhere: an error with a sentence, unless only what is not needed is gone. */
START_TEST(test_every_truncation) {
  size_t count;
  mt_plugin_note_v1 note;
  unsigned char *good = read_mock("good", &count);
  size_t needed = needed_bytes(good);
  ck_ok(inspect(good, count, &note));
  for (size_t cut = count; cut-- > 0;) {
    ck_assert_int_eq(ftruncate(memory, (off_t)cut), 0);
    mt_status status = mt_elf_inspect(memory, &note);
    ck_assert_int_eq(status, cut < needed ? MT_ERR_CORRUPT : MT_OK);
    ck_assert(status == MT_OK || strlen(mt_last_error()) > 10);
  }
  free(good);
}
END_TEST

/* Where the first bytes are that are read: headers, then notes. */
START_TEST(test_random_changes) {
  size_t count;
  uint64_t state = 20240229;
  mt_plugin_note_v1 note;
  unsigned char *good = read_mock("good", &count);
  for (int i = 0; i < 20000; i++) {
    unsigned char *bad = malloc(count);
    memcpy(bad, good, count);
    for (int n = 0; n <= i % 4; n++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      size_t range = i % 2 ? 1024 : count;
      bad[(state >> 24) % (range < count ? range : count)] = (unsigned char)(state >> 56);
    }
    if (inspect(bad, count, &note) == MT_OK) {
      ck_assert_uint_lt(strlen(note.name), sizeof(note.name));
      ck_assert_uint_eq(note.abi_major, MT_PLUGIN_ABI_MAJOR);
    } else {
      ck_assert_uint_gt(strlen(mt_last_error()), 10);
    }
    free(bad);
  }
  free(good);
}
END_TEST

LOADER_MAIN(elf, test_good, test_garbage, test_header_fields, test_other_machine,
            test_truncated_file, test_note_is_found, test_note_fields, test_notes_that_do_not_fit,
            test_too_many_notes, test_every_truncation, test_random_changes)
