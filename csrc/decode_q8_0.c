#include "decode_floats.h"
#include "decode_tables.h"
#include "decode_x86.h"

enum { COLUMNS = NC_Q8_0_COLUMNS };

typedef struct NC_PACKED {
    uint16_t scale;
    int8_t quants[COLUMNS];
} block;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    block *blocks = matrix;
    size_t count = rows * columns / COLUMNS;
    nc_random_bytes(matrix, count * sizeof *blocks, &seed);
    for (size_t b = 0; b < count; b++)
        blocks[b].scale = nc_random_scale(&seed);
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row * columns / COLUMNS + column / COLUMNS;
    return (double)nc_half_to_float(b->scale) * b->quants[column % COLUMNS];
}

static const nc_weight_layout rows_layout = {"q8_0", 1, COLUMNS, sizeof(block), fill, weight};

static size_t row_bytes(size_t columns) { return columns / COLUMNS * sizeof(block); }

/* The loop that an engine falls back on, vectorised by the compiler as far as it can. */
static inline __attribute__((always_inline)) float plain(const void *row, const void *vector,
                                                         size_t columns) {
    const block *w = row;
    const nc_q8_0_values *v = vector;
    float sum = 0;
    for (size_t b = 0; b < columns / COLUMNS; b++) {
        int32_t products = 0;
        for (int i = 0; i < COLUMNS; i++)
            products += w[b].quants[i] * v[b].quants[i];
        sum += (float)products * (nc_half_to_float(w[b].scale) * v[b].scale);
    }
    return sum;
}

static float dot_baseline(const void *row, const void *vector, size_t columns) {
    return plain(row, vector, columns);
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_rows(dot_baseline, row_bytes(columns), matrix, vector, out, rows, columns);
}

#if defined(__x86_64__)

static inline NC_AVX_CODE __m128i block_products(const block *w, const nc_q8_0_values *v) {
    __m128i low = nc_pairs_128(nc_load_128(w->quants), nc_load_128(v->quants));
    __m128i high = nc_pairs_128(nc_load_128(w->quants + 16), nc_load_128(v->quants + 16));
    return _mm_add_epi32(nc_sum_pairs_128(low), nc_sum_pairs_128(high));
}

static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_0_values *v = vector;
    const float *halves = nc_half_table();
    __m256 sums = _mm256_setzero_ps();
    size_t count = columns / COLUMNS, b = 0;
    for (; b + 1 < count; b += 2) {
        __m128 low = _mm_set1_ps(halves[w[b].scale] * v[b].scale);
        __m128 high = _mm_set1_ps(halves[w[b + 1].scale] * v[b + 1].scale);
        __m256 products =
            nc_to_float(block_products(w + b, v + b), block_products(w + b + 1, v + b + 1));
        sums = _mm256_add_ps(sums, _mm256_mul_ps(products, _mm256_set_m128(high, low)));
    }
    return nc_sum_ps_256(sums) + plain(w + b, v + b, (count - b) * COLUMNS);
}

static void avx(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx, row_bytes(columns), matrix, vector, out, rows, columns);
}

static NC_AVX2_CODE float dot_avx2(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_0_values *v = vector;
    __m256 sums = _mm256_setzero_ps();
    for (size_t b = 0; b < columns / COLUMNS; b++) {
        __m256i products =
            nc_dot_avx2(_mm256_setzero_si256(), nc_load_256(w[b].quants), nc_load_256(v[b].quants));
        __m256 scale = _mm256_set1_ps(_cvtsh_ss(w[b].scale) * v[b].scale);
        sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, sums);
    }
    return nc_sum_ps_256(sums);
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx2, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_q8_0[] = {
#if defined(__x86_64__)
    {NC_AVX2, &rows_layout, &nc_vector_q8_0, avx2},
    {NC_AVX, &rows_layout, &nc_vector_q8_0, avx},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_q8_0, baseline},
    {.layout = NULL},
};
