#ifndef NODECHECK_DECODE_NEON_H
#define NODECHECK_DECODE_NEON_H

/* What the aarch64 kernels share: loads from any address, and sums over a register. */

#if defined(__aarch64__)

#include "decode_floats.h"

#include <arm_neon.h>

#define NC_DOTPROD_CODE __attribute__((target("arch=armv8.2-a+dotprod")))

/* The products of 32 integers by fours. */
static inline NC_DOTPROD_CODE int32x4_t nc_dot_32(int8x16_t x0, int8x16_t x1, const int8_t *y) {
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), x0, vld1q_s8(y)), x1, vld1q_s8(y + 16));
}

static inline uint16x4_t nc_load_4_uint16(const void *from) {
    return vreinterpret_u16_u8(vld1_u8(from));
}

static inline float32x4_t nc_load_halves(const void *from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(nc_load_4_uint16(from)));
}

static inline float32x4_t nc_load_4_bf16(const void *from) {
    return vreinterpretq_f32_u32(vshll_n_u16(nc_load_4_uint16(from), 16));
}

static inline float nc_sum_four(const float32x4_t sums[4]) {
    return vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
}

#endif
#endif
