#ifndef NODECHECK_STREAM_H
#define NODECHECK_STREAM_H

#include "isa.h"
#include "nodecheck.h"

typedef enum { NC_READ, NC_WRITE, NC_COPY, NC_TRIAD } nc_stream_operation;

enum { NC_TRIAD_FACTOR_INVERSE = 2 }; /* a = b + c / 2: exact, so that fused or not is the same */

/* One window of a pass. bytes is the size of each array, a whole number of iterations. */
typedef struct {
    uint64_t *destination;
    const uint64_t *source, *second_source;
    size_t bytes;
    uint64_t
        value; /* what NC_WRITE stores in every word; never zero: that is faster on some CPUs */
} nc_arrays;

/* As in likwid, a kernel carries what a reported rate is computed from. */
typedef struct {
    nc_stream_operation operation;
    nc_isa isa;
    const char *variant;        /* "plain", "prefetch", "non-temporal", "non-temporal prefetch" */
    size_t bytes_per_iteration; /* of each array */
    uint64_t (*run)(const nc_arrays *arrays); /* NC_READ: the sum of all words */
} nc_stream_kernel;

/* All of this architecture, usable here or not; NULL past the last. */
const nc_stream_kernel *nc_stream_kernel_at(int index);

#endif
