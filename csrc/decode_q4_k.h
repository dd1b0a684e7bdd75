#ifndef NODECHECK_DECODE_Q4_K_H
#define NODECHECK_DECODE_Q4_K_H

#include "decode_blocks.h"

/* 256 columns in 8 groups of 32: w = scale * scales[group] * nibble - least * leasts[group].
 * nibbles[pair][i] holds column i of groups 2 * pair (low) and 2 * pair + 1 (high). */
enum { NC_Q4_K_GROUPS = 8, NC_Q4_K_PACKED = 12 };

typedef struct NC_PACKED {
    uint16_t scale, least;
    uint8_t factors[NC_Q4_K_PACKED]; /* scales and leasts of the groups, 6 bits each */
    uint8_t nibbles[4][32];
} nc_q4_k_block;

/* The blocks of 8 rows for the same 256 columns, as engines reorder them at load for AVX2: 8 bytes
 * of each row in turn, and the 6-bit factors of 8 rows together for each group. */
enum { NC_Q4_K_TILE_ROWS = 8 };

typedef struct NC_PACKED {
    uint16_t scales[NC_Q4_K_TILE_ROWS], leasts[NC_Q4_K_TILE_ROWS];
    uint8_t factors[NC_Q4_K_GROUPS][NC_Q4_K_PACKED];
    uint8_t nibbles[4][4][NC_Q4_K_TILE_ROWS][8];
} nc_q4_k_tile;

typedef struct {
    uint8_t scales[8], leasts[8];
} nc_q4_k_factors;

/* 6 bits of 16 numbers in 12 bytes: the first 4 of each kind have a byte's low 6 bits; the last 4
 * have their low 4 bits in the last 4 bytes, and the high 2 in those that the first ones leave. */
static inline nc_q4_k_factors nc_unpack_q4_k(const uint8_t packed[NC_Q4_K_PACKED]) {
    uint32_t from[3], to[4];
    memcpy(from, packed, sizeof from);
    to[0] = from[0] & 0x3f3f3f3f;
    to[1] = (from[2] & 0x0f0f0f0f) | (from[0] >> 2 & 0x30303030);
    to[2] = from[1] & 0x3f3f3f3f;
    to[3] = (from[2] >> 4 & 0x0f0f0f0f) | (from[1] >> 2 & 0x30303030);
    nc_q4_k_factors factors;
    memcpy(&factors, to, sizeof factors);
    return factors;
}

extern const nc_weight_layout nc_q4_k_tiles;

void nc_q4_k_avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns);

#endif
