// SPDX-License-Identifier: Apache-2.0
/*
 * device.h - the devices that plugins found.
 *
 * The list holds the devices of plugins opened so far; mt_runtime_probe_all()
 * (runtime.h) completes it. Order: priority, then that of the search, then the plugin's own;
 * a backend that is opened later may come before. Thread-safe; strings live as long as
 * the runtime.
 */
#ifndef MECANTENSOR_DEVICE_H
#define MECANTENSOR_DEVICE_H

#include <mecantensor/runtime.h>
#include <mecantensor/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_device_kind {
  MT_DEVICE_CPU = 1,
  MT_DEVICE_GPU = 2,
  MT_DEVICE_NPU = 3,
  MT_DEVICE_FPGA = 4,
  MT_DEVICE_OTHER = 5,
} mt_device_kind;

typedef struct mt_device_info {
  const char *backend; /* plugin name: "cpu-avx2" */
  uint32_t index;      /* within the plugin: "cpu-avx2:0" */
  mt_device_kind kind;
  const char *name; /* of the hardware */
  const char *vendor;
  const char *driver;
  uint64_t memory_bytes; /* the device's own; 0: works on host memory */
  bool host_memory;      /* operands are used in place */
  bool unified_memory;
  bool selected;       /* it takes part in running ops */
  const char *pci;     /* "0000:01:00.0" or "" */
  const uint8_t *uuid; /* 16 bytes; all zero when there is none */
} mt_device_info;

MT_API size_t mt_runtime_device_count(mt_runtime *runtime);
/* MT_ERR_NOT_FOUND past the end. */
MT_API mt_status mt_runtime_device_get_sized(mt_runtime *runtime, size_t index,
                                             mt_device_info *info, size_t bytes);
static inline mt_status mt_runtime_device_get(mt_runtime *runtime, size_t index,
                                              mt_device_info *info) {
  return mt_runtime_device_get_sized(runtime, index, info, sizeof(*info));
}

/* "cpu", "gpu", ... Static. */
MT_API const char *mt_device_kind_name(mt_device_kind kind);

/* Where the newest content of the tensor is: "host" or "cuda:0". Static for the
 * life of the runtime. */
MT_API const char *mt_tensor_location(const mt_tensor *tensor);

/* CPU features of this machine as words ("avx2 fma ..."), after the operating system's
 * say (XCR0). Static. */
MT_API const char *mt_cpu_features(void);

#ifdef __cplusplus
}
#endif
#endif
