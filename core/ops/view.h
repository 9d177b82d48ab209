// SPDX-License-Identifier: Apache-2.0
/*
 * view.h - what reference kernels share: walking strided operands, and elements of any
 * dtype as double or int64.
 *
 * A kernel walks its operands in pieces: at most MT_LINE elements that follow each other
 * with one step per operand. It loads a piece into an array on its stack, computes, and
 * stores. So the dtype is looked at once a piece, and the inner loops are plain C.
 */
#ifndef MT_CORE_OPS_VIEW_H
#define MT_CORE_OPS_VIEW_H

#include "op.h"

enum { MT_LINE = 256, MT_WALK_OPERANDS = 4 };

/* ---- walking ------------------------------------------------------------------------ */
typedef struct mt_walk {
  int operands, rank;
  bool empty;
  int64_t extent[MT_MAX_RANK]; /* axes that follow on each other are merged; the last is inner */
  int64_t step[MT_MAX_RANK][MT_WALK_OPERANDS]; /* bytes */
  int64_t index[MT_MAX_RANK];
  int64_t offset[MT_WALK_OPERANDS]; /* of the row that index is in */
  char *base[MT_WALK_OPERANDS];
  int64_t done; /* of the row */
  /* the piece */
  char *at[MT_WALK_OPERANDS];
  int64_t stride[MT_WALK_OPERANDS]; /* bytes */
  int64_t count;
} mt_walk;

/* Bytes from one element of an axis to the next; block formats: on the block axis from one
 * block to the next. */
int64_t mt_view_step(const mt_view *view, int axis);

/* An empty description, its axes one by one (outer first; steps in bytes, one for each
 * operand), then start with the addresses of element 0. start may be called again for
 * other addresses. */
void mt_walk_begin(mt_walk *walk, int operands);
void mt_walk_axis(mt_walk *walk, int64_t extent, const int64_t *steps);
void mt_walk_start(mt_walk *walk, char *const *data);

/* All axes of views of the same shape, started. */
void mt_walk_views(mt_walk *walk, const mt_view *const *views, int operands);

/* All axes but one, of views that have the same extents but for that axis; the last is whole, and
 * others may lack the axis. Each piece then is of as many lines along the axis, which start
 * at the addresses. Started. */
void mt_walk_lines(mt_walk *walk, const mt_view *const *views, int operands, int axis);

/* The next piece; false when there is none. */
bool mt_walk_next(mt_walk *walk);

/* ---- elements ----------------------------------------------------------------------- */
/* n elements, `step` bytes from one to the next, any alignment. Floats load as double
 * (exact), the others as int64 (a bool as 0 or 1). */
void mt_load_f64(mt_dtype dtype, const char *src, int64_t step, int64_t n, double *dst);
void mt_load_i64(mt_dtype dtype, const char *src, int64_t step, int64_t n, int64_t *dst);

/* Either, as double (an int64 is rounded). */
void mt_load_number(mt_dtype dtype, const char *src, int64_t step, int64_t n, double *dst);

/* To any dtype. From double: floats round once, to nearest even; integers truncate and
 * saturate, NaN gives 0. From int64: integers wrap, floats round once. bool: x != 0. */
void mt_store_f64(mt_dtype dtype, const double *src, int64_t n, char *dst, int64_t step);
void mt_store_i64(mt_dtype dtype, const int64_t *src, int64_t n, char *dst, int64_t step);

/* f32, f64, f16, bf16 */
bool mt_is_float(mt_dtype dtype);

/* n units of `size` bytes; src and dst do not overlap. */
void mt_copy_units(size_t size, const char *src, int64_t src_step, int64_t n, char *dst,
                   int64_t dst_step);
/* The same for all units of a started walk of two operands: dst, src. */
void mt_copy_walk(mt_walk *walk, size_t size);

#endif
