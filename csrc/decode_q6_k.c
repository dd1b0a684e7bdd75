#include "decode_floats.h"
#include "decode_neon.h"
#include "decode_tables.h"
#include "decode_x86.h"

#define INLINE static inline __attribute__((always_inline))

enum { COLUMNS = NC_Q8_K_COLUMNS, GROUP = NC_Q8_K_GROUP, OFFSET = 32 };

/* 256 columns in 16 groups of 16: w = scale * scales[group] * (quant - 32). A half's 128 columns
 * are 4 quarters of 32; column i of quarter q has its low 4 bits in byte i of low[q % 2] (the low
 * nibble for q < 2), and 2 bits at 2 * q of high[i]. */
typedef struct NC_PACKED {
    uint8_t low[2][2][32], high[2][32];
    int8_t scales[COLUMNS / GROUP];
    uint16_t scale;
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
    size_t in_block = column % COLUMNS, group = in_block / GROUP;
    size_t half = in_block / 128, quarter = in_block / 32 % 4, i = in_block % 32;
    int low = b->low[half][quarter % 2][i] >> (quarter < 2 ? 0 : 4) & 15;
    int high = b->high[half][i] >> (2 * quarter) & 3;
    return (double)nc_half_to_float(b->scale) * b->scales[group] * ((low | high << 4) - OFFSET);
}

static const nc_weight_layout rows_layout = {"q6_k", 1, COLUMNS, sizeof(block), fill, weight};

static size_t row_bytes(size_t columns) { return columns / COLUMNS * sizeof(block); }

INLINE void unpack(int8_t quants[COLUMNS], const block *w) {
    for (int half = 0; half < 2; half++, quants += COLUMNS / 2)
        for (int i = 0; i < 32; i++) {
            uint8_t low = w->low[half][0][i], next = w->low[half][1][i], high = w->high[half][i];
            quants[i] = (int8_t)(((low & 15) | (high & 3) << 4) - OFFSET);
            quants[i + 32] = (int8_t)(((next & 15) | (high >> 2 & 3) << 4) - OFFSET);
            quants[i + 64] = (int8_t)((low >> 4 | (high >> 4 & 3) << 4) - OFFSET);
            quants[i + 96] = (int8_t)((next >> 4 | (high >> 6) << 4) - OFFSET);
        }
}

/* The loops that an engine falls back on, vectorised by the compiler as far as it can. */
static float dot_baseline(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_k_values *v = vector;
    float sums[NC_LANES] = {0}, sum = 0;
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        int8_t quants[COLUMNS];
        const int8_t *x = quants, *y = v->quants;
        int32_t products[NC_LANES] = {0};
        unpack(quants, w);
        for (int group = 0; group < COLUMNS / GROUP; group++)
            for (int i = 0; i < GROUP; i += NC_LANES, x += NC_LANES, y += NC_LANES)
                nc_add_lanes(products, w->scales[group], x, y);
        float scale = nc_half_to_float(w->scale) * v->scale;
        for (int lane = 0; lane < NC_LANES; lane++)
            sums[lane] += scale * (float)products[lane];
    }
    for (int lane = 0; lane < NC_LANES; lane++)
        sum += sums[lane];
    return sum;
}

static void baseline(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns) {
    nc_multiply_rows(dot_baseline, row_bytes(columns), matrix, vector, out, rows, columns);
}

#if defined(__x86_64__)

static NC_SSE42_CODE float dot_sse42(const void *row, const void *vector, size_t columns) {
    const float *halves = nc_half_table();
    const block *w = row;
    const nc_q8_k_values *v = vector;
    __m128 left = _mm_setzero_ps(), right = left;
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        int8_t quants[COLUMNS];
        const int8_t *x = quants, *y = v->quants;
        __m128i products[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
        unpack(quants, w);
        for (int group = 0; group < COLUMNS / GROUP; group++) {
            __m128i scale = _mm_set1_epi16(w->scales[group]);
            for (int i = 0; i < GROUP; i += NC_LANES, x += NC_LANES, y += NC_LANES)
                nc_add_8_columns(products, x, y, scale);
        }
        __m128 scale = _mm_set1_ps(halves[w->scale] * v->scale);
        left = _mm_add_ps(left, _mm_mul_ps(_mm_cvtepi32_ps(products[0]), scale));
        right = _mm_add_ps(right, _mm_mul_ps(_mm_cvtepi32_ps(products[1]), scale));
    }
    return nc_sum_ps_128(_mm_add_ps(left, right));
}

static void sse42(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_sse42, row_bytes(columns), matrix, vector, out, rows, columns);
}

