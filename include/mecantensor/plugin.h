// SPDX-License-Identifier: Apache-2.0
/*
 * plugin.h - the MecanTensor plugin ABI, version 1.
 *
 * For people who implement a backend. Programs that use MecanTensor include
 * <mecantensor/mecantensor.h> and never this file.
 *
 * The file stands alone: C11 or C++17, <stdint.h> and <stddef.h>, nothing to
 * link. A plugin is a shared object that
 *   1. carries one MT_PLUGIN_NOTE (an ELF note that is read before the file is
 *      opened: ABI, name, priority, CPU features needed), and
 *   2. exports exactly one symbol, mt_plugin_query_v1().
 * plugins/null in the source tree is a complete skeleton to copy.
 *
 * Rules of the ABI
 *   - Append only. A struct that crosses the boundary starts with struct_size;
 *     the caller zero-fills it, sets struct_size to the size it knows, and the
 *     callee reads and writes nothing past that. A shorter struct than expected
 *     means: the missing members are zero. A longer one: the rest is ignored.
 *   - A NULL function means "not supported" where this file says that the entry
 *     is optional, and is refused at load elsewhere.
 *   - Layouts hold fixed-width integers and pointers only. Arrays of structs
 *     come with a stride in bytes: step by it, never by sizeof.
 *   - Every fallible call returns one of MT_ABI_OK, MT_ABI_ERR_*, and may write
 *     a sentence for the user into the caller's mt_message_v1 (never NULL).
 *   - Nothing else crosses: no FILE, errno, exceptions, longjmp, va_list,
 *     pthread objects; no memory that one side allocates and the other frees
 *     (but for host->alloc with host->free); no pointer is kept past the call
 *     that passed it unless its comment says so.
 *   - A plugin installs no signal handler, calls no setlocale, fork or exit,
 *     has no destructors, and is never unloaded.
 */
#ifndef MECANTENSOR_PLUGIN_H
#define MECANTENSOR_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define MT_ABI_STATIC_ASSERT static_assert
#else
#define MT_ABI_STATIC_ASSERT _Static_assert
#endif

#define MT_PLUGIN_ABI_MAJOR 1u
#define MT_PLUGIN_ABI_MINOR 0u

/* The one exported symbol: MT_PLUGIN_EXPORT int32_t mt_plugin_query_v1(...). */
#if defined(__GNUC__)
#define MT_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define MT_PLUGIN_EXPORT
#endif

/* ---- result codes; the numbers equal those of mt_status ----------------------------- */
#define MT_ABI_OK 0
#define MT_ABI_ERR_INVALID_ARGUMENT 1 /* the host broke a rule of this file */
#define MT_ABI_ERR_OUT_OF_MEMORY 2
#define MT_ABI_ERR_UNSUPPORTED 3
#define MT_ABI_ERR_NOT_FOUND 4 /* no driver, no such device */
#define MT_ABI_ERR_IO 5
#define MT_ABI_ERR_CORRUPT 6
#define MT_ABI_ERR_BACKEND 7 /* the driver or device reported a failure */
/* Sticky, from any entry: given work touches no host memory from then on, and only free,
 * destroy, close and shutdown entries are called for this device. */
#define MT_ABI_ERR_DEVICE_LOST 8
#define MT_ABI_ERR_TIMEOUT 10

/* ---- element types; the numbers equal those of mt_dtype ----------------------------- */
#define MT_ABI_DTYPE_NONE 0 /* operand absent (an optional input not given) */
#define MT_ABI_DTYPE_F32 1
#define MT_ABI_DTYPE_F64 2
#define MT_ABI_DTYPE_F16 3  /* IEEE 754 binary16 */
#define MT_ABI_DTYPE_BF16 4 /* upper half of binary32 */
#define MT_ABI_DTYPE_I8 5
#define MT_ABI_DTYPE_U8 6
#define MT_ABI_DTYPE_I16 7
#define MT_ABI_DTYPE_I32 8
#define MT_ABI_DTYPE_I64 9
#define MT_ABI_DTYPE_BOOL 10  /* one byte, 0 or 1 */
#define MT_ABI_DTYPE_BLOCK 11 /* a block format: see mt_operand_v1.format */

/* ---- log levels --------------------------------------------------------------------- */
#define MT_ABI_LOG_ERROR 1
#define MT_ABI_LOG_WARN 2
#define MT_ABI_LOG_INFO 3
#define MT_ABI_LOG_DEBUG 4

