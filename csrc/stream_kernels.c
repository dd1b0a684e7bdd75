/* Loops that move memory as fast as an instruction set can, each on one thread.
 *
 * One stream an array, for power-of-two-spaced streams halve the rate. Vectors are explicit, since
 * -O2 may or may not make them. Which variant wins differs by CPU: prefetching AVX2 reads gains a
 * fifth on Emerald Rapids and loses on Zen 4, AVX-512 gains on the first alone, plain stores beat
 * non-temporal ones on two cores of one Zen 4 complex. So all are kept, and raced. Prefetching what
 * a non-temporal copy reads gains a fifth on Emerald Rapids, a triad a twentieth (512 MiB, one
 * thread, median of 15 interleaved rounds). */
#include "stream.h"

#define PREFETCH_BYTES 4096

#define VECTOR_TYPES(BITS)                                                            \
    typedef uint64_t words##BITS __attribute__((vector_size((BITS) / 8), may_alias)); \
    typedef double doubles##BITS __attribute__((vector_size((BITS) / 8), may_alias));

#define ITERATION_BYTES(BITS) ((size_t)(BITS) / 8 * 4)

#define BEHIND(FIRST, ARRAYS) ((const void *)((const char *)(FIRST) + (ARRAYS)->bytes))

#define NO_PREFETCH(AT, BYTES) (void)0
#define PREFETCH(AT, BYTES)                                                    \
    for (size_t ahead = 0; ahead < (BYTES); ahead += 64) {                     \
        __builtin_prefetch((const char *)(AT) + PREFETCH_BYTES + ahead, 0, 2); \
    }

/* Four accumulators, one load each, so that no add latency holds the loop back. */
#define READ(NAME, BITS, ATTRIBUTE, AHEAD)                            \
    ATTRIBUTE static uint64_t NAME(const nc_arrays *arrays) {         \
        const words##BITS *at = (const words##BITS *)arrays->source;  \
        const words##BITS *end = BEHIND(at, arrays);                  \
        words##BITS a = {0}, b = {0}, c = {0}, d = {0};               \
        for (; at < end; at += 4) {                                   \
            AHEAD(at, ITERATION_BYTES(BITS));                         \
            a += at[0];                                               \
            b += at[1];                                               \
            c += at[2];                                               \
            d += at[3];                                               \
        }                                                             \
        a += b + c + d;                                               \
        uint64_t sum = 0;                                             \
        for (size_t lane = 0; lane < sizeof a / sizeof sum; lane++) { \
            sum += a[lane];                                           \
        }                                                             \
        return sum;                                                   \
    }

#define WRITE(NAME, BITS, ATTRIBUTE, STORE, FENCE)            \
    ATTRIBUTE static uint64_t NAME(const nc_arrays *arrays) { \
        words##BITS *to = (words##BITS *)arrays->destination; \
        const words##BITS *end = BEHIND(to, arrays);          \
        words##BITS value = {0};                              \
        value += arrays->value;                               \
        for (; to < end; to += 4) {                           \
            STORE(BITS, to, value, value, value, value);      \
        }                                                     \
        FENCE;                                                \
        return 0;                                             \
    }

#define COPY(NAME, BITS, ATTRIBUTE, STORE, FENCE, AHEAD)             \
    ATTRIBUTE static uint64_t NAME(const nc_arrays *arrays) {        \
        const words##BITS *at = (const words##BITS *)arrays->source; \
        words##BITS *to = (words##BITS *)arrays->destination;        \
        const words##BITS *end = BEHIND(to, arrays);                 \
        for (; to < end; to += 4, at += 4) {                         \
            AHEAD(at, ITERATION_BYTES(BITS));                        \
            STORE(BITS, to, at[0], at[1], at[2], at[3]);             \
        }                                                            \
        FENCE;                                                       \
        return 0;                                                    \
    }

