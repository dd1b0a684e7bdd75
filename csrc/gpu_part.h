#ifndef NODECHECK_GPU_PART_H
#define NODECHECK_GPU_PART_H

#include "gpu_read.h"

/* One card's part in a step: its memory and the host's, where copies come from and where they go
 * filled with two patterns. */
typedef struct {
    nc_gpu_copy wanted;
    nc_gpu_failure *failure; /* where what fails is told */
    uint64_t seed;           /* of the pattern that is copied */
    cuda_context *context, *peer_context;
    size_t bytes;
    cuda_stream *stream;
    cuda_event *begin, *end;
    cuda_pointer near; /* on the card */
    cuda_pointer far;  /* the copy's other end, on the card or its peer */
    nc_gpu_reader reader;
    void *host;
    size_t host_bytes;
} nc_gpu_part;

/* The first of a part's functions: contexts are made where they are not there yet. A part whose
 * failure it sets is good for nothing but release. */
void nc_gpu_part_begin(nc_gpu_part *self, const nc_gpu_copy *wanted);
/* In the thread that copies, as all that follows. */
bool nc_gpu_part_prepare(nc_gpu_part *self);
/* After copies: whether they left what was to be copied. */
bool nc_gpu_part_compare(nc_gpu_part *self);
/* Frees all that was made. As nc_gpu_close: the copies were made. */
void nc_gpu_part_release(nc_gpu_part *self);

#endif
