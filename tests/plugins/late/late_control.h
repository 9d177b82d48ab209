// SPDX-License-Identifier: Apache-2.0
/*
 * late_control.h - what tests may ask of the plugin "late" beside its ABI table: hold
 * execution back, count, and learn whether the host broke a rule.
 *
 *   const late_control_v1 *control = table->get_interface(instance, LATE_CONTROL_ID, 1);
 *
 * The table is static: it may be used after the instance is gone (violations only).
 * Everything is thread-safe.
 */
#ifndef LATE_CONTROL_H
#define LATE_CONTROL_H

#include <stdint.h>

#define LATE_CONTROL_ID "late.control"

enum { LATE_DEVICES = 2 };

typedef struct late_counters {
  uint64_t allocs, frees;
  uint64_t live_buffers, live_bytes;
  uint64_t uploads, downloads, copies, fills, executes; /* given to a queue */
  uint64_t done;                                        /* commands that took effect */
  uint64_t waiting;                                     /* commands that have not yet */
  uint64_t prepares, packs;                             /* packs: of a constant operand */
  uint64_t live_plans;
  uint64_t live_queues;
} late_counters;

typedef struct late_control_v1 {
  uint32_t struct_size;
  uint32_t reserved;
  /* Closes the gate of a device: when this returns no command runs, and none starts until
   * open_gate. */
  void (*hold)(void *plugin, uint32_t device);
  void (*open_gate)(void *plugin, uint32_t device);
  void (*counters)(void *plugin, uint32_t device, late_counters *out);
  /* How often the host broke a rule of plugin.h in this process, and how the first time
   * reads ("" when there was none). text holds at least 256 bytes. */
  uint64_t (*violations)(char *text);
} late_control_v1;

#endif
