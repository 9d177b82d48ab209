// SPDX-License-Identifier: Apache-2.0
/* pad.c - elements around a tensor, row by row of the result; every dtype. */
#include "cpu.h"

#include <string.h>

enum { CONSTANT, REFLECT, REPLICATE };

typedef struct pad_job {
  const mt_operand_v1 *x, *out;
  int64_t before[CPU_MAX_RANK];
  int64_t mode;
  int size;
  uint64_t fill; /* the bytes of one element */
  int64_t rows;
  uint32_t tasks;
} pad_job;

/* Where element `at` of the padded axis comes from; -1: from nowhere. */
static int64_t source(const pad_job *job, int axis, int64_t at) {
  int64_t from = at - job->before[axis], extent = job->x->shape[axis];
  if (from >= 0 && from < extent) {
    return from;
  }
  switch (job->mode) {
  case REFLECT: return from < 0 ? -from : 2 * (extent - 1) - from;
  case REPLICATE: return from < 0 ? 0 : extent - 1;
  default: return -1;
  }
}

/* Elements from .. to of the row come from elsewhere than the run in the middle. */
static void fill_ends(const pad_job *job, const char *src, int64_t from, int64_t to, char *dst) {
  int last = job->out->rank - 1, size = job->size;
  int64_t dst_step = job->out->stride[last], src_step = job->x->stride[last];
  for (int64_t i = from; i < to; i++) {
    int64_t at = src ? source(job, last, i) : -1;
    const char *element = at >= 0 ? src + at * src_step * size : (const char *)&job->fill;
    memcpy(dst + i * dst_step * size, element, (size_t)size);
  }
}

/* The row of the output at dst. src: the row of the input that it comes from, or NULL. */
static void pad_row(const pad_job *job, const char *src, char *dst) {
  int last = job->out->rank - 1, size = job->size;
  int64_t width = job->out->shape[last], first = job->before[last];
  int64_t run = job->x->shape[last], dst_step = job->out->stride[last];
  if (!src) {
    cpu_copy_strided(width, size, (const char *)&job->fill, 0, dst, dst_step);
    return;
  }
  fill_ends(job, src, 0, first, dst);
  if (run > 0) {
    cpu_copy_strided(run, size, src, job->x->stride[last], dst + first * dst_step * size, dst_step);
  }
  fill_ends(job, src, first + run, width, dst);
}

static void pad_rows(void *arg, uint32_t task) {
  const pad_job *job = arg;
  int64_t end = cpu_share(job->rows, task + 1, job->tasks);
  for (int64_t row = cpu_share(job->rows, task, job->tasks); row < end; row++) {
    int64_t rest = row, to = 0, from = 0;
    bool inside = cpu_elements(job->x) > 0;
    for (int axis = job->out->rank - 2; axis >= 0; axis--) {
      int64_t at = rest % job->out->shape[axis], of = source(job, axis, at);
      rest /= job->out->shape[axis];
      to += at * job->out->stride[axis];
      from += (of < 0 ? 0 : of) * job->x->stride[axis];
      inside = inside && of >= 0;
    }
    pad_row(job, inside ? (const char *)job->x->data + from * job->size : NULL,
            (char *)job->out->data + to * job->size);
  }
}

/* The fill of a float type; integers and bool only when it is 0. */
static bool set_fill(pad_job *job, double value) {
  int32_t dtype = job->out->dtype;
  float narrow = (float)value;
  job->fill = 0;
  if (value == 0 && !__builtin_signbit(value)) {
    return true;
  }
  if (dtype == MT_ABI_DTYPE_F64) {
    memcpy(&job->fill, &value, sizeof(value));
    return true;
  }
  /* f16 and bf16 are rounded once: the float must be the value itself */
  if (!cpu_is_real(dtype) ||
      (dtype != MT_ABI_DTYPE_F32 && !((double)narrow == value || value != value))) {
    return false;
  }
  cpu_row_out(dtype, 1, &narrow, (char *)&job->fill, 1);
  if (dtype == MT_ABI_DTYPE_F32) {
    memcpy(&job->fill, &narrow, sizeof(narrow));
  }
  return true;
}

static bool describe(const cpu_plugin *plugin, const mt_op_v1 *op, pad_job *job) {
  *job = (pad_job){.x = cpu_in(op, 0), .out = cpu_out(op)};
  job->size = cpu_dtype_size(job->out->dtype);
  job->mode = cpu_attr_i64(plugin, op, CPU_ATTR_MODE, CONSTANT);
  cpu_attr_list(plugin, op, CPU_ATTR_BEFORE, job->before);
  job->rows = cpu_elements(job->out) / job->out->shape[job->out->rank - 1];
  return set_fill(job, cpu_attr_f64(plugin, op, CPU_ATTR_VALUE, 0));
}

void cpu_pad_support(const cpu_plugin *plugin, int kind, const mt_op_v1 *op,
                     mt_support_v1 *answer) {
  (void)kind;
  pad_job job;
  if (describe(plugin, op, &job)) {
    answer->answer = MT_ABI_SUPPORT_YES;
  } else {
    cpu_no(answer, "value %g in %s: 0 only", cpu_attr_f64(plugin, op, CPU_ATTR_VALUE, 0),
           cpu_dtype_name(job.out->dtype));
  }
}

int32_t cpu_pad_run(cpu_queue *queue, int kind, const void *plan, const mt_op_v1 *op,
                    mt_message_v1 *msg) {
  (void)kind;
  (void)plan;
  (void)msg;
  pad_job job;
  describe(queue->plugin, op, &job);
  double work = (double)cpu_elements(job.out);
  job.tasks = (uint32_t)cpu_min(cpu_task_count(queue->plugin, work, 65536.0), job.rows);
  cpu_parallel(queue->plugin, job.tasks, pad_rows, &job);
  return MT_ABI_OK;
}
