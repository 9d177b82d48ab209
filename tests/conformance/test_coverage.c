// SPDX-License-Identifier: Apache-2.0
/* Every op of the core has a conformance body, and every body an op. */
#include "conformance.h"
#include "harness.h"

#include "ops/op.h"

static int bodies_of(const char *op) {
  int count = 0;
  for (size_t f = 0; f < conf_family_count; f++) {
    for (size_t i = 0; i < conf_families[f]->count; i++) {
      count += strcmp(conf_families[f]->ops[i].name, op) == 0;
    }
  }
  return count;
}

START_TEST(every_op_has_one_body) {
  int ops = 0, bodies = 0;
  for (const mt_op_def *def; (def = mt_op_at(ops + 1)) != NULL; ops++) {
    ck_assert_msg(bodies_of(def->name) == 1, "op '%s' has %d bodies: expected 1 in op_*.c",
                  def->name, bodies_of(def->name));
  }
  for (size_t f = 0; f < conf_family_count; f++) {
    bodies += (int)conf_families[f]->count;
  }
  ck_assert_int_gt(ops, 0);
  ck_assert_int_eq(ops, bodies);
}
END_TEST

TEST_MAIN(coverage, every_op_has_one_body)
