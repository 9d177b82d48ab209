// SPDX-License-Identifier: Apache-2.0
/* Fails when it sees anything of the program that has the plugin tried out: open files,
 * blocked or ignored signals. The host table of the program itself has a ctx. */
#include "mock.h"

#include <fcntl.h>
#include <signal.h>

MT_PLUGIN_NOTE("sees-program", 10, 0);

static int open_files(void) {
  int count = 0;
  for (int fd = 4; fd < 256; fd++) { /* 3 is the report */
    count += fcntl(fd, F_GETFD) >= 0;
  }
  return count;
}

static int odd_signals(void) {
  sigset_t blocked;
  struct sigaction action;
  int count = 0;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  for (int i = 1; i < 32; i++) {
    count += sigismember(&blocked, i) == 1;
    count += sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
  }
  return count;
}

int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out) {
  if (host->ctx == NULL && (open_files() > 0 || odd_signals() > 0)) {
    return MT_ABI_ERR_BACKEND;
  }
  return mock_answer(mock_table("sees-program"), out);
}
