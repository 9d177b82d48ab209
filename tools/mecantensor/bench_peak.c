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
#include <immintrin.h>

/* Two FMA ports of latency 4 or 5 are kept busy by 10 and more independent chains. */
enum { CHAINS = 12 };

__attribute__((target("avx2,fma"))) static void fma_chains(long rounds) {
  __m256 acc[CHAINS];
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < CHAINS; i++) {
    acc[i] = _mm256_set1_ps((float)i);
  }
  for (long r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) {
      __asm__ volatile("vfmadd213ps %2, %1, %0" : "+x"(acc[i]) : "x"(x), "x"(y));
    }
  }
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
  enum { ROUNDS = 1000000 };
  double start = bench_now();
  fma_chains(ROUNDS);
  return 2.0 * 8 * CHAINS * ROUNDS / (bench_now() - start);
}
#else
double bench_fma_peak(void) {
  return 0;
}
#endif
