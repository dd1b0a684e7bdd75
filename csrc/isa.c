#include "isa.h"

#include "nodecheck.h"

#if defined(__x86_64__)

enum {
    LEAF1_ECX_SSSE3 = 1 << 9,
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_SSE41 = 1 << 19,
    LEAF1_ECX_SSE42 = 1 << 20,
    LEAF1_ECX_AVX = 1 << 28,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    LEAF7_EBX_AVX512DQ = 1 << 17,
    LEAF7_EBX_AVX512BW = 1 << 30,
    LEAF7_ECX_AVX512_VNNI = 1 << 11,
    LEAF7_1_EAX_AVX512_BF16 = 1 << 5,
    XCR0_YMM = 0x06, /* SSE and AVX state */
    XCR0_ZMM = 0xe6, /* and opmask, upper ZMM, ZMM16-31 */
};

static const uint32_t LEAF7_EBX_AVX512VL = UINT32_C(1) << 31;

typedef struct {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_1_eax;
    uint64_t xcr0;
} features;

#define SSE42_NEEDS (LEAF1_ECX_SSSE3 | LEAF1_ECX_SSE41 | LEAF1_ECX_SSE42)
#define AVX_NEEDS (SSE42_NEEDS | LEAF1_ECX_AVX)
#define AVX2_NEEDS (AVX_NEEDS | LEAF1_ECX_FMA | LEAF1_ECX_F16C)
#define AVX512_NEEDS (LEAF7_EBX_AVX2 | LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512BW)

static features needs(nc_isa isa) {
    const features avx512 = {
        .leaf1_ecx = AVX2_NEEDS, .leaf7_ebx = AVX512_NEEDS | LEAF7_EBX_AVX512VL, .xcr0 = XCR0_ZMM};
    features vnni = avx512, bf16 = avx512;
    vnni.leaf7_ecx = LEAF7_ECX_AVX512_VNNI;
    bf16.leaf7_1_eax = LEAF7_1_EAX_AVX512_BF16;
    switch (isa) {
    case NC_BASELINE:
        return (features){0};
    case NC_SSE42:
        return (features){.leaf1_ecx = SSE42_NEEDS};
    case NC_AVX:
        return (features){.leaf1_ecx = AVX_NEEDS, .xcr0 = XCR0_YMM};
    case NC_AVX2:
        return (features){.leaf1_ecx = AVX2_NEEDS, .leaf7_ebx = LEAF7_EBX_AVX2, .xcr0 = XCR0_YMM};
    case NC_AVX512:
        return avx512;
    case NC_AVX512_VNNI:
        return vnni;
    case NC_AVX512_BF16:
        return bf16;
    default: /* another architecture's */
        return (features){.xcr0 = UINT64_MAX};
    }
}

static features read_features(void) {
    features found = {0};
    uint32_t registers[4];
    nc_xgetbv(&found.xcr0);
    nc_cpuid(1, 0, registers);
    found.leaf1_ecx = registers[2];
    nc_cpuid(0, 0, registers);
    if (registers[0] >= 7) {
        nc_cpuid(7, 0, registers);
        uint32_t subleaves = registers[0];
        found.leaf7_ebx = registers[1];
        found.leaf7_ecx = registers[2];
        if (subleaves) {
            nc_cpuid(7, 1, registers);
            found.leaf7_1_eax = registers[0];
        }
    }
    return found;
}

bool nc_isa_usable(nc_isa isa) {
    features has = read_features(), need = needs(isa);
    return (has.leaf1_ecx & need.leaf1_ecx) == need.leaf1_ecx &&
           (has.leaf7_ebx & need.leaf7_ebx) == need.leaf7_ebx &&
           (has.leaf7_ecx & need.leaf7_ecx) == need.leaf7_ecx &&
           (has.leaf7_1_eax & need.leaf7_1_eax) == need.leaf7_1_eax &&
           (has.xcr0 & need.xcr0) == need.xcr0;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

enum { HWCAP_DOTPROD = 1 << 20 };

bool nc_isa_usable(nc_isa isa) {
    return isa == NC_BASELINE || (isa == NC_DOTPROD && (getauxval(AT_HWCAP) & HWCAP_DOTPROD));
}

#else

bool nc_isa_usable(nc_isa isa) { return isa == NC_BASELINE; }

#endif

const char *nc_isa_name(nc_isa isa) {
    static const char *const names[] = {
#if defined(__x86_64__)
        "sse2",
#elif defined(__aarch64__)
        "neon",
#else
        "plain",
#endif
        "sse4.2", "avx", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "dotprod",
    };
    return names[isa];
}
