// SPDX-License-Identifier: Apache-2.0
/*
 * What this machine's CPU can do, and its caches.
 * Sources: Intel SDM volume 1 chapter 13 (XCR0) and volume 2 CPUID; AMD APM volume 3
 * appendix E; Linux arch/arm64 uapi hwcap.h; Linux ABI sysfs-devices-system-cpu.
 */
#include "loader.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

typedef struct feature {
  uint64_t bit;
  const char *name;
} feature;

#if defined(__x86_64__)

static const feature features[] = {
    {MT_CPU_X86_SSE42, "sse4.2"},
    {MT_CPU_X86_POPCNT, "popcnt"},
    {MT_CPU_X86_AVX, "avx"},
    {MT_CPU_X86_F16C, "f16c"},
    {MT_CPU_X86_FMA, "fma"},
    {MT_CPU_X86_BMI1, "bmi1"},
    {MT_CPU_X86_BMI2, "bmi2"},
    {MT_CPU_X86_AVX2, "avx2"},
    {MT_CPU_X86_AVX_VNNI, "avx-vnni"},
    {MT_CPU_X86_AVX512F, "avx512f"},
    {MT_CPU_X86_AVX512BW, "avx512bw"},
    {MT_CPU_X86_AVX512CD, "avx512cd"},
    {MT_CPU_X86_AVX512DQ, "avx512dq"},
    {MT_CPU_X86_AVX512VL, "avx512vl"},
    {MT_CPU_X86_AVX512VNNI, "avx512-vnni"},
    {MT_CPU_X86_AVX512BF16, "avx512-bf16"},
    {MT_CPU_X86_AVX512FP16, "avx512-fp16"},
    {MT_CPU_X86_AVX512VBMI, "avx512-vbmi"},
    {MT_CPU_X86_AVX512VBMI2, "avx512-vbmi2"},
    {MT_CPU_X86_AVX512BITALG, "avx512-bitalg"},
    {MT_CPU_X86_AVX512VPOPCNTDQ, "avx512-vpopcntdq"},
    {MT_CPU_X86_GFNI, "gfni"},
    {MT_CPU_X86_AMX_TILE, "amx-tile"},
    {MT_CPU_X86_AMX_INT8, "amx-int8"},
    {MT_CPU_X86_AMX_BF16, "amx-bf16"},
};

/* Register state that the operating system must save. AMX needs a request of the process
 * too (arch_prctl ARCH_REQ_XCOMP_PERM): the plugin's business, in init. */
enum { NO_STATE = 0, STATE_YMM = 0x6, STATE_ZMM = 0xe6 };
#define STATE_TILE UINT64_C(0x60000)

enum { LEAF_1_ECX, LEAF_7_EBX, LEAF_7_ECX, LEAF_7_EDX, LEAF_7_1_EAX, WORDS };

