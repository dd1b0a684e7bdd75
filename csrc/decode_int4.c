#include "decode_floats.h"
#include "decode_tables.h"
#include "decode_x86_floats.h"

/* 4-bit weights with a scale and a zero point for each row's 128 columns, as GPTQ and AWQ make
 * them, in tiles as engines' int8 kernels read them: four columns of one row side by side, and of
 * each 16 rows the second eight in the high nibbles. */
enum { ROWS = 32, COLUMNS = 128, FOURS = COLUMNS / 4, SIXTEENS = ROWS / 16 };

typedef struct NC_PACKED {
    uint16_t scales[ROWS]; /* halves */
    uint8_t zeros[ROWS];
    uint8_t quants[FOURS][SIXTEENS][8][4];
} block;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    block *blocks = matrix;
    size_t count = rows / ROWS * (columns / COLUMNS);
    nc_random_bytes(matrix, count * sizeof *blocks, &seed);
    for (size_t b = 0; b < count; b++) {
        for (size_t row = 0; row < ROWS; row++) {
            blocks[b].scales[row] = nc_random_scale(&seed);
            blocks[b].zeros[row] &= 15;
        }
    }
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row / ROWS * (columns / COLUMNS) + column / COLUMNS;
    size_t in_tile = row % ROWS;
    uint8_t both = b->quants[column % COLUMNS / 4][in_tile / 16][in_tile % 8][column % 4];
    int quant = in_tile % 16 < 8 ? both & 15 : both >> 4;
    return (double)nc_half_to_float(b->scales[in_tile]) * (quant - b->zeros[in_tile]);
}

static const nc_weight_layout tiles_layout = {"int4_g128",          ROWS, COLUMNS,
                                              sizeof(block) / ROWS, fill, weight};

/* Vectors of 16 bytes, which the compiler makes of whatever there is. */
typedef int32_t four_int32 __attribute__((vector_size(16)));
typedef float four_floats __attribute__((vector_size(16)));

static inline four_int32 load_four(const void *from) {
    four_int32 loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

static inline void add_nibbles(four_floats *sums, four_int32 nibbles, float value) {
    *sums += __builtin_convertvector(nibbles & 15, four_floats) * value;
}

static void add_baseline(const void *from, const void *vector, float *out) {
    const block *b = from;
    const nc_any_float *values = vector;
    four_floats sums[ROWS / 4] = {{0}};
    float value_sum = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        value_sum += values[i];
    }
    for (size_t four = 0; four < FOURS; four++) {
#pragma GCC unroll 4
        for (size_t part = 0; part < ROWS / 8; part++) { /* rows of the low nibbles */
            size_t sixteen = part / 2, first = 4 * (part % 2);
            four_int32 bytes = load_four(b->quants[four][sixteen][first]);
            four_floats *low = sums + 4 * sixteen + part % 2;
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                add_nibbles(low, bytes >> 8 * i, values[4 * four + (size_t)i]);
                add_nibbles(low + 2, bytes >> (8 * i + 4), values[4 * four + (size_t)i]);
            }
        }
    }
    for (size_t row = 0; row < ROWS; row++) {
        out[row] += nc_half_to_float(b->scales[row]) *
                    (sums[row / 4][row % 4] - (float)b->zeros[row] * value_sum);
    }
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_tiles(add_baseline, &tiles_layout, COLUMNS * sizeof(float), matrix, vector, out,
                      rows, columns);
}

#if defined(__x86_64__)

/* Engines with 16-bit activations first write a block's weights out as halves. */
static double weight_f16(const void *matrix, size_t columns, size_t row, size_t column) {
    return nc_half_to_float(nc_float_to_half((float)weight(matrix, columns, row, column)));
}

static const nc_weight_layout f16_layout = {"int4_g128",          ROWS, COLUMNS,
                                            sizeof(block) / ROWS, fill, weight_f16};

enum { HALVES_BYTES = COLUMNS * sizeof(uint16_t) };

static inline NC_AVX2_CODE void write_avx2(uint16_t *halves, __m256i quants, __m256 zeros,
                                           __m256 scales) {
    __m256 floats = _mm256_cvtepi32_ps(_mm256_and_si256(quants, _mm256_set1_epi32(15)));
    __m256 weights = _mm256_mul_ps(_mm256_sub_ps(floats, zeros), scales);
    _mm_storeu_si128((__m128i *)halves, _mm256_cvtps_ph(weights, _MM_FROUND_TO_NEAREST_INT));
}

