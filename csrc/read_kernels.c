#include "nodecheck.h"

#include <string.h>

/* One stream with four accumulators, one load each: the widest loop that no add latency holds back,
 * and no power-of-two-spaced streams, which halve the rate. Every word goes into the sum, so that
 * a load that is left out shows. Vectors are explicit because -O2 may or may not make them. */
#define READ_KERNEL(NAME, VECTOR_BYTES, ATTRIBUTE)                                       \
    typedef uint64_t NAME##_words __attribute__((vector_size(VECTOR_BYTES), may_alias)); \
    enum { NAME##_iteration_bytes = 4 * (VECTOR_BYTES) };                                \
    ATTRIBUTE static uint64_t NAME(const void *buffer, size_t bytes) {                   \
        const NAME##_words *at = buffer;                                                 \
        const NAME##_words *end = at + bytes / (VECTOR_BYTES);                           \
        NAME##_words a = {0}, b = {0}, c = {0}, d = {0};                                 \
        for (; at < end; at += 4) {                                                      \
            a += at[0];                                                                  \
            b += at[1];                                                                  \
            c += at[2];                                                                  \
            d += at[3];                                                                  \
        }                                                                                \
        a += b + c + d;                                                                  \
        uint64_t sum = 0;                                                                \
        for (size_t lane = 0; lane < (VECTOR_BYTES) / sizeof(uint64_t); lane++) {        \
            sum += a[lane];                                                              \
        }                                                                                \
        return sum;                                                                      \
    }

#define KERNEL(LABEL, NAME, USABLE) {LABEL, NAME##_iteration_bytes, NAME, USABLE}

static bool always(void) { return true; }

#if defined(__x86_64__)

enum {
    LEAF1_ECX_AVX = 1 << 28,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    XCR0_YMM = 0x06, /* SSE and AVX state */
    XCR0_ZMM = 0xe6, /* and opmask, upper ZMM, ZMM16-31 */
};

/* Both the CPU and the OS must agree: a register file that is not saved faults. */
static bool usable(uint32_t leaf7_ebx, uint64_t state) {
    uint32_t registers[4];
    uint64_t xcr0;
    if (!nc_xgetbv(&xcr0) || (xcr0 & state) != state) {
        return false;
    }
    nc_cpuid(0, 0, registers);
    if (registers[0] < 7) {
        return false;
    }
    nc_cpuid(1, 0, registers);
    if (!(registers[2] & LEAF1_ECX_AVX)) {
        return false;
    }
    nc_cpuid(7, 0, registers);
    return registers[1] & leaf7_ebx;
}

static bool avx2_usable(void) { return usable(LEAF7_EBX_AVX2, XCR0_YMM); }
static bool avx512_usable(void) { return usable(LEAF7_EBX_AVX512F, XCR0_ZMM); }

READ_KERNEL(read_sse2, 16, )
READ_KERNEL(read_avx2, 32, __attribute__((target("avx2"))))
READ_KERNEL(read_avx512, 64, __attribute__((target("avx512f"))))

/* The first usable one is the default; AVX-512 wins nothing over AVX2, so it comes last. */
static const nc_read_kernel kernels[] = {
    KERNEL("avx2", read_avx2, avx2_usable),
    KERNEL("sse2", read_sse2, always),
    KERNEL("avx512", read_avx512, avx512_usable),
};

#else

READ_KERNEL(read_vector, 16, )

static const nc_read_kernel kernels[] = {KERNEL("vector", read_vector, always)};

#endif

const nc_read_kernel *nc_choose_read_kernel(const char *wanted) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if ((!wanted || strcmp(wanted, kernels[i].name) == 0) && kernels[i].usable()) {
            return &kernels[i];
        }
    }
    return NULL;
}

const char *nc_read_kernel_name(const char *wanted) {
    const nc_read_kernel *kernel = nc_choose_read_kernel(wanted);
    return kernel ? kernel->name : NULL;
}

size_t nc_read_kernel_bytes(const char *kernel) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernel, kernels[i].name) == 0) {
            return kernels[i].bytes_per_iteration;
        }
    }
    return 0;
}

bool nc_read_sum(const char *kernel, const void *buffer, size_t bytes, uint64_t *sum) {
    const nc_read_kernel *chosen = nc_choose_read_kernel(kernel);
    if (!chosen || bytes % chosen->bytes_per_iteration) {
        return false;
    }
    *sum = chosen->read(buffer, bytes);
    return true;
}
