/* Readers meet at a barrier, start each pass at one agreed instant and sum their own buffer; reader
 * 0 keeps the record and the time table. */
#include "dram_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_PASSES = 5, PASSES_PER_GROUP = 4 };

/* Ahead of each start, so that waking up after a barrier stays out of the measured window. */
static const double LEAD_SECONDS = 200e-6;

static double thread_cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void wait_until(double instant) {
    double wake = instant - LEAD_SECONDS;
    struct timespec until = {.tv_sec = (time_t)wake};
    until.tv_nsec = (long)((wake - (double)until.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    while (nc_now_seconds() < instant) {
    }
}

static void read_pass(nc_dram_reader *self) {
    nc_dram_bench *bench = self->bench;
    size_t bytes = bench->result->bytes_per_thread;
    wait_until(bench->start_at);
    double cpu_before = thread_cpu_seconds();
    self->start = nc_now_seconds();
    uint64_t sum = bench->kernel->read(self->buffer.words, bytes - bench->request->omit_bytes);
    self->end = nc_now_seconds();
    self->cpu_seconds = thread_cpu_seconds() - cpu_before;
    if (sum != nc_expected_sum(bytes)) {
        nc_dram_fail(bench, EIO, "read every word of the buffer", self->cpu);
    }
}

static void record_pass(nc_dram_bench *bench) {
    double start = bench->readers[0].start;
    double end = bench->readers[0].end;
    double cpu_share = 1;
    for (int i = 0; i < bench->request->threads; i++) {
        const nc_dram_reader *each = &bench->readers[i];
        double share = each->cpu_seconds / (each->end - each->start);
        start = each->start < start ? each->start : start;
        end = each->end > end ? each->end : end;
        cpu_share = share < cpu_share ? share : cpu_share;
    }
    bench->request->passes[bench->result->passes++] = (nc_read_pass){end - start, cpu_share};
}

/* Short groups of passes spread over the whole budget see the host's slow drift, and leave the CPUs
 * to others in between. */
static void plan_next_pass(nc_dram_bench *bench) {
    int made = bench->result->passes;
    int most = bench->request->max_passes;
    double now = nc_now_seconds();
    double group_seconds = (bench->deadline - bench->began) * PASSES_PER_GROUP / most;
    double earliest = now + LEAD_SECONDS;
    bench->start_at = earliest;
    if (made && made % PASSES_PER_GROUP == 0) {
        int group = made / PASSES_PER_GROUP;
        double group_start = bench->began + group * group_seconds;
        bench->start_at = group_start > earliest ? group_start : earliest;
    }
    double last = made ? bench->request->passes[made - 1].seconds : 0;
    bool late = made >= LEAST_PASSES && bench->start_at + last > bench->deadline;
    bench->done = bench->failed || made >= most || late;
}

static void start_record(nc_dram_bench *bench) {
    int threads = bench->request->threads;
    const void **buffers = calloc((size_t)threads, sizeof *buffers);
    if (buffers) {
        for (int i = 0; i < threads; i++) {
            buffers[i] = bench->readers[i].buffer.words;
        }
        bench->result->huge_page_bytes = nc_huge_page_bytes(buffers, threads);
        free(buffers);
    }
    bench->began = nc_now_seconds();
}

void nc_run_dram_passes(nc_dram_reader *self) {
    nc_dram_bench *bench = self->bench;
    bool keeps_record = self == bench->readers;
    pthread_barrier_wait(&bench->barrier);
    if (keeps_record) {
        start_record(bench);
    }
    for (;;) {
        if (keeps_record) {
            plan_next_pass(bench);
        }
        pthread_barrier_wait(&bench->barrier);
        if (bench->done) {
            return;
        }
        read_pass(self);
        pthread_barrier_wait(&bench->barrier);
        if (keeps_record) {
            record_pass(bench);
        }
    }
}
