// SPDX-License-Identifier: Apache-2.0
/* Files and folders that somebody else can write to. */
#include "loader_harness.h"

static const mt_candidate *after_scan(const char *path) {
  scan_path(path);
  ck_assert_uint_eq(bench.count, 1);
  return &bench.list[0];
}

START_TEST(test_file_modes) {
  const struct {
    mode_t mode;
    const char *reason;
  } cases[] = {{0664, "is writable by group (mode 0664): chmod g-w "},
               {0646, "is writable by others (mode 0646): chmod o-w "},
               {0666, "is writable by group and others (mode 0666): chmod go-w "}};
  put_mock("good", "x.so");
  for (size_t i = 0; i < 3; i++) {
    ck_assert_int_eq(chmod(in_folder("x.so"), cases[i].mode), 0);
    const mt_candidate *at = after_scan(bench.folder);
    check_stopped(at, MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED, cases[i].reason);
    ck_assert_ptr_nonnull(strstr(at->reason, in_folder("x.so")));
    ck_assert_str_eq(at->note.name, "");
  }
  ck_assert_int_eq(chmod(in_folder("x.so"), 0500), 0);
  check_found(after_scan(bench.folder));
}
END_TEST

START_TEST(test_folder_modes) {
  const mode_t bad[] = {0775, 0757, 01777};
  make_folder("sub", 0755);
  put_mock("good", "sub/x.so");
  for (size_t i = 0; i < 3; i++) {
    ck_assert_int_eq(chmod(in_folder("sub"), bad[i]), 0);
    const mt_candidate *at = after_scan(in_folder("sub"));
    check_stopped(at, MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED, "sub is writable by ");
    ck_assert_ptr_null(strstr(at->reason, "x.so"));
  }
}
END_TEST

START_TEST(test_folders_above) {
  make_folder("up", 0755);
  make_folder("up/sub", 0755);
  put_mock("good", "up/sub/x.so");
  ck_assert_int_eq(chmod(in_folder("up"), 0777), 0);
  check_stopped(after_scan(in_folder("up/sub")), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "up is writable by others (mode 0777): chmod o-w ");
  ck_assert_int_eq(chmod(in_folder("up"), 01777), 0); /* as /tmp is */
  check_found(after_scan(in_folder("up/sub")));
  ck_assert_int_eq(chmod(in_folder("up"), 02775), 0); /* as /usr/local/lib may be */
  check_found(after_scan(in_folder("up/sub")));
}
END_TEST

/* A link is as good as the place it leads to, and the place it is in. */
START_TEST(test_links) {
  make_folder("links", 0755);
  make_folder("target", 0755);
  put_mock("good", "target/x.so");
  ck_assert_int_eq(symlink("../target/x.so", in_folder("links/x.so")), 0);
  const mt_candidate *at = after_scan(in_folder("links"));
  check_found(at);
  ck_assert_str_eq(at->path, in_folder("links/x.so"));
  check_opens(candidate("links/x.so"));
  ck_assert_int_eq(chmod(in_folder("target"), 0775), 0);
  check_stopped(after_scan(in_folder("links")), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "target is writable by group");
  ck_assert_int_eq(chmod(in_folder("target"), 0755), 0);
  ck_assert_int_eq(chmod(in_folder("links"), 0775), 0);
  check_stopped(after_scan(in_folder("links")), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "links is writable by group");
}
END_TEST

/* Between the scan and the opening, too. */
START_TEST(test_opened_later) {
  put_mock("good", "x.so");
  scan();
  check_found(candidate("x.so"));
  ck_assert_int_eq(chmod(in_folder("x.so"), 0666), 0);
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_UNSUPPORTED);
  check_stopped(candidate("x.so"), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED, "writable");
}
END_TEST

START_TEST(test_replaced_between) {
  put_mock("good", "x.so");
  scan();
  ck_assert_int_eq(unlink(in_folder("x.so")), 0);
  put_mock("abi_1_0", "x.so");
  ck_assert_int_eq(open_it(candidate("x.so")), MT_ERR_UNSUPPORTED);
  check_stopped(candidate("x.so"), MT_PROBE_INSPECT, MT_ERR_UNSUPPORTED, "changed");
}
END_TEST

START_TEST(test_other_owner) {
  if (geteuid() != 0) {
    return; /* only root gives files away; the other way round is test_as_user */
  }
  put_mock("good", "x.so");
  ck_assert_int_eq(chown(in_folder("x.so"), 4711, (gid_t)-1), 0);
  check_stopped(after_scan(bench.folder), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "x.so belongs to uid 4711, expected root or uid 0");
  ck_assert_int_eq(chown(in_folder("x.so"), 0, (gid_t)-1), 0);
  ck_assert_int_eq(chown(bench.folder, 4711, (gid_t)-1), 0);
  check_stopped(after_scan(bench.folder), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "belongs to uid 4711");
}
END_TEST

/* Root's files are fine for everybody, the user's own for the user. */
START_TEST(test_as_user) {
  if (geteuid() != 0) {
    put_mock("good", "x.so");
    check_found(after_scan(bench.folder)); /* the user's own */
    return;
  }
  ck_assert_int_eq(chmod(bench.folder, 0755), 0);
  put_mock("good", "roots.so");
  put_mock("abi_1_0", "users.so");
  put_mock("short_table", "others.so");
  ck_assert_int_eq(chown(in_folder("users.so"), 4711, (gid_t)-1), 0);
  ck_assert_int_eq(chown(in_folder("others.so"), 4712, (gid_t)-1), 0);
  ck_assert_int_eq(seteuid(4711), 0);
  scan();
  ck_assert_int_eq(seteuid(0), 0);
  check_found(candidate("roots.so"));
  check_found(candidate("users.so"));
  check_stopped(candidate("others.so"), MT_PROBE_SECURITY, MT_ERR_UNSUPPORTED,
                "belongs to uid 4712, expected root or uid 4711");
}
END_TEST

START_TEST(test_unreadable) {
  put_mock("good", "x.so");
  if (geteuid() == 0) {
    ck_assert_int_eq(chmod(bench.folder, 0755), 0);
    ck_assert_int_eq(chmod(in_folder("x.so"), 0600), 0);
    ck_assert_int_eq(seteuid(4711), 0);
    scan();
    ck_assert_int_eq(seteuid(0), 0);
  } else {
    ck_assert_int_eq(chmod(in_folder("x.so"), 0), 0);
    scan();
  }
  check_stopped(candidate("x.so"), MT_PROBE_INSPECT, MT_ERR_IO, "Permission denied");
}
END_TEST

LOADER_MAIN(security, test_file_modes, test_folder_modes, test_folders_above, test_links,
            test_opened_later, test_replaced_between, test_other_owner, test_as_user,
            test_unreadable)
