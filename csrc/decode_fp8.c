#include "decode_floats.h"
#include "decode_neon.h"
#include "decode_tables.h"
#include "decode_x86_floats.h"

/* e4m3 without infinities, as the tiles of engines' bfloat16 kernels lie: pairs of columns of one
 * row side by side, and a scale for each row's 128 columns. */
enum { ROWS = 32, COLUMNS = 128, PAIRS = COLUMNS / 2 };

typedef struct NC_PACKED {
    uint16_t scales[ROWS]; /* bfloat16 */
    uint8_t quants[PAIRS][ROWS][2];
} block;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    block *blocks = matrix;
    size_t count = rows / ROWS * (columns / COLUMNS);
    nc_random_bytes(matrix, count * sizeof *blocks, &seed);
    for (size_t b = 0; b < count; b++) {
        nc_random_floats(blocks[b].scales, ROWS, 127, 7, nc_random(&seed));
        for (uint8_t *quant = blocks[b].quants[0][0]; quant < (uint8_t *)(blocks + b + 1);
             quant++) {
            *quant ^= (*quant & 0x7f) == 0x7f; /* not a number */
        }
    }
}

static uint8_t quant(const block *b, size_t row, size_t column) {
    return b->quants[column / 2 % PAIRS][row % ROWS][column % 2];
}

/* As a half with the same exponent bits, which counts from 2^-15 where e4m3 counts from 2^-7. */
static const float HALF_UNIT = 0x1p8F;

static float to_float(uint8_t quant) {
    uint32_t half = (uint32_t)(quant & 0x80) << 8 | (uint32_t)(quant & 0x7f) << 7;
    return nc_half_to_float((uint16_t)half) * HALF_UNIT;
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row / ROWS * (columns / COLUMNS) + column / COLUMNS;
    return (double)nc_bf16_to_float(b->scales[row % ROWS]) * to_float(quant(b, row, column));
}

static const nc_weight_layout tiles_layout = {"fp8_e4m3",           ROWS, COLUMNS,
                                              sizeof(block) / ROWS, fill, weight};

enum { VALUES_BYTES = COLUMNS * sizeof(float) };

#if defined(__aarch64__)

static inline void add_products(float32x4_t *sums, int16x8_t halves, float value) {
    float16x8_t weights = vreinterpretq_f16_s16(vandq_s16(halves, vdupq_n_s16((int16_t)0xbf80)));
    sums[0] = vfmaq_n_f32(sums[0], vcvt_f32_f16(vget_low_f16(weights)), value);
    sums[1] = vfmaq_n_f32(sums[1], vcvt_high_f32_f16(weights), value);
}

static void add_baseline(const void *from, const void *vector, float *out) {
    const block *b = from;
    const nc_any_float *values = vector;
    float32x4_t sums[ROWS / 4] = {{0}};
    for (size_t pair = 0; pair < PAIRS; pair++) {
#pragma GCC unroll 4
        for (size_t part = 0; part < 4; part++) {
            int16x8_t both = vreinterpretq_s16_u8(vld1q_u8(b->quants[pair][8 * part]));
            add_products(sums + 2 * part, vshrq_n_s16(vshlq_n_s16(both, 8), 1), values[2 * pair]);
            add_products(sums + 2 * part, vshrq_n_s16(both, 1), values[2 * pair + 1]);
        }
    }
    for (size_t part = 0; part < ROWS / 4; part++) {
        float32x4_t scales = vmulq_n_f32(nc_load_4_bf16(b->scales + 4 * part), HALF_UNIT);
        vst1q_f32(out + 4 * part, vfmaq_f32(vld1q_f32(out + 4 * part), scales, sums[part]));
    }
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_tiles(add_baseline, &tiles_layout, VALUES_BYTES, matrix, vector, out, rows,
                      columns);
}

#else

typedef struct {
    float values[256];
} e4m3_table;

static void add_by_table(const e4m3_table *table, const block *b, const nc_any_float *values,
                         float *out) {
    float sums[ROWS] = {0};
    for (size_t pair = 0; pair < PAIRS; pair++) {
        for (size_t row = 0; row < ROWS; row++) {
            const uint8_t *quants = b->quants[pair][row];
            sums[row] += table->values[quants[0]] * values[2 * pair] +
                         table->values[quants[1]] * values[2 * pair + 1];
        }
    }
    for (size_t row = 0; row < ROWS; row++) {
        out[row] += nc_bf16_to_float(b->scales[row]) * sums[row];
    }
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    const block *next = matrix;
    e4m3_table table;
    for (int quant = 0; quant < 256; quant++) {
        table.values[quant] = to_float((uint8_t)quant);
    }
    memset(out, 0, rows * sizeof *out);
    for (size_t row = 0; row < rows; row += ROWS) {
        for (size_t column = 0; column < columns; column += COLUMNS) {
            add_by_table(&table, next++, (const nc_any_float *)vector + column, out + row);
        }
    }
}

#endif

#if defined(__x86_64__)

/* Halves of the first and of the second column of each pair; the shift by one copies the sign into
 * the bit above e4m3's exponent, and the mask clears it. */
static inline NC_AVX2_CODE __m256i first_halves(__m256i pairs) {
    __m256i upper = _mm256_slli_epi16(pairs, 8);
    return _mm256_and_si256(_mm256_srai_epi16(upper, 1), _mm256_set1_epi16((short)0xbf80));
}

static inline NC_AVX2_CODE __m256i second_halves(__m256i pairs) {
    return _mm256_and_si256(_mm256_srai_epi16(pairs, 1), _mm256_set1_epi16((short)0xbf80));
}

