// SPDX-License-Identifier: Apache-2.0
#include "tensor_impl.h"

#include "checked.h"
#include "error.h"
#include "formats/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- layouts ------------------------------------------------------------------------ */

static mt_status check_shape(const char *what, mt_dtype dtype, const mt_format *format, int rank,
                             const int64_t *shape) {
  if (rank < 0 || rank > MT_MAX_RANK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: rank %d: expected 0 .. %d", what, rank,
                   MT_MAX_RANK);
  }
  if (rank > 0 && !shape) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: shape is NULL with rank %d", what, rank);
  }
  if (dtype == MT_BLOCK ? !format || rank < 1 : mt_dtype_size(dtype) == 0) {
    return dtype == MT_BLOCK && format
               ? mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: rank 0 in block format %s: expected >= 1",
                         what, format->id)
               : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: dtype %d (%s) has no elements of its own",
                         what, (int)dtype, mt_dtype_name(dtype));
  }
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: extent %lld of axis %d: expected >= 0", what,
                     (long long)shape[i], i);
    }
  }
  return MT_OK;
}

mt_status mt_layout_packed(const char *what, mt_dtype dtype, const mt_format *format, int rank,
                           const int64_t *shape, mt_layout *out) {
  memset(out, 0, sizeof(*out));
  MT_TRY(check_shape(what, dtype, format, rank, shape));
  out->dtype = dtype;
  out->format = dtype == MT_BLOCK ? format : NULL;
  out->rank = rank;
  out->block_axis = dtype == MT_BLOCK ? rank - 1 : -1;
  int64_t elements = 1, step = 1;
  bool fits = true, empty = false;
  for (int i = rank - 1; i >= 0; i--) {
    int64_t extent = shape[i];
    out->shape[i] = extent;
    out->stride[i] = step;
    empty = empty || extent == 0;
    int64_t padded = extent > 0 ? extent : 1; /* strides of empty tensors stay meaningful */
    if (i == out->block_axis) {
      fits = fits && mt_round_up_i64(padded, format->block_elements, &padded);
    }
    fits = fits && mt_mul_i64(step, padded, &step);
    fits = fits && mt_mul_i64(elements, extent > 0 ? extent : 1, &elements);
  }
  int64_t bytes = 0;
  fits = fits &&
         (dtype == MT_BLOCK ? mt_mul_i64(step / format->block_elements, format->block_bytes, &bytes)
                            : mt_mul_i64(step, (int64_t)mt_dtype_size(dtype), &bytes));
  if (!fits || (uint64_t)bytes > SIZE_MAX / 2) {
    char text[MT_DESCRIBE_BYTES];
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: shape %s of %s: the size does not fit in 63 bits",
                   what, mt_shape_describe(rank, shape, text, sizeof(text)),
                   format ? format->id : mt_dtype_name(dtype));
  }
  out->elements = empty ? 0 : elements;
  out->bytes = empty ? 0 : (size_t)bytes;
  return MT_OK;
}

bool mt_layout_span(mt_dtype dtype, const mt_format *format, int rank, const int64_t *shape,
                    const int64_t *stride, int block_axis, int64_t *lo, int64_t *hi) {
  int64_t low = 0, high = 0;
  *lo = *hi = 0;
  for (int i = 0; i < rank; i++) {
    if (shape[i] == 0) {
      return true;
    }
  }
  for (int i = 0; i < rank; i++) {
    int64_t reach, last = shape[i] - 1;
    if (i == block_axis) {
      last = last / format->block_elements * format->block_elements;
    }
    if (!mt_mul_i64(last, stride[i], &reach) ||
        !mt_add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return false;
    }
  }
  if (dtype == MT_BLOCK) { /* whole blocks: strides are multiples of the block */
    return mt_mul_i64(low / format->block_elements, format->block_bytes, lo) &&
           mt_mul_i64(high / format->block_elements + 1, format->block_bytes, hi);
  }
  int64_t size = (int64_t)mt_dtype_size(dtype);
  return mt_mul_i64(low, size, lo) && mt_add_i64(high, 1, &high) && mt_mul_i64(high, size, hi);
}

