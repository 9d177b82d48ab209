// SPDX-License-Identifier: Apache-2.0
/*
 * ops.h - operations on tensors.
 *
 * Common to all:
 *   - Inputs are only read. They may be views with any strides, broadcast, empty.
 *   - The output, `mt_tensor **out`: when *out is NULL a new contiguous tensor is made
 *     and the caller gets one reference. When *out is a tensor, the result is written
 *     into it: dtype and shape must be the result's, its strides are free (no
 *     repeated elements), and the pointer stays. So set it to NULL first. On error
 *     *out is what it was (the content of a given tensor is unspecified only for
 *     failures of a device).
 *   - A given output may be the very same view as an input of an elementwise op
 *     (in place). Any other overlap with an input is MT_ERR_INVALID_ARGUMENT, as seen from
 *     first to last byte: two sets of columns of one tensor do overlap.
 *   - Dtypes are not mixed: operands of one op have one dtype (cast first). f16 and
 *     bf16 compute in f32 and round to nearest even once at the end.
 *   - Broadcasting as in NumPy: aligned at the last axis, extents of 1 repeat.
 *   - axis: negative counts from the end.
 *   - NaN propagates. Nothing traps.
 *   - Asynchronous: on a device the call returns when the work is queued;
 *     mt_tensor_read() or mt_runtime_sync() wait. A failure then is reported there.
 *   - Errors: INVALID_ARGUMENT (shapes, dtypes: the sentence has them), UNSUPPORTED (no
 *     named backend does it), OUT_OF_MEMORY, DEVICE_LOST, FORKED, BACKEND.
 *   - Thread-safe; concurrent calls must not write the same storage.
 */
#ifndef MECANTENSOR_OPS_H
#define MECANTENSOR_OPS_H

#include <mecantensor/runtime.h>
#include <mecantensor/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- matmul ------------------------------------------------------------------------- */
typedef enum mt_activation {
  MT_ACT_NONE = 0,
  MT_ACT_RELU = 1,
  MT_ACT_GELU = 2,      /* exact: x/2 (1 + erf(x/sqrt 2)) */
  MT_ACT_GELU_TANH = 3, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  MT_ACT_SILU = 4,      /* x / (1 + exp(-x)) */
} mt_activation;

typedef struct mt_matmul_options {
  size_t struct_size; /* set by MT_MATMUL_OPTIONS_INIT */
  int trans_a;        /* 1: the last two axes of a are swapped first */
  int trans_b;
  double alpha;    /* 1 by default */
  double beta;     /* 0 by default; else *out must be given and is read. 0: never read */
  mt_tensor *bias; /* NULL, or what broadcasts to the result; dtype of the result */
  mt_activation activation;
} mt_matmul_options;

#define MT_MATMUL_OPTIONS_INIT                                                                     \
  { sizeof(mt_matmul_options), 0, 0, 1.0, 0.0, 0, MT_ACT_NONE }

/*
 * out = activation(alpha * a b + beta * out + bias)
 * a [..., M, K], b [..., K, N], out [..., M, N]; leading axes broadcast. Rank >= 2.
 * a, b, bias: f32, f64, f16 or bf16, the same; or a and b i8, out and bias i32 (exact; wraps;
 * alpha, beta and activation at their defaults). b may also be in a block format whose blocks run
 * along K (weights [N, K] in that format with trans_b, for one); a and out are then f32. K = 0
 * gives zeros (then beta, bias, activation). options: NULL for the defaults.
 */
MT_API mt_status mt_matmul(mt_runtime *rt, mt_tensor *a, mt_tensor *b,
                           const mt_matmul_options *options, mt_tensor **out);