#define TRIAD(NAME, BITS, ATTRIBUTE, STORE, FENCE, AHEAD)                                   \
    ATTRIBUTE static uint64_t NAME(const nc_arrays *arrays) {                               \
        const doubles##BITS *b = (const doubles##BITS *)arrays->source;                     \
        const doubles##BITS *c = (const doubles##BITS *)arrays->second_source;              \
        words##BITS *to = (words##BITS *)arrays->destination;                               \
        const words##BITS *end = BEHIND(to, arrays);                                        \
        const double factor = 1.0 / NC_TRIAD_FACTOR_INVERSE;                                \
        for (; to < end; to += 4, b += 4, c += 4) {                                         \
            AHEAD(b, ITERATION_BYTES(BITS));                                                \
            AHEAD(c, ITERATION_BYTES(BITS));                                                \
            STORE(BITS, to, (words##BITS)(b[0] + c[0] * factor),                            \
                  (words##BITS)(b[1] + c[1] * factor), (words##BITS)(b[2] + c[2] * factor), \
                  (words##BITS)(b[3] + c[3] * factor));                                     \
        }                                                                                   \
        FENCE;                                                                              \
        return 0;                                                                           \
    }

/* All four are read before the first is stored. */
#define STORE(BITS, TO, A, B, C, D)                           \
    do {                                                      \
        words##BITS a = (A), b_ = (B), c_ = (C), d = (D);     \
        (TO)[0] = a, (TO)[1] = b_, (TO)[2] = c_, (TO)[3] = d; \
    } while (0)

#define KERNELS(BITS, SET, ATTRIBUTE)                                      \
    READ(read_##SET, BITS, ATTRIBUTE, NO_PREFETCH)                         \
    READ(read_prefetch_##SET, BITS, ATTRIBUTE, PREFETCH)                   \
    WRITE(write_##SET, BITS, ATTRIBUTE, STORE, )                           \
    WRITE(write_stream_##SET, BITS, ATTRIBUTE, STREAM, FENCE)              \
    COPY(copy_##SET, BITS, ATTRIBUTE, STORE, , NO_PREFETCH)                \
    COPY(copy_stream_##SET, BITS, ATTRIBUTE, STREAM, FENCE, NO_PREFETCH)   \
    COPY(copy_both_##SET, BITS, ATTRIBUTE, STREAM, FENCE, PREFETCH)        \
    TRIAD(triad_##SET, BITS, ATTRIBUTE, STORE, , NO_PREFETCH)              \
    TRIAD(triad_stream_##SET, BITS, ATTRIBUTE, STREAM, FENCE, NO_PREFETCH) \
    TRIAD(triad_both_##SET, BITS, ATTRIBUTE, STREAM, FENCE, PREFETCH)

#define ENTRIES(BITS, SET, ISA)                                                          \
    {NC_READ, ISA, "plain", ITERATION_BYTES(BITS), read_##SET},                          \
        {NC_READ, ISA, "prefetch", ITERATION_BYTES(BITS), read_prefetch_##SET},          \
        {NC_WRITE, ISA, "plain", ITERATION_BYTES(BITS), write_##SET},                    \
        {NC_WRITE, ISA, "non-temporal", ITERATION_BYTES(BITS), write_stream_##SET},      \
        {NC_COPY, ISA, "plain", ITERATION_BYTES(BITS), copy_##SET},                      \
        {NC_COPY, ISA, "non-temporal", ITERATION_BYTES(BITS), copy_stream_##SET},        \
        {NC_COPY, ISA, "non-temporal prefetch", ITERATION_BYTES(BITS), copy_both_##SET}, \
        {NC_TRIAD, ISA, "plain", ITERATION_BYTES(BITS), triad_##SET},                    \
        {NC_TRIAD, ISA, "non-temporal", ITERATION_BYTES(BITS), triad_stream_##SET},      \
        {NC_TRIAD, ISA, "non-temporal prefetch", ITERATION_BYTES(BITS), triad_both_##SET},

#if defined(__x86_64__)

#include <immintrin.h>

#define STREAM128(TO, A) _mm_stream_si128((__m128i *)(TO), (__m128i)(A))
#define STREAM256(TO, A) _mm256_stream_si256((__m256i *)(TO), (__m256i)(A))
#define STREAM512(TO, A) _mm512_stream_si512((__m512i *)(TO), (__m512i)(A))
#define STREAM(BITS, TO, A, B, C, D)                      \
    do {                                                  \
        words##BITS a = (A), b_ = (B), c_ = (C), d = (D); \
        STREAM##BITS(&(TO)[0], a);                        \
        STREAM##BITS(&(TO)[1], b_);                       \
        STREAM##BITS(&(TO)[2], c_);                       \
        STREAM##BITS(&(TO)[3], d);                        \
    } while (0)
#define FENCE _mm_sfence()

VECTOR_TYPES(128)
VECTOR_TYPES(256)
VECTOR_TYPES(512)
KERNELS(128, sse2, )
KERNELS(256, avx2, __attribute__((target("avx2"))))
KERNELS(512, avx512, __attribute__((target("avx512f"))))

static const nc_stream_kernel kernels[] = {
    ENTRIES(128, sse2, NC_BASELINE) ENTRIES(256, avx2, NC_AVX2) ENTRIES(512, avx512, NC_AVX512)};

#elif defined(__aarch64__)

#define STREAM(BITS, TO, A, B, C, D)                                       \
    do {                                                                   \
        words##BITS a = (A), b_ = (B), c_ = (C), d = (D);                  \
        __asm__ volatile("stnp %q1, %q2, [%0]\n\tstnp %q3, %q4, [%0, #32]" \
                         :                                                 \
                         : "r"(TO), "w"(a), "w"(b_), "w"(c_), "w"(d)       \
                         : "memory");                                      \
    } while (0)
#define FENCE __asm__ volatile("dmb ishst" ::: "memory")

VECTOR_TYPES(128)
KERNELS(128, neon, )

static const nc_stream_kernel kernels[] = {ENTRIES(128, neon, NC_BASELINE)};

#else
#error "stream kernels are written for x86-64 and aarch64"
#endif

const nc_stream_kernel *nc_stream_kernel_at(int index) {
    return index >= 0 && index < (int)(sizeof kernels / sizeof *kernels) ? &kernels[index] : NULL;
}
