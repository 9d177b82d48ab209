// SPDX-License-Identifier: Apache-2.0
/* bench_peak.h - the clock and the limit that measurements are held against. */
#ifndef MT_TOOLS_BENCH_PEAK_H
#define MT_TOOLS_BENCH_PEAK_H

#include <stdbool.h>
#include <stddef.h>

double bench_now(void); /* seconds, monotonic */

/* f32 operations a second of FMAs in registers on this thread, now (a few milliseconds): of 256
 * bits, or of the widest that this CPU has. 0 where there are none. */
double bench_fma_peak(bool widest);

/* Both of `bytes`, a multiple of 256, aligned to 64. */
typedef struct bench_buffers {
  void *from, *to;
  size_t bytes;
} bench_buffers;

/* Bytes a second on this thread, now: of reading `from`; of copying it to `to` by the faster of
 * memcpy() and stores past the caches, where what is read and what is written both count. */
double bench_read_rate(const bench_buffers *buffers);
double bench_copy_rate(const bench_buffers *buffers);

#endif
