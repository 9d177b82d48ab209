// SPDX-License-Identifier: Apache-2.0
/*
 * view.c - views: a new description on the same storage, nothing copied.
 *
 * Each function makes an mt_layout from the tensor's own, changes it, and puts it on the
 * storage. What holds for every view: it reaches only elements that the tensor reached.
 */
#include "tensor_impl.h"

#include "checked.h"
#include "error.h"
#include "formats/format.h"

#include <string.h>

/* Checks the pointers, sets *out to NULL and starts the layout as a copy of the tensor's. */
static mt_status view_begin(const char *function, const mt_tensor *tensor, mt_tensor **out,
                            mt_layout *layout) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: out is NULL", function);
  }
  *out = NULL;
  if (!tensor) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: tensor is NULL", function);
  }
  memset(layout, 0, sizeof(*layout));
  layout->dtype = tensor->dtype;
  layout->format = tensor->format;
  layout->rank = tensor->rank;
  layout->block_axis = tensor->block_axis;
  layout->elements = tensor->elements;
  layout->bytes = mt_tensor_bytes(tensor);
  memcpy(layout->shape, tensor->shape, sizeof(layout->shape));
  memcpy(layout->stride, tensor->stride, sizeof(layout->stride));
  return MT_OK;
}

static mt_status view_end(const mt_tensor *tensor, const mt_layout *layout, size_t byte_offset,
                          mt_tensor **out) {
  return mt_tensor_on_storage(mt_storage_retain(tensor->storage), layout, byte_offset, out);
}

/* Elements and packed bytes of the layout's shape; fails where they do not fit. The check
 * of a packed layout has the block axis last, so that is where it is put. */
static mt_status measure(const char *function, mt_layout *layout) {
  mt_layout packed;
  int64_t shape[MT_MAX_RANK];
  memcpy(shape, layout->shape, sizeof(shape));
  if (layout->block_axis >= 0) {
    shape[layout->block_axis] = layout->shape[layout->rank - 1];
    shape[layout->rank - 1] = layout->shape[layout->block_axis];
  }
  MT_TRY(mt_layout_packed(function, layout->dtype, layout->format, layout->rank, shape, &packed));
  layout->elements = packed.elements;
  layout->bytes = packed.bytes;
  return MT_OK;
}

mt_status mt_tensor_restride(const mt_tensor *tensor, int rank, const int64_t *shape,
                             const int64_t *stride, mt_tensor **out) {
  mt_layout layout = {.dtype = tensor->dtype, .rank = rank, .block_axis = -1};
  memcpy(layout.shape, shape, (size_t)rank * sizeof(*shape));
  memcpy(layout.stride, stride, (size_t)rank * sizeof(*stride));
  *out = NULL;
  MT_TRY(measure("a view", &layout));
  return view_end(tensor, &layout, tensor->byte_offset, out);
}

/* ---- slice -------------------------------------------------------------------------- */

static mt_status check_slice(const mt_tensor *tensor, int axis, int64_t start, int64_t stop,
                             int64_t step) {
  int64_t extent = tensor->shape[axis];
  if (start < 0 || start > stop || stop > extent) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "mt_tensor_slice: %lld .. %lld of axis %d: expected 0 <= start <= stop <= %lld",
                   (long long)start, (long long)stop, axis, (long long)extent);
  }
  if (step < 1) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_slice: step %lld: expected >= 1",
                   (long long)step);
  }
  if (axis != tensor->block_axis) {
    return MT_OK;
  }
  int64_t block = tensor->format->block_elements;
  if (step != 1 || start % block != 0 || (stop % block != 0 && stop != extent)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "mt_tensor_slice: %lld .. %lld step %lld along the block axis %d of %s: "
                   "expected whole blocks of %lld and step 1",
                   (long long)start, (long long)stop, (long long)step, axis, tensor->format->id,
                   (long long)block);
  }
  return MT_OK;
}

/* Bytes from element 0 to element `index` of an axis; the element exists, so its place
 * is inside the storage and nothing overflows. */
