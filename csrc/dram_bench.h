#ifndef NODECHECK_DRAM_BENCH_H
#define NODECHECK_DRAM_BENCH_H

#include "dram_buffer.h"
#include "nodecheck.h"

#include <pthread.h>

typedef struct nc_dram_bench nc_dram_bench;

/* One thread on one CPU with its own buffer. */
typedef struct {
    nc_dram_bench *bench;
    int cpu;
    pthread_t thread;
    nc_dram_buffer buffer;
    double start, end, cpu_seconds; /* of the last pass */
} nc_dram_reader;

/* Between two barriers only reader 0 writes, save for failed. */
struct nc_dram_bench {
    const nc_dram_request *request;
    nc_dram_result *result;
    const nc_read_kernel *kernel;
    nc_dram_reader *readers;
    pthread_mutex_t all_created;
    pthread_barrier_t barrier;
    atomic_int failed; /* the first errno */
    bool complete;     /* all readers exist; set before all_created is first released */
    bool done;
    double began, deadline, start_at; /* instants of CLOCK_MONOTONIC */
};

/* Keeps the first failure. */
void nc_dram_fail(nc_dram_bench *bench, int error, const char *step, int cpu);

/* Every reader must call it, a failed one too: they meet at the barrier. */
void nc_run_dram_passes(nc_dram_reader *self);

#endif
