// SPDX-License-Identifier: Apache-2.0
/* test_files.c - info, convert, demo on good, wrong and hostile files. */
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *member(json_t *object, const char *key) {
  json_t *value = json_object_get(object, key);
  ck_assert_msg(value != NULL, "no member '%s'", key);
  return value;
}

static const char *text_of(json_t *object, const char *key) {
  const char *text = json_string_value(member(object, key));
  ck_assert_msg(text != NULL, "'%s' is not text", key);
  return text;
}

static json_t *first_file(json_t *root) {
  json_t *file = json_array_get(member(root, "files"), 0);
  ck_assert_ptr_nonnull(file);
  return file;
}

/* Bytes of a tensor in a file, packed. */
static void *load_bytes(const char *spec, mt_dtype dtype, size_t *size) {
  mt_tensor *tensor = NULL;
  ck_ok(mt_load(spec, &tensor));
  ck_assert_int_eq(mt_tensor_dtype(tensor), dtype);
  *size = mt_tensor_bytes(tensor);
  void *bytes = malloc(*size + 1);
  ck_assert_ptr_nonnull(bytes);
  ck_ok(mt_tensor_get(tensor, bytes, *size));
  mt_tensor_release(&tensor);
  return bytes;
}

static void ck_dtype(const char *spec, mt_dtype dtype) {
  size_t size;
  free(load_bytes(spec, dtype, &size));
}

static void ck_same(const char *a, const char *b, mt_dtype dtype) {
  size_t a_size, b_size;
  void *a_bytes = load_bytes(a, dtype, &a_size);
  void *b_bytes = load_bytes(b, dtype, &b_size);
  ck_assert_uint_eq(a_size, b_size);
  ck_assert_msg(memcmp(a_bytes, b_bytes, a_size) == 0, "%s and %s differ", a, b);
  free(a_bytes);
  free(b_bytes);
}

static void add_filled(mt_writer *writer, const char *name, mt_dtype dtype, int rank,
                       const int64_t *shape, unsigned seed) {
  mt_tensor *tensor = NULL;
  void *data;
  ck_ok(mt_tensor_create(dtype, rank, shape, &tensor));
  ck_ok(mt_tensor_write(tensor, &data));
  for (size_t i = 0; i < mt_tensor_bytes(tensor); i++) {
    seed = seed * 1103515245u + 12345u;
    /* Any bits, NaNs with payloads too; but a bool is 0 or 1. */
    ((unsigned char *)data)[i] = (unsigned char)(seed >> (dtype == MT_BOOL ? 31 : 24));
  }
  ck_ok(mt_writer_add(writer, name, tensor));
  mt_tensor_release(&tensor);
}

enum { DTYPES = 10 };

/* A tensor of each dtype, an empty and a scalar one, two pieces of metadata. */
static void make_archive(const char *path) {
  const int64_t shape[] = {3, 5, 2}, empty[] = {4, 0};
  mt_writer *writer = NULL;
  ck_ok(mt_writer_create(path, mt_file_type_from_path(path), &writer));
  ck_ok(mt_writer_metadata(writer, "model", "tiny"));
  ck_ok(mt_writer_metadata(writer, "note", "line one\nline two"));
  for (int dtype = 1; dtype <= DTYPES; dtype++) {
    add_filled(writer, mt_dtype_name((mt_dtype)dtype), (mt_dtype)dtype, 3, shape, (unsigned)dtype);
  }
  add_filled(writer, "empty", MT_F32, 2, empty, 1);
  add_filled(writer, "scalar", MT_I64, 0, NULL, 2);
  ck_ok(mt_writer_commit(&writer));
}

/* ---- info --------------------------------------------------------------------------------- */
START_TEST(test_info_lists) {
  make_archive("a.mt");
  json_t *file = first_file(RUN_JSON(0, "info", "--verify", "--json", "a.mt"));
  ck_assert_str_eq(text_of(file, "file"), "a.mt");
  ck_assert_str_eq(text_of(file, "type"), "mt");
  ck_has(text_of(file, "version"), "mt 2");
  ck_assert(json_is_true(member(file, "verified")));
  ck_assert_str_eq(text_of(member(file, "metadata"), "model"), "tiny");
  json_t *tensors = member(file, "tensors");
  ck_assert_uint_eq(json_array_size(tensors), DTYPES + 2);
  json_t *first = json_array_get(tensors, 0);
  ck_assert_str_eq(text_of(first, "name"), "f32");
  ck_assert_str_eq(text_of(first, "dtype"), "f32");
  ck_assert_int_eq(json_integer_value(member(first, "bytes")), 3 * 5 * 2 * 4);
  ck_assert_int_eq(json_integer_value(json_array_get(member(first, "shape"), 1)), 5);
  ck_assert_int_gt(json_integer_value(member(first, "offset")), 0);

  cli_result text = RUN("info", "a.mt");
  ck_code(text, 0);
  ck_has(text.out, "12 tensors");
  ck_has(text.out, "metadata  note = line one\\x0aline two");
  ck_has(text.out, "[3, 5, 2]");
}
END_TEST

