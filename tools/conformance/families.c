// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

const conf_family *const conf_families[] = {
#define CONF_FAMILY(symbol) &symbol,
#include "families.def"
#undef CONF_FAMILY
};
const size_t conf_family_count = sizeof(conf_families) / sizeof(conf_families[0]);
