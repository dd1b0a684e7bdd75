#ifndef NODECHECK_DECODE_H
#define NODECHECK_DECODE_H

#include "isa.h"

#include <stddef.h>
#include <stdint.h>

/* How a matrix of one weight type lies in memory: tiles of rows_per_tile rows, each tile's blocks
 * of block_columns columns one after the other, block_bytes for each row of a block. */
typedef struct {
    const char
        *weights; /* "q4_0", "q4_k", "q6_k", "q8_0", "f16", "bf16", "fp8_e4m3", "int4_g128" */
    size_t rows_per_tile;
    size_t block_columns;
    size_t block_bytes;
    /* Random valid weights: finite scales, every bit pattern of the quants. rows is a multiple of
     * rows_per_tile, columns of block_columns. */
    void (*fill)(void *matrix, size_t rows, size_t columns, uint64_t seed);
    /* One weight, plainly: what the correctness tests compare with. */
    double (*weight)(const void *matrix, size_t columns, size_t row, size_t column);
} nc_weight_layout;

/* What the vector is turned into before the product, as the engines do: 8-bit blocks, or f16. */
typedef struct {
    const char *name;
    size_t (*bytes)(size_t columns);
    void (*quantise)(void *vector, const float *values, size_t columns);
    double (*value)(const void *vector, size_t columns, size_t column);
} nc_vector_format;

/* out[rows] = matrix[rows x columns] * vector, as the engine's decode of one token does it. */
typedef struct {
    nc_isa isa;
    const nc_weight_layout *layout;
    const nc_vector_format *vector;
    void (*multiply)(const void *matrix, const void *vector, float *out, size_t rows,
                     size_t columns);
} nc_decode_kernel;

/* All kernels of this architecture, whether or not this CPU can run them; NULL past the last. For
 * one weight type the fastest that engines have comes first. */
const nc_decode_kernel *nc_decode_kernel_at(int index);

#endif
