#ifndef NODECHECK_H
#define NODECHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "native.cdef.h"

double nc_now_seconds(void);

/* Bytes of the mappings that hold these addresses that lie in 2 MiB pages; -1 unknown. */
int64_t nc_huge_page_bytes(const void *const *addresses, int count);

#endif
