/* The kernels without Python: for sanitizers, and for another architecture under qemu-user. */
#include "arena.h"
#include "decode.h"
#include "stream.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define WEIGHTS_BYTES (MIB / 8)

enum { PASSES = 3, NO_CPU = 4095, LINE_WORDS = 8 };

#define REQUIRE(TRUTH) require(TRUTH, #TRUTH, __LINE__)

static void require(bool truth, const char *words, int line) {
    if (!truth) {
        (void)fprintf(stderr, "line %d: %s does not hold\n", line, words);
        abort();
    }
}

static int cpus[2]; /* the first two that we may use; one twice where there is but one */

static void find_cpus(void) {
    cpu_set_t set;
    REQUIRE(!sched_getaffinity(0, sizeof set, &set));
    int found = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[found++] = cpu;
        }
    }
    REQUIRE(found);
    cpus[1] = found == 2 ? cpus[1] : cpus[0];
}

static void check_witness(void) {
    unsigned char outcomes[16] = {0};
    if (nc_witness(outcomes, 16) == ENOSYS) {
        puts("witness: none");
        return;
    }
    for (int i = 0; nc_witness_name(i); i++) {
        printf("witness: %s %d\n", nc_witness_name(i), outcomes[i]);
        REQUIRE(outcomes[i] == 1 || outcomes[i] == 2);
    }
}

/* --- loops over memory, on random data --- */

/* As long as it must be and no longer: ASan sees a byte too far. */
static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, bytes);
    REQUIRE(memory);
    return memory;
}

static double *random_doubles(size_t bytes, uint32_t seed) {
    double *values = allocate(bytes);
    for (size_t i = 0; i < bytes / sizeof *values; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (double)(int32_t)seed * 0x1p-24;
    }
    return values;
}

static uint64_t word(const void *array, size_t i) {
    uint64_t value;
    memcpy(&value, (const char *)array + i * sizeof value, sizeof value);
    return value;
}

static uint64_t plain_sum(const void *array, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / sizeof sum; i++) {
        sum += word(array, i);
    }
    return sum;
}

static void check_stored(nc_stream_operation operation, const double *a, const double *b,
                         const double *c, size_t bytes, uint64_t value) {
    for (size_t i = 0; i < bytes / sizeof *a; i++) {
        switch (operation) {
        case NC_READ:
            REQUIRE(word(a, i) == 0);
            break;
        case NC_WRITE:
            REQUIRE(word(a, i) == value);
            break;
        case NC_COPY:
            REQUIRE(word(a, i) == word(b, i));
            break;
        case NC_TRIAD:
            REQUIRE(a[i] == b[i] + c[i] / NC_TRIAD_FACTOR_INVERSE);
            break;
        }
    }
}

static void check_loop(int index, const nc_stream_kernel *kernel, size_t iterations) {
    size_t bytes = iterations * kernel->bytes_per_iteration;
    double *b = random_doubles(bytes, (uint32_t)iterations), *c = random_doubles(bytes, 77);
    double *a = allocate(bytes);
    memset(a, 0, bytes);
    const uint64_t value = UINT64_C(0xfedcba9876543210);
    uint64_t sum = value;
    REQUIRE(nc_stream_once(index, b, c, a, bytes, &sum));
    REQUIRE(kernel->operation != NC_READ || sum == plain_sum(b, bytes));
    check_stored(kernel->operation, a, b, c, bytes, value);
    REQUIRE(!nc_stream_once(index, b, c, a, bytes - 8, &sum));
    free(a);
    free(b);
    free(c);
}

static void check_loops(void) {
    const nc_stream_kernel *kernel;
    int usable = 0;
    for (int i = 0; (kernel = nc_stream_kernel_at(i)); i++) {
        if (!nc_isa_usable(kernel->isa)) {
            continue;
        }
        usable++;
        for (size_t iterations = 1; iterations < 70; iterations = iterations * 3 / 2 + 1) {
            check_loop(i, kernel, iterations);
        }
    }
    printf("stream: %d loops\n", usable);
    REQUIRE(usable >= 10);
}

/* --- memory of threads --- */

static nc_arena *new_arena(int threads, size_t source_bytes, size_t destination_bytes) {
    nc_arena *arena;
    REQUIRE(!nc_arena_new(cpus, threads, source_bytes, destination_bytes, true, &arena));
    return arena;
}