/* The eight rows from row on, whose nibbles lie shift bits up. */
static NC_AVX2_CODE void write_rows_avx2(uint16_t halves[COLUMNS][ROWS], const block *b, size_t row,
                                         int shift) {
    __m256 scales = _mm256_cvtph_ps(nc_load_128(b->scales + row));
    __m256 zeros =
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(b->zeros + row))));
    for (size_t four = 0; four < FOURS; four++) {
        __m256i quants = _mm256_srli_epi32(nc_load_256(b->quants[four][row / 16]), shift);
        uint16_t (*next)[ROWS] = halves + 4 * four;
        write_avx2(next[0] + row, quants, zeros, scales);
        write_avx2(next[1] + row, _mm256_srli_epi32(quants, 8), zeros, scales);
        write_avx2(next[2] + row, _mm256_srli_epi32(quants, 16), zeros, scales);
        write_avx2(next[3] + row, _mm256_srli_epi32(quants, 24), zeros, scales);
    }
}

static NC_AVX2_CODE void add_avx2(const void *from, const void *vector, float *out) {
    const nc_any_uint16 *values = vector;
    uint16_t halves[COLUMNS][ROWS];
    for (size_t row = 0; row < ROWS; row += 16) {
        write_rows_avx2(halves, from, row, 0);
        write_rows_avx2(halves, from, row + 8, 4);
    }
    __m256 sums[4] = {{0}};
    for (size_t i = 0; i < COLUMNS; i++) {
        __m256 value = _mm256_cvtph_ps(_mm_set1_epi16((short)values[i]));
#pragma GCC unroll 4
        for (size_t part = 0; part < 4; part++) {
            __m256 weights = _mm256_cvtph_ps(nc_load_128(halves[i] + 8 * part));
            sums[part] = _mm256_fmadd_ps(weights, value, sums[part]);
        }
    }
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; part++) {
        __m256 sum = _mm256_add_ps(sums[part], _mm256_loadu_ps(out + 8 * part));
        _mm256_storeu_ps(out + 8 * part, sum);
    }
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_tiles(add_avx2, &f16_layout, HALVES_BYTES, matrix, vector, out, rows, columns);
}

static inline NC_AVX512_CODE void write_avx512(uint16_t *halves, __m512i quants, __m512 zeros,
                                               __m512 scales) {
    __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512 floats = _mm512_permutexvar_ps(quants, numbers); /* by the low nibbles */
    __m512 weights = _mm512_mul_ps(_mm512_sub_ps(floats, zeros), scales);
    _mm256_storeu_si256((__m256i *)halves, _mm512_cvtps_ph(weights, _MM_FROUND_TO_NEAREST_INT));
}

static NC_AVX512_CODE void write_rows_avx512(uint16_t halves[COLUMNS][ROWS], const block *b,
                                             size_t row) {
    __m512i high = _mm512_set_epi32(4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 scales = _mm512_cvtph_ps(nc_load_256(b->scales + row));
    __m512 zeros = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(nc_load_128(b->zeros + row)));
    for (size_t four = 0; four < FOURS; four++) {
        __m512i bytes = _mm512_broadcast_i64x4(nc_load_256(b->quants[four][row / 16]));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m512i shifts = _mm512_add_epi32(high, _mm512_set1_epi32(8 * i));
            __m512i quants = _mm512_srlv_epi32(bytes, shifts);
            write_avx512(halves[4 * four + (size_t)i] + row, quants, zeros, scales);
        }
    }
}

static NC_AVX512_CODE void add_avx512(const void *from, const void *vector, float *out) {
    const nc_any_uint16 *values = vector;
    uint16_t halves[COLUMNS][ROWS];
    write_rows_avx512(halves, from, 0);
    write_rows_avx512(halves, from, 16);
    __m512 low = _mm512_loadu_ps(out), high = _mm512_loadu_ps(out + 16);
    for (size_t i = 0; i < COLUMNS; i++) {
        __m512 value = _mm512_cvtph_ps(_mm256_set1_epi16((short)values[i]));
        low = _mm512_fmadd_ps(_mm512_cvtph_ps(nc_load_256(halves[i])), value, low);
        high = _mm512_fmadd_ps(_mm512_cvtph_ps(nc_load_256(halves[i] + 16)), value, high);
    }
    _mm512_storeu_ps(out, low);
    _mm512_storeu_ps(out + 16, high);
}

