// SPDX-License-Identifier: Apache-2.0
/* Which files are found, in which order, and what stops them before they are opened. */
#include "loader_harness.h"

/* ---- search ------------------------------------------------------------------------------- */

START_TEST(test_sorted_exact_names) {
  put_mock("good", "b.so");
  put_mock("abi_1_0", "a.so");
  put_mock("short_table", "C.so");
  const char *not_ours[] = {"x.so.1", "x.la", "xso", ".so", ".hidden.so", "x.SO"};
  for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++) {
    put_mock("twin", not_ours[i]);
  }
  scan();
  ck_assert_uint_eq(bench.count, 3);
  ck_assert_str_eq(bench.list[0].path, in_folder("C.so"));
  ck_assert_str_eq(bench.list[1].path, in_folder("a.so"));
  ck_assert_str_eq(bench.list[2].path, in_folder("b.so"));
  check_found(&bench.list[2]);
  ck_assert_str_eq(bench.list[2].note.name, "good");
  ck_assert_int_eq(bench.list[2].priority, 10);
}
END_TEST

START_TEST(test_nothing_there) {
  scan();
  ck_assert_uint_eq(bench.count, 0);
  scan_path("");
  ck_assert_uint_eq(bench.count, 0);
  scan_path("::/does/not/exist:");
  ck_assert_uint_eq(bench.count, 0);
  check_logged(MT_LOG_INFO, "/does/not/exist");
}
END_TEST

START_TEST(test_relative_folder) {
  put_mock("good", "good.so");
  ck_assert_int_eq(chdir(bench.folder), 0);
  scan_path(".:plugins");
  ck_assert_uint_eq(bench.count, 0);
  check_logged(MT_LOG_WARN, "'plugins' is not searched: it is not an absolute path");
}
END_TEST

START_TEST(test_folders_in_order_and_once) {
  char path[512];
  make_folder("z", 0755);
  make_folder("a", 0755);
  put_mock("good", "z/one.so");
  put_mock("abi_1_0", "a/two.so");
  ck_assert_int_eq(symlink("z", in_folder("again")), 0);
  snprintf(path, sizeof(path), "%s:%s/:%s:%s", in_folder("z"), in_folder("a"), in_folder("again"),
           in_folder("z"));
  scan_path(path);
  ck_assert_uint_eq(bench.count, 2);
  ck_assert_str_eq(bench.list[0].path, in_folder("z/one.so"));
  ck_assert_str_eq(bench.list[1].path, in_folder("a/two.so"));
}
END_TEST

START_TEST(test_path_from_environment) {
  mt_loader_config config = {.log = &bench.logger};
  put_mock("good", "good.so");
  setenv("MECANTENSOR_PLUGIN_PATH", bench.folder, 1);
  setenv("MECANTENSOR_PLUGIN_PATH_ONLY", "yes", 1);
  ck_ok(mt_loader_scan(&config, &bench.list, &bench.count));
  ck_assert_uint_ge(bench.count, 1); /* the built-in folder comes after */
  ck_assert_str_eq(bench.list[0].path, in_folder("good.so"));
  check_logged(MT_LOG_WARN, "MECANTENSOR_PLUGIN_PATH_ONLY: 'yes' is ignored");
  mt_loader_free(bench.list, bench.count);
  setenv("MECANTENSOR_PLUGIN_PATH_ONLY", "1", 1);
  ck_ok(mt_loader_scan(&config, &bench.list, &bench.count));
  ck_assert_uint_eq(bench.count, 1);
}
END_TEST

START_TEST(test_what_is_no_file) {
  make_folder("folder.so", 0755);
  ck_assert_int_eq(mkfifo(in_folder("fifo.so"), 0644), 0);
  ck_assert_int_eq(symlink("nowhere", in_folder("broken.so")), 0);
  scan();
  check_stopped(candidate("folder.so"), MT_PROBE_INSPECT, MT_ERR_CORRUPT, "not a regular file");
  check_stopped(candidate("fifo.so"), MT_PROBE_INSPECT, MT_ERR_CORRUPT, "not a regular file");
  check_stopped(candidate("broken.so"), MT_PROBE_SECURITY, MT_ERR_IO, "No such file");
}
END_TEST

/* ---- names -------------------------------------------------------------------------------- */

START_TEST(test_first_of_a_name_wins) {
  put_mock("good", "a.so");
  put_mock("twin", "b.so");
  scan();
  check_found(candidate("a.so"));
  check_stopped(candidate("b.so"), MT_PROBE_FILTER, MT_ERR_UNSUPPORTED, "the name 'good'");
  ck_assert_ptr_nonnull(strstr(candidate("b.so")->reason, in_folder("a.so")));
  ck_assert_str_eq(candidate("b.so")->note.name, "good");
  ck_assert_int_eq(open_it(candidate("b.so")), MT_ERR_UNSUPPORTED);
}
END_TEST

