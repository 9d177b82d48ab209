// SPDX-License-Identifier: Apache-2.0
#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_archive(data, size, MT_FILE_NPY);
  return 0;
}
