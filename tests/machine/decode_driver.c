/* Each decode kernel that this CPU can run against the plain sum of weights times values in double,
 * on random data; every buffer is exactly as long as it must be, so that ASan sees a byte too far.
 */
#include "decode.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the sum of the products' magnitudes: 160 roundings of a float, all in one direction. Sums of
 * floats stay below it, and no weight that matters does. */
static const double TOLERANCE = 1e-5;

typedef struct {
    const nc_decode_kernel *kernel;
    size_t rows, columns, matrix_bytes;
    char *matrix_buffer, *vector_buffer;
    void *matrix, *vector;
    float *out;
} problem;

static void *allocate(size_t bytes) {
    void *buffer = malloc(bytes);
    assert(buffer);
    return buffer;
}

static void quantise_random_values(problem *p, uint32_t seed) {
    float *values = allocate(p->columns * sizeof *values);
    for (size_t i = 0; i < p->columns; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (float)(int32_t)seed * 0x1p-31F;
    }
    p->kernel->vector->quantise(p->vector, values, p->columns);
    free(values);
}

/* The matrix and the vector start offset bytes behind an address that suits every type. */
static problem pose(const nc_decode_kernel *kernel, size_t tiles, size_t blocks, size_t offset) {
    const nc_weight_layout *layout = kernel->layout;
    problem p = {.kernel = kernel,
                 .rows = tiles * layout->rows_per_tile,
                 .columns = blocks * layout->block_columns};
    p.matrix_bytes = p.rows * blocks * layout->block_bytes;
    p.matrix_buffer = allocate(offset + p.matrix_bytes);
    p.vector_buffer = allocate(offset + kernel->vector->bytes(p.columns));
    p.matrix = p.matrix_buffer + offset;
    p.vector = p.vector_buffer + offset;
    p.out = allocate(p.rows * sizeof *p.out);
    layout->fill(p.matrix, p.rows, p.columns, tiles + blocks + offset);
    quantise_random_values(&p, (uint32_t)(tiles * blocks));
    return p;
}

static void discard(problem *p) {
    free(p->matrix_buffer);
    free(p->vector_buffer);
    free(p->out);
}

static void multiply(problem *p) {
    for (size_t row = 0; row < p->rows; row++) {
        p->out[row] = NAN;
    }
    p->kernel->multiply(p->matrix, p->vector, p->out, p->rows, p->columns);
}

static double dot(const problem *p, size_t row, double *magnitude) {
    double sum = 0;
    *magnitude = 0;
    for (size_t column = 0; column < p->columns; column++) {
        double product = p->kernel->layout->weight(p->matrix, p->columns, row, column) *
                         p->kernel->vector->value(p->vector, p->columns, column);
        sum += product;
        *magnitude += fabs(product);
    }
    return sum;
}

static int rows_that_differ(const problem *p) {
    int count = 0;
    for (size_t row = 0; row < p->rows; row++) {
        double magnitude, expected = dot(p, row, &magnitude);
        count += !(fabs(p->out[row] - expected) <= TOLERANCE * magnitude);
    }
    return count;
}

static void check_shape(const nc_decode_kernel *kernel, size_t tiles, size_t blocks,
                        size_t offset) {
    problem p = pose(kernel, tiles, blocks, offset);
    multiply(&p);
    int wrong = rows_that_differ(&p);
    if (wrong) {
        printf("%s %s: %d of %zu rows of %zu columns are wrong\n", kernel->layout->weights,
               nc_isa_name(kernel->isa), wrong, p.rows, p.columns);
    }
    assert(!wrong);
    discard(&p);
}

/* What was right before a byte of a weight changed is wrong after it, and the kernel follows. The
 * bits that are flipped make no half or bfloat16 infinite. */
static void check_that_bytes_count(const nc_decode_kernel *kernel) {
    problem p = pose(kernel, 1, 1, 0);
    int seen = 0;
    for (size_t byte = 0; byte < p.matrix_bytes; byte += 7) {
        multiply(&p);
        ((unsigned char *)p.matrix)[byte] ^= 0x11;
        if (rows_that_differ(&p)) {
            seen++;
            multiply(&p);
            assert(!rows_that_differ(&p));
        }
    }
    assert(seen > (int)(p.matrix_bytes / 14));
    discard(&p);
}

static void check(const nc_decode_kernel *kernel) {
    static const size_t blocks[] = {1, 2, 3, 17};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        for (size_t offset = 0; offset < 2; offset++) {
            check_shape(kernel, 1, blocks[b], offset);
            check_shape(kernel, 3, blocks[b], offset);
        }
    }
    check_that_bytes_count(kernel);
}

int main(void) {
    const nc_decode_kernel *kernel;
    for (int i = 0; (kernel = nc_decode_kernel_at(i)); i++) {
        bool usable = nc_isa_usable(kernel->isa);
        if (usable) {
            check(kernel);
        }
        printf("%-9s %-11s %2zu rows a tile, %s: %s\n", kernel->layout->weights,
               nc_isa_name(kernel->isa), kernel->layout->rows_per_tile, kernel->vector->name,
               usable ? "ok" : "cannot run here");
    }
    assert(nc_decode_kernel_at(0) && !nc_decode_kernel_at(1000));
    return 0;
}
