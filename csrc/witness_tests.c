/* Each test executes an instruction on a known input, written as assembly so that neither the
 * compiler's flags nor constant folding can stand in for the CPU.
 *
 * Left out: LZCNT and TZCNT, whose encodings run as BSR and BSF on older CPUs; RDRAND and RDSEED,
 * which a hypervisor can intercept and QEMU runs though CPUID hides them; RDTSCP, also gated by a
 * VMX control; AVX and wider, which fault without the OS's XCR0. */
#include "witness.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <emmintrin.h>

static bool equal(__m128i value, const void *expected) {
    __m128i same = _mm_cmpeq_epi8(value, _mm_loadu_si128(expected));
    return _mm_movemask_epi8(same) == 0xffff;
}

static bool ssse3(void) {
    __m128i bytes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i order = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, -128);
    static const uint8_t reversed[16] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    __asm__ volatile("pshufb %1, %0" : "+x"(bytes) : "x"(order));
    return equal(bytes, reversed);
}

static bool sse4_1(void) {
    __m128i value = _mm_setr_epi32(3, -5, 65537, 123456789);
    __m128i factor = _mm_setr_epi32(7, 11, 65537, 1000);
    static const uint32_t product[4] = {21, (uint32_t)-55, 131073, 3197704712};
    __asm__ volatile("pmulld %1, %0" : "+x"(value) : "x"(factor));
    return equal(value, product);
}

static bool sse4_2(void) {
    uint32_t crc = UINT32_MAX;
    static const uint8_t digits[9] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    for (size_t i = 0; i < sizeof digits; i++) {
        __asm__ volatile("crc32b %1, %0" : "+r"(crc) : "q"(digits[i]));
    }
    return ~crc == 0xe3069283; /* the check value of CRC-32C */
}

static bool popcnt(void) {
    uint32_t ones;
    __asm__ volatile("popcntl %1, %0" : "=r"(ones) : "r"(0xf0f0a5a7) : "cc");
    return ones == 17;
}

static bool movbe(void) {
    uint32_t value = 0x01020304;
    uint32_t swapped;
    __asm__ volatile("movbel %1, %0" : "=r"(swapped) : "m"(value));
    return swapped == 0x04030201;
}

/* The inputs and results of aes and pclmulqdq are those of Intel's instruction white papers. */
static const uint64_t state_words[2] = {0x63746f725d53475d, 0x7b5b546573745665};
static const uint64_t key_words[2] = {0x5b477565726f6e5d, 0x4869285368617929};

static bool aes(void) {
    static const uint64_t round[2] = {0x8b104b58ded7e595, 0xa8311c2f9fdba3c5};
    __m128i state = _mm_loadu_si128((const __m128i *)state_words);
    __m128i key = _mm_loadu_si128((const __m128i *)key_words);
    __asm__ volatile("aesenc %1, %0" : "+x"(state) : "x"(key));
    return equal(state, round);
}

static bool pclmulqdq(void) {
    static const uint64_t product[2] = {0x929633d5d36f0451, 0x1d4d84c85c3440c0};
    __m128i left = _mm_loadu_si128((const __m128i *)state_words);
    __m128i right = _mm_loadu_si128((const __m128i *)key_words);
    __asm__ volatile("pclmulqdq $0, %1, %0" : "+x"(left) : "x"(right));
    return equal(left, product);
}

static bool bmi1(void) {
    uint32_t result;
    __asm__ volatile("andnl %2, %1, %0" : "=r"(result) : "r"(0x0ff0f00f), "r"(0x12345678) : "cc");
    return result == 0x10040670;
}

static bool bmi2(void) {
    uint32_t deposited, low, high;
    __asm__ volatile("pdepl %2, %1, %0" : "=r"(deposited) : "r"(0xb4), "r"(0xf000f0f0));
    __asm__ volatile("mulxl %3, %0, %1" : "=r"(low), "=r"(high) : "d"(0x89abcdef), "r"(0x76543210));
    return deposited == 0xb040 && low == 0xe5618cf0 && high == 0x3fa27837;
}

/* ADCX carries through CF and ADOX through OF: both carries go in and come out. */
static bool adx(void) {
    uint32_t with_carry = UINT32_MAX, with_overflow = 41;
    uint8_t carry, overflow;
    __asm__ volatile("xorl %%eax, %%eax\n\t" /* OF = 0 */
                     "stc\n\t"
                     "adcxl %4, %0\n\t"
                     "adoxl %4, %1\n\t"
                     "setc %2\n\t"
                     "seto %3"
                     : "+r"(with_carry), "+r"(with_overflow), "=q"(carry), "=q"(overflow)
                     : "r"(2)
                     : "eax", "cc");
    return with_carry == 2 && with_overflow == 43 && carry == 1 && overflow == 0;
}

static bool sha_ni(void) {
    __m128i words = _mm_setr_epi32(0x61626380, 0x00000018, 0x12345678, (int)0x9abcdef0);
    __m128i next = _mm_setr_epi32(0x0badcafe, 0, 0, 0);
    static const uint32_t scheduled[4] = {0x91686383, 0xe7fce706, 0xd8131b44, 0x2a9a3f11};
    __asm__ volatile("sha256msg1 %1, %0" : "+x"(words) : "x"(next));
    return equal(words, scheduled);
}

const nc_witness_test nc_witness_tests[] = {
    {"ssse3", ssse3}, {"sse4_1", sse4_1}, {"sse4_2", sse4_2},       {"popcnt", popcnt},
    {"movbe", movbe}, {"aes", aes},       {"pclmulqdq", pclmulqdq}, {"bmi1", bmi1},
    {"bmi2", bmi2},   {"adx", adx},       {"sha_ni", sha_ni},       {NULL, NULL},
};

#else

const nc_witness_test nc_witness_tests[] = {{NULL, NULL}};

#endif
