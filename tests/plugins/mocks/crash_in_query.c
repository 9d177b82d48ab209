// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

#include <signal.h>

MOCK("crash-in-query") {
  signal(SIGSEGV, SIG_DFL); /* sanitizers would make an exit code of it */
  table->abi_minor = (uint32_t)raise(SIGSEGV);
}
