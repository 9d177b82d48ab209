// SPDX-License-Identifier: Apache-2.0
/*
 * nn.h - operations of neural networks: convolution, pooling, normalization, attention,
 * losses.
 *
 * What ops.h says of all ops holds here: outputs, overlap, dtypes, NaN, errors, threads.
 *
 * Options are structs that may grow: start from the *_OPTIONS_INIT macro, which sets
 * struct_size; NULL stands for the defaults.
 */
#ifndef MECANTENSOR_NN_H
#define MECANTENSOR_NN_H

#include <mecantensor/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order of the axes of a batch of images: number, channel, height, width. */
typedef enum mt_image_layout {
  MT_NCHW = 0, /* [N, C, H, W]; one-dimensional: [N, C, L] */
  MT_NHWC = 1, /* [N, H, W, C]; one-dimensional: [N, L, C] */
} mt_image_layout;

#ifdef __cplusplus
}
#endif
#endif
