/* Threads that do the same work at the same time, and what kept them from it. */
#include "workers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Ahead of each start, so that waking up after a barrier stays out of the measured window. */
static const double LEAD_SECONDS = 200e-6;

typedef struct {
    struct team *team;
    pthread_t thread;
    int number;
    int cpu;
    double start, end, cpu_seconds; /* of the last pass */
    double run_delay_seconds;       /* of the group; negative where the kernel does not tell */
    long involuntary_switches;
} worker;

typedef struct team {
    nc_work *work;
    void *context;
    nc_group *group;
    int threads;
    worker *workers;
    pthread_mutex_t all_created; /* held until all are: nobody may enter a barrier before */
    pthread_barrier_t barrier;
    bool complete;
    double start_at;
    atomic_int failed;
} team;

double nc_thread_cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void fail(team *all, int error, const char *step, int cpu) {
    int none = 0;
    if (atomic_compare_exchange_strong(&all->failed, &none, error)) {
        all->group->failed_step = step;
        all->group->failed_cpu = cpu;
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

/* Runnable and not run, since the thread began: the second field, in nanoseconds. */
static double run_delay_seconds(void) {
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (!file) {
        return -1;
    }
    uint64_t ran, waited;
    int found = fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited);
    (void)fclose(file);
    return found == 2 ? (double)waited * 1e-9 : -1;
}

static long involuntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nivcsw;
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

static void make_pass(worker *self, int pass) {
    team *all = self->team;
    wait_until(all->start_at);
    double cpu_before = nc_thread_cpu_seconds();
    self->start = nc_now_seconds();
    int error = all->work(all->context, self->number, pass);
    self->end = nc_now_seconds();
    self->cpu_seconds = nc_thread_cpu_seconds() - cpu_before;
    if (error) {
        fail(all, error, "verify what a kernel did", self->cpu);
    }
}

static void record_pass(const team *all, nc_pass *record) {
    double start = all->workers[0].start;
    double end = all->workers[0].end;
    double cpu_share = 1;
    for (int i = 0; i < all->threads; i++) {
        const worker *each = &all->workers[i];
        double share = each->cpu_seconds / (each->end - each->start);
        start = each->start < start ? each->start : start;
        end = each->end > end ? each->end : end;
        cpu_share = share < cpu_share ? share : cpu_share;
    }
    *record = (nc_pass){end - start, cpu_share};
}

static void make_passes(worker *self) {
    team *all = self->team;
    int warm_ups = all->group->warm_ups;
    bool keeps_record = self == all->workers;
    for (int pass = 0; pass < warm_ups + all->group->passes; pass++) {
        if (keeps_record) {
            all->start_at = nc_now_seconds() + LEAD_SECONDS;
        }
        pthread_barrier_wait(&all->barrier);
        if (!all->failed) {
            make_pass(self, pass);
        }
        pthread_barrier_wait(&all->barrier);
        if (keeps_record && pass >= warm_ups && !all->failed) {
            record_pass(all, &all->group->records[pass - warm_ups]);
        }
    }
}

static void *worker_main(void *argument) {
    worker *self = argument;
    team *all = self->team;
    pthread_mutex_lock(&all->all_created);
    pthread_mutex_unlock(&all->all_created);
    if (!all->complete) {
        return NULL;
    }
    int error = pin(self->cpu);
    if (error) {
        fail(all, error, "pin a thread", self->cpu);
    }
    long switches_before = involuntary_switches();
    double waited_before = run_delay_seconds();
    make_passes(self);
    double waited = run_delay_seconds();
    self->run_delay_seconds = waited < 0 || waited_before < 0 ? -1 : waited - waited_before;
    self->involuntary_switches = involuntary_switches() - switches_before;
    return NULL;
}

static int create_workers(team *all, const int *cpus) {
    for (int i = 0; i < all->threads; i++) {
        worker *each = &all->workers[i];
        *each = (worker){.team = all, .number = i, .cpu = cpus[i]};
        int error = pthread_create(&each->thread, NULL, worker_main, each);
        if (error) {
            fail(all, error, "start a thread", each->cpu);
            return i;
        }
    }
    all->complete = true;
    return all->threads;
}

static void run_workers(team *all, const int *cpus) {
    /* Threads inherit the mask: signals stay with the caller's own threads. */
    sigset_t blocked, before;
    sigfillset(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_mutex_lock(&all->all_created);
    int created = create_workers(all, cpus);
    pthread_mutex_unlock(&all->all_created);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < created; i++) {
        pthread_join(all->workers[i].thread, NULL);
    }
}

static void sum_up(const team *all) {
    nc_group *group = all->group;
    group->run_delay_seconds = 0;
    group->involuntary_switches = 0;
    for (int i = 0; i < all->threads; i++) {
        double delay = all->workers[i].run_delay_seconds;
        bool known = delay >= 0 && group->run_delay_seconds >= 0;
        group->run_delay_seconds = known ? group->run_delay_seconds + delay : -1;
        group->involuntary_switches += all->workers[i].involuntary_switches;
    }
}

int nc_run_group(const int *cpus, int threads, nc_work *work, void *context, nc_group *group) {
    team all = {.work = work, .context = context, .group = group, .threads = threads};
    group->failed_step = "allocate memory";
    group->failed_cpu = -1;
    all.workers = calloc((size_t)threads, sizeof *all.workers);
    if (!all.workers) {
        return ENOMEM;
    }
    pthread_mutex_init(&all.all_created, NULL);
    pthread_barrier_init(&all.barrier, NULL, (unsigned)threads);
    run_workers(&all, cpus);
    sum_up(&all);
    pthread_barrier_destroy(&all.barrier);
    pthread_mutex_destroy(&all.all_created);
    free(all.workers);
    return all.failed;
}
