// SPDX-License-Identifier: Apache-2.0
/* .mt version 2: the description in docs/mt-format.md byte by byte, round trips, and what
 * is refused. */
#include "io_common.h"

#include "io/bytes.h"
#include "io/mt_file.h"

#include <pthread.h>
#include <sys/resource.h>
#include <xxhash.h>

/* ---- a file put together by hand -------------------------------------------------------- */

typedef struct by_hand {
  unsigned char bytes[16384];
  size_t dir, end;
} by_hand;

static void seal(by_hand *file) {
  mt_put_u64(file->bytes + 56, XXH3_64bits(file->bytes + file->dir, file->end - file->dir));
  mt_put_u64(file->bytes + 4088, XXH3_64bits(file->bytes, 4088));
}

static void put_pair(by_hand *file, size_t at, uint64_t offset, uint64_t bytes) {
  mt_put_u64(file->bytes + at, offset);
  mt_put_u64(file->bytes + at + 8, bytes);
  mt_put_u64(file->bytes + at + 16, XXH3_64bits(file->bytes + offset, bytes));
}

enum { HAND_DIR = 4224, HAND_TENSOR_A = 4264, HAND_TENSOR_B = 4328 };

/*
 * 4096  "b": f32 [3] = 1, -2, 0.5         (12 bytes)
 * 4160  "a": q8_0 [1, 2], one block       (34 bytes)
 * 4224  directory: a format, the tensors by name, one text
 */
static void assemble(by_hand *file) {
  memset(file, 0, sizeof(*file));
  unsigned char *s = file->bytes, *d = s + HAND_DIR;
  static const unsigned char head[16] = {0x89, 'M', 'E', 'C', '\r', '\n', 0x1a, '\n',
                                         2,    0,   0,   0,   0,    0x10, 0,    0};
  static const unsigned char floats[12] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f};
  static const unsigned char block[4] = {0, 0x3c, 5, 0xff}; /* d = 1: 5, -1 */
  memcpy(s, head, sizeof(head));
  memcpy(s + 4096, floats, sizeof(floats));
  memcpy(s + 4160, block, sizeof(block));
  mt_put_u32(d, 2);     /* tensors */
  mt_put_u32(d + 4, 1); /* texts */
  mt_put_u32(d + 8, 1); /* formats */
  d += 16;
  mt_put_u32(d, 24); /* format record */
  mt_put_u32(d + 4, 32);
  mt_put_u32(d + 8, 34);
  mt_put_u16(d + 12, 4);
  memcpy(d + 16, "q8_0", 4);
  d += 24;
  mt_put_u32(d, 64); /* tensor "a" */
  mt_put_u16(d + 4, 1);
  d[6] = 11; /* block */
  d[7] = 2;
  mt_put_u32(d + 8, 1);
  mt_put_u32(d + 12, 1);
  put_pair(file, HAND_TENSOR_A + 16, 4160, 34);
  mt_put_u64(d + 40, 1);
  mt_put_u64(d + 48, 2);
  d[56] = 'a';
  d += 64;
  mt_put_u32(d, 56); /* tensor "b" */
  mt_put_u16(d + 4, 1);
  d[6] = 1; /* f32 */
  d[7] = 1;
  put_pair(file, HAND_TENSOR_B + 16, 4096, 12);
  mt_put_u64(d + 40, 3);
  d[48] = 'b';
  d += 56;
  mt_put_u32(d, 24);
  mt_put_u16(d + 4, 1);
  mt_put_u16(d + 6, 3);
  mt_put_u32(d + 8, 2);
  memcpy(d + 16, "keyva", 5);
  d += 24;
  file->dir = HAND_DIR;
  file->end = (size_t)(d - s);
  mt_put_u64(s + 32, file->end);
  mt_put_u64(s + 40, file->dir);
  mt_put_u64(s + 48, file->end - file->dir);
  mt_put_u32(s + 64, 4096);
  seal(file);
}

static mt_status open_hand(const by_hand *file, mt_archive **archive) {
  return mt_archive_open_memory(file->bytes, file->end, MT_FILE_UNKNOWN, archive);
}

