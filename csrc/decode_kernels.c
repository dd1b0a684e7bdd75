#include "decode_tables.h"

const nc_decode_kernel *nc_decode_kernel_at(int index) {
    static const nc_decode_kernel *const tables[] = {
        nc_decode_neon, nc_decode_q4_0, nc_decode_q4_k,     nc_decode_q6_k,      nc_decode_q8_0,
        nc_decode_f16,  nc_decode_bf16, nc_decode_fp8_e4m3, nc_decode_int4_g128,
    };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const nc_decode_kernel *kernel = tables[t]; kernel->layout; kernel++)
            if (!index--)
                return kernel;
    return NULL;
}
