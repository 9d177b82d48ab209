// SPDX-License-Identifier: Apache-2.0
/* copy, contiguous, cast, quantize, concat, gather on the reference. */
#include "ops_common.h"

static mt_runtime *rt;

static void setup(void) {
  rt = reference_runtime();
}
static void teardown(void) {
  mt_runtime_release(&rt);
}

static const mt_format *q8_0(void) {
  return mt_format_find("q8_0");
}

/* f32 of a shape, whole numbers, in blocks. */
static mt_tensor *blocks_of(int rank, const int64_t *shape, double *values, int64_t count) {
  mt_tensor *blocks = NULL;
  ramp(values, count, 101, -50);
  mt_tensor *plain = make(MT_F32, rank, shape, values);
  ck_ok(mt_quantize(rt, plain, q8_0(), &blocks));
  drop(plain);
  return blocks;
}

/* ---- copy and contiguous ------------------------------------------------------------------ */

START_TEST(test_copy) {
  double x[3 * 4 * 300];
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_dtype dtype = all_types[d];
    ramp(x, COUNT(x), dtype == MT_BOOL ? 2 : 100, 0);
    for (int how = 0; how < LAYOUTS; how++) {
      mt_tensor *in = arrange(dtype, 3, SHAPE(3, 4, 300), x, (layout)how), *out = NULL;
      mt_tensor *to = blank(dtype, 3, SHAPE(3, 4, 300), (layout)((how + 1) % LAYOUTS));
      ck_ok(mt_copy(rt, in, &out));
      ck_assert(mt_tensor_is_contiguous(out));
      check_values(out, x);
      ck_ok(mt_copy(rt, in, &to));
      check_values(to, x);
      drop(in), drop(out), drop(to);
    }
  }
}
END_TEST

START_TEST(test_copy_keeps_bits) {
  const uint32_t bits[] = {0x7f800001, 0xffc12345, 0x80000000, 1};
  uint32_t got[4];
  mt_tensor *x = NULL, *out = NULL, *same = NULL;
  ck_ok(mt_tensor_from_data(MT_F32, 1, SHAPE(4), bits, &x));
  ck_ok(mt_copy(rt, x, &out));
  ck_ok(mt_tensor_get(out, got, sizeof(got)));
  ck_assert_mem_eq(got, bits, sizeof(bits));
  ck_ok(mt_cast(rt, x, MT_F32, &same)); /* to the same dtype is a copy, too */
  ck_ok(mt_tensor_get(same, got, sizeof(got)));
  ck_assert_mem_eq(got, bits, sizeof(bits));
  ck_assert_ptr_ne(same, x);
  drop(x), drop(out), drop(same);
}
END_TEST

START_TEST(test_copy_overlap) {
  mt_tensor *x = make(MT_I32, 1, SHAPE(5), VALUES(1, 2, 3, 4, 5)), *left = NULL, *right = NULL;
  mt_tensor *itself = x;
  ck_ok(mt_copy(rt, x, &itself));
  check_values(x, VALUES(1, 2, 3, 4, 5));
  ck_ok(mt_tensor_slice(x, 0, 0, 4, 1, &left));
  ck_ok(mt_tensor_slice(x, 0, 1, 5, 1, &right));
  ck_fails(mt_copy(rt, left, &right), MT_ERR_INVALID_ARGUMENT,
           "copy: out overlaps input 0, i32[4]");
  drop(x), drop(left), drop(right);
}
END_TEST

START_TEST(test_contiguous) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)), *out = NULL, *t = NULL;
  ck_ok(mt_contiguous(rt, x, &out));
  ck_assert_ptr_eq(out, x);
  drop(out);
  ck_ok(mt_tensor_transpose(x, 0, 1, &t));
  ck_ok(mt_contiguous(rt, t, &out));
  ck_assert_ptr_ne(out, t);
  ck_assert(mt_tensor_is_contiguous(out));
  check_values(out, VALUES(1, 4, 2, 5, 3, 6));
  drop(x), drop(out), drop(t);
}
END_TEST

