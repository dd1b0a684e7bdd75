#ifndef NODECHECK_DECODE_FLOATS_H
#define NODECHECK_DECODE_FLOATS_H

#include "decode_blocks.h"

/* Numbers of a matrix or vector, which may start at any address. */
typedef uint16_t nc_any_uint16 __attribute__((aligned(1), may_alias));
typedef float nc_any_float __attribute__((aligned(1), may_alias));

extern const nc_vector_format nc_vector_f32, nc_vector_f16, nc_vector_bf16;

static inline float nc_bf16_to_float(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounded to nearest even, for finite values. */
uint16_t nc_float_to_bf16(float value);

/* All 65536 halves as floats: how engines convert where there is no F16C. */
const float *nc_half_table(void);

/* Two-byte floats of one format as weights are: even over -2^top..2^top, so that small ones are
 * rare. bias and mantissa_bits are the format's. */
void nc_random_floats(void *matrix, size_t count, int bias, int mantissa_bits, uint64_t seed);

/* sums[row] += the products of a block's weights and values, for the rows of its tile. */
typedef void nc_add_block(const void *block, const void *values, float *sums);

/* out = matrix * vector, whose blocks are value_bytes long, for matrices that lie in tiles. */
static inline void nc_multiply_tiles(nc_add_block *add, const nc_weight_layout *layout,
                                     size_t value_bytes, const void *matrix, const void *vector,
                                     float *out, size_t rows, size_t columns) {
    const char *block = matrix;
    memset(out, 0, rows * sizeof *out);
    for (size_t row = 0; row < rows; row += layout->rows_per_tile) {
        const char *values = vector;
        for (size_t column = 0; column < columns; column += layout->block_columns) {
            add(block, values, out + row);
            block += layout->rows_per_tile * layout->block_bytes;
            values += value_bytes;
        }
    }
}

#endif