START_TEST(test_by_hand) {
  by_hand file;
  mt_archive *archive;
  mt_archive_entry entry;
  mt_tensor *tensor;
  assemble(&file);
  ck_ok(open_hand(&file, &archive));
  ck_assert_int_eq(mt_archive_type(archive), MT_FILE_MT);
  ck_assert_str_eq(mt_archive_version(archive), "mt 2.0");
  ck_assert_uint_eq(mt_archive_count(archive), 2);
  ck_ok(mt_archive_entry_at(archive, 0, &entry)); /* by place, not by name */
  ck_assert_str_eq(entry.name, "b");
  ck_assert_int_eq(entry.dtype, MT_F32);
  ck_assert_uint_eq(entry.offset, 4096);
  ck_assert_uint_eq(entry.bytes, 12);
  ck_assert_str_eq(entry.stored_as, "f32");
  ck_ok(mt_archive_entry_at(archive, 1, &entry));
  ck_assert_str_eq(entry.name, "a");
  ck_assert_int_eq(entry.dtype, MT_BLOCK);
  ck_assert_ptr_eq(entry.format, mt_format_find("q8_0"));
  ck_assert_int_eq(entry.rank, 2);
  ck_assert_int_eq(entry.shape[1], 2);
  const char *key, *value;
  ck_assert_uint_eq(mt_archive_metadata_count(archive), 1);
  ck_ok(mt_archive_metadata_at(archive, 0, &key, &value));
  ck_assert_str_eq(key, "key");
  ck_assert_str_eq(value, "va");
  const void *data;
  float floats[2];
  ck_ok(mt_archive_read(archive, 0, &tensor));
  ck_ok(mt_tensor_read(tensor, &data));
  ck_assert_float_eq(((const float *)data)[1], -2);
  ck_assert_float_eq(((const float *)data)[2], 0.5f);
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_read(archive, 1, &tensor));
  ck_ok(mt_tensor_read(tensor, &data));
  ck_ok(mt_format_decode(entry.format, data, 2, floats));
  ck_assert_float_eq(floats[0], 5);
  ck_assert_float_eq(floats[1], -1);
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
  ck_assert_ptr_null(archive);
}
END_TEST

