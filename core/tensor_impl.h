// SPDX-License-Identifier: Apache-2.0
/*
 * tensor_impl.h - what a tensor is made of (internal side of tensor.h).
 *
 * mt_tensor: a description (never changes) and a reference to mt_storage.
 * mt_storage: bytes, on the host, on one device, or on both.
 */
#ifndef MT_CORE_TENSOR_IMPL_H
#define MT_CORE_TENSOR_IMPL_H

#include <mecantensor/tensor.h>
#include <pthread.h>
#include <stdatomic.h>

struct mt_device;

enum { MT_ALIGNMENT = 64 };

/* Which copies hold the newest content. */
enum { MT_ON_HOST = 1, MT_ON_DEVICE = 2 };

typedef struct mt_storage {
  atomic_uint refs;
  atomic_uint valid; /* MT_ON_HOST | MT_ON_DEVICE; changed under lock */
  size_t bytes;
  void *host;       /* lowest address; NULL until needed for content made on a device */
  void *host_block; /* what to free; NULL: the memory is someone else's */
  bool read_only;
  bool wrapped; /* the caller's memory: another storage may have the same */
  atomic_bool frozen;
  atomic_uint_fast64_t content_id; /* set when frozen; 0 otherwise */
  mt_release_fn release;           /* wrapped memory */
  void *release_data, *release_user;

  pthread_mutex_t lock;             /* guards all below, and changes of valid and host */
  struct mt_device *device;         /* holds a reference; NULL: never used by one */
  void *buffer;                     /* NULL on devices that work on host memory */
  uint64_t read_point, write_point; /* of device's queue: last use */
  struct mt_storage *next_zombie;   /* list of the device, while it waits to be freed */
  /* Devices whose plans hold a packed copy of this frozen content (references). */
  struct mt_device **planners;
  uint32_t planner_count;
} mt_storage;

struct mt_tensor {
  atomic_uint refs;
  mt_storage *storage;
  const mt_format *format;
  mt_dtype dtype;
  int rank;
  int block_axis;
  bool contiguous;
  bool repeats; /* some element is reachable by two indices (broadcast) */
  int64_t elements;
  size_t byte_offset; /* of element 0 from storage->host */
  int64_t shape[MT_MAX_RANK];
  int64_t stride[MT_MAX_RANK]; /* elements */
};

/* ---- storage.c ---------------------------------------------------------------------- */
/* Zero-filled, aligned host memory; lazy: made, not zeroed, when first needed. */
mt_status mt_storage_create(size_t bytes, bool lazy, mt_storage **out);
mt_status mt_storage_wrap(void *host, size_t bytes, bool read_only, mt_release_fn release,
                          void *release_data, void *release_user, mt_storage **out);
mt_storage *mt_storage_retain(mt_storage *storage);
void mt_storage_release(mt_storage *storage);
/* Content on the host, pending work that matters done. for_write also makes device
 * copies stale. The second form: the caller holds storage->lock. */
mt_status mt_storage_to_host(mt_storage *storage, bool for_write);
mt_status mt_storage_to_host_locked(mt_storage *storage, bool for_write);
mt_status mt_storage_host_alloc(mt_storage *storage, bool zero); /* lock held or unshared */
void mt_storage_free(mt_storage *storage); /* no references, no pending work */

/* ---- tensor.c ----------------------------------------------------------------------- */
/* A description being built: format, dtype, rank, shape are set; the rest is derived. */
typedef struct mt_layout {
  mt_dtype dtype;
  const mt_format *format;
  int rank;
  int block_axis;
  int64_t shape[MT_MAX_RANK];
  int64_t stride[MT_MAX_RANK];
  int64_t elements;
  size_t bytes; /* packed */
} mt_layout;

/* Row-major layout; checks rank, extents, dtype and overflow. `what` starts the message. */
mt_status mt_layout_packed(const char *what, mt_dtype dtype, const mt_format *format, int rank,
                           const int64_t *shape, mt_layout *out);

/* A new tensor on storage (takes over the caller's reference, also on error). */
mt_status mt_tensor_on_storage(mt_storage *storage, const mt_layout *layout, size_t byte_offset,
                               mt_tensor **out);

/* As mt_tensor_create, but host memory is made only when needed and not zeroed: outputs
 * of ops, which are written whole. */
mt_status mt_tensor_create_lazy(const mt_layout *layout, mt_tensor **out);

/* A view with any shape and strides (elements), element 0 where the tensor's is. The caller answers
 * for it reaching only elements that the tensor reached. No block formats. */
mt_status mt_tensor_restride(const mt_tensor *tensor, int rank, const int64_t *shape,
                             const int64_t *stride, mt_tensor **out);

/* MT_OK, or INVALID_ARGUMENT that says why the tensor must not be written. */
mt_status mt_tensor_writable(const char *function, const mt_tensor *tensor);

/* mt_tensor_wrap with the name of the function for messages, and read-only memory. */
mt_status mt_tensor_wrap_layout(const char *function, void *data, mt_dtype dtype, int rank,
                                const int64_t *shape, const int64_t *strides, bool read_only,
                                mt_release_fn release, void *user, mt_tensor **out);

/* "f32[2, 3]" or "q8_0[4096, 4096]" into buf; returns buf. */
const char *mt_tensor_describe(const mt_tensor *tensor, char *buf, size_t size);
const char *mt_shape_describe(int rank, const int64_t *shape, char *buf, size_t size);
enum { MT_DESCRIBE_BYTES = 160 };

/* axis in -rank .. rank-1 to 0 .. rank-1; the message starts with op. */
mt_status mt_axis_normalize(const char *op, int axis, int rank, int *out);

/* Do the elements of a and b share a byte of storage? (conservative: spans) */
bool mt_tensor_overlaps(const mt_tensor *a, const mt_tensor *b);
/* The same elements in the same places. */
bool mt_tensor_same_view(const mt_tensor *a, const mt_tensor *b);

/* First and one-past-last byte that elements occupy, relative to element 0 (lo <= 0).
 * Empty tensors: 0, 0. Returns false when it does not fit in int64_t. */
bool mt_layout_span(mt_dtype dtype, const mt_format *format, int rank, const int64_t *shape,
                    const int64_t *stride, int block_axis, int64_t *lo, int64_t *hi);

#endif
