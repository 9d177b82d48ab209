// SPDX-License-Identifier: Apache-2.0
/* .npy: what NumPy writes, all three versions, both orders, both byte orders, and junk. */
#include "io_common.h"

#include "io/bytes.h"

/* A file of this version with this header text (padded as NumPy does) and data. */
static size_t make_npy(unsigned char *out, int major, const char *header, const void *data,
                       size_t bytes) {
  size_t width = major == 1 ? 2 : 4, start = 8 + width, text = strlen(header);
  size_t length = (start + text + 1 + 63) / 64 * 64 - start;
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (unsigned char)major;
  out[7] = 0;
  mt_put_le(out + 8, (int)width, length);
  memset(out + start, ' ', length);
  memcpy(out + start, header, text);
  out[start + length - 1] = '\n';
  if (bytes > 0) {
    memcpy(out + start + length, data, bytes);
  }
  return start + length + bytes;
}

/* Opens and reads a file made of header and data. */
static mt_status read_npy(int major, const char *header, const void *data, size_t bytes,
                          mt_tensor **out) {
  unsigned char *file = malloc(strlen(header) + bytes + 256);
  mt_archive *archive;
  size_t size = make_npy(file, major, header, data, bytes);
  unsigned char *exact = exact_copy(file, size);
  *out = NULL;
  mt_status status = mt_archive_open_memory(exact, size, MT_FILE_UNKNOWN, &archive);
  if (status == MT_OK) {
    ck_assert_uint_eq(mt_archive_count(archive), 1);
    status = mt_archive_read(archive, 0, out);
  }
  mt_archive_close(&archive);
  free(exact);
  free(file);
  return status;
}

static void ck_i32(mt_tensor *tensor, const int32_t *expected, size_t n) {
  int32_t got[64];
  ck_ok(mt_tensor_get(tensor, got, n * sizeof(*got)));
  ck_assert_mem_eq(got, expected, n * sizeof(*got));
}

static const int32_t numbers[6] = {1, 2, 3, 4, 5, -6};

START_TEST(test_versions) {
  for (int major = 1; major <= 3; major++) {
    mt_tensor *tensor;
    ck_ok(read_npy(major, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", numbers,
                   sizeof(numbers), &tensor));
    ck_assert_int_eq(mt_tensor_rank(tensor), 2);
    ck_assert_int_eq(mt_tensor_shape(tensor)[1], 3);
    ck_i32(tensor, numbers, 6);
    mt_tensor_release(&tensor);
  }
  mt_tensor *tensor;
  ck_fails(read_npy(4, "{}", NULL, 0, &tensor), MT_ERR_UNSUPPORTED,
           "field 'version' at byte 6: 4.0: expected 1.0, 2.0 or 3.0");
}
END_TEST

/* The first axis is the fastest: [[1, 3, 5], [2, 4, -6]]. */
START_TEST(test_fortran_order) {
  static const int32_t logical[6] = {1, 3, 5, 2, 4, -6};
  mt_tensor *tensor;
  ck_ok(read_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", numbers,
                 sizeof(numbers), &tensor));
  ck_assert_int_eq(mt_tensor_shape(tensor)[0], 2);
  ck_assert_int_eq(mt_tensor_strides(tensor)[0], 1);
  ck_assert_int_eq(mt_tensor_strides(tensor)[1], 2);
  ck_i32(tensor, logical, 6);
  mt_tensor_release(&tensor);
  ck_ok(read_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (6,), }", numbers,
                 sizeof(numbers), &tensor));
  ck_i32(tensor, numbers, 6);
  mt_tensor_release(&tensor);
  ck_ok(read_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2, 3), }", numbers,
                 sizeof(numbers), &tensor));
  ck_i32(tensor, logical, 6);
  mt_tensor_release(&tensor);
}
END_TEST

