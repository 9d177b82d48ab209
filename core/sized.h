// SPDX-License-Identifier: Apache-2.0
/* sized.h - structs of the caller, of the size that the caller was built with. */
#ifndef MT_CORE_SIZED_H
#define MT_CORE_SIZED_H

#include <stddef.h>
#include <string.h>

/* known: as this library has it. What only one side knows is left out, or zero. */
static inline void mt_fill_sized(void *out, size_t out_bytes, const void *known,
                                 size_t known_bytes) {
  size_t both = out_bytes < known_bytes ? out_bytes : known_bytes;
  memcpy(out, known, both);
  memset((char *)out + both, 0, out_bytes - both);
}

#endif
