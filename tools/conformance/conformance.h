// SPDX-License-Identifier: Apache-2.0
/*
 * conformance.h - does a backend compute what the reference computes?
 *
 * Each op has one body (op_*.c): it makes inputs, says how to call the op and how far the
 * result may be off, and gives that to conf_check(). The engine runs the call on the
 * reference and on the backend, and compares. Only the public API is used, so the same
 * bodies serve any backend, also one whose source is elsewhere.
 *
 * A case that a backend answers UNSUPPORTED to is counted with its reason, not as passed.
 */
#ifndef MT_CONFORMANCE_H
#define MT_CONFORMANCE_H

#include <mecantensor/mecantensor.h>
#include <stdio.h>

enum { CONF_INPUTS = 8, CONF_OUTPUTS = 4, CONF_TEXT = 512 };

/* ---- how operands lie in memory (operands.c) ----------------------------------------- */
typedef enum conf_layout {
  CONF_PACKED,
  CONF_TRANSPOSED, /* axes stored in reverse */
  CONF_SLICED,     /* steps of 2 along the last axis, a frame around the others */
  CONF_BROADCAST,  /* stride 0 on some axes; inputs only */
  CONF_OFFSET,     /* one element behind an aligned address */
  CONF_MISALIGNED, /* one byte behind one */
  CONF_REVERSED,   /* negative strides */
  CONF_LAYOUTS
} conf_layout;

typedef enum conf_fill_kind {
  CONF_INTEGERS, /* whole numbers lo .. hi: results are exact in any order */
  CONF_UNIFORM,  /* lo .. hi */
  CONF_BITS,     /* any bit pattern (integers), wide magnitudes (floats) */
  CONF_SPECIALS, /* NaN, infinities, zeros of both signs, denormals, largest ... */
  CONF_SPARKS,   /* integers with a NaN or infinity here and there */
} conf_fill_kind;

typedef struct conf_fill {
  conf_fill_kind kind;
  double lo, hi;
} conf_fill;

typedef struct conf_operand {
  mt_tensor *view;
  mt_tensor *base; /* what view is cut out of; NULL: nothing around it to look at */
} conf_operand;

/* ---- one run: one op on one backend with one seed --------------------------------------- */
typedef struct conf_cell { /* of the summary: op x dtype */
  long passed, unsupported, failed;
  long empty;       /* right, but no backend is asked where there is nothing to compute */
  char reason[160]; /* of the first refusal */
} conf_cell;

typedef struct conf {
  mt_runtime *reference, *backend;
  FILE *log;         /* where failures are told */
  const char *label; /* "cpu-avx2:0" */
  const char *op;
  mt_dtype dtype;
  uint64_t seed, random;
  bool large;       /* also the cases that are there for threads */
  long number;      /* of the case, from 1 */
  uint64_t thin;    /* > 1: only every so manieth case is run */
  conf_cell *cell;  /* counts go here */
  int reports_left; /* failures still to be printed */
  bool broken;      /* no memory: the run means nothing */
} conf;

void conf_seed(conf *c, uint64_t seed);
uint32_t conf_below(conf *c, uint32_t n); /* 0 .. n-1, n > 0 */
double conf_unit(conf *c);                /* 0 <= x < 1 */
conf_layout conf_any_layout(conf *c);

/* Is the case of this number one that is not run (thin)? */
bool conf_left_out(const conf *c, long number);

/* A tensor with random content. Failure: .view NULL, c->broken; also NULL for a case that is left
 * out. */
conf_operand conf_make(conf *c, mt_dtype dtype, int rank, const int64_t *shape, conf_layout layout,
                       conf_fill fill);
/* A tensor for a result: every byte around and in it is 0xff. */
conf_operand conf_make_out(conf *c, mt_dtype dtype, int rank, const int64_t *shape,
                           conf_layout layout);
void conf_operand_release(conf_operand *operand);

/* Packed elements as doubles (free() it); NULL: no memory (c->broken), or empty. */
double *conf_values(conf *c, const mt_tensor *tensor);
double conf_element(mt_dtype dtype, const void *packed, int64_t index);
bool conf_is_float(mt_dtype dtype);

/* ---- bounds (operands.c) ------------------------------------------------------------------ */
/* Distance of neighbouring numbers of the dtype around x. */
double conf_spacing(mt_dtype dtype, double x);
/* Unit roundoff of what ops of this dtype compute in: f64 in f64, the others in f32. */
double conf_roundoff(mt_dtype dtype);

/* |tensor| as a new f64 tensor, NaN and infinities as 0; NULL stays NULL. With all inputs of a sum
 * of products made so, the op itself gives what its error is measured by. */
mt_tensor *conf_magnitudes(conf *c, const mt_tensor *tensor);
/* The elements of a tensor, times factor: slack of a case. Releases the tensor. */
double *conf_slack(conf *c, mt_tensor *tensor, double factor);
/* count times the same. */
double *conf_constant_slack(conf *c, int64_t count, double value);
/* The largest finite magnitude of the elements; 0 when there are none. */
double conf_largest(conf *c, const mt_tensor *tensor);

/* ---- cases ----------------------------------------------------------------------------------- */
typedef enum conf_out {
  CONF_FRESH,    /* *out is NULL */
  CONF_GIVEN,    /* in out_layout, with a guard around it */
  CONF_IN_PLACE, /* *out is input 0 */
} conf_out;

typedef struct conf_case conf_case;
/* out: as many outputs as the case has, one after the other. */
typedef mt_status conf_call(mt_runtime *rt, const conf_case *k, mt_tensor **out);

struct conf_case {
  conf_call *call;
  const void *args; /* for call */
  char what[128];   /* in words, for reports */
  conf_operand in[CONF_INPUTS];
  size_t in_count;
  size_t out_count; /* 0 means 1 */
  conf_out out;     /* of output 0; the others are given, too, unless it is fresh */
  conf_layout out_layout;
  mt_tensor *initial; /* content of *out before the call (matmul with beta), or NULL */
  /* Allowed |got - expected|: ulps * spacing(expected) + slack[o][i] (+ the smallest normal
   * number with tiny). All 0: equal; NaN equals NaN, and 0 equals -0 unless bits. */
  double ulps;
  double *slack[CONF_OUTPUTS];
  bool tiny; /* denormals may be flushed */
  bool bits; /* byte for byte */
};

/* Runs and compares; takes over in, initial and slack. */
void conf_check(conf *c, conf_case *k);

/* ---- ops ------------------------------------------------------------------------------------- */
typedef struct conf_op {
  const char *name;
  const mt_dtype *dtypes; /* ends with MT_DTYPE_NONE */
  void (*body)(conf *c, const void *row);
  const void *row; /* for a body that several ops share */
} conf_op;

extern const mt_dtype conf_floats[], conf_numbers[], conf_all[], conf_matmul_dtypes[],
    conf_plain_and_block[];

typedef struct conf_family {
  const conf_op *ops;
  size_t count;
} conf_family;

#define CONF_FAMILY(symbol) extern const conf_family symbol;
#include "families.def"
#undef CONF_FAMILY

extern const conf_family *const conf_families[];
extern const size_t conf_family_count;

/* The reference against results written out by hand; returns the number of failures and
 * prints each as a TAP comment. */
int conf_check_reference(mt_runtime *reference, FILE *out, int *checks);

#endif
