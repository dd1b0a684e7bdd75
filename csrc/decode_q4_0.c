#include "decode_q4_0.h"
#include "decode_floats.h"
#include "decode_tables.h"
#include "decode_x86.h"

enum { COLUMNS = NC_Q8_0_COLUMNS, HALF = COLUMNS / 2 };

typedef nc_q4_0_block block;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    block *blocks = matrix;
    size_t count = rows * columns / COLUMNS;
    nc_random_bytes(matrix, count * sizeof *blocks, &seed);
    for (size_t b = 0; b < count; b++)
        blocks[b].scale = nc_random_scale(&seed);
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row * columns / COLUMNS + column / COLUMNS;
    uint8_t byte = b->nibbles[column % HALF];
    return (double)nc_half_to_float(b->scale) *
           ((column % COLUMNS < HALF ? byte & 15 : byte >> 4) - 8);
}

static const nc_weight_layout rows_layout = {"q4_0", 1, COLUMNS, sizeof(block), fill, weight};

static size_t row_bytes(size_t columns) { return columns / COLUMNS * sizeof(block); }

/* The loop that an engine falls back on, vectorised by the compiler as far as it can. */
static inline float plain(const block *w, const nc_q8_0_values *v, size_t count) {
    float sum = 0;
    for (size_t b = 0; b < count; b++) {
        int32_t low = 0, high = 0;
        for (int i = 0; i < HALF; i++) {
            low += ((w[b].nibbles[i] & 15) - 8) * v[b].quants[i];
            high += ((w[b].nibbles[i] >> 4) - 8) * v[b].quants[HALF + i];
        }
        sum += (float)(low + high) * nc_half_to_float(w[b].scale) * v[b].scale;
    }
    return sum;
}

static float dot_baseline(const void *row, const void *vector, size_t columns) {
    return plain(row, vector, columns / COLUMNS);
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_rows(dot_baseline, row_bytes(columns), matrix, vector, out, rows, columns);
}

#if defined(__x86_64__)

static inline NC_SSE42_CODE __m128i low_pairs(const block *w, const nc_q8_0_values *v) {
    __m128i weights = _mm_sub_epi8(nc_low_128(nc_load_128(w->nibbles)), _mm_set1_epi8(8));
    return nc_pairs_128(weights, nc_load_128(v->quants));
}

static inline NC_SSE42_CODE __m128i high_pairs(const block *w, const nc_q8_0_values *v) {
    __m128i weights = _mm_sub_epi8(nc_high_128(nc_load_128(w->nibbles)), _mm_set1_epi8(8));
    return nc_pairs_128(weights, nc_load_128(v->quants + HALF));
}

static inline NC_SSE42_CODE __m128 add_scaled(__m128 sums, __m128i pairs, __m128 by) {
    return _mm_add_ps(sums, _mm_mul_ps(_mm_cvtepi32_ps(nc_sum_pairs_128(pairs)), by));
}

static NC_SSE42_CODE float dot_sse42(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_0_values *v = vector;
    const float *halves = nc_half_table();
    __m128 low = _mm_setzero_ps(), high = low;
    for (size_t b = 0; b < columns / COLUMNS; b++) {
        __m128 by = _mm_set1_ps(halves[w[b].scale] * v[b].scale);
        low = add_scaled(low, low_pairs(w + b, v + b), by);
        high = add_scaled(high, high_pairs(w + b, v + b), by);
    }
    return nc_sum_ps_128(_mm_add_ps(low, high));
}

static void sse42(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_sse42, row_bytes(columns), matrix, vector, out, rows, columns);
}

static inline NC_AVX_CODE __m128i block_products(const block *w, const nc_q8_0_values *v) {
    return nc_sum_pairs_128(_mm_add_epi16(low_pairs(w, v), high_pairs(w, v)));
}

static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_0_values *v = vector;
    const float *halves = nc_half_table();
    __m256 sums = _mm256_setzero_ps();
    size_t count = columns / COLUMNS, b = 0;
    for (; b + 1 < count; b += 2) {
        __m256 by = _mm256_set_m128(_mm_set1_ps(halves[w[b + 1].scale] * v[b + 1].scale),
                                    _mm_set1_ps(halves[w[b].scale] * v[b].scale));
        __m256 products =
            nc_to_float(block_products(w + b, v + b), block_products(w + b + 1, v + b + 1));
        sums = _mm256_add_ps(sums, _mm256_mul_ps(products, by));
    }
    return nc_sum_ps_256(sums) + plain(w + b, v + b, count - b);
}

static void avx(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_q4_0[] = {
#if defined(__x86_64__)
    {NC_AVX512_VNNI, &nc_q4_0_tiles, &nc_vector_q8_0, nc_q4_0_vnni},
    {NC_AVX2, &nc_q4_0_tiles, &nc_vector_q8_0, nc_q4_0_avx2},
    {NC_AVX, &rows_layout, &nc_vector_q8_0, avx},
    {NC_SSE42, &rows_layout, &nc_vector_q8_0, sse42},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_q8_0, baseline},
    {.layout = NULL},
};
