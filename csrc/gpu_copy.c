/* Copies between host and cards, all cards of a step at once, timed by CUDA's events. */
#include "gpu_part.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* A sample is long against what it costs to queue it, and there are many of them. */
static const double SHORTEST_SAMPLE_SECONDS = 2e-3, LONGEST_SAMPLE_SECONDS = 50e-3;
enum { SAMPLES_WANTED = 32, FEWEST_SAMPLES = 3, MOST_COPIES = 512, GROWTH = 8 };

typedef struct {
    nc_gpu_part part;
    nc_gpu_step *step;
    pthread_t thread;
} worker;

struct nc_gpu_step {
    pthread_mutex_t all_created; /* held until all are: the barrier has to know how many */
    pthread_barrier_t prepared;
    int count;
    worker workers[];
};

static bool queue_copy(const nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    size_t bytes = self->bytes;
    switch (self->wanted.operation) {
    case NC_GPU_HOST_TO_DEVICE:
        return CUDA(failure, cuMemcpyHtoDAsync_v2, self->near, self->host, bytes, self->stream);
    case NC_GPU_DEVICE_TO_HOST:
        return CUDA(failure, cuMemcpyDtoHAsync_v2, self->host, self->near, bytes, self->stream);
    case NC_GPU_PEER_TO_PEER:
        return CUDA(failure, cuMemcpyPeerAsync, self->far, self->peer_context, self->near,
                    self->context, bytes, self->stream);
    case NC_GPU_DEVICE_COPY:
        return CUDA(failure, cuMemcpyDtoDAsync_v2, self->far, self->near, bytes, self->stream);
    default:
        return nc_gpu_reader_queue(failure, &self->reader, self->near, bytes, self->stream);
    }
}

static bool make_copies(const nc_gpu_part *self, int copies, double *seconds) {
    nc_gpu_failure *failure = self->failure;
    bool queued = CUDA(failure, cuEventRecord, self->begin, self->stream);
    for (int i = 0; queued && i < copies; i++) {
        queued = queue_copy(self);
    }
    float milliseconds = 0;
    bool done = queued && CUDA(failure, cuEventRecord, self->end, self->stream) &&
                CUDA(failure, cuEventSynchronize, self->end) &&
                CUDA(failure, cuEventElapsedTime, &milliseconds, self->begin, self->end);
    *seconds = done ? (double)milliseconds * 1e-3 : 0;
    return done;
}

static int as_many_as_take(double wanted_seconds, int copies, double seconds) {
    double most = (double)copies * GROWTH;
    double wanted = seconds > 0 ? wanted_seconds / seconds * copies : most;
    wanted = wanted > most ? most : wanted;
    return wanted > MOST_COPIES ? MOST_COPIES : wanted < 1 ? 1 : (int)wanted;
}

static void enter_phase(const nc_gpu_part *self, int phase) {
    __atomic_store_n(&self->wanted.result->phase, phase, __ATOMIC_RELEASE);
}

static bool measure(const nc_gpu_part *self) {
    nc_gpu_result *result = self->wanted.result;
    double sample_seconds = self->wanted.seconds / SAMPLES_WANTED;
    sample_seconds =
        sample_seconds < SHORTEST_SAMPLE_SECONDS ? SHORTEST_SAMPLE_SECONDS : sample_seconds;
    sample_seconds =
        sample_seconds > LONGEST_SAMPLE_SECONDS ? LONGEST_SAMPLE_SECONDS : sample_seconds;
    double bytes = (double)self->bytes * (self->wanted.operation == NC_GPU_DEVICE_COPY ? 2 : 1);
    double from = nc_now_seconds() + self->wanted.warm_up_seconds;
    double to = from + self->wanted.seconds, took;
    int copies = 1, made = 0;
    while (made < FEWEST_SAMPLES || nc_now_seconds() < to) {
        bool warm = nc_now_seconds() >= from;
        if (warm) {
            enter_phase(self, NC_GPU_COPYING);
        }
        if (!make_copies(self, copies, &took)) {
            return false;
        }
        if (!warm) {
            copies = as_many_as_take(sample_seconds, copies, took);
            continue;
        }
        made++;
        if (took > 0 && result->samples < NC_GPU_SAMPLES) { /* then on, for the others' sake */
            result->rates[result->samples++] = bytes * copies / took;
        }
    }
    return result->samples ||
           nc_gpu_refused(self->failure, CUDA_CALL_cuEventElapsedTime, NC_GPU_SYSTEM_REFUSED,
                          "no time passed between CUDA's events");
}

/* --- threads --- */

static void *worker_main(void *argument) {
    worker *self = argument;
    nc_gpu_step *step = self->step;
    nc_gpu_part *part = &self->part;
    pthread_mutex_lock(&step->all_created);
    pthread_mutex_unlock(&step->all_created);
    bool ready = !part->failure->error && nc_gpu_part_prepare(part);
    pthread_barrier_wait(&step->prepared);
    (void)(ready && measure(part) && nc_gpu_part_compare(part));
    enter_phase(part, NC_GPU_DONE);
    nc_gpu_part_release(part);
    return NULL;
}

int nc_gpu_start(const nc_gpu_copy *copies, int count, nc_gpu_step **started) {
    nc_gpu_step *step = calloc(1, sizeof *step + (size_t)count * sizeof *step->workers);
    if (!step) {
        return ENOMEM;
    }
    for (int i = 0; i < count; i++) {
        worker *each = &step->workers[i];
        each->step = step;
        __atomic_store_n(&copies[i].result->phase, NC_GPU_PREPARING, __ATOMIC_RELEASE);
        nc_gpu_part_begin(&each->part, &copies[i]);
    }
    pthread_mutex_init(&step->all_created, NULL);
    pthread_mutex_lock(&step->all_created);
    int error = 0;
    while (!error && step->count < count) {
        worker *next = &step->workers[step->count];
        error = pthread_create(&next->thread, NULL, worker_main, next);
        step->count += !error;
    }
    for (int i = step->count; i < count; i++) {
        nc_gpu_refused(step->workers[i].part.failure, CUDA_CALL_pthread_create,
                       NC_GPU_SYSTEM_REFUSED, nc_gpu_system_words(error));
        enter_phase(&step->workers[i].part, NC_GPU_DONE);
    }
    pthread_barrier_init(&step->prepared, NULL, step->count ? (unsigned)step->count : 1);
    pthread_mutex_unlock(&step->all_created);
    *started = step;
    return 0;
}

void nc_gpu_finish(nc_gpu_step *step) {
    for (int i = 0; i < step->count; i++) {
        pthread_join(step->workers[i].thread, NULL);
    }
    pthread_barrier_destroy(&step->prepared);
    pthread_mutex_destroy(&step->all_created);
    free(step);
}
