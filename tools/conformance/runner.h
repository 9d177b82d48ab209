// SPDX-License-Identifier: Apache-2.0
/* runner.h - the suite on all devices, one backend or one plugin file; the report is TAP. */
#ifndef MT_CONFORMANCE_RUNNER_H
#define MT_CONFORMANCE_RUNNER_H

#include "conformance.h"

typedef struct conf_settings {
  const char *backend; /* as MECANTENSOR_BACKEND, one name; NULL: every device found */
  const char *plugin;  /* a plugin file: only that; NULL: as the environment says */
  const char *op;      /* glob on names of ops */
  uint64_t seed, seeds;
  uint64_t thin;  /* > 1: only every so manieth case, by the seed */
  double seconds; /* > 0: rounds with seeds from `seed` on until the time is up */
  FILE *out;      /* the report */
} conf_settings;

#define CONF_SETTINGS_INIT                                                                         \
  { NULL, NULL, "*", 1, 2, 1, 0, stdout }

/* One cell of the summary: what a device did with an op in a dtype. */
typedef struct conf_result {
  char device[CONF_TEXT];
  const char *op;
  mt_dtype dtype;
  conf_cell cell;
} conf_result;

typedef struct conf_outcome {
  conf_result *results; /* free() */
  size_t count, room;
  int tests, failed;    /* TAP lines */
  uint64_t first, last; /* seeds */
  int devices;
  bool unusable; /* the backend or plugin that was named cannot be used; why is in `reason` */
  char reason[10 * 1024]; /* with paths */
} conf_outcome;

void conf_run(const conf_settings *settings, conf_outcome *outcome);

#endif
