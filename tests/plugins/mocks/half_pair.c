// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

static void plan_free(void *device, void *plan) {
  (void)device;
  (void)plan;
}

MOCK("half-pair") {
  table->plan_free = plan_free;
}
