// SPDX-License-Identifier: Apache-2.0
/*
 * tensor.h - tensors: shape, strides, and shared storage that knows where it lives.
 *
 * Ownership: a tensor is reference-counted; every function that returns one through
 * `mt_tensor **out` gives the caller one reference, to be given up with
 * mt_tensor_release(). Views hold their storage; the storage goes with its last view.
 * `*out` is set to NULL first, so an error leaves NULL.
 *
 * Shapes: rank 0 (a scalar) to MT_MAX_RANK; extents in elements, >= 0; an extent of 0
 * makes an empty tensor, which is valid everywhere. Strides are in elements, of any
 * sign. The number of elements and of bytes must fit in int64_t.
 *
 * Memory: what the library allocates is 64-byte aligned. Storage may have its
 * content on the host, on a device, or on both; mt_tensor_read() and
 * mt_tensor_write() bring it to the host, waiting for pending work.
 *
 * Threads: the description (shape, strides, dtype) never changes after creation and
 * may be read from anywhere. Reference counts are atomic. The content follows the
 * rule of memory: any number of readers or one writer at a time.
 */
#ifndef MECANTENSOR_TENSOR_H
#define MECANTENSOR_TENSOR_H

#include <mecantensor/dtype.h>
#include <mecantensor/quant.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MT_MAX_RANK 16

typedef struct mt_tensor mt_tensor;

/* Called once, from whichever thread drops the last reference to wrapped memory. */
typedef void (*mt_release_fn)(void *data, void *user);

/* ---- making tensors ----------------------------------------------------------------- */

/* A new row-major tensor, filled with zeros. shape may be NULL for rank 0. */
MT_API mt_status mt_tensor_create(mt_dtype dtype, int rank, const int64_t *shape, mt_tensor **out);

/* The same in a block format; rank >= 1, blocks along the last axis. All bytes zero. */
MT_API mt_status mt_tensor_create_block(const mt_format *format, int rank, const int64_t *shape,
                                        mt_tensor **out);

/* A new row-major tensor with a copy of the mt_tensor_bytes() bytes at data. */
MT_API mt_status mt_tensor_from_data(mt_dtype dtype, int rank, const int64_t *shape,
                                     const void *data, mt_tensor **out);

/*
 * A tensor on the caller's memory, not copied. data points at element (0, ..., 0);
 * strides may be NULL (row-major) and are not checked against the size of the
 * memory: the caller answers for them; those of axes of one element do not count.
 * data may be NULL only when the tensor is empty. Any alignment is allowed (fast paths
 * like the element's own).
 * The memory must stay valid until release(data, user) is called (release may be
 * NULL: then until the last tensor on it is released and mt_runtime_sync() of every
 * runtime that used it has returned). On error release is not called.
 */
MT_API mt_status mt_tensor_wrap(void *data, mt_dtype dtype, int rank, const int64_t *shape,
                                const int64_t *strides, mt_release_fn release, void *user,
                                mt_tensor **out);

/* The same for row-major blocks of a format; data needs no alignment. */
MT_API mt_status mt_tensor_wrap_block(void *data, const mt_format *format, int rank,
                                      const int64_t *shape, mt_release_fn release, void *user,
                                      mt_tensor **out);

/* One more reference to the same tensor; returns it. NULL gives NULL. */
MT_API mt_tensor *mt_tensor_retain(mt_tensor *tensor);

/* Gives up *tensor and sets it to NULL. NULL and a pointer to NULL are fine. Never
 * waits for a device: memory in use by pending work is freed by the first op or sync on
 * that device after it is done. */
MT_API void mt_tensor_release(mt_tensor **tensor);

/* ---- asking ------------------------------------------------------------------------- */
/* NULL asks for the properties of nothing: 0, NULL or false. */

MT_API mt_dtype mt_tensor_dtype(const mt_tensor *tensor);
MT_API const mt_format *mt_tensor_format(const mt_tensor *tensor); /* NULL unless MT_BLOCK */
MT_API int mt_tensor_block_axis(const mt_tensor *tensor);          /* -1 unless MT_BLOCK */
MT_API int mt_tensor_rank(const mt_tensor *tensor);
/* rank values each, owned by the tensor; never NULL for a tensor */
MT_API const int64_t *mt_tensor_shape(const mt_tensor *tensor);
MT_API const int64_t *mt_tensor_strides(const mt_tensor *tensor);
MT_API int64_t mt_tensor_elements(const mt_tensor *tensor);
/* Bytes of a packed row-major tensor of this shape and dtype (not of the storage). */
MT_API size_t mt_tensor_bytes(const mt_tensor *tensor);
/* Row-major without gaps (extents of 1 are ignored); block formats: as created. */
MT_API bool mt_tensor_is_contiguous(const mt_tensor *tensor);