START_TEST(test_info_statistics) {
  const int64_t shape[] = {2, 4};
  const float values[] = {1, 2, 3, 4, NAN, INFINITY, -INFINITY, 0};
  save_f32("x.npy", 2, shape, values);
  make_archive("a.mt");
  ck_code(RUN("convert", "x.npy", "x.mt"), 0);
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "x.mt:tensor"));
  json_t *stats = member(member(file, "tensor"), "stats");
  ck_assert_int_eq(json_integer_value(member(stats, "count")), 8);
  ck_assert_int_eq(json_integer_value(member(stats, "nan")), 1);
  ck_assert_int_eq(json_integer_value(member(stats, "infinite")), 2);
  ck_assert_int_eq(json_integer_value(member(stats, "zero")), 1);
  ck_assert_double_eq(json_real_value(member(stats, "min")), 0);
  ck_assert_double_eq(json_real_value(member(stats, "max")), 4);
  ck_assert_double_eq_tol(json_real_value(member(stats, "mean")), 2, 1e-15);
  ck_assert_double_eq_tol(json_real_value(member(stats, "std")), sqrt(2), 1e-15);
  cli_result text = RUN("info", "x.mt:tensor");
  ck_code(text, 0);
  ck_has(text.out, "values    8, zero 1, NaN 1, infinite 2");

  file = first_file(RUN_JSON(0, "info", "--json", "a.mt:empty"));
  stats = member(member(file, "tensor"), "stats");
  ck_assert(json_is_null(member(stats, "mean")));
  ck_assert_int_eq(json_integer_value(member(stats, "count")), 0);
}
END_TEST

/* More values than the statistics take at a time: 0, 1, ..., n-1. */
START_TEST(test_info_statistics_large) {
  const int64_t n = 150001;
  mt_tensor *tensor = NULL;
  void *data;
  ck_ok(mt_tensor_create(MT_I32, 1, &n, &tensor));
  ck_ok(mt_tensor_write(tensor, &data));
  for (int32_t i = 0; i < n; i++) {
    ((int32_t *)data)[i] = i;
  }
  ck_ok(mt_save("n.mt", tensor));
  mt_tensor_release(&tensor);
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "n.mt:tensor"));
  json_t *stats = member(member(file, "tensor"), "stats");
  const double count = (double)n;
  ck_assert_double_eq(json_real_value(member(stats, "max")), count - 1);
  ck_assert_double_eq_tol(json_real_value(member(stats, "mean")), (count - 1) / 2, 1e-9);
  ck_assert_double_eq_tol(json_real_value(member(stats, "std")), sqrt((count * count - 1) / 12),
                          1e-6);
}
END_TEST

START_TEST(test_info_hostile_names) {
  const float value = 1;
  write_safetensors("h.safetensors",
                    "{\"__metadata__\":{\"\\u001b[2Jkey\":\"\\u0007\"},"
                    "\"a\\u001b]0;x\\u0007\\u202e\\n\":"
                    "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                    &value, 4);
  cli_result text = RUN("info", "h.safetensors");
  ck_code(text, 0);
  ck_has(text.out, "a\\x1b]0;x\\x07\\xe2\\x80\\xae\\x0a");
  cli_result json = RUN("info", "--json", "h.safetensors");
  ck_code(json, 0);
  cli_result missing = RUN("info", "h.safetensors:nosuch");
  ck_code(missing, 3);
  cli_result converted = RUN("convert", "h.safetensors", "h.mt");
  ck_code(converted, 0);
  const char *const all[] = {text.out, json.out, missing.err, converted.out};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    ck_has_not(all[i], "\x1b");
    ck_has_not(all[i], "\x07");
    ck_has_not(all[i], "\xe2");
  }
}
END_TEST