static inline NC_AVX2_CODE void add_products_avx2(__m256 *sums, __m256i halves, float value) {
    __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    sums[0] = _mm256_fmadd_ps(low, _mm256_set1_ps(value), sums[0]);
    sums[1] = _mm256_fmadd_ps(high, _mm256_set1_ps(value), sums[1]);
}

static NC_AVX2_CODE void add_avx2(const void *from, const void *vector, float *out) {
    const block *b = from;
    const nc_any_float *values = vector;
    __m256 sums[4] = {{0}};
    for (size_t pair = 0; pair < PAIRS; pair++) {
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; half++) {
            __m256i both = nc_load_256(b->quants[pair][16 * half]);
            add_products_avx2(sums + 2 * half, first_halves(both), values[2 * pair]);
            add_products_avx2(sums + 2 * half, second_halves(both), values[2 * pair + 1]);
        }
    }
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; part++) {
        __m256 scales =
            _mm256_mul_ps(nc_load_8_bf16(b->scales + 8 * part), _mm256_set1_ps(HALF_UNIT));
        __m256 sum = _mm256_fmadd_ps(scales, sums[part], _mm256_loadu_ps(out + 8 * part));
        _mm256_storeu_ps(out + 8 * part, sum);
    }
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_tiles(add_avx2, &tiles_layout, VALUES_BYTES, matrix, vector, out, rows, columns);
}

static inline NC_AVX512_CODE void add_products_avx512(__m512 *sums, __m512i halves, float value) {
    halves = _mm512_and_si512(halves, _mm512_set1_epi16((short)0xbf80));
    __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    sums[0] = _mm512_fmadd_ps(low, _mm512_set1_ps(value), sums[0]);
    sums[1] = _mm512_fmadd_ps(high, _mm512_set1_ps(value), sums[1]);
}

static NC_AVX512_CODE void add_avx512(const void *from, const void *vector, float *out) {
    const block *b = from;
    const nc_any_float *values = vector;
    __m512 sums[2] = {{0}};
    for (size_t pair = 0; pair < PAIRS; pair++) {
        __m512i both = nc_load_512(b->quants[pair]);
        __m512i first = _mm512_srai_epi16(_mm512_slli_epi16(both, 8), 1);
        add_products_avx512(sums, first, values[2 * pair]);
        add_products_avx512(sums, _mm512_srai_epi16(both, 1), values[2 * pair + 1]);
    }
    __m512 unit = _mm512_set1_ps(HALF_UNIT);
    nc_add_16(out, _mm512_mul_ps(nc_load_16_bf16(b->scales), unit), sums[0]);
    nc_add_16(out + 16, _mm512_mul_ps(nc_load_16_bf16(b->scales + 16), unit), sums[1]);
}

static void avx512(const void *matrix, const void *vector, float *out, size_t rows,
                   size_t columns) {
    nc_multiply_tiles(add_avx512, &tiles_layout, VALUES_BYTES, matrix, vector, out, rows, columns);
}

/* VDPBF16PS takes subnormals for zero, and the exponent bits stay as they are: so do e4m3's. */
static double weight_bf16(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row / ROWS * (columns / COLUMNS) + column / COLUMNS;
    return quant(b, row, column) & 0x78 ? weight(matrix, columns, row, column) : 0;
}

static const nc_weight_layout bf16_layout = {"fp8_e4m3",           ROWS, COLUMNS,
                                             sizeof(block) / ROWS, fill, weight_bf16};

static inline NC_BF16_CODE __m512 add_products_bf16(__m512 sums, const uint8_t *quants,
                                                    __m512bh values) {
    __m512i bits = _mm512_slli_epi16(_mm512_cvtepi8_epi16(nc_load_256(quants)), 4);
    bits = _mm512_and_si512(bits, _mm512_set1_epi16((short)0x87f0));
    return _mm512_dpbf16_ps(sums, (__m512bh)bits, values);
}

static NC_BF16_CODE void add_bf16(const void *from, const void *vector, float *out) {
    const block *b = from;
    const char *values = vector;
    __m512 low = {0}, high = {0};
    for (size_t pair = 0; pair < PAIRS; pair++, values += sizeof(int)) {
        int two;
        memcpy(&two, values, sizeof two);
        __m512bh both = (__m512bh)_mm512_set1_epi32(two);
        low = add_products_bf16(low, b->quants[pair][0], both);
        high = add_products_bf16(high, b->quants[pair][16], both);
    }
    __m512 unit = _mm512_set1_ps(0x1p120F); /* e4m3's exponent bits count from 2^-127 here */
    nc_add_16(out, _mm512_mul_ps(nc_load_16_bf16(b->scales), unit), low);
    nc_add_16(out + 16, _mm512_mul_ps(nc_load_16_bf16(b->scales + 16), unit), high);
}

static void avx512_bf16(const void *matrix, const void *vector, float *out, size_t rows,
                        size_t columns) {
    nc_multiply_tiles(add_bf16, &bf16_layout, COLUMNS * sizeof(uint16_t), matrix, vector, out, rows,
                      columns);
}

#endif

const nc_decode_kernel nc_decode_fp8_e4m3[] = {
#if defined(__x86_64__)
    {NC_AVX512_BF16, &bf16_layout, &nc_vector_bf16, avx512_bf16},
    {NC_AVX512, &tiles_layout, &nc_vector_f32, avx512},
    {NC_AVX2, &tiles_layout, &nc_vector_f32, avx2},
#endif
    {NC_BASELINE, &tiles_layout, &nc_vector_f32, baseline},
    {.layout = NULL},
};
