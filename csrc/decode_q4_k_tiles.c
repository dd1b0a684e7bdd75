#include "decode_q4_k.h"
#include "decode_x86.h"

#if defined(__x86_64__)

enum { COLUMNS = NC_Q8_K_COLUMNS, GROUPS = NC_Q4_K_GROUPS, GROUP = COLUMNS / GROUPS };
enum { ROWS = NC_Q4_K_TILE_ROWS };

typedef nc_q4_k_tile tile;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    tile *tiles = matrix;
    size_t count = rows / ROWS * columns / COLUMNS;
    nc_random_bytes(matrix, count * sizeof *tiles, &seed);
    for (size_t t = 0; t < count; t++)
        for (int row = 0; row < ROWS; row++) {
            tiles[t].scales[row] = nc_random_scale(&seed);
            tiles[t].leasts[row] = nc_random_scale(&seed);
        }
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const tile *t = (const tile *)matrix + row / ROWS * (columns / COLUMNS) + column / COLUMNS;
    size_t group = column % COLUMNS / GROUP;
    uint8_t byte = t->nibbles[group / 2][column % GROUP / 8][row % ROWS][column % 8];
    nc_q4_k_factors factors = nc_unpack_q4_k(t->factors[group]);
    return (double)nc_half_to_float(t->scales[row % ROWS]) * factors.scales[row % ROWS] *
               (group % 2 ? byte >> 4 : byte & 15) -
           (double)nc_half_to_float(t->leasts[row % ROWS]) * factors.leasts[row % ROWS];
}

const nc_weight_layout nc_q4_k_tiles = {
    "q4_k", ROWS, COLUMNS, sizeof(tile) / ROWS, fill, weight,
};

/* 8 columns: rows 0-3 and 4-7, times the vector's first and next 4 in every lane. 16-bit sums of 32
 * columns do not overflow. */
static inline NC_AVX2_CODE __m256i add_8_columns(__m256i sums, __m256i rows0123, __m256i rows4567,
                                                 __m256i first, __m256i next) {
    __m256i swapped0123 = _mm256_shuffle_epi32(rows0123, 0xb1);
    __m256i swapped4567 = _mm256_shuffle_epi32(rows4567, 0xb1);
    __m256i even = _mm256_blend_epi32(rows0123, swapped4567, 0xaa);
    __m256i odd = _mm256_blend_epi32(swapped0123, rows4567, 0xaa);
    sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(even, first));
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(odd, next));
}

/* 16 columns of both groups of a pair. */
static inline NC_AVX2_CODE void add_16_columns(__m256i sums[2], const uint8_t nibbles[2][ROWS][8],
                                               const int8_t *quants) {
    __m256i low = _mm256_broadcastsi128_si256(nc_load_128(quants));
    __m256i high = _mm256_broadcastsi128_si256(nc_load_128(quants + GROUP));
    __m256i rows0123 = nc_load_256(nibbles[0][0]), rows4567 = nc_load_256(nibbles[0][4]);
    sums[0] = add_8_columns(sums[0], nc_low_256(rows0123), nc_low_256(rows4567),
                            _mm256_shuffle_epi32(low, 0x00), _mm256_shuffle_epi32(low, 0x55));
    sums[1] = add_8_columns(sums[1], nc_high_256(rows0123), nc_high_256(rows4567),
                            _mm256_shuffle_epi32(high, 0x00), _mm256_shuffle_epi32(high, 0x55));
    rows0123 = nc_load_256(nibbles[1][0]);
    rows4567 = nc_load_256(nibbles[1][4]);
    sums[0] = add_8_columns(sums[0], nc_low_256(rows0123), nc_low_256(rows4567),
                            _mm256_shuffle_epi32(low, 0xaa), _mm256_shuffle_epi32(low, 0xff));
    sums[1] = add_8_columns(sums[1], nc_high_256(rows0123), nc_high_256(rows4567),
                            _mm256_shuffle_epi32(high, 0xaa), _mm256_shuffle_epi32(high, 0xff));
}

static inline NC_AVX2_CODE __m256i scaled(__m256i sums, __m128i factors) {
    const __m128i order = _mm_setr_epi8(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7);
    return _mm256_madd_epi16(sums, _mm256_cvtepu8_epi16(_mm_shuffle_epi8(factors, order)));
}

static inline NC_AVX2_CODE __m128i unpack(const uint8_t packed[NC_Q4_K_PACKED]) {
    nc_q4_k_factors factors = nc_unpack_q4_k(packed);
    return nc_load_128(&factors);
}

typedef struct {
    __m256i quants, leasts; /* quants in tile order, leasts in the rows' */
} products;

static inline NC_AVX2_CODE products tile_products(const tile *t, const nc_q8_k_values *v) {
    products all = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i group_sums =
        _mm256_broadcastsi128_si256(_mm_hadd_epi16(nc_load_128(v->sums), nc_load_128(v->sums + 8)));
    for (size_t pair = 0; pair < GROUPS / 2; pair++) {
        const int8_t *quants = v->quants + 2 * pair * GROUP;
        __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        add_16_columns(sums, t->nibbles[pair], quants);
        add_16_columns(sums, t->nibbles[pair] + 2, quants + 16);
        __m128i low = unpack(t->factors[2 * pair]), high = unpack(t->factors[2 * pair + 1]);
        all.quants = _mm256_add_epi32(
            all.quants, _mm256_add_epi32(scaled(sums[0], low), scaled(sums[1], high)));
        __m256i leasts = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(low, high));
        all.leasts = _mm256_add_epi32(
            all.leasts, _mm256_madd_epi16(leasts, _mm256_shuffle_epi32(group_sums, 0)));
        group_sums = _mm256_srli_si256(group_sums, 4);
    }
    return all;
}

NC_AVX2_CODE void nc_q4_k_avx2(const void *matrix, const void *vector, float *out, size_t rows,
                               size_t columns) {
    const tile *t = matrix;
    const nc_q8_k_values *v = vector;
    for (size_t row = 0; row < rows; row += ROWS) {
        __m256 sums = _mm256_setzero_ps(), leasts = sums;
        for (size_t b = 0; b < columns / COLUMNS; b++, t++) {
            products all = tile_products(t, v + b);
            __m256 scale = _mm256_set1_ps(v[b].scale);
            sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all.quants),
                                   _mm256_mul_ps(nc_tile_scales(t->scales), scale), sums);
            leasts = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all.leasts),
                                     _mm256_mul_ps(_mm256_cvtph_ps(nc_load_128(t->leasts)), scale),
                                     leasts);
        }
        _mm256_storeu_ps(out + row, _mm256_sub_ps(nc_in_row_order(sums), leasts));
    }
}

#endif
