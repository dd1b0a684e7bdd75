#include "nodecheck.h"

#include <inttypes.h>
#include <stdio.h>

static bool holds_any(uintptr_t start, uintptr_t end, const void *const *addresses, int count) {
    for (int i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)addresses[i];
        if (start <= address && address < end) {
            return true;
        }
    }
    return false;
}

int64_t nc_huge_page_bytes(const void *const *addresses, int count) {
    FILE *smaps = fopen("/proc/self/smaps", "re");
    if (!smaps) {
        return -1;
    }
    /* Neighbouring buffers may share one mapping, so mappings are counted, not buffers. */
    int64_t bytes = -1;
    bool ours = false;
    char line[512];
    while (fgets(line, sizeof line, smaps)) {
        uintptr_t start, end;
        int64_t kib;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2) {
            ours = holds_any(start, end, addresses, count);
        } else if (ours && sscanf(line, "AnonHugePages: %" SCNd64 " kB", &kib) == 1) {
            bytes = (bytes < 0 ? 0 : bytes) + kib * 1024;
        }
    }
    (void)fclose(smaps);
    return bytes;
}
