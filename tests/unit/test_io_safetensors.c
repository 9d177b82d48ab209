// SPDX-License-Identifier: Apache-2.0
/* .safetensors: files as the Python package writes them, round trips through .mt, junk. */
#include "io_common.h"

#include "io/bytes.h"

static size_t make_st(unsigned char *out, const char *header, const void *data, size_t bytes) {
  size_t text = strlen(header);
  mt_put_u64(out, text);
  memcpy(out + 8, header, text);
  if (bytes > 0) {
    memcpy(out + 8 + text, data, bytes);
  }
  return 8 + text + bytes;
}

static mt_status open_st(const char *header, const void *data, size_t bytes, unsigned char *room,
                         mt_archive **archive) {
  size_t size = make_st(room, header, data, bytes);
  return mt_archive_open_memory(room, size, MT_FILE_SAFETENSORS, archive);
}

static const char data12[] = "ABCDEFGHIJKL";

/* What the package writes: the tensors with the larger elements first, spaces at the end. */
static const char real_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[8,10]},"
    "\"none\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[10,10]},"
    "\"flags\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[10,12]}}   ";
static const unsigned char real_data[12] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x40, 0x3f, 1, 0};

START_TEST(test_read) {
  unsigned char room[1024];
  mt_archive *archive;
  mt_archive_entry entry;
  mt_tensor *tensor;
  const void *data;
  const char *key, *value;
  ck_ok(open_st(real_header, real_data, 12, room, &archive));
  ck_assert_int_eq(mt_archive_type(archive), MT_FILE_SAFETENSORS);
  ck_assert_str_eq(mt_archive_version(archive), "safetensors");
  ck_assert_uint_eq(mt_archive_count(archive), 4);
  ck_ok(mt_archive_metadata_at(archive, 0, &key, &value));
  ck_assert_str_eq(key, "format");
  ck_assert_str_eq(value, "pt");
  ck_ok(mt_archive_entry_at(archive, 0, &entry));
  ck_assert_str_eq(entry.name, "w");
  ck_assert_str_eq(entry.stored_as, "F32");
  ck_assert_uint_eq(entry.offset, 8 + sizeof(real_header) - 1);
  ck_ok(mt_archive_read(archive, 0, &tensor));
  ck_ok(mt_tensor_read(tensor, &data));
  ck_assert_float_eq(((const float *)data)[1], 2);
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_read(archive, 2, &tensor));
  ck_assert_int_eq(mt_tensor_elements(tensor), 0);
  ck_assert_int_eq(mt_tensor_shape(tensor)[1], 4);
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
}
END_TEST

/* The header may list tensors in any order; what counts is where they are. */
START_TEST(test_order) {
  unsigned char room[1024];
  mt_archive *archive;
  mt_archive_entry entry;
  ck_ok(open_st("{\"z\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]},"
                "\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},"
                "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},"
                "\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
                data12, 12, room, &archive));
  const char *expected[] = {"a", "y", "x", "z"};
  for (size_t i = 0; i < 4; i++) {
    ck_ok(mt_archive_entry_at(archive, i, &entry));
    ck_assert_str_eq(entry.name, expected[i]);
  }
  mt_archive_close(&archive);
}
END_TEST

START_TEST(test_no_tensors) {
  unsigned char room[64];
  mt_archive *archive;
  ck_ok(open_st("{}", NULL, 0, room, &archive));
  ck_assert_uint_eq(mt_archive_count(archive), 0);
  mt_archive_close(&archive);
}
END_TEST