/* The writer makes exactly this file. */
START_TEST(test_written_like_by_hand) {
  by_hand file;
  assemble(&file);
  put_file(in_folder("hand.mt"), file.bytes, file.end);
  copy_archive(in_folder("hand.mt"), in_folder("copy.mt"));
  size_t bytes;
  unsigned char *copy = get_file(in_folder("copy.mt"), &bytes);
  ck_assert_uint_eq(bytes, file.end);
  ck_assert_mem_eq(copy, file.bytes, bytes);
  free(copy);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------- */

typedef struct mutation {
  size_t at;
  int width;
  uint64_t value;
  mt_status status;
  const char *part; /* of the sentence */
} mutation;

enum { A = HAND_TENSOR_A, B = HAND_TENSOR_B, F = HAND_DIR + 16, T = HAND_TENSOR_B + 56 };

static const mutation mutations[] = {
    {0, 1, 'x', MT_ERR_CORRUPT, "field 'magic' at byte 0"},
    {4, 2, 0x0a0a, MT_ERR_CORRUPT, "line ends"},
    {8, 2, 3, MT_ERR_UNSUPPORTED, "field 'version_major' at byte 8: version 3"},
    {12, 4, 512, MT_ERR_CORRUPT, "'superblock_bytes' at byte 12: 512"},
    {16, 8, 0x20, MT_ERR_UNSUPPORTED, "feature bit 5"},
    {16, 8, (uint64_t)1 << 63, MT_ERR_UNSUPPORTED, "feature bit 63"},
    {32, 8, 4000, MT_ERR_CORRUPT, "'file_bytes' at byte 32: 4000"},
    {40, 8, 123456, MT_ERR_CORRUPT, "field 'dir_offset' at byte 40: 123456 is past the end"},
    {40, 8, 4225, MT_ERR_CORRUPT, "'dir_offset' at byte 40: 4225: expected a multiple of 64"},
    {40, 8, 64, MT_ERR_CORRUPT, "'dir_offset' at byte 40: 64"},
    {40, 8, UINT64_MAX, MT_ERR_CORRUPT, "'dir_offset' at byte 40"},
    {48, 8, 8, MT_ERR_CORRUPT, "'dir_bytes' at byte 48: 8"},
    {48, 8, UINT64_MAX, MT_ERR_CORRUPT, "'dir_bytes' at byte 48"},
    {64, 4, 0, MT_ERR_CORRUPT, "'page_bytes' at byte 64"},
    {64, 4, 4097, MT_ERR_CORRUPT, "'page_bytes' at byte 64"},
    {64, 4, 4 << 20, MT_ERR_CORRUPT, "'page_bytes' at byte 64"},
    {HAND_DIR, 4, 0xffffffff, MT_ERR_CORRUPT, "'tensor_count' at byte 4224: 4294967295 records"},
    {HAND_DIR, 4, 3, MT_ERR_CORRUPT, "record"},
    {HAND_DIR, 4, 1, MT_ERR_CORRUPT, "'order'"},
    {HAND_DIR + 4, 4, 0, MT_ERR_CORRUPT, "behind the last record"},
    {HAND_DIR + 4, 4, 2, MT_ERR_CORRUPT, "0 bytes are left"},
    {HAND_DIR + 8, 4, 0xffffffff, MT_ERR_CORRUPT, "'format_count'"},
    {F, 4, 0, MT_ERR_CORRUPT, "'record_bytes'"},
    {F, 4, 32, MT_ERR_CORRUPT, "'record_bytes' at byte 4240: 32: expected 24"},
    {F + 4, 4, 0, MT_ERR_CORRUPT, "0 elements"},
    {F + 4, 4, 64, MT_ERR_CORRUPT, "expected 32 in 34 for q8_0"},
    {F + 8, 4, 0xffffffff, MT_ERR_CORRUPT, "4294967295 bytes"},
    {F + 12, 2, 0, MT_ERR_CORRUPT, "'id_bytes'"},
    {F + 12, 2, 9, MT_ERR_CORRUPT, "'id'"},
    {F + 22, 1, 1, MT_ERR_CORRUPT, "'padding'"},
    {A, 4, 0x80000000, MT_ERR_CORRUPT, "'record_bytes'"},
    {A, 4, 60, MT_ERR_CORRUPT, "multiple of 8"},
    {A + 4, 2, 1025, MT_ERR_CORRUPT, "'name_bytes'"},
    {A + 4, 2, 9, MT_ERR_CORRUPT, "'name'"},
    {A + 6, 1, 0, MT_ERR_CORRUPT, "'format'"},
    {A + 6, 1, 12, MT_ERR_CORRUPT, "'format'"},
    {A + 7, 1, 17, MT_ERR_CORRUPT, "'rank'"},
    {A + 7, 1, 16, MT_ERR_CORRUPT, "168 or more"},
    {A + 8, 4, 2, MT_ERR_CORRUPT, "'order'"},
    {A + 8, 4, 0, MT_ERR_CORRUPT, "'order'"},
    {A + 12, 4, 0, MT_ERR_CORRUPT, "'format'"},
    {A + 12, 4, 2, MT_ERR_CORRUPT, "'format'"},
    {A + 16, 8, 4161, MT_ERR_CORRUPT, "'data_offset'"},
    {A + 16, 8, 4096, MT_ERR_CORRUPT, "tensor 'a': 4096"}, /* overlaps b */
    {A + 16, 8, UINT64_MAX - 63, MT_ERR_CORRUPT, "tensor 'a'"},
    {A + 24, 8, 35, MT_ERR_CORRUPT, "35 bytes of data: expected 34"},
    {A + 40, 8, UINT64_MAX, MT_ERR_CORRUPT, "'dim'"},
    {A + 40, 8, (uint64_t)1 << 62, MT_ERR_CORRUPT, "does not fit"},
    {A + 48, 8, 33, MT_ERR_CORRUPT, "expected 68"},
    {A + 56, 1, 'c', MT_ERR_CORRUPT, "'b' is not behind"},
    {A + 56, 1, 'b', MT_ERR_CORRUPT, "'b' is not behind"},
    {A + 56, 1, 0xff, MT_ERR_CORRUPT, "UTF-8"},
    {A + 56, 1, 0, MT_ERR_CORRUPT, "UTF-8"},
    {A + 57, 1, 1, MT_ERR_CORRUPT, "'padding'"},
    {B + 6, 1, 12, MT_ERR_CORRUPT, "'dtype'"},
    {B + 6, 1, 2, MT_ERR_CORRUPT, "expected 24"},
    {B + 12, 4, 1, MT_ERR_CORRUPT, "'format'"},
    {B + 16, 8, 0, MT_ERR_CORRUPT, "tensor 'b': 0"}, /* the superblock */
    {B + 24, 8, UINT64_MAX, MT_ERR_CORRUPT, "bytes of data"},
    {T + 4, 2, 2, MT_ERR_CORRUPT, "'type'"},
    {T + 6, 2, 2000, MT_ERR_CORRUPT, "'key_bytes'"},
    {T + 6, 2, 500, MT_ERR_CORRUPT, "'key'"},
    {T + 8, 4, 0xffffffff, MT_ERR_CORRUPT, "'value'"},
    {T + 19, 1, 0xc0, MT_ERR_CORRUPT, "UTF-8"},
};

START_TEST(test_refused) {
  mt_archive *archive;
  for (size_t i = 0; i < sizeof(mutations) / sizeof(mutations[0]); i++) {
    const mutation *m = &mutations[i];
    by_hand file;
    assemble(&file);
    mt_put_le(file.bytes + m->at, m->width, m->value);
    seal(&file); /* hostile, not damaged: the checksums fit */
    mt_status status = mt_archive_open_memory(file.bytes, file.end, MT_FILE_MT, &archive);
    ck_assert_msg(status == m->status, "byte %zu = %llx: %s: %s", m->at,
                  (unsigned long long)m->value, mt_status_name(status), mt_last_error());
    ck_assert_ptr_null(archive);
    ck_assert_msg(strstr(mt_last_error(), m->part) != NULL, "no '%s' in '%s'", m->part,
                  mt_last_error());
  }
}
END_TEST

/* Unknown optional bits, a later minor version with longer records, later types. */
START_TEST(test_later_versions) {
  by_hand file;
  mt_archive *archive;
  mt_archive_entry entry;
  mt_tensor *tensor;
  assemble(&file);
  mt_put_u64(file.bytes + 24, UINT64_MAX);
  mt_put_u16(file.bytes + 10, 7);
  file.bytes[HAND_TENSOR_B + 6] = 99; /* a dtype of the future */
  mt_put_u16(file.bytes + T + 4, 9);  /* a kind of metadata of the future */
  mt_put_u32(file.bytes + T, 32);     /* with a longer record */
  memset(file.bytes + file.end, 0x55, 8);
  file.end += 8;
  mt_put_u64(file.bytes + 32, file.end);
  mt_put_u64(file.bytes + 48, file.end - file.dir);
  seal(&file);
  ck_ok(open_hand(&file, &archive));
  ck_assert_str_eq(mt_archive_version(archive), "mt 2.7");
  ck_assert_uint_eq(mt_archive_metadata_count(archive), 0);
  ck_ok(mt_archive_entry_at(archive, 0, &entry));
  ck_assert_int_eq(entry.dtype, MT_DTYPE_NONE);
  ck_assert_str_eq(entry.stored_as, "dtype 99");
  ck_fails(mt_archive_read(archive, 0, &tensor), MT_ERR_UNSUPPORTED, "dtype 99");
  ck_assert_ptr_null(tensor);
  ck_ok(mt_archive_read(archive, 1, &tensor));
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
}
END_TEST

/* A later minor version may keep things of its own (a second superblock, tables, directories
 * of earlier states) before, between and behind the tensors. Version 2.0 has no such room. */
static void make_room(by_hand *file, uint16_t minor) {
  enum { ROOM = 4096 };
  assemble(file);
  unsigned char *s = file->bytes;
  memmove(s + 4160 + 2 * ROOM, s + 4160, file->end - 4160); /* "a" and the directory */
  memmove(s + 4096 + ROOM, s + 4096, 64);                   /* "b" */
  memset(s + 4096, 0x55, ROOM);
  memset(s + 4160 + ROOM, 0x66, ROOM);
  file->dir += 2 * ROOM;
  file->end += 2 * ROOM;
  put_pair(file, HAND_TENSOR_A + 2 * ROOM + 16, 4160 + 2 * ROOM, 34);
  put_pair(file, HAND_TENSOR_B + 2 * ROOM + 16, 4096 + ROOM, 12);
  mt_put_u16(s + 10, minor);
  mt_put_u32(s + 12, 4096 + ROOM);
  mt_put_u64(s + 32, file->end);
  mt_put_u64(s + 40, file->dir);
  seal(file);
  memset(s + file->end, 0x77, 8); /* what a crash left of the next state */
  file->end += 8;
}

START_TEST(test_room_for_later_versions) {
  by_hand file;
  mt_archive *archive;
  make_room(&file, 1);
  ck_ok(open_hand(&file, &archive));
  ck_assert_uint_eq(mt_archive_count(archive), 2);
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
  file.end -= 16; /* but all of what the superblock speaks of is there */
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "'file_bytes'");
  make_room(&file, 1);
  mt_put_u32(file.bytes + 12, 4160);
  file.end -= 8;
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "'superblock_bytes'");
  make_room(&file, 1);
  mt_put_u32(file.bytes + 12, 12288); /* into "b" */
  file.end -= 8;
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "tensor 'b'");
}
END_TEST

