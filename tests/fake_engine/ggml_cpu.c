/* What libggml-cpu.so says of itself: the instruction sets that it was built with. */

#ifndef BUILT
#define BUILT 0
#endif

#define SAYS(set, value)          \
    int ggml_cpu_has_##set(void); \
    int ggml_cpu_has_##set(void) { return value; }

SAYS(sse3, BUILT)
SAYS(ssse3, BUILT)
SAYS(avx, BUILT)
SAYS(avx2, BUILT)
SAYS(bmi2, BUILT)
SAYS(f16c, BUILT)
SAYS(fma, BUILT)
SAYS(avx_vnni, 0)
SAYS(avx512, 0)
SAYS(avx512_vbmi, 0)
SAYS(avx512_vnni, 0)
SAYS(avx512_bf16, 0)
SAYS(amx_int8, 0)
