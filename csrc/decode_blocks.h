#ifndef NODECHECK_DECODE_BLOCKS_H
#define NODECHECK_DECODE_BLOCKS_H

#include "decode.h"

#include <string.h>

/* Blocks are packed: a matrix may start at any address. */
#define NC_PACKED __attribute__((packed))

/* The vector beside 32-column blocks: y = scale * quants[]. */
enum { NC_Q8_0_COLUMNS = 32 };

typedef struct NC_PACKED {
    float scale;
    int8_t quants[NC_Q8_0_COLUMNS];
} nc_q8_0_values;

/* The vector beside 256-column blocks, with the sums that a weight's offset is multiplied by. */
enum { NC_Q8_K_COLUMNS = 256, NC_Q8_K_GROUP = 16 };

typedef struct NC_PACKED {
    float scale;
    int8_t quants[NC_Q8_K_COLUMNS];
    int16_t sums[NC_Q8_K_COLUMNS / NC_Q8_K_GROUP]; /* of each 16 quants */
} nc_q8_k_values;

extern const nc_vector_format nc_vector_q8_0, nc_vector_q8_k; /* quants are -127..127 */

/* Quants such that the largest magnitude becomes 127; returns what one step is worth. */
float nc_quantise(int8_t *quants, const float *values, size_t count);

/* For finite halves. Exact: the multiplication only moves the exponent's bias. */
static inline float nc_half_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)((int16_t)half * (1 << 13)) & 0x8fffe000; /* sign, then the rest */
    float value;
    memcpy(&value, &bits, sizeof value);
    return value * 0x1p112F;
}

/* Rounded to nearest even; magnitudes of 65520 and more become infinite. */
uint16_t nc_float_to_half(float value);

/* SplitMix64: the next number of the sequence. */
static inline uint64_t nc_random(uint64_t *state) {
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

void nc_random_bytes(void *buffer, size_t bytes, uint64_t *state);

/* A half of either sign with a magnitude from 2^-10 up to, not including, 2^-6: such as scales
 * have, and never subnormal. */
uint16_t nc_random_scale(uint64_t *state);

/* products + scale * x * y, a column for each lane: what engines leave to the compiler to vectorise
 * where they have nothing better for blocks of 256 columns. */
enum { NC_LANES = 8 };

static inline __attribute__((always_inline)) void
nc_add_lanes(int32_t products[NC_LANES], int32_t scale, const int8_t *x, const int8_t *y) {
    int16_t lanes[NC_LANES];
    for (int lane = 0; lane < NC_LANES; lane++)
        lanes[lane] = (int16_t)(x[lane] * y[lane]);
    for (int lane = 0; lane < NC_LANES; lane++)
        products[lane] += scale * lanes[lane];
}

/* out[row] = dot(row's blocks, vector, columns) for matrices that lie row by row. */
typedef float nc_dot(const void *row, const void *vector, size_t columns);

static inline void nc_multiply_rows(nc_dot *dot, size_t row_bytes, const void *matrix,
                                    const void *vector, float *out, size_t rows, size_t columns) {
    const char *row = matrix;
    for (size_t r = 0; r < rows; r++, row += row_bytes)
        out[r] = dot(row, vector, columns);
}

#endif
