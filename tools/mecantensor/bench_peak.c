// SPDX-License-Identifier: Apache-2.0
/* bench_peak.c - what the processor could do: fused multiply-adds in registers. */
#include "bench_peak.h"

#include <mecantensor/device.h>
#include <string.h>
#include <time.h>

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
/* Two FMA ports of latency 4 or 5 are kept busy by 10 and more independent chains. One
 * statement, so that no compiler and no debug build puts anything between them. */
enum { CHAINS = 12, LANES = 8 };

__attribute__((target("avx2,fma"))) static void fma_chains(long rounds) {
  __asm__ volatile("vzeroall\n"
                   "1:\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm0\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm1\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm2\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm3\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm4\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm5\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm6\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm7\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm8\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm9\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm10\n\t"
                   "vfmadd231ps %%ymm12, %%ymm12, %%ymm11\n\t"
                   "subq $1, %0\n\t"
                   "jnz 1b\n\t"
                   "vzeroupper"
                   : "+r"(rounds)
                   :
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "cc");
}

static bool word_in(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
    bool starts = at == list || at[-1] == ' ';
    bool ends = at[length] == ' ' || at[length] == '\0';
    if (starts && ends) {
      return true;
    }
  }
  return false;
}

double bench_fma_peak(void) {
  const char *features = mt_cpu_features();
  if (!word_in(features, "avx2") || !word_in(features, "fma")) {
    return 0;
  }
  enum { ROUNDS = 4000000 };
  double start = bench_now();
  fma_chains(ROUNDS);
  return 2.0 * LANES * CHAINS * ROUNDS / (bench_now() - start);
}
#else
double bench_fma_peak(void) {
  return 0;
}
#endif
