// SPDX-License-Identifier: Apache-2.0
/* where: elements of one tensor or the other, by a condition. */
#include "view.h"

#include <string.h>

static mt_status where_reference(const mt_ref_call *call) {
  const mt_view *views[] = {&call->out, &call->in[0], &call->in[1], &call->in[2]};
  size_t size = mt_dtype_size(call->out.dtype);
  int64_t truth[MT_LINE];
  mt_walk walk;
  mt_walk_views(&walk, views, 4);
  while (mt_walk_next(&walk)) {
    mt_load_i64(MT_BOOL, walk.at[1], walk.stride[1], walk.count, truth);
    for (int64_t i = 0; i < walk.count; i++) {
      int from = truth[i] ? 2 : 3;
      memmove(walk.at[0] + i * walk.stride[0], walk.at[from] + i * walk.stride[from], size);
    }
  }
  return MT_OK;
}

const mt_op_def mt_op_where = {"where", 1, where_reference, mt_op_where_number};

mt_status mt_where(mt_runtime *rt, mt_tensor *condition, mt_tensor *a, mt_tensor *b,
                   mt_tensor **out) {
  mt_op_call call = {.def = &mt_op_where};
  int64_t shape[MT_MAX_RANK];
  int rank;
  MT_TRY(mt_op_require("where", "rt", rt));
  MT_TRY(mt_op_input("where", "condition", condition, MT_KIND_BOOL));
  MT_TRY(mt_op_input("where", "a", a, MT_KIND_PLAIN));
  MT_TRY(mt_op_input("where", "b", b, MT_KIND_PLAIN));
  MT_TRY(mt_op_same_dtype("where", "a", a, "b", b));
  MT_TRY(mt_op_require("where", "out", out));
  MT_TRY(mt_broadcast_shapes("where", a, b, 0, &rank, shape));
  MT_TRY(mt_broadcast_onto("where", "condition", condition, &rank, shape));
  MT_TRY(mt_op_output("where", out, a->dtype, rank, shape, &call.out));
  return mt_op_run_broadcast(rt, &call, (mt_tensor *[]){condition, a, b}, 3, out);
}
