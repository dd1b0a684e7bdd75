#ifndef NODECHECK_H
#define NODECHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "native.cdef.h"

typedef uint64_t nc_read_function(const void *buffer, size_t bytes);

/* As in likwid, a kernel carries what a reported rate is computed from. */
typedef struct {
    const char *name;
    size_t bytes_per_iteration; /* a pass reads bytes / bytes_per_iteration iterations, 1 stream */
    nc_read_function *read;     /* returns the sum of all 64-bit words */
    bool (*usable)(void);
} nc_read_kernel;

/* NULL where the kernel is unknown or this CPU cannot run it. */
const nc_read_kernel *nc_choose_read_kernel(const char *wanted);

double nc_now_seconds(void);

/* Bytes of the mappings that hold these addresses that lie in 2 MiB pages; -1 unknown. */
int64_t nc_huge_page_bytes(const void *const *addresses, int count);

#endif
