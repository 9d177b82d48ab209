// SPDX-License-Identifier: Apache-2.0
/*
 * bench_peers.c - OpenBLAS, BLIS and oneDNN through dlopen(): nothing of theirs is needed to
 * build this program.
 */
#include "bench_peers.h"

#include "bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_matmul_contenders[] = {"openblas", "blis", "onednn", NULL};

/* From cblas.h: CblasRowMajor, CblasNoTrans. */
enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111 };

typedef void cblas_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c,
                            int ldc);
/* dnnl.h; dnnl_dim_t is int64_t, 0 is success. Row-major. */
typedef int dnnl_sgemm_fn(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc);

typedef void function(void);

/* POSIX's way from dlsym() to a function pointer */
static function *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  function *result = NULL;
  memcpy(&result, &symbol, sizeof(result));
  return result;
}

static void run_cblas(const bench_peer *peer, const bench_problem *p) {
  ((cblas_sgemm_fn *)peer->sgemm)(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_NO_TRANS, (int)p->m,
                                  (int)p->n, (int)p->k, 1.0f, p->a, (int)p->k, p->b, (int)p->n,
                                  0.0f, p->c, (int)p->n);
}

static void run_dnnl(const bench_peer *peer, const bench_problem *p) {
  ((dnnl_sgemm_fn *)peer->sgemm)('N', 'N', p->m, p->n, p->k, 1.0f, p->a, p->k, p->b, p->n, 0.0f,
                                 p->c, p->n);
}

/* ---- settings before loading ---- */
void bench_peers_settle(const char *isa, int threads) {
  /* Left over from elsewhere, these would slow OpenBLAS down. */
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  if (isa != NULL) {
    bool wide = strcmp(isa, "avx512") == 0;
    const char *onednn = wide ? "AVX512_CORE" : "AVX2";
    setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : "Haswell", 1);
    setenv("ONEDNN_MAX_CPU_ISA", onednn, 1);
    setenv("DNNL_MAX_CPU_ISA", onednn, 1); /* its name up to oneDNN 2 */
  }
  char count[16];
  snprintf(count, sizeof(count), "%d", threads);
  setenv("OMP_NUM_THREADS", count, 1);
  setenv("OPENBLAS_NUM_THREADS", count, 1);
  setenv("BLIS_NUM_THREADS", count, 1);
}

/* ---- one loader for each ---- */
static bool load_openblas(void *library, const char *isa, int threads, bench_peer *peer) {
  (void)isa;
  void (*set_threads)(int) = (void (*)(int))find(library, "openblas_set_num_threads");
  char *(*core)(void) = (char *(*)(void))find(library, "openblas_get_corename");
  peer->sgemm = find(library, "cblas_sgemm");
  peer->run = run_cblas;
  if (set_threads != NULL) {
    set_threads(threads);
  }
  snprintf(peer->note, sizeof(peer->note), "%s", core != NULL ? core() : "");
  return peer->sgemm != NULL;
}

/* BLIS 0.9 takes a number where later ones take a name, and the numbers differ between
 * releases. The library's own table of names tells which. */
static void choose_blis_kernels(const char *(*name_of)(int), const char *isa) {
  const char *wanted = strcmp(isa, "avx512") == 0 ? "skx" : "haswell";
  for (int id = 0; id < 32; id++) {
    const char *name = name_of(id);
    if (name == NULL || strcmp(name, "generic") == 0) {
      return;
    }
    if (strcmp(name, wanted) == 0) {
      char number[16];
      snprintf(number, sizeof(number), "%d", id);
      setenv("BLIS_ARCH_TYPE", number, 1);
      return;
    }
  }
}

static bool load_blis(void *library, const char *isa, int threads, bench_peer *peer) {
  const char *(*name_of)(int) = (const char *(*)(int))find(library, "bli_arch_string");
  int (*query)(void) = (int (*)(void))find(library, "bli_arch_query_id");
  function *init = find(library, "bli_init");
  function *set_threads = find(library, "bli_thread_set_num_threads");
  if (name_of != NULL && isa != NULL) {
    choose_blis_kernels(name_of, isa);
  }
  if (init != NULL) {
    init(); /* reads the variable */
  }
  if (set_threads != NULL) {
    ((void (*)(int64_t))set_threads)(threads); /* dim_t */
  }
  if (name_of != NULL && query != NULL) {
    snprintf(peer->note, sizeof(peer->note), "%s", name_of(query()));
  }
  peer->sgemm = find(library, "cblas_sgemm");
  peer->run = run_cblas;
  return peer->sgemm != NULL;
}

static bool load_onednn(void *library, const char *isa, int threads, bench_peer *peer) {
  (void)isa;
  (void)threads; /* OMP_NUM_THREADS */
  int (*effective)(void) = (int (*)(void))find(library, "dnnl_get_effective_cpu_isa");
  if (effective != NULL) {
    /* dnnl_cpu_isa_t: bits that add up, AVX2 is 0x7 and AVX-512 starts at 0x27 */
    int bits = effective();
    snprintf(peer->note, sizeof(peer->note), "isa 0x%x%s", (unsigned)bits,
             bits == 0x7 ? " (avx2)" : "");
  }
  peer->sgemm = find(library, "dnnl_sgemm");
  peer->run = run_dnnl;
  return peer->sgemm != NULL;
}

typedef struct peer_source {
  const char *name;
  const char *libraries[4]; /* newest first; NULL ends */
  bool (*load)(void *library, const char *isa, int threads, bench_peer *peer);
} peer_source;

static const peer_source sources[] = {
    {"openblas", {"libopenblas.so.0"}, load_openblas},
    {"blis", {"libblis.so.5", "libblis.so.4", "libblis.so.3"}, load_blis},
    {"onednn", {"libdnnl.so.3", "libdnnl.so.2"}, load_onednn},
};

static void load_from(const peer_source *source, const char *isa, int threads, bench_peer *peer) {
  for (int i = 0; source->libraries[i] != NULL; i++) {
    void *library = dlopen(source->libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      continue;
    }
    snprintf(peer->library, sizeof(peer->library), "%s", source->libraries[i]);
    peer->usable = source->load(library, isa, threads, peer);
    if (!peer->usable) {
      snprintf(peer->note, sizeof(peer->note), "%s has no sgemm", source->libraries[i]);
    }
    return;
  }
  snprintf(peer->note, sizeof(peer->note), "not found: %s", source->libraries[0]);
}

void bench_peer_load(const char *name, const char *isa, int threads, bench_peer *peer) {
  memset(peer, 0, sizeof(*peer));
  peer->name = name;
  for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
    if (strcmp(sources[i].name, name) == 0) {
      load_from(&sources[i], isa, threads, peer);
    }
  }
}