START_TEST(test_copy_blocks) {
  double x[4 * 100];
  mt_tensor *blocks = blocks_of(2, SHAPE(4, 100), x, COUNT(x)), *rows = NULL, *out = NULL;
  mt_tensor *tail = NULL, *given = NULL, *t = NULL, *plain = NULL, *fewer = NULL;
  ck_ok(mt_tensor_slice(blocks, 0, 1, 4, 2, &rows));
  ck_ok(mt_tensor_slice(rows, 1, 32, 100, 1, &tail));
  ck_ok(mt_copy(rt, tail, &out));
  ck_assert(mt_tensor_is_contiguous(out));
  ck_assert_uint_eq(mt_tensor_bytes(out), 2 * 3 * 34);
  ck_ok(mt_cast(rt, out, MT_F32, &plain));
  for (int i = 0; i < 2 * 68; i++) {
    ck_assert_double_eq_tol(at(plain, i), x[(1 + i / 68 * 2) * 100 + 32 + i % 68], 0.25);
  }
  ck_ok(mt_tensor_create_block(q8_0(), 2, SHAPE(4, 100), &given));
  ck_ok(mt_copy(rt, blocks, &given));
  const void *from, *to;
  ck_ok(mt_tensor_read(blocks, &from));
  ck_ok(mt_tensor_read(given, &to));
  ck_assert_mem_eq(from, to, 4 * 4 * 34);
  ck_ok(mt_tensor_create_block(q8_0(), 2, SHAPE(4, 99), &fewer));
  ck_fails(mt_copy(rt, blocks, &fewer), MT_ERR_INVALID_ARGUMENT,
           "copy: out is q8_0[4, 99]: expected q8_0[4, 100]");
  ck_ok(mt_tensor_transpose(blocks, 0, 1, &t));
  mt_tensor *none = NULL;
  ck_fails(mt_copy(rt, t, &none), MT_ERR_UNSUPPORTED, "blocks along axis 0");
  drop(blocks), drop(rows), drop(tail), drop(out), drop(given), drop(t), drop(plain), drop(fewer);
}
END_TEST

/* ---- cast -------------------------------------------------------------------------------- */

/* What every pair of dtypes can hold. */
START_TEST(test_cast_pairs) {
  double x[2 * 300];
  for (size_t from = 0; from < COUNT(all_types); from++) {
    for (size_t to = 0; to < COUNT(all_types); to++) {
      int how = (int)((from + to) % LAYOUTS);
      ramp(x, COUNT(x), all_types[from] == MT_BOOL || all_types[to] == MT_BOOL ? 2 : 100, 0);
      mt_tensor *in = arrange(all_types[from], 2, SHAPE(2, 300), x, (layout)how), *out = NULL;
      mt_tensor *given = blank(all_types[to], 2, SHAPE(2, 300), (layout)((how + 3) % LAYOUTS));
      ck_ok(mt_cast(rt, in, all_types[to], &out));
      check_shape(out, all_types[to], 2, SHAPE(2, 300));
      check_values(out, x);
      ck_ok(mt_cast(rt, in, all_types[to], &given));
      check_values(given, x);
      drop(in), drop(out), drop(given);
    }
  }
}
END_TEST

/* Above 2^53 doubles have no room for the last digits: in int64. */
static void check_cast_i64(double x, int64_t want) {
  mt_tensor *in = make(MT_F64, 0, NULL, &x), *out = NULL;
  int64_t got;
  ck_ok(mt_cast(rt, in, MT_I64, &out));
  ck_ok(mt_tensor_get(out, &got, sizeof(got)));
  ck_assert_msg(got == want, "%g: got %lld, want %lld", x, (long long)got, (long long)want);
  drop(in), drop(out);
}

START_TEST(test_cast_saturates) {
  const double x[] = {1.9, -1.9, 127.9, 128,   -128.9, -129,     255.5,     256,
                      1e6, -1e6, 1e30,  -1e30, NAN,    INFINITY, -INFINITY, -0.0};
  const struct {
    mt_dtype dtype;
    double low, high;
  } rows[] = {
      {MT_I8, -128, 127}, {MT_U8, 0, 255}, {MT_I16, -32768, 32767}, {MT_I32, INT32_MIN, INT32_MAX}};
  for (size_t d = 0; d < 2; d++) { /* 1e6 is no f16, 255.5 no bf16 */
    mt_tensor *in = make(float_types[d], 1, SHAPE(16), x);
    for (size_t k = 0; k < COUNT(rows); k++) {
      double want[16];
      mt_tensor *out = NULL;
      for (int i = 0; i < 16; i++) {
        double t = isnan(x[i]) ? 0 : trunc(x[i]);
        want[i] = t < rows[k].low ? rows[k].low : t > rows[k].high ? rows[k].high : t;
      }
      ck_ok(mt_cast(rt, in, rows[k].dtype, &out));
      check_values(out, want);
      drop(out);
    }
    drop(in);
  }
  check_cast_i64(0x1p63, INT64_MAX);
  check_cast_i64(0x1.fffffffffffffp62, 0x7ffffffffffffc00);
  check_cast_i64(-0x1p63, INT64_MIN);
  check_cast_i64(-1e300, INT64_MIN);
  check_cast_i64(NAN, 0);
}
END_TEST