START_TEST(test_no_room_in_this_version) {
  by_hand file;
  mt_archive *archive;
  make_room(&file, 0);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "'superblock_bytes' at byte 12: 8192");
  mt_put_u32(file.bytes + 12, 4096);
  file.end -= 8;
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "less than a page");
}
END_TEST

/* A block format that is not known here is listed, checked for its size, and not read. */
START_TEST(test_unknown_format) {
  by_hand file;
  mt_archive *archive;
  mt_archive_entry entry;
  mt_tensor *tensor;
  assemble(&file);
  memcpy(file.bytes + F + 16, "q9_z", 4);
  seal(&file);
  ck_ok(open_hand(&file, &archive));
  ck_ok(mt_archive_entry_at(archive, 1, &entry));
  ck_assert_int_eq(entry.dtype, MT_DTYPE_NONE);
  ck_assert_ptr_null(entry.format);
  ck_assert_str_eq(entry.stored_as, "q9_z");
  ck_fails(mt_archive_read(archive, 1, &tensor), MT_ERR_UNSUPPORTED, "q9_z");
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
  mt_put_u32(file.bytes + F + 8, 33);
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "34 bytes of data: expected 33");
  assemble(&file);
  memcpy(file.bytes + F + 16, "\x1b[2J", 4); /* clears a terminal */
  seal(&file);
  ck_ok(open_hand(&file, &archive));
  ck_fails(mt_archive_read(archive, 1, &tensor), MT_ERR_UNSUPPORTED, "stored as ?[2J");
  mt_archive_close(&archive);
}
END_TEST

START_TEST(test_truncated) {
  by_hand file;
  assemble(&file);
  check_truncations(file.bytes, file.end, MT_FILE_MT);
}
END_TEST

/* Every flipped bit is found, but for the padding, which only verify looks at; and one in
 * the padding changes nothing. */
