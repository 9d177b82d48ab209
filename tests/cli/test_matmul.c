// SPDX-License-Identifier: Apache-2.0
/* test_matmul.c - mecantensor matmul, and the check behind --check. */
#include "cli.h"

#include "../../tools/mecantensor/check.h"

#include <math.h>
#include <unistd.h>

/* A [2, 3] B [3, 2] = {4, 5, 10, 11}; and B transposed. */
static const float a_values[] = {1, 2, 3, 4, 5, 6};
static const float b_values[] = {0, 1, 2, -1, 0, 2};
static const float bt_values[] = {0, 2, 0, 1, -1, 2};
static const float c_values[] = {4, 5, 10, 11};
static const int64_t a_shape[] = {2, 3}, b_shape[] = {3, 2};

static void ck_file(const char *spec, const float *values, size_t count) {
  mt_tensor *tensor = NULL;
  const void *data;
  ck_ok(mt_load(spec, &tensor));
  ck_assert_int_eq(mt_tensor_dtype(tensor), MT_F32);
  ck_assert_int_eq(mt_tensor_elements(tensor), (int64_t)count);
  ck_assert(mt_tensor_is_contiguous(tensor));
  ck_ok(mt_tensor_read(tensor, &data));
  for (size_t i = 0; i < count; i++) {
    ck_assert_float_eq(((const float *)data)[i], values[i]);
  }
  mt_tensor_release(&tensor);
}

static void make_operands(void) {
  save_f32("a.npy", 2, a_shape, a_values);
  save_f32("b.mt", 2, b_shape, b_values);
  save_f32("bt.npy", 2, a_shape, bt_values);
  write_safetensors("m.safetensors",
                    "{\"x\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                    "\"layer:b\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[24,48]}}",
                    (const float[]){9, 9, 9, 9, 9, 9, 0, 1, 2, -1, 0, 2}, 48);
}

START_TEST(test_matmul_files) {
  make_operands();
  cli_result text = RUN("matmul", "a.npy", "b.mt", "-o", "c.npy", "--check");
  ck_code(text, 0);
  ck_has(text.out, "A     f32 [2, 3]  a.npy");
  ck_has(text.out, "C     f32 [2, 2]  c.npy");
  ck_has(text.out, "ran   on ");
  ck_has(text.out, "agrees with the reference");
  ck_file("c.npy", c_values, 4);
  ck_code(RUN("matmul", "a.npy", "m.safetensors:layer:b", "-o", "d.mt"), 0);
  ck_file("d.mt", c_values, 4);
  ck_code(RUN("matmul", "a.npy", "bt.npy", "--trans-b", "-o", "e.safetensors"), 0);
  ck_file("e.safetensors", c_values, 4);
  /* An output that is an input. */
  ck_code(RUN("matmul", "a.npy", "b.mt", "-o", "a.npy"), 0);
  ck_file("a.npy", c_values, 4);
  ck_assert_uint_eq(count_files(), 7);
}
END_TEST

START_TEST(test_matmul_options) {
  const int64_t bias_shape[] = {2};
  const float bias[] = {-9, 1}, expected[] = {0, 6, 1, 12}, halves[] = {2, 2.5f, 5, 5.5f};
  make_operands();
  save_f32("bias.npy", 1, bias_shape, bias);
  ck_code(RUN("matmul", "a.npy", "b.mt", "-o", "c.npy", "--bias", "bias.npy", "--activation=relu",
              "--check"),
          0);
  ck_file("c.npy", expected, 4);
  ck_code(RUN("matmul", "a.npy", "b.mt", "-o", "c.npy", "--alpha=0.5"), 0);
  ck_file("c.npy", halves, 4);
  /* bt [2, 3] with --trans-a is [3, 2]; times a [2, 3]. */
  ck_code(RUN("matmul", "bt.npy", "a.npy", "--trans-a", "-o", "t.npy", "--check"), 0);
  ck_file("t.npy", (const float[]){4, 5, 6, -2, -1, 0, 8, 10, 12}, 9);
  static const char *const activations[] = {"none", "gelu", "gelu-tanh", "silu"};
  for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
    ck_code(RUN("matmul", "a.npy", "b.mt", "--activation", activations[i], "--check"), 0);
  }
}
END_TEST

