#include "dram_buffer.h"

#include <errno.h>
#include <sys/mman.h>

enum { FILL_STEP_BYTES = 64 << 20 };

/* Words are multiples of an odd number: none is zero (untouched pages all map the one zero page and
 * some CPUs write zeros faster), and no cache line can go missing without changing the sum. */
static const uint64_t FACTOR = 0x9e3779b97f4a7c15;

int nc_map_dram_buffer(nc_dram_buffer *buffer, size_t bytes) {
    size_t mapping_bytes = bytes + NC_HUGE_PAGE_BYTES;
    void *mapping =
        mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return errno;
    }
    size_t beyond_boundary = (uintptr_t)mapping % NC_HUGE_PAGE_BYTES;
    char *aligned = (char *)mapping + (NC_HUGE_PAGE_BYTES - beyond_boundary) % NC_HUGE_PAGE_BYTES;
    /* May be refused (no THP in this kernel): what was obtained is reported, not assumed. */
    madvise(aligned, bytes, MADV_HUGEPAGE);
    *buffer = (nc_dram_buffer){mapping, mapping_bytes, (uint64_t *)(void *)aligned};
    return 0;
}

void nc_unmap_dram_buffer(nc_dram_buffer *buffer) {
    if (buffer->mapping) {
        munmap(buffer->mapping, buffer->mapping_bytes);
    }
    *buffer = (nc_dram_buffer){0};
}

void nc_fill_dram_buffer(nc_dram_buffer *buffer, size_t bytes, const atomic_int *abandoned) {
    size_t words = bytes / sizeof(uint64_t);
    size_t step = FILL_STEP_BYTES / sizeof(uint64_t);
    for (size_t from = 0; from < words && !*abandoned; from += step) {
        size_t to = words - from < step ? words : from + step;
        for (size_t i = from; i < to; i++) {
            buffer->words[i] = (i + 1) * FACTOR;
        }
    }
}

uint64_t nc_expected_sum(size_t bytes) {
    uint64_t words = bytes / sizeof(uint64_t);
    return words / 2 * (words + 1) * FACTOR; /* whole 2 MiB: the count is even */
}
