// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include <stdio.h>
#include <string.h>

#define MT_OP(symbol) extern const mt_op_def symbol;
#include "ops.def"
#undef MT_OP

static const mt_op_def *const ops[] = {
#define MT_OP(symbol) &symbol,
#include "ops.def"
#undef MT_OP
};

enum { OP_COUNT = sizeof(ops) / sizeof(ops[0]) };

static const char *const attr_names[MT_ATTR_COUNT] = {
#define MT_ATTR(key, name) [MT_ATTR_##key] = name,
#include "attrs.def"
#undef MT_ATTR
};

/* ---- tables ------------------------------------------------------------------------- */

const mt_op_def *mt_op_at(int32_t number) {
  return number >= 1 && number <= OP_COUNT ? ops[number - 1] : NULL;
}

int32_t mt_op_number(const mt_op_def *def) {
  return def->number;
}

int32_t mt_op_find(const char *name, uint32_t version) {
  for (int32_t i = 0; name && i < OP_COUNT; i++) {
    if (ops[i]->version == version && strcmp(ops[i]->name, name) == 0) {
      return i + 1;
    }
  }
  return 0;
}

const char *mt_attr_name(int32_t key) {
  return key > 0 && key < MT_ATTR_COUNT ? attr_names[key] : "unknown";
}

int32_t mt_attr_find(const char *name) {
  for (int32_t i = 1; name && i < MT_ATTR_COUNT; i++) {
    if (strcmp(attr_names[i], name) == 0) {
      return i;
    }
  }
  return 0;
}

/* ---- attributes --------------------------------------------------------------------- */

static mt_attr_v1 *new_attr(mt_op_call *call, mt_attr_key key, int32_t type) {
  mt_attr_v1 *attr = &call->attrs[call->attr_count++];
  *attr = (mt_attr_v1){.key = (int32_t)key, .type = type, .flags = MT_ABI_ATTR_REQUIRED};
  return attr;
}

void mt_op_attr_f64(mt_op_call *call, mt_attr_key key, double value) {
  new_attr(call, key, MT_ABI_ATTR_F64)->value.f64 = value;
}

void mt_op_attr_i64(mt_op_call *call, mt_attr_key key, int64_t value) {
  new_attr(call, key, MT_ABI_ATTR_I64)->value.i64 = value;
}

void mt_op_attr_list(mt_op_call *call, mt_attr_key key, const int64_t *list, size_t count) {
  mt_attr_v1 *attr = new_attr(call, key, MT_ABI_ATTR_I64_LIST);
  attr->value.list = list;
  attr->count = (uint32_t)count;
}

const mt_attr_v1 *mt_ref_attr(const mt_ref_call *call, mt_attr_key key) {
  for (uint32_t i = 0; i < call->attr_count; i++) {
    if (call->attrs[i].key == (int32_t)key) {
      return &call->attrs[i];
    }
  }
  return NULL;
}

double mt_ref_f64(const mt_ref_call *call, mt_attr_key key, double otherwise) {
  const mt_attr_v1 *attr = mt_ref_attr(call, key);
  return attr ? attr->value.f64 : otherwise;
}

int64_t mt_ref_i64(const mt_ref_call *call, mt_attr_key key, int64_t otherwise) {
  const mt_attr_v1 *attr = mt_ref_attr(call, key);
  return attr ? attr->value.i64 : otherwise;
}

/* ---- arguments and results ---------------------------------------------------------- */

mt_status mt_op_require(const char *op, const char *name, const void *pointer) {
  return pointer ? MT_OK : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s is NULL", op, name);
}

static bool kind_has(mt_kind kind, mt_dtype dtype) {
  switch (kind) {
  case MT_KIND_FLOAT: return mt_is_float(dtype);
  case MT_KIND_NUMBER: return dtype != MT_BLOCK && dtype != MT_BOOL;
  case MT_KIND_PLAIN: return dtype != MT_BLOCK;
  case MT_KIND_INDEX: return dtype == MT_I32 || dtype == MT_I64;
  case MT_KIND_BOOL: return dtype == MT_BOOL;
  }
  return false;
}

mt_status mt_op_input(const char *op, const char *name, const mt_tensor *tensor, mt_kind kind) {
  static const char *const expected[] = {[MT_KIND_FLOAT] = "f32, f64, f16 or bf16",
                                         [MT_KIND_NUMBER] = "numbers",
                                         [MT_KIND_PLAIN] = "a dtype other than a block format",
                                         [MT_KIND_INDEX] = "i32 or i64",
                                         [MT_KIND_BOOL] = "bool"};
  char text[MT_DESCRIBE_BYTES];
  MT_TRY(mt_op_require(op, name, tensor));
  return kind_has(kind, tensor->dtype)
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %s: expected %s", op, name,
                       mt_tensor_describe(tensor, text, sizeof(text)), expected[kind]);
}

