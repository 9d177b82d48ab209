// SPDX-License-Identifier: Apache-2.0
/*
 * status.h - what a fallible call returns, and where its sentence is.
 *
 * Every function that can fail returns mt_status. On failure the calling thread's
 * last error holds one sentence that names the thing, the value and what was
 * expected. Outputs are left as "nothing": pointers NULL, numbers 0 (the tensor
 * outputs of ops.h are left as they were). The library never aborts, exits or
 * asserts on what a caller passes.
 *
 * Structs that the library fills in may grow at their end. The size that a program was
 * built with travels with the call: NAME(...) is an inline around NAME_sized(..., bytes),
 * which writes no more than that, and zeros what it does not know.
 */
#ifndef MECANTENSOR_STATUS_H
#define MECANTENSOR_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what the shared library exports. */
#if defined(__GNUC__)
#define MT_API __attribute__((visibility("default")))
#define MT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MT_API
#define MT_PRINTF(fmt, args)
#endif

typedef enum mt_status {
  MT_OK = 0,
  MT_ERR_INVALID_ARGUMENT = 1, /* the caller passed something unusable */
  MT_ERR_OUT_OF_MEMORY = 2,    /* host or device memory */
  MT_ERR_UNSUPPORTED = 3,      /* valid, but not offered here (by this backend, format, version) */
  MT_ERR_NOT_FOUND = 4,        /* no such file, tensor, backend, device, driver */
  MT_ERR_IO = 5,               /* the operating system failed a read or a write */
  MT_ERR_CORRUPT = 6,          /* a file contradicts itself: truncated, hostile, bad checksum */
  MT_ERR_BACKEND = 7,          /* a driver or device reported a failure */
  MT_ERR_DEVICE_LOST = 8,      /* the device is gone; data that lived only there is lost */
  MT_ERR_FORKED = 9,           /* an accelerator was used in a child after fork() */
  MT_ERR_TIMEOUT = 10,
} mt_status;

/* "invalid argument", ...; a static string, never NULL. Thread-safe. */
MT_API const char *mt_status_name(mt_status status);

/*
 * The sentence of the last call that failed on this thread; "" when none did.
 * Owned by the library, valid until the next failing call on the same thread.
 * A call that succeeds does not clear it.
 */
MT_API const char *mt_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