/* One that is refused does not take the name. */
START_TEST(test_refused_gives_the_name_free) {
  put_mock("good", "a.so");
  put_mock("twin", "b.so");
  ck_assert_int_eq(chmod(in_folder("a.so"), 0666), 0);
  scan();
  check_stopped(candidate("a.so"), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED, "writable");
  check_found(candidate("b.so"));
}
END_TEST

START_TEST(test_filter) {
  const struct {
    const char *setting;
    bool good, old;
  } cases[] = {
      {"", true, true},          {"*", true, true},
      {"good", true, false},     {"-good", false, true},
      {"go*", true, false},      {"*,-go*", false, true},
      {"-go*,*", false, true},   {"good,abi-1-0", true, true},
      {"nothing", false, false}, {",good,", true, false},
      {"-", true, true},         {"g??d", true, false},
      {"-*", false, false},      {"GOOD", false, false},
      {"[a-f]*", false, true},
  };
  put_mock("good", "good.so");
  put_mock("abi_1_0", "old.so");
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    setenv("MECANTENSOR_PLUGINS", cases[i].setting, 1);
    scan();
    const mt_candidate *good = candidate("good.so"), *old = candidate("old.so");
    ck_assert_msg((good->code == MT_OK) == cases[i].good, "'%s': good", cases[i].setting);
    ck_assert_msg((old->code == MT_OK) == cases[i].old, "'%s': old", cases[i].setting);
    if (!cases[i].good) {
      check_stopped(good, MT_PROBE_FILTER, MT_ERR_UNSUPPORTED, cases[i].setting);
    }
  }
}
END_TEST

START_TEST(test_filter_of_the_program_wins) {
  mt_loader_config config = {
      .plugin_path = bench.folder, .path_only = true, .plugins = "-*", .log = &bench.logger};
  setenv("MECANTENSOR_PLUGINS", "*", 1);
  put_mock("good", "good.so");
  ck_ok(mt_loader_scan(&config, &bench.list, &bench.count));
  check_stopped(candidate("good.so"), MT_PROBE_FILTER, MT_ERR_UNSUPPORTED, "'-*'");
}
END_TEST

/* ---- plugins.d ---------------------------------------------------------------------------- */

static void put_rules(const char *name, const char *text) {
  write_file(name, text, strlen(text));
}

START_TEST(test_rules) {
  put_mock("good", "good.so");
  put_mock("abi_1_0", "old.so");
  make_folder("plugins.d", 0755);
  put_rules("plugins.d/10-a.conf", "# the vendor's\r\npriority good 77\n\n"
                                   "disable abi-*   # for now\npriority abi-1-0 5");
  put_rules("plugins.d/20-b.conf", "\t priority   good\t-3\n");
  put_rules("plugins.d/30-c.conf.bak", "disable *\n");
  scan();
  check_found(candidate("good.so"));
  ck_assert_int_eq(candidate("good.so")->priority, -3);
  check_stopped(candidate("old.so"), MT_PROBE_FILTER, MT_ERR_UNSUPPORTED, "'disable abi-*' in ");
  ck_assert_ptr_nonnull(strstr(candidate("old.so")->reason, in_folder("plugins.d/10-a.conf:4")));
  ck_assert_int_eq(candidate("old.so")->priority, 5);
}
END_TEST

START_TEST(test_wrong_rules_are_named) {
  put_mock("good", "good.so");
  make_folder("plugins.d", 0755);
  put_rules("plugins.d/a.conf", "enable good\npriority good\npriority good much\n"
                                "priority good 99999999999\ndisable\ndisable a b\n"
                                "priority good 1 2\npriority good 7\n");
  char zeros[16] = "disable good\n";
  write_file("plugins.d/b.conf", zeros, sizeof(zeros));
  char *big = malloc(70000);
  memset(big, '#', 70000);
  write_file("plugins.d/c.conf", big, 70000);
  free(big);
  ck_assert_int_eq(mkfifo(in_folder("plugins.d/d.conf"), 0644), 0);
  make_folder("plugins.d/e.conf", 0755);
  scan();
  check_found(candidate("good.so"));
  ck_assert_int_eq(candidate("good.so")->priority, 7);
  for (int line = 1; line <= 7; line++) {
    char where[64];
    snprintf(where, sizeof(where), "plugins.d/a.conf:%d: the line is ignored", line);
    check_logged(MT_LOG_WARN, where);
  }
  check_logged(MT_LOG_WARN, "b.conf: not a text file");
  check_logged(MT_LOG_WARN, "c.conf: not a regular file of at most");
  check_logged(MT_LOG_WARN, "d.conf: not a regular file of at most");
  check_logged(MT_LOG_WARN, "e.conf: not a regular file of at most");
}
END_TEST

