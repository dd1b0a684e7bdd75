#include "nodecheck.h"

#include <stdio.h>
#include <sys/auxv.h>

/* glibc on x86 puts a value of its own in place of the kernel's, so the vector itself is read. */
void nc_hwcaps(unsigned long hwcaps[2]) {
    unsigned long entry[2];
    hwcaps[0] = getauxval(AT_HWCAP);
    hwcaps[1] = getauxval(AT_HWCAP2);
    FILE *vector = fopen("/proc/self/auxv", "re");
    if (!vector) {
        return;
    }
    while (fread(entry, sizeof entry, 1, vector) == 1) {
        if (entry[0] == AT_HWCAP) {
            hwcaps[0] = entry[1];
        } else if (entry[0] == AT_HWCAP2) {
            hwcaps[1] = entry[1];
        }
    }
    (void)fclose(vector);
}
