#include "decode_floats.h"

#include <pthread.h>

uint16_t nc_float_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float half_table[1 << 16];

static void fill_half_table(void) {
    for (uint32_t half = 0; half < 1 << 16; half++) {
        half_table[half] = nc_half_to_float((uint16_t)half);
    }
}

const float *nc_half_table(void) {
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    pthread_once(&filled, fill_half_table);
    return half_table;
}

enum { LARGEST_EXPONENT = -5, EXPONENTS = 6 };

void nc_random_floats(void *matrix, size_t count, int bias, int mantissa_bits, uint64_t seed) {
    nc_any_uint16 *floats = matrix;
    nc_random_bytes(floats, count * sizeof *floats, &seed);
    for (size_t i = 0; i < count; i++) {
        /* The number of trailing zeros: each smaller exponent half as often, as in even numbers. */
        uint32_t limit = 1U << (mantissa_bits + EXPONENTS - 1);
        int smaller = __builtin_ctz((floats[i] | limit) >> mantissa_bits);
        uint32_t fraction = floats[i] & (0x8000 | ((1U << mantissa_bits) - 1));
        floats[i] =
            (uint16_t)(fraction | (uint32_t)(bias + LARGEST_EXPONENT - smaller) << mantissa_bits);
    }
}

static size_t f32_bytes(size_t columns) { return columns * sizeof(float); }

static void f32_copy(void *vector, const float *values, size_t columns) {
    memcpy(vector, values, columns * sizeof *values);
}

static double f32_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    return ((const nc_any_float *)vector)[column];
}

static size_t two_bytes(size_t columns) { return columns * sizeof(uint16_t); }

static void f16_round(void *vector, const float *values, size_t columns) {
    nc_any_uint16 *halves = vector;
    for (size_t i = 0; i < columns; i++) {
        halves[i] = nc_float_to_half(values[i]);
    }
}

static double f16_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    return nc_half_to_float(((const nc_any_uint16 *)vector)[column]);
}

static void bf16_round(void *vector, const float *values, size_t columns) {
    nc_any_uint16 *floats = vector;
    for (size_t i = 0; i < columns; i++) {
        floats[i] = nc_float_to_bf16(values[i]);
    }
}

static double bf16_value(const void *vector, size_t columns, size_t column) {
    (void)columns;
    return nc_bf16_to_float(((const nc_any_uint16 *)vector)[column]);
}

const nc_vector_format nc_vector_f32 = {"f32", f32_bytes, f32_copy, f32_value};
const nc_vector_format nc_vector_f16 = {"f16", two_bytes, f16_round, f16_value};
const nc_vector_format nc_vector_bf16 = {"bf16", two_bytes, bf16_round, bf16_value};