static bool layout_is_contiguous(const mt_layout *layout) {
  mt_layout packed;
  if (layout->elements == 0) {
    return true;
  }
  if (layout->block_axis >= 0 && layout->block_axis != layout->rank - 1) {
    return false;
  }
  if (mt_layout_packed("layout", layout->dtype, layout->format, layout->rank, layout->shape,
                       &packed) != MT_OK) {
    return false;
  }
  for (int i = 0; i < layout->rank; i++) {
    if (layout->shape[i] != 1 && layout->stride[i] != packed.stride[i]) {
      return false;
    }
  }
  return true;
}

/* Sorted by |stride|, each axis must step over what the smaller ones span. Conservative
 * for odd overlapping strides that happen not to collide. */
static bool layout_repeats(const mt_layout *layout) {
  int64_t span = 1;
  bool done[MT_MAX_RANK] = {false};
  if (layout->elements == 0) {
    return false;
  }
  for (int n = 0; n < layout->rank; n++) {
    int next = -1;
    for (int i = 0; i < layout->rank; i++) {
      if (!done[i] && (next < 0 || llabs(layout->stride[i]) < llabs(layout->stride[next]))) {
        next = i;
      }
    }
    done[next] = true;
    if (layout->shape[next] == 1) {
      continue;
    }
    int64_t step = llabs(layout->stride[next]), reach;
    if (step < span || !mt_mul_i64(step, layout->shape[next] - 1, &reach) ||
        !mt_add_i64(span, reach, &span)) {
      return true;
    }
  }
  return false;
}

/* ---- making tensors ----------------------------------------------------------------- */

mt_status mt_tensor_on_storage(mt_storage *storage, const mt_layout *layout, size_t byte_offset,
                               mt_tensor **out) {
  mt_tensor *tensor = calloc(1, sizeof(*tensor));
  if (!tensor) {
    mt_storage_release(storage);
    return mt_fail_memory(sizeof(*tensor), "a tensor");
  }
  atomic_init(&tensor->refs, 1);
  tensor->storage = storage;
  tensor->format = layout->format;
  tensor->dtype = layout->dtype;
  tensor->rank = layout->rank;
  tensor->block_axis = layout->block_axis;
  tensor->elements = layout->elements;
  tensor->byte_offset = byte_offset;
  memcpy(tensor->shape, layout->shape, sizeof(tensor->shape));
  memcpy(tensor->stride, layout->stride, sizeof(tensor->stride));
  tensor->contiguous = layout_is_contiguous(layout);
  tensor->repeats = layout_repeats(layout);
  *out = tensor;
  return MT_OK;
}

static mt_status create_packed(const mt_layout *layout, bool lazy, mt_tensor **out) {
  mt_storage *storage;
  MT_TRY(mt_storage_create(layout->bytes, lazy, &storage));
  return mt_tensor_on_storage(storage, layout, 0, out);
}

mt_status mt_tensor_create_lazy(const mt_layout *layout, mt_tensor **out) {
  *out = NULL;
  return create_packed(layout, true, out);
}

static mt_status require_out(const char *function, mt_tensor **out) {
  if (!out) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: out is NULL", function);
  }
  *out = NULL;
  return MT_OK;
}

mt_status mt_tensor_create(mt_dtype dtype, int rank, const int64_t *shape, mt_tensor **out) {
  mt_layout layout;
  MT_TRY(require_out("mt_tensor_create", out));
  MT_TRY(mt_layout_packed("mt_tensor_create", dtype, NULL, rank, shape, &layout));
  return create_packed(&layout, false, out);
}

mt_status mt_tensor_create_block(const mt_format *format, int rank, const int64_t *shape,
                                 mt_tensor **out) {
  mt_layout layout;
  MT_TRY(require_out("mt_tensor_create_block", out));
  if (!format) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_create_block: format is NULL");
  }
  MT_TRY(mt_layout_packed("mt_tensor_create_block", MT_BLOCK, format, rank, shape, &layout));
  return create_packed(&layout, false, out);
}

mt_status mt_tensor_from_data(mt_dtype dtype, int rank, const int64_t *shape, const void *data,
                              mt_tensor **out) {
  MT_TRY(mt_tensor_create(dtype, rank, shape, out));
  if ((*out)->elements == 0) {
    return MT_OK;
  }
  if (!data) {
    mt_tensor_release(out);
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_from_data: data is NULL");
  }
  memcpy((*out)->storage->host, data, mt_tensor_bytes(*out));
  return MT_OK;
}

