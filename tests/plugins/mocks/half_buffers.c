// SPDX-License-Identifier: Apache-2.0
#include "mock.h"

static void buffer_free(void *device, void *buffer) {
  (void)device;
  (void)buffer;
}

MOCK("half-buffers") {
  table->buffer_free = buffer_free;
}
