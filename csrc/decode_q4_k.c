#include "decode_q4_k.h"
#include "decode_floats.h"
#include "decode_neon.h"
#include "decode_tables.h"
#include "decode_x86.h"

#define INLINE static inline __attribute__((always_inline))

enum { COLUMNS = NC_Q8_K_COLUMNS, GROUPS = NC_Q4_K_GROUPS, GROUP = COLUMNS / GROUPS };

typedef nc_q4_k_block block;

static void fill(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    block *blocks = matrix;
    size_t count = rows * columns / COLUMNS;
    nc_random_bytes(matrix, count * sizeof *blocks, &seed);
    for (size_t b = 0; b < count; b++) {
        blocks[b].scale = nc_random_scale(&seed);
        blocks[b].least = nc_random_scale(&seed);
    }
}

static double weight(const void *matrix, size_t columns, size_t row, size_t column) {
    const block *b = (const block *)matrix + row * columns / COLUMNS + column / COLUMNS;
    size_t group = column % COLUMNS / GROUP;
    uint8_t byte = b->nibbles[group / 2][column % GROUP];
    nc_q4_k_factors factors = nc_unpack_q4_k(b->factors);
    return (double)nc_half_to_float(b->scale) * factors.scales[group] *
               (group % 2 ? byte >> 4 : byte & 15) -
           (double)nc_half_to_float(b->least) * factors.leasts[group];
}

static const nc_weight_layout rows_layout = {"q4_k", 1, COLUMNS, sizeof(block), fill, weight};

static size_t row_bytes(size_t columns) { return columns / COLUMNS * sizeof(block); }

INLINE void unpack(int8_t quants[COLUMNS], const block *w) {
    for (int pair = 0; pair < GROUPS / 2; pair++) {
        for (int i = 0; i < GROUP; i++)
            quants[2 * pair * GROUP + i] = (int8_t)(w->nibbles[pair][i] & 15);
        for (int i = 0; i < GROUP; i++)
            quants[(2 * pair + 1) * GROUP + i] = (int8_t)(w->nibbles[pair][i] >> 4);
    }
}

INLINE int32_t least_products(const nc_q4_k_factors *factors, const nc_q8_k_values *v) {
    int32_t sum = 0;
    for (int i = 0; i < COLUMNS / NC_Q8_K_GROUP; i++)
        sum += v->sums[i] * factors->leasts[i / 2];
    return sum;
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
        nc_q4_k_factors factors = nc_unpack_q4_k(w->factors);
        unpack(quants, w);
        for (int group = 0; group < GROUPS; group++)
            for (int i = 0; i < GROUP; i += NC_LANES, x += NC_LANES, y += NC_LANES)
                nc_add_lanes(products, factors.scales[group], x, y);
        float scale = nc_half_to_float(w->scale) * v->scale;
        for (int lane = 0; lane < NC_LANES; lane++)
            sums[lane] += scale * (float)products[lane];
        sum -= nc_half_to_float(w->least) * v->scale * (float)least_products(&factors, v);
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
    float leasts = 0;
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        int8_t quants[COLUMNS];
        const int8_t *x = quants, *y = v->quants;
        __m128i products[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
        nc_q4_k_factors factors = nc_unpack_q4_k(w->factors);
        unpack(quants, w);
        for (int group = 0; group < GROUPS; group++) {
            __m128i scale = _mm_set1_epi16(factors.scales[group]);
            for (int i = 0; i < GROUP; i += NC_LANES, x += NC_LANES, y += NC_LANES)
                nc_add_8_columns(products, x, y, scale);
        }
        __m128 scale = _mm_set1_ps(halves[w->scale] * v->scale);
        left = _mm_add_ps(left, _mm_mul_ps(_mm_cvtepi32_ps(products[0]), scale));
        right = _mm_add_ps(right, _mm_mul_ps(_mm_cvtepi32_ps(products[1]), scale));
        leasts += halves[w->least] * v->scale * (float)least_products(&factors, v);
    }
    return nc_sum_ps_128(_mm_add_ps(left, right)) - leasts;
}

static void sse42(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_sse42, row_bytes(columns), matrix, vector, out, rows, columns);
}

static inline NC_AVX_CODE __m128i group_products(__m128i nibbles, const int8_t *quants,
                                                 __m128i scale) {
    return _mm_madd_epi16(scale, _mm_maddubs_epi16(nibbles, nc_load_128(quants)));
}

