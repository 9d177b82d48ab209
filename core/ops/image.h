// SPDX-License-Identifier: Apache-2.0
/*
 * image.h - images in any layout as [N, C, H, W].
 *
 * Backends see one order of axes: what NHWC means is in the strides of the view. So an op over
 * images has no attribute for the layout, and one-dimensional ones are images of height 1.
 */
#ifndef MT_CORE_OPS_IMAGE_H
#define MT_CORE_OPS_IMAGE_H

#include "op.h"
#include <mecantensor/nn.h>

/* How the caller's tensors lie: 4 axes or (flat) 3 without the height. */
typedef struct mt_image_form {
  mt_image_layout layout;
  bool flat;
} mt_image_form;

/* "op: layout 7: expected 0 .. 1"; "op: x f32[2]: expected rank 4 (N, C, H, W)". */
mt_status mt_image_check(const char *op, const char *name, const mt_tensor *tensor,
                         mt_image_form form);

/* [N, C, H, W] on the memory of a tensor of that form. */
mt_status mt_image_view(const mt_tensor *tensor, mt_image_form form, mt_tensor **out);

/* The result of the extents n, c, h, w in the caller's form: dst as from mt_op_output, and *view of
 * it as [N, C, H, W]. */
mt_status mt_image_output(const char *op, mt_tensor **out, mt_dtype dtype, mt_image_form form,
                          const int64_t *nchw, mt_tensor **dst, mt_tensor **view);

/* What windows of a kernel (count taps, dilation apart) reach along an axis. */
typedef struct mt_window {
  int64_t kernel, stride, dilation, before, after;
} mt_window;

/* *out: how many windows there are; INVALID_ARGUMENT with the axis ("height") when the kernel is
 * longer than the padded extent, or a number is out of range. ceil_mode as in pooling. */
mt_status mt_window_count(const char *op, const char *axis, int64_t extent, const mt_window *window,
                          bool ceil_mode, int64_t *out);

#endif
