#ifndef NODECHECK_DRAM_BUFFER_H
#define NODECHECK_DRAM_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { NC_HUGE_PAGE_BYTES = 2 << 20 };

typedef struct {
    void *mapping; /* NULL where there is none */
    size_t mapping_bytes;
    uint64_t *words; /* starts on a 2 MiB boundary */
} nc_dram_buffer;

/* Returns 0 or an errno. */
int nc_map_dram_buffer(nc_dram_buffer *buffer, size_t bytes);
void nc_unmap_dram_buffer(nc_dram_buffer *buffer);

/* Touches every page from the calling thread; stops early once *abandoned is not 0. */
void nc_fill_dram_buffer(nc_dram_buffer *buffer, size_t bytes, const atomic_int *abandoned);

/* What the words of a filled buffer add up to, from the formula and not from the buffer. */
uint64_t nc_expected_sum(size_t bytes);

#endif