static int64_t axis_bytes(const mt_tensor *tensor, int axis, int64_t index) {
  int64_t elements = index * tensor->stride[axis];
  if (tensor->format) {
    return elements / tensor->format->block_elements * tensor->format->block_bytes;
  }
  return elements * (int64_t)mt_dtype_size(tensor->dtype);
}

mt_status mt_tensor_slice(mt_tensor *tensor, int axis, int64_t start, int64_t stop, int64_t step,
                          mt_tensor **out) {
  mt_layout layout;
  MT_TRY(view_begin("mt_tensor_slice", tensor, out, &layout));
  MT_TRY(mt_axis_normalize("mt_tensor_slice", axis, tensor->rank, &axis));
  MT_TRY(check_slice(tensor, axis, start, stop, step));
  int64_t extent = stop > start ? (stop - start - 1) / step + 1 : 0;
  layout.shape[axis] = extent;
  int64_t stride;
  /* Of one element or none the stride is never used, so it need not fit either. */
  if (extent > 1 && mt_mul_i64(layout.stride[axis], step, &stride)) {
    layout.stride[axis] = stride;
  }
  MT_TRY(measure("mt_tensor_slice", &layout));
  size_t offset = tensor->byte_offset;
  if (layout.elements > 0) {
    offset += (size_t)axis_bytes(tensor, axis, start);
  }
  return view_end(tensor, &layout, offset, out);
}

/* ---- transpose and permute ---------------------------------------------------------- */

static mt_status permuted(const mt_tensor *tensor, mt_layout *layout, const int *axes,
                          mt_tensor **out) {
  for (int i = 0; i < tensor->rank; i++) {
    layout->shape[i] = tensor->shape[axes[i]];
    layout->stride[i] = tensor->stride[axes[i]];
    if (axes[i] == tensor->block_axis) {
      layout->block_axis = i;
    }
  }
  return view_end(tensor, layout, tensor->byte_offset, out);
}

mt_status mt_tensor_transpose(mt_tensor *tensor, int axis_a, int axis_b, mt_tensor **out) {
  mt_layout layout;
  int axes[MT_MAX_RANK];
  MT_TRY(view_begin("mt_tensor_transpose", tensor, out, &layout));
  MT_TRY(mt_axis_normalize("mt_tensor_transpose", axis_a, tensor->rank, &axis_a));
  MT_TRY(mt_axis_normalize("mt_tensor_transpose", axis_b, tensor->rank, &axis_b));
  for (int i = 0; i < tensor->rank; i++) {
    axes[i] = i == axis_a ? axis_b : i == axis_b ? axis_a : i;
  }
  return permuted(tensor, &layout, axes, out);
}

mt_status mt_tensor_permute(mt_tensor *tensor, const int *axes, mt_tensor **out) {
  mt_layout layout;
  int plain[MT_MAX_RANK];
  bool seen[MT_MAX_RANK] = {false};
  MT_TRY(view_begin("mt_tensor_permute", tensor, out, &layout));
  if (!axes && tensor->rank > 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_permute: axes is NULL with rank %d",
                   tensor->rank);
  }
  for (int i = 0; i < tensor->rank; i++) {
    MT_TRY(mt_axis_normalize("mt_tensor_permute", axes[i], tensor->rank, &plain[i]));
    if (seen[plain[i]]) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "mt_tensor_permute: axis %d is named twice: expected each axis once",
                     plain[i]);
    }
    seen[plain[i]] = true;
  }
  return permuted(tensor, &layout, plain, out);
}

/* ---- reshape ------------------------------------------------------------------------ */

/* Evenly stepped elements: what neighbouring axes that follow on each other merge into. */
typedef struct run {
  int64_t extent, stride;
} run;

/* The runs of axes 0 .. rank-1, innermost first; returns how many. */
static int merge_axes(int rank, const int64_t *shape, const int64_t *stride, run *runs) {
  int count = 0;
  for (int i = rank - 1; i >= 0; i--) {
    int64_t next;
    if (shape[i] == 1) {
      continue;
    }
    run *last = count > 0 ? &runs[count - 1] : NULL;
    if (last && mt_mul_i64(last->extent, last->stride, &next) && next == stride[i]) {
      last->extent *= shape[i]; /* at most the number of elements */
    } else {
      runs[count++] = (run){shape[i], stride[i]};
    }
  }
  return count;
}

