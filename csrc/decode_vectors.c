#include "decode_blocks.h"

#include <math.h>

uint16_t nc_float_to_half(float value) {
    float magnitude = fabsf(value);
    uint32_t bits, sign = signbit(value) ? 0x8000 : 0;
    if (magnitude >= 65520)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x1p-14F) { /* subnormal: between 0.5 and 1 floats are 2^-24 apart, as these */
        magnitude += 0.5F;
        memcpy(&bits, &magnitude, sizeof bits);
        return (uint16_t)(sign | (bits & 0xffff));
    }
    memcpy(&bits, &magnitude, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits >> 13) - (112 << 10)));
}

void nc_random_bytes(void *buffer, size_t bytes, uint64_t *state) {
    char *next = buffer;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), next += sizeof(uint64_t)) {
        uint64_t number = nc_random(state);
        memcpy(next, &number, sizeof number);
    }
    uint64_t number = nc_random(state);
    memcpy(next, &number, bytes);
}

uint16_t nc_random_scale(uint64_t *state) {
    uint64_t number = nc_random(state);
    uint64_t exponent = 5 + (number >> 16 & 3); /* biased by 15: 2^-10 to 2^-7 */
    return (uint16_t)((number & 0x8000) | exponent << 10 | (number & 0x3ff));
}

float nc_quantise(int8_t *quants, const float *values, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    float steps = largest > 0 ? 127 / largest : 0;
    for (size_t i = 0; i < count; i++)
        quants[i] = (int8_t)(values[i] * steps + copysignf(0.5F, values[i]));
    return largest / 127;
}

static size_t q8_0_bytes(size_t columns) {
    return columns / NC_Q8_0_COLUMNS * sizeof(nc_q8_0_values);
}

static void q8_0_quantise(void *vector, const float *values, size_t columns) {
    nc_q8_0_values *blocks = vector;
    for (size_t b = 0; b < columns / NC_Q8_0_COLUMNS; b++)
        blocks[b].scale =
            nc_quantise(blocks[b].quants, values + b * NC_Q8_0_COLUMNS, NC_Q8_0_COLUMNS);
}

static double q8_0_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    const nc_q8_0_values *block = (const nc_q8_0_values *)vector + column / NC_Q8_0_COLUMNS;
    return (double)block->scale * block->quants[column % NC_Q8_0_COLUMNS];
}

static size_t q8_k_bytes(size_t columns) {
    return columns / NC_Q8_K_COLUMNS * sizeof(nc_q8_k_values);
}

static void q8_k_quantise(void *vector, const float *values, size_t columns) {
    for (size_t b = 0; b < columns / NC_Q8_K_COLUMNS; b++) {
        nc_q8_k_values *block = (nc_q8_k_values *)vector + b;
        block->scale = nc_quantise(block->quants, values + b * NC_Q8_K_COLUMNS, NC_Q8_K_COLUMNS);
        for (size_t i = 0; i < NC_Q8_K_COLUMNS / NC_Q8_K_GROUP; i++) {
            int sum = 0;
            for (size_t j = 0; j < NC_Q8_K_GROUP; j++)
                sum += block->quants[i * NC_Q8_K_GROUP + j];
            block->sums[i] = (int16_t)sum;
        }
    }
}

static double q8_k_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    const nc_q8_k_values *block = (const nc_q8_k_values *)vector + column / NC_Q8_K_COLUMNS;
    return (double)block->scale * block->quants[column % NC_Q8_K_COLUMNS];
}

const nc_vector_format nc_vector_q8_0 = {"q8_0", q8_0_bytes, q8_0_quantise, q8_0_value};
const nc_vector_format nc_vector_q8_k = {"q8_k", q8_k_bytes, q8_k_quantise, q8_k_value};
