// SPDX-License-Identifier: Apache-2.0
/* run.h - running an op and telling where it ran. */
#ifndef MT_TOOLS_RUN_H
#define MT_TOOLS_RUN_H

#include "common.h"

/* mt_matmul() and the wait for its result; *out must be NULL. */
mt_status timed_matmul(mt_runtime *rt, mt_tensor *a, mt_tensor *b, const mt_matmul_options *options,
                       mt_tensor **out, double *seconds);

/* "ran   on cpu-avx2:0 (...)": a line for each backend that the op ran on. */
void print_where_run(mt_runtime *rt, const char *op, int indent);
json_t *where_run_json(mt_runtime *rt, const char *op);

#endif