START_TEST(test_bit_flips) {
  by_hand file;
  assemble(&file);
  unsigned char *copy = exact_copy(file.bytes, file.end);
  for (size_t bit = 0; bit < file.end * 8; bit++) {
    copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
    mt_status status = read_everything(copy, file.end, MT_FILE_MT);
    bool version = bit / 8 == 8 || bit / 8 == 9;
    if (status != (version ? MT_ERR_UNSUPPORTED : MT_ERR_CORRUPT)) {
      ck_abort_msg("bit %zu of byte %zu: %s", bit % 8, bit / 8, mt_status_name(status));
    }
    copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  ck_ok(read_everything(copy, file.end, MT_FILE_MT));
  free(copy);
}
END_TEST

START_TEST(test_checksum_and_bool_messages) {
  by_hand file;
  mt_archive *archive;
  mt_tensor *tensor;
  assemble(&file);
  file.bytes[4097] ^= 1;
  ck_ok(open_hand(&file, &archive));
  ck_fails(mt_archive_read(archive, 0, &tensor), MT_ERR_CORRUPT, "at byte 4096: tensor 'b' has");
  ck_ok(mt_archive_read(archive, 1, &tensor)); /* the other one is fine */
  mt_tensor_release(&tensor);
  ck_fails(mt_archive_verify(archive), MT_ERR_CORRUPT, "checksum");
  mt_archive_close(&archive);
  assemble(&file);
  file.bytes[4159] = 1; /* padding */
  ck_ok(open_hand(&file, &archive));
  ck_fails(mt_archive_verify(archive), MT_ERR_CORRUPT, "field 'padding' at byte 4159");
  mt_archive_close(&archive);
  assemble(&file); /* f32 [3] as bool [12] */
  file.bytes[B + 6] = MT_BOOL;
  mt_put_u64(file.bytes + B + 40, 12);
  seal(&file);
  ck_ok(open_hand(&file, &archive));
  ck_fails(mt_archive_read(archive, 0, &tensor), MT_ERR_CORRUPT,
           "at byte 4098: byte 0x80 in bool tensor 'b'");
  mt_archive_close(&archive);
}
END_TEST

/* A claim of 2^50 bytes in a small file must not be believed: 256 MiB of address space. */
START_TEST(test_giant_claims) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  by_hand file;
  mt_archive *archive;
  struct rlimit limit = {256 << 20, 256 << 20};
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
  assemble(&file);
  mt_put_u64(file.bytes + B + 24, (uint64_t)1 << 50);
  mt_put_u64(file.bytes + B + 40, (uint64_t)1 << 48);
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "1125899906842624 bytes at 4096");
  assemble(&file);
  mt_put_u64(file.bytes + 32, (uint64_t)1 << 50);
  mt_put_u64(file.bytes + 48, (uint64_t)1 << 50);
  seal(&file);
  ck_fails(open_hand(&file, &archive), MT_ERR_CORRUPT, "file_bytes");
#endif
}
END_TEST

/* ---- round trips ------------------------------------------------------------------------- */

START_TEST(test_every_dtype) {
  mt_writer *writer;
  mt_archive *archive;
  mt_tensor *tensors[MT_BLOCK + 1];
  int64_t shape[3] = {3, 1, 7};
  char name[16];
  ck_ok(mt_writer_create(in_folder("all.mt"), MT_FILE_MT, &writer));
  for (int dtype = MT_F32; dtype <= MT_BLOCK; dtype++) {
    tensors[dtype] = dtype == MT_BLOCK ? pattern_q8(3, shape, 5)
                                       : pattern((mt_dtype)dtype, 3, shape, (unsigned)dtype);
    snprintf(name, sizeof(name), "t%d", 100 - dtype); /* not in the order of names */
    ck_ok(mt_writer_add(writer, name, tensors[dtype]));
  }
  ck_ok(mt_writer_commit(&writer));
  ck_assert_ptr_null(writer);
  ck_ok(mt_archive_open(in_folder("all.mt"), &archive));
  ck_assert_uint_eq(mt_archive_count(archive), MT_BLOCK);
  for (int dtype = MT_F32; dtype <= MT_BLOCK; dtype++) {
    size_t index;
    mt_tensor *back;
    mt_archive_entry entry;
    snprintf(name, sizeof(name), "t%d", 100 - dtype);
    ck_ok(mt_archive_find(archive, name, &index));
    ck_assert_uint_eq(index, (size_t)dtype - MT_F32);
    ck_ok(mt_archive_entry_at(archive, index, &entry));
    ck_assert_uint_eq(entry.offset % 64, 0);
    ck_ok(mt_archive_read(archive, index, &back));
    ck_same(back, tensors[dtype]);
    mt_tensor_release(&back);
    mt_tensor_release(&tensors[dtype]);
  }
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
}
END_TEST