/* Types that are no mt_dtype are listed; reading them says so. */
START_TEST(test_other_dtypes) {
  static const char *const names[] = {"U16", "U32", "U64", "F8_E4M3", "F8_E5M2", "F4", "C64"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    unsigned char room[256];
    char header[128];
    mt_archive *archive;
    mt_archive_entry entry;
    mt_tensor *tensor;
    snprintf(header, sizeof(header),
             "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,12]}}", names[i]);
    ck_ok(open_st(header, data12, 12, room, &archive));
    ck_ok(mt_archive_entry_at(archive, 0, &entry));
    ck_assert_int_eq(entry.dtype, MT_DTYPE_NONE);
    ck_assert_str_eq(entry.stored_as, names[i]);
    ck_fails(mt_archive_read(archive, 0, &tensor), MT_ERR_UNSUPPORTED, names[i]);
    ck_ok(mt_archive_verify(archive));
    mt_archive_close(&archive);
  }
}
END_TEST

#define ONE(dtype, shape, offsets)                                                                 \
  "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

START_TEST(test_refused) {
  static const struct {
    const char *header, *part;
    mt_status status;
  } bad[] = {
      {"", "expected '{'", MT_ERR_CORRUPT},
      {"[1]", "expected '{'", MT_ERR_CORRUPT},
      {" {}", "expected '{'", MT_ERR_CORRUPT},
      {"{\"t\":", "field 'header' at byte", MT_ERR_CORRUPT},
      {"{} x", "field 'header' at byte", MT_ERR_CORRUPT},
      {"{\"t\":1}", "field 't' at byte 8: expected an object", MT_ERR_CORRUPT},
      {"{\"t\":{\"dtype\":\"U8\",\"shape\":[12]}}", "expected an object of", MT_ERR_CORRUPT},
      {"{\"t\":{\"dtype\":\"U8\",\"shape\":[12],\"offsets\":[0,12]}}", "'t.data_offsets'",
       MT_ERR_CORRUPT},
      {ONE("7", "[12]", "[0,12]"), "'t.dtype'", MT_ERR_CORRUPT},
      {ONE("\"a type with a name that is much too long\"", "[12]", "[0,12]"), "'t.dtype'",
       MT_ERR_CORRUPT},
      {ONE("\"U8\"", "12", "[0,12]"), "'t.shape'", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12.0]", "[0,12]"), "'t.shape'", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[-12]", "[0,12]"), "'t.shape'", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[true]", "[0,12]"), "'t.shape'", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[99999999999999999999]", "[0,12]"), "field 'header'", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[9223372036854775807,2]", "[0,12]"), "does not fit", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[4294967296,4294967296,0]", "[0,12]"), "does not fit", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,12]", "[0,12]"), "17 axes",
       MT_ERR_UNSUPPORTED},
      {ONE("\"U8\"", "[12]", "[0]"), "two integers", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "[0,12,12]"), "two integers", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "{\"0\":0,\"1\":12}"), "two integers", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "[\"0\",12]"), "two integers", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "[12,0]"), "12 .. 0", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "[-1,11]"), "-1 .. 11", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[13]", "[0,13]"), "in the 12 bytes", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[12]", "[0,9223372036854775807]"), "in the 12 bytes", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[11]", "[0,12]"), "12 bytes of data: expected 11", MT_ERR_CORRUPT},
      {ONE("\"F32\"", "[2]", "[0,12]"), "12 bytes of data: expected 8", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[11]", "[0,11]"), "1 bytes behind the last tensor", MT_ERR_CORRUPT},
      {ONE("\"U8\"", "[11]", "[1,12]"), "starts at 1: expected 0", MT_ERR_CORRUPT},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[7,12]}}",
       "'b.data_offsets' at byte 8: starts at 7: expected 8", MT_ERR_CORRUPT},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]}}",
       "duplicate", MT_ERR_CORRUPT},
      {"{\"__metadata__\":[]}", "'__metadata__'", MT_ERR_CORRUPT},
      {"{\"__metadata__\":{\"a\":1}}", "'__metadata__'", MT_ERR_CORRUPT},
      {"{\"a\\u0000b\":1}", "field 'header'", MT_ERR_CORRUPT},
      {"{\"a\xff\":1}", "field 'header'", MT_ERR_CORRUPT},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    unsigned char room[512];
    mt_archive *archive;
    mt_status status = open_st(bad[i].header, data12, 12, room, &archive);
    ck_assert_ptr_null(archive);
    ck_assert_msg(status == bad[i].status && strstr(mt_last_error(), bad[i].part),
                  "%s: %s: no '%s' in '%s'", bad[i].header, mt_status_name(status), bad[i].part,
                  mt_last_error());
  }
}
END_TEST

