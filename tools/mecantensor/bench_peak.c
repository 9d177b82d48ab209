// SPDX-License-Identifier: Apache-2.0
/* bench_peak.c - what the processor could do: fused multiply-adds in registers. */
#include "bench_peak.h"

#include <mecantensor/device.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
/* Two FMA ports of latency 4 or 5 are kept busy by 10 and more independent chains. One
 * statement, so that no compiler and no debug build puts anything between them. */
enum { CHAINS = 12 };

#define FMA(register, number)                                                                      \
  "vfmadd231ps %%" register "12, %%" register "12, %%" register number "\n\t"
#define FMA_CHAINS(register)                                                                       \
  __asm__ volatile("vzeroall\n"                                                                    \
                   "1:\n\t" FMA(register, "0") FMA(register, "1") FMA(register, "2")               \
                       FMA(register, "3") FMA(register, "4") FMA(register, "5") FMA(register, "6") \
                           FMA(register, "7") FMA(register, "8") FMA(register, "9")                \
                               FMA(register, "10") FMA(register, "11") "subq $1, %0\n\t"           \
                                                                       "jnz 1b\n\t"                \
                                                                       "vzeroupper"                \
                   : "+r"(rounds)                                                                  \
                   :                                                                               \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",       \
                     "xmm9", "xmm10", "xmm11", "xmm12", "cc")

__attribute__((target("avx2,fma"))) static void fma_chains_256(long rounds) {
  FMA_CHAINS("ymm");
}

__attribute__((target("avx512f"))) static void fma_chains_512(long rounds) {
  FMA_CHAINS("zmm");
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

double bench_fma_peak(bool widest) {
  const char *features = mt_cpu_features();
  bool wide = widest && word_in(features, "avx512f");
  if (!word_in(features, "avx2") || !word_in(features, "fma")) {
    return 0;
  }
  enum { ROUNDS = 2000000 };
  double start = bench_now();
  (wide ? fma_chains_512 : fma_chains_256)(ROUNDS);
  return 2.0 * (wide ? 16 : 8) * CHAINS * ROUNDS / (bench_now() - start);
}
#else
double bench_fma_peak(bool widest) {
  (void)widest;
  return 0;
}
#endif

/* ---- memory ---- */
typedef uint64_t lanes __attribute__((vector_size(32), aligned(32)));
enum { STREAMS = 4 };

/* Four places at once, so that no addition waits for another and more lines are on their way. */
static uint64_t read_all(const void *data, size_t bytes) {
  const lanes *from = data;
  const size_t part = bytes / sizeof(lanes) / STREAMS;
  const lanes *second = from + part, *third = second + part, *fourth = third + part;
  lanes a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
  for (size_t i = 0; i + 2 <= part; i += 2) {
    a += from[i];
    b += from[i + 1];
    c += second[i];
    d += second[i + 1];
    e += third[i];
    f += third[i + 1];
    g += fourth[i];
    h += fourth[i + 1];
  }
  a += b + c + d + e + f + g + h;
  return a[0] + a[1] + a[2] + a[3];
}

/* Past the caches: what is written need not be read first. */
static void copy_past_caches(void *to, const void *from, size_t bytes) {
#if defined(__SSE2__)
  const __m128i *source = from;
  __m128i *target = to;
  for (size_t i = 0; i < bytes / sizeof(*target); i++) {
    _mm_stream_si128(target + i, _mm_load_si128(source + i));
  }
  _mm_sfence();
#else
  memcpy(to, from, bytes);
#endif
}

/* Where results go, so that no compiler leaves the work out. */
static atomic_uint_fast64_t sink;

typedef enum memory_work { READ, COPY, COPY_PAST } memory_work;

static double passes_a_second(const bench_buffers *b, memory_work work) {
  double start = bench_now(), taken;
  int64_t passes = 0;
  do {
    if (work == READ) {
      atomic_store_explicit(&sink, read_all(b->from, b->bytes), memory_order_relaxed);
    } else {
      if (work == COPY) {
        memcpy(b->to, b->from, b->bytes);
      } else {
        copy_past_caches(b->to, b->from, b->bytes);
      }
      atomic_store_explicit(&sink, ((const volatile unsigned char *)b->to)[b->bytes - 1],
                            memory_order_relaxed);
    }
    passes++;
    taken = bench_now() - start;
  } while (taken < 0.02);
  return (double)passes / taken;
}

double bench_read_rate(const bench_buffers *b) {
  return (double)b->bytes * passes_a_second(b, READ);
}

double bench_copy_rate(const bench_buffers *b) {
  double kept = passes_a_second(b, COPY), past = passes_a_second(b, COPY_PAST);
  return 2.0 * (double)b->bytes * (kept > past ? kept : past);
}
