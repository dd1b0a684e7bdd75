/* How long one load from memory takes, alone and while other CPUs read; and a line between CPUs. */
#include "arena.h"
#include "stream.h"
#include "workers.h"

#include <errno.h>
#include <stdatomic.h>

enum {
    LINE_BYTES = 64,
    WORDS_PER_LINE = LINE_BYTES / sizeof(uint64_t),
    LOAD_STEP_BYTES = 1 << 20, /* what a reader reads between two looks at the flag */
    ROUND_TRIPS = 200,
};

/* A full-period congruential sequence (Numerical Recipes' constants) visits every line once, in an
 * order that no prefetcher follows, and is written front to back. */
static const uint64_t FACTOR = 1664525, INCREMENT = 1013904223;

static size_t chain_lines(const nc_arena *arena) {
    size_t lines = arena->destination_bytes / LINE_BYTES, power = 1;
    while (power * 2 <= lines) {
        power *= 2;
    }
    return lines ? power : 0;
}

static int link_lines(void *context, int thread, int pass) {
    (void)pass;
    const nc_arena *arena = context;
    uint64_t *words = arena->slabs[thread].destination;
    size_t lines = thread ? 0 : chain_lines(arena);
    for (uint64_t i = 0; i < lines; i++) {
        words[i * WORDS_PER_LINE] = (i * FACTOR + INCREMENT) % lines * WORDS_PER_LINE;
    }
    return 0;
}

size_t nc_latency_link(nc_arena *arena, const int *cpus, nc_group *group) {
    group->warm_ups = 1;
    group->passes = 0;
    int error = nc_run_group(cpus, arena->threads, link_lines, arena, group);
    return error ? 0 : chain_lines(arena) * LINE_BYTES;
}

typedef struct {
    const nc_arena *arena;
    const nc_stream_kernel *reader;
    int loads;
    uint64_t at;
    atomic_int chased; /* passes that the chain's thread has ended */
    atomic_ullong read_bytes;
} chase;

static void chase_lines(chase *self) {
    const volatile uint64_t *words = self->arena->slabs[0].destination;
    uint64_t at = self->at;
    for (int i = 0; i < self->loads; i++) {
        at = words[at];
    }
    self->at = at;
}

static void read_meanwhile(chase *self, int thread, int pass) {
    const nc_slab *slab = &self->arena->slabs[thread];
    size_t steps = self->arena->source_bytes / LOAD_STEP_BYTES, step = 0;
    uint64_t bytes = 0;
    while (self->chased <= pass) {
        nc_arrays arrays = {
            .source = slab->source + step++ % steps * (LOAD_STEP_BYTES / sizeof(uint64_t)),
            .bytes = LOAD_STEP_BYTES,
        };
        self->reader->run(&arrays);
        bytes += LOAD_STEP_BYTES;
    }
    self->read_bytes += bytes;
}

static int chase_or_read(void *context, int thread, int pass) {
    chase *self = context;
    if (thread) {
        read_meanwhile(self, thread, pass);
    } else {
        chase_lines(self);
        self->chased++;
    }
    return 0;
}

int nc_latency_run(const nc_arena *arena, const nc_latency_request *request, nc_group *group,
                   uint64_t *at) {
    chase self = {
        .arena = arena,
        .reader = nc_stream_kernel_at(request->reader),
        .loads = request->loads,
        .at = *at,
    };
    group->failed_step = "run this kernel";
    group->failed_cpu = -1;
    if (!self.reader || self.reader->operation != NC_READ || !nc_isa_usable(self.reader->isa)) {
        return ENOTSUP;
    }
    int error = nc_run_group(request->cpus, arena->threads, chase_or_read, &self, group);
    *at = self.at;
    group->bytes_per_pass = self.read_bytes / (uint64_t)(group->warm_ups + group->passes);
    return error;
}

typedef struct {
    _Alignas(2 * LINE_BYTES) atomic_int turn; /* alone in its line and the one fetched with it */
    _Alignas(2 * LINE_BYTES) char behind;
} ball;

static int play(void *context, int thread, int pass) {
    (void)pass;
    ball *shared = context;
    for (int trip = 0; trip < ROUND_TRIPS; trip++) {
        while (atomic_load_explicit(&shared->turn, memory_order_acquire) != thread) {
        }
        atomic_store_explicit(&shared->turn, !thread, memory_order_release);
    }
    return 0;
}

int nc_ping_pong(const int cpus[2], nc_group *group) {
    ball shared = {.turn = 0};
    group->failed_step = "tell two CPUs apart";
    group->failed_cpu = cpus[0];
    if (cpus[0] == cpus[1]) {
        return EINVAL; /* each would spin until the scheduler takes it off */
    }
    int error = nc_run_group(cpus, 2, play, &shared, group);
    for (int i = 0; i < group->passes && !error; i++) {
        group->records[i].seconds /= ROUND_TRIPS;
    }
    return error;
}