/* ---- CPU features ------------------------------------------------------------------- */
/* Bits of mt_plugin_note_v1.cpu_features and mt_host_v1.cpu_features. Their
 * meaning depends on the ELF machine of the plugin. A bit is set by the host only
 * when the CPU has the feature and the operating system saves its registers
 * (CPUID and XCR0 on x86-64). */
#define MT_CPU_X86_SSE42 (UINT64_C(1) << 0)
#define MT_CPU_X86_POPCNT (UINT64_C(1) << 1)
#define MT_CPU_X86_AVX (UINT64_C(1) << 2)
#define MT_CPU_X86_F16C (UINT64_C(1) << 3)
#define MT_CPU_X86_FMA (UINT64_C(1) << 4)
#define MT_CPU_X86_BMI1 (UINT64_C(1) << 5)
#define MT_CPU_X86_BMI2 (UINT64_C(1) << 6)
#define MT_CPU_X86_AVX2 (UINT64_C(1) << 7)
#define MT_CPU_X86_AVX_VNNI (UINT64_C(1) << 8)
#define MT_CPU_X86_AVX512F (UINT64_C(1) << 9)
#define MT_CPU_X86_AVX512BW (UINT64_C(1) << 10)
#define MT_CPU_X86_AVX512CD (UINT64_C(1) << 11)
#define MT_CPU_X86_AVX512DQ (UINT64_C(1) << 12)
#define MT_CPU_X86_AVX512VL (UINT64_C(1) << 13)
#define MT_CPU_X86_AVX512VNNI (UINT64_C(1) << 14)
#define MT_CPU_X86_AVX512BF16 (UINT64_C(1) << 15)
#define MT_CPU_X86_AVX512FP16 (UINT64_C(1) << 16)
#define MT_CPU_X86_AVX512VBMI (UINT64_C(1) << 17)
#define MT_CPU_X86_AVX512VBMI2 (UINT64_C(1) << 18)
#define MT_CPU_X86_AVX512BITALG (UINT64_C(1) << 19)
#define MT_CPU_X86_AVX512VPOPCNTDQ (UINT64_C(1) << 20)
#define MT_CPU_X86_GFNI (UINT64_C(1) << 21)
#define MT_CPU_X86_AMX_TILE (UINT64_C(1) << 22)
#define MT_CPU_X86_AMX_INT8 (UINT64_C(1) << 23)
#define MT_CPU_X86_AMX_BF16 (UINT64_C(1) << 24)

#define MT_CPU_ARM64_DOTPROD (UINT64_C(1) << 0)
#define MT_CPU_ARM64_FP16 (UINT64_C(1) << 1)
#define MT_CPU_ARM64_I8MM (UINT64_C(1) << 2)
#define MT_CPU_ARM64_BF16 (UINT64_C(1) << 3)
#define MT_CPU_ARM64_SVE (UINT64_C(1) << 4)
#define MT_CPU_ARM64_SVE2 (UINT64_C(1) << 5)

/* ---- the note: what is known of a plugin before it is opened ------------------------ */
#define MT_PLUGIN_NOTE_OWNER "MecanTensor"
#define MT_PLUGIN_NOTE_TYPE_V1 1u
#define MT_PLUGIN_NAME_MAX 32

typedef struct mt_plugin_note_v1 {
  uint32_t struct_size; /* sizeof(mt_plugin_note_v1) */
  uint32_t abi_major;
  uint32_t abi_minor;
  /* Order under "auto": higher first. 100 to 299 for CPU backends (wider vectors
   * higher), 300 to 699 for accelerators, 0 for what is never chosen by itself. */
  int32_t priority;
  uint64_t cpu_features;         /* all of these are needed, else it stays closed */
  char name[MT_PLUGIN_NAME_MAX]; /* [a-z0-9-]+, NUL-terminated: what users type */
} mt_plugin_note_v1;

typedef struct mt_plugin_elf_note_v1 {
  uint32_t namesz, descsz, type;
  char owner[12];
  mt_plugin_note_v1 desc;
} mt_plugin_elf_note_v1;

