// SPDX-License-Identifier: Apache-2.0
/* table.h - asking a plugin for its table. Shared by the core and mecantensor-probe. */
#ifndef MT_CORE_TABLE_H
#define MT_CORE_TABLE_H

#include <mecantensor/plugin.h>
#include <mecantensor/status.h>

#define MT_QUERY_SYMBOL "mt_plugin_query_v1"

/* "the file does not export mt_plugin_query_v1 ..." */
mt_status mt_table_no_symbol(void);

/* Calls query and checks what it fills in; name: of the note. On success *table is
 * complete, with zeros for what an older plugin does not know. */
mt_status mt_table_query(mt_plugin_query_v1_fn *query, const mt_host_v1 *host, const char *name,
                         mt_plugin_v1 *table);

#endif
