// SPDX-License-Identifier: Apache-2.0
#include "dense.h"

#include <stdlib.h>

static int64_t elements_of(const mt_view *view) {
  int64_t count = 1;
  for (int axis = 0; axis < view->rank; axis++) {
    count *= view->shape[axis];
  }
  return count;
}

mt_status mt_dense_room(mt_dense *dense, const mt_view *view, double **out) {
  int64_t count = elements_of(view);
  *out = calloc((size_t)(count > 0 ? count : 1), sizeof(**out));
  if (!*out) {
    return mt_fail_memory((unsigned long long)count * sizeof(**out), "the reference kernel");
  }
  dense->array[dense->count++] = *out;
  return MT_OK;
}

mt_status mt_dense_load(mt_dense *dense, const mt_view *view, double **out) {
  const mt_view *views[] = {view};
  mt_walk walk;
  *out = NULL;
  if (view->dtype == MT_DTYPE_NONE) {
    return MT_OK;
  }
  MT_TRY(mt_dense_room(dense, view, out));
  double *at = *out;
  mt_walk_views(&walk, views, 1);
  while (mt_walk_next(&walk)) {
    mt_load_number(view->dtype, walk.at[0], walk.stride[0], walk.count, at);
    at += walk.count;
  }
  return MT_OK;
}

void mt_dense_store(const mt_view *view, const double *from) {
  const mt_view *views[] = {view};
  mt_walk walk;
  mt_walk_views(&walk, views, 1);
  while (mt_walk_next(&walk)) {
    mt_store_f64(view->dtype, from, walk.count, walk.at[0], walk.stride[0]);
    from += walk.count;
  }
}

void mt_dense_free(mt_dense *dense) {
  for (int i = 0; i < dense->count; i++) {
    free(dense->array[i]);
  }
  dense->count = 0;
}
