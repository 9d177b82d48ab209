// SPDX-License-Identifier: Apache-2.0
/* move.c - copy, cast, concat and gather. */
#include "cpu.h"

enum { CAST_BLOCK = 512 };

/* ---- copy ---- */
static bool plain_dtype(const mt_operand_v1 *x, mt_support_v1 *answer) {
  if (cpu_dtype_size(x->dtype) == 0) {
    cpu_no(answer, "dtype %s: plain elements only", cpu_dtype_name(x->dtype));
    return false;
  }
  return true;
}

void cpu_copy_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  if (plain_dtype(cpu_in(op, 0), answer)) {
    answer->answer = MT_ABI_SUPPORT_YES;
  }
}

int32_t cpu_copy_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  const mt_operand_v1 *operand[2] = {cpu_out(op), cpu_in(op, 0)};
  cpu_nest nest;
  cpu_nest_build(&nest, 2, operand);
  cpu_copy_nest(queue->plugin, &nest, cpu_dtype_size(operand[0]->dtype), operand[0]->data,
                operand[1]->data);
  return MT_ABI_OK;
}

/* ---- cast ---- */
typedef struct cast_job {
  cpu_cast_fn *fn;
  int from_size, to_size;
} cast_job;

static void cast_row(void *arg, int64_t n, char *const *data, const int64_t *step) {
  const cast_job *job = arg;
  if (step[0] == 1 && step[1] == 1) {
    job->fn(n, data[1], data[0]);
    return;
  }
  uint64_t from[CAST_BLOCK], to[CAST_BLOCK]; /* aligned for every element */
  for (int64_t i = 0; i < n; i += CAST_BLOCK) {
    int64_t count = cpu_min(CAST_BLOCK, n - i);
    cpu_copy_strided(count, job->from_size, data[1] + i * step[1] * job->from_size, step[1],
                     (char *)from, 1);
    job->fn(count, from, to);
    cpu_copy_strided(count, job->to_size, (const char *)to, 1, data[0] + i * step[0] * job->to_size,
                     step[0]);
  }
}

void cpu_cast_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                      mt_support_v1 *answer) {
  (void)plugin;
  (void)kind;
  int32_t from = cpu_in(op, 0)->dtype, to = cpu_out(op)->dtype;
  bool same = from == to && cpu_dtype_size(from) > 0;
  if (!same && !vec_cast(from, to)) {
    cpu_no(answer, "cast from %s to %s", cpu_dtype_name(from), cpu_dtype_name(to));
    return;
  }
  answer->answer = MT_ABI_SUPPORT_YES;
}

int32_t cpu_cast_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                     mt_message_v1 *msg) {
  const mt_operand_v1 *operand[2] = {cpu_out(op), cpu_in(op, 0)};
  if (operand[0]->dtype == operand[1]->dtype) {
    return cpu_copy_run(queue, kind, plan, op, msg);
  }
  cast_job job = {vec_cast(operand[1]->dtype, operand[0]->dtype), cpu_dtype_size(operand[1]->dtype),
                  cpu_dtype_size(operand[0]->dtype)};
  char *data[2] = {operand[0]->data, operand[1]->data};
  int size[2] = {job.to_size, job.from_size};
  cpu_nest nest;
  cpu_nest_build(&nest, 2, operand);
  cpu_nest_run(queue->plugin, &nest, data, size, 65536.0, cast_row, &job);
  return MT_ABI_OK;
}

/* ---- concat ---- */
void cpu_concat_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)kind;
  int64_t axis = cpu_attr_i64(plugin, op, CPU_ATTR_AXIS, -1);
  if (axis < 0 || axis >= cpu_out(op)->rank) {
    cpu_no(answer, "attribute axis is missing or out of range");
  } else if (plain_dtype(cpu_out(op), answer)) {
    answer->answer = MT_ABI_SUPPORT_YES;
  }
}

int32_t cpu_concat_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  const mt_operand_v1 *out = cpu_out(op);
  int64_t axis = cpu_attr_i64(queue->plugin, op, CPU_ATTR_AXIS, 0);
  int size = cpu_dtype_size(out->dtype);
  int64_t at = 0;
  for (uint32_t i = 0; i < op->input_count; i++) {
    const mt_operand_v1 *in = cpu_in(op, i);
    if (cpu_elements(in) > 0) {
      cpu_nest nest;
      cpu_nest_start(&nest, 2);
      for (int k = 0; k < in->rank; k++) {
        int64_t strides[2] = {out->stride[k], in->stride[k]};
        cpu_nest_axis(&nest, in->shape[k], strides);
      }
      cpu_nest_finish(&nest, 0);
      cpu_copy_nest(queue->plugin, &nest, size, (char *)out->data + at * out->stride[axis] * size,
                    in->data);
    }
    at += in->shape[axis];
  }
  return MT_ABI_OK;
}