/* 16 columns of a quarter, with their 2 high bits in place, times their group's scale. */
INLINE NC_AVX_CODE __m128i products_128(__m128i low, __m128i high, const int8_t *quants,
                                        __m128i scales, int group) {
    __m128i scale = _mm_cvtepi8_epi16(_mm_shuffle_epi8(scales, _mm_set1_epi8((char)group)));
    return _mm_madd_epi16(scale, _mm_maddubs_epi16(_mm_or_si128(low, high), nc_load_128(quants)));
}

/* The first or second 16 columns of the quarters of a half. */
INLINE NC_AVX_CODE __m128i half_products_128(const block *w, const nc_q8_k_values *v, size_t half,
                                             size_t side) {
    const int8_t *quants = v->quants + half * 128 + side * 16;
    int group = (int)(half * 8 + side);
    __m128i scales = nc_load_128(w->scales);
    __m128i low = nc_load_128(w->low[half][0] + side * 16);
    __m128i next = nc_load_128(w->low[half][1] + side * 16);
    __m128i high = nc_load_128(w->high[half] + side * 16);
    __m128i high0 = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(0x03)), 4);
    __m128i high1 = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(0x0c)), 2);
    __m128i high2 = _mm_and_si128(high, _mm_set1_epi8(0x30));
    __m128i high3 = _mm_srli_epi16(_mm_and_si128(high, _mm_set1_epi8((char)0xc0)), 2);
    __m128i sum0 = products_128(nc_low_128(low), high0, quants, scales, group);
    __m128i sum1 = products_128(nc_low_128(next), high1, quants + 32, scales, group + 2);
    __m128i sum2 = products_128(nc_high_128(low), high2, quants + 64, scales, group + 4);
    __m128i sum3 = products_128(nc_high_128(next), high3, quants + 96, scales, group + 6);
    return _mm_add_epi32(_mm_add_epi32(sum0, sum1), _mm_add_epi32(sum2, sum3));
}

/* What the offset of 8 groups takes away. */
INLINE NC_AVX_CODE __m128i offset_products(__m128i scales, const void *group_sums) {
    __m128i products = _mm_madd_epi16(_mm_cvtepi8_epi16(scales), nc_load_128(group_sums));
    return _mm_slli_epi32(products, 5);
}

static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const float *halves = nc_half_table();
    const block *w = row;
    const nc_q8_k_values *v = vector;
    __m256 sums = _mm256_setzero_ps();
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        __m128i scales = nc_load_128(w->scales);
        __m128i left = _mm_sub_epi32(
            _mm_add_epi32(half_products_128(w, v, 0, 0), half_products_128(w, v, 1, 0)),
            offset_products(scales, v->sums));
        __m128i right = _mm_sub_epi32(
            _mm_add_epi32(half_products_128(w, v, 0, 1), half_products_128(w, v, 1, 1)),
            offset_products(_mm_srli_si128(scales, 8), v->sums + 8));
        __m256 scale = _mm256_set1_ps(halves[w->scale] * v->scale);
        sums = _mm256_add_ps(sums, _mm256_mul_ps(nc_to_float(left, right), scale));
    }
    return nc_sum_ps_256(sums);
}

static void avx(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx, row_bytes(columns), matrix, vector, out, rows, columns);
}

/* A quarter: two groups. */
INLINE NC_AVX2_CODE __m256i products_256(__m256i low, __m256i high, const int8_t *quants,
                                         __m128i scales, int group) {
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m128i order = _mm_add_epi8(first, _mm_set1_epi8((char)group));
    __m256i scale = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, order));
    __m256i pairs = _mm256_maddubs_epi16(_mm256_or_si256(low, high), nc_load_256(quants));
    return _mm256_madd_epi16(scale, pairs);
}

INLINE NC_AVX2_CODE __m256i half_products_256(const block *w, const nc_q8_k_values *v,
                                              size_t half) {
    const int8_t *quants = v->quants + half * 128;
    __m128i scales = nc_load_128(w->scales);
    __m256i low = nc_load_256(w->low[half][0]), next = nc_load_256(w->low[half][1]);
    __m256i high = nc_load_256(w->high[half]);
    __m256i high0 = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(0x03)), 4);
    __m256i high1 = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(0x0c)), 2);
    __m256i high2 = _mm256_and_si256(high, _mm256_set1_epi8(0x30));
    __m256i high3 = _mm256_srli_epi16(_mm256_and_si256(high, _mm256_set1_epi8((char)0xc0)), 2);
    int group = (int)half * 8;
    __m256i sum0 = products_256(nc_low_256(low), high0, quants, scales, group);
    __m256i sum1 = products_256(nc_low_256(next), high1, quants + 32, scales, group + 2);
    __m256i sum2 = products_256(nc_high_256(low), high2, quants + 64, scales, group + 4);
    __m256i sum3 = products_256(nc_high_256(next), high3, quants + 96, scales, group + 6);
    return _mm256_add_epi32(_mm256_add_epi32(sum0, sum1), _mm256_add_epi32(sum2, sum3));
}