static void avx512(const void *matrix, const void *vector, float *out, size_t rows,
                   size_t columns) {
    nc_multiply_tiles(add_avx512, &f16_layout, HALVES_BYTES, matrix, vector, out, rows, columns);
}

typedef struct NC_PACKED {
    float scale;
    uint8_t quants[COLUMNS]; /* 128 more than they stand for */
} int8_values;

static size_t int8_bytes(size_t columns) { return columns / COLUMNS * sizeof(int8_values); }

static void int8_quantise(void *vector, const float *values, size_t columns) {
    int8_values *blocks = vector;
    for (size_t b = 0; b < columns / COLUMNS; b++) {
        uint8_t *quants = blocks[b].quants;
        blocks[b].scale = nc_quantise((int8_t *)quants, values + b * COLUMNS, COLUMNS);
        for (size_t i = 0; i < COLUMNS; i++) {
            quants[i] ^= 0x80;
        }
    }
}

static double int8_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    const int8_values *values = (const int8_values *)vector + column / COLUMNS;
    return (double)values->scale * (values->quants[column % COLUMNS] - 128);
}

static const nc_vector_format vector_int8 = {"int8", int8_bytes, int8_quantise, int8_value};

typedef struct {
    __m512i zeros, products, weights; /* of 16 rows: the sums of products, and of weights alone */
} row_sums;

static inline NC_VNNI_CODE row_sums start_rows(const uint8_t *zeros) {
    __m512i once = _mm512_cvtepu8_epi32(nc_load_128(zeros));
    __m512i fourfold = _mm512_mullo_epi32(once, _mm512_set1_epi32(0x01010101));
    return (row_sums){.zeros = fourfold};
}

static inline NC_VNNI_CODE void add_four(row_sums *sums, const void *quants, __m512i values) {
    __m256i both = nc_load_256(quants);
    __m512i low = _mm512_castsi256_si512(nc_low_256(both));
    __m512i weights = _mm512_sub_epi8(_mm512_inserti64x4(low, nc_high_256(both), 1), sums->zeros);
    sums->products = _mm512_dpbusd_epi32(sums->products, values, weights);
    sums->weights = _mm512_dpbusd_epi32(sums->weights, _mm512_set1_epi8(1), weights);
}

static inline NC_VNNI_CODE void add_rows(float *out, const nc_any_uint16 *scales,
                                         const row_sums *sums, float value_scale) {
    __m512i offset = _mm512_slli_epi32(sums->weights, 7); /* the 128 in each quant */
    __m512 products = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums->products, offset));
    __m512 scale = _mm512_mul_ps(_mm512_cvtph_ps(nc_load_256(scales)), _mm512_set1_ps(value_scale));
    nc_add_16(out, scale, products);
}

static NC_VNNI_CODE void add_vnni(const void *from, const void *vector, float *out) {
    const block *b = from;
    const int8_values *values = vector;
    row_sums low = start_rows(b->zeros), high = start_rows(b->zeros + 16);
    for (size_t four = 0; four < FOURS; four++) {
        int bytes;
        memcpy(&bytes, values->quants + 4 * four, sizeof bytes);
        add_four(&low, b->quants[four][0], _mm512_set1_epi32(bytes));
        add_four(&high, b->quants[four][1], _mm512_set1_epi32(bytes));
    }
    add_rows(out, b->scales, &low, values->scale);
    add_rows(out + 16, b->scales + 16, &high, values->scale);
}

static void vnni(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_tiles(add_vnni, &tiles_layout, sizeof(int8_values), matrix, vector, out, rows,
                      columns);
}

#endif

const nc_decode_kernel nc_decode_int4_g128[] = {
#if defined(__x86_64__)
    {NC_AVX512_VNNI, &tiles_layout, &vector_int8, vnni},
    {NC_AVX512, &f16_layout, &nc_vector_f16, avx512},
    {NC_AVX2, &f16_layout, &nc_vector_f16, avx2},
#endif
    {NC_BASELINE, &tiles_layout, &nc_vector_f32, baseline},
    {.layout = NULL},
};