static const struct {
  uint64_t bit;
  int word, at;
  uint64_t state;
} detection[] = {
    {MT_CPU_X86_SSE42, LEAF_1_ECX, 20, NO_STATE},
    {MT_CPU_X86_POPCNT, LEAF_1_ECX, 23, NO_STATE},
    {MT_CPU_X86_AVX, LEAF_1_ECX, 28, STATE_YMM},
    {MT_CPU_X86_F16C, LEAF_1_ECX, 29, STATE_YMM},
    {MT_CPU_X86_FMA, LEAF_1_ECX, 12, STATE_YMM},
    {MT_CPU_X86_BMI1, LEAF_7_EBX, 3, NO_STATE},
    {MT_CPU_X86_BMI2, LEAF_7_EBX, 8, NO_STATE},
    {MT_CPU_X86_AVX2, LEAF_7_EBX, 5, STATE_YMM},
    {MT_CPU_X86_AVX_VNNI, LEAF_7_1_EAX, 4, STATE_YMM},
    {MT_CPU_X86_AVX512F, LEAF_7_EBX, 16, STATE_ZMM},
    {MT_CPU_X86_AVX512BW, LEAF_7_EBX, 30, STATE_ZMM},
    {MT_CPU_X86_AVX512CD, LEAF_7_EBX, 28, STATE_ZMM},
    {MT_CPU_X86_AVX512DQ, LEAF_7_EBX, 17, STATE_ZMM},
    {MT_CPU_X86_AVX512VL, LEAF_7_EBX, 31, STATE_ZMM},
    {MT_CPU_X86_AVX512VNNI, LEAF_7_ECX, 11, STATE_ZMM},
    {MT_CPU_X86_AVX512BF16, LEAF_7_1_EAX, 5, STATE_ZMM},
    {MT_CPU_X86_AVX512FP16, LEAF_7_EDX, 23, STATE_ZMM},
    {MT_CPU_X86_AVX512VBMI, LEAF_7_ECX, 1, STATE_ZMM},
    {MT_CPU_X86_AVX512VBMI2, LEAF_7_ECX, 6, STATE_ZMM},
    {MT_CPU_X86_AVX512BITALG, LEAF_7_ECX, 12, STATE_ZMM},
    {MT_CPU_X86_AVX512VPOPCNTDQ, LEAF_7_ECX, 14, STATE_ZMM},
    {MT_CPU_X86_GFNI, LEAF_7_ECX, 8, NO_STATE},
    {MT_CPU_X86_AMX_TILE, LEAF_7_EDX, 24, STATE_TILE},
    {MT_CPU_X86_AMX_INT8, LEAF_7_EDX, 25, STATE_TILE},
    {MT_CPU_X86_AMX_BF16, LEAF_7_EDX, 22, STATE_TILE},
};

static uint64_t saved_state(uint32_t leaf_1_ecx) {
  uint32_t low = 0, high = 0;
  if (leaf_1_ecx & (1u << 27)) { /* OSXSAVE: XGETBV may be used */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  }
  return (uint64_t)high << 32 | low;
}

static uint64_t detect(void) {
  uint32_t word[WORDS] = {0}, a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    word[LEAF_1_ECX] = c;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    uint32_t subleaves = a;
    word[LEAF_7_EBX] = b;
    word[LEAF_7_ECX] = c;
    word[LEAF_7_EDX] = d;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
      word[LEAF_7_1_EAX] = a;
    }
  }
  uint64_t state = saved_state(word[LEAF_1_ECX]), found = 0;
  for (size_t i = 0; i < sizeof(detection) / sizeof(detection[0]); i++) {
    bool has = word[detection[i].word] >> detection[i].at & 1;
    if (has && (state & detection[i].state) == detection[i].state) {
      found |= detection[i].bit;
    }
  }
  return found;
}

/* Deterministic cache parameters: leaf 4, on AMD leaf 0x8000001d, same layout. */
static void caches_of_cpu(uint64_t bytes[3], uint32_t leaf) {
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31) == 0) {
      return;
    }
    uint32_t type = a & 31, level = a >> 5 & 7; /* type 2: instructions */
    if (type != 2 && level >= 1 && level <= 3) {
      uint64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1;
      bytes[level - 1] = ways * partitions * line * ((uint64_t)c + 1);
    }
  }
}

static void ask_cpu_for_caches(uint64_t bytes[3]) {
  caches_of_cpu(bytes, 4);
  if (!bytes[0]) {
    caches_of_cpu(bytes, 0x8000001d);
  }
}

#elif defined(__aarch64__) && defined(__linux__)

static const feature features[] = {
    {MT_CPU_ARM64_DOTPROD, "dotprod"}, {MT_CPU_ARM64_FP16, "fp16"}, {MT_CPU_ARM64_I8MM, "i8mm"},
    {MT_CPU_ARM64_BF16, "bf16"},       {MT_CPU_ARM64_SVE, "sve"},   {MT_CPU_ARM64_SVE2, "sve2"},
};