/* ---- elementwise, two inputs (broadcast; every dtype but bool) ---------------------- */
/* Integers wrap. Integer division truncates; by zero it gives 0. */
MT_API mt_status mt_add(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_sub(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_mul(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_div(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);

/* NaN when one is NaN; 0 is above -0. */
MT_API mt_status mt_maximum(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_minimum(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);

/* a to the power b, as pow() of C has it: pow(x, 0) and pow(1, y) are 1 even for NaN. f32, f64,
 * f16, bf16. */
MT_API mt_status mt_pow(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);

/* ---- comparing and choosing (broadcast) --------------------------------------------- */
/* out is bool. Every dtype but block formats; bool is equal or not_equal only. A comparison with
 * NaN is false, but not_equal is true. */
MT_API mt_status mt_equal(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_not_equal(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_less(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_less_equal(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_greater(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);
MT_API mt_status mt_greater_equal(mt_runtime *rt, mt_tensor *a, mt_tensor *b, mt_tensor **out);

/* a where condition (bool) is true, else b; bits unchanged. Every dtype but block formats. */
MT_API mt_status mt_where(mt_runtime *rt, mt_tensor *condition, mt_tensor *a, mt_tensor *b,
                          mt_tensor **out);

/* ---- elementwise, one input (f32, f64, f16, bf16) ----------------------------------- */
/* gelu, gelu_tanh and silu at -infinity: NaN, as their formulas (mt_activation) have it. */
MT_API mt_status mt_relu(mt_runtime *rt, mt_tensor *x, mt_tensor **out); /* NaN stays NaN */
MT_API mt_status mt_gelu(mt_runtime *rt, mt_tensor *x, mt_tensor **out); /* exact */
MT_API mt_status mt_gelu_tanh(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_silu(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_sigmoid(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_tanh(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_exp(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_log(mt_runtime *rt, mt_tensor *x, mt_tensor **out);  /* < 0: NaN; 0: -inf */
MT_API mt_status mt_sqrt(mt_runtime *rt, mt_tensor *x, mt_tensor **out); /* < 0: NaN */
MT_API mt_status mt_sin(mt_runtime *rt, mt_tensor *x, mt_tensor **out);  /* radians, any size */
MT_API mt_status mt_cos(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_erf(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_rsqrt(mt_runtime *rt, mt_tensor *x, mt_tensor **out); /* 1 / sqrt(x) */
MT_API mt_status mt_reciprocal(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_floor(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_ceil(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_round(mt_runtime *rt, mt_tensor *x, mt_tensor **out); /* half to even */
/* neg and abs: every dtype but bool; integers wrap, so abs of the lowest is itself. */
MT_API mt_status mt_neg(mt_runtime *rt, mt_tensor *x, mt_tensor **out);
MT_API mt_status mt_abs(mt_runtime *rt, mt_tensor *x, mt_tensor **out);

/* x into lo .. hi (infinite: open on that side), every dtype but bool; NaN stays. The bounds are
 * rounded to the dtype first: floats to nearest, integers inwards and into the range of
 * the dtype. No number in between is INVALID_ARGUMENT. */
MT_API mt_status mt_clamp(mt_runtime *rt, mt_tensor *x, double lo, double hi, mt_tensor **out);
MT_API mt_status mt_scale(mt_runtime *rt, mt_tensor *x, double factor, mt_tensor **out);

/* ---- moving and converting ---------------------------------------------------------- */
/* A packed row-major copy in storage of its own, or into *out. Every dtype, block
 * formats with the block axis last (else MT_ERR_UNSUPPORTED). */
MT_API mt_status mt_copy(mt_runtime *rt, mt_tensor *x, mt_tensor **out);

/* One more reference to x when it is contiguous, else mt_copy(). *out is overwritten: it is only an
 * output. */
MT_API mt_status mt_contiguous(mt_runtime *rt, mt_tensor *x, mt_tensor **out);

/* To another dtype (not MT_BLOCK). Float to int truncates toward zero and saturates;
 * NaN gives 0. Int to int wraps. To bool: x != 0. From a block format: to f32 (decodes). */
MT_API mt_status mt_cast(mt_runtime *rt, mt_tensor *x, mt_dtype dtype, mt_tensor **out);

/* f32 to a block format, blocks along the last axis; on the host. NaN and infinity
 * are MT_ERR_INVALID_ARGUMENT. *out is overwritten: it is only an output. */
MT_API mt_status mt_quantize(mt_runtime *rt, mt_tensor *x, const mt_format *format,
                             mt_tensor **out);

/* count >= 1 tensors of one dtype (no block formats), equal but for extent `axis`. */
MT_API mt_status mt_concat(mt_runtime *rt, mt_tensor *const *inputs, size_t count, int axis,
                           mt_tensor **out);

/*
 * Rows by number (embedding): table [R, ...], indices (i32 or i64) of any shape; out
 * has shape indices.shape + table.shape[1:]. The indices are brought to the host
 * and checked first: one outside 0 .. R-1 is MT_ERR_INVALID_ARGUMENT that names it. A
 * table [R, C] in a block format along C gives f32.
 */
MT_API mt_status mt_gather(mt_runtime *rt, mt_tensor *table, mt_tensor *indices, mt_tensor **out);

/*
 * out = x, then out[indices[i], ...] += updates[i, ...] for every i: x [R, ...], indices
 * (i32 or i64) of any shape, updates of shape indices.shape + x.shape[1:]. The gradient
 * of mt_gather. Rows that are named several times add up (floats in f32 or better, rounded
 * to the dtype at the end; integers wrap). out may be x. Indices are checked as in
 * mt_gather.
 */
MT_API mt_status mt_scatter_add(mt_runtime *rt, mt_tensor *x, mt_tensor *indices,
                                mt_tensor *updates, mt_tensor **out);

/* ---- reductions and softmax --------------------------------------------------------- */
/* axes: count values, each axis at most once; count 0 (axes may be NULL) means all.
 * keepdims 1: reduced extents stay as 1. sum: floats keep their dtype, integers and
 * bool give i64 (wraps). mean: floats. max, min: all but bool; NaN wins; an empty
 * reduction is INVALID_ARGUMENT (sum gives 0, mean NaN). */
MT_API mt_status mt_sum(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                        mt_tensor **out);
MT_API mt_status mt_mean(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                         mt_tensor **out);
MT_API mt_status mt_max(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                        mt_tensor **out);

MT_API mt_status mt_min(mt_runtime *rt, mt_tensor *x, const int *axes, int count, int keepdims,
                        mt_tensor **out);

/* Where along the axis the largest (smallest) element is, as i64; the first of equals, and the
 * first NaN when there is one. Every dtype but bool; an axis without elements is INVALID_ARGUMENT.
 * keepdims 1: the axis stays with extent 1. */
MT_API mt_status mt_argmax(mt_runtime *rt, mt_tensor *x, int axis, int keepdims, mt_tensor **out);
MT_API mt_status mt_argmin(mt_runtime *rt, mt_tensor *x, int axis, int keepdims, mt_tensor **out);

/* The k largest (or, with largest 0, smallest) along the axis, best first, and where they are
 * (i64); equals in the order in which they stand. 0 <= k <= extent. NaN counts as the largest.
 * Every dtype but bool. */
MT_API mt_status mt_topk(mt_runtime *rt, mt_tensor *x, int64_t k, int axis, int largest,
                         mt_tensor **values, mt_tensor **indices);

/* Running sums along the axis: out[i] = x[0] + ... + x[i]; exclusive: without x[i]; reverse: from
 * the end. Every dtype but bool; floats sum in f32 or better, integers wrap. */
MT_API mt_status mt_cumsum(mt_runtime *rt, mt_tensor *x, int axis, int exclusive, int reverse,
                           mt_tensor **out);

/* exp(x - max) / sum along axis; f32, f64, f16, bf16. A line of only -inf gives NaN. */
MT_API mt_status mt_softmax(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out);
/* Its logarithm, x - max - log(sum), without the loss of digits where softmax is small. */
MT_API mt_status mt_log_softmax(mt_runtime *rt, mt_tensor *x, int axis, mt_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
