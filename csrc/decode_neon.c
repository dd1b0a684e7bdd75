#include "decode_neon.h"
#include "decode_tables.h"

#if defined(__aarch64__)

/* SDOT's kernels take the blocks of 4 rows for the same 32 columns, as engines reorder them at
 * load: 4 columns of each row in turn. One vector gains nothing from SMMLA, which takes two. */
enum { ROWS = 4, COLUMNS = NC_Q8_0_COLUMNS, PIECE = 4 };

/* Column i of a row in the low nibble, column 16 + i in the high one; both are signed. */
typedef struct NC_PACKED {
    uint16_t scales[ROWS];
    uint8_t nibbles[COLUMNS / 2 / PIECE][ROWS][PIECE];
} q4_0_tile;

typedef struct NC_PACKED {
    uint16_t scales[ROWS];
    int8_t quants[COLUMNS / PIECE][ROWS][PIECE];
} q8_0_tile;

/* Every tile begins with its scales. */
static void fill(void *matrix, size_t tiles, size_t tile_bytes, uint64_t seed) {
    nc_random_bytes(matrix, tiles * tile_bytes, &seed);
    for (char *tile = matrix; tiles--; tile += tile_bytes) {
        for (size_t row = 0; row < ROWS; row++) {
            ((nc_any_uint16 *)tile)[row] = nc_random_scale(&seed);
        }
    }
}

static void fill_q4_0(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    fill(matrix, rows / ROWS * (columns / COLUMNS), sizeof(q4_0_tile), seed);
}

static void fill_q8_0(void *matrix, size_t rows, size_t columns, uint64_t seed) {
    fill(matrix, rows / ROWS * (columns / COLUMNS), sizeof(q8_0_tile), seed);
}

static size_t tile_at(size_t columns, size_t row, size_t column) {
    return row / ROWS * (columns / COLUMNS) + column / COLUMNS;
}

static double weight_q4_0(const void *matrix, size_t columns, size_t row, size_t column) {
    const q4_0_tile *tile = (const q4_0_tile *)matrix + tile_at(columns, row, column);
    size_t in_half = column % (COLUMNS / 2);
    uint8_t both = tile->nibbles[in_half / PIECE][row % ROWS][in_half % PIECE] ^ 0x88;
    int quant = (column % COLUMNS < COLUMNS / 2 ? both & 15 : both >> 4) - 8;
    return (double)nc_half_to_float(tile->scales[row % ROWS]) * quant;
}

static double weight_q8_0(const void *matrix, size_t columns, size_t row, size_t column) {
    const q8_0_tile *tile = (const q8_0_tile *)matrix + tile_at(columns, row, column);
    size_t in_tile = column % COLUMNS;
    int quant = tile->quants[in_tile / PIECE][row % ROWS][in_tile % PIECE];
    return (double)nc_half_to_float(tile->scales[row % ROWS]) * quant;
}

static const nc_weight_layout q4_0_tiles = {
    "q4_0", ROWS, COLUMNS, sizeof(q4_0_tile) / ROWS, fill_q4_0, weight_q4_0};
static const nc_weight_layout q8_0_tiles = {
    "q8_0", ROWS, COLUMNS, sizeof(q8_0_tile) / ROWS, fill_q8_0, weight_q8_0};

/* Nibbles count in sixteenths: neither is moved down. */
static inline int8x16_t low_nibbles(const uint8_t piece[ROWS][PIECE]) {
    return vreinterpretq_s8_u8(vshlq_n_u8(vld1q_u8(piece[0]), 4));
}

static inline int8x16_t high_nibbles(const uint8_t piece[ROWS][PIECE]) {
    return vreinterpretq_s8_u8(vandq_u8(vld1q_u8(piece[0]), vdupq_n_u8(0xf0)));
}

static inline NC_DOTPROD_CODE float32x4_t q4_0_products(const q4_0_tile *w,
                                                        const nc_q8_0_values *v) {
    int8x16_t low = vld1q_s8(v->quants), high = vld1q_s8(v->quants + COLUMNS / 2);
    int32x4_t products = vdupq_n_s32(0);
    products = vdotq_laneq_s32(products, low_nibbles(w->nibbles[0]), low, 0);
    products = vdotq_laneq_s32(products, low_nibbles(w->nibbles[1]), low, 1);
    products = vdotq_laneq_s32(products, low_nibbles(w->nibbles[2]), low, 2);
    products = vdotq_laneq_s32(products, low_nibbles(w->nibbles[3]), low, 3);
    products = vdotq_laneq_s32(products, high_nibbles(w->nibbles[0]), high, 0);
    products = vdotq_laneq_s32(products, high_nibbles(w->nibbles[1]), high, 1);
    products = vdotq_laneq_s32(products, high_nibbles(w->nibbles[2]), high, 2);
    products = vdotq_laneq_s32(products, high_nibbles(w->nibbles[3]), high, 3);
    return vcvtq_n_f32_s32(products, 4);
}

static NC_DOTPROD_CODE void q4_0_dotprod(const void *matrix, const void *vector, float *out,
                                         size_t rows, size_t columns) {
    const q4_0_tile *w = matrix;
    for (size_t row = 0; row < rows; row += ROWS) {
        const nc_q8_0_values *v = vector;
        float32x4_t sums = vdupq_n_f32(0);
        for (size_t column = 0; column < columns; column += COLUMNS, w++, v++) {
            float32x4_t scales = vmulq_n_f32(nc_load_halves(w->scales), v->scale);
            sums = vfmaq_f32(sums, q4_0_products(w, v), scales);
        }
        vst1q_f32(out + row, sums);
    }
}

static inline NC_DOTPROD_CODE float32x4_t q8_0_products(const q8_0_tile *w,
                                                        const nc_q8_0_values *v) {
    int8x16_t low = vld1q_s8(v->quants), high = vld1q_s8(v->quants + COLUMNS / 2);
    int32x4_t products = vdupq_n_s32(0);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[0][0]), low, 0);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[1][0]), low, 1);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[2][0]), low, 2);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[3][0]), low, 3);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[4][0]), high, 0);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[5][0]), high, 1);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[6][0]), high, 2);
    products = vdotq_laneq_s32(products, vld1q_s8(w->quants[7][0]), high, 3);
    return vcvtq_f32_s32(products);
}

static NC_DOTPROD_CODE void q8_0_dotprod(const void *matrix, const void *vector, float *out,
                                         size_t rows, size_t columns) {
    const q8_0_tile *w = matrix;
    for (size_t row = 0; row < rows; row += ROWS) {
        const nc_q8_0_values *v = vector;
        float32x4_t sums = vdupq_n_f32(0);
        for (size_t column = 0; column < columns; column += COLUMNS, w++, v++) {
            float32x4_t scales = vmulq_n_f32(nc_load_halves(w->scales), v->scale);
            sums = vfmaq_f32(sums, q8_0_products(w, v), scales);
        }
        vst1q_f32(out + row, sums);
    }
}

#endif

const nc_decode_kernel nc_decode_neon[] = {
#if defined(__aarch64__)
    {NC_DOTPROD, &q4_0_tiles, &nc_vector_q8_0, q4_0_dotprod},
    {NC_DOTPROD, &q8_0_tiles, &nc_vector_q8_0, q8_0_dotprod},
#endif
    {.layout = NULL},
};
