#include "decode_floats.h"
#include "decode_neon.h"
#include "decode_tables.h"
#include "decode_x86_floats.h"

enum { COLUMNS = 64 }; /* as many as the widest kernel takes at a time */

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    nc_random_floats(matrix, rows * columns, 127, 7, seed);
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    return nc_bf16_to_float(((const nc_any_uint16 *)matrix)[row * columns + column]);
}

static const nc_weight_layout rows_layout = {"bf16", 1,     COLUMNS, COLUMNS * sizeof(uint16_t),
                                             fill,   weight};

static size_t row_bytes(size_t columns) { return columns * sizeof(uint16_t); }

#if defined(__aarch64__)

static float dot_baseline(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    float32x4_t sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += 16) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++) {
            sums[s] =
                vfmaq_f32(sums[s], nc_load_4_bf16(w + i + 4 * s), nc_load_4_bf16(v + i + 4 * s));
        }
    }
    return nc_sum_four(sums);
}

#else

/* One sum, and in double: each addition waits for the one before it, as in the engines' fallback.
 */
static float dot_baseline(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    double sum = 0;
    for (size_t i = 0; i < columns; i++) {
        sum += (double)(nc_bf16_to_float(w[i]) * nc_bf16_to_float(v[i]));
    }
    return (float)sum;
}

#endif

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_rows(dot_baseline, row_bytes(columns), matrix, vector, out, rows, columns);
}

#if defined(__x86_64__)

static inline NC_AVX_CODE __m256 load_8(const nc_any_uint16 *from) {
    __m128i both = nc_load_128(from);
    __m128i low = _mm_slli_epi32(_mm_cvtepu16_epi32(both), 16);
    __m128i high = _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_srli_si128(both, 8)), 16);
    return _mm256_castsi256_ps(_mm256_set_m128i(high, low));
}

static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    __m256 sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += 32) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++) {
            __m256 products = _mm256_mul_ps(load_8(w + i + 8 * s), load_8(v + i + 8 * s));
            sums[s] = _mm256_add_ps(sums[s], products);
        }
    }
    return nc_sum_four_256(sums);
}

static void avx(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx, row_bytes(columns), matrix, vector, out, rows, columns);
}

static NC_AVX2_CODE float dot_avx2(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    __m256 sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += 32) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++) {
            __m256 weights = nc_load_8_bf16(w + i + 8 * s);
            sums[s] = _mm256_fmadd_ps(weights, nc_load_8_bf16(v + i + 8 * s), sums[s]);
        }
    }
    return nc_sum_four_256(sums);
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx2, row_bytes(columns), matrix, vector, out, rows, columns);
}

static NC_AVX512_CODE float dot_avx512(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    __m512 even = {0}, odd = {0};
    for (size_t i = 0; i < columns; i += 32) {
        even = _mm512_fmadd_ps(nc_load_16_bf16(w + i), nc_load_16_bf16(v + i), even);
        odd = _mm512_fmadd_ps(nc_load_16_bf16(w + i + 16), nc_load_16_bf16(v + i + 16), odd);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
}

static void avx512(const void *matrix, const void *vector, float *out, size_t rows,
                   size_t columns) {
    nc_multiply_rows(dot_avx512, row_bytes(columns), matrix, vector, out, rows, columns);
}

static inline NC_BF16_CODE __m512bh load_32(const nc_any_uint16 *from) {
    return (__m512bh)nc_load_512(from);
}

static NC_BF16_CODE float dot_bf16(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    __m512 even = {0}, odd = {0};
    for (size_t i = 0; i < columns; i += 64) {
        even = _mm512_dpbf16_ps(even, load_32(w + i), load_32(v + i));
        odd = _mm512_dpbf16_ps(odd, load_32(w + i + 32), load_32(v + i + 32));
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
}

static void avx512_bf16(const void *matrix, const void *vector, float *out, size_t rows,
                        size_t columns) {
    nc_multiply_rows(dot_bf16, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_bf16[] = {
#if defined(__x86_64__)
    {NC_AVX512_BF16, &rows_layout, &nc_vector_bf16, avx512_bf16},
    {NC_AVX512, &rows_layout, &nc_vector_bf16, avx512},
    {NC_AVX2, &rows_layout, &nc_vector_bf16, avx2},
    {NC_AVX, &rows_layout, &nc_vector_bf16, avx},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_bf16, baseline},
    {.layout = NULL},
};
