/* How fast threads use up the weights of a matrix, from their caches or from memory. */
#include "decode.h"

#include "arena.h"
#include "workers.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    ROWS_PER_CALL = 256, /* the engines hand rows to a thread in chunks */
    COLUMNS_MOST = 16384,
    SCRATCH_BYTES = NC_HUGE_PAGE_BYTES, /* at the destination's end: the vector and the products */
    VECTOR_BYTES = SCRATCH_BYTES / 2,
    PATTERN_BYTES = 1 << 20, /* random weights that are then repeated */
    CHECKED_ROWS = 8,
};

/* Of the sum of the absolute products: what rounding to float in another order can make of it. */
static const double TOLERANCE = 1e-4;

typedef struct {
    const nc_arena *arena;
    const nc_decode_kernel *kernel;
    size_t columns, row_bytes;
    size_t window_rows, windows, repeats;
    int first_window;
    bool resident;
} product;

bool nc_decode_describe(int index, nc_kernel_description *described) {
    const nc_decode_kernel *kernel = nc_decode_kernel_at(index);
    if (!kernel) {
        return false;
    }
    *described = (nc_kernel_description){
        .operation = kernel->layout->weights,
        .isa = nc_isa_name(kernel->isa),
        .variant = kernel->vector->name,
        .usable = nc_isa_usable(kernel->isa),
    };
    return true;
}

static char *scratch(const nc_arena *arena, int thread) {
    return (char *)arena->slabs[thread].destination + arena->destination_bytes - SCRATCH_BYTES;
}

/* Weights in memory take the place of the source, those in cache lie in the destination. */
static char *matrix_of(const product *self, int thread) {
    const nc_slab *slab = &self->arena->slabs[thread];
    return (char *)(self->resident ? slab->destination : slab->source);
}

static float *products(const nc_arena *arena, int thread) {
    return (float *)(void *)(scratch(arena, thread) + VECTOR_BYTES);
}

static size_t whole_tiles(const nc_decode_kernel *kernel, size_t rows) {
    return rows / kernel->layout->rows_per_tile * kernel->layout->rows_per_tile;
}

/* EINVAL where the columns or the memory do not fit the kernel. */
static int shape(product *self, const nc_decode_request *request) {
    const nc_decode_kernel *kernel = self->kernel;
    if (!kernel || !nc_isa_usable(kernel->isa)) {
        return ENOTSUP;
    }
    size_t columns = request->columns, destination = self->arena->destination_bytes;
    if (!columns || columns > COLUMNS_MOST || columns % kernel->layout->block_columns ||
        destination < SCRATCH_BYTES || kernel->vector->bytes(columns) > VECTOR_BYTES) {
        return EINVAL;
    }
    self->resident = request->resident;
    size_t most = self->resident ? destination - SCRATCH_BYTES : self->arena->source_bytes;
    self->columns = columns;
    self->row_bytes = columns / kernel->layout->block_columns * kernel->layout->block_bytes;
    size_t window = request->window_bytes < most ? request->window_bytes : most;
    self->window_rows = whole_tiles(kernel, window / self->row_bytes);
    if (!self->window_rows) {
        return EINVAL;
    }
    size_t rows =
        request->resident ? self->window_rows : whole_tiles(kernel, most / self->row_bytes);
    self->windows = rows / self->window_rows;
    self->repeats = request->resident ? request->repeats : 1;
    self->first_window = request->first_window;
    return 0;
}

static void make_vector(const product *self, int thread) {
    float *values = products(self->arena, thread); /* not in use yet */
    uint32_t state = 12345;
    for (size_t i = 0; i < self->columns; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = (float)(int32_t)state / 2147483648.0F;
    }
    self->kernel->vector->quantise(scratch(self->arena, thread), values, self->columns);
}

static void make_matrix(const product *self, int thread) {
    char *matrix = matrix_of(self, thread);
    size_t rows = self->window_rows * self->windows;
    size_t pattern = whole_tiles(self->kernel, PATTERN_BYTES / self->row_bytes);
    pattern = pattern && pattern < rows ? pattern : whole_tiles(self->kernel, rows);
    self->kernel->layout->fill(matrix, pattern, self->columns, 1 + (uint64_t)thread);
    for (size_t row = pattern; row < rows; row += pattern) {
        size_t next = rows - row < pattern ? rows - row : pattern;
        memcpy(matrix + row * self->row_bytes, matrix, next * self->row_bytes);
    }
}

static bool is_right(const product *self, const char *matrix, int thread, size_t row, float got) {
    const char *vector = scratch(self->arena, thread);
    double sum = 0, magnitude = 0;
    for (size_t column = 0; column < self->columns; column++) {
        double each = self->kernel->layout->weight(matrix, self->columns, row, column) *
                      self->kernel->vector->value(vector, self->columns, column);
        sum += each;
        magnitude += fabs(each);
    }
    return fabs(sum - (double)got) <= TOLERANCE * magnitude;
}

static int fill_and_check(void *context, int thread, int pass) {
    (void)pass;
    const product *self = context;
    const char *matrix = matrix_of(self, thread);
    size_t tile = self->kernel->layout->rows_per_tile;
    make_vector(self, thread);
    make_matrix(self, thread);
    float *out = products(self->arena, thread);
    self->kernel->multiply(matrix, scratch(self->arena, thread), out, tile, self->columns);
    for (size_t row = 0; row < tile && row < CHECKED_ROWS; row++) {
        if (!is_right(self, matrix, thread, row, out[row])) {
            return EIO;
        }
    }
    return 0;
}

static int multiply_window(void *context, int thread, int pass) {
    const product *self = context;
    const char *matrix = matrix_of(self, thread);
    size_t number = ((size_t)self->first_window + (size_t)pass) % self->windows;
    size_t first = number * self->window_rows, end = first + self->window_rows;
    size_t chunk = whole_tiles(self->kernel, ROWS_PER_CALL);
    for (size_t repeat = 0; repeat < self->repeats; repeat++) {
        for (size_t row = first; row < end; row += chunk) {
            self->kernel->multiply(matrix + row * self->row_bytes, scratch(self->arena, thread),
                                   products(self->arena, thread),
                                   end - row < chunk ? end - row : chunk, self->columns);
        }
    }
    return 0;
}

static int prepare(product *self, const nc_arena *arena, const nc_decode_request *request,
                   nc_group *group) {
    *self = (product){.arena = arena, .kernel = nc_decode_kernel_at(request->kernel)};
    group->failed_step = "run this kernel";
    group->failed_cpu = -1;
    return shape(self, request);
}

int nc_decode_fill(nc_arena *arena, const nc_decode_request *request, nc_group *group) {
    product self;
    int error = prepare(&self, arena, request, group);
    group->warm_ups = 1;
    group->passes = 0;
    return error ? error
                 : nc_run_group(request->cpus, arena->threads, fill_and_check, &self, group);
}

int nc_decode_run(const nc_arena *arena, const nc_decode_request *request, nc_group *group) {
    product self;
    int error = prepare(&self, arena, request, group);
    if (error) {
        return error;
    }
    group->bytes_per_pass =
        self.window_rows * self.row_bytes * self.repeats * (size_t)arena->threads;
    return nc_run_group(request->cpus, arena->threads, multiply_window, &self, group);
}
