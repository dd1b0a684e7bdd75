#include "decode_q4_0.h"
#include "decode_x86.h"

#if defined(__x86_64__)

enum { COLUMNS = NC_Q8_0_COLUMNS, ROWS = NC_Q4_0_TILE_ROWS };

typedef nc_q4_0_tile tile;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    tile *tiles = matrix;
    size_t count = rows / ROWS * columns / COLUMNS;
    nc_random_bytes(matrix, count * sizeof *tiles, &seed);
    for (size_t t = 0; t < count; t++)
        for (int row = 0; row < ROWS; row++)
            tiles[t].scales[row] = nc_random_scale(&seed);
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const tile *t = (const tile *)matrix + row / ROWS * (columns / COLUMNS) + column / COLUMNS;
    uint8_t byte = t->nibbles[column / 8 % 2][row % ROWS][column % 8];
    int nibble = column % COLUMNS < COLUMNS / 2 ? byte & 15 : byte >> 4;
    return (double)nc_half_to_float(t->scales[row % ROWS]) * ((nibble ^ 8) - 8);
}

const nc_weight_layout nc_q4_0_tiles = {
    "q4_0", ROWS, COLUMNS, sizeof(tile) / ROWS, fill, weight,
};

typedef __m256i dot_function(__m256i sums, __m256i x, __m256i y);

#define INLINE_AVX2 static inline __attribute__((always_inline)) NC_AVX2_CODE

INLINE_AVX2 __m256i sign_extended(__m256i nibbles) {
    const __m128i values = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles);
}

/* 8 columns: rows 0-3 and 4-7, times the vector's first and next 4 in every lane. The sums lie in
 * the order of rows 0 4 1 5 2 6 3 7. */
INLINE_AVX2 __m256i add_8_columns(dot_function *dot, __m256i sums, __m256i rows0123,
                                  __m256i rows4567, __m256i first, __m256i next) {
    rows0123 = sign_extended(rows0123);
    rows4567 = sign_extended(rows4567);
    __m256i swapped0123 = _mm256_shuffle_epi32(rows0123, 0xb1);
    __m256i swapped4567 = _mm256_shuffle_epi32(rows4567, 0xb1);
    sums = dot(sums, _mm256_blend_epi32(rows0123, swapped4567, 0xaa), first);
    return dot(sums, _mm256_blend_epi32(swapped0123, rows4567, 0xaa), next);
}

INLINE_AVX2 __m256i tile_products(dot_function *dot, const tile *t, const nc_q8_0_values *v) {
    __m256i low = _mm256_broadcastsi128_si256(nc_load_128(v->quants));
    __m256i high = _mm256_broadcastsi128_si256(nc_load_128(v->quants + COLUMNS / 2));
    __m256i rows0123 = nc_load_256(t->nibbles[0][0]), rows4567 = nc_load_256(t->nibbles[0][4]);
    __m256i sums = _mm256_setzero_si256();
    sums = add_8_columns(dot, sums, nc_low_256(rows0123), nc_low_256(rows4567),
                         _mm256_shuffle_epi32(low, 0x00), _mm256_shuffle_epi32(low, 0x55));
    sums = add_8_columns(dot, sums, nc_high_256(rows0123), nc_high_256(rows4567),
                         _mm256_shuffle_epi32(high, 0x00), _mm256_shuffle_epi32(high, 0x55));
    rows0123 = nc_load_256(t->nibbles[1][0]);
    rows4567 = nc_load_256(t->nibbles[1][4]);
    sums = add_8_columns(dot, sums, nc_low_256(rows0123), nc_low_256(rows4567),
                         _mm256_shuffle_epi32(low, 0xaa), _mm256_shuffle_epi32(low, 0xff));
    return add_8_columns(dot, sums, nc_high_256(rows0123), nc_high_256(rows4567),
                         _mm256_shuffle_epi32(high, 0xaa), _mm256_shuffle_epi32(high, 0xff));
}

INLINE_AVX2 void multiply(dot_function *dot, const void *matrix, const nc_q8_0_values *vector,
                          float *out, size_t rows, size_t columns) {
    const tile *t = matrix;
    for (size_t row = 0; row < rows; row += ROWS) {
        __m256 sums = _mm256_setzero_ps();
        for (size_t b = 0; b < columns / COLUMNS; b++, t++) {
            __m256 scales = nc_tile_scales(t->scales);
            scales = _mm256_mul_ps(scales, _mm256_set1_ps(vector[b].scale));
            __m256 products = _mm256_cvtepi32_ps(tile_products(dot, t, vector + b));
            sums = _mm256_fmadd_ps(products, scales, sums);
        }
        _mm256_storeu_ps(out + row, nc_in_row_order(sums));
    }
}

NC_AVX2_CODE void nc_q4_0_avx2(const void *matrix, const void *vector, float *out, size_t rows,
                               size_t columns) {
    multiply(nc_dot_avx2, matrix, vector, out, rows, columns);
}

NC_VNNI_CODE void nc_q4_0_vnni(const void *matrix, const void *vector, float *out, size_t rows,
                               size_t columns) {
    multiply(nc_dot_vnni, matrix, vector, out, rows, columns);
}

#endif