START_TEST(test_big_endian) {
  unsigned char big[24];
  static const unsigned char pi[8] = {0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18};
  mt_tensor *tensor;
  for (int i = 0; i < 6; i++) {
    for (int b = 0; b < 4; b++) {
      big[i * 4 + b] = (unsigned char)((uint32_t)numbers[i] >> (24 - 8 * b));
    }
  }
  ck_ok(read_npy(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (6,), }", big, sizeof(big),
                 &tensor));
  ck_i32(tensor, numbers, 6);
  mt_tensor_release(&tensor);
  ck_ok(read_npy(1, "{'descr': '>f8', 'fortran_order': True, 'shape': (), }", pi, 8, &tensor));
  double value;
  ck_assert_int_eq(mt_tensor_rank(tensor), 0);
  ck_ok(mt_tensor_get(tensor, &value, 8));
  ck_assert_double_eq(value, 3.141592653589793);
  mt_tensor_release(&tensor);
  ck_ok(read_npy(1, "{'descr': '>f2', 'fortran_order': False, 'shape': (1,), }", "\x3c\x00", 2,
                 &tensor));
  uint16_t half;
  ck_ok(mt_tensor_get(tensor, &half, 2));
  ck_assert_uint_eq(half, 0x3c00);
  mt_tensor_release(&tensor);
}
END_TEST

START_TEST(test_descrs) {
  static const struct {
    const char *descr;
    mt_dtype dtype;
    size_t bytes;
  } rows[] = {
      {"<f2", MT_F16, 2},  {"<f4", MT_F32, 4}, {"<f8", MT_F64, 8},  {"|i1", MT_I8, 1},
      {"|u1", MT_U8, 1},   {"<i2", MT_I16, 2}, {"=i4", MT_I32, 4},  {">i8", MT_I64, 8},
      {"|b1", MT_BOOL, 1}, {"<i1", MT_I8, 1},  {">b1", MT_BOOL, 1}, {"<u2", 0, 2},
      {"<u4", 0, 4},       {"<u8", 0, 8},      {"<c8", 0, 8},       {"<U4", 0, 16},
      {"|S3", 0, 3},       {"|O", 0, 8},       {"<M8[ns]", 0, 8},   {"f4", 0, 4},
      {"", 0, 4},          {"<", 0, 4},        {"<f16", 0, 16},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char header[128], quoted[32];
    mt_tensor *tensor;
    snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (), }",
             rows[i].descr);
    snprintf(quoted, sizeof(quoted), "'%s'", rows[i].descr);
    mt_status status =
        read_npy(1, header, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", rows[i].bytes, &tensor);
    if (rows[i].dtype) {
      ck_ok(status);
      ck_assert_int_eq(mt_tensor_dtype(tensor), rows[i].dtype);
    } else {
      ck_fails(status, MT_ERR_UNSUPPORTED, quoted);
    }
    mt_tensor_release(&tensor);
  }
  mt_tensor *tensor;
  ck_fails(read_npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "abcd",
                    4, &tensor),
           MT_ERR_UNSUPPORTED, "structured type [('a', '<f4')]");
}
END_TEST

/* Forms of the header that Python reads. */
START_TEST(test_header_forms) {
  static const char *const good[] = {
      "{'shape':(2,3),'fortran_order':False,'descr':'<i4'}",
      "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (2, 3)}",
      "  { 'descr' : '<i4' ,\n'fortran_order'\t: False, 'shape' : ( 2 , 3 , ) , }  ",
      "{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 3L), }",
      "{'descr': '<i4', 'fortran_order': False, 'shape': (02, 3), }",
  };
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
    mt_tensor *tensor;
    ck_ok(read_npy(1, good[i], numbers, sizeof(numbers), &tensor));
    ck_i32(tensor, numbers, 6);
    mt_tensor_release(&tensor);
  }
}
END_TEST

