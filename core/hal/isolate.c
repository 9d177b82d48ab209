// SPDX-License-Identifier: Apache-2.0
/*
 * Opening and querying a plugin in a helper process (tools/mecantensor-probe), so that a
 * driver that crashes or hangs while it is loaded does so there.
 *
 * The helper reports on a pipe, one line a step:
 *   mecantensor-probe 1      it runs
 *   at open | at query       this is what comes next
 *   fail CODE sentence       the step ended this way (CODE: mt_status)
 *   ok
 * What it finds is a verdict only; the process then opens the plugin itself. An error of
 * dlopen() is not even that: the program may have libraries loaded, or a search path,
 * that the helper does not have, and such an error does no harm here.
 */
#include "../error.h"
#include "loader_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { DEFAULT_LIMIT_MS = 10000, MAX_LIMIT_MS = 3600 * 1000, REPORT_BYTES = 2048, REPORT_FD = 3 };

typedef struct helper_run {
  pid_t pid;
  int pipe; /* our end, -1: closed by the helper */
  long long limit_ms;
  char report[REPORT_BYTES];
  size_t used;
  bool timed_out;
  bool status_known; /* false: the program reaps or ignores its children by itself */
  int status;
} helper_run;

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- settings ----------------------------------------------------------------------- */

static long long time_limit(const mt_logger *log) {
  const char *text = mt_env("MECANTENSOR_PROBE_TIMEOUT_MS");
  char *end = NULL;
  if (!text) {
    return DEFAULT_LIMIT_MS;
  }
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || value < 1 || value > MAX_LIMIT_MS) {
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "MECANTENSOR_PROBE_TIMEOUT_MS: '%s' is ignored: expected 1 .. %d", text,
                 MAX_LIMIT_MS);
    return DEFAULT_LIMIT_MS;
  }
  return value;
}

static bool wants_helper(const mt_logger *log) {
  const char *mode = mt_env("MECANTENSOR_PROBE");
  if (mode && strcmp(mode, "direct") == 0) {
    return false;
  }
  if (mode && strcmp(mode, "helper") != 0) {
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "MECANTENSOR_PROBE: '%s' is ignored: expected helper or direct", mode);
  }
  return true;
}

/* The path of the helper, to be freed; NULL: do without. */
static char *find_helper(const mt_logger *log) {
  const char *path = mt_env("MECANTENSOR_PROBE_HELPER");
  char *real = NULL;
  path = path ? path : MT_LIBEXECDIR "/mecantensor-probe";
  if (path[0] != '/') {
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "MECANTENSOR_PROBE_HELPER: '%s' is not an absolute path: plugins are opened "
                 "without a trial",
                 path);
  } else if (access(path, X_OK) != 0) {
    mt_log_write(log, MT_LOG_INFO, "loader", "%s cannot be run: plugins are opened without a trial",
                 path);
  } else if (mt_secure_path(path, &real) != MT_OK) {
    mt_log_write(log, MT_LOG_WARN, "loader", "%s: plugins are opened without a trial",
                 mt_last_error());
  }
  return real;
}

/* ---- the process -------------------------------------------------------------------- */

/* The signal state of a fresh process, whatever the program made of its own. */
static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  error = error ? error : posix_spawnattr_setsigdefault(attributes, &all);
  return error
             ? error
             : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* The report first: the pipe may be number 0 or 1 in a program that closed those. The helper
 * closes what else it finds open. stderr stays, for what a driver has to say. */
static int set_files(posix_spawn_file_actions_t *files, int report) {
  int error = posix_spawn_file_actions_adddup2(files, report, REPORT_FD);
  error = error ? error : posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  return error ? error : posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
}

static int spawn(helper_run *run, const char *helper, const char *path, const char *name,
                 int report) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  char fd[16];
  snprintf(fd, sizeof(fd), "%d", REPORT_FD);
  char *arguments[] = {(char *)helper, (char *)path, (char *)name, fd, NULL};
  int error = posix_spawn_file_actions_init(&files);
  if (error) {
    return error;
  }
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = set_signals(&attributes);
    error = error ? error : set_files(&files, report);
    error = error ? error : posix_spawn(&run->pid, helper, &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&files);
  return error;
}

static int start(helper_run *run, const char *helper, const char *path, const char *name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return errno;
  }
  int error = fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? errno : 0;
  error = error ? error : spawn(run, helper, path, name, ends[1]);
  close(ends[1]);
  if (error) {
    close(ends[0]);
    return error;
  }
  run->pipe = ends[0];
  return 0;
}

/* Takes what is there; what is too much is dropped. */
static void drain(helper_run *run) {
  char more[512];
  while (run->pipe >= 0) {
    ssize_t n = read(run->pipe, more, sizeof(more));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      if (n == 0 || errno != EAGAIN) {
        close(run->pipe);
        run->pipe = -1;
      }
      return;
    }
    size_t room = sizeof(run->report) - 1 - run->used;
    size_t take = (size_t)n < room ? (size_t)n : room;
    memcpy(run->report + run->used, more, take);
    run->used += take;
  }
}

