// SPDX-License-Identifier: Apache-2.0
/*
 * Which devices may run ops, and in which order: the grammar of MECANTENSOR_BACKEND.
 *
 *   setting  = entry { "," entry }
 *   entry    = "auto" | "reference" | plugin [ ":" ( index | glob on the device's name ) ]
 *
 * Named entries are resolved when the runtime is made; "auto" opens plugins one by one,
 * highest priority first, when ops get that far.
 */
#include "../error.h"
#include "hal.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- grammar ------------------------------------------------------------------------ */

static mt_status parse_choice(mt_choice *choice, const char *text, size_t length) {
  while (length > 0 && isspace((unsigned char)*text)) {
    text++, length--;
  }
  while (length > 0 && isspace((unsigned char)text[length - 1])) {
    length--;
  }
  if (length == 0 || *text == ':') {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "backend setting: an entry is empty: expected auto, reference or NAME[:DEVICE]");
  }
  choice->text = strndup(text, length);
  if (!choice->text) {
    return mt_fail_memory(length, "the backend setting");
  }
  choice->is_auto = strcmp(choice->text, "auto") == 0;
  choice->is_reference = strcmp(choice->text, "reference") == 0;
  if (choice->is_auto || choice->is_reference) {
    return MT_OK;
  }
  const char *colon = strchr(choice->text, ':');
  if (colon && !colon[1]) {
    return mt_fail(MT_ERR_INVALID_ARGUMENT,
                   "backend setting: '%s': expected an index or a name pattern after ':'",
                   choice->text);
  }
  choice->plugin =
      colon ? strndup(choice->text, (size_t)(colon - choice->text)) : strdup(choice->text);
  choice->selector = colon ? strdup(colon + 1) : NULL;
  if (!choice->plugin || (colon && !choice->selector)) {
    return mt_fail_memory(length, "the backend setting");
  }
  return MT_OK;
}

mt_status mt_choices_parse(mt_runtime *rt, const char *setting) {
  size_t entries = 1;
  for (const char *c = setting; *c; c++) {
    entries += *c == ',';
  }
  rt->choices = calloc(entries, sizeof(*rt->choices));
  if (!rt->choices) {
    return mt_fail_memory(entries * sizeof(*rt->choices), "the backend setting");
  }
  for (size_t i = 0; i < entries; i++) {
    size_t length = strcspn(setting, ",");
    rt->choice_count = i + 1; /* so that a failed one is freed */
    MT_TRY(parse_choice(&rt->choices[i], setting, length));
    rt->has_auto |= rt->choices[i].is_auto;
    rt->reference_allowed |= rt->choices[i].is_auto || rt->choices[i].is_reference;
    setting += length + 1;
  }
  return MT_OK;
}

/* ---- the order ---------------------------------------------------------------------- */

/* One place for each device that can ever be there, so that the array never moves. */
static mt_status order_reserve(mt_runtime *rt) {
  rt->order_room = rt->candidate_count + rt->choice_count;
  rt->order = calloc(rt->order_room ? rt->order_room : 1, sizeof(mt_device *));
  return rt->order ? MT_OK : mt_fail_memory(rt->order_room * sizeof(mt_device *), "devices");
}

static void order_append(mt_runtime *rt, mt_device *device) {
  size_t count = atomic_load(&rt->order_count);
  for (size_t i = 0; i < count; i++) {
    if (rt->order[i] == device) {
      return;
    }
  }
  rt->order[count] = device;
  atomic_store_explicit(&rt->order_count, count + 1, memory_order_release);
}

static bool parse_index(const char *text, uint32_t *index) {
  char *end;
  if (!isdigit((unsigned char)*text)) {
    return false;
  }
  unsigned long value = strtoul(text, &end, 10);
  *index = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  return *end == '\0';
}

static mt_status find_device(mt_backend *backend, const mt_choice *choice, mt_device **out) {
  uint32_t index = 0;
  MT_TRY(mt_backend_open(backend));
  if (choice->selector && !parse_index(choice->selector, &index)) {
    while (index < backend->device_count &&
           fnmatch(choice->selector, backend->infos[index].name, FNM_CASEFOLD) != 0) {
      index++;
    }
    if (index == backend->device_count) {
      return mt_fail(MT_ERR_NOT_FOUND, "no device's name matches '%s' (the first is '%s')",
                     choice->selector, backend->infos[0].name);
    }
  }
  return mt_backend_device(backend, index, out);
}