/* Strides of new axes over the same elements as the old ones, in row-major order, both
 * with the same non-zero number of elements. A new axis fits when it divides what is left
 * of the run it begins in: beyond a run's end the step is another one. */
static bool restride(int old_rank, const int64_t *old_shape, const int64_t *old_stride,
                     int new_rank, const int64_t *new_shape, int64_t *new_stride) {
  run runs[MT_MAX_RANK + 1];
  int count = merge_axes(old_rank, old_shape, old_stride, runs), at = 0;
  int64_t left = count > 0 ? runs[0].extent : 1;
  int64_t step = count > 0 ? runs[0].stride : 1;
  for (int i = new_rank - 1; i >= 0; i--) {
    if (new_shape[i] != 1 && left == 1 && at + 1 < count) {
      at++;
      left = runs[at].extent;
      step = runs[at].stride;
    }
    if (left % new_shape[i] != 0) {
      return false;
    }
    new_stride[i] = step;
    left /= new_shape[i];
    int64_t next;
    step = mt_mul_i64(step, new_shape[i], &next) ? next : step; /* too far: the run ends here */
  }
  return true;
}

static mt_status fail_reshape(mt_status status, const mt_tensor *tensor, int rank,
                              const int64_t *shape, const char *why) {
  char from[MT_DESCRIBE_BYTES], to[MT_DESCRIBE_BYTES];
  return mt_fail(status, "mt_tensor_reshape: %s to %s: %s",
                 mt_tensor_describe(tensor, from, sizeof(from)),
                 mt_shape_describe(rank, shape, to, sizeof(to)), why);
}

/* Copies shape to layout with its one -1 worked out; the number of elements must stay. */
static mt_status resolve_shape(const mt_tensor *tensor, int rank, const int64_t *shape,
                               mt_layout *layout) {
  const char *why = NULL;
  int64_t known = 1;
  int open = -1;
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    layout->shape[i] = shape[i];
    empty = empty || shape[i] == 0;
    if (shape[i] == -1 && open < 0) {
      open = i;
    } else if (shape[i] < 0) {
      why = "expected extents >= 0 and at most one -1";
    } else if (!mt_mul_i64(known, shape[i] > 0 ? shape[i] : 1, &known)) {
      why = "the size does not fit in 63 bits";
    }
    if (why) {
      return fail_reshape(MT_ERR_INVALID_ARGUMENT, tensor, rank, shape, why);
    }
  }
  known = empty ? 0 : known;
  if (open >= 0 && empty) {
    why = "-1 beside an extent of 0 could be anything";
  } else if (open >= 0) {
    layout->shape[open] = tensor->elements / known;
    known *= layout->shape[open];
  }
  if (!why && known != tensor->elements) {
    why = "expected the same number of elements";
  }
  return why ? fail_reshape(MT_ERR_INVALID_ARGUMENT, tensor, rank, shape, why) : MT_OK;
}

static int64_t product(const int64_t *shape, int count) {
  int64_t n = 1;
  for (int i = 0; i < count; i++) {
    n *= shape[i];
  }
  return n;
}

/* The new axis that the old block axis becomes: same extent, as many lines before it;
 * the last such, and -1 when there is none. */
static int find_block_axis(const mt_tensor *tensor, const mt_layout *layout) {
  int axis = tensor->block_axis;
  bool empty = tensor->elements == 0; /* products say nothing then */
  for (int i = layout->rank - 1; i >= 0; i--) {
    if (layout->shape[i] == tensor->shape[axis] &&
        (empty || product(layout->shape, i) == product(tensor->shape, axis))) {
      return i;
    }
  }
  return -1;
}