/* Empty file, scalar, empty tensor, 16 axes, empty name, long name, no-ASCII name. */
START_TEST(test_edges) {
  mt_writer *writer;
  mt_archive *archive;
  int64_t ones[MT_MAX_RANK], empty[2] = {0, 5};
  char long_name[1025];
  memset(long_name, 'n', 1024);
  long_name[1024] = 0;
  for (int i = 0; i < MT_MAX_RANK; i++) {
    ones[i] = 1 + (i == 4);
  }
  ck_ok(mt_writer_create(in_folder("none.mt"), MT_FILE_MT, &writer));
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_archive_open(in_folder("none.mt"), &archive));
  ck_assert_uint_eq(mt_archive_count(archive), 0);
  ck_ok(mt_archive_verify(archive));
  size_t index;
  ck_fails(mt_archive_find(archive, "x", &index), MT_ERR_NOT_FOUND, "no tensor 'x' among its 0");
  mt_archive_close(&archive);

  mt_tensor *tensors[] = {pattern(MT_F64, 0, NULL, 1), pattern(MT_I16, 2, empty, 2),
                          pattern(MT_BF16, MT_MAX_RANK, ones, 3), pattern_q8(2, empty, 1)};
  const char *names[] = {"", "\xc3\xa9t\xc3\xa9", long_name, "with:colon"};
  ck_ok(mt_writer_create(in_folder("edges.mt"), MT_FILE_MT, &writer));
  ck_ok(mt_writer_metadata(writer, "", ""));
  ck_ok(mt_writer_metadata(writer, "\xe2\x82\xac", "line\nline"));
  for (int i = 0; i < 4; i++) {
    ck_ok(mt_writer_add(writer, names[i], tensors[i]));
  }
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_archive_open(in_folder("edges.mt"), &archive));
  for (int i = 0; i < 4; i++) {
    mt_tensor *back;
    ck_ok(mt_archive_find(archive, names[i], &index));
    ck_ok(mt_archive_read(archive, index, &back));
    ck_same(back, tensors[i]);
    mt_tensor_release(&back);
    mt_tensor_release(&tensors[i]);
  }
  const char *key, *value;
  ck_ok(mt_archive_metadata_at(archive, 1, &key, &value));
  ck_assert_str_eq(value, "line\nline");
  ck_fails(mt_archive_metadata_at(archive, 2, &key, &value), MT_ERR_NOT_FOUND, "no metadata 2");
  mt_archive_close(&archive);
}
END_TEST

/* Views of all kinds, larger than the pieces that are written at once. */
START_TEST(test_views) {
  int64_t shape[3] = {5, 700, 900}, row[2] = {1, 300}, wide[2] = {40000, 300};
  int axes[3] = {2, 0, 1};
  mt_tensor *whole = pattern(MT_F32, 3, shape, 9), *view, *back;
  ck_ok(mt_tensor_permute(whole, axes, &view));
  ck_ok(mt_save(in_folder("permuted.mt"), view));
  ck_ok(mt_load(in_folder("permuted.mt"), &back));
  ck_assert(mt_tensor_is_contiguous(back));
  ck_same(back, view);
  mt_tensor_release(&back);
  mt_tensor_release(&view);
  ck_ok(mt_tensor_slice(whole, 2, 3, 800, 7, &view));
  ck_ok(mt_save(in_folder("sliced.mt"), view));
  ck_ok(mt_load(in_folder("sliced.mt"), &back));
  ck_same(back, view);
  mt_tensor_release(&back);
  mt_tensor_release(&view);
  mt_tensor_release(&whole);
  whole = pattern(MT_I8, 2, row, 3);
  ck_ok(mt_tensor_broadcast(whole, 2, wide, &view));
  ck_ok(mt_save(in_folder("broadcast.mt"), view));
  ck_ok(mt_load(in_folder("broadcast.mt"), &back));
  ck_same(back, view);
  mt_tensor_release(&back);
  mt_tensor_release(&view);
  mt_tensor_release(&whole);
}
END_TEST

START_TEST(test_block_views) {
  int64_t shape[2] = {50, 70000};
  mt_tensor *whole = pattern_q8(2, shape, 9), *view, *back;
  ck_ok(mt_tensor_slice(whole, 1, 64, 69984, 1, &view));
  ck_ok(mt_save(in_folder("blocks.mt"), view));
  ck_ok(mt_load(in_folder("blocks.mt"), &back));
  ck_same(back, view);
  mt_tensor_release(&back);
  mt_tensor_release(&view);
  ck_ok(mt_tensor_transpose(whole, 0, 1, &view));
  ck_fails(mt_save(in_folder("turned.mt"), view), MT_ERR_UNSUPPORTED, "blocks along axis 0");
  mt_tensor_release(&view);
  mt_tensor_release(&whole);
  ck_assert_int_eq(access(in_folder("turned.mt"), F_OK), -1);
}
END_TEST