START_TEST(test_header_length) {
  unsigned char file[32] = {0};
  file[8] = '{';
  mt_put_u64(file, UINT64_MAX);
  ck_fails(read_everything(file, sizeof(file), MT_FILE_SAFETENSORS), MT_ERR_CORRUPT,
           "field 'header_length' at byte 0: 18446744073709551615");
  mt_put_u64(file, 25);
  ck_fails(read_everything(file, sizeof(file), MT_FILE_SAFETENSORS), MT_ERR_CORRUPT,
           "in a file of 32 bytes");
}
END_TEST

/* JSON that is small in the file but large in memory, and JSON that nests deeply. */
START_TEST(test_json_bombs) {
  size_t size = 9 << 20;
  unsigned char *file = malloc(size);
  memset(file, ',', size);
  mt_put_u64(file, size - 8);
  memcpy(file + 8, "{\"t\":[0", 7);
  ck_fails(read_everything(file, size, MT_FILE_SAFETENSORS), MT_ERR_CORRUPT, "values: expected");
  size = 1 << 20;
  memset(file, '[', size);
  mt_put_u64(file, size - 8);
  memcpy(file + 8, "{\"t\":", 5);
  ck_fails(read_everything(file, size, MT_FILE_SAFETENSORS), MT_ERR_CORRUPT, "depth");
  free(file);
}
END_TEST

START_TEST(test_truncated) {
  unsigned char room[1024];
  size_t size = make_st(room, real_header, real_data, 12);
  check_truncations(room, size, MT_FILE_SAFETENSORS);
}
END_TEST

/* ---- writing ----------------------------------------------------------------------------- */

START_TEST(test_written_bytes) {
  mt_writer *writer;
  int64_t two[1] = {2}, matrix[2] = {1, 1};
  float f[1] = {1};
  uint8_t u[2] = {7, 8};
  mt_tensor *a, *b;
  ck_ok(mt_tensor_from_data(MT_U8, 1, two, u, &a));
  ck_ok(mt_tensor_from_data(MT_F32, 2, matrix, f, &b));
  ck_ok(mt_writer_create(in_folder("x.safetensors"), MT_FILE_SAFETENSORS, &writer));
  ck_ok(mt_writer_add(writer, "u", a));
  ck_ok(mt_writer_metadata(writer, "k\"", "v\n"));
  ck_ok(mt_writer_add(writer, "f", b));
  ck_ok(mt_writer_commit(&writer));
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  static const char header[] = "{\"__metadata__\":{\"k\\\"\":\"v\\n\"},"
                               "\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                               "\"f\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[2,6]}}";
  size_t bytes, text = sizeof(header) - 1, padded = (text + 7) / 8 * 8;
  unsigned char *file = get_file(in_folder("x.safetensors"), &bytes);
  ck_assert_uint_eq(bytes, 8 + padded + 6);
  ck_assert_uint_eq(mt_get_u64(file), padded);
  ck_assert_mem_eq(file + 8, header, text);
  for (size_t i = text; i < padded; i++) {
    ck_assert_int_eq(file[8 + i], ' ');
  }
  ck_assert_mem_eq(file + 8 + padded, "\x07\x08\x00\x00\x80\x3f", 6);
  free(file);
}
END_TEST

/* .safetensors -> .mt -> .safetensors: the same file, when its header was written as the
 * package does; and the same tensors in the same order in any case. */