/* Put once, at file scope, e.g. MT_PLUGIN_NOTE("acme", 300, 0); */
#define MT_PLUGIN_NOTE(plugin_name, plugin_priority, plugin_cpu_features)                          \
  __attribute__((used, section(".note.mecantensor"),                                               \
                 aligned(8))) static const mt_plugin_elf_note_v1 mt_plugin_note = {                \
      sizeof(MT_PLUGIN_NOTE_OWNER),                                                                \
      sizeof(mt_plugin_note_v1),                                                                   \
      MT_PLUGIN_NOTE_TYPE_V1,                                                                      \
      MT_PLUGIN_NOTE_OWNER,                                                                        \
      {sizeof(mt_plugin_note_v1), MT_PLUGIN_ABI_MAJOR, MT_PLUGIN_ABI_MINOR, (plugin_priority),     \
       (plugin_cpu_features), plugin_name}}

/* ---- messages ----------------------------------------------------------------------- */
/* Owned by the caller. The callee writes a NUL-terminated UTF-8 sentence into text
 * when it returns an error; text_bytes is the room there is. */
typedef struct mt_message_v1 {
  uint32_t struct_size;
  uint32_t text_bytes;
  char *text;
} mt_message_v1;

/* ---- the host's services ------------------------------------------------------------ */
/* Passed to query (valid during that call) and to init (valid until shutdown of
 * that instance returns). All functions are thread-safe and take ctx first. */
typedef struct mt_host_v1 {
  uint32_t struct_size;
  uint32_t abi_minor;
  void *ctx;
  const char *core_version; /* "0.1.0" */
  uint64_t cpu_features;    /* MT_CPU_* of this machine */
  uint64_t l1d_bytes;       /* data caches of one core; 0 unknown */
  uint64_t l2_bytes;
  uint64_t l3_bytes; /* shared */

  /* Logs one line; level is MT_ABI_LOG_*. The plugin's name is added. */
  void (*log)(void *ctx, int32_t level, const char *message);

  /* alignment: power of two. NULL on failure; 0 bytes gives a unique pointer. */
  void *(*alloc)(void *ctx, uint64_t bytes, uint64_t alignment);
  void (*free)(void *ctx, void *ptr); /* NULL is fine */

  /* The user's setting for this plugin: key "tile" of plugin "cpu-avx2" is the
   * variable MECANTENSOR_CPU_AVX2_TILE. Copies the value with its NUL when it fits in
   * buf_bytes and returns its length; -1 when unset; when too long, copies nothing
   * and returns the length. Not available during query. */
  int64_t (*config)(void *ctx, const char *key, char *buf, uint64_t buf_bytes);

  /* Names to numbers, stable for the life of the process; 0: this core does not know
   * the name, so it will never ask for it. */
  int32_t (*intern_op)(void *ctx, const char *name, uint32_t version);
  int32_t (*intern_attr)(void *ctx, const char *name);
  /* The core's block size (elements) and bytes must equal the plugin's, else 0. */
  int32_t (*intern_format)(void *ctx, const char *id, uint32_t block_elements,
                           uint32_t block_bytes);

  /* Runs fn(arg, task) for task = 0 .. tasks-1 on the process's thread pool, the
   * caller included; returns when all are done. Nested calls, and calls while the
   * pool is busy with another caller's work, run on the calling thread. */
  void (*parallel_for)(void *ctx, uint32_t tasks, void (*fn)(void *arg, uint32_t task), void *arg);
  uint32_t (*thread_count)(void *ctx); /* how many tasks can run at once, >= 1 */

  /* Optional groups of functions, for later minors. NULL: unknown id or version. */
  const void *(*get_interface)(void *ctx, const char *id, uint32_t version);
} mt_host_v1;

/* ---- devices ------------------------------------------------------------------------ */
#define MT_ABI_DEVICE_CPU 1
#define MT_ABI_DEVICE_GPU 2
#define MT_ABI_DEVICE_NPU 3
#define MT_ABI_DEVICE_FPGA 4
#define MT_ABI_DEVICE_OTHER 5

/* The device works on host memory: operands come as mt_operand_v1.data and the
 * buffer, upload, download, copy and fill entries are never called. */
#define MT_ABI_DEVICE_HOST_POINTERS (UINT64_C(1) << 0)
/* Device memory is physically the host's (integrated GPU). Information only. */
#define MT_ABI_DEVICE_UNIFIED_MEMORY (UINT64_C(1) << 1)
/* Every queue call completes before it returns. */
#define MT_ABI_DEVICE_SYNCHRONOUS (UINT64_C(1) << 2)
/* Usable in a child after fork(). Without it the host refuses calls there. */
#define MT_ABI_DEVICE_FORK_SAFE (UINT64_C(1) << 3)