/* Has the helper ended? Only ever asks for our own child. */
static bool reap(helper_run *run, int options) {
  pid_t pid;
  do {
    pid = waitpid(run->pid, &run->status, options);
  } while (pid < 0 && errno == EINTR);
  run->status_known = pid == run->pid;
  return pid != 0; /* ECHILD: SIGCHLD is ignored, or somebody else took it */
}

static void watch(helper_run *run) {
  long long deadline = now_ms() + run->limit_ms;
  for (;;) {
    drain(run);
    if (reap(run, WNOHANG)) {
      break;
    }
    long long left = deadline - now_ms();
    if (left <= 0) {
      run->timed_out = true;
      kill(run->pid, SIGKILL);
      reap(run, 0);
      break;
    }
    /* A pipe that is closed says nothing more, and one that a child of the helper holds
     * never closes: look at the process now and then. */
    struct pollfd wait = {.fd = run->pipe, .events = POLLIN};
    int slice = run->pipe < 0 ? 1 : 20;
    poll(&wait, 1, left < slice ? (int)left : slice);
  }
  drain(run);
  if (run->pipe >= 0) {
    close(run->pipe);
    run->pipe = -1;
  }
}

/* ---- the report --------------------------------------------------------------------- */

typedef struct helper_report {
  bool greeted, ok;
  const char *step; /* "open", "query" */
  mt_status code;   /* of "fail" */
  const char *text;
} helper_report;

static void read_line(helper_report *report, char *line) {
  if (strcmp(line, "mecantensor-probe 1") == 0) {
    report->greeted = true;
  } else if (strcmp(line, "at open") == 0 || strcmp(line, "at query") == 0) {
    report->step = line + 3;
  } else if (strcmp(line, "ok") == 0) {
    report->ok = true;
  } else if (strncmp(line, "fail ", 5) == 0) {
    char *text;
    long code = strtol(line + 5, &text, 10);
    report->code = code > MT_OK && code <= MT_ERR_TIMEOUT ? (mt_status)code : MT_ERR_BACKEND;
    report->text = *text == ' ' ? text + 1 : text;
  }
}

static helper_report read_report(helper_run *run) {
  helper_report report = {.step = "start"};
  char *rest = run->report, *line;
  run->report[run->used] = '\0';
  while ((line = strsep(&rest, "\n")) != NULL) {
    read_line(&report, line);
  }
  return report;
}

static mt_status say_how_it_ended(const helper_run *run, const char *step) {
  if (run->timed_out) {
    return mt_fail(MT_ERR_TIMEOUT,
                   "hangs in %s: no answer within %lld ms (MECANTENSOR_PROBE_TIMEOUT_MS)", step,
                   run->limit_ms);
  }
  if (!run->status_known) {
    return mt_fail(MT_ERR_BACKEND,
                   "died in %s (the program takes or ignores SIGCHLD, so it is not known how)",
                   step);
  }
  if (WIFSIGNALED(run->status)) {
    return mt_fail(MT_ERR_BACKEND, "crashed in %s: signal %d (%s)", step, WTERMSIG(run->status),
                   strsignal(WTERMSIG(run->status)));
  }
  return mt_fail(MT_ERR_BACKEND, "left the process in %s with exit code %d", step,
                 WEXITSTATUS(run->status));
}

static mt_status judge(helper_run *run, const mt_logger *log, mt_probe_stage *stage) {
  helper_report report = read_report(run);
  if (!report.greeted) {
    say_how_it_ended(run, "start");
    mt_log_write(log, MT_LOG_WARN, "loader",
                 "the helper program %s: plugins are opened without a trial", mt_last_error());
    return MT_OK;
  }
  if (report.text && strcmp(report.step, "open") == 0) {
    return MT_OK;
  }
  if (report.text) {
    *stage = MT_PROBE_QUERY;
    return mt_fail(report.code, "%s", report.text);
  }
  if (report.ok && !run->timed_out) {
    return MT_OK;
  }
  *stage = MT_PROBE_ISOLATE;
  return say_how_it_ended(run, report.ok ? "its end" : report.step);
}

mt_status mt_isolate(const char *path, const char *name, const mt_logger *log,
                     mt_probe_stage *stage) {
  char *helper = wants_helper(log) ? find_helper(log) : NULL;
  if (!helper) {
    return MT_OK;
  }
  helper_run run = {.pipe = -1, .limit_ms = time_limit(log)};
  long long begin = now_ms();
  int error = start(&run, helper, path, name);
  if (error) {
    mt_fail_errno(MT_ERR_IO, error, "%s", helper);
    mt_log_write(log, MT_LOG_INFO, "loader", "%s: plugins are opened without a trial",
                 mt_last_error());
    free(helper);
    return MT_OK;
  }
  watch(&run);
  free(helper);
  mt_log_write(log, MT_LOG_DEBUG, "loader", "%s: tried out in %lld ms", path, now_ms() - begin);
  return judge(&run, log, stage);
}
