#include "nodecheck.h"

#include <stdlib.h>
#include <time.h>

enum { BATCHES = 64, CALLS_PER_BATCH = 32 };

/* A slow clock source (HPET, ACPI PM, a trapped TSC) must not make this slow too. */
static const double LONGEST_SECONDS = 3e-3;

double nc_now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double batch_seconds(void) {
    struct timespec ignored;
    double start = nc_now_seconds();
    for (int i = 0; i < CALLS_PER_BATCH - 1; i++) {
        clock_gettime(CLOCK_MONOTONIC, &ignored);
    }
    return nc_now_seconds() - start;
}

double nc_clock_gettime_seconds(void) {
    double batches[BATCHES];
    size_t taken = 0;
    double began = nc_now_seconds();
    do {
        batches[taken++] = batch_seconds();
    } while (taken < BATCHES && nc_now_seconds() - began < LONGEST_SECONDS);
    qsort(batches, taken, sizeof *batches, ascending);
    return batches[taken / 2] / CALLS_PER_BATCH;
}
