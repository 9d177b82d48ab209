// SPDX-License-Identifier: Apache-2.0
#include "fuzz_archive.h"

#include "io/bytes.h"

/* The first byte says whether the length of the header is set to what fits: the fuzzer
 * would have to find that again after each change of the JSON. The last bytes, up to 64,
 * are the data then. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  uint8_t *file = malloc(size);
  size_t bytes = size - 1, tail = data[0] & 63;
  memcpy(file, data + 1, bytes);
  if ((data[0] & 64) && bytes >= 8 + tail) {
    mt_put_u64(file, bytes - 8 - tail);
  }
  fuzz_archive(file, bytes, MT_FILE_SAFETENSORS);
  free(file);
  return 0;
}
