#ifndef NODECHECK_ARENA_H
#define NODECHECK_ARENA_H

#include "nodecheck.h"

#define NC_HUGE_PAGE_BYTES ((size_t)2 << 20)

/* One thread's memory: a source that stays as it was filled, then a destination to write to. */
typedef struct {
    int cpu;
    void *mapping;
    size_t mapping_bytes;
    uint64_t *source;
    uint64_t *destination;
} nc_slab;

struct nc_arena {
    int threads;
    size_t source_bytes; /* a slab's, whole 2 MiB, as destination_bytes */
    size_t destination_bytes;
    nc_slab slabs[];
};

/* Sum modulo 2^64 of the words [from, to) of a filled source. */
uint64_t nc_source_sum(size_t from, size_t to);

#endif