START_TEST(test_writer_refuses) {
  mt_writer *writer;
  int64_t shape[1] = {4};
  mt_tensor *tensor = pattern(MT_U8, 1, shape, 1);
  char long_name[1026];
  memset(long_name, 'n', 1025);
  long_name[1025] = 0;
  ck_fails(mt_writer_create(NULL, MT_FILE_MT, &writer), MT_ERR_INVALID_ARGUMENT, "path");
  ck_fails(mt_writer_create("x", MT_FILE_MT, NULL), MT_ERR_INVALID_ARGUMENT, "out");
  ck_fails(mt_writer_create("x", MT_FILE_UNKNOWN, &writer), MT_ERR_INVALID_ARGUMENT, "type 0");
  ck_assert_ptr_null(writer);
  ck_ok(mt_writer_create(in_folder("x.mt"), MT_FILE_MT, &writer));
  ck_fails(mt_writer_add(writer, NULL, tensor), MT_ERR_INVALID_ARGUMENT, "name is NULL");
  ck_fails(mt_writer_add(writer, "a", NULL), MT_ERR_INVALID_ARGUMENT, "tensor is NULL");
  ck_fails(mt_writer_add(writer, long_name, tensor), MT_ERR_INVALID_ARGUMENT, "1025 bytes");
  ck_fails(mt_writer_add(writer, "a\xffz", tensor), MT_ERR_INVALID_ARGUMENT, "'a?z' is not UTF-8");
  ck_fails(mt_writer_add(writer, "\xed\xa0\x80", tensor), MT_ERR_INVALID_ARGUMENT, "UTF-8");
  ck_fails(mt_writer_add(writer, "\xc0\xaf", tensor), MT_ERR_INVALID_ARGUMENT, "UTF-8");
  ck_fails(mt_writer_add(writer, "\xf4\x90\x80\x80", tensor), MT_ERR_INVALID_ARGUMENT, "UTF-8");
  ck_ok(mt_writer_add(writer, "a", tensor));
  ck_fails(mt_writer_add(writer, "a", tensor), MT_ERR_INVALID_ARGUMENT, "'a' is there already");
  ck_ok(mt_writer_metadata(writer, "k", "v"));
  ck_fails(mt_writer_metadata(writer, "k", "w"), MT_ERR_INVALID_ARGUMENT, "'k' is there twice");
  ck_fails(mt_writer_metadata(writer, "l", NULL), MT_ERR_INVALID_ARGUMENT, "value is NULL");
  ck_fails(mt_writer_metadata(writer, "l", "\x80"), MT_ERR_INVALID_ARGUMENT, "UTF-8");
  ck_ok(mt_writer_commit(&writer)); /* refusals do no harm */
  ck_fails(mt_writer_commit(&writer), MT_ERR_INVALID_ARGUMENT, "writer is NULL");
  mt_tensor_release(&tensor);
  mt_archive *archive;
  ck_ok(mt_archive_open(in_folder("x.mt"), &archive));
  ck_assert_uint_eq(mt_archive_count(archive), 1);
  ck_assert_uint_eq(mt_archive_metadata_count(archive), 1);
  mt_archive_close(&archive);
}
END_TEST

START_TEST(test_bool_that_is_none) {
  int64_t shape[1] = {4};
  unsigned char bytes[4] = {0, 1, 2, 1};
  mt_tensor *tensor;
  mt_writer *writer;
  ck_ok(mt_tensor_from_data(MT_BOOL, 1, shape, bytes, &tensor));
  ck_ok(mt_writer_create(in_folder("x.mt"), MT_FILE_MT, &writer));
  ck_fails(mt_writer_add(writer, "flags", tensor), MT_ERR_INVALID_ARGUMENT,
           "tensor 'flags': byte 0x02 in a bool tensor");
  ck_fails(mt_writer_add(writer, "more", tensor), MT_ERR_IO, "earlier tensor");
  ck_fails(mt_writer_commit(&writer), MT_ERR_IO, "earlier tensor");
  ck_assert_ptr_null(writer);
  ck_assert_int_eq(count_files(), 0);
  mt_tensor_release(&tensor);
}
END_TEST

/* ---- opening and finding ------------------------------------------------------------------ */