/* ---- gather ---- */
typedef struct gather_job {
  const cpu_plugin *plugin;
  const mt_operand_v1 *table, *indices, *out;
  cpu_nest picks; /* operands: out, indices */
  cpu_nest row;   /* operands: out, table; the axes after the first */
  int64_t row_elements;
  int size; /* 0: blocks */
  uint32_t tasks;
  int64_t count;
} gather_job;

void cpu_gather_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                        mt_support_v1 *answer) {
  (void)kind;
  const mt_operand_v1 *table = cpu_in(op, 0), *out = cpu_out(op);
  int32_t index_dtype = cpu_in(op, 1)->dtype;
  if (index_dtype != MT_ABI_DTYPE_I32 && index_dtype != MT_ABI_DTYPE_I64) {
    cpu_no(answer, "indices of dtype %s: i32 and i64 only", cpu_dtype_name(index_dtype));
    return;
  }
  answer->answer = MT_ABI_SUPPORT_YES;
  if (table->dtype != MT_ABI_DTYPE_BLOCK) {
    plain_dtype(table, answer);
  } else if (plugin->q8_0 == 0 || table->format != plugin->q8_0 || table->rank != 2 ||
             table->block_axis != 1) {
    cpu_no(answer, "table of blocks: q8_0, rank 2, along the last axis only");
  } else if (out->stride[out->rank - 1] != 1 && out->shape[out->rank - 1] != 1) {
    answer->answer = MT_ABI_SUPPORT_AFTER_RELAYOUT;
    answer->relayout_outputs = 1;
  }
}

static int64_t index_at(const mt_operand_v1 *indices, int64_t offset) {
  return indices->dtype == MT_ABI_DTYPE_I32 ? ((const cpu_any_i32 *)indices->data)[offset]
                                            : ((const cpu_any_i64 *)indices->data)[offset];
}

static void copy_row(const gather_job *job, int64_t index, int64_t out_offset) {
  const mt_operand_v1 *table = job->table;
  int64_t from = index * table->stride[0];
  if (job->size == 0) {
    const uint8_t *blocks =
        (const uint8_t *)table->data + from / CPU_BLOCK_ELEMENTS * CPU_BLOCK_BYTES;
    vec_q8_0_decode(job->row_elements, blocks, (float *)job->out->data + out_offset);
    return;
  }
  const cpu_nest *row = &job->row;
  int last = row->rank - 1;
  int64_t at[CPU_MAX_RANK] = {0}, offset[CPU_NEST_OPERANDS] = {0};
  for (int64_t done = 0; done < job->row_elements; done += row->extent[last]) {
    cpu_copy_strided(
        row->extent[last], job->size, (const char *)table->data + (from + offset[1]) * job->size,
        row->stride[last][1], (char *)job->out->data + (out_offset + offset[0]) * job->size,
        row->stride[last][0]);
    cpu_nest_next(row, 1, at, offset);
  }
}

static void gather_rows(void *arg, uint32_t task) {
  const gather_job *job = arg;
  int64_t end = cpu_share(job->count, task + 1, job->tasks);
  for (int64_t i = cpu_share(job->count, task, job->tasks); i < end; i++) {
    int64_t offset[CPU_NEST_OPERANDS];
    cpu_nest_offsets(&job->picks, 0, i, offset);
    copy_row(job, index_at(job->indices, offset[1]), offset[0]);
  }
}

int32_t cpu_gather_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                       mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  gather_job job = {.plugin = queue->plugin,
                    .table = cpu_in(op, 0),
                    .indices = cpu_in(op, 1),
                    .out = cpu_out(op),
                    .size = cpu_dtype_size(cpu_in(op, 0)->dtype)};
  cpu_nest_start(&job.picks, 2);
  for (int i = 0; i < job.indices->rank; i++) {
    int64_t strides[2] = {job.out->stride[i], job.indices->stride[i]};
    cpu_nest_axis(&job.picks, job.indices->shape[i], strides);
  }
  cpu_nest_finish(&job.picks, 0);
  cpu_nest_start(&job.row, 2);
  for (int i = 1; i < job.table->rank; i++) {
    int64_t strides[2] = {job.out->stride[job.indices->rank + i - 1], job.table->stride[i]};
    cpu_nest_axis(&job.row, job.table->shape[i], strides);
  }
  cpu_nest_finish(&job.row, 0);
  job.row_elements = cpu_nest_elements(&job.row);
  job.count = cpu_nest_elements(&job.picks);
  if (job.count == 0 || job.row_elements == 0) {
    return MT_ABI_OK;
  }
  double work = (double)job.count * (double)job.row_elements;
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 65536.0), job.count);
  cpu_parallel(queue->plugin, job.tasks, gather_rows, &job);
  return MT_ABI_OK;
}
