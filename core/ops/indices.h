// SPDX-License-Identifier: Apache-2.0
/* indices.h - row numbers that callers give. */
#ifndef MT_CORE_OPS_INDICES_H
#define MT_CORE_OPS_INDICES_H

#include "op.h"

/* Brings them to the host and looks at each: no backend sees one outside 0 .. rows-1. */
mt_status mt_indices_check(const char *op, const mt_tensor *indices, int64_t rows);

#endif
