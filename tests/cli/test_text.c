// SPDX-License-Identifier: Apache-2.0
/* test_text.c - text.c of the command: escapes, units, near words; and specs of tensors. */
#include "cli.h"

#include "../../tools/mecantensor/common.h"
#include "../../tools/mecantensor/text.h"

#include <stdio.h>
#include <sys/stat.h>

static void ck_escaped(const char *text, const char *expected) {
  char *escaped = escape_text(text);
  ck_assert_str_eq(escaped, expected);
  free(escaped);
}

START_TEST(test_escape) {
  ck_escaped("", "");
  ck_escaped("layer.0.weight~ !", "layer.0.weight~ !");
  ck_escaped("a\\b", "a\\\\b");
  ck_escaped("\x1b[2J\t\x7f\n", "\\x1b[2J\\x09\\x7f\\x0a");
  ck_escaped("\xc3\xa9\xff", "\\xc3\\xa9\\xff");
}
END_TEST

START_TEST(test_units) {
  static const struct {
    uint64_t bytes;
    const char *text;
  } cases[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1.00 KiB"},
               {1536, "1.50 KiB"},
               {(uint64_t)200 << 20, "200.0 MiB"},
               {(uint64_t)80 << 30, "80.00 GiB"},
               {UINT64_MAX, "16.00 EiB"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char buf[BYTES_TEXT];
    ck_assert_str_eq(bytes_text(cases[i].bytes, buf, sizeof(buf)), cases[i].text);
  }
}
END_TEST

START_TEST(test_shapes) {
  int64_t shape[MT_MAX_RANK];
  char buf[SHAPE_TEXT], small[6];
  for (int i = 0; i < MT_MAX_RANK; i++) {
    shape[i] = INT64_MAX;
  }
  ck_assert_str_eq(shape_text(0, NULL, buf, sizeof(buf)), "[]");
  shape_text(MT_MAX_RANK, shape, buf, sizeof(buf));
  ck_assert_uint_eq(strlen(buf), MT_MAX_RANK * 21);
  ck_assert_int_eq(buf[strlen(buf) - 1], ']');
  shape[0] = 12;
  ck_assert_str_eq(shape_text(1, shape, small, sizeof(small)), "[12]");
  ck_assert_str_eq(shape_text(2, shape, small, sizeof(small)), "[12, ");
}
END_TEST

START_TEST(test_near_words) {
  static const char *const words[] = {"devices", "matmul", "info", NULL};
  static const char *const none[] = {NULL};
  ck_assert_str_eq(nearest_word("matmull", words), "matmul");
  ck_assert_str_eq(nearest_word("inof", words), "info");
  ck_assert_str_eq(nearest_word("device", words), "devices");
  ck_assert_ptr_null(nearest_word("qqqqqq", words));
  ck_assert_ptr_null(nearest_word("matmul", none));
  char longer[4096];
  memset(longer, 'a', sizeof(longer) - 1);
  longer[sizeof(longer) - 1] = 0;
  ck_assert_ptr_null(nearest_word(longer, words));
}
END_TEST

static void ck_split(const char *spec, const char *file, const char *name) {
  char *got_file;
  const char *got_name;
  split_spec(spec, &got_file, &got_name);
  ck_assert_str_eq(got_file, file);
  if (name == NULL) {
    ck_assert_ptr_null(got_name);
  } else {
    ck_assert_ptr_nonnull(got_name);
    ck_assert_str_eq(got_name, name);
  }
  free(got_file);
}

/* As io.h says it for mt_load(). */
START_TEST(test_specs) {
  write_file("a", "", 0);
  write_file("a:b", "", 0);
  ck_split("a", "a", NULL);
  ck_split("a:b", "a:b", NULL);
  ck_split("a:c", "a", "c");
  ck_split("a:b:c", "a:b", "c");
  ck_split("a:x:y", "a", "x:y");
  ck_split("a:", "a", "");
  ck_split("no:such", "no:such", NULL);
  ck_split("", "", NULL);
  ck_split(":", ":", NULL);
}
END_TEST

CLI_TEST_MAIN(text, test_escape, test_units, test_shapes, test_near_words, test_specs)
