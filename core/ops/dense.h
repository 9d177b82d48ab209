// SPDX-License-Identifier: Apache-2.0
/*
 * dense.h - operands of reference kernels as row-major arrays of double.
 *
 * For operations whose indices are the hard part (convolution, attention ...): the kernel loads
 * its operands, computes on plain arrays, and stores the result, which rounds once.
 */
#ifndef MT_CORE_OPS_DENSE_H
#define MT_CORE_OPS_DENSE_H

#include "view.h"

enum { MT_DENSE_MAX = 8 };

/* The arrays of one call; all are freed together. */
typedef struct mt_dense {
  double *array[MT_DENSE_MAX];
  int count;
} mt_dense;

/* All elements of the view (a float as it is, an integer rounded to double) in a new array;
 * an absent view gives *out = NULL. */
mt_status mt_dense_load(mt_dense *dense, const mt_view *view, double **out);

/* Room for the elements of the view, zeros. */
mt_status mt_dense_room(mt_dense *dense, const mt_view *view, double **out);

/* Rounds once to the dtype of the view. */
void mt_dense_store(const mt_view *view, const double *from);

void mt_dense_free(mt_dense *dense);

#endif
