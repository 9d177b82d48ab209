// SPDX-License-Identifier: Apache-2.0
/* Which op ran where: one row for each (op, backend), found by a linear look: there are
 * as many rows as ops in use times backends. */
#include "../error.h"
#include "../ops/op.h"
#include "../sized.h"
#include "hal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stats_row {
  int32_t op;
  const char *backend;
  uint64_t calls, relayouts, decodes, fallbacks;
  char *reason;
} stats_row;

struct mt_stats {
  pthread_mutex_t lock;
  stats_row *rows;
  size_t count, room;
};

mt_status mt_stats_create(struct mt_stats **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) {
    return mt_fail_memory(sizeof(**out), "counters");
  }
  pthread_mutex_init(&(*out)->lock, NULL);
  return MT_OK;
}

void mt_stats_free(struct mt_stats *stats) {
  if (!stats) {
    return;
  }
  for (size_t i = 0; i < stats->count; i++) {
    free(stats->rows[i].reason);
  }
  free(stats->rows);
  pthread_mutex_destroy(&stats->lock);
  free(stats);
}

/* NULL: no memory for a new row; the count is then lost, not the op. */
static stats_row *find_row(struct mt_stats *stats, int32_t op, const char *backend, bool *is_new) {
  *is_new = false;
  for (size_t i = 0; i < stats->count; i++) {
    if (stats->rows[i].op == op && stats->rows[i].backend == backend) {
      return &stats->rows[i];
    }
  }
  if (stats->count == stats->room) {
    size_t room = stats->room ? 2 * stats->room : 16;
    stats_row *rows = realloc(stats->rows, room * sizeof(*rows));
    if (!rows) {
      return NULL;
    }
    stats->rows = rows;
    stats->room = room;
  }
  stats_row *row = &stats->rows[stats->count++];
  *row = (stats_row){.op = op, .backend = backend};
  *is_new = true;
  return row;
}

bool mt_stats_count(struct mt_stats *stats, const mt_stat_event *event) {
  bool is_new;
  pthread_mutex_lock(&stats->lock);
  stats_row *row = find_row(stats, event->op, event->backend, &is_new);
  if (row) {
    row->calls++;
    row->relayouts += event->relayouts;
    row->decodes += event->decodes;
    if (event->refusal) {
      row->fallbacks++;
      if (!row->reason || strcmp(row->reason, event->refusal) != 0) {
        free(row->reason);
        row->reason = strdup(event->refusal);
      }
    }
  }
  pthread_mutex_unlock(&stats->lock);
  return is_new;
}

size_t mt_runtime_stats_count(mt_runtime *rt) {
  if (!rt) {
    return 0;
  }
  pthread_mutex_lock(&rt->stats->lock);
  size_t count = rt->stats->count;
  pthread_mutex_unlock(&rt->stats->lock);
  return count;
}

static void describe_row(const stats_row *row, mt_op_stats *out) {
  *out = (mt_op_stats){.op = mt_op_at(row->op)->name,
                       .backend = row->backend,
                       .calls = row->calls,
                       .relayouts = row->relayouts,
                       .decodes = row->decodes,
                       .fallbacks = row->fallbacks};
  snprintf(out->reason, sizeof(out->reason), "%s", row->reason ? row->reason : "");
}

mt_status mt_runtime_stats_get_sized(mt_runtime *rt, size_t index, mt_op_stats *stats,
                                     size_t bytes) {
  mt_op_stats known;
  if (!rt || !stats) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT, "mt_runtime_stats_get: %s is NULL",
                   rt ? "stats" : "runtime");
  }
  memset(stats, 0, bytes);
  mt_status status = MT_OK;
  pthread_mutex_lock(&rt->stats->lock);
  size_t count = rt->stats->count;
  if (index < count) {
    describe_row(&rt->stats->rows[index], &known);
    mt_fill_sized(stats, bytes, &known, sizeof(known));
  } else {
    status = mt_fail(MT_ERR_NOT_FOUND, "mt_runtime_stats_get: row %zu of %zu", index, count);
  }
  pthread_mutex_unlock(&rt->stats->lock);
  return status;
}
