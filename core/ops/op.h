// SPDX-License-Identifier: Apache-2.0
/*
 * op.h - what an op is made of (internal side of ops.h). docs/adding-an-op.md.
 *
 * A public function (mt_matmul) validates and works out the shape of the result, gets
 * the output with mt_op_output(), fills in an mt_op_call and gives it to
 * mt_op_run(): dispatch finds the device or runs the op's reference kernel.
 */
#ifndef MT_CORE_OP_H
#define MT_CORE_OP_H

#include "../error.h"
#include "../tensor_impl.h"
#include <mecantensor/ops.h>
#include <mecantensor/plugin.h>

/* Attribute keys by number. */
typedef enum mt_attr_key {
  MT_ATTR_NONE = 0,
#define MT_ATTR(key, name) MT_ATTR_##key,
#include "attrs.def"
#undef MT_ATTR
  MT_ATTR_COUNT
} mt_attr_key;

enum { MT_OP_MAX_ATTRS = 16, MT_OP_MAX_INPUTS_ABI = 64, MT_OP_MAX_MORE = 3 };

/* An operand as the reference kernel sees it: host memory. */
typedef struct mt_view {
  mt_dtype dtype; /* MT_DTYPE_NONE: absent */
  const mt_format *format;
  int rank;
  int block_axis;
  const int64_t *shape;
  const int64_t *stride; /* elements */
  void *data;            /* element 0 */
} mt_view;

typedef struct mt_ref_call {
  const mt_view *in;
  size_t in_count;
  mt_view out;
  const mt_view *more; /* outputs 1 .. of an op that has several */
  const mt_attr_v1 *attrs;
  uint32_t attr_count;
} mt_ref_call;

/* Numbers of ops, from 1: positions in ops.def. */
enum {
  MT_OP_NONE,
#define MT_OP(symbol) symbol##_number,
#include "ops.def"
#undef MT_OP
};

typedef struct mt_op_def {
  const char *name; /* "matmul"; what plugins intern */
  uint32_t version;
  /* Reads in, writes out; sees only valid operands, any strides, any extent (also 0).
   * May fail for memory only. */
  mt_status (*reference)(const mt_ref_call *call);
  int32_t number; /* mt_op_NAME_number */
} mt_op_def;

typedef struct mt_op_call {
  const mt_op_def *def;
  mt_tensor *const *in; /* an element may be NULL: absent */
  size_t in_count;
  mt_tensor *out;                  /* output 0 */
  mt_tensor *more[MT_OP_MAX_MORE]; /* outputs 1 .. */
  size_t more_count;
  bool reads_out;           /* matmul with beta != 0 */
  bool only_first_in_place; /* in place means input 0, and no other */
  uint32_t attr_count;
  mt_attr_v1 attrs[MT_OP_MAX_ATTRS];
} mt_op_call;

/* ---- op.c --------------------------------------------------------------------------- */
/* Ops by 1-based number (position in ops.def). */
const mt_op_def *mt_op_at(int32_t number); /* NULL past the end */
int32_t mt_op_number(const mt_op_def *def);
int32_t mt_op_find(const char *name, uint32_t version); /* 0: none */
const char *mt_attr_name(int32_t key);
int32_t mt_attr_find(const char *name); /* 0: none */

void mt_op_attr_f64(mt_op_call *call, mt_attr_key key, double value);
void mt_op_attr_i64(mt_op_call *call, mt_attr_key key, int64_t value);
/* list must outlive the call of mt_op_run */
void mt_op_attr_list(mt_op_call *call, mt_attr_key key, const int64_t *list, size_t count);
/* For reference kernels: NULL or `otherwise` when the call does not have the attribute. */
const mt_attr_v1 *mt_ref_attr(const mt_ref_call *call, mt_attr_key key);
double mt_ref_f64(const mt_ref_call *call, mt_attr_key key, double otherwise);
int64_t mt_ref_i64(const mt_ref_call *call, mt_attr_key key, int64_t otherwise);

/* "add: rt is NULL", "add: a is NULL", "add: out is NULL". */
mt_status mt_op_require(const char *op, const char *name, const void *pointer);

