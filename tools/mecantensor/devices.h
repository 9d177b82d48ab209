// SPDX-License-Identifier: Apache-2.0
/* devices.h - what a runtime found, as text and as JSON. */
#ifndef MT_TOOLS_DEVICES_H
#define MT_TOOLS_DEVICES_H

#include "common.h"

/* Reads a device or a record that is known to exist; ends the program when it does not. */
mt_device_info device_at(mt_runtime *rt, size_t index);
mt_probe_record record_at(mt_runtime *rt, size_t index);

/* Do the reference kernels take part in running ops? */
bool reference_selected(mt_runtime *rt);

/* "<indent><folder>: searched", or why it is not. */
void put_folder(FILE *out, const char *indent, const char *folder);
/* The same for each folder of MECANTENSOR_PLUGIN_PATH, and for the built-in one, with the
 * values of MECANTENSOR_PLUGIN_PATH and MECANTENSOR_PLUGIN_PATH_ONLY (NULL: not set). */
void put_plugin_path(FILE *out, const char *indent, const char *value);
void put_built_in_folder(FILE *out, const char *indent, const char *only);

/* The table of devices, then the plugins that could not be used. Call
 * mt_runtime_probe_all() first. */
void print_devices(mt_runtime *rt, bool verbose);

/* {"backend": ..., "cpu_features": [...], "devices": [...], "plugins": [...]} */
json_t *devices_json(mt_runtime *rt);

#endif