mt_status mt_op_same_dtype(const char *op, const char *a_name, const mt_tensor *a,
                           const char *b_name, const mt_tensor *b) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  return a->dtype == b->dtype ? MT_OK
                              : mt_fail(MT_ERR_INVALID_ARGUMENT,
                                        "%s: %s %s and %s %s: dtypes differ (mt_cast first)", op,
                                        a_name, mt_tensor_describe(a, left, sizeof(left)), b_name,
                                        mt_tensor_describe(b, right, sizeof(right)));
}

mt_status mt_op_options(const char *op, const void *given, void *options, size_t size) {
  size_t given_size;
  if (!given) {
    return MT_OK;
  }
  memcpy(&given_size, given, sizeof(given_size));
  if (given_size < sizeof(given_size)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "%s: options.struct_size %zu: expected %zu (the *_OPTIONS_INIT macro sets it)",
                   op, given_size, size);
  }
  memcpy(options, given, given_size < size ? given_size : size);
  return MT_OK;
}

mt_status mt_op_range(const char *op, const char *name, int64_t value, int64_t lo, int64_t hi) {
  return value >= lo && value <= hi
             ? MT_OK
             : mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %lld: expected %lld .. %lld", op, name,
                       (long long)value, (long long)lo, (long long)hi);
}

mt_status mt_op_activation(const char *op, mt_activation activation) {
  return mt_op_range(op, "activation", activation, MT_ACT_NONE, MT_ACT_SILU);
}

static bool same_shape(const mt_tensor *tensor, int rank, const int64_t *shape) {
  return tensor->rank == rank &&
         (rank == 0 || memcmp(tensor->shape, shape, (size_t)rank * sizeof(*shape)) == 0);
}

mt_status mt_op_output(const char *op, mt_tensor **out, mt_dtype dtype, int rank,
                       const int64_t *shape, mt_tensor **dst) {
  char given[MT_DESCRIBE_BYTES], wanted[MT_DESCRIBE_BYTES];
  *dst = NULL;
  if (!*out) {
    mt_layout layout;
    MT_TRY(mt_layout_packed(op, dtype, NULL, rank, shape, &layout));
    return mt_tensor_create_lazy(&layout, dst);
  }
  if ((*out)->dtype != dtype || !same_shape(*out, rank, shape)) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: out is %s: expected %s%s", op,
                   mt_tensor_describe(*out, given, sizeof(given)), mt_dtype_name(dtype),
                   mt_shape_describe(rank, shape, wanted, sizeof(wanted)));
  }
  MT_TRY(mt_tensor_writable(op, *out));
  *dst = *out;
  return MT_OK;
}

static mt_status overlap(const mt_op_call *call, const char *out, const char *other, size_t number,
                         const mt_tensor *tensor, bool same_ok) {
  char text[MT_DESCRIBE_BYTES];
  return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s overlaps %s %zu, %s: expected %s",
                 call->def->name, out, other, number,
                 mt_tensor_describe(tensor, text, sizeof(text)),
                 same_ok ? "the same view or other memory" : "other memory");
}

static mt_status check_inputs(const mt_op_call *call, const char *name, const mt_tensor *out,
                              bool same_ok) {
  for (size_t i = 0; i < call->in_count; i++) {
    const mt_tensor *in = call->in[i];
    bool may = same_ok && (i == 0 || !call->only_first_in_place);
    if (in && mt_tensor_overlaps(in, out) && !(may && mt_tensor_same_view(in, out))) {
      return overlap(call, name, "input", i, in, may);
    }
  }
  return MT_OK;
}

mt_status mt_op_check_overlap(const mt_op_call *call, bool in_place_ok) {
  MT_TRY(check_inputs(call, "out", call->out, in_place_ok));
  for (size_t i = 0; i < call->more_count; i++) {
    char name[32];
    snprintf(name, sizeof(name), "output %zu", i + 1);
    MT_TRY(check_inputs(call, name, call->more[i], false));
    for (size_t j = 0; j <= i; j++) {
      const mt_tensor *other = j == 0 ? call->out : call->more[j - 1];
      if (mt_tensor_overlaps(other, call->more[i])) {
        return overlap(call, name, "output", j, other, false);
      }
    }
  }
  return MT_OK;
}

void mt_op_drop_outputs(mt_op_call *call, mt_tensor **outs[]) {
  for (size_t i = 0; i <= call->more_count; i++) {
    mt_tensor **made = mt_op_out(call, i);
    if (!*outs[i]) {
      mt_tensor_release(made);
    }
  }
}

