/* The kernels without Python: for sanitizers, and for another architecture under qemu-user. */
#include "nodecheck.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 4 << 20, PASSES = 6 };

static void print_witness(void) {
    unsigned char outcomes[16] = {0};
    if (nc_witness(outcomes, 16) == ENOSYS) {
        puts("witness: none");
        return;
    }
    for (int i = 0; nc_witness_name(i); i++) {
        printf("witness: %s %d\n", nc_witness_name(i), outcomes[i]);
        assert(outcomes[i] == 1 || outcomes[i] == 2);
    }
}

static int read_dram(size_t omit_bytes, int cpu) {
    const int cpus[2] = {0, cpu};
    nc_read_pass passes[PASSES];
    nc_dram_result result;
    nc_dram_request request = {
        .cpus = cpus,
        .threads = 2,
        .bytes_per_thread = BYTES,
        .omit_bytes = omit_bytes,
        .budget_seconds = 0.5,
        .max_passes = PASSES,
        .passes = passes,
    };
    int failed = nc_dram_read(&request, &result);
    printf("dram: %s %d passes, %s\n", result.kernel, result.passes, result.failed_step);
    return failed;
}

int main(void) {
    unsigned long hwcaps[2];
    nc_hwcaps(hwcaps);
    print_witness();
    assert(nc_clock_gettime_seconds() > 0);
    nc_set_mempolicy_default_errno();
    assert(read_dram(0, 0) == 0);
    assert(read_dram(4096, 0) == EIO);
    assert(read_dram(0, 4095) == EINVAL);
    return 0;
}
