#ifndef NODECHECK_ISA_H
#define NODECHECK_ISA_H

#include <stdbool.h>

/* The instruction sets that kernels are written for, each with all that it needs beside it. */
typedef enum {
    NC_BASELINE,    /* x86-64-v1 (SSE2), or ARMv8-A with its NEON */
    NC_SSE42,       /* and SSSE3, SSE4.1 */
    NC_AVX,         /* and SSE4.2 */
    NC_AVX2,        /* and FMA, F16C, as an engine's AVX2 build needs them */
    NC_AVX512,      /* F, BW, VL and DQ, and AVX2's */
    NC_AVX512_VNNI, /* and AVX512's */
    NC_AVX512_BF16, /* and AVX512's */
    NC_DOTPROD,     /* ARMv8.2 SDOT; SMMLA takes two vectors, which decode does not have */
} nc_isa;

/* "sse2" or "neon" for the baseline. */
const char *nc_isa_name(nc_isa isa);

/* Both the CPU tells of it and the OS saves its registers: what an engine may use here. */
bool nc_isa_usable(nc_isa isa);

#endif
