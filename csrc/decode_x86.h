#ifndef NODECHECK_DECODE_X86_H
#define NODECHECK_DECODE_X86_H

/* What the x86-64 kernels share: products of 8-bit integers, nibbles, and sums over a register. */

#if defined(__x86_64__)

#include <immintrin.h>

#define NC_SSE42_CODE __attribute__((target("sse4.2")))
#define NC_AVX_CODE __attribute__((target("avx")))
#define NC_AVX2_CODE __attribute__((target("avx2,fma,f16c")))
#define NC_AVX512_TARGET "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"
#define NC_AVX512_CODE __attribute__((target(NC_AVX512_TARGET)))
#define NC_VNNI_CODE __attribute__((target(NC_AVX512_TARGET ",avx512vnni")))

static inline NC_SSE42_CODE __m128i nc_load_128(const void *from) {
    return _mm_loadu_si128((const __m128i *)from);
}

static inline NC_AVX2_CODE __m256i nc_load_256(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

/* x * y summed by pairs to int16. The multiplication takes unsigned by signed, so x's sign moves to
 * y; y is never -128, which has no opposite. */
static inline NC_SSE42_CODE __m128i nc_pairs_128(__m128i x, __m128i y) {
    return _mm_maddubs_epi16(_mm_sign_epi8(x, x), _mm_sign_epi8(y, x));
}

static inline NC_SSE42_CODE __m128i nc_sum_pairs_128(__m128i pairs) {
    return _mm_madd_epi16(pairs, _mm_set1_epi16(1));
}

/* sums + scale * x * y, 8 columns of which each 32-bit lane takes one: without the horizontal sums
 * that the fastest way needs, as the compiler makes it of an engine's plain loop. */
static inline NC_SSE42_CODE void nc_add_8_columns(__m128i sums[2], const int8_t *x, const int8_t *y,
                                                  __m128i scale) {
    __m128i products = _mm_mullo_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)x)),
                                       _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)y)));
    __m128i low = _mm_mullo_epi16(products, scale), high = _mm_mulhi_epi16(products, scale);
    sums[0] = _mm_add_epi32(sums[0], _mm_unpacklo_epi16(low, high));
    sums[1] = _mm_add_epi32(sums[1], _mm_unpackhi_epi16(low, high));
}

/* The low nibbles, and the high ones. */
static inline NC_SSE42_CODE __m128i nc_low_128(__m128i bytes) {
    return _mm_and_si128(bytes, _mm_set1_epi8(15));
}

static inline NC_SSE42_CODE __m128i nc_high_128(__m128i bytes) {
    return nc_low_128(_mm_srli_epi16(bytes, 4));
}

static inline NC_AVX2_CODE __m256i nc_low_256(__m256i bytes) {
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

static inline NC_AVX2_CODE __m256i nc_high_256(__m256i bytes) {
    return nc_low_256(_mm256_srli_epi16(bytes, 4));
}

/* sums + x * y, summed by fours to int32. */
static inline NC_AVX2_CODE __m256i nc_dot_avx2(__m256i sums, __m256i x, __m256i y) {
    __m256i pairs = _mm256_maddubs_epi16(_mm256_sign_epi8(x, x), _mm256_sign_epi8(y, x));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline NC_VNNI_CODE __m256i nc_dot_vnni(__m256i sums, __m256i x, __m256i y) {
    return _mm256_dpbusd_epi32(sums, _mm256_sign_epi8(x, x), _mm256_sign_epi8(y, x));
}

static inline NC_SSE42_CODE float nc_sum_ps_128(__m128 values) {
    values = _mm_add_ps(values, _mm_movehl_ps(values, values));
    return _mm_cvtss_f32(_mm_add_ss(values, _mm_movehdup_ps(values)));
}

static inline NC_AVX_CODE float nc_sum_ps_256(__m256 values) {
    return nc_sum_ps_128(
        _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1)));
}

static inline NC_AVX_CODE __m256 nc_to_float(__m128i low, __m128i high) {
    return _mm256_cvtepi32_ps(_mm256_set_m128i(high, low));
}

/* 8 rows of a tile lie in the order 0 4 1 5 2 6 3 7: halves of scales to that, results from it. */
static inline NC_AVX2_CODE __m256 nc_tile_scales(const void *halves) {
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    return _mm256_cvtph_ps(_mm_shuffle_epi8(nc_load_128(halves), order));
}

static inline NC_AVX2_CODE __m256 nc_in_row_order(__m256 sums) {
    return _mm256_permutevar8x32_ps(sums, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

#endif
#endif
