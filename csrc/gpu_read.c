/* The read of a card's memory: a kernel in the driver's own assembly language, which it compiles
 * for whatever card there is. */
#include "gpu_read.h"

#include <stdlib.h>

/* So few threads that all run at once on every generation, each with four loads in flight: 64 KiB
 * a multiprocessor, which is above what bandwidth times latency asks of any. */
enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 4 };

/* Threads walk through memory side by side, 16 bytes a load, and each stores its sum at the end, so
 * that no load can be left out. The oldest target: every driver of a 64-bit card takes it. */
static const char PTX[] =
    ".version 4.0\n"
    ".target sm_30\n"
    ".address_size 64\n"
    ".visible .entry nodecheck_read(\n"
    "  .param .u64 memory, .param .u64 bytes, .param .u64 sums)\n"
    "{\n"
    "  .reg .pred %p<3>;\n"
    "  .reg .b32 %r<5>;\n"
    "  .reg .b64 %rd<30>;\n"
    /* rd1 where to read, rd2 the end, rd3 where the sum goes */
    "  ld.param.u64 %rd1, [memory];\n"
    "  ld.param.u64 %rd2, [bytes];\n"
    "  ld.param.u64 %rd3, [sums];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n"
    "  cvta.to.global.u64 %rd3, %rd3;\n"
    "  add.u64 %rd2, %rd2, %rd1;\n"
    /* r4 this thread, of all; rd4 the step from one of its loads to the next */
    "  mov.u32 %r1, %ctaid.x;\n"
    "  mov.u32 %r2, %ntid.x;\n"
    "  mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "  mov.u32 %r1, %nctaid.x;\n"
    "  mul.wide.u32 %rd4, %r1, %r2;\n"
    "  shl.b64 %rd4, %rd4, 4;\n"
    "  mul.wide.u32 %rd5, %r4, 16;\n"
    "  add.u64 %rd1, %rd1, %rd5;\n"
    "  mul.wide.u32 %rd5, %r4, 8;\n"
    "  add.u64 %rd3, %rd3, %rd5;\n"
    /* rd6 three steps, rd7 and rd8 the sums of the halves */
    "  mul.lo.u64 %rd6, %rd4, 3;\n"
    "  mov.u64 %rd7, 0;\n"
    "  mov.u64 %rd8, 0;\n"
    "FOUR:\n"
    "  add.u64 %rd9, %rd1, %rd6;\n"
    "  setp.ge.u64 %p1, %rd9, %rd2;\n"
    "  @%p1 bra ONE;\n"
    "  add.u64 %rd10, %rd1, %rd4;\n"
    "  add.u64 %rd11, %rd10, %rd4;\n"
    "  ld.global.v2.u64 {%rd12, %rd13}, [%rd1];\n"
    "  ld.global.v2.u64 {%rd14, %rd15}, [%rd10];\n"
    "  ld.global.v2.u64 {%rd16, %rd17}, [%rd11];\n"
    "  ld.global.v2.u64 {%rd18, %rd19}, [%rd9];\n"
    "  add.u64 %rd20, %rd12, %rd14;\n"
    "  add.u64 %rd21, %rd13, %rd15;\n"
    "  add.u64 %rd22, %rd16, %rd18;\n"
    "  add.u64 %rd23, %rd17, %rd19;\n"
    "  add.u64 %rd20, %rd20, %rd22;\n"
    "  add.u64 %rd21, %rd21, %rd23;\n"
    "  add.u64 %rd7, %rd7, %rd20;\n"
    "  add.u64 %rd8, %rd8, %rd21;\n"
    "  add.u64 %rd1, %rd9, %rd4;\n"
    "  bra FOUR;\n"
    "ONE:\n"
    "  setp.ge.u64 %p2, %rd1, %rd2;\n"
    "  @%p2 bra DONE;\n"
    "  ld.global.v2.u64 {%rd12, %rd13}, [%rd1];\n"
    "  add.u64 %rd7, %rd7, %rd12;\n"
    "  add.u64 %rd8, %rd8, %rd13;\n"
    "  add.u64 %rd1, %rd1, %rd4;\n"
    "  bra ONE;\n"
    "DONE:\n"
    "  add.u64 %rd7, %rd7, %rd8;\n"
    "  st.global.u64 [%rd3], %rd7;\n"
    "  ret;\n"
    "}\n";

bool nc_gpu_reader_size(nc_gpu_failure *failure, int device, nc_gpu_reader *reader) {
    int multiprocessors = 0;
    if (!CUDA(failure, cuDeviceGetAttribute, &multiprocessors, CUDA_ATTRIBUTE_MULTIPROCESSORS,
              device)) {
        return false;
    }
    reader->blocks = BLOCKS_PER_MULTIPROCESSOR * (unsigned)multiprocessors;
    reader->sums_bytes = (size_t)reader->blocks * THREADS * sizeof(uint64_t);
    return true;
}

bool nc_gpu_reader_make(nc_gpu_failure *failure, nc_gpu_reader *reader) {
    return CUDA(failure, cuMemAlloc_v2, &reader->sums, reader->sums_bytes) &&
           CUDA(failure, cuModuleLoadData, &reader->module, PTX) &&
           CUDA(failure, cuModuleGetFunction, &reader->function, reader->module, "nodecheck_read");
}

bool nc_gpu_reader_queue(nc_gpu_failure *failure, const nc_gpu_reader *reader, cuda_pointer memory,
                         size_t bytes, cuda_stream *stream) {
    uint64_t size = bytes;
    cuda_pointer sums = reader->sums;
    void *arguments[] = {&memory, &size, &sums};
    return CUDA(failure, cuLaunchKernel, reader->function, reader->blocks, 1, 1, THREADS, 1, 1, 0,
                stream, arguments, NULL);
}

bool nc_gpu_reader_sum(nc_gpu_failure *failure, const nc_gpu_reader *reader, uint64_t *sum) {
    size_t bytes = reader->sums_bytes;
    uint64_t *sums = calloc(1, bytes);
    if (!sums) {
        return nc_gpu_refused(failure, CUDA_CALL_calloc, NC_GPU_SYSTEM_REFUSED, "no memory");
    }
    bool told = CUDA(failure, cuMemcpyDtoH_v2, sums, reader->sums, bytes);
    *sum = 0;
    for (size_t i = 0; told && i < bytes / sizeof *sums; i++) {
        *sum += sums[i];
    }
    free(sums);
    return told;
}

void nc_gpu_reader_free(nc_gpu_failure *failure, nc_gpu_reader *reader) {
    if (reader->module) {
        (void)CUDA_CODE(failure, cuModuleUnload, reader->module);
    }
    if (reader->sums) {
        (void)CUDA_CODE(failure, cuMemFree_v2, reader->sums);
    }
}
