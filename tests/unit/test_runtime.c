// SPDX-License-Identifier: Apache-2.0
/* Runtimes: creating and releasing, the grammar of the backend setting, what is found. */
#include "late_harness.h"

static void refused(const char *backend, mt_status status, const char *part) {
  mt_runtime *rt = (mt_runtime *)1;
  ck_fails(create_runtime(backend, &rt), status, part);
  ck_assert_ptr_null(rt);
}

static void accepted(const char *backend) {
  mt_runtime *rt = runtime(backend);
  ck_assert_str_eq(mt_runtime_backend(rt), backend);
  mt_runtime_release(&rt);
  ck_assert_ptr_null(rt);
}

START_TEST(test_create_and_release) {
  mt_runtime *rt = NULL;
  ck_fails(mt_runtime_create(NULL, NULL), MT_ERR_INVALID_ARGUMENT, "out is NULL");
  mt_runtime_release(NULL);
  mt_runtime_release(&rt);
  ck_ok(mt_runtime_create(NULL, &rt));
  ck_assert_str_eq(mt_runtime_backend(rt), "auto");
  ck_ok(mt_runtime_sync(rt));
  mt_runtime_release(&rt);
  ck_assert_ptr_null(rt);
  ck_fails(mt_runtime_sync(NULL), MT_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_str_eq(mt_runtime_backend(NULL), "");
}
END_TEST

/* A program built with a shorter mt_runtime_options, and one that forgot the initializer. */
START_TEST(test_options_sizes) {
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *rt = NULL;
  options.backend = "reference";
  options.log = "no such=level";
  options.struct_size = offsetof(mt_runtime_options, plugin_path);
  ck_ok(mt_runtime_create(&options, &rt));
  ck_assert_str_eq(mt_runtime_backend(rt), "reference");
  mt_runtime_release(&rt);
  options.struct_size = 0;
  ck_fails(mt_runtime_create(&options, &rt), MT_ERR_INVALID_ARGUMENT, "MT_RUNTIME_OPTIONS_INIT");
  options.struct_size = sizeof(options);
  ck_fails(mt_runtime_create(&options, &rt), MT_ERR_INVALID_ARGUMENT, "no such=level");
}
END_TEST

START_TEST(test_grammar) {
  accepted("reference");
  accepted("auto");
  accepted("late");
  accepted("late:1");
  accepted("late:*One*");
  accepted("late:*zero*"); /* names are compared without case */
  accepted("late:1,late:0,reference");
  accepted(" late , reference ");
  accepted("late,auto");
  accepted("late,late:0,late");
}
END_TEST

START_TEST(test_bad_syntax) {
  refused(",", MT_ERR_INVALID_ARGUMENT, "an entry is empty");
  refused("late,", MT_ERR_INVALID_ARGUMENT, "an entry is empty");
  refused("late,,reference", MT_ERR_INVALID_ARGUMENT, "an entry is empty");
  refused("  ", MT_ERR_INVALID_ARGUMENT, "an entry is empty");
  refused(":1", MT_ERR_INVALID_ARGUMENT, "an entry is empty");
  refused("late:", MT_ERR_INVALID_ARGUMENT, "'late:'");
}
END_TEST

START_TEST(test_not_found) {
  refused("nothere", MT_ERR_NOT_FOUND, "backend 'nothere': no plugin of that name");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "found: late"));
  refused("reference,nothere", MT_ERR_NOT_FOUND, "nothere");
  refused("late:2", MT_ERR_NOT_FOUND, "no device 2");
  refused("late:18446744073709551616", MT_ERR_NOT_FOUND, "no device");
  refused("late:*Nine*", MT_ERR_NOT_FOUND, "'*Nine*'");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "late.so"));
}
END_TEST

/* What init says reaches the user, with the file. */
START_TEST(test_init_fails) {
  late_set("DELAY_US", "soon");
  refused("late", MT_ERR_INVALID_ARGUMENT, "setting delay_us is 'soon'");
  ck_assert_ptr_nonnull(strstr(mt_last_error(), "late.so"));
  late_set("DELAY_US", "10");
  accepted("late");
}
END_TEST

START_TEST(test_variable) {
  mt_runtime *rt = NULL;
  setenv("MECANTENSOR_BACKEND", "late:1,reference", 1);
  ck_ok(create_runtime(NULL, &rt));
  ck_assert_str_eq(mt_runtime_backend(rt), "late:1,reference");
  mt_runtime_release(&rt);
  ck_ok(create_runtime("reference", &rt)); /* options come first */
  ck_assert_str_eq(mt_runtime_backend(rt), "reference");
  mt_runtime_release(&rt);
  setenv("MECANTENSOR_BACKEND", "", 1); /* as if it were not set */
  ck_ok(create_runtime(NULL, &rt));
  ck_assert_str_eq(mt_runtime_backend(rt), "auto");
  mt_runtime_release(&rt);
}
END_TEST

