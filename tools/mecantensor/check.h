// SPDX-License-Identifier: Apache-2.0
/* check.h - is this the product of those? Against the reference kernels, in f64. */
#ifndef MT_TOOLS_CHECK_H
#define MT_TOOLS_CHECK_H

#include "common.h"

/*
 * Errors of c with respect to r = activation(alpha a b + bias), computed by the reference
 * kernels in f64. Element by element |c - r| is divided by |alpha| sum_k |a||b| + |bias|,
 * the size of what was summed: the measure in which rounding errors of any order of
 * summation are bounded, also where the sum cancels.
 */
typedef struct matmul_check {
  double max_error;       /* largest error of an element; infinity: not a number or not finite
                             where r is, or the other way round */
  double frobenius_error; /* |c - r| / |r|, over the finite elements */
  double bound;           /* of max_error */
  size_t elements, over;  /* all, and those over the bound */
  bool passed;
} matmul_check;

/* u of the unit roundoff of the dtype, K summands:
 *   bound = (8 + min(K, 16 sqrt K) [+ 32 with an activation]) u_f32 + u_dtype
 * (for f64 with u_f64 instead, twice, as r itself is rounded then). */
mt_status check_matmul(mt_tensor *a, mt_tensor *b, const mt_matmul_options *options, mt_tensor *c,
                       matmul_check *out);

/* "largest error 1.2e-07 ..., bound ...": one line. And {"passed": ...}. */
void print_check(const matmul_check *check, int indent);
json_t *check_json(const matmul_check *check);

#endif
