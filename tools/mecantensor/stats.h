// SPDX-License-Identifier: Apache-2.0
/* stats.h - figures of the values of a tensor. */
#ifndef MT_TOOLS_STATS_H
#define MT_TOOLS_STATS_H

#include "common.h"

/* min, max, mean and std (of the population) are of the finite values, as doubles; NaN
 * when there are none. Integers beyond 2^53 round. */
typedef struct value_stats {
  int64_t count, nan, infinite, zero;
  double min, max, mean, std;
} value_stats;

/* Block formats are decoded. Memory: a constant, and a packed copy when the tensor is not
 * contiguous. */
mt_status tensor_stats(mt_tensor *tensor, value_stats *out);

#endif
