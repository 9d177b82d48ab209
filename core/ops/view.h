// SPDX-License-Identifier: Apache-2.0
/* view.h - what reference kernels share: walking strided operands, one element as a number. */
#ifndef MT_CORE_OPS_VIEW_H
#define MT_CORE_OPS_VIEW_H

#include "op.h"

enum { MT_WALK_MAX = 4 };

/* Row-major walk over operands of one shape. The innermost axis is left to the caller,
 * who steps each pointer by its step (bytes):
 *   for (mt_walk w = mt_walk_start(...); !w.done; mt_walk_next(&w))
 *     for (int64_t i = 0; i < w.inner; i++) ... w.at[k] + i * w.step[k] */
typedef struct mt_walk {
  int count;
  bool done;
  int64_t inner;
  char *at[MT_WALK_MAX];
  int64_t step[MT_WALK_MAX];
  int axes; /* outer ones */
  int64_t extent[MT_MAX_RANK], index[MT_MAX_RANK];
  int64_t stride[MT_WALK_MAX][MT_MAX_RANK]; /* bytes */
} mt_walk;

/* count operands with the rank and shape of views[0]; block formats: without their block
 * axis. */
mt_walk mt_walk_start(int count, const mt_view *const *views);
void mt_walk_next(mt_walk *walk);

/* One element as a number. mt_load_i64: of integers and bool. Stores round or wrap. */
double mt_load_f64(mt_dtype dtype, const void *at);
void mt_store_f64(mt_dtype dtype, void *at, double value);
int64_t mt_load_i64(mt_dtype dtype, const void *at);
void mt_store_i64(mt_dtype dtype, void *at, int64_t value);
bool mt_dtype_is_float(mt_dtype dtype);

/* count doubles between packed memory and a strided line of float elements. */
void mt_load_line(mt_dtype dtype, const char *at, int64_t step, int64_t count, double *out);
void mt_store_line(mt_dtype dtype, char *at, int64_t step, int64_t count, const double *in);

/* A view without axis `axis` (the operand at index 0 of it). shape and stride: room for
 * MT_MAX_RANK. */
mt_view mt_view_without(const mt_view *view, int axis, int64_t *shape, int64_t *stride);
/* The first rank axes; the axes from `from` on, at data. */
mt_view mt_view_leading(const mt_view *view, int rank);
mt_view mt_view_trailing(const mt_view *view, int from, void *data);
/* Elements of one plain dtype and shape. */
void mt_view_copy(const mt_view *to, const mt_view *from);
int64_t mt_view_elements(const mt_view *view);

#endif
