// SPDX-License-Identifier: Apache-2.0
/* version.h - the version of the headers, and of the library that is running. */
#ifndef MECANTENSOR_VERSION_H
#define MECANTENSOR_VERSION_H

#include <mecantensor/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MT_VERSION_MAJOR 0
#define MT_VERSION_MINOR 1
#define MT_VERSION_PATCH 0
#define MT_VERSION "0.1.0"

/* MT_VERSION of the library at run time. Static. */
MT_API const char *mt_version(void);

#ifdef __cplusplus
}
#endif
#endif