typedef struct mt_device_info_v1 {
  uint32_t struct_size;
  int32_t kind; /* MT_ABI_DEVICE_CPU ... */
  uint64_t flags;
  uint64_t memory_bytes;     /* total device memory; 0 unknown or host memory */
  uint64_t max_buffer_bytes; /* largest single buffer; 0 no limit known */
  uint32_t buffer_alignment; /* of operand byte offsets: others are relaid out by the host
                                without being asked; 0 or 1: any. Not for HOST_POINTERS */
  uint32_t pci_domain, pci_bus, pci_device, pci_function; /* valid with has_pci */
  uint32_t has_pci;
  uint8_t uuid[16]; /* all zero: none */
  char name[128];   /* "NVIDIA H200" */
  char vendor[64];
  char driver[128]; /* driver and its version, in words */
} mt_device_info_v1;

/* ---- operands and ops --------------------------------------------------------------- */
/* The content of this operand will not change while the plan that sees it lives:
 * prepare() may read data now and keep a packed copy in the plan. */
#define MT_ABI_OPERAND_CONSTANT (1u << 0)

typedef struct mt_operand_v1 {
  uint32_t struct_size;
  int32_t dtype;      /* MT_ABI_DTYPE_*; NONE: absent, nothing else is valid */
  int32_t format;     /* interned block format when dtype is BLOCK, else 0 */
  int32_t block_axis; /* the axis that blocks run along; -1 when not BLOCK */
  int32_t rank;       /* 0 (a scalar) or more */
  uint32_t flags;
  const int64_t *shape; /* rank extents, each >= 0 */
  /* rank strides, in elements, any sign; 0 on a broadcast axis. BLOCK: the stride of
   * block_axis is 1 and every other a multiple of the block size, so that the byte
   * offset of an element's block is index / block_elements * block_bytes. */
  const int64_t *stride;
  /* Where element 0 is. Exactly one pair is set, none in op_support. */
  void *data;           /* HOST_POINTERS devices */
  void *buffer;         /* others: buffer of this device ... */
  uint64_t byte_offset; /* ... and where in it */
} mt_operand_v1;

#define MT_ABI_ATTR_I64 1
#define MT_ABI_ATTR_F64 2
#define MT_ABI_ATTR_I64_LIST 3
/* The op is wrong without it: a plugin that does not know the key answers NO. */
#define MT_ABI_ATTR_REQUIRED (1u << 0)

typedef struct mt_attr_v1 {
  int32_t key;  /* interned */
  int32_t type; /* MT_ABI_ATTR_* */
  uint32_t flags;
  uint32_t count; /* elements of list */
  union {
    int64_t i64;
    double f64;
    const int64_t *list;
  } value;
} mt_attr_v1;

/* docs/ops-abi.md lists every op with its inputs, outputs and attributes. */
typedef struct mt_op_v1 {
  uint32_t struct_size;
  int32_t op; /* interned name and version */
  uint32_t input_count, output_count, attr_count;
  uint32_t operand_stride, attr_stride; /* bytes from one array element to the next */
  uint32_t reserved;
  const mt_operand_v1 *inputs;
  const mt_operand_v1 *outputs;
  const mt_attr_v1 *attrs;
} mt_op_v1;

#define MT_ABI_SUPPORT_NO 0
#define MT_ABI_SUPPORT_YES 1
/* Yes when the operands named in the masks are first copied to contiguous row-major
 * layout (inputs before, outputs after), at offsets that suit buffer_alignment. */
#define MT_ABI_SUPPORT_AFTER_RELAYOUT 2

typedef struct mt_support_v1 {
  uint32_t struct_size;
  int32_t answer;
  uint64_t relayout_inputs; /* bit i: input i */
  uint64_t relayout_outputs;
  uint32_t wants_prepare; /* 1: call prepare() first and pass its plan to execute() */
  uint32_t reason_bytes;
  char *reason; /* the host's buffer; fill on NO: "dtype f64: f32 only" */
} mt_support_v1;

/* ---- the plugin --------------------------------------------------------------------- */
/* Cores of minor 0 never call copy, fill, buffer_import, buffer_map, buffer_unmap,
 * queue_wait_queue and get_interface; later ones may. */
/* Thread safety: entries that take a queue are called by one thread at a time per
 * queue; different queues at once. queue_query, queue_wait and all entries that take no
 * queue may be called at any time from any thread, except that the host never frees,
 * destroys, closes or shuts down what is in use. */
