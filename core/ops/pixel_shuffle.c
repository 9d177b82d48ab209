// SPDX-License-Identifier: Apache-2.0
/* pixel_shuffle and pixel_unshuffle: a copy between two views of six axes. */
#include "../checked.h"
#include "image.h"

/* ---- views -------------------------------------------------------------------------- */

/* [N, C f f, H, W] as [N, C, f, f, H, W] */
static mt_status split_channels(const mt_tensor *image, int64_t factor, mt_tensor **out) {
  const int64_t *s = image->shape, *t = image->stride;
  int64_t shape[] = {s[0], s[1] / factor / factor, factor, factor, s[2], s[3]};
  int64_t stride[] = {t[0], factor * factor * t[1], factor * t[1], t[1], t[2], t[3]};
  return mt_tensor_restride(image, 6, shape, stride, out);
}

/* [N, C, H f, W f] as [N, C, f, f, H, W] */
static mt_status split_pixels(const mt_tensor *image, int64_t factor, mt_tensor **out) {
  const int64_t *s = image->shape, *t = image->stride;
  int64_t shape[] = {s[0], s[1], factor, factor, s[2] / factor, s[3] / factor};
  int64_t stride[] = {t[0], t[1], t[2], t[3], factor * t[2], factor * t[3]};
  return mt_tensor_restride(image, 6, shape, stride, out);
}

/* ---- the calls ---------------------------------------------------------------------- */

typedef struct request {
  const char *op;
  int64_t factor;
  bool back; /* unshuffle */
  mt_image_form form;
} request;

static mt_status copy_views(mt_runtime *rt, const request *r, const mt_tensor *from,
                            const mt_tensor *to) {
  mt_tensor *source = NULL, *target = NULL;
  mt_status status =
      r->back ? split_pixels(from, r->factor, &source) : split_channels(from, r->factor, &source);
  if (status == MT_OK) {
    status =
        r->back ? split_channels(to, r->factor, &target) : split_pixels(to, r->factor, &target);
  }
  if (status == MT_OK) {
    status = mt_copy(rt, source, &target);
  }
  mt_tensor_release(&source);
  mt_tensor_release(&target);
  return status;
}

static mt_status shape_rule(const request *r, const int64_t *x, int64_t *shape) {
  int64_t f = r->factor, area;
  bool fits = f >= 1 && mt_mul_i64(f, f, &area);
  shape[0] = x[0];
  if (fits && r->back && x[2] % f == 0 && x[3] % f == 0 && mt_mul_i64(x[1], area, &shape[1])) {
    shape[2] = x[2] / f;
    shape[3] = x[3] / f;
    return MT_OK;
  }
  if (fits && !r->back && x[1] % area == 0 && mt_mul_i64(x[2], f, &shape[2]) &&
      mt_mul_i64(x[3], f, &shape[3])) {
    shape[1] = x[1] / area;
    return MT_OK;
  }
  return mt_fail(MT_ERR_INVALID_ARGUMENT,
                 "%s: factor %lld: expected one whose %s %lld channels of %lld x %lld", r->op,
                 (long long)f, r->back ? "multiples are the pixels of" : "square divides",
                 (long long)x[1], (long long)x[2], (long long)x[3]);
}

static mt_status run_view(mt_runtime *rt, const request *r, const mt_tensor *view,
                          mt_tensor **out) {
  mt_tensor *dst = NULL, *target = NULL;
  int64_t shape[4];
  MT_TRY(shape_rule(r, view->shape, shape));
  MT_TRY(mt_image_output(r->op, out, view->dtype, r->form, shape, &dst, &target));
  mt_status status = copy_views(rt, r, view, target);
  mt_tensor_release(&target);
  if (!*out && status == MT_OK) {
    *out = dst;
  } else if (!*out) {
    mt_tensor_release(&dst);
  }
  return status;
}

static mt_status run(mt_runtime *rt, const request *r, mt_tensor *x, mt_tensor **out) {
  mt_tensor *view = NULL;
  MT_TRY(mt_op_require(r->op, "rt", rt));
  MT_TRY(mt_op_input(r->op, "x", x, MT_KIND_PLAIN));
  MT_TRY(mt_op_require(r->op, "out", out));
  MT_TRY(mt_image_check(r->op, "x", x, r->form));
  MT_TRY(mt_image_view(x, r->form, &view));
  mt_status status = run_view(rt, r, view, out);
  mt_tensor_release(&view);
  return status;
}

mt_status mt_pixel_shuffle(mt_runtime *rt, mt_tensor *x, int64_t factor, mt_image_layout layout,
                           mt_tensor **out) {
  const request r = {"pixel_shuffle", factor, false, {layout, false}};
  return run(rt, &r, x, out);
}

mt_status mt_pixel_unshuffle(mt_runtime *rt, mt_tensor *x, int64_t factor, mt_image_layout layout,
                             mt_tensor **out) {
  const request r = {"pixel_unshuffle", factor, true, {layout, false}};
  return run(rt, &r, x, out);
}