mt_status mt_op_run_many(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor **outs[]) {
  bool given = false;
  for (size_t i = 0; i <= call->more_count; i++) {
    given = given || *outs[i];
  }
  mt_status status = given ? mt_op_check_overlap(call, in_place_ok) : MT_OK;
  if (status == MT_OK) {
    status = mt_dispatch(rt, call);
  }
  if (status != MT_OK) {
    mt_op_drop_outputs(call, outs);
    return status;
  }
  for (size_t i = 0; i <= call->more_count; i++) {
    *outs[i] = *mt_op_out(call, i);
  }
  return MT_OK;
}

mt_status mt_op_run(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor **out) {
  return mt_op_run_many(rt, call, in_place_ok, &out);
}

mt_status mt_op_run_view(mt_runtime *rt, mt_op_call *call, bool in_place_ok, mt_tensor *dst,
                         mt_tensor **out) {
  mt_tensor *view = call->out; /* given: stays ours */
  mt_status status = mt_op_run(rt, call, in_place_ok, &view);
  mt_tensor_release(&call->out);
  if (!*out && status == MT_OK) {
    *out = dst;
  } else if (!*out) {
    mt_tensor_release(&dst);
  }
  return status;
}

mt_status mt_broadcast_shapes(const char *op, const mt_tensor *a, const mt_tensor *b, int skip,
                              int *rank, int64_t *shape) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  int a_rank = a->rank - skip, b_rank = b->rank - skip;
  *rank = a_rank > b_rank ? a_rank : b_rank;
  for (int i = 1; i <= *rank; i++) {
    int64_t x = i <= a_rank ? a->shape[a_rank - i] : 1;
    int64_t y = i <= b_rank ? b->shape[b_rank - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: a %s and b %s do not broadcast: %lld and %lld",
                     op, mt_tensor_describe(a, left, sizeof(left)),
                     mt_tensor_describe(b, right, sizeof(right)), (long long)x, (long long)y);
    }
    shape[*rank - i] = x == 1 ? y : x;
  }
  return MT_OK;
}

mt_status mt_broadcast_onto(const char *op, const char *name, const mt_tensor *tensor, int *rank,
                            int64_t *shape) {
  char left[MT_DESCRIBE_BYTES], right[MT_DESCRIBE_BYTES];
  int missing = tensor->rank > *rank ? tensor->rank - *rank : 0;
  for (int i = 1; i <= tensor->rank && i <= *rank; i++) {
    int64_t x = tensor->shape[tensor->rank - i], y = shape[*rank - i];
    if (x != y && x != 1 && y != 1) {
      return mt_fail(MT_ERR_INVALID_ARGUMENT, "%s: %s %s does not broadcast with %s: %lld and %lld",
                     op, name, mt_tensor_describe(tensor, left, sizeof(left)),
                     mt_shape_describe(*rank, shape, right, sizeof(right)), (long long)x,
                     (long long)y);
    }
  }
  for (int i = *rank; missing > 0 && i-- > 0;) {
    shape[i + missing] = shape[i];
  }
  for (int i = 0; i < missing; i++) {
    shape[i] = 1;
  }
  *rank += missing;
  for (int i = 1; i <= tensor->rank; i++) {
    if (shape[*rank - i] == 1) {
      shape[*rank - i] = tensor->shape[tensor->rank - i];
    }
  }
  return MT_OK;
}

mt_status mt_op_run_broadcast(mt_runtime *rt, mt_op_call *call, mt_tensor *const *inputs,
                              size_t count, mt_tensor **out) {
  mt_tensor *in[MT_BROADCAST_INPUTS] = {NULL}, *views[MT_BROADCAST_INPUTS] = {NULL};
  mt_status status = MT_OK;
  for (size_t i = 0; status == MT_OK && i < count; i++) {
    in[i] = inputs[i];
    if (!same_shape(inputs[i], call->out->rank, call->out->shape)) {
      status = mt_tensor_broadcast(inputs[i], call->out->rank, call->out->shape, &views[i]);
      in[i] = views[i];
    }
  }
  if (status == MT_OK) {
    call->in = in;
    call->in_count = count;
    status = mt_op_run(rt, call, true, out);
  } else {
    mt_op_drop_outputs(call, &out);
  }
  for (size_t i = 0; i < count; i++) {
    mt_tensor_release(&views[i]);
  }
  return status;
}

mt_status mt_op_broadcast(mt_tensor *tensor, int rank, const int64_t *shape, mt_tensor **out) {
  if (same_shape(tensor, rank, shape)) {
    *out = mt_tensor_retain(tensor);
    return MT_OK;
  }
  return mt_tensor_broadcast(tensor, rank, shape, out);
}
