/* How fast all the given CPUs together read DRAM: a thread and a buffer on each. */
#include "dram_bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

void nc_dram_fail(nc_dram_bench *bench, int error, const char *step, int cpu) {
    int none = 0;
    if (atomic_compare_exchange_strong(&bench->failed, &none, error)) {
        bench->result->failed_step = step;
        bench->result->failed_cpu = cpu;
    }
}

static int pin(int cpu) {
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (!set) {
        return ENOMEM;
    }
    size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    int failed = sched_setaffinity(0, bytes, set) ? errno : 0;
    CPU_FREE(set);
    return failed;
}

static void prepare(nc_dram_reader *self) {
    nc_dram_bench *bench = self->bench;
    size_t bytes = bench->result->bytes_per_thread;
    int error = pin(self->cpu);
    if (error) {
        nc_dram_fail(bench, error, "pin a thread", self->cpu);
        return;
    }
    error = nc_map_dram_buffer(&self->buffer, bytes);
    if (error) {
        nc_dram_fail(bench, error, "map a buffer", self->cpu);
        return;
    }
    nc_fill_dram_buffer(&self->buffer, bytes, &bench->failed);
}

static void *reader_main(void *argument) {
    nc_dram_reader *self = argument;
    /* Nobody may enter a barrier before it is known that all will. */
    pthread_mutex_lock(&self->bench->all_created);
    pthread_mutex_unlock(&self->bench->all_created);
    if (self->bench->complete) {
        prepare(self);
        nc_run_dram_passes(self);
        nc_unmap_dram_buffer(&self->buffer);
    }
    return NULL;
}

static int create_readers(nc_dram_bench *bench) {
    for (int i = 0; i < bench->request->threads; i++) {
        nc_dram_reader *each = &bench->readers[i];
        *each = (nc_dram_reader){.bench = bench, .cpu = bench->request->cpus[i]};
        int error = pthread_create(&each->thread, NULL, reader_main, each);
        if (error) {
            nc_dram_fail(bench, error, "start a thread", each->cpu);
            return i;
        }
    }
    bench->complete = true;
    return bench->request->threads;
}

static void run_readers(nc_dram_bench *bench) {
    /* Threads inherit the mask: signals stay with the caller's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&bench->all_created);
    int created = create_readers(bench);
    pthread_mutex_unlock(&bench->all_created);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < created; i++) {
        pthread_join(bench->readers[i].thread, NULL);
    }
}

int nc_dram_read(const nc_dram_request *request, nc_dram_result *result) {
    nc_dram_bench bench = {.request = request, .result = result};
    size_t bytes = request->bytes_per_thread / NC_HUGE_PAGE_BYTES * NC_HUGE_PAGE_BYTES;
    *result = (nc_dram_result){.failed_step = "allocate memory",
                               .failed_cpu = -1,
                               .bytes_per_thread = bytes,
                               .huge_page_bytes = -1};
    bench.deadline = nc_now_seconds() + request->budget_seconds;
    bench.kernel = nc_choose_read_kernel(request->kernel);
    if (!bench.kernel) {
        result->failed_step = "run this kernel";
        return ENOTSUP;
    }
    result->kernel = bench.kernel->name;
    bench.readers = calloc((size_t)request->threads, sizeof *bench.readers);
    if (!bench.readers) {
        return ENOMEM;
    }
    pthread_mutex_init(&bench.all_created, NULL);
    pthread_barrier_init(&bench.barrier, NULL, (unsigned)request->threads);
    run_readers(&bench);
    pthread_barrier_destroy(&bench.barrier);
    pthread_mutex_destroy(&bench.all_created);
    free(bench.readers);
    return bench.failed;
}