/* Priority 0 is never chosen by itself; that nothing is left is said once. */
START_TEST(test_auto_without_plugins) {
  mt_runtime *rt = runtime("auto");
  for (int i = 0; i < 3; i++) {
    mt_tensor *a = ramp2(2, 3, i), *out = NULL;
    ck_ok(mt_relu(rt, a, &out));
    check_on(out, "host");
    DROP(&a, &out);
  }
  ck_assert_int_eq(logged("auto: no backend is usable"), 1);
  ck_assert_uint_eq(stats_of(rt, "relu", "reference").calls, 3);
  ck_assert_uint_eq(stats_of(rt, "relu", "reference").fallbacks, 0);
  mt_runtime_release(&rt);
}
END_TEST

/* "auto" goes on to the next when one cannot be used, and says why when asked. */
static void auto_skips(const char *key, const char *value, const char *reason) {
  late_set(key, value);
  mt_runtime *rt = runtime("auto");
  mt_tensor *a = ramp2(2, 3, 1), *out = NULL;
  rt->candidates[0].priority = 300; /* as plugins.d can say */
  ck_ok(mt_relu(rt, a, &out));
  check_on(out, "host");
  ck_assert_int_eq(logged(reason), 1);
  DROP(&a, &out);
  mt_runtime_release(&rt);
  unsetenv("MECANTENSOR_LATE_DEVICES");
}

START_TEST(test_auto_skips_what_fails) {
  auto_skips("DEVICES", "0", "auto: late is skipped: devices: it found no device");
  auto_skips("FAIL_OPEN", "1", "auto: late is skipped: late:0: open: injected: device 0");
  auto_skips("SEED", "x", "auto: late is skipped: init: setting seed");
}
END_TEST

START_TEST(test_fails_to_open) {
  late_set("FAIL_OPEN", "1");
  refused("late:1", MT_ERR_BACKEND, "injected: device 1 does not open");
  late_set("FAIL_OPEN", "0");
  late_set("FAIL_INFO", "1"); /* what was found of device 0 is not lost to LeakSanitizer */
  refused("late", MT_ERR_BACKEND, "devices: injected: device 1 has no description");
  late_set("FAIL_INFO", "0");
  late_set("DEVICES", "1");
  refused("late:1", MT_ERR_NOT_FOUND, "no device 1");
  late_set("DEVICES", "0");
  refused("late", MT_ERR_NOT_FOUND, "it found no device");
}
END_TEST

START_TEST(test_devices) {
  mt_runtime *rt = runtime("late:1,reference");
  mt_device_info info;
  ck_assert_uint_eq(mt_runtime_device_count(rt), LATE_DEVICES);
  ck_ok(mt_runtime_device_get(rt, 0, &info));
  ck_assert_str_eq(info.backend, "late");
  ck_assert_str_eq(info.name, "Late Accelerator Zero");
  ck_assert_str_eq(info.pci, "0000:01:00.0");
  ck_assert(!info.selected && !info.host_memory && !info.unified_memory);
  ck_ok(mt_runtime_device_get(rt, 1, &info));
  ck_assert_uint_eq(info.index, 1);
  ck_assert(info.selected && info.memory_bytes > 0);
  ck_assert_int_eq(info.kind, MT_DEVICE_OTHER);
  ck_fails(mt_runtime_device_get(rt, 2, &info), MT_ERR_NOT_FOUND, "2");
  ck_fails(mt_runtime_device_get(rt, 0, NULL), MT_ERR_INVALID_ARGUMENT, "NULL");
  mt_runtime_release(&rt);
}
END_TEST

/* Nothing is opened that was not asked for, until all is. */
START_TEST(test_probe_records) {
  mt_runtime *rt = runtime("reference");
  mt_probe_record record;
  ck_assert_uint_eq(mt_runtime_device_count(rt), 0);
  ck_assert_uint_eq(mt_runtime_probe_count(rt), 1);
  ck_ok(mt_runtime_probe_get(rt, 0, &record));
  ck_assert_str_eq(record.name, "late");
  ck_assert_int_eq(record.code, MT_OK);
  ck_assert(!record.opened);
  ck_ok(mt_runtime_probe_all(rt));
  ck_ok(mt_runtime_probe_get(rt, 0, &record));
  ck_assert(record.opened);
  ck_assert_int_eq(record.stage, MT_PROBE_READY);
  ck_assert_str_eq(record.version, "1.0");
  ck_assert_uint_eq(record.devices, LATE_DEVICES);
  ck_assert_uint_eq(mt_runtime_device_count(rt), LATE_DEVICES);
  ck_fails(mt_runtime_probe_get(rt, 1, &record), MT_ERR_NOT_FOUND, "1 of 1");
  mt_op_stats stats;
  ck_assert_uint_eq(mt_runtime_stats_count(rt), 0);
  ck_fails(mt_runtime_stats_get(rt, 0, &stats), MT_ERR_NOT_FOUND, "row 0");
  mt_runtime_release(&rt);
}
END_TEST