INLINE NC_AVX2_CODE float dot_256(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_k_values *v = vector;
    __m256 sums = _mm256_setzero_ps();
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        __m256i scales = _mm256_cvtepi8_epi16(nc_load_128(w->scales));
        __m256i offsets = _mm256_slli_epi32(_mm256_madd_epi16(scales, nc_load_256(v->sums)), 5);
        __m256i products = _mm256_add_epi32(half_products_256(w, v, 0), half_products_256(w, v, 1));
        __m256 scale = _mm256_set1_ps(_cvtsh_ss(w->scale) * v->scale);
        sums =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(products, offsets)), scale, sums);
    }
    return nc_sum_ps_256(sums);
}

static NC_AVX2_CODE float dot_avx2(const void *row, const void *vector, size_t columns) {
    return dot_256(row, vector, columns);
}

static void avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx2, row_bytes(columns), matrix, vector, out, rows, columns);
}

/* The same on 256 bits: the compiler joins and with or, by AVX-512's ternary logic. */
static NC_AVX512_CODE float dot_avx512(const void *row, const void *vector, size_t columns) {
    return dot_256(row, vector, columns);
}

static void avx512(const void *matrix, const void *vector, float *out, size_t rows,
                   size_t columns) {
    nc_multiply_rows(dot_avx512, row_bytes(columns), matrix, vector, out, rows, columns);
}

#elif defined(__aarch64__)

/* 32 columns, whose low bits are the low nibbles of these and whose high bits are the low two. */
static inline NC_DOTPROD_CODE int32x4_t quarter_products(const uint8x16_t low[2],
                                                         const uint8x16_t high[2],
                                                         const int8_t *values,
                                                         const int8_t scales[2]) {
    int32x4_t products[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t upper = vshlq_n_u8(vandq_u8(high[i], vdupq_n_u8(3)), 4);
        uint8x16_t quants = vorrq_u8(vandq_u8(low[i], vdupq_n_u8(15)), upper);
        int8x16_t weights = vsubq_s8(vreinterpretq_s8_u8(quants), vdupq_n_s8(OFFSET));
        products[i] = vdotq_s32(vdupq_n_s32(0), weights, vld1q_s8(values + 16 * i));
    }
    return vmlaq_n_s32(vmulq_n_s32(products[0], scales[0]), products[1], scales[1]);
}

static inline NC_DOTPROD_CODE int32x4_t half_products(const block *w, int half,
                                                      const int8_t *values) {
    int32x4_t products = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; quarter++) {
        const uint8_t *from = w->low[half][quarter % 2];
        int8x16_t down = vdupq_n_s8((int8_t)(quarter < 2 ? 0 : -4));
        int8x16_t down_high = vdupq_n_s8((int8_t)(-2 * quarter));
        uint8x16_t low[2] = {vshlq_u8(vld1q_u8(from), down), vshlq_u8(vld1q_u8(from + 16), down)};
        uint8x16_t high[2] = {vshlq_u8(vld1q_u8(w->high[half]), down_high),
                              vshlq_u8(vld1q_u8(w->high[half] + 16), down_high)};
        const int8_t *scales = w->scales + 8 * half + 2 * quarter;
        products = vaddq_s32(products, quarter_products(low, high, values + 32 * quarter, scales));
    }
    return products;
}

static NC_DOTPROD_CODE float dot_dotprod(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_k_values *v = vector;
    float sum = 0;
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        int32x4_t products =
            vaddq_s32(half_products(w, 0, v->quants), half_products(w, 1, v->quants + COLUMNS / 2));
        sum += nc_half_to_float(w->scale) * v->scale * (float)vaddvq_s32(products);
    }
    return sum;
}

static void dotprod(const void *matrix, const void *vector, float *out, size_t rows,
                    size_t columns) {
    nc_multiply_rows(dot_dotprod, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_q6_k[] = {
#if defined(__x86_64__)
    {NC_AVX512, &rows_layout, &nc_vector_q8_k, avx512},
    {NC_AVX2, &rows_layout, &nc_vector_q8_k, avx2},
    {NC_AVX, &rows_layout, &nc_vector_q8_k, avx},
    {NC_SSE42, &rows_layout, &nc_vector_q8_k, sse42},
#elif defined(__aarch64__)
    {NC_DOTPROD, &rows_layout, &nc_vector_q8_k, dotprod},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_q8_k, baseline},
    {.layout = NULL},
};