START_TEST(test_cast_to_bool_and_back) {
  mt_tensor *x = make(MT_F32, 1, SHAPE(5), VALUES(0, -0.0, 0.1, NAN, -3)), *flag = NULL, *n = NULL;
  mt_tensor *big = make(MT_I32, 1, SHAPE(3), VALUES(256, 0, -1)), *other = NULL;
  ck_ok(mt_cast(rt, x, MT_BOOL, &flag));
  check_values(flag, VALUES(0, 0, 1, 1, 1));
  ck_ok(mt_cast(rt, flag, MT_I16, &n));
  check_values(n, VALUES(0, 0, 1, 1, 1));
  ck_ok(mt_cast(rt, big, MT_BOOL, &other));
  check_values(other, VALUES(1, 0, 1)); /* not the low byte */
  drop(x), drop(flag), drop(n), drop(big), drop(other);
}
END_TEST

START_TEST(test_cast_integers_wrap) {
  mt_tensor *x = make(MT_I32, 1, SHAPE(5), VALUES(300, -1, 128, -129, 65536)), *out = NULL,
            *u = NULL;
  ck_ok(mt_cast(rt, x, MT_I8, &out));
  check_values(out, VALUES(44, -1, -128, 127, 0));
  ck_ok(mt_cast(rt, x, MT_U8, &u));
  check_values(u, VALUES(44, 255, 128, 127, 0));
  drop(x), drop(out), drop(u);
}
END_TEST

/* Rounded once: by way of f32 or f64 these would be ties, and go to even. */
START_TEST(test_cast_rounds_once) {
  const double x[] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11,     1 + 3 * 0x1p-11 - 0x1p-40,
                      0x1p-25 + 0x1p-60,     65520 - 0x1p-20, 65520};
  mt_tensor *in = make(MT_F64, 1, SHAPE(6), x), *out = NULL, *large = NULL, *bf16 = NULL,
            *f32 = NULL;
  ck_ok(mt_cast(rt, in, MT_F16, &out));
  check_values(out, VALUES(1 + 0x1p-10, 1, 1 + 0x1p-10, 0x1p-24, 65504, INFINITY));
  const int64_t n[] = {(INT64_C(1) << 62) + (INT64_C(1) << 54) + 1,
                       (INT64_C(1) << 62) + (INT64_C(1) << 54),
                       -(INT64_C(1) << 62) - (INT64_C(1) << 54) - 1, INT64_MIN, INT64_MAX};
  ck_ok(mt_tensor_from_data(MT_I64, 1, SHAPE(5), n, &large));
  ck_ok(mt_cast(rt, large, MT_BF16, &bf16));
  check_values(bf16, VALUES(0x1p62 + 0x1p55, 0x1p62, -0x1p62 - 0x1p55, -0x1p63, 0x1p63));
  const int64_t m[] = {(INT64_C(1) << 61) + (INT64_C(1) << 37) + 1, 16777217, -16777219, 1, 0};
  mt_tensor *middle = NULL;
  ck_ok(mt_tensor_from_data(MT_I64, 1, SHAPE(5), m, &middle));
  ck_ok(mt_cast(rt, middle, MT_F32, &f32));
  check_values(f32, VALUES(0x1p61 + 0x1p38, 16777216, -16777220, 1, 0));
  drop(in), drop(out), drop(large), drop(bf16), drop(middle), drop(f32);
}
END_TEST

START_TEST(test_cast_half_sweep) {
  for (int kind = 2; kind < 4; kind++) {
    double x[512], want[512];
    for (int i = 0; i < 512; i++) {
      x[i] = ldexp(1 + (i % 97) / 97.0, i / 8 - 40) * (i % 2 ? -1 : 1);
      want[i] = half_round(float_types[kind], x[i]);
    }
    mt_tensor *in = make(MT_F64, 1, SHAPE(512), x), *out = NULL;
    ck_ok(mt_cast(rt, in, float_types[kind], &out));
    check_values(out, want);
    drop(in), drop(out);
  }
}
END_TEST

