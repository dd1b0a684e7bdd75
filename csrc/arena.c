/* Memory for a measurement: a slab for each thread, in 2 MiB pages where the kernel gives them. */
#include "arena.h"

#include "workers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Word i holds FIRST + (i + 1) * STEP: never zero (untouched pages all map the one zero page, and
 * some CPUs write zeros faster), a double in [1, 2), and none can go missing from a sum unseen. */
static const uint64_t FIRST = 0x3ff0000000000000;
static const uint64_t STEP = 0x9e377;

uint64_t nc_source_sum(size_t from, size_t to) {
    uint64_t words = to - from, first_and_last = (uint64_t)from + 1 + to;
    uint64_t indexes =
        words % 2 ? words * (first_and_last / 2) : words / 2 * first_and_last; /* exact */
    return words * FIRST + indexes * STEP;
}

static int map_slab(nc_slab *slab, const nc_arena *arena, bool huge_pages) {
    size_t source_bytes = arena->source_bytes, destination_bytes = arena->destination_bytes;
    size_t bytes = source_bytes + destination_bytes;
    size_t mapping_bytes = bytes + NC_HUGE_PAGE_BYTES;
    void *mapping =
        mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return errno;
    }
    size_t beyond_boundary = (uintptr_t)mapping % NC_HUGE_PAGE_BYTES;
    char *aligned = (char *)mapping + (NC_HUGE_PAGE_BYTES - beyond_boundary) % NC_HUGE_PAGE_BYTES;
    /* May be refused (no THP in this kernel): what was obtained is reported, not assumed. */
    if (huge_pages) {
        madvise(aligned, bytes, MADV_HUGEPAGE);
    }
    slab->mapping = mapping;
    slab->mapping_bytes = mapping_bytes;
    slab->source = (uint64_t *)(void *)aligned;
    slab->destination = (uint64_t *)(void *)(aligned + source_bytes);
    return 0;
}

static size_t whole_pages(size_t bytes) { return bytes / NC_HUGE_PAGE_BYTES * NC_HUGE_PAGE_BYTES; }

int nc_arena_new(const int *cpus, int threads, size_t source_bytes, size_t destination_bytes,
                 bool huge_pages, nc_arena **made) {
    nc_arena *arena = calloc(1, sizeof *arena + (size_t)threads * sizeof *arena->slabs);
    if (!arena) {
        return ENOMEM;
    }
    arena->threads = threads;
    arena->source_bytes = whole_pages(source_bytes);
    arena->destination_bytes = whole_pages(destination_bytes);
    for (int i = 0; i < threads; i++) {
        arena->slabs[i].cpu = cpus[i];
        int error = map_slab(&arena->slabs[i], arena, huge_pages);
        if (error) {
            nc_arena_free(arena);
            return error;
        }
    }
    *made = arena;
    return 0;
}

void nc_arena_free(nc_arena *arena) {
    for (int i = 0; i < arena->threads; i++) {
        if (arena->slabs[i].mapping) {
            munmap(arena->slabs[i].mapping, arena->slabs[i].mapping_bytes);
        }
    }
    free(arena);
}

typedef struct {
    nc_arena *arena;
    size_t from, to; /* words */
} touch;

static int touch_words(void *context, int thread, int pass) {
    (void)pass;
    const touch *wanted = context;
    uint64_t *words = wanted->arena->slabs[thread].source; /* the destination lies behind it */
    for (size_t i = wanted->from; i < wanted->to; i++) {
        words[i] = FIRST + (i + 1) * STEP;
    }
    return 0;
}

int nc_arena_touch(nc_arena *arena, const int *cpus, size_t from, size_t to, nc_group *group) {
    touch wanted = {arena, from / sizeof(uint64_t), to / sizeof(uint64_t)};
    group->warm_ups = 1; /* the one and only pass, not recorded */
    group->passes = 0;
    return nc_run_group(cpus, arena->threads, touch_words, &wanted, group);
}

void nc_arena_shrink(nc_arena *arena, size_t source_bytes) {
    arena->source_bytes = whole_pages(source_bytes);
}

int64_t nc_arena_huge_page_bytes(const nc_arena *arena) {
    const void **addresses = calloc((size_t)arena->threads, sizeof *addresses);
    if (!addresses) {
        return -1;
    }
    for (int i = 0; i < arena->threads; i++) {
        addresses[i] = arena->slabs[i].source;
    }
    int64_t bytes = nc_huge_page_bytes(addresses, arena->threads);
    free(addresses);
    return bytes;
}
