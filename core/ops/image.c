// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include "../checked.h"

mt_status mt_image_check(const char *op, const char *name, const mt_tensor *tensor,
                         mt_image_form form) {
  static const char *const axes[2][2] = {{"N, C, H, W", "N, H, W, C"}, {"N, C, L", "N, L, C"}};
  char text[MT_DESCRIBE_BYTES];
  int rank = form.flat ? 3 : 4;
  MT_TRY(mt_op_range(op, "layout", form.layout, MT_NCHW, MT_NHWC));
  return tensor->rank == rank ? MT_OK
                              : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %s: expected rank %d (%s)",
                                        op, name, mt_tensor_describe(tensor, text, sizeof(text)),
                                        rank, axes[form.flat][form.layout]);
}

/* Which axis of the caller's is N, C, H, W; -1: the height that is not there. */
static const int *axes_of(mt_image_form form) {
  static const int axes[2][2][4] = {{{0, 1, 2, 3}, {0, 3, 1, 2}}, {{0, 1, -1, 2}, {0, 2, -1, 1}}};
  return axes[form.flat][form.layout];
}

mt_status mt_image_view(const mt_tensor *tensor, mt_image_form form, mt_tensor **out) {
  const int *axes = axes_of(form);
  int64_t shape[4], stride[4];
  for (int i = 0; i < 4; i++) {
    shape[i] = axes[i] < 0 ? 1 : tensor->shape[axes[i]];
    stride[i] = axes[i] < 0 ? 0 : tensor->stride[axes[i]];
  }
  return mt_tensor_restride(tensor, 4, shape, stride, out);
}

mt_status mt_image_output(const char *op, mt_tensor **out, mt_dtype dtype, mt_image_form form,
                          const int64_t *nchw, mt_tensor **dst, mt_tensor **view) {
  const int *axes = axes_of(form);
  int64_t shape[4];
  *view = NULL;
  for (int i = 0; i < 4; i++) {
    if (axes[i] >= 0) {
      shape[axes[i]] = nchw[i];
    }
  }
  MT_TRY(mt_op_output(op, out, dtype, form.flat ? 3 : 4, shape, dst));
  mt_status status = mt_image_view(*dst, form, view);
  if (status != MT_OK && !*out) {
    mt_tensor_release(dst);
  }
  return status;
}

static mt_status check_window(const char *op, const char *axis, const mt_window *w) {
  static const struct {
    const char *name;
    int64_t lo;
  } rows[] = {{"kernel", 1}, {"stride", 1}, {"dilation", 1}, {"padding", 0}, {"padding", 0}};
  const int64_t values[] = {w->kernel, w->stride, w->dilation, w->before, w->after};
  for (int i = 0; i < 5; i++) {
    if (values[i] < rows[i].lo) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s of the %s %lld: expected %lld or more", op,
                     rows[i].name, axis, (long long)values[i], (long long)rows[i].lo);
    }
  }
  return MT_OK;
}

mt_status mt_window_count(const char *op, const char *axis, int64_t extent, const mt_window *w,
                          bool ceil_mode, int64_t *out) {
  int64_t reach, padded;
  MT_TRY(check_window(op, axis, w));
  if (!mt_mul_i64(w->kernel - 1, w->dilation, &reach) || !mt_add_i64(reach, 1, &reach) ||
      !mt_add_i64(extent, w->before, &padded) || !mt_add_i64(padded, w->after, &padded) ||
      !mt_add_i64(padded, w->stride, &(int64_t){0})) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: kernel %lld, dilation %lld, padding %lld and %lld of the %s: does not fit "
                   "in 63 bits",
                   op, (long long)w->kernel, (long long)w->dilation, (long long)w->before,
                   (long long)w->after, axis);
  }
  if (reach > padded) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: the kernel reaches over %lld, the padded %s is %lld: expected no more", op,
                   (long long)reach, axis, (long long)padded);
  }
  int64_t steps = padded - reach;
  *out = steps / w->stride + 1;
  if (ceil_mode && steps % w->stride != 0 && *out * w->stride < extent + w->before) {
    ++*out; /* one more, which starts within the image or the padding before it */
  }
  return MT_OK;
}