START_TEST(test_cast_blocks) {
  double x[3 * 2 * 70];
  mt_tensor *blocks = blocks_of(3, SHAPE(3, 2, 70), x, COUNT(x)), *t = NULL, *plain = NULL;
  mt_tensor *turned = NULL, *given = blank(MT_F32, 3, SHAPE(3, 2, 70), MISALIGNED);
  ck_ok(mt_cast(rt, blocks, MT_F32, &plain));
  check_shape(plain, MT_F32, 3, SHAPE(3, 2, 70));
  for (int i = 0; i < 3 * 2 * 70; i++) {
    ck_assert_double_eq_tol(at(plain, i), x[i], 0.25);
  }
  ck_ok(mt_tensor_transpose(blocks, 0, 2, &t)); /* the blocks now along axis 0 */
  ck_ok(mt_cast(rt, t, MT_F32, &turned));
  check_shape(turned, MT_F32, 3, SHAPE(70, 2, 3));
  for (int i = 0; i < 70 * 2 * 3; i++) {
    check_value(at(turned, i), at(plain, i % 3 * 140 + i / 3 % 2 * 70 + i / 6), i);
  }
  ck_ok(mt_cast(rt, blocks, MT_F32, &given));
  for (int i = 0; i < 3 * 2 * 70; i++) {
    check_value(at(given, i), at(plain, i), i);
  }
  drop(blocks), drop(t), drop(plain), drop(turned), drop(given);
}
END_TEST

START_TEST(test_cast_errors) {
  double v[32];
  mt_tensor *x = make(MT_F32, 1, SHAPE(2), VALUES(1, 2)), *out = NULL,
            *blocks = blocks_of(1, SHAPE(32), v, 32);
  ck_fails(mt_cast(NULL, x, MT_F64, &out), MT_ERR_INVALID_ARGUMENT, "cast: rt is NULL");
  ck_fails(mt_cast(rt, NULL, MT_F64, &out), MT_ERR_INVALID_ARGUMENT, "cast: x is NULL");
  ck_fails(mt_cast(rt, x, MT_BLOCK, &out), MT_ERR_INVALID_ARGUMENT, "mt_quantize makes blocks");
  ck_fails(mt_cast(rt, x, (mt_dtype)99, &out), MT_ERR_INVALID_ARGUMENT, "cast: to dtype 99");
  ck_fails(mt_cast(rt, blocks, MT_F16, &out), MT_ERR_INVALID_ARGUMENT,
           "x q8_0[32] to f16: a block format goes to f32 only");
  ck_assert_ptr_null(out);
  drop(x), drop(blocks);
}
END_TEST

/* ---- quantize ---------------------------------------------------------------------------- */

START_TEST(test_quantize) {
  double x[3 * 40];
  ramp(x, COUNT(x), 101, -50);
  for (int how = 0; how < LAYOUTS; how++) {
    mt_tensor *in = arrange(MT_F32, 2, SHAPE(3, 40), x, (layout)how), *out = NULL;
    char want[3 * 2 * 34];
    const void *got;
    ck_ok(mt_quantize(rt, in, q8_0(), &out));
    ck_assert_int_eq(mt_tensor_block_axis(out), 1);
    for (int row = 0; row < 3; row++) {
      float line[40];
      for (int i = 0; i < 40; i++) {
        line[i] = (float)x[row * 40 + i];
      }
      ck_ok(mt_format_encode(q8_0(), line, 40, want + row * 2 * 34));
    }
    ck_ok(mt_tensor_read(out, &got));
    ck_assert_mem_eq(got, want, sizeof(want));
    drop(in), drop(out);
  }
}
END_TEST

