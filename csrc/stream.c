/* How fast threads together read, write, copy or combine memory, each its own. */
#include "stream.h"

#include "arena.h"
#include "workers.h"

#include <errno.h>

enum { LINE_WORDS = 64 / sizeof(uint64_t), PAGE_WORDS = 4096 / sizeof(uint64_t) };

typedef struct {
    const nc_arena *arena;
    const nc_stream_kernel *kernel;
    size_t window_bytes, windows;
    size_t omit_bytes;
    int first_window;
    int last_pass;
} stream;

static const char *operation_name(nc_stream_operation operation) {
    static const char *const names[] = {"read", "write", "copy", "triad"};
    return names[operation];
}

bool nc_stream_describe(int index, nc_kernel_description *described) {
    const nc_stream_kernel *kernel = nc_stream_kernel_at(index);
    if (!kernel) {
        return false;
    }
    *described = (nc_kernel_description){
        .operation = operation_name(kernel->operation),
        .isa = nc_isa_name(kernel->isa),
        .variant = kernel->variant,
        .usable = nc_isa_usable(kernel->isa),
    };
    return true;
}

static int arrays_of(nc_stream_operation operation) {
    static const int arrays[] = {1, 1, 2, 3};
    return arrays[operation];
}

static size_t region_bytes(const nc_arena *arena, nc_stream_operation operation) {
    size_t half = arena->source_bytes / 2 / NC_HUGE_PAGE_BYTES * NC_HUGE_PAGE_BYTES;
    size_t source = operation == NC_TRIAD ? half : arena->source_bytes;
    size_t destination = arena->destination_bytes;
    if (operation == NC_READ) {
        return source;
    }
    return operation == NC_WRITE || destination < source ? destination : source;
}

static nc_arrays window(const stream *self, int thread, int pass) {
    const nc_slab *slab = &self->arena->slabs[thread];
    size_t number = ((size_t)self->first_window + (size_t)pass) % self->windows;
    size_t word = number * self->window_bytes / sizeof(uint64_t);
    size_t half = self->arena->source_bytes / 2 / NC_HUGE_PAGE_BYTES * NC_HUGE_PAGE_BYTES;
    size_t second_word = word + half / sizeof(uint64_t);
    return (nc_arrays){
        .destination = slab->destination + word,
        .source = slab->source + word,
        .second_source = slab->source + second_word,
        .bytes = self->window_bytes - self->omit_bytes,
        .value = UINT64_C(0x5a5a5a5a5a5a5a5b) + (uint64_t)number,
    };
}

/* Every cache line's first word, plainly. */
static bool is_done(nc_stream_operation operation, const nc_arrays *arrays, size_t bytes) {
    const double *b = (const double *)(const void *)arrays->source;
    const double *c = (const double *)(const void *)arrays->second_source;
    const double *sums = (const double *)(const void *)arrays->destination;
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i += LINE_WORDS) {
        bool right = true;
        if (operation == NC_WRITE) {
            right = arrays->destination[i] == arrays->value;
        } else if (operation == NC_COPY) {
            right = arrays->destination[i] == arrays->source[i];
        } else if (operation == NC_TRIAD) {
            right = sums[i] == b[i] + c[i] / NC_TRIAD_FACTOR_INVERSE;
        }
        if (!right) {
            return false;
        }
    }
    return true;
}

/* A word in each page of the window that is verified: an earlier loop left there what this one is
 * to store, which is never zero. */
static void spoil_last_window(const stream *self, int thread) {
    nc_arrays arrays = window(self, thread, self->last_pass);
    for (size_t i = PAGE_WORDS - LINE_WORDS; i < self->window_bytes / sizeof(uint64_t);
         i += PAGE_WORDS) {
        arrays.destination[i] = 0;
    }
}

static int run_window(void *context, int thread, int pass) {
    const stream *self = context;
    nc_arrays arrays = window(self, thread, pass);
    if (!pass && self->kernel->operation != NC_READ) {
        spoil_last_window(self, thread); /* in the warm-up */
    }
    uint64_t sum = self->kernel->run(&arrays);
    if (self->kernel->operation != NC_READ) {
        return 0;
    }
    const uint64_t *base = self->arena->slabs[thread].source;
    size_t from = (size_t)(arrays.source - base);
    return sum == nc_source_sum(from, from + self->window_bytes / sizeof sum) ? 0 : EIO;
}

static int check_window(void *context, int thread, int pass) {
    (void)pass;
    const stream *self = context;
    nc_arrays arrays = window(self, thread, self->last_pass);
    return is_done(self->kernel->operation, &arrays, self->window_bytes) ? 0 : EIO;
}

int nc_stream_run(const nc_arena *arena, const nc_stream_request *request, nc_group *group) {
    const nc_stream_kernel *kernel = nc_stream_kernel_at(request->kernel);
    group->failed_step = "run this kernel";
    group->failed_cpu = -1;
    if (!kernel || !nc_isa_usable(kernel->isa)) {
        return ENOTSUP;
    }
    size_t region = region_bytes(arena, kernel->operation);
    if (!region) {
        return EINVAL;
    }
    stream self = {
        .arena = arena,
        .kernel = kernel,
        .window_bytes = region < request->window_bytes ? region : request->window_bytes,
        .omit_bytes = request->omit_bytes,
        .first_window = request->first_window,
        .last_pass = group->warm_ups + group->passes - 1,
    };
    self.windows = region / self.window_bytes;
    group->bytes_per_pass = self.window_bytes * (size_t)arrays_of(kernel->operation);
    group->bytes_per_pass *= (size_t)arena->threads;
    int error = nc_run_group(request->cpus, arena->threads, run_window, &self, group);
    if (error || kernel->operation == NC_READ) {
        return error;
    }
    nc_group check = {.warm_ups = 1};
    error = nc_run_group(request->cpus, arena->threads, check_window, &self, &check);
    group->failed_step = check.failed_step;
    group->failed_cpu = check.failed_cpu;
    return error;
}

bool nc_stream_once(int index, const void *source, const void *second_source, void *destination,
                    size_t bytes, uint64_t *sum) {
    const nc_stream_kernel *kernel = nc_stream_kernel_at(index);
    if (!kernel || !nc_isa_usable(kernel->isa) || bytes % kernel->bytes_per_iteration) {
        return false;
    }
    nc_arrays arrays = {destination, source, second_source, bytes, *sum};
    *sum = kernel->run(&arrays);
    return true;
}
