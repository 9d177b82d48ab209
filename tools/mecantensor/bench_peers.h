// SPDX-License-Identifier: Apache-2.0
/* bench_peers.h - other libraries' SGEMM, loaded at run time. */
#ifndef MT_TOOLS_BENCH_PEERS_H
#define MT_TOOLS_BENCH_PEERS_H

#include <stdbool.h>
#include <stdint.h>

/* c [m, n] = a [m, k] b [k, n], all row-major */
typedef struct bench_problem {
  int64_t m, k, n;
  const float *a, *b;
  float *c;
} bench_problem;

typedef struct bench_peer {
  const char *name;
  char library[32]; /* what was loaded */
  char note[96];    /* the kernels it chose, in its words; or why it cannot be used */
  bool usable;
  void (*run)(const struct bench_peer *peer, const bench_problem *problem);
  void (*sgemm)(void); /* as its library declares it */
} bench_peer;

/* Settings of the libraries' own, in the environment: to be called before any is loaded and
 * before threads are started. isa: "avx2", "avx512" or NULL. */
void bench_peers_settle(const char *isa, int threads);

/* Loads the library of this name ("openblas", ...); not usable when it is not installed. */
void bench_peer_load(const char *name, const char *isa, int threads, bench_peer *peer);

#endif