typedef struct mt_plugin_v1 {
  uint32_t struct_size; /* in: room the host has; out: bytes filled in */
  uint32_t abi_minor;
  const char *name;    /* same as in the note; static, as all strings here */
  const char *version; /* of the plugin */
  const char *vendor;
  const char *description; /* one line */

  /* -- instance: work starts here. May be called several times in a process; each
   * instance stands alone. NOT_FOUND with a sentence ("no driver: libfoo.so.1 not
   * found") when the machine has nothing to drive. */
  int32_t (*init)(const mt_host_v1 *host, void **plugin, mt_message_v1 *msg);
  void (*shutdown)(void *plugin); /* all devices are closed by then */

  /* -- devices */
  int32_t (*device_count)(void *plugin, uint32_t *count, mt_message_v1 *msg);
  int32_t (*device_info)(void *plugin, uint32_t index, mt_device_info_v1 *info, mt_message_v1 *msg);
  int32_t (*device_open)(void *plugin, uint32_t index, void **device, mt_message_v1 *msg);
  void (*device_close)(void *device); /* queues destroyed, buffers and plans freed */

  /* -- queues. Commands of one queue take effect in the order they were given. Each
   * gets a point, of a synchronous device too: numbers that rise, from 1 (one that does not
   * loses the device). Host memory passed to upload, download or execute (operand data)
   * stays valid until the point is reached; so do buffers and plans. A
   * command that fails late is reported by query and wait, with its message, from
   * then on: the queue is lost, and touches no host memory any more. */
  int32_t (*queue_create)(void *device, void **queue, mt_message_v1 *msg);
  void (*queue_destroy)(void *queue); /* after all points are reached or failed */
  int32_t (*queue_query)(void *queue, uint64_t *reached, mt_message_v1 *msg); /* no blocking */
  /* Blocks until the point is reached. timeout_ns: UINT64_MAX waits for ever; else
   * MT_ABI_ERR_TIMEOUT when it runs out. */
  int32_t (*queue_wait)(void *queue, uint64_t point, uint64_t timeout_ns, mt_message_v1 *msg);

  /* -- ops. op_support answers from the description alone (no data, no state). */
  int32_t (*op_support)(void *device, const mt_op_v1 *op, mt_support_v1 *support);
  /* Checked by op_support first, same shapes and strides; plan is prepare()'s or NULL. */
  int32_t (*execute)(void *queue, void *plan, const mt_op_v1 *op, uint64_t *point,
                     mt_message_v1 *msg);

  /* -- optional pair: compile, choose, pack. The host keeps the plan and passes it to
   * each execute of an op with the same description: on several queues at once where a
   * device has several, so it holds nothing that execute writes to. */
  int32_t (*prepare)(void *device, const mt_op_v1 *op, void **plan, mt_message_v1 *msg);
  void (*plan_free)(void *device, void *plan);

  /* -- memory: needed unless every device says HOST_POINTERS. bytes >= 1 always; a
   * request that is too large is OUT_OF_MEMORY, not a crash. Ranges are in bounds. */
  int32_t (*buffer_alloc)(void *device, uint64_t bytes, void **buffer, mt_message_v1 *msg);
  void (*buffer_free)(void *device, void *buffer);
  int32_t (*upload)(void *queue, void *buffer, uint64_t offset, const void *src, uint64_t bytes,
                    uint64_t *point, mt_message_v1 *msg);
  int32_t (*download)(void *queue, void *buffer, uint64_t offset, void *dst, uint64_t bytes,
                      uint64_t *point, mt_message_v1 *msg);
  /* Optional: between two buffers of this device that do not overlap. */
  int32_t (*copy)(void *queue, void *dst, uint64_t dst_offset, void *src, uint64_t src_offset,
                  uint64_t bytes, uint64_t *point, mt_message_v1 *msg);
  /* Optional: repeats the low pattern_bytes (1, 2 or 4) of pattern. */
  int32_t (*fill)(void *queue, void *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern,
                  uint32_t pattern_bytes, uint64_t *point, mt_message_v1 *msg);
  /* Optional: the host's own memory as a buffer, without a copy; it stays valid and
   * in place until buffer_free. UNSUPPORTED when ptr or bytes do not suit. */
  int32_t (*buffer_import)(void *device, void *ptr, uint64_t bytes, void **buffer,
                           mt_message_v1 *msg);
  /* Optional pair: a window for the host; map waits for nothing: the host has waited
   * for the points that matter. Writes are visible to the device after unmap. */
  int32_t (*buffer_map)(void *device, void *buffer, uint64_t offset, uint64_t bytes, void **ptr,
                        mt_message_v1 *msg);
  int32_t (*buffer_unmap)(void *device, void *buffer, void *ptr, mt_message_v1 *msg);
  /* Optional: what queue is given from now on starts after point of other (same
   * device). Without it the host waits. */
  int32_t (*queue_wait_queue)(void *queue, void *other, uint64_t point, mt_message_v1 *msg);

  /* Optional groups of functions, for later minors and for vendors ("acme.power"). */
  const void *(*get_interface)(void *plugin, const char *id, uint32_t version);
} mt_plugin_v1;

