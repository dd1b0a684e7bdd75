#include "nodecheck.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { OSXSAVE = 1 << 27 };

bool nc_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
    __cpuid_count(leaf, subleaf, registers[0], registers[1], registers[2], registers[3]);
    return true;
}

bool nc_xgetbv(uint64_t *xcr0) {
    uint32_t registers[4];
    nc_cpuid(1, 0, registers);
    /* Without CR4.OSXSAVE the instruction itself is undefined. */
    if (!(registers[2] & OSXSAVE)) {
        return false;
    }
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    *xcr0 = (uint64_t)high << 32 | low;
    return true;
}

#else

bool nc_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
    (void)leaf, (void)subleaf, (void)registers;
    return false;
}

bool nc_xgetbv(uint64_t *xcr0) {
    (void)xcr0;
    return false;
}

#endif