static int touch(nc_arena *arena, const int *on, size_t from, size_t to) {
    nc_group group;
    return nc_arena_touch(arena, on, from, to, &group);
}

static nc_arena *touched(int threads, size_t source_bytes, size_t destination_bytes) {
    nc_arena *arena = new_arena(threads, source_bytes, destination_bytes);
    REQUIRE(!touch(arena, cpus, 0, source_bytes + destination_bytes));
    return arena;
}

static int first_loop(nc_stream_operation operation) {
    for (int i = 0;; i++) {
        if (nc_stream_kernel_at(i)->operation == operation) {
            return i;
        }
    }
}

static int stream(const nc_arena *arena, int kernel, size_t omit_bytes, const int *on) {
    nc_pass records[PASSES];
    nc_group group = {.warm_ups = 1, .passes = PASSES, .records = records};
    nc_stream_request request = {
        .kernel = kernel, .cpus = on, .window_bytes = MIB, .omit_bytes = omit_bytes};
    int error = nc_stream_run(arena, &request, &group);
    for (int i = 0; i < PASSES && !error; i++) {
        REQUIRE(records[i].seconds > 0 && records[i].cpu_share > 0);
    }
    return error;
}

static void check_arena(void) {
    nc_arena *arena = new_arena(2, 4 * MIB, 2 * MIB);
    REQUIRE(arena->source_bytes == 4 * MIB && arena->destination_bytes == 2 * MIB);
    REQUIRE(stream(arena, first_loop(NC_READ), 0, cpus) == EIO); /* not touched */
    REQUIRE(!touch(arena, cpus, 0, 2 * MIB));
    nc_arena_shrink(arena, 3 * MIB);
    REQUIRE(arena->source_bytes == 2 * MIB);
    for (int thread = 0; thread < 2; thread++) {
        const uint64_t *source = arena->slabs[thread].source;
        REQUIRE((uintptr_t)source % NC_HUGE_PAGE_BYTES == 0);
        REQUIRE(plain_sum(source, 2 * MIB) == nc_source_sum(0, 2 * MIB / sizeof *source));
        REQUIRE(!source[2 * MIB / sizeof *source]); /* not touched yet */
    }
    REQUIRE(!touch(arena, cpus, 4 * MIB, 6 * MIB));
    REQUIRE(!stream(arena, first_loop(NC_READ), 0, cpus));
    REQUIRE(nc_arena_huge_page_bytes(arena) >= -1);
    nc_arena_free(arena);
}

static void check_streams(void) {
    nc_arena *arena = touched(2, 4 * MIB, 4 * MIB);
    const nc_stream_kernel *kernel;
    for (int i = 0; (kernel = nc_stream_kernel_at(i)); i++) {
        int expected = nc_isa_usable(kernel->isa) ? 0 : ENOTSUP;
        REQUIRE(stream(arena, i, 0, cpus) == expected);
        REQUIRE(stream(arena, i, 4096, cpus) == (expected ? expected : EIO));
    }
    REQUIRE(stream(arena, 1000, 0, cpus) == ENOTSUP);
    nc_arena_free(arena);
}

static void check_failures(void) {
    const int none[2] = {cpus[0], NO_CPU};
    nc_arena *arena = new_arena(2, 2 * MIB, 0);
    REQUIRE(touch(arena, none, 0, 2 * MIB) == EINVAL);
    REQUIRE(stream(arena, first_loop(NC_READ), 0, none) == EINVAL);
    REQUIRE(stream(arena, first_loop(NC_WRITE), 0, cpus) == EINVAL); /* no destination */
    nc_arena_free(arena);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    REQUIRE(nc_arena_new(cpus, 1, MIB << 40, 0, true, &arena) == ENOMEM);
#endif
}

/* --- loads that wait for one another, and a line between two CPUs --- */

static int follow(const nc_arena *arena, int reader, int loads, uint64_t *at, nc_group *group) {
    nc_latency_request request = {.cpus = cpus, .loads = loads, .reader = reader};
    return nc_latency_run(arena, &request, group, at);
}