START_TEST(test_open_errors) {
  mt_archive *archive;
  ck_fails(mt_archive_open(NULL, &archive), MT_ERR_INVALID_ARGUMENT, "path is NULL");
  ck_fails(mt_archive_open("x", NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  ck_fails(mt_archive_open(in_folder("absent.mt"), &archive), MT_ERR_NOT_FOUND, "absent.mt: No");
  ck_assert_ptr_null(archive);
  ck_fails(mt_archive_open(test_folder, &archive), MT_ERR_INVALID_ARGUMENT, "is a folder");
  ck_fails(mt_archive_open("/dev/null", &archive), MT_ERR_INVALID_ARGUMENT, "regular file");
  put_file(in_folder("a.txt"), "hello, this is text", 19);
  ck_fails(mt_archive_open(in_folder("a.txt"), &archive), MT_ERR_CORRUPT,
           "field 'magic' at byte 0");
  put_file(in_folder("empty"), "", 0);
  ck_fails(mt_archive_open(in_folder("empty"), &archive), MT_ERR_CORRUPT, "'magic'");
  put_file(in_folder("old.mt"), "MECAN_MT1 and so on", 19);
  ck_fails(mt_archive_open(in_folder("old.mt"), &archive), MT_ERR_UNSUPPORTED, "version 1");
  put_file(in_folder("bad.mt"), "xxxxxxxxxxxxxxxxxxx", 19);
  ck_fails(mt_archive_open(in_folder("bad.mt"), &archive), MT_ERR_CORRUPT, "'superblock'");
  mt_archive_close(NULL);
  mt_archive_close(&archive);
  mt_writer_abort(NULL);
  ck_assert_uint_eq(mt_archive_count(NULL), 0);
  ck_assert_ptr_null(mt_archive_version(NULL));
  ck_fails(mt_archive_verify(NULL), MT_ERR_INVALID_ARGUMENT, "archive is NULL");
  ck_assert_str_eq(mt_file_type_name(MT_FILE_SAFETENSORS), "safetensors");
  ck_assert_str_eq(mt_file_type_name(MT_FILE_UNKNOWN), "unknown");
  ck_assert_int_eq(mt_file_type_from_path("a/b.c.npy"), MT_FILE_NPY);
  ck_assert_int_eq(mt_file_type_from_path("a.mt.bak"), MT_FILE_UNKNOWN);
  ck_assert_int_eq(mt_file_type_from_path(NULL), MT_FILE_UNKNOWN);
}
END_TEST

START_TEST(test_load_spec) {
  int64_t shape[1] = {2};
  mt_tensor *x = pattern(MT_F32, 1, shape, 1), *y = pattern(MT_F32, 1, shape, 2), *back;
  mt_writer *writer;
  ck_ok(mt_writer_create(in_folder("two.mt"), MT_FILE_MT, &writer));
  ck_ok(mt_writer_add(writer, "layer.x", x));
  ck_ok(mt_writer_add(writer, "a:b", y));
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_load(in_folder("two.mt:layer.x"), &back));
  ck_same(back, x);
  mt_tensor_release(&back);
  ck_ok(mt_load(in_folder("two.mt:a:b"), &back));
  ck_same(back, y);
  mt_tensor_release(&back);
  ck_fails(mt_load(in_folder("two.mt"), &back), MT_ERR_INVALID_ARGUMENT, "'layer.x', 'a:b'");
  ck_assert_ptr_null(back);
  ck_fails(mt_load(in_folder("two.mt:layer.z"), &back), MT_ERR_NOT_FOUND,
           "no tensor 'layer.z' among its 2: 'layer.x'");
  ck_fails(mt_load(in_folder("none.mt:x"), &back), MT_ERR_NOT_FOUND, "none.mt:x");
  ck_fails(mt_load(NULL, &back), MT_ERR_INVALID_ARGUMENT, "spec");
  /* a file of that name wins */
  ck_ok(mt_save(in_folder("two.mt:layer.x.mt"), y));
  ck_ok(mt_load(in_folder("two.mt:layer.x.mt"), &back));
  ck_same(back, y);
  mt_tensor_release(&back);
  ck_fails(mt_save(in_folder("two.dat"), x), MT_ERR_INVALID_ARGUMENT, "two.dat: expected a name");
  ck_fails(mt_save(NULL, x), MT_ERR_INVALID_ARGUMENT, "path is NULL");
  mt_tensor_release(&x);
  mt_tensor_release(&y);
}
END_TEST

enum { MANY = 3000 };

START_TEST(test_many_tensors) {
  mt_writer *writer;
  mt_archive *archive;
  int64_t shape[1] = {1};
  char name[32];
  ck_ok(mt_writer_create(in_folder("many.mt"), MT_FILE_MT, &writer));
  for (int i = 0; i < MANY; i++) {
    mt_tensor *tensor = pattern(MT_I32, 1, shape, (unsigned)i);
    snprintf(name, sizeof(name), "layer.%d", (i * 7919) % MANY);
    ck_ok(mt_writer_add(writer, name, tensor));
    mt_tensor_release(&tensor);
  }
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_archive_open(in_folder("many.mt"), &archive));
  for (int i = 0; i < MANY; i++) {
    size_t index;
    snprintf(name, sizeof(name), "layer.%d", (i * 7919) % MANY);
    ck_ok(mt_archive_find(archive, name, &index));
    ck_assert_uint_eq(index, (size_t)i);
  }
  size_t index;
  ck_fails(mt_archive_find(archive, "layer.30000", &index), MT_ERR_NOT_FOUND, "among its 3000: ");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "..."));
  mt_archive_close(&archive);
}
END_TEST

static void *read_all(void *user) {
  mt_archive *archive = user;
  for (int round = 0; round < 20; round++) {
    for (size_t i = 0; i < mt_archive_count(archive); i++) {
      mt_tensor *tensor;
      if (mt_archive_read(archive, i, &tensor) != MT_OK) {
        return (void *)mt_last_error();
      }
      mt_tensor_release(&tensor);
    }
  }
  return NULL;
}

START_TEST(test_threads) {
  mt_writer *writer;
  mt_archive *archive;
  int64_t shape[2] = {100, 333};
  pthread_t threads[4];
  ck_ok(mt_writer_create(in_folder("shared.mt"), MT_FILE_MT, &writer));
  for (int i = 0; i < 8; i++) {
    char name[2] = {(char)('a' + i), 0};
    mt_tensor *tensor = pattern(MT_F32, 2, shape, (unsigned)i);
    ck_ok(mt_writer_add(writer, name, tensor));
    mt_tensor_release(&tensor);
  }
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_archive_open(in_folder("shared.mt"), &archive));
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, read_all, archive), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    ck_assert_ptr_null(failed);
  }
  mt_archive_close(&archive);
}
END_TEST

IO_TEST_MAIN(io_mt, test_by_hand, test_written_like_by_hand, test_refused, test_later_versions,
             test_room_for_later_versions, test_no_room_in_this_version, test_unknown_format,
             test_truncated, test_bit_flips, test_checksum_and_bool_messages, test_giant_claims,
             test_every_dtype, test_edges, test_views, test_block_views, test_writer_refuses,
             test_bool_that_is_none, test_open_errors, test_load_spec, test_many_tensors,
             test_threads)
