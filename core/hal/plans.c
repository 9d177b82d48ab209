// SPDX-License-Identifier: Apache-2.0
/*
 * What a plugin's prepare() made (compiled kernels, packed weights), found again by the
 * description of the op: everything that op_support may look at, and which frozen
 * content constant operands have. A device keeps up to PLANS_KEPT; those that hold a
 * copy of a frozen tensor go when the tensor does.
 */
#include "../error.h"
#include "../ops/op.h"
#include "hal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { PLANS_KEPT = 128, KEY_ON_STACK = 1024 };

struct mt_plan {
  uint64_t hash;
  void *key;
  size_t key_bytes;
  void *handle;
  unsigned users;      /* executes being given to the device */
  uint64_t last_point; /* newest execute with it */
  uint64_t stamp;      /* of last use */
  uint64_t constants[MT_OP_MAX_INPUTS_ABI];
  uint32_t constant_count;
};

struct mt_plans {
  pthread_mutex_t lock;
  mt_plan **plan;
  size_t count, room;
  uint64_t clock;
};

mt_status mt_plans_create(struct mt_plans **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) {
    return mt_fail_memory(sizeof(**out), "plans");
  }
  pthread_mutex_init(&(*out)->lock, NULL);
  return MT_OK;
}

static void plan_destroy(mt_device *device, mt_plan *plan) {
  if (!mt_device_forked(device)) {
    device->table->plan_free(device->handle, plan->handle);
  }
  free(plan->key);
  free(plan);
}

void mt_plans_free(mt_device *device) {
  struct mt_plans *plans = device->plans;
  for (size_t i = 0; i < plans->count; i++) {
    plan_destroy(device, plans->plan[i]);
  }
  free(plans->plan);
  pthread_mutex_destroy(&plans->lock);
  free(plans);
}

/* ---- keys --------------------------------------------------------------------------- */

typedef struct key_writer {
  char *at; /* NULL: only counts */
  size_t bytes;
} key_writer;

static void put(key_writer *key, const void *data, size_t bytes) {
  if (key->at) {
    memcpy(key->at + key->bytes, data, bytes);
  }
  key->bytes += bytes;
}

static void put_u64(key_writer *key, uint64_t value) {
  put(key, &value, sizeof(value));
}

static uint64_t content_id(const mt_tensor *tensor) {
  return tensor ? atomic_load(&tensor->storage->content_id) : 0;
}

static void put_operand(key_writer *key, const mt_operand_v1 *operand, const mt_tensor *tensor) {
  bool constant = operand->flags & MT_ABI_OPERAND_CONSTANT;
  put_u64(key, (uint64_t)operand->dtype | (uint64_t)operand->format << 32);
  put_u64(key, (uint64_t)(uint32_t)operand->rank | (uint64_t)operand->flags << 32);
  if (operand->dtype == MT_ABI_DTYPE_NONE) {
    return;
  }
  put_u64(key, (uint64_t)(int64_t)operand->block_axis);
  put(key, operand->shape, (size_t)operand->rank * sizeof(int64_t));
  put(key, operand->stride, (size_t)operand->rank * sizeof(int64_t));
  put_u64(key, constant ? content_id(tensor) : 0);
  put_u64(key, constant ? tensor->byte_offset : 0);
}

static size_t write_key(const mt_op_v1 *op, mt_tensor *const *inputs, char *at) {
  key_writer key = {at, 0};
  put_u64(&key, (uint64_t)op->op | (uint64_t)op->attr_count << 32);
  put_u64(&key, (uint64_t)op->input_count | (uint64_t)op->output_count << 32);
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const mt_attr_v1 *attr = &op->attrs[i];
    put_u64(&key, (uint64_t)attr->key | (uint64_t)attr->type << 32);
    put_u64(&key, attr->count);
    if (attr->type == MT_ABI_ATTR_I64_LIST) {
      put(&key, attr->value.list, attr->count * sizeof(int64_t));
    } else {
      put(&key, &attr->value, sizeof(attr->value));
    }
  }
  for (uint32_t i = 0; i < op->input_count; i++) {
    put_operand(&key, &op->inputs[i], inputs[i]);
  }
  for (uint32_t i = 0; i < op->output_count; i++) {
    put_operand(&key, &op->outputs[i], NULL);
  }
  return key.bytes;
}

/* ---- finding, making, dropping ------------------------------------------------------ */

static bool busy(const mt_device *device, const mt_plan *plan) {
  return plan->users > 0 || (!device->in_place && plan->last_point > device->reached);
}

/* Over the limit: the one unused for longest goes, if any can. */
static void evict(mt_device *device) {
  struct mt_plans *plans = device->plans;
  size_t oldest = SIZE_MAX;
  pthread_mutex_lock(&device->lock); /* reached */
  for (size_t i = 0; plans->count >= PLANS_KEPT && i < plans->count; i++) {
    if (!busy(device, plans->plan[i]) &&
        (oldest == SIZE_MAX || plans->plan[i]->stamp < plans->plan[oldest]->stamp)) {
      oldest = i;
    }
  }
  pthread_mutex_unlock(&device->lock);
  if (oldest != SIZE_MAX) {
    plan_destroy(device, plans->plan[oldest]);
    plans->plan[oldest] = plans->plan[--plans->count];
  }
}

/* The storage tells the device when its content is gone. */
static mt_status remember_planner(mt_storage *storage, mt_device *device) {
  for (uint32_t i = 0; i < storage->planner_count; i++) {
    if (storage->planners[i] == device) {
      return MT_OK;
    }
  }
  size_t bytes = (storage->planner_count + 1) * sizeof(mt_device *);
  mt_device **more = realloc(storage->planners, bytes);
  if (!more) {
    return mt_fail_memory(bytes, "plans");
  }
  storage->planners = more;
  storage->planners[storage->planner_count++] = mt_device_retain(device);
  return MT_OK;
}

