// SPDX-License-Identifier: Apache-2.0
#include <mecantensor/plugin.h>

MT_PLUGIN_NOTE("missing-symbol", 10, 0);