/* A type that there is no dtype for is listed, and cannot be copied. */
START_TEST(test_info_unreadable_type) {
  write_safetensors("f8.safetensors",
                    "{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", "abcd",
                    4);
  cli_result text = RUN("info", "f8.safetensors");
  ck_code(text, 0);
  ck_has(text.out, "F8_E4M3 (unreadable)");
  json_t *tensors = member(first_file(RUN_JSON(0, "info", "--json", "f8.safetensors")), "tensors");
  ck_assert(json_is_null(member(json_array_get(tensors, 0), "dtype")));
  ck_assert_str_eq(text_of(json_array_get(tensors, 0), "stored_as"), "F8_E4M3");
  cli_result copy = RUN("convert", "f8.safetensors", "x.mt");
  ck_code(copy, 3);
  ck_has(copy.err, "F8_E4M3");
  ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(test_info_bad_files) {
  make_archive("a.mt");
  size_t size;
  char *bytes = read_file("a.mt", &size);
  write_file("short.mt", bytes, size / 2);
  write_file("empty.mt", "", 0);
  write_file("noise.npy", "not a file of numbers at all", 28);
  /* One bit of the first tensor's data. */
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "a.mt"));
  json_t *first = json_array_get(member(file, "tensors"), 0);
  bytes[json_integer_value(member(first, "offset"))] ^= 1;
  write_file("flipped.mt", bytes, size);

  static const char *const bad[] = {"short.mt",  "empty.mt",    "noise.npy",
                                    "absent.mt", "a.mt:nosuch", "flipped.mt:f32"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    cli_result result = RUN("info", bad[i]);
    ck_code(result, 3);
    ck_has(result.err, "mecantensor info: ");
    json_t *one = first_file(RUN_JSON(3, "info", "--json", bad[i]));
    ck_assert_uint_gt(strlen(text_of(one, "error")), 5);
  }
  cli_result verified = RUN("info", "--verify", "flipped.mt");
  ck_code(verified, 3);
  ck_has(verified.err, "f32");
  /* The good one is shown all the same. */
  cli_result mixed = RUN("info", "absent.mt", "a.mt");
  ck_code(mixed, 3);
  ck_has(mixed.out, "a.mt: mt 2");
}
END_TEST

/* ---- convert -------------------------------------------------------------------------------- */
START_TEST(test_convert_round_trip) {
  make_archive("a.mt");
  cli_result there = RUN("convert", "a.mt", "b.safetensors");
  ck_code(there, 0);
  ck_has(there.out, "a.mt -> b.safetensors (safetensors): 12 tensors");
  ck_code(RUN("convert", "b.safetensors", "c.mt"), 0);
  for (int dtype = 1; dtype <= DTYPES; dtype++) {
    char a[32], b[32], c[32];
    snprintf(a, sizeof(a), "a.mt:%s", mt_dtype_name((mt_dtype)dtype));
    snprintf(b, sizeof(b), "b.safetensors:%s", mt_dtype_name((mt_dtype)dtype));
    snprintf(c, sizeof(c), "c.mt:%s", mt_dtype_name((mt_dtype)dtype));
    ck_same(a, b, (mt_dtype)dtype);
    ck_same(a, c, (mt_dtype)dtype);
  }
  ck_same("a.mt:empty", "c.mt:empty", MT_F32);
  ck_same("a.mt:scalar", "c.mt:scalar", MT_I64);
  json_t *metadata = member(first_file(RUN_JSON(0, "info", "--json", "c.mt")), "metadata");
  ck_assert_str_eq(text_of(metadata, "model"), "tiny");
  ck_assert_str_eq(text_of(metadata, "note"), "line one\nline two");
  ck_assert_uint_eq(count_files(), 3);
}
END_TEST

START_TEST(test_convert_one_tensor) {
  make_archive("a.mt");
  cli_result result = RUN("convert", "a.mt:f64", "x.npy");
  ck_code(result, 0);
  ck_has(result.err, "warning: a .npy file holds no metadata");
  ck_same("a.mt:f64", "x.npy", MT_F64);
  /* Over its own input: nothing but the file is left. */
  ck_code(RUN("convert", "x.npy", "x.npy"), 0);
  ck_same("a.mt:f64", "x.npy", MT_F64);
  ck_code(RUN("convert", "x.npy", "y.mt"), 0);
  ck_same("x.npy", "y.mt:tensor", MT_F64);
  ck_assert_uint_eq(count_files(), 3);
}
END_TEST