/* Fills in *out. Pure: no threads, no driver calls, no allocation, no I/O. Called
 * once or more, from any thread. An error means: do not use this plugin. */
typedef int32_t mt_plugin_query_v1_fn(const mt_host_v1 *host, mt_plugin_v1 *out);
MT_PLUGIN_EXPORT int32_t mt_plugin_query_v1(const mt_host_v1 *host, mt_plugin_v1 *out);

/* ---- the layout, pinned (LP64) ------------------------------------------------------ */
#if UINTPTR_MAX == UINT64_MAX
#define MT_ABI_PIN(type, member, at)                                                               \
  MT_ABI_STATIC_ASSERT(offsetof(type, member) == (at), #type "." #member " moved")
#define MT_ABI_PIN_SIZE(type, size)                                                                \
  MT_ABI_STATIC_ASSERT(sizeof(type) == (size), #type " changed its size")
MT_ABI_PIN(mt_plugin_note_v1, cpu_features, 16);
MT_ABI_PIN(mt_plugin_note_v1, name, 24);
MT_ABI_PIN_SIZE(mt_plugin_note_v1, 56);
MT_ABI_PIN(mt_plugin_elf_note_v1, desc, 24);
MT_ABI_PIN(mt_message_v1, text, 8);
MT_ABI_PIN(mt_host_v1, ctx, 8);
MT_ABI_PIN(mt_host_v1, cpu_features, 24);
MT_ABI_PIN(mt_host_v1, log, 56);
MT_ABI_PIN(mt_host_v1, intern_op, 88);
MT_ABI_PIN(mt_host_v1, parallel_for, 112);
MT_ABI_PIN(mt_host_v1, get_interface, 128);
MT_ABI_PIN_SIZE(mt_host_v1, 136);
MT_ABI_PIN(mt_device_info_v1, flags, 8);
MT_ABI_PIN(mt_device_info_v1, uuid, 56);
MT_ABI_PIN(mt_device_info_v1, name, 72);
MT_ABI_PIN(mt_device_info_v1, driver, 264);
MT_ABI_PIN_SIZE(mt_device_info_v1, 392);
MT_ABI_PIN(mt_operand_v1, shape, 24);
MT_ABI_PIN(mt_operand_v1, data, 40);
MT_ABI_PIN(mt_operand_v1, byte_offset, 56);
MT_ABI_PIN_SIZE(mt_operand_v1, 64);
MT_ABI_PIN(mt_attr_v1, value, 16);
MT_ABI_PIN_SIZE(mt_attr_v1, 24);
MT_ABI_PIN(mt_op_v1, inputs, 32);
MT_ABI_PIN_SIZE(mt_op_v1, 56);
MT_ABI_PIN(mt_support_v1, relayout_inputs, 8);
MT_ABI_PIN(mt_support_v1, reason, 32);
MT_ABI_PIN_SIZE(mt_support_v1, 40);
MT_ABI_PIN(mt_plugin_v1, name, 8);
MT_ABI_PIN(mt_plugin_v1, init, 40);
MT_ABI_PIN(mt_plugin_v1, queue_create, 88);
MT_ABI_PIN(mt_plugin_v1, op_support, 120);
MT_ABI_PIN(mt_plugin_v1, execute, 128);
MT_ABI_PIN(mt_plugin_v1, prepare, 136);
MT_ABI_PIN(mt_plugin_v1, buffer_alloc, 152);
MT_ABI_PIN(mt_plugin_v1, get_interface, 232);
MT_ABI_PIN_SIZE(mt_plugin_v1, 240);
#endif

#ifdef __cplusplus
}
#endif
#endif /* MECANTENSOR_PLUGIN_H */
