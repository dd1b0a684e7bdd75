#ifndef NODECHECK_DECODE_Q4_0_H
#define NODECHECK_DECODE_Q4_0_H

#include "decode_blocks.h"

/* 32 columns: w = scale * (nibble - 8), column i in the low nibble of byte i and column 16 + i in
 * its high one. */
typedef struct NC_PACKED {
    uint16_t scale;
    uint8_t nibbles[16];
} nc_q4_0_block;

/* The blocks of 8 rows for the same 32 columns, as engines reorder them at load for AVX2: bytes 0-7
 * of row 0, of row 1 and so on, then bytes 8-15; the nibbles are signed. */
enum { NC_Q4_0_TILE_ROWS = 8 };

typedef struct NC_PACKED {
    uint16_t scales[NC_Q4_0_TILE_ROWS];
    uint8_t nibbles[2][NC_Q4_0_TILE_ROWS][8];
} nc_q4_0_tile;

extern const nc_weight_layout nc_q4_0_tiles;

void nc_q4_0_avx2(const void *matrix, const void *vector, float *out, size_t rows, size_t columns);
void nc_q4_0_vnni(const void *matrix, const void *vector, float *out, size_t rows, size_t columns);

#endif