START_TEST(test_convert_fails_without_a_trace) {
  make_archive("a.mt");
  write_file("old.npy", "old", 3);
  cli_result many = RUN("convert", "a.mt", "old.npy");
  ck_code(many, 3);
  ck_has(many.err, "has 12");
  size_t size;
  char *bytes = read_file("a.mt", &size);
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "a.mt"));
  json_t *last = json_array_get(member(file, "tensors"), DTYPES - 1);
  bytes[json_integer_value(member(last, "offset"))] ^= 1;
  write_file("flipped.mt", bytes, size);
  write_file("old.mt", "old", 3);
  ck_code(RUN("convert", "flipped.mt", "old.mt"), 3);
  ck_code(RUN("convert", "a.mt:nosuch", "old.mt"), 3);
  ck_code(RUN("convert", "absent.npy", "old.mt"), 3);
  ck_code(RUN("convert", "a.mt", "no/such/folder.mt"), 3);
  ck_assert_str_eq(read_file("old.mt", NULL), "old");
  ck_assert_str_eq(read_file("old.npy", NULL), "old");
  ck_assert_uint_eq(count_files(), 4);
}
END_TEST

START_TEST(test_convert_dtype) {
  const int64_t shape[] = {4};
  const float values[] = {1, 0.333333343f, 65504, -2.5f};
  const uint16_t half[] = {0x3c00, 0x3555, 0x7bff, 0xc100};
  size_t size;
  save_f32("x.npy", 1, shape, values);
  cli_result result = RUN("convert", "x.npy", "h.npy", "--dtype", "f16");
  ck_code(result, 0);
  ck_has(result.out, "f32 -> f16");
  void *bytes = load_bytes("h.npy", MT_F16, &size);
  ck_assert_mem_eq(bytes, half, sizeof(half));
  free(bytes);
  /* Integers stay unless they are selected. */
  make_archive("a.mt");
  ck_code(RUN("convert", "a.mt", "b.mt", "--dtype=f32"), 0);
  ck_same("a.mt:i32", "b.mt:i32", MT_I32);
  ck_dtype("b.mt:f64", MT_F32);
  ck_dtype("b.mt:bf16", MT_F32);
  ck_code(RUN("convert", "a.mt", "c.mt", "--dtype=f32", "--select=i3*"), 0);
  ck_dtype("c.mt:i32", MT_F32);
  ck_same("a.mt:f64", "c.mt:f64", MT_F64);
}
END_TEST

/* Values that q8_0 holds exactly: multiples of 1/127 of a power of two would not be, so take
 * integers with 127 in each block, where the scale is 1. */
static void make_quantizable(void) {
  const int64_t matrix[] = {3, 40}, vector[] = {40};
  float values[120];
  mt_writer *writer = NULL;
  mt_tensor *tensor = NULL;
  for (int i = 0; i < 120; i++) {
    values[i] = i % 8 == 0 ? 127 : (float)(i % 50 - 25);
  }
  ck_ok(mt_writer_create("w.mt", MT_FILE_MT, &writer));
  ck_ok(mt_tensor_from_data(MT_F32, 2, matrix, values, &tensor));
  ck_ok(mt_writer_add(writer, "layer.weight", tensor));
  ck_ok(mt_writer_add(writer, "other.weight", tensor));
  mt_tensor_release(&tensor);
  ck_ok(mt_tensor_from_data(MT_F32, 1, vector, values, &tensor));
  ck_ok(mt_writer_add(writer, "layer.bias", tensor));
  mt_tensor_release(&tensor);
  ck_ok(mt_writer_commit(&writer));
}

