#ifndef NODECHECK_DECODE_TABLES_H
#define NODECHECK_DECODE_TABLES_H

#include "decode.h"

/* Each weight type's kernels for this architecture, fastest first; an entry without a layout ends
 * a table. */
extern const nc_decode_kernel nc_decode_neon[]; /* aarch64's of several types, faster than theirs */
extern const nc_decode_kernel nc_decode_q4_0[];
extern const nc_decode_kernel nc_decode_q4_k[];
extern const nc_decode_kernel nc_decode_q6_k[];
extern const nc_decode_kernel nc_decode_q8_0[];
extern const nc_decode_kernel nc_decode_f16[];
extern const nc_decode_kernel nc_decode_bf16[];
extern const nc_decode_kernel nc_decode_fp8_e4m3[];
extern const nc_decode_kernel nc_decode_int4_g128[];

#endif