START_TEST(test_matmul_json) {
  make_operands();
  json_t *root =
      RUN_JSON(0, "matmul", "a.npy", "b.mt", "-o", "c.npy", "--check", "--json", "-b", "reference");
  json_t *check = json_object_get(root, "check");
  ck_assert(json_is_true(json_object_get(check, "passed")));
  ck_assert_double_eq(json_real_value(json_object_get(check, "max_error")), 0);
  json_t *ran = json_array_get(json_object_get(root, "ran_on"), 0);
  ck_assert_str_eq(json_string_value(json_object_get(ran, "backend")), "reference");
  ck_assert_int_eq(json_integer_value(json_object_get(ran, "calls")), 1);
  json_t *c = json_object_get(root, "c");
  ck_assert_str_eq(json_string_value(json_object_get(c, "dtype")), "f32");
  ck_assert_uint_eq(json_array_size(json_object_get(c, "shape")), 2);
  ck_assert_str_eq(json_string_value(json_object_get(root, "output")), "c.npy");
  ck_assert_double_ge(json_real_value(json_object_get(root, "seconds")), 0);
}
END_TEST

START_TEST(test_matmul_quantized) {
  const int64_t shape[] = {2, 64};
  float x[128], w[128];
  for (int i = 0; i < 128; i++) {
    x[i] = (float)(i % 7 - 3);
    w[i] = i % 16 == 0 ? 127 : (float)(i % 30 - 15);
  }
  save_f32("x.npy", 2, shape, x);
  save_f32("w.npy", 2, shape, w);
  ck_code(RUN("convert", "w.npy", "w.mt", "--format=q8_0"), 0);
  cli_result result = RUN("matmul", "x.npy", "w.mt", "--trans-b", "-o", "q.npy", "--check");
  ck_code(result, 0);
  ck_has(result.out, "B     q8_0 [2, 64]");
  ck_code(RUN("matmul", "x.npy", "w.npy", "--trans-b", "-o", "f.npy"), 0);
  mt_tensor *f = NULL;
  const void *data;
  ck_ok(mt_load("f.npy", &f));
  ck_ok(mt_tensor_read(f, &data));
  ck_file("q.npy", data, 4); /* q8_0 holds these integers exactly */
  mt_tensor_release(&f);
}
END_TEST

