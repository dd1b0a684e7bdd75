#ifndef NODECHECK_GPU_READ_H
#define NODECHECK_GPU_READ_H

#include "gpu_driver.h"

/* A kernel that reads a card's memory and sums it up. Zeroed before it is made. */
typedef struct {
    cuda_module *module;
    cuda_function *function;
    unsigned blocks;
    size_t sums_bytes; /* one word a thread */
    cuda_pointer sums;
} nc_gpu_reader;

/* Sets blocks and sums_bytes, which is what it needs of a card's memory for itself. */
bool nc_gpu_reader_size(nc_gpu_failure *failure, int device, nc_gpu_reader *reader);
/* In the current context, as all that follows; what was made of it is freed by _free. */
bool nc_gpu_reader_make(nc_gpu_failure *failure, nc_gpu_reader *reader);
/* Queues one pass over memory, whole 16 bytes. */
bool nc_gpu_reader_queue(nc_gpu_failure *failure, const nc_gpu_reader *reader, cuda_pointer memory,
                         size_t bytes, cuda_stream *stream);
/* The sum modulo 2^64 of the 64-bit words that the last pass read. */
bool nc_gpu_reader_sum(nc_gpu_failure *failure, const nc_gpu_reader *reader, uint64_t *sum);
/* As nc_gpu_close. */
void nc_gpu_reader_free(nc_gpu_failure *failure, nc_gpu_reader *reader);

#endif