START_TEST(test_quantize_errors) {
  mt_tensor *x = make(MT_F32, 2, SHAPE(2, 2), VALUES(1, 2, 3, NAN)), *out = x;
  mt_tensor *h = make(MT_F16, 1, SHAPE(1), VALUES(1)), *s = make(MT_F32, 0, NULL, VALUES(1));
  mt_tensor *empty = make(MT_F32, 2, SHAPE(0, 3), NULL);
  ck_fails(mt_quantize(rt, x, q8_0(), &out), MT_ERR_INVALID_ARGUMENT,
           "quantize: line 1: q8_0: element 1");
  ck_assert_ptr_null(out);
  ck_fails(mt_quantize(rt, x, NULL, &out), MT_ERR_INVALID_ARGUMENT, "quantize: format is NULL");
  ck_fails(mt_quantize(rt, h, q8_0(), &out), MT_ERR_INVALID_ARGUMENT,
           "quantize: x f16[1]: expected f32");
  ck_fails(mt_quantize(rt, s, q8_0(), &out), MT_ERR_INVALID_ARGUMENT, "rank 1 or more");
  ck_ok(mt_quantize(rt, empty, q8_0(), &out));
  ck_assert_int_eq(mt_tensor_elements(out), 0);
  drop(x), drop(h), drop(s), drop(empty), drop(out);
}
END_TEST

/* ---- concat ------------------------------------------------------------------------------- */

START_TEST(test_concat) {
  double x[3 * 10 * 2];
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_dtype dtype = all_types[d];
    ramp(x, COUNT(x), dtype == MT_BOOL ? 2 : 60, 0);
    for (int axis = 0; axis < 3; axis++) {
      int64_t shape[] = {3, 10, 2}, cut = shape[axis] / 2;
      mt_tensor *whole = arrange(dtype, 3, shape, x, (layout)(d % LAYOUTS));
      mt_tensor *parts[3] = {NULL, NULL, NULL}, *out = NULL;
      mt_tensor *given = blank(dtype, 3, shape, (layout)((d + 1) % LAYOUTS));
      ck_ok(mt_tensor_slice(whole, axis, 0, cut, 1, &parts[0]));
      ck_ok(mt_tensor_slice(whole, axis, cut, cut, 1, &parts[1])); /* empty */
      ck_ok(mt_tensor_slice(whole, axis, cut, shape[axis], 1, &parts[2]));
      ck_ok(mt_concat(rt, parts, 3, axis - 3, &out));
      check_shape(out, dtype, 3, shape);
      check_values(out, x);
      ck_ok(mt_concat(rt, parts, 3, axis, &given));
      check_values(given, x);
      drop(whole), drop(parts[0]), drop(parts[1]), drop(parts[2]), drop(out), drop(given);
    }
  }
}
END_TEST

/* More than a plugin can be given at once. */
START_TEST(test_concat_hundred) {
  enum { PARTS = 100 };
  mt_tensor *parts[PARTS], *out = NULL, *given = NULL;
  double want[PARTS * 2];
  for (int i = 0; i < PARTS; i++) {
    want[i] = i;
    want[PARTS + i] = i + 1000;
    parts[i] = make(MT_I32, 2, SHAPE(2, 1), VALUES(want[i], want[PARTS + i]));
  }
  ck_ok(mt_concat(rt, parts, PARTS, 1, &out));
  check_shape(out, MT_I32, 2, SHAPE(2, PARTS));
  check_values(out, want);
  given = blank(MT_I32, 2, SHAPE(2, PARTS), PACKED);
  drop(parts[80]);
  ck_ok(mt_tensor_slice(given, 1, 0, 1, 1, &parts[80])); /* in the slice of the first group */
  ck_fails(mt_concat(rt, parts, PARTS, 1, &given), MT_ERR_INVALID_ARGUMENT,
           "concat: out overlaps input 80");
  for (int i = 0; i < PARTS; i++) {
    drop(parts[i]);
  }
  drop(out), drop(given);
}
END_TEST

