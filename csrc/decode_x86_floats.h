#ifndef NODECHECK_DECODE_X86_FLOATS_H
#define NODECHECK_DECODE_X86_FLOATS_H

/* What the x86-64 kernels with float products share. */

#if defined(__x86_64__)

#include "decode_x86.h"

#define NC_BF16_CODE __attribute__((target(NC_AVX512_TARGET ",avx512bf16")))

static inline NC_AVX512_CODE __m512i nc_load_512(const void *from) {
    return _mm512_loadu_si512(from);
}

/* bfloat16 as float: its bits are the upper half. */
static inline NC_AVX2_CODE __m256 nc_load_8_bf16(const void *from) {
    __m256i low = _mm256_cvtepu16_epi32(nc_load_128(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(low, 16));
}

static inline NC_AVX512_CODE __m512 nc_load_16_bf16(const void *from) {
    __m512i low = _mm512_cvtepu16_epi32(nc_load_256(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(low, 16));
}

/* sums[0..16) += scales * products */
static inline NC_AVX512_CODE void nc_add_16(float *sums, __m512 scales, __m512 products) {
    _mm512_storeu_ps(sums, _mm512_fmadd_ps(scales, products, _mm512_loadu_ps(sums)));
}

static inline NC_AVX_CODE float nc_sum_four_256(const __m256 sums[4]) {
    return nc_sum_ps_256(
        _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
}

static inline NC_AVX512_CODE float nc_sum_four_512(const __m512 sums[4]) {
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

#endif
#endif