/* What dtypes an operand may have. */
typedef enum mt_kind {
  MT_KIND_FLOAT,  /* f32, f64, f16, bf16 */
  MT_KIND_NUMBER, /* those and the integers */
  MT_KIND_PLAIN,  /* all but block formats */
  MT_KIND_INDEX,  /* i32, i64 */
  MT_KIND_BOOL,
} mt_kind;

/* "op: name is NULL"; "op: name f32[3]: expected i32 or i64". */
mt_status mt_op_input(const char *op, const char *name, const mt_tensor *tensor, mt_kind kind);

/* "op: a f32[3] and b f64[3]: dtypes differ (mt_cast first)" */
mt_status mt_op_same_dtype(const char *op, const char *a_name, const mt_tensor *a,
                           const char *b_name, const mt_tensor *b);

/* Options of a call, over the defaults in *options (size bytes). Both start with struct_size.
 * given: NULL, or the caller's; one that was built with an older, shorter struct gets
 * the defaults for the rest. */
mt_status mt_op_options(const char *op, const void *given, void *options, size_t size);

/* An mt_activation of the options; else "op: activation 7: expected 0 .. 4". */
mt_status mt_op_activation(const char *op, mt_activation activation);

/* "op: name 7: expected lo .. hi" */
mt_status mt_op_range(const char *op, const char *name, int64_t value, int64_t lo, int64_t hi);

/* *dst: *out when given (checked against dtype and shape, not repeating, writable), else
 * a new tensor. */
mt_status mt_op_output(const char *op, mt_tensor **out, mt_dtype dtype, int rank,
                       const int64_t *shape, mt_tensor **dst);

/* Rejects overlap of call->out with inputs (the same view is fine when in_place_ok),
 * dispatches; then *out = call->out on success, else a new tensor is released. */
mt_status mt_op_run(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor **out);

/* The same for an op with several outputs: outs[i] is where the caller wants output i. All of
 * them are handed over, or none. in_place_ok is for output 0; the others may overlap neither
 * an input nor each other. */
mt_status mt_op_run_many(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor **outs[]);

/* For calls that end before mt_op_run_many: releases the outputs that mt_op_output made. */
void mt_op_drop_outputs(mt_op_call *call, mt_tensor **outs[]);

/* mt_op_run where call->out is a view of what *out is to be: dst (given, or made by mt_op_output).
 * Takes over neither; releases call->out. */
mt_status mt_op_run_view(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor *dst,
                         mt_tensor **out);

/* INVALID_ARGUMENT when an output overlaps an input or another output; mt_op_run checks, too. */
mt_status mt_op_check_overlap(const mt_op_call *call, bool in_place_ok);

/* Output i of a call. */
static inline mt_tensor **mt_op_out(mt_op_call *call, size_t i) {
  return i == 0 ? &call->out : &call->more[i - 1];
}

/* The shape two shapes broadcast to, without their last `skip` axes (matmul: 2; each has
 * that many); the message names op and both shapes. */
mt_status mt_broadcast_shapes(const char *op, const mt_tensor *a, const mt_tensor *b, int skip,
                              int *rank, int64_t *shape);

/* What *shape and the tensor's shape broadcast to, into *shape. */
mt_status mt_broadcast_onto(const char *op, const char *name, const mt_tensor *tensor, int *rank,
                            int64_t *shape);

enum { MT_BROADCAST_INPUTS = 3 };
/* mt_op_run with inputs that are broadcast to the shape of call->out first. */
mt_status mt_op_run_broadcast(mt_runtime *rt, mt_op_call *call, mt_tensor *const *inputs,
                              size_t count, mt_tensor **out);

/* A view of that shape, which the tensor broadcasts to; itself when it has it already. */
mt_status mt_op_broadcast(mt_tensor *tensor, int rank, const int64_t *shape, mt_tensor **out);

/* ---- hal/dispatch.c ----------------------------------------------------------------- */
mt_status mt_dispatch(mt_runtime *rt, const mt_op_call *call);

#endif