START_TEST(test_matmul_fails) {
  const double doubles[] = {1, 2, 3, 4};
  const int64_t square[] = {2, 2};
  mt_tensor *tensor = NULL;
  make_operands();
  ck_ok(mt_tensor_from_data(MT_F64, 2, square, doubles, &tensor));
  ck_ok(mt_save("d.npy", tensor));
  mt_tensor_release(&tensor);
  size_t files = count_files();
  static const struct {
    const char *a, *b, *output;
    int code;
    const char *part;
  } cases[] = {
      {"a.npy", "a.npy", "c.npy", 1, "[2, 3]"},
      {"bt.npy", "d.npy", "c.npy", 1, "f64"},
      {"absent.npy", "b.mt", "c.npy", 3, "absent.npy"},
      {"a.npy", "m.safetensors", "c.npy", 3, "m.safetensors"},
      {"a.npy", "m.safetensors:y", "c.npy", 3, "y"},
      {"a.npy", "b.mt", "no/such/folder/c.npy", 3, "no/such/folder"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    cli_result result = RUN("matmul", cases[i].a, cases[i].b, "-o", cases[i].output);
    ck_assert_msg(result.code == cases[i].code, "case %zu: %d: %s", i, result.code, result.err);
    ck_has(result.err, "mecantensor matmul: ");
    ck_has(result.err, cases[i].part);
    ck_assert_str_eq(result.out, "");
  }
  cli_result backend = RUN("matmul", "a.npy", "b.mt", "-o", "c.npy", "-b", "nosuch");
  ck_code(backend, 3);
  ck_has(backend.err, "nosuch");
  ck_assert_uint_eq(count_files(), files);
}
END_TEST

/* ---- the check itself -------------------------------------------------------------------------
 */
/* Runs the check on [rows, k] of ones times [k, 1] of ones with c = {first, second}. */
static matmul_check check_ones(int64_t k, float first, float second) {
  const int64_t as[] = {2, k}, bs[] = {k, 1}, cs[] = {2, 1};
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  mt_tensor *a = NULL, *b = NULL, *c = NULL;
  void *data;
  ck_ok(mt_tensor_create(MT_F32, 2, as, &a));
  ck_ok(mt_tensor_create(MT_F32, 2, bs, &b));
  ck_ok(mt_tensor_from_data(MT_F32, 2, cs, (const float[]){first, second}, &c));
  ck_ok(mt_tensor_write(a, &data));
  for (int64_t i = 0; i < 2 * k; i++) {
    ((float *)data)[i] = 1;
  }
  ck_ok(mt_tensor_write(b, &data));
  for (int64_t i = 0; i < k; i++) {
    ((float *)data)[i] = 1;
  }
  matmul_check check;
  ck_ok(check_matmul(a, b, &options, c, &check));
  mt_tensor_release(&a);
  mt_tensor_release(&b);
  mt_tensor_release(&c);
  return check;
}

START_TEST(test_check_notices) {
  matmul_check exact = check_ones(100, 100, 100);
  ck_assert(exact.passed);
  ck_assert_double_eq(exact.max_error, 0);
  ck_assert_double_eq_tol(exact.bound, 108 * 0x1p-24, 1e-12);
  matmul_check rounded = check_ones(100, 100 + 0x1p-17f, 100);
  ck_assert(rounded.passed);
  ck_assert_double_gt(rounded.max_error, 0);
  matmul_check wrong = check_ones(100, 100.01f, 100);
  ck_assert(!wrong.passed);
  ck_assert_uint_eq(wrong.over, 1);
  ck_assert_double_eq_tol(wrong.max_error, 1e-4, 1e-6);
  ck_assert_double_eq_tol(wrong.frobenius_error, 1e-4 / sqrt(2), 1e-6);
  ck_assert(!check_ones(100, NAN, 100).passed);
  ck_assert(!check_ones(100, 100, INFINITY).passed);
  ck_assert(check_ones(0, 0, 0).passed);
  ck_assert(!check_ones(0, 0, 1).passed);
}
END_TEST

/* f16 overflows where f64 does not: infinity is right then, and only then. */
START_TEST(test_check_overflow) {
  const int64_t one[] = {1, 1};
  const uint16_t big = 0x7bff, infinity = 0x7c00, minus = 0xfc00;
  mt_matmul_options options = MT_MATMUL_OPTIONS_INIT;
  mt_tensor *a = NULL, *good = NULL, *bad = NULL;
  matmul_check check;
  ck_ok(mt_tensor_from_data(MT_F16, 2, one, &big, &a));
  ck_ok(mt_tensor_from_data(MT_F16, 2, one, &infinity, &good));
  ck_ok(mt_tensor_from_data(MT_F16, 2, one, &minus, &bad));
  ck_ok(check_matmul(a, a, &options, good, &check));
  ck_assert(check.passed);
  ck_ok(check_matmul(a, a, &options, bad, &check));
  ck_assert(!check.passed);
  mt_tensor_release(&a);
  mt_tensor_release(&good);
  mt_tensor_release(&bad);
}
END_TEST

CLI_TEST_MAIN(matmul, test_matmul_files, test_matmul_options, test_matmul_json,
              test_matmul_quantized, test_matmul_fails, test_check_notices, test_check_overflow)
