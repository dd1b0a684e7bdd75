#include "decode_floats.h"
#include "decode_neon.h"
#include "decode_tables.h"
#include "decode_x86_floats.h"

enum { COLUMNS = 64 }; /* as many as the widest kernel takes at a time */

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    nc_random_floats(matrix, rows * columns, 15, 10, seed);
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    return nc_half_to_float(((const nc_any_uint16 *)matrix)[row * columns + column]);
}

static const nc_weight_layout rows_layout = {"f16", 1,     COLUMNS, COLUMNS * sizeof(uint16_t),
                                             fill,  weight};

static size_t row_bytes(size_t columns) { return columns * sizeof(uint16_t); }

#if defined(__aarch64__)

/* The fallback of engines already converts by NEON. */
static float dot_baseline(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    float32x4_t sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += 16) {
#pragma GCC unroll 4
        for (size_t part = 0; part < 4; part++) {
            float32x4_t weights = nc_load_halves(w + i + 4 * part);
            sums[part] = vfmaq_f32(sums[part], weights, nc_load_halves(v + i + 4 * part));
        }
    }
    return nc_sum_four(sums);
}

#else

/* One sum, and in double: each addition waits for the one before it, as in the engines' fallback.
 */
static float dot_baseline(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    const float *table = nc_half_table();
    double sum = 0;
    for (size_t i = 0; i < columns; i++) {
        sum += (double)(table[w[i]] * table[v[i]]);
    }
    return (float)sum;
}

#endif

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_rows(dot_baseline, row_bytes(columns), matrix, vector, out, rows, columns);
}

#if defined(__x86_64__)

static inline NC_SSE42_CODE __m128 look_up_4(const float *table, const nc_any_uint16 *halves) {
    return _mm_setr_ps(table[halves[0]], table[halves[1]], table[halves[2]], table[halves[3]]);
}

static NC_SSE42_CODE float dot_sse42(const void *row, const void *vector, size_t columns) {
    enum { SUMS = 8, STEP = 4 * SUMS };
    const nc_any_uint16 *w = row, *v = vector;
    const float *table = nc_half_table();
    __m128 sums[SUMS] = {{0}};
    for (size_t i = 0; i < columns; i += STEP) {
#pragma GCC unroll 8
        for (size_t s = 0; s < SUMS; s++) {
            __m128 weights = look_up_4(table, w + i + 4 * s);
            __m128 products = _mm_mul_ps(weights, look_up_4(table, v + i + 4 * s));
            sums[s] = _mm_add_ps(sums[s], products);
        }
    }
#pragma GCC unroll 8
    for (size_t s = 1; s < SUMS; s++) {
        sums[0] = _mm_add_ps(sums[0], sums[s]);
    }
    return nc_sum_ps_128(sums[0]);
}

static void sse42(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_sse42, row_bytes(columns), matrix, vector, out, rows, columns);
}

static inline NC_AVX_CODE __m256 look_up_8(const float *table, const nc_any_uint16 *halves) {
    return _mm256_set_m128(look_up_4(table, halves + 4), look_up_4(table, halves));
}

/* Not unrolled, as compilers leave it in engines: that the sums lie in memory costs a tenth. */
static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    const float *table = nc_half_table();
    __m256 sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += 32) {
        for (size_t s = 0; s < 4; s++) {
            __m256 weights = look_up_8(table, w + i + 8 * s);
            __m256 products = _mm256_mul_ps(weights, look_up_8(table, v + i + 8 * s));
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
            __m256 weights = _mm256_cvtph_ps(nc_load_128(w + i + 8 * s));
            __m256 values = _mm256_cvtph_ps(nc_load_128(v + i + 8 * s));
            sums[s] = _mm256_fmadd_ps(weights, values, sums[s]);
        }
    }
    return nc_sum_four_256(sums);
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx2, row_bytes(columns), matrix, vector, out, rows, columns);
}

static NC_AVX512_CODE float dot_avx512(const void *row, const void *vector, size_t columns) {
    const nc_any_uint16 *w = row, *v = vector;
    __m512 sums[4] = {{0}};
    for (size_t i = 0; i < columns; i += COLUMNS) {
#pragma GCC unroll 4
        for (size_t s = 0; s < 4; s++) {
            __m512 weights = _mm512_cvtph_ps(nc_load_256(w + i + 16 * s));
            __m512 values = _mm512_cvtph_ps(nc_load_256(v + i + 16 * s));
            sums[s] = _mm512_fmadd_ps(weights, values, sums[s]);
        }
    }
    return nc_sum_four_512(sums);
}

static void avx512(const void *matrix, const void *vector, float *out, size_t rows,
                   size_t columns) {
    nc_multiply_rows(dot_avx512, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_f16[] = {
#if defined(__x86_64__)
    {NC_AVX512, &rows_layout, &nc_vector_f16, avx512},
    {NC_AVX2, &rows_layout, &nc_vector_f16, avx2},
    {NC_AVX, &rows_layout, &nc_vector_f16, avx},
    {NC_SSE42, &rows_layout, &nc_vector_f16, sse42},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_f16, baseline},
    {.layout = NULL},
};