START_TEST(test_header_refused) {
  static const struct {
    const char *header, *part;
    mt_status status;
  } bad[] = {
      {"", "expected '{'", MT_ERR_CORRUPT},
      {"[]", "expected '{'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False}", "no key 'shape'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'shape': (2, 3)}", "no key 'fortran_order'", MT_ERR_CORRUPT},
      {"{}", "no key 'descr'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False}", "'descr'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}", "key 'more'",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': false, 'shape': (2, 3)}", "True or False",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': 0, 'shape': (2, 3)}", "True or False", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': [2, 3]}", "expected '('", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (6)}", "tuple", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2 3)}", "',' or ')'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,, 3)}", "digits", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (-2, 3)}", "digits", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2.0, 3)}", "',' or ')'", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3", "'shape' at byte",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "2^63",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999999,)}", "2^63",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "not fit",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 4)}", "24 bytes of data: expected 32",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2)}", "24 bytes of data: expected 16",
       MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)} x", "spaces", MT_ERR_CORRUPT},
      {"{'descr': '<i4' 'fortran_order': False, 'shape': (2, 3)}", "',' or '}'", MT_ERR_CORRUPT},
      {"{'descr': '<\\x69', 'fortran_order': False, 'shape': (2, 3)}", "plain", MT_ERR_CORRUPT},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
       "more than 16 axes", MT_ERR_UNSUPPORTED},
      {"{'a very long key that is not one': 1}", "plain", MT_ERR_CORRUPT},
      {"{descr: '<i4'}", "expected a string", MT_ERR_CORRUPT},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    mt_tensor *tensor;
    mt_status status = read_npy(1, bad[i].header, numbers, sizeof(numbers), &tensor);
    ck_assert_ptr_null(tensor);
    ck_assert_msg(status == bad[i].status && strstr(mt_last_error(), bad[i].part),
                  "%s: %s: no '%s' in '%s'", bad[i].header, mt_status_name(status), bad[i].part,
                  mt_last_error());
  }
}
END_TEST

START_TEST(test_bool_values) {
  mt_tensor *tensor;
  ck_fails(read_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\1\0\5", 3,
                    &tensor),
           MT_ERR_CORRUPT, "byte 0x05 in bool tensor");
}
END_TEST

START_TEST(test_header_length) {
  unsigned char file[64] = "\x93NUMPY\x02\x00";
  mt_put_u32(file + 8, 0xfffffff0);
  ck_fails(read_everything(file, sizeof(file), MT_FILE_NPY), MT_ERR_CORRUPT,
           "field 'header_len' at byte 8: 4294967280");
  mt_put_u32(file + 8, 53);
  ck_fails(read_everything(file, sizeof(file), MT_FILE_NPY), MT_ERR_CORRUPT, "'header_len'");
}
END_TEST

START_TEST(test_truncated) {
  unsigned char file[512];
  size_t size = make_npy(file, 1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                         numbers, sizeof(numbers));
  check_truncations(file, size, MT_FILE_NPY);
  size = make_npy(file, 3, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", numbers,
                  sizeof(numbers));
  check_truncations(file, size, MT_FILE_NPY);
}
END_TEST

/* ---- writing ----------------------------------------------------------------------------- */

/* Bytes that numpy.save(f, numpy.array([[1, 2, 3], [4, 5, -6]], '<i4')) wrote. */
START_TEST(test_written_as_numpy_does) {
  int64_t shape[2] = {2, 3};
  unsigned char expected[128 + 24];
  memset(expected, ' ', 128);
  memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
  memcpy(expected + 10, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 59);
  expected[127] = '\n';
  for (int i = 0; i < 6; i++) {
    mt_put_u32(expected + 128 + i * 4, (uint32_t)numbers[i]);
  }
  mt_tensor *tensor;
  ck_ok(mt_tensor_from_data(MT_I32, 2, shape, numbers, &tensor));
  ck_ok(mt_save(in_folder("a.npy"), tensor));
  mt_tensor_release(&tensor);
  size_t bytes;
  unsigned char *file = get_file(in_folder("a.npy"), &bytes);
  ck_assert_uint_eq(bytes, sizeof(expected));
  ck_assert_mem_eq(file, expected, bytes);
  free(file);
}
END_TEST