/* prepare() may read constant content: what brings it to the device must be done. The
 * storage is locked, and on the device by now. */
static mt_status await_constants(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->inputs[i].flags & MT_ABI_OPERAND_CONSTANT) {
      const mt_storage *storage = inputs[i]->storage;
      MT_TRY(mt_device_wait(device, storage->read_point));
      MT_TRY(mt_device_wait(device, storage->write_point));
    }
  }
  return MT_OK;
}

static mt_status note_constants(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs,
                                bool storage_locked, mt_plan *plan) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (!(op->inputs[i].flags & MT_ABI_OPERAND_CONSTANT)) {
      continue;
    }
    mt_storage *storage = inputs[i]->storage;
    if (!storage_locked) {
      pthread_mutex_lock(&storage->lock);
    }
    mt_status status = remember_planner(storage, device);
    if (!storage_locked) {
      pthread_mutex_unlock(&storage->lock);
    }
    MT_TRY(status);
    plan->constants[plan->constant_count++] = content_id(inputs[i]);
  }
  return MT_OK;
}

static mt_status prepare(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs,
                         bool storage_locked, mt_plan *plan) {
  char text[512] = "";
  mt_message_v1 msg = mt_message_in(text, sizeof(text));
  MT_TRY(note_constants(device, op, inputs, storage_locked, plan));
  if (!device->in_place) {
    MT_TRY(await_constants(device, op, inputs));
  }
  int32_t code = device->table->prepare(device->handle, op, &plan->handle, &msg);
  return code == MT_ABI_OK ? MT_OK : mt_device_fail(device, code, "prepare", text);
}

static mt_status make_plan(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs,
                           bool storage_locked, const void *key, size_t key_bytes, mt_plan **out) {
  struct mt_plans *plans = device->plans;
  evict(device);
  if (plans->count == plans->room) {
    size_t room = plans->room ? 2 * plans->room : 16;
    mt_plan **more = realloc(plans->plan, room * sizeof(*more));
    if (!more) {
      return mt_fail_memory(room * sizeof(*more), "plans");
    }
    plans->plan = more;
    plans->room = room;
  }
  mt_plan *plan = calloc(1, sizeof(*plan));
  void *copy = malloc(key_bytes);
  mt_status status = plan && copy ? prepare(device, op, inputs, storage_locked, plan)
                                  : mt_fail_memory(key_bytes, "a plan");
  if (status != MT_OK) {
    free(plan);
    free(copy);
    return status;
  }
  memcpy(copy, key, key_bytes);
  plan->key = copy;
  plan->key_bytes = key_bytes;
  plan->hash = XXH3_64bits(key, key_bytes);
  plans->plan[plans->count++] = plan;
  *out = plan;
  return MT_OK;
}

static mt_plan *find_plan(struct mt_plans *plans, const void *key, size_t key_bytes) {
  uint64_t hash = XXH3_64bits(key, key_bytes);
  for (size_t i = 0; i < plans->count; i++) {
    mt_plan *plan = plans->plan[i];
    if (plan->hash == hash && plan->key_bytes == key_bytes &&
        memcmp(plan->key, key, key_bytes) == 0) {
      return plan;
    }
  }
  return NULL;
}

mt_status mt_plan_get(mt_device *device, const mt_op_v1 *op, mt_tensor *const *inputs,
                      bool storage_locked, mt_plan **out) {
  struct mt_plans *plans = device->plans;
  char on_stack[KEY_ON_STACK];
  size_t bytes = write_key(op, inputs, NULL);
  char *key = bytes <= sizeof(on_stack) ? on_stack : malloc(bytes);
  *out = NULL;
  if (!key) {
    return mt_fail_memory(bytes, "a plan's key");
  }
  write_key(op, inputs, key);
  pthread_mutex_lock(&plans->lock);
  mt_plan *plan = find_plan(plans, key, bytes);
  mt_status status =
      plan ? MT_OK : make_plan(device, op, inputs, storage_locked, key, bytes, &plan);
  if (status == MT_OK) {
    plan->users++;
    plan->stamp = ++plans->clock;
    *out = plan;
  }
  pthread_mutex_unlock(&plans->lock);
  if (key != on_stack) {
    free(key);
  }
  return status;
}

void *mt_plan_handle(const mt_plan *plan) {
  return plan ? plan->handle : NULL;
}

void mt_plan_put(mt_device *device, mt_plan *plan, uint64_t point) {
  if (!plan) {
    return;
  }
  pthread_mutex_lock(&device->plans->lock);
  plan->users--;
  if (point > plan->last_point) {
    plan->last_point = point;
  }
  pthread_mutex_unlock(&device->plans->lock);
}

static bool holds(const mt_plan *plan, uint64_t id) {
  for (uint32_t i = 0; i < plan->constant_count; i++) {
    if (plan->constants[i] == id) {
      return true;
    }
  }
  return false;
}

/* Nobody can use the content any more, and its own pending work is done: a plan's newest
 * execute was one with it. */
void mt_plans_forget(mt_device *device, uint64_t id) {
  struct mt_plans *plans = device->plans;
  pthread_mutex_lock(&plans->lock);
  for (size_t i = 0; i < plans->count;) {
    if (holds(plans->plan[i], id)) {
      plan_destroy(device, plans->plan[i]);
      plans->plan[i] = plans->plan[--plans->count];
    } else {
      i++;
    }
  }
  pthread_mutex_unlock(&plans->lock);
}