/* Instances of one plugin stand alone. */
START_TEST(test_several_at_once) {
  mt_runtime *rt[4];
  mt_tensor *out[4] = {NULL};
  for (int i = 0; i < 4; i++) {
    rt[i] = runtime(i % 2 ? "late:1" : "late");
  }
  for (int i = 0; i < 4; i++) {
    mt_tensor *a = ramp2(3, 4, i), *b = ramp2(3, 4, i + 1);
    ck_ok(mt_add(rt[i], a, b, &out[i]));
    check_on(out[i], i % 2 ? "late:1" : "late:0");
    DROP(&a, &b);
  }
  for (int i = 0; i < 4; i++) {
    ck_assert_uint_eq(counters(late_of(rt[i]), (uint32_t)i % 2).executes, 1);
    float *got = values(out[i]);
    for (int n = 0; n < 12; n++) {
      ck_assert(got[n] == ramp_value(n, i) + ramp_value(n, i + 1));
    }
    free(got);
    mt_tensor_release(&out[i]);
    mt_runtime_release(&rt[i]);
  }
}
END_TEST

/* Loading and selecting from several threads; each has its own error. */
static void *create_many(void *arg) {
  const char *backend = arg;
  for (int i = 0; i < 10; i++) {
    mt_runtime *rt = NULL;
    if (create_runtime(backend, &rt) != MT_OK || mt_runtime_probe_all(rt) != MT_OK) {
      return (void *)"create";
    }
    mt_tensor *a = ramp2(4, 4, i), *out = NULL;
    mt_status status = mt_relu(rt, a, &out);
    mt_runtime_release(&rt);
    const void *data;
    bool right = status == MT_OK && mt_tensor_read(out, &data) == MT_OK;
    for (int n = 0; right && n < 16; n++) {
      float x = ramp_value(n, i);
      right = ((const float *)data)[n] == (x < 0 ? 0 : x);
    }
    DROP(&a, &out);
    if (!right) {
      return (void *)"wrong result";
    }
  }
  return NULL;
}

START_TEST(test_from_threads) {
  static const char *const backends[] = {"late", "late:1,reference", "auto", "reference"};
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(pthread_create(&thread[i], NULL, create_many, (void *)backends[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    ck_assert_msg(wrong == NULL, "%s: %s", backends[i], (const char *)wrong);
  }
}
END_TEST

/* A program built with shorter structs, and one built with longer ones. */
START_TEST(test_structs_of_other_sizes) {
  struct {
    mt_op_stats stats;
    uint64_t later;
  } longer;
  unsigned char shorter[sizeof(const char *) + 1];
  mt_runtime_options options = MT_RUNTIME_OPTIONS_INIT;
  mt_runtime *rt = NULL;
  options.backend = "reference";
  ck_ok(mt_runtime_create(&options, &rt));
  mt_tensor *x = NULL, *y = NULL;
  ck_ok(mt_tensor_create(MT_F32, 0, NULL, &x));
  ck_ok(mt_relu(rt, x, &y));
  memset(&longer, 0xff, sizeof(longer));
  ck_ok(mt_runtime_stats_get_sized(rt, 0, &longer.stats, sizeof(longer)));
  ck_assert_str_eq(longer.stats.op, "relu");
  ck_assert_uint_eq(longer.later, 0);
  memset(shorter, 0xff, sizeof(shorter));
  ck_ok(mt_runtime_stats_get_sized(rt, 0, (mt_op_stats *)(void *)shorter, sizeof(const char *)));
  ck_assert_int_eq(memcmp(shorter, &longer.stats.op, sizeof(const char *)), 0);
  ck_assert_uint_eq(shorter[sizeof(const char *)], 0xff);
  mt_tensor_release(&x);
  mt_tensor_release(&y);
  mt_runtime_release(&rt);
}
END_TEST

TEST_MAIN(runtime, test_structs_of_other_sizes, test_create_and_release, test_options_sizes,
          test_grammar, test_bad_syntax, test_not_found, test_init_fails, test_variable,
          test_auto_without_plugins, test_auto_skips_what_fails, test_fails_to_open, test_devices,
          test_probe_records, test_several_at_once, test_from_threads)