static mt_status wrap_layout(const char *function, void *data, const mt_layout *layout,
                             mt_release_fn release, void *user, bool read_only, mt_tensor **out) {
  int64_t lo, hi;
  if (!data && layout->elements > 0) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: data is NULL for %lld elements", function,
                   (long long)layout->elements);
  }
  if (!mt_layout_span(layout->dtype, layout->format, layout->rank, layout->shape, layout->stride,
                      layout->block_axis, &lo, &hi)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: the strides reach past 63 bits", function);
  }
  char *base = data ? (char *)data + lo : NULL;
  mt_storage *storage;
  MT_TRY(mt_storage_wrap(base, (size_t)(hi - lo), read_only, NULL, data, user, &storage));
  MT_TRY(mt_tensor_on_storage(storage, layout, (size_t)-lo, out));
  storage->release = release; /* not before success: on error the caller keeps it */
  return MT_OK;
}

mt_status mt_tensor_wrap_layout(const char *function, void *data, mt_dtype dtype, int rank,
                                const int64_t *shape, const int64_t *strides, bool read_only,
                                mt_release_fn release, void *user, mt_tensor **out) {
  mt_layout layout;
  MT_TRY(require_out(function, out));
  if (dtype == MT_BLOCK) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: dtype block: use mt_tensor_wrap_block", function);
  }
  MT_TRY(mt_layout_packed(function, dtype, NULL, rank, shape, &layout));
  for (int i = 0; strides && layout.elements > 0 && i < rank; i++) {
    if (shape[i] > 1) { /* others step nowhere, and may hold anything */
      layout.stride[i] = strides[i];
    }
  }
  return wrap_layout(function, data, &layout, release, user, read_only, out);
}

mt_status mt_tensor_wrap(void *data, mt_dtype dtype, int rank, const int64_t *shape,
                         const int64_t *strides, mt_release_fn release, void *user,
                         mt_tensor **out) {
  return mt_tensor_wrap_layout("mt_tensor_wrap", data, dtype, rank, shape, strides, false, release,
                               user, out);
}

mt_status mt_tensor_wrap_block(void *data, const mt_format *format, int rank, const int64_t *shape,
                               mt_release_fn release, void *user, mt_tensor **out) {
  mt_layout layout;
  MT_TRY(require_out("mt_tensor_wrap_block", out));
  if (!format) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_wrap_block: format is NULL");
  }
  MT_TRY(mt_layout_packed("mt_tensor_wrap_block", MT_BLOCK, format, rank, shape, &layout));
  return wrap_layout("mt_tensor_wrap_block", data, &layout, release, user, false, out);
}

mt_tensor *mt_tensor_retain(mt_tensor *tensor) {
  if (tensor) {
    atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
  }
  return tensor;
}

void mt_tensor_release(mt_tensor **tensor) {
  if (!tensor || !*tensor) {
    return;
  }
  mt_tensor *gone = *tensor;
  *tensor = NULL;
  if (atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1) {
    mt_storage_release(gone->storage);
    free(gone);
  }
}

/* ---- asking ------------------------------------------------------------------------- */

mt_dtype mt_tensor_dtype(const mt_tensor *tensor) {
  return tensor ? tensor->dtype : MT_DTYPE_NONE;
}

const mt_format *mt_tensor_format(const mt_tensor *tensor) {
  return tensor ? tensor->format : NULL;
}

int mt_tensor_block_axis(const mt_tensor *tensor) {
  return tensor ? tensor->block_axis : -1;
}

int mt_tensor_rank(const mt_tensor *tensor) {
  return tensor ? tensor->rank : 0;
}

const int64_t *mt_tensor_shape(const mt_tensor *tensor) {
  return tensor ? tensor->shape : NULL;
}

const int64_t *mt_tensor_strides(const mt_tensor *tensor) {
  return tensor ? tensor->stride : NULL;
}

int64_t mt_tensor_elements(const mt_tensor *tensor) {
  return tensor ? tensor->elements : 0;
}

