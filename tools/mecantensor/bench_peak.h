// SPDX-License-Identifier: Apache-2.0
/* bench_peak.h - the clock and the limit that measurements are held against. */
#ifndef MT_TOOLS_BENCH_PEAK_H
#define MT_TOOLS_BENCH_PEAK_H

#include <stdbool.h>

double bench_now(void); /* seconds, monotonic */

/* f32 operations a second of 256-bit FMAs on this thread, now (a few milliseconds); 0 where
 * there are none. */
double bench_fma_peak(void);

#endif