START_TEST(test_convert_format) {
  make_quantizable();
  ck_code(RUN("convert", "w.mt", "q.mt", "--format=q8_0"), 0);
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "--verify", "q.mt"));
  json_t *tensors = member(file, "tensors");
  ck_assert_str_eq(text_of(json_array_get(tensors, 0), "dtype"), "q8_0");
  ck_assert_str_eq(text_of(json_array_get(tensors, 1), "dtype"), "q8_0");
  ck_assert_str_eq(text_of(json_array_get(tensors, 2), "dtype"), "f32");
  ck_code(RUN("convert", "q.mt", "back.mt", "--dtype=f32"), 0);
  ck_same("w.mt:layer.weight", "back.mt:layer.weight", MT_F32);
  /* Blocks are copied as they are, and counted like their values. */
  ck_code(RUN("convert", "q.mt", "q2.mt"), 0);
  ck_same("q.mt:layer.weight", "q2.mt:layer.weight", MT_BLOCK);
  const char *const specs[] = {"w.mt:layer.weight", "q.mt:layer.weight"};
  json_t *stats[2];
  for (int i = 0; i < 2; i++) {
    json_t *one = first_file(RUN_JSON(0, "info", "--json", specs[i]));
    stats[i] = member(member(one, "tensor"), "stats");
  }
  static const char *const same[] = {"count", "zero", "nan", "infinite", "min", "max"};
  for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
    ck_assert(json_equal(member(stats[0], same[i]), member(stats[1], same[i])));
  }
  /* Summed line by line here, and all at once there. */
  ck_assert_double_eq_tol(json_real_value(member(stats[0], "mean")),
                          json_real_value(member(stats[1], "mean")), 1e-12);
  ck_assert_double_eq_tol(json_real_value(member(stats[0], "std")),
                          json_real_value(member(stats[1], "std")), 1e-12);

  ck_code(RUN("convert", "w.mt", "s.mt", "--format=q8_0", "--select=layer.*"), 0);
  tensors = member(first_file(RUN_JSON(0, "info", "--json", "s.mt")), "tensors");
  ck_assert_str_eq(text_of(json_array_get(tensors, 1), "dtype"), "f32");
  ck_assert_str_eq(text_of(json_array_get(tensors, 2), "dtype"), "q8_0");
}
END_TEST

START_TEST(test_convert_format_refused) {
  const int64_t shape[] = {1, 2};
  const float values[] = {1, NAN};
  save_f32("nan.npy", 2, shape, values);
  cli_result result = RUN("convert", "nan.npy", "q.mt", "--format=q8_0");
  ck_code(result, 1);
  ck_has(result.err, "tensor 'tensor': ");
  make_quantizable();
  cli_result other = RUN("convert", "w.mt", "q.safetensors", "--format=q8_0");
  ck_code(other, 3);
  ck_assert_uint_eq(count_files(), 2);
}
END_TEST

/* A limit on the size of files, as a full disk, is an error, and nothing is left behind. */
START_TEST(test_convert_beyond_the_file_size_limit) {
  const int64_t shape[] = {64, 1024};
  float *values = calloc(64 * 1024, sizeof(float));
  struct rlimit limit;
  ck_assert_ptr_nonnull(values);
  save_f32("x.npy", 2, shape, values);
  free(values);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = 65536;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cli_result result = RUN("convert", "x.npy", "y.mt");
  ck_code(result, 3);
  ck_has(result.err, "y.mt: writing");
  ck_has(result.err, "File too large");
  ck_assert_uint_eq(count_files(), 1);
}
END_TEST

/* ---- demo ------------------------------------------------------------------------------------ */
START_TEST(test_demo) {
  cli_result result = RUN("demo");
  ck_code(result, 0);
  ck_has(result.out, "Plugins that cannot be used");
  ck_has(result.out, "ran   on ");
  ck_has(result.out, "agrees with the reference");
  ck_has(result.out, "every bit is the same");
  json_t *file = first_file(RUN_JSON(0, "info", "--json", "--verify", "output.mt"));
  json_t *shape = member(json_array_get(member(file, "tensors"), 0), "shape");
  ck_assert_int_eq(json_integer_value(json_array_get(shape, 0)), 512);
  ck_assert_int_eq(json_integer_value(json_array_get(shape, 1)), 256);

  cli_result reference = RUN("demo", "-b", "reference", "-o", "c.npy");
  ck_code(reference, 0);
  ck_has(reference.out, "ran   on reference");
  ck_code(RUN("demo", "-b", "nosuch"), 3);
  ck_code(RUN("demo", "-o", "no/such/folder/c.mt"), 3);
  ck_assert_uint_eq(count_files(), 2);
}
END_TEST

CLI_TEST_MAIN(files, test_info_lists, test_info_statistics, test_info_statistics_large,
              test_info_hostile_names, test_info_unreadable_type, test_info_bad_files,
              test_convert_round_trip, test_convert_one_tensor, test_convert_fails_without_a_trace,
              test_convert_dtype, test_convert_format, test_convert_format_refused,
              test_convert_beyond_the_file_size_limit, test_demo)