/* Any strides do for an empty tensor; these obey the rule for block formats too. */
static void restride_empty(mt_layout *layout) {
  int64_t step = layout->format ? layout->format->block_elements : 1;
  for (int i = layout->rank - 1; i >= 0; i--) {
    layout->stride[i] = i == layout->block_axis ? 1 : step;
    int64_t next;
    if (i != layout->block_axis && layout->shape[i] > 0 &&
        mt_mul_i64(step, layout->shape[i], &next)) {
      step = next;
    }
  }
}

/* Axes before and after the block axis are rearranged on their own. */
static bool restride_block(const mt_tensor *tensor, mt_layout *layout) {
  int from = tensor->block_axis, to = layout->block_axis;
  int after = from + 1, new_after = to + 1;
  layout->stride[to] = 1;
  return restride(from, tensor->shape, tensor->stride, to, layout->shape, layout->stride) &&
         restride(tensor->rank - after, tensor->shape + after, tensor->stride + after,
                  layout->rank - new_after, layout->shape + new_after, layout->stride + new_after);
}

mt_status mt_tensor_reshape(mt_tensor *tensor, int rank, const int64_t *shape, mt_tensor **out) {
  mt_layout layout;
  MT_TRY(view_begin("mt_tensor_reshape", tensor, out, &layout));
  if (rank < 0 || rank > MT_MAX_RANK || (rank > 0 && !shape)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "mt_tensor_reshape: rank %d, shape %s: expected rank 0 .. %d", rank,
                   shape ? "given" : "NULL", MT_MAX_RANK);
  }
  MT_TRY(resolve_shape(tensor, rank, shape, &layout));
  layout.rank = rank;
  bool blocks = tensor->block_axis >= 0;
  if (blocks && (layout.block_axis = find_block_axis(tensor, &layout)) < 0) {
    return fail_reshape(MT_ERR_UNSUPPORTED, tensor, rank, shape, "the block axis must stay whole");
  }
  MT_TRY(measure("mt_tensor_reshape", &layout));
  bool even = true;
  if (layout.elements == 0) {
    restride_empty(&layout);
  } else if (blocks) {
    even = restride_block(tensor, &layout);
  } else {
    even = restride(tensor->rank, tensor->shape, tensor->stride, rank, layout.shape, layout.stride);
  }
  return even ? view_end(tensor, &layout, tensor->byte_offset, out)
              : fail_reshape(MT_ERR_UNSUPPORTED, tensor, rank, shape,
                             "its strides cannot express that (mt_contiguous first)");
}

/* ---- broadcast ---------------------------------------------------------------------- */

mt_status mt_tensor_broadcast(mt_tensor *tensor, int rank, const int64_t *shape, mt_tensor **out) {
  mt_layout layout;
  char from[MT_DESCRIBE_BYTES], to[MT_DESCRIBE_BYTES];
  MT_TRY(view_begin("mt_tensor_broadcast", tensor, out, &layout));
  if (rank < tensor->rank || rank > MT_MAX_RANK || (rank > 0 && !shape)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "mt_tensor_broadcast: rank %d, shape %s: expected rank %d .. %d", rank,
                   shape ? "given" : "NULL", tensor->rank, MT_MAX_RANK);
  }
  int missing = rank - tensor->rank;
  layout.rank = rank;
  layout.block_axis = tensor->block_axis < 0 ? -1 : tensor->block_axis + missing;
  for (int i = 0; i < rank; i++) {
    int64_t old = i < missing ? 1 : tensor->shape[i - missing];
    layout.shape[i] = shape[i];
    layout.stride[i] = i < missing ? 0 : tensor->stride[i - missing];
    if (old == shape[i]) {
      continue;
    }
    if (old != 1 || shape[i] < 0 || i == layout.block_axis) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT,
                     "mt_tensor_broadcast: %s to %s: axis %d is %lld: expected %lld%s",
                     mt_tensor_describe(tensor, from, sizeof(from)),
                     mt_shape_describe(rank, shape, to, sizeof(to)), i, (long long)shape[i],
                     (long long)old, i == layout.block_axis ? " (blocks run along it)" : "");
    }
    layout.stride[i] = 0;
  }
  MT_TRY(measure("mt_tensor_broadcast", &layout));
  return view_end(tensor, &layout, tensor->byte_offset, out);
}
