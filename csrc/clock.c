#include "nodecheck.h"

#include <time.h>

enum { BATCHES = 64, FEWEST_BATCHES = 8, CALLS_PER_BATCH = 32 };

/* A slow clock source (HPET, ACPI PM, a trapped TSC) must not make this slow too. */
static const double LONGEST_SECONDS = 3e-3;

double nc_now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double batch_seconds(void) {
    struct timespec ignored;
    double start = nc_now_seconds();
    for (int i = 0; i < CALLS_PER_BATCH - 1; i++) {
        clock_gettime(CLOCK_MONOTONIC, &ignored);
    }
    return nc_now_seconds() - start;
}

/* Of the fastest batch: whoever takes the CPU meanwhile makes others slower, and none faster. */
double nc_clock_gettime_seconds(void) {
    double best = batch_seconds();
    double end = nc_now_seconds() + LONGEST_SECONDS;
    for (int taken = 1; taken < BATCHES; taken++) {
        if (taken >= FEWEST_BATCHES && nc_now_seconds() >= end) {
            break;
        }
        double seconds = batch_seconds();
        best = seconds < best ? seconds : best;
    }
    return best / CALLS_PER_BATCH;
}