START_TEST(test_rules_folder) {
  setenv("MECANTENSOR_CONFIG_DIR", "etc", 1);
  scan();
  check_logged(MT_LOG_WARN, "MECANTENSOR_CONFIG_DIR: 'etc' is ignored");
  char *deep = malloc(6000);
  memset(deep, 'a', 6000);
  deep[0] = '/';
  deep[5999] = '\0';
  setenv("MECANTENSOR_CONFIG_DIR", deep, 1);
  free(deep);
  scan();
  check_logged(MT_LOG_WARN, "too long");
}
END_TEST

/* ---- CPU ---------------------------------------------------------------------------------- */

START_TEST(test_missing_cpu_feature) {
  put_mock("needs_cpu", "x.so");
  scan();
  check_stopped(candidate("x.so"), MT_PROBE_CPU, MT_ERR_UNSUPPORTED,
                "needs CPU features feature-63: this machine lacks feature-63");
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_UNSUPPORTED); /* its constructor aborts */
}
END_TEST

START_TEST(test_cpu_words) {
  char text[512], small[8];
  uint64_t caches[3];
  ck_assert_uint_eq(mt_cpu_detect(), mt_cpu_detect());
  ck_assert_str_eq(mt_cpu_describe(0, text, sizeof(text)), "");
  ck_assert_str_eq(mt_cpu_describe(UINT64_C(3) << 62, text, sizeof(text)), "feature-62 feature-63");
  ck_assert_str_eq(mt_cpu_describe(UINT64_C(3) << 62, small, sizeof(small)), "feature");
  for (int i = 0; i < 64; i++) {
    if (mt_cpu_detect() >> i & 1) { /* whatever is found has a name */
      mt_cpu_describe(UINT64_C(1) << i, text, sizeof(text));
      ck_assert_ptr_null(strstr(text, "feature-"));
      ck_assert_uint_gt(strlen(text), 0);
    }
  }
  mt_cpu_caches(caches);
  for (int i = 0; i < 3; i++) {
    ck_assert_uint_lt(caches[i], UINT64_C(1) << 36);
    ck_assert(caches[i] == 0 || caches[i] >= 1024);
  }
}
END_TEST

#if defined(__x86_64__)
/* The compiler's own detection, which knows XCR0 too. */
START_TEST(test_cpu_agrees_with_compiler) {
  uint64_t found = mt_cpu_detect();
  __builtin_cpu_init();
#define AGREE(bit, name) ck_assert_int_eq((found & (bit)) != 0, __builtin_cpu_supports(name) != 0)
  AGREE(MT_CPU_X86_SSE42, "sse4.2");
  AGREE(MT_CPU_X86_POPCNT, "popcnt");
  AGREE(MT_CPU_X86_AVX, "avx");
  AGREE(MT_CPU_X86_FMA, "fma");
  AGREE(MT_CPU_X86_BMI1, "bmi");
  AGREE(MT_CPU_X86_BMI2, "bmi2");
  AGREE(MT_CPU_X86_AVX2, "avx2");
  AGREE(MT_CPU_X86_AVX512F, "avx512f");
  AGREE(MT_CPU_X86_AVX512BW, "avx512bw");
  AGREE(MT_CPU_X86_AVX512CD, "avx512cd");
  AGREE(MT_CPU_X86_AVX512DQ, "avx512dq");
  AGREE(MT_CPU_X86_AVX512VL, "avx512vl");
  AGREE(MT_CPU_X86_AVX512VNNI, "avx512vnni");
  AGREE(MT_CPU_X86_AVX512VBMI, "avx512vbmi");
  AGREE(MT_CPU_X86_AVX512VBMI2, "avx512vbmi2");
  AGREE(MT_CPU_X86_AVX512BITALG, "avx512bitalg");
  AGREE(MT_CPU_X86_AVX512VPOPCNTDQ, "avx512vpopcntdq");
  AGREE(MT_CPU_X86_GFNI, "gfni");
}
END_TEST
#else
START_TEST(test_cpu_agrees_with_compiler) {
  ck_assert_uint_eq(mt_cpu_detect() >> 6, 0); /* no more bits have a meaning elsewhere */
}
END_TEST
#endif

LOADER_MAIN(scan, test_sorted_exact_names, test_nothing_there, test_relative_folder,
            test_folders_in_order_and_once, test_path_from_environment, test_what_is_no_file,
            test_first_of_a_name_wins, test_refused_gives_the_name_free, test_filter,
            test_filter_of_the_program_wins, test_rules, test_wrong_rules_are_named,
            test_rules_folder, test_missing_cpu_feature, test_cpu_words,
            test_cpu_agrees_with_compiler)