/* Views never hold more elements than fit (broadcast checks), so this cannot overflow. */
size_t mt_tensor_bytes(const mt_tensor *tensor) {
  if (!tensor || tensor->elements == 0) {
    return 0;
  }
  if (tensor->dtype != MT_BLOCK) {
    return (size_t)tensor->elements * mt_dtype_size(tensor->dtype);
  }
  int64_t line = tensor->shape[tensor->block_axis];
  return (size_t)(tensor->elements / line) * mt_format_row_bytes(tensor->format, line);
}

bool mt_tensor_is_contiguous(const mt_tensor *tensor) {
  return tensor && tensor->contiguous;
}

/* ---- content ------------------------------------------------------------------------ */

mt_status mt_tensor_read(const mt_tensor *tensor, const void **data) {
  if (!tensor || !data) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_read: %s is NULL",
                   tensor ? "data" : "tensor");
  }
  *data = NULL;
  MT_TRY(mt_storage_to_host(tensor->storage, false));
  *data = (const char *)tensor->storage->host + tensor->byte_offset;
  return MT_OK;
}

mt_status mt_tensor_write(mt_tensor *tensor, void **data) {
  if (!tensor || !data) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_write: %s is NULL",
                   tensor ? "data" : "tensor");
  }
  *data = NULL;
  MT_TRY(mt_tensor_writable("mt_tensor_write", tensor));
  MT_TRY(mt_storage_to_host(tensor->storage, true));
  *data = (char *)tensor->storage->host + tensor->byte_offset;
  return MT_OK;
}

mt_status mt_tensor_writable(const char *function, const mt_tensor *tensor) {
  char text[MT_DESCRIBE_BYTES];
  const char *why = NULL;
  if (tensor->repeats) {
    why = "its elements repeat (a broadcast view)";
  } else if (tensor->storage->read_only) {
    why = "its memory is read-only";
  } else if (atomic_load_explicit(&tensor->storage->frozen, memory_order_acquire)) {
    why = "it is frozen";
  }
  return why ? mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s cannot be written: %s", function,
                       mt_tensor_describe(tensor, text, sizeof(text)), why)
             : MT_OK;
}

/* Walks the tensor in row-major order and copies unit by unit between it and packed
 * bytes; the unit is an element, or for block formats one line's block. */
static void copy_packed(const mt_tensor *tensor, char *strided, char *packed, bool out) {
  int64_t per_unit = tensor->format ? tensor->format->block_elements : 1;
  size_t unit = tensor->format ? tensor->format->block_bytes : mt_dtype_size(tensor->dtype);
  int64_t extent[MT_MAX_RANK], step[MT_MAX_RANK], index[MT_MAX_RANK] = {0};
  int rank = tensor->rank;
  for (int i = 0; i < rank; i++) {
    bool along = i == tensor->block_axis;
    extent[i] = along ? (tensor->shape[i] + per_unit - 1) / per_unit : tensor->shape[i];
    step[i] = (along ? 1 : tensor->stride[i] / per_unit) * (int64_t)unit;
  }
  for (;;) {
    memcpy(out ? packed : strided, out ? strided : packed, unit);
    packed += unit;
    int axis = rank - 1;
    while (axis >= 0 && ++index[axis] == extent[axis]) {
      strided -= step[axis] * (extent[axis] - 1);
      index[axis--] = 0;
    }
    if (axis < 0) {
      return;
    }
    strided += step[axis];
  }
}

static mt_status check_bytes(const char *function, const mt_tensor *tensor, const void *pointer,
                             size_t bytes) {
  char text[MT_DESCRIBE_BYTES];
  if (!tensor) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: tensor is NULL", function);
  }
  size_t expected = mt_tensor_bytes(tensor);
  if (bytes != expected) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %zu bytes for %s: expected %zu", function, bytes,
                   mt_tensor_describe(tensor, text, sizeof(text)), expected);
  }
  if (tensor->block_axis >= 0 && tensor->block_axis != tensor->rank - 1) {
    return mt_fail(MT_ERR_UNSUPPORTED, "%s: %s has its blocks along axis %d: expected the last",
                   function, mt_tensor_describe(tensor, text, sizeof(text)), tensor->block_axis);
  }
  if (bytes > 0 && !pointer) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: the memory is NULL for %zu bytes", function,
                   bytes);
  }
  return MT_OK;
}