static uint64_t detect(void) {
  unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  unsigned long half = 1ul << 9 | 1ul << 10; /* FPHP and ASIMDHP */
  uint64_t found = 0;
  found |= first & 1ul << 20 ? MT_CPU_ARM64_DOTPROD : 0;
  found |= (first & half) == half ? MT_CPU_ARM64_FP16 : 0;
  found |= first & 1ul << 22 ? MT_CPU_ARM64_SVE : 0;
  found |= second & 1ul << 1 ? MT_CPU_ARM64_SVE2 : 0;
  found |= second & 1ul << 13 ? MT_CPU_ARM64_I8MM : 0;
  found |= second & 1ul << 14 ? MT_CPU_ARM64_BF16 : 0;
  return found;
}

static void ask_cpu_for_caches(uint64_t bytes[3]) {
  (void)bytes; /* user space cannot: sysfs only */
}

#else

static const feature features[] = {{0, ""}};

static uint64_t detect(void) {
  return 0;
}

static void ask_cpu_for_caches(uint64_t bytes[3]) {
  (void)bytes;
}

#endif

/* ---- caches by sysfs ---------------------------------------------------------------- */

static bool read_word(int index, const char *file, char word[32]) {
  char path[96];
  snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
  FILE *stream = fopen(path, "re");
  if (!stream) {
    return false;
  }
  bool got = fscanf(stream, "%31s", word) == 1;
  fclose(stream);
  return got;
}

/* "48K" */
static uint64_t size_from_word(const char *word) {
  char *unit;
  uint64_t value = strtoull(word, &unit, 10);
  int shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
  return value > UINT64_MAX >> 30 ? 0 : value << shift;
}

static void ask_sysfs_for_caches(uint64_t bytes[3]) {
  char level[32], type[32], size[32];
  for (int i = 0; i < 16 && read_word(i, "level", level); i++) {
    if (!read_word(i, "type", type) || !read_word(i, "size", size)) {
      continue;
    }
    int at = level[0] - '1';
    if (level[1] == '\0' && at >= 0 && at < 3 && strcmp(type, "Instruction") != 0) {
      bytes[at] = size_from_word(size);
    }
  }
}

/* ---- once --------------------------------------------------------------------------- */

static struct {
  pthread_once_t once;
  uint64_t features;
  uint64_t caches[3];
} cpu = {.once = PTHREAD_ONCE_INIT};

static void detect_once(void) {
  cpu.features = detect();
  ask_sysfs_for_caches(cpu.caches);
  if (!cpu.caches[0]) {
    memset(cpu.caches, 0, sizeof(cpu.caches));
    ask_cpu_for_caches(cpu.caches);
  }
}

uint64_t mt_cpu_detect(void) {
  pthread_once(&cpu.once, detect_once);
  return cpu.features;
}

void mt_cpu_caches(uint64_t bytes[3]) {
  pthread_once(&cpu.once, detect_once);
  memcpy(bytes, cpu.caches, sizeof(cpu.caches));
}

static const char *feature_name(uint64_t bit) {
  for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
    if (features[i].bit == bit) {
      return features[i].name;
    }
  }
  return NULL;
}

const char *mt_cpu_describe(uint64_t wanted, char *buf, size_t size) {
  size_t at = 0;
  if (size > 0) {
    buf[0] = '\0';
  }
  for (int i = 0; i < 64 && at < size; i++) {
    uint64_t bit = UINT64_C(1) << i;
    if (!(wanted & bit)) {
      continue;
    }
    const char *name = feature_name(bit);
    const char *space = at ? " " : "";
    int n = name ? snprintf(buf + at, size - at, "%s%s", space, name)
                 : snprintf(buf + at, size - at, "%sfeature-%d", space, i); /* newer than we are */
    at += n > 0 ? (size_t)n : 0;
  }
  return buf;
}