/* scales: of all groups, 16 bits each. */
static inline NC_AVX_CODE __m256 block_products(const block *w, const nc_q8_k_values *v,
                                                __m128i scales) {
    __m128i left = _mm_setzero_si128(), right = left;
    __m128i spread = _mm_set1_epi16(0x0100);
    for (size_t pair = 0; pair < GROUPS / 2; pair++) {
        const int8_t *quants = v->quants + 2 * pair * GROUP;
        __m128i low_scale = _mm_shuffle_epi8(scales, spread);
        spread = _mm_add_epi16(spread, _mm_set1_epi8(2));
        __m128i high_scale = _mm_shuffle_epi8(scales, spread);
        spread = _mm_add_epi16(spread, _mm_set1_epi8(2));
        __m128i bytes = nc_load_128(w->nibbles[pair]);
        left = _mm_add_epi32(left, group_products(nc_low_128(bytes), quants, low_scale));
        left = _mm_add_epi32(left, group_products(nc_high_128(bytes), quants + GROUP, high_scale));
        bytes = nc_load_128(w->nibbles[pair] + 16);
        quants += 16;
        right = _mm_add_epi32(right, group_products(nc_low_128(bytes), quants, low_scale));
        right =
            _mm_add_epi32(right, group_products(nc_high_128(bytes), quants + GROUP, high_scale));
    }
    return nc_to_float(left, right);
}

static NC_AVX_CODE float dot_avx(const void *row, const void *vector, size_t columns) {
    const float *halves = nc_half_table();
    const block *w = row;
    const nc_q8_k_values *v = vector;
    __m256 sums = _mm256_setzero_ps();
    __m128 leasts = _mm_setzero_ps();
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        nc_q4_k_factors unpacked = nc_unpack_q4_k(w->factors);
        __m128i factors = nc_load_128(&unpacked);
        __m128i group_sums = _mm_hadd_epi16(nc_load_128(v->sums), nc_load_128(v->sums + 8));
        __m128i products =
            _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_srli_si128(factors, 8)), group_sums);
        leasts = _mm_add_ps(leasts, _mm_mul_ps(_mm_set1_ps(halves[w->least] * v->scale),
                                               _mm_cvtepi32_ps(products)));
        sums = _mm256_add_ps(sums, _mm256_mul_ps(_mm256_set1_ps(halves[w->scale] * v->scale),
                                                 block_products(w, v, _mm_cvtepu8_epi16(factors))));
    }
    return nc_sum_ps_256(sums) - nc_sum_ps_128(leasts);
}

static void avx(const void *matrix, const void *vector, float *out, size_t rows, size_t columns) {
    nc_multiply_rows(dot_avx, row_bytes(columns), matrix, vector, out, rows, columns);
}

#elif defined(__aarch64__)

static inline NC_DOTPROD_CODE int32x4_t pair_products(const uint8_t nibbles[GROUP],
                                                      const int8_t *values,
                                                      const uint8_t scales[2]) {
    uint8x16_t first = vld1q_u8(nibbles), second = vld1q_u8(nibbles + 16);
    uint8x16_t mask = vdupq_n_u8(15);
    int32x4_t low = nc_dot_32(vreinterpretq_s8_u8(vandq_u8(first, mask)),
                              vreinterpretq_s8_u8(vandq_u8(second, mask)), values);
    int32x4_t high = nc_dot_32(vreinterpretq_s8_u8(vshrq_n_u8(first, 4)),
                               vreinterpretq_s8_u8(vshrq_n_u8(second, 4)), values + GROUP);
    return vmlaq_n_s32(vmulq_n_s32(low, scales[0]), high, scales[1]);
}

static NC_DOTPROD_CODE float dot_dotprod(const void *row, const void *vector, size_t columns) {
    const block *w = row;
    const nc_q8_k_values *v = vector;
    float sum = 0;
    for (const block *end = w + columns / COLUMNS; w < end; w++, v++) {
        nc_q4_k_factors factors = nc_unpack_q4_k(w->factors);
        int32x4_t products = vdupq_n_s32(0);
        for (int pair = 0; pair < GROUPS / 2; pair++) {
            const int8_t *values = v->quants + 2 * pair * GROUP;
            products = vaddq_s32(
                products, pair_products(w->nibbles[pair], values, factors.scales + 2 * pair));
        }
        sum += nc_half_to_float(w->scale) * v->scale * (float)vaddvq_s32(products);
        sum -= nc_half_to_float(w->least) * v->scale * (float)least_products(&factors, v);
    }
    return sum;
}

static void dotprod(const void *matrix, const void *vector, float *out, size_t rows,
                    size_t columns) {
    nc_multiply_rows(dot_dotprod, row_bytes(columns), matrix, vector, out, rows, columns);
}

#endif

const nc_decode_kernel nc_decode_q4_k[] = {
#if defined(__x86_64__)
    {NC_AVX2, &nc_q4_k_tiles, &nc_vector_q8_k, nc_q4_k_avx2},
    {NC_AVX, &rows_layout, &nc_vector_q8_k, avx},
    {NC_SSE42, &rows_layout, &nc_vector_q8_k, sse42},
#elif defined(__aarch64__)
    {NC_DOTPROD, &rows_layout, &nc_vector_q8_k, dotprod},
#endif
    {NC_BASELINE, &rows_layout, &nc_vector_q8_k, baseline},
    {.layout = NULL},
};