/* ---- content ------------------------------------------------------------------------ */

/*
 * The host address of element (0, ..., 0), valid while the tensor is held and until
 * an op or mt_tensor_write() touches its storage. Blocks until pending work on
 * the storage is done and its content has arrived. Step by mt_tensor_strides().
 * Errors: DEVICE_LOST, BACKEND (work that produces it failed), OUT_OF_MEMORY, FORKED.
 */
MT_API mt_status mt_tensor_read(const mt_tensor *tensor, const void **data);

/* The same, to write through: copies on devices become stale. Wrapped and imported
 * memory that is read-only gives MT_ERR_INVALID_ARGUMENT. */
MT_API mt_status mt_tensor_write(mt_tensor *tensor, void **data);

/* Copies out as packed row-major bytes; bytes must equal mt_tensor_bytes(). Blocks. */
MT_API mt_status mt_tensor_get(const mt_tensor *tensor, void *dst, size_t bytes);

/* Copies in from packed row-major bytes; bytes must equal mt_tensor_bytes(). Blocks. */
MT_API mt_status mt_tensor_set(mt_tensor *tensor, const void *src, size_t bytes);

/*
 * Promises that the content will never change again, so that backends may keep
 * packed or compiled copies of it (weights). Later writes through any tensor on the
 * same storage give MT_ERR_INVALID_ARGUMENT. Freezing twice is fine.
 */
MT_API mt_status mt_tensor_freeze(mt_tensor *tensor);

/* ---- views: share storage, copy nothing --------------------------------------------- */
/* axis counts from 0; negative counts from the end (-1 is the last).
 * Block formats: transpose and permute move the block axis along; slices along it
 * start and stop on a block (or stop at its end) and have step 1; reshape keeps it
 * whole; it cannot be broadcast. */

/* Elements start, start+step, ... before stop; 0 <= start <= stop <= extent, step >= 1. */
MT_API mt_status mt_tensor_slice(mt_tensor *tensor, int axis, int64_t start, int64_t stop,
                                 int64_t step, mt_tensor **out);
MT_API mt_status mt_tensor_transpose(mt_tensor *tensor, int axis_a, int axis_b, mt_tensor **out);
/* out axis i is axis axes[i]; rank values, each axis once. */
MT_API mt_status mt_tensor_permute(mt_tensor *tensor, const int *axes, mt_tensor **out);
/* The same number of elements; one extent may be -1 (worked out). When strides
 * cannot express it: MT_ERR_UNSUPPORTED (mt_contiguous() first). */
MT_API mt_status mt_tensor_reshape(mt_tensor *tensor, int rank, const int64_t *shape,
                                   mt_tensor **out);
/* Aligned at the last axis; extents of 1 and missing axes repeat (stride 0). Such a
 * view is for reading: mt_tensor_write() refuses it. */
MT_API mt_status mt_tensor_broadcast(mt_tensor *tensor, int rank, const int64_t *shape,
                                     mt_tensor **out);

/* ---- DLPack (the C struct ABI, https://dmlc.github.io/dlpack) ----------------------- */
/* The layouts are in the user's own copy of dlpack.h. Host memory, no block formats. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Blocks until the content is on the host. The consumer calls (*out)->deleter once, from
 * any thread; it holds a reference until then. What must not be written (frozen, read-only,
 * broadcast) gets the read-only flag of the versioned struct; the other struct cannot say
 * so: MT_ERR_UNSUPPORTED. What a consumer writes after an op used the tensor on a device
 * is not seen there: mt_tensor_write() once to make it so. */
MT_API mt_status mt_tensor_to_dlpack(mt_tensor *tensor, struct DLManagedTensor **out);
MT_API mt_status mt_tensor_to_dlpack_versioned(mt_tensor *tensor,
                                               struct DLManagedTensorVersioned **out);

/* Takes over managed: its deleter runs when the last tensor on it goes. On error the
 * caller keeps it. The read-only flag is kept. Devices other than CPU, lanes other than 1,
 * types that are no mt_dtype, rank above MT_MAX_RANK, versions other than 1.x:
 * MT_ERR_UNSUPPORTED. */
MT_API mt_status mt_tensor_from_dlpack(struct DLManagedTensor *managed, mt_tensor **out);
MT_API mt_status mt_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                                 mt_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