START_TEST(test_round_trips) {
  int64_t shape[3] = {3, 1, 7}, empty[2] = {4, 0}, large[MT_MAX_RANK];
  for (int i = 0; i < MT_MAX_RANK; i++) {
    large[i] = i == 9 ? 0 : (int64_t)1 << 3;
  }
  for (int dtype = MT_F32; dtype <= MT_BOOL; dtype++) {
    if (dtype == MT_BF16) {
      continue;
    }
    mt_tensor *tensors[] = {
        pattern((mt_dtype)dtype, 3, shape, 1),           pattern((mt_dtype)dtype, 0, NULL, 2),
        pattern((mt_dtype)dtype, 2, empty, 3),           pattern((mt_dtype)dtype, 1, shape, 4),
        pattern((mt_dtype)dtype, MT_MAX_RANK, large, 5), NULL};
    ck_ok(mt_tensor_transpose(tensors[0], 0, 2, &tensors[5]));
    for (int i = 0; i < 6; i++) {
      mt_tensor *back;
      ck_ok(mt_save(in_folder("x.npy"), tensors[i]));
      ck_ok(mt_load(in_folder("x.npy"), &back));
      ck_same(back, tensors[i]);
      mt_tensor_release(&back);
      mt_tensor_release(&tensors[i]);
    }
  }
}
END_TEST

START_TEST(test_entry) {
  int64_t shape[1] = {5};
  mt_archive *archive;
  mt_archive_entry entry;
  mt_tensor *tensor = pattern(MT_F64, 1, shape, 1);
  ck_ok(mt_save(in_folder("x.npy"), tensor));
  mt_tensor_release(&tensor);
  ck_ok(mt_archive_open(in_folder("x.npy"), &archive));
  ck_assert_str_eq(mt_archive_version(archive), "npy 1.0");
  ck_ok(mt_archive_entry_at(archive, 0, &entry));
  ck_assert_str_eq(entry.name, "");
  ck_assert_str_eq(entry.stored_as, "<f8");
  ck_assert_uint_eq(entry.offset, 128);
  ck_assert_uint_eq(entry.bytes, 40);
  ck_fails(mt_archive_entry_at(archive, 1, &entry), MT_ERR_NOT_FOUND, "no tensor 1");
  ck_ok(mt_archive_verify(archive));
  mt_archive_close(&archive);
}
END_TEST

START_TEST(test_cannot_be_written) {
  int64_t shape[1] = {32};
  mt_writer *writer;
  mt_tensor *bf16 = pattern(MT_BF16, 1, shape, 1), *q8 = pattern_q8(1, shape, 1);
  mt_tensor *f32 = pattern(MT_F32, 1, shape, 1);
  ck_fails(mt_save(in_folder("x.npy"), bf16), MT_ERR_UNSUPPORTED, "cast to f32 first");
  ck_fails(mt_save(in_folder("x.npy"), q8), MT_ERR_UNSUPPORTED, "holds no q8_0");
  ck_assert_int_eq(count_files(), 0);
  ck_ok(mt_writer_create(in_folder("x.npy"), MT_FILE_NPY, &writer));
  ck_fails(mt_writer_metadata(writer, "k", "v"), MT_ERR_UNSUPPORTED, "no metadata");
  ck_fails(mt_writer_commit(&writer), MT_ERR_INVALID_ARGUMENT, "none was added");
  ck_ok(mt_writer_create(in_folder("x.npy"), MT_FILE_NPY, &writer));
  ck_ok(mt_writer_add(writer, "a", f32));
  ck_fails(mt_writer_add(writer, "b", f32), MT_ERR_UNSUPPORTED, "holds one tensor");
  mt_writer_abort(&writer);
  ck_assert_ptr_null(writer);
  ck_assert_int_eq(count_files(), 0);
  mt_tensor_release(&bf16);
  mt_tensor_release(&q8);
  mt_tensor_release(&f32);
}
END_TEST

IO_TEST_MAIN(io_npy, test_versions, test_fortran_order, test_big_endian, test_descrs,
             test_header_forms, test_header_refused, test_bool_values, test_header_length,
             test_truncated, test_written_as_numpy_does, test_round_trips, test_entry,
             test_cannot_be_written)