static void check_that_a_chain_visits_each_line_once(const nc_arena *arena, size_t lines) {
    unsigned char *visits = calloc(lines, 1);
    REQUIRE(visits);
    uint64_t at = 0;
    for (size_t i = 0; i < lines; i++) {
        REQUIRE(at % LINE_WORDS == 0 && at / LINE_WORDS < lines);
        visits[at / LINE_WORDS]++;
        REQUIRE(visits[at / LINE_WORDS] == 1);
        at = arena->slabs[0].destination[at];
    }
    REQUIRE(at == 0);
    free(visits);
}

static void check_latency(int threads) {
    nc_arena *arena = touched(threads, 2 * MIB, 6 * MIB);
    nc_pass records[PASSES];
    nc_group group = {0};
    REQUIRE(nc_latency_link(arena, cpus, &group) == 4 * MIB); /* a power of two */
    check_that_a_chain_visits_each_line_once(arena, 4 * MIB / 64);
    group = (nc_group){.warm_ups = 1, .passes = PASSES, .records = records};
    uint64_t at = 0, there = 0;
    REQUIRE(!follow(arena, first_loop(NC_READ), 100, &at, &group));
    for (int i = 0; i < 100 * (1 + PASSES); i++) {
        there = arena->slabs[0].destination[there];
    }
    REQUIRE(at == there && records[0].seconds > 0);
    REQUIRE((group.bytes_per_pass > 0) == (threads > 1));
    REQUIRE(follow(arena, first_loop(NC_WRITE), 100, &at, &group) == ENOTSUP);
    nc_arena_free(arena);
}

static void check_ping_pong(void) {
    nc_pass records[PASSES];
    nc_group group = {.warm_ups = 1, .passes = PASSES, .records = records};
    const int none[2] = {cpus[0], NO_CPU}, one[2] = {cpus[0], cpus[0]};
    REQUIRE(nc_ping_pong(none, &group) == EINVAL && group.failed_cpu == NO_CPU);
    REQUIRE(nc_ping_pong(one, &group) == EINVAL);
    if (cpus[0] == cpus[1]) {
        puts("ping-pong: one CPU");
        return;
    }
    REQUIRE(!nc_ping_pong(cpus, &group));
    printf("ping-pong: %.0f ns\n", records[0].seconds * 1e9);
    REQUIRE(records[0].seconds > 0 && records[0].seconds < 1);
}

/* --- products of weights --- */

static int multiply(nc_arena *arena, int kernel, bool resident, size_t *bytes) {
    nc_pass records[PASSES];
    nc_group group = {.warm_ups = 1, .passes = PASSES, .records = records};
    nc_decode_request request = {
        .kernel = kernel,
        .cpus = cpus,
        .columns = 1024,
        .window_bytes = WEIGHTS_BYTES,
        .resident = resident,
        .repeats = 2,
    };
    int error = nc_decode_fill(arena, &request, &group);
    group.passes = PASSES; /* filling made none */
    error = error ? error : nc_decode_run(arena, &request, &group);
    *bytes = error ? 0 : group.bytes_per_pass;
    return error;
}

static void check_products(void) {
    nc_arena *arena = touched(2, 2 * MIB, 4 * MIB);
    const nc_decode_kernel *kernel;
    int usable = 0;
    for (int i = 0; (kernel = nc_decode_kernel_at(i)); i++) {
        bool runs = nc_isa_usable(kernel->isa);
        size_t cached, streamed;
        REQUIRE(multiply(arena, i, true, &cached) == (runs ? 0 : ENOTSUP));
        REQUIRE(multiply(arena, i, false, &streamed) == (runs ? 0 : ENOTSUP));
        REQUIRE(cached == 2 * streamed && cached <= 4 * WEIGHTS_BYTES);
        usable += runs && streamed > 0;
    }
    printf("decode: %d products\n", usable);
    REQUIRE(usable >= 8);
    nc_arena_free(arena);
}

int main(void) {
    unsigned long hwcaps[2];
    find_cpus();
    nc_hwcaps(hwcaps);
    check_witness();
    REQUIRE(nc_clock_gettime_seconds() > 0);
    nc_set_mempolicy_default_errno();
    check_loops();
    check_arena();
    check_streams();
    check_failures();
    check_latency(1);
    check_latency(2);
    check_ping_pong();
    check_products();
    return 0;
}