/* "cpu-avx2, late" or "none" */
static void list_names(const mt_runtime *rt, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = '\0';
  for (size_t i = 0; i < rt->candidate_count && at < size; i++) {
    const mt_candidate *candidate = &rt->candidates[i];
    if (candidate->note.name[0] && candidate->stage != MT_PROBE_FILTER) {
      at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", candidate->note.name);
    }
  }
  if (at == 0) {
    snprintf(buf, size, "none");
  }
}

static mt_status resolve(mt_runtime *rt, const mt_choice *choice) {
  mt_device *device;
  char names[256];
  mt_candidate *refused = NULL;
  for (size_t i = 0; i < rt->candidate_count; i++) {
    mt_candidate *candidate = &rt->candidates[i];
    if (strcmp(candidate->note.name, choice->plugin) != 0) {
      continue;
    }
    if (candidate->code != MT_OK) { /* a second file of that name may do */
      refused = refused ? refused : candidate;
      continue;
    }
    mt_status status = find_device(&rt->backends[i], choice, &device);
    if (status == MT_OK) {
      order_append(rt, device);
      return MT_OK;
    }
    return mt_fail_prefix(status, "backend '%s': %s", choice->text, candidate->path);
  }
  if (refused) {
    return mt_fail(refused->code, "backend '%s': %s: %s: %s", choice->text, refused->path,
                   mt_probe_stage_name(refused->stage), refused->reason ? refused->reason : "");
  }
  list_names(rt, names, sizeof(names));
  return mt_fail(MT_ERR_NOT_FOUND,
                 "backend '%s': no plugin of that name was found (found: %s; 'mecantensor devices "
                 "-v' shows where was searched)",
                 choice->text, names);
}

mt_status mt_order_resolve_named(mt_runtime *rt) {
  MT_TRY(order_reserve(rt));
  bool before_fallback = true;
  for (size_t i = 0; i < rt->choice_count; i++) {
    const mt_choice *choice = &rt->choices[i];
    if (choice->plugin) {
      size_t count = atomic_load(&rt->order_count);
      MT_TRY(resolve(rt, choice));
      if (!before_fallback) { /* never reached: the entry before takes every op */
        atomic_store(&rt->order_count, count);
      }
    }
    before_fallback = before_fallback && !choice->is_reference && !choice->is_auto;
  }
  atomic_store(&rt->order_complete, !rt->has_auto);
  return MT_OK;
}

/* ---- auto --------------------------------------------------------------------------- */

/* The candidate to try next: highest priority, then order of search. */
static mt_backend *next_auto(mt_runtime *rt) {
  mt_backend *best = NULL;
  for (size_t i = 0; i < rt->candidate_count; i++) {
    mt_backend *backend = &rt->backends[i];
    const mt_candidate *candidate = backend->candidate;
    if (!backend->auto_tried && candidate->code == MT_OK && candidate->priority > 0 &&
        (!best || candidate->priority > best->candidate->priority)) {
      best = backend;
    }
  }
  return best;
}

static void extend_order(mt_runtime *rt, size_t index) {
  pthread_mutex_lock(&rt->lock);
  while (atomic_load(&rt->order_count) <= index && !atomic_load(&rt->order_complete)) {
    mt_backend *backend = next_auto(rt);
    mt_device *device;
    if (!backend) {
      if (atomic_load(&rt->order_count) == 0) {
        mt_log_write(&rt->log, MT_LOG_WARN, "dispatch",
                     "auto: no backend is usable, the reference kernels run everything "
                     "('mecantensor devices -v' says why)");
      }
      atomic_store_explicit(&rt->order_complete, true, memory_order_release);
      break;
    }
    backend->auto_tried = true;
    if (mt_backend_device(backend, 0, &device) == MT_OK) {
      order_append(rt, device);
    } else {
      mt_log_write(&rt->log, MT_LOG_INFO, "dispatch", "auto: %s is skipped: %s",
                   backend->candidate->note.name, mt_last_error());
    }
  }
  pthread_mutex_unlock(&rt->lock);
}

mt_device *mt_order_at(mt_runtime *rt, size_t index) {
  if (index >= atomic_load_explicit(&rt->order_count, memory_order_acquire) &&
      !atomic_load_explicit(&rt->order_complete, memory_order_acquire)) {
    extend_order(rt, index);
  }
  return index < atomic_load_explicit(&rt->order_count, memory_order_acquire) ? rt->order[index]
                                                                              : NULL;
}
