// SPDX-License-Identifier: Apache-2.0
/* Status, dtypes, version and the log setting. */
#include "harness.h"

#include <mecantensor/mecantensor.h>
#include <pthread.h>
#include <stdio.h>

START_TEST(status_names_are_distinct) {
  for (int i = MT_OK; i <= MT_ERR_TIMEOUT; i++) {
    ck_assert_str_ne(mt_status_name((mt_status)i), "unknown status");
    for (int j = MT_OK; j < i; j++) {
      ck_assert_str_ne(mt_status_name((mt_status)i), mt_status_name((mt_status)j));
    }
  }
  ck_assert_str_eq(mt_status_name((mt_status)12345), "unknown status");
  ck_assert_str_eq(mt_status_name((mt_status)-1), "unknown status");
}
END_TEST

static void *other_thread(void *text) {
  snprintf(text, 64, "%s", mt_last_error());
  return NULL;
}

START_TEST(last_error_belongs_to_the_thread) {
  mt_tensor *t;
  ck_assert_str_eq(mt_last_error(), "");
  ck_fails(mt_tensor_create((mt_dtype)99, 0, NULL, &t), MT_ERR_INVALID_ARGUMENT, "99");
  char seen[64] = "unset";
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, seen), 0);
  pthread_join(thread, NULL);
  ck_assert_str_eq(seen, "");
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &t)); /* success leaves the sentence */
  ck_assert(strstr(mt_last_error(), "99") != NULL);
  mt_tensor_release(&t);
}
END_TEST

START_TEST(dtypes_have_sizes_and_names) {
  static const struct {
    mt_dtype dtype;
    const char *name;
    size_t size;
  } rows[] = {
      {MT_F32, "f32", 4}, {MT_F64, "f64", 8},   {MT_F16, "f16", 2},     {MT_BF16, "bf16", 2},
      {MT_I8, "i8", 1},   {MT_U8, "u8", 1},     {MT_I16, "i16", 2},     {MT_I32, "i32", 4},
      {MT_I64, "i64", 8}, {MT_BOOL, "bool", 1}, {MT_BLOCK, "block", 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    ck_assert_str_eq(mt_dtype_name(rows[i].dtype), rows[i].name);
    ck_assert_uint_eq(mt_dtype_size(rows[i].dtype), rows[i].size);
    ck_assert_int_eq(mt_dtype_from_name(rows[i].name), rows[i].dtype);
  }
  static const int invalid[] = {-1, 0, 12, 1000, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
    ck_assert_str_eq(mt_dtype_name((mt_dtype)invalid[i]), "invalid");
    ck_assert_uint_eq(mt_dtype_size((mt_dtype)invalid[i]), 0);
  }
  ck_assert_int_eq(mt_dtype_from_name(NULL), MT_DTYPE_NONE);
  ck_assert_int_eq(mt_dtype_from_name(""), MT_DTYPE_NONE);
  ck_assert_int_eq(mt_dtype_from_name("f3"), MT_DTYPE_NONE);
  ck_assert_int_eq(mt_dtype_from_name("f322"), MT_DTYPE_NONE);
  ck_assert_int_eq(mt_dtype_from_name("F32"), MT_DTYPE_NONE);
  ck_assert_int_eq(mt_dtype_from_name("invalid"), MT_DTYPE_NONE);
}
END_TEST

START_TEST(version_is_the_headers) {
  char text[32];
  snprintf(text, sizeof(text), "%d.%d.%d", MT_VERSION_MAJOR, MT_VERSION_MINOR, MT_VERSION_PATCH);
  ck_assert_str_eq(text, MT_VERSION);
  ck_assert_str_eq(mt_version(), MT_VERSION);
}
END_TEST

/* ---- the log setting ------------------------------------------------------------------ */

typedef struct heard {
  int by_level[MT_LOG_DEBUG + 1];
  int wrong; /* empty topics, messages that are no single line */
} heard;

static void listen(void *user, mt_log_level level, const char *topic, const char *message) {
  heard *h = user;
  if (level < MT_LOG_ERROR || level > MT_LOG_DEBUG) {
    h->wrong++;
    return;
  }
  h->by_level[level]++;
  h->wrong += topic[0] == '\0' || message[0] == '\0' || strchr(message, '\n') != NULL;
}

/* A runtime with this setting that runs one op. */
static mt_status run_with(const char *log, heard *h) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *rt;
  memset(h, 0, sizeof(*h));
  options.backend = "reference";
  options.log = log;
  options.log_fn = listen;
  options.log_user = h;
  mt_status status = mt_runtime_create(&options, &rt);
  if (status != MT_OK) {
    ck_assert_ptr_null(rt);
    return status;
  }
  mt_tensor *x, *y = NULL;
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &x));
  ck_ok(mt_relu(rt, x, &y));
  mt_tensor_release(&x);
  mt_tensor_release(&y);
  mt_runtime_release(&rt);
  return MT_OK;
}

START_TEST(log_levels_filter) {
  heard quiet, dispatch, all;
  ck_ok(run_with("none", &quiet));
  ck_ok(run_with("dispatch", &dispatch));
  ck_ok(run_with("debug", &all));
  for (int i = MT_LOG_ERROR; i <= MT_LOG_DEBUG; i++) {
    ck_assert_int_eq(quiet.by_level[i], 0);
  }
  ck_assert_int_gt(dispatch.by_level[MT_LOG_DEBUG] + dispatch.by_level[MT_LOG_INFO], 0);
  ck_assert_int_ge(all.by_level[MT_LOG_DEBUG], dispatch.by_level[MT_LOG_DEBUG]);
  ck_assert_int_eq(all.wrong, 0);
  heard off; /* one topic off, the rest on */
  ck_ok(run_with("debug,dispatch=none", &off));
  ck_assert_int_lt(off.by_level[MT_LOG_DEBUG] + off.by_level[MT_LOG_INFO],
                   all.by_level[MT_LOG_DEBUG] + all.by_level[MT_LOG_INFO]);
}
END_TEST

START_TEST(log_settings_that_cannot_be_read) {
  heard h;
  ck_fails(run_with("dispatch=loud", &h), MT_ERR_INVALID_ARGUMENT, "dispatch=loud");
  ck_fails(run_with("=debug", &h), MT_ERR_INVALID_ARGUMENT, "=debug");
  ck_fails(run_with("warn,loader=", &h), MT_ERR_INVALID_ARGUMENT, "loader=");
  ck_fails(run_with("a-topic-name-that-is-longer-than-any-topic-is", &h), MT_ERR_INVALID_ARGUMENT,
           "a-topic-name");
  ck_fails(run_with("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", &h), MT_ERR_INVALID_ARGUMENT, "'q'");
  ck_ok(run_with("", &h));
  ck_ok(run_with(",,warn,", &h));
  ck_ok(run_with("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", &h));
}
END_TEST

TEST_MAIN(basics, status_names_are_distinct, last_error_belongs_to_the_thread,
          dtypes_have_sizes_and_names, version_is_the_headers, log_levels_filter,
          log_settings_that_cannot_be_read)