START_TEST(test_concat_errors) {
  double v[32];
  mt_tensor *x = make(MT_F32, 2, SHAPE(1, 2), VALUES(1, 2)),
            *y = make(MT_F32, 2, SHAPE(1, 3), VALUES(1, 2, 3));
  mt_tensor *n = make(MT_I32, 2, SHAPE(1, 2), VALUES(1, 2)), *s = make(MT_F32, 0, NULL, VALUES(1));
  mt_tensor *blocks = blocks_of(1, SHAPE(32), v, 32), *out = NULL, *huge = NULL;
  mt_tensor *pair[] = {x, y}, *mixed[] = {x, n}, *holes[] = {x, NULL}, *scalars[] = {s, s},
            *coded[] = {blocks};
  ck_fails(mt_concat(rt, NULL, 1, 0, &out), MT_ERR_INVALID_ARGUMENT, "concat: inputs is NULL");
  ck_fails(mt_concat(rt, pair, 0, 0, &out), MT_ERR_INVALID_ARGUMENT, "concat: 0 inputs");
  ck_fails(mt_concat(rt, holes, 2, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "concat: input 1 of 2 is NULL");
  ck_fails(mt_concat(rt, pair, 2, 0, &out), MT_ERR_INVALID_ARGUMENT,
           "concat: input 1 f32[1, 3] and input 0 f32[1, 2]: expected the same but for axis 0");
  ck_fails(mt_concat(rt, mixed, 2, 0, &out), MT_ERR_INVALID_ARGUMENT, "input 1 i32[1, 2]");
  ck_fails(mt_concat(rt, pair, 2, 2, &out), MT_ERR_INVALID_ARGUMENT,
           "concat: axis 2: expected -2 .. 1");
  ck_fails(mt_concat(rt, scalars, 2, 0, &out), MT_ERR_INVALID_ARGUMENT, "scalar");
  ck_fails(mt_concat(rt, coded, 1, 0, &out), MT_ERR_INVALID_ARGUMENT, "concat: input 0 q8_0[32]");
  static float zero;
  ck_ok(mt_tensor_wrap(&zero, MT_F32, 1, SHAPE(INT64_C(1) << 60), SHAPE(0), NULL, NULL, &huge));
  mt_tensor *many[] = {huge, huge, huge, huge, huge, huge, huge, huge};
  ck_fails(mt_concat(rt, many, 8, 0, &out), MT_ERR_INVALID_ARGUMENT, "do not fit in 63 bits");
  ck_fails(mt_concat(rt, many, 7, 0, &out), MT_ERR_INVALID_ARGUMENT, "does not fit in 63 bits");
  ck_assert_ptr_null(out);
  drop(x), drop(y), drop(n), drop(s), drop(blocks), drop(huge);
}
END_TEST

/* ---- gather ------------------------------------------------------------------------------- */

START_TEST(test_gather) {
  double x[5 * 3 * 300], want[2 * 2 * 900];
  const double picks[] = {4, 0, 0, 2};
  for (size_t d = 0; d < COUNT(all_types); d++) {
    mt_dtype dtype = all_types[d];
    ramp(x, COUNT(x), dtype == MT_BOOL ? 2 : 100, 0);
    for (int i = 0; i < 4 * 900; i++) {
      want[i] = x[(int)picks[i / 900] * 900 + i % 900];
    }
    for (int how = 0; how < LAYOUTS; how++) {
      mt_tensor *table = arrange(dtype, 3, SHAPE(5, 3, 300), x, (layout)how), *out = NULL;
      mt_tensor *indices = arrange(how % 2 ? MT_I32 : MT_I64, 2, SHAPE(2, 2), picks, (layout)how);
      mt_tensor *given = blank(dtype, 4, SHAPE(2, 2, 3, 300), (layout)((how + 1) % LAYOUTS));
      ck_ok(mt_gather(rt, table, indices, &out));
      check_shape(out, dtype, 4, SHAPE(2, 2, 3, 300));
      check_values(out, want);
      ck_ok(mt_gather(rt, table, indices, &given));
      check_values(given, want);
      drop(table), drop(indices), drop(out), drop(given);
    }
  }
}
END_TEST

START_TEST(test_gather_small) {
  mt_tensor *table = make(MT_F32, 1, SHAPE(3), VALUES(10, 20, 30)), *out = NULL, *none = NULL,
            *row = NULL;
  mt_tensor *one = make(MT_I64, 0, NULL, VALUES(2)), *empty = make(MT_I32, 2, SHAPE(0, 4), NULL);
  mt_tensor *rows = make(MT_F32, 2, SHAPE(2, 2), VALUES(1, 2, 3, 4)),
            *first = make(MT_I32, 0, NULL, VALUES(1));
  ck_ok(mt_gather(rt, table, one, &out));
  check_shape(out, MT_F32, 0, NULL);
  check_value(at(out, 0), 30, 0);
  ck_ok(mt_gather(rt, table, empty, &none));
  check_shape(none, MT_F32, 2, SHAPE(0, 4));
  ck_ok(mt_gather(rt, rows, first, &row));
  check_shape(row, MT_F32, 1, SHAPE(2));
  check_values(row, VALUES(3, 4));
  drop(table), drop(out), drop(none), drop(one), drop(empty), drop(rows), drop(first), drop(row);
}
END_TEST

START_TEST(test_gather_blocks) {
  double x[5 * 300];
  mt_tensor *table = blocks_of(2, SHAPE(5, 300), x, COUNT(x)), *plain = NULL, *out = NULL;
  mt_tensor *indices = make(MT_I32, 1, SHAPE(3), VALUES(4, 1, 4));
  mt_tensor *given = blank(MT_F32, 2, SHAPE(3, 300), SLICED);
  ck_ok(mt_cast(rt, table, MT_F32, &plain));
  ck_ok(mt_gather(rt, table, indices, &out));
  ck_ok(mt_gather(rt, table, indices, &given));
  check_shape(out, MT_F32, 2, SHAPE(3, 300));
  for (int i = 0; i < 900; i++) {
    double want = at(plain, (i / 300 == 1 ? 1 : 4) * 300 + i % 300);
    check_value(at(out, i), want, i);
    check_value(at(given, i), want, i);
  }
  drop(table), drop(plain), drop(out), drop(indices), drop(given);
}
END_TEST

START_TEST(test_gather_errors) {
  double v[64];
  mt_tensor *table = blank(MT_F32, 2, SHAPE(32, 2), PACKED), *out = NULL,
            *none = blank(MT_F32, 2, SHAPE(0, 2), PACKED);
  mt_tensor *high = make(MT_I32, 2, SHAPE(2, 5), VALUES(0, 1, 2, 3, 4, 5, 6, 40, 8, 9));
  mt_tensor *low = make(MT_I64, 1, SHAPE(1), VALUES(-1)),
            *real = make(MT_F32, 1, SHAPE(1), VALUES(0));
  mt_tensor *scalar = make(MT_F32, 0, NULL, VALUES(0)), *blocks = blocks_of(2, SHAPE(2, 32), v, 64),
            *t = NULL;
  int64_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  mt_tensor *deep = make(MT_I32, 16, ones, VALUES(0));
  ck_fails(mt_gather(rt, table, high, &out), MT_ERR_INVALID_ARGUMENT,
           "gather: index 40 at position 7: expected 0 .. 31");
  ck_fails(mt_gather(rt, table, low, &out), MT_ERR_INVALID_ARGUMENT,
           "index -1 at position 0: expected 0 .. 31");
  ck_fails(mt_gather(rt, none, low, &out), MT_ERR_INVALID_ARGUMENT, "the table has no rows");
  ck_fails(mt_gather(rt, table, real, &out), MT_ERR_INVALID_ARGUMENT,
           "gather: indices f32[1]: expected i32 or i64");
  ck_fails(mt_gather(rt, scalar, low, &out), MT_ERR_INVALID_ARGUMENT,
           "gather: table f32[]: expected rank 1");
  ck_fails(mt_gather(rt, table, deep, &out), MT_ERR_INVALID_ARGUMENT,
           "the result has rank 17, at most 16");
  ck_ok(mt_tensor_transpose(blocks, 0, 1, &t));
  ck_fails(mt_gather(rt, t, low, &out), MT_ERR_INVALID_ARGUMENT,
           "expected rank 2 with blocks along axis 1");
  ck_fails(mt_gather(rt, NULL, low, &out), MT_ERR_INVALID_ARGUMENT, "gather: table is NULL");
  ck_fails(mt_gather(rt, table, NULL, &out), MT_ERR_INVALID_ARGUMENT, "gather: indices is NULL");
  ck_assert_ptr_null(out);
  drop(table), drop(none), drop(high), drop(low), drop(real), drop(scalar), drop(blocks), drop(t),
      drop(deep);
}
END_TEST

int main(void) {
  const TTest *tests[] = {test_copy,
                          test_copy_keeps_bits,
                          test_copy_overlap,
                          test_contiguous,
                          test_copy_blocks,
                          test_cast_pairs,
                          test_cast_saturates,
                          test_cast_to_bool_and_back,
                          test_cast_integers_wrap,
                          test_cast_rounds_once,
                          test_cast_half_sweep,
                          test_cast_blocks,
                          test_cast_errors,
                          test_quantize,
                          test_quantize_errors,
                          test_concat,
                          test_concat_hundred,
                          test_concat_errors,
                          test_gather,
                          test_gather_small,
                          test_gather_blocks,
                          test_gather_errors};
  return run_ops_tests("ops_move", tests, COUNT(tests), setup, teardown);
}