START_TEST(test_through_mt) {
  unsigned char room[1024];
  size_t size = make_st(room, real_header, real_data, 12), bytes;
  room[8 + sizeof(real_header) - 2] = ' ';
  size_t padded = (sizeof(real_header) - 1 - 3 + 7) / 8 * 8; /* without its three spaces */
  mt_put_u64(room, padded);
  memset(room + 8 + sizeof(real_header) - 1 - 3, ' ', 8);
  memcpy(room + 8 + padded, real_data, 12);
  size = 8 + padded + 12;
  put_file(in_folder("a.safetensors"), room, size);
  copy_archive(in_folder("a.safetensors"), in_folder("b.mt"));
  copy_archive(in_folder("b.mt"), in_folder("c.safetensors"));
  unsigned char *file = get_file(in_folder("c.safetensors"), &bytes);
  ck_assert_uint_eq(bytes, size);
  ck_assert_mem_eq(file, room, size);
  free(file);
}
END_TEST

/* More data than is moved at once when the header goes in front of it. */
START_TEST(test_large) {
  mt_writer *writer;
  mt_archive *archive;
  int64_t shape[2] = {1300, 1000}, odd[1] = {7};
  mt_tensor *tensors[] = {pattern(MT_U8, 1, odd, 3), pattern(MT_F64, 2, shape, 1)};
  ck_ok(mt_writer_create(in_folder("x.safetensors"), MT_FILE_SAFETENSORS, &writer));
  ck_ok(mt_writer_add(writer, "odd", tensors[0]));
  ck_ok(mt_writer_add(writer, "large", tensors[1]));
  ck_ok(mt_writer_commit(&writer));
  ck_ok(mt_archive_open(in_folder("x.safetensors"), &archive));
  for (size_t i = 0; i < 2; i++) {
    mt_tensor *back;
    ck_ok(mt_archive_read(archive, i, &back));
    ck_same(back, tensors[i]);
    mt_tensor_release(&back);
    mt_tensor_release(&tensors[i]);
  }
  mt_archive_close(&archive);
}
END_TEST

START_TEST(test_every_dtype) {
  int64_t shape[2] = {3, 5};
  for (int dtype = MT_F32; dtype <= MT_BOOL; dtype++) {
    mt_tensor *tensor = pattern((mt_dtype)dtype, 2, shape, 1), *turned, *back;
    ck_ok(mt_tensor_transpose(tensor, 0, 1, &turned));
    ck_ok(mt_save(in_folder("x.safetensors"), turned));
    ck_ok(mt_load(in_folder("x.safetensors"), &back));
    ck_same(back, turned);
    mt_tensor_release(&back);
    ck_ok(mt_load(in_folder("x.safetensors:tensor"), &back));
    mt_tensor_release(&back);
    mt_tensor_release(&turned);
    mt_tensor_release(&tensor);
  }
}
END_TEST

START_TEST(test_cannot_be_written) {
  int64_t shape[1] = {32};
  mt_writer *writer;
  mt_tensor *q8 = pattern_q8(1, shape, 1), *f32 = pattern(MT_F32, 1, shape, 1);
  ck_ok(mt_writer_create(in_folder("x.safetensors"), MT_FILE_SAFETENSORS, &writer));
  ck_fails(mt_writer_add(writer, "q", q8), MT_ERR_UNSUPPORTED, "tensor 'q': ");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "holds no q8_0"));
  ck_fails(mt_writer_add(writer, "__metadata__", f32), MT_ERR_UNSUPPORTED, "keeps this name");
  mt_writer_abort(&writer);
  ck_assert_int_eq(count_files(), 0);
  mt_tensor_release(&q8);
  mt_tensor_release(&f32);
}
END_TEST

IO_TEST_MAIN(io_safetensors, test_read, test_order, test_no_tensors, test_other_dtypes,
             test_refused, test_header_length, test_json_bombs, test_truncated, test_written_bytes,
             test_through_mt, test_large, test_every_dtype, test_cannot_be_written)