mt_status mt_tensor_get(const mt_tensor *tensor, void *dst, size_t bytes) {
  const void *data;
  MT_TRY(check_bytes("mt_tensor_get", tensor, dst, bytes));
  MT_TRY(mt_tensor_read(tensor, &data));
  if (bytes == 0) {
    return MT_OK;
  }
  if (tensor->contiguous) {
    memcpy(dst, data, bytes);
  } else {
    copy_packed(tensor, (char *)data, dst, true);
  }
  return MT_OK;
}

mt_status mt_tensor_set(mt_tensor *tensor, const void *src, size_t bytes) {
  void *data;
  MT_TRY(check_bytes("mt_tensor_set", tensor, src, bytes));
  MT_TRY(mt_tensor_write(tensor, &data));
  if (bytes == 0) {
    return MT_OK;
  }
  if (tensor->contiguous) {
    memcpy(data, src, bytes);
  } else {
    copy_packed(tensor, data, (char *)src, false);
  }
  return MT_OK;
}

mt_status mt_tensor_freeze(mt_tensor *tensor) {
  static atomic_uint_fast64_t next_id = 1;
  if (!tensor) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_tensor_freeze: tensor is NULL");
  }
  mt_storage *storage = tensor->storage;
  pthread_mutex_lock(&storage->lock);
  if (!storage->frozen) {
    atomic_store(&storage->content_id, atomic_fetch_add(&next_id, 1));
    atomic_store_explicit(&storage->frozen, true, memory_order_release);
  }
  pthread_mutex_unlock(&storage->lock);
  return MT_OK;
}

/* ---- helpers of the other rooms
 * ------------------------------------------------------------------ */

const char *mt_shape_describe(int rank, const int64_t *shape, char *buf, size_t size) {
  size_t at = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < rank && at < size; i++) {
    at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
  }
  if (at < size) {
    snprintf(buf + at, size - at, "]");
  }
  return buf;
}

const char *mt_tensor_describe(const mt_tensor *tensor, char *buf, size_t size) {
  const char *type = tensor->format ? tensor->format->id : mt_dtype_name(tensor->dtype);
  size_t at = (size_t)snprintf(buf, size, "%s", type);
  if (at < size) {
    mt_shape_describe(tensor->rank, tensor->shape, buf + at, size - at);
  }
  return buf;
}

mt_status mt_axis_normalize(const char *op, int axis, int rank, int *out) {
  if (axis < -rank || axis >= rank) {
    return rank == 0
               ? mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: axis %d of a scalar (rank 0)", op, axis)
               : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: axis %d: expected %d .. %d", op, axis, -rank,
                         rank - 1);
  }
  *out = axis < 0 ? axis + rank : axis;
  return MT_OK;
}

bool mt_tensor_overlaps(const mt_tensor *a, const mt_tensor *b) {
  int64_t alo, ahi, blo, bhi;
  bool apart = a->storage != b->storage && !(a->storage->wrapped && b->storage->wrapped);
  if (apart || a->elements == 0 || b->elements == 0) {
    return false;
  }
  mt_layout_span(a->dtype, a->format, a->rank, a->shape, a->stride, a->block_axis, &alo, &ahi);
  mt_layout_span(b->dtype, b->format, b->rank, b->shape, b->stride, b->block_axis, &blo, &bhi);
  uintptr_t abase = a->byte_offset, bbase = b->byte_offset;
  if (a->storage != b->storage) { /* two wraps of the same memory */
    abase += (uintptr_t)a->storage->host;
    bbase += (uintptr_t)b->storage->host;
  }
  return abase + (uintptr_t)alo < bbase + (uintptr_t)bhi &&
         bbase + (uintptr_t)blo < abase + (uintptr_t)ahi;
}

bool mt_tensor_same_view(const mt_tensor *a, const mt_tensor *b) {
  if (a == b) {
    return true;
  }
  if (a->storage != b->storage || a->byte_offset != b->byte_offset || a->dtype != b->dtype ||
      a->format != b->format || a->rank != b->rank) {
    return false;
  }
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i])) {
      return false;
    }
  }
  return true;
}
