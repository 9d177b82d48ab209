// SPDX-License-Identifier: Apache-2.0
/*
 * late.h - the insides of the test plugin "late": a make-believe discrete accelerator.
 *
 *   late.c    instance, settings, devices, the table, the tests' control interface
 *   memory.c  buffers: own memory, guard zones, poison, a limit
 *   queue.c   one worker thread for each queue, which runs commands late and in order
 *   ops.c     which ops it does, kernels, plans
 *
 * It checks what the ABI promises to plugins: what it finds broken is a violation, which
 * the control interface counts. lock of a device guards everything that hangs on it.
 */
#ifndef LATE_H
#define LATE_H

#include "late_control.h"

#include <mecantensor/plugin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { LATE_ALIGNMENT = 256, LATE_MAX_OPERANDS = 4, LATE_REASON = 160 };

typedef struct late_config {
  uint64_t fail_alloc_after; /* this many allocations work; UINT64_MAX: all */
  uint64_t fail_execute_at;  /* this execute fails when it runs; 0: none */
  uint64_t lose_device_at;   /* the device is lost when this execute runs; 0: never */
  uint64_t delay_us;         /* the longest delay before a command */
  uint64_t memory_bytes;
  uint64_t max_buffer_bytes;
  uint64_t seed;
  uint64_t q8_0;          /* 1: knows the format */
  uint64_t host_pointers; /* 1: works on host memory, late all the same */
  uint64_t devices;       /* 0 .. LATE_DEVICES */
  uint64_t fail_open;     /* 1: no device can be opened */
  uint64_t fail_info;     /* 1: no device but the first can be described */
  uint64_t stale_point;   /* this execute answers with the point of the command before */
  uint64_t boasts;        /* 1: queue_query says that all is reached that will ever be */
} late_config;

/* Interned names. */
typedef struct late_names {
  int32_t matmul, add, mul, relu, copy;
  int32_t alpha, beta, activation;
  int32_t q8_0; /* 0: not known */
} late_names;

struct late_instance;

typedef struct late_device {
  struct late_instance *instance;
  uint32_t index;
  pthread_mutex_t lock;
  pthread_cond_t work; /* a command came, the gate opened, a queue stops */
  pthread_cond_t done; /* a command ended */
  bool opened, held;
  bool losing, lost; /* losing: no command starts any more */
  uint32_t running;  /* commands at work */
  late_counters count;
} late_device;

typedef struct late_instance {
  const mt_host_v1 *host;
  late_config config;
  late_names names;
  pid_t pid;
  late_device device[LATE_DEVICES];
} late_instance;

typedef struct late_buffer {
  late_device *device;
  uint64_t bytes;
  unsigned char *data;     /* between two guard zones */
  uint32_t users, writers; /* commands that wait or run */
} late_buffer;

typedef struct late_plan {
  late_device *device;
  uint32_t users;
  int64_t m, n, k;
  void *packed; /* a copy of a constant right operand; or NULL */
} late_plan;

/* An op with its operands found: everything is contiguous by then. */
typedef struct late_work {
  void (*kernel)(const struct late_work *work);
  const void *in[3]; /* NULL: absent */
  void *out;
  uint64_t count, bytes;  /* elementwise: elements; copy: bytes */
  int64_t batch, m, n, k; /* matmul */
  int64_t b_step;         /* elements from one b to the next; 0: one for all */
  int64_t b_row_bytes;    /* q8_0: of one line along K; 0: b is f32 */
  double alpha, beta;
  bool relu;
} late_work;

typedef enum late_kind { LATE_TRANSFER, LATE_FILL, LATE_EXECUTE } late_kind;

typedef struct late_command {
  struct late_command *next;
  uint64_t point;
  late_kind kind;
  late_buffer *buffer[LATE_MAX_OPERANDS];
  uint32_t buffers;
  uint32_t writes; /* bit i: buffer i */
  late_plan *plan;
  void *dst; /* transfers */
  const void *src;
  uint64_t bytes;
  uint32_t pattern, pattern_bytes;
  uint64_t number; /* of the execute, from 1 */
  late_work work;
} late_command;

typedef struct late_queue {
  late_device *device;
  pthread_t worker;
  late_command *head, **tail;
  uint64_t submitted, reached;
  int32_t failure; /* MT_ABI_OK until a command fails */
  char failure_text[128];
  bool stop;
  uint64_t random;
  atomic_bool entered; /* by a thread of the host */
} late_queue;

/* ---- late.c ---- */
/* Writes the sentence, returns code. */
__attribute__((format(printf, 3, 4))) int32_t late_say(mt_message_v1 *msg, int32_t code,
                                                       const char *format, ...);
__attribute__((format(printf, 1, 2))) void late_violation(const char *format, ...);
/* A violation when this is not the process that started the plugin. */
void late_check_process(const late_instance *instance);

/* ---- memory.c ---- */
int32_t late_buffer_alloc(void *device, uint64_t bytes, void **buffer, mt_message_v1 *msg);
void late_buffer_free(void *device, void *buffer);
/* Is the range inside a buffer of this device? A violation when not. */
bool late_range_ok(const late_device *device, const late_buffer *buffer, uint64_t offset,
                   uint64_t bytes, const char *what);

/* ---- queue.c ---- */
int32_t late_queue_create(void *device, void **queue, mt_message_v1 *msg);
void late_queue_destroy(void *queue);
int32_t late_queue_query(void *queue, uint64_t *reached, mt_message_v1 *msg);
int32_t late_queue_wait(void *queue, uint64_t point, uint64_t timeout_ns, mt_message_v1 *msg);
int32_t late_upload(void *queue, void *buffer, uint64_t offset, const void *src, uint64_t bytes,
                    uint64_t *point, mt_message_v1 *msg);
int32_t late_download(void *queue, void *buffer, uint64_t offset, void *dst, uint64_t bytes,
                      uint64_t *point, mt_message_v1 *msg);
int32_t late_copy(void *queue, void *dst, uint64_t dst_offset, void *src, uint64_t src_offset,
                  uint64_t bytes, uint64_t *point, mt_message_v1 *msg);
int32_t late_fill(void *queue, void *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern,
                  uint32_t pattern_bytes, uint64_t *point, mt_message_v1 *msg);
/* Takes over the command (made with calloc), also on failure. */
int32_t late_submit(late_queue *queue, late_command *command, uint64_t *point, mt_message_v1 *msg);

/* ---- ops.c ---- */
int32_t late_op_support(void *device, const mt_op_v1 *op, mt_support_v1 *support);
int32_t late_execute(void *queue, void *plan, const mt_op_v1 *op, uint64_t *point,
                     mt_message_v1 *msg);
int32_t late_prepare(void *device, const mt_op_v1 *op, void **plan, mt_message_v1 *msg);
void late_plan_free(void *device, void *plan);

/* ---- kernels.c ---- */
void late_kernel_add(const late_work *work);
void late_kernel_mul(const late_work *work);
void late_kernel_relu(const late_work *work);
void late_kernel_copy(const late_work *work);
void late_kernel_matmul(const late_work *work);
enum { LATE_Q8_ELEMENTS = 32, LATE_Q8_BYTES = 34 };

#endif
