/* A stand-in for llama.cpp's server: threads that compute, a model that is mapped, and the CPU
   library that they compute with.

   llama-server [--threads N] [--model FILE] [--pool N] [--seconds N] [--counts FILE]

   --threads  so many compute (0: none, it waits for requests); each reads its part of the model
              over and over, a byte a page
   --pool     so many more that wait for work
   --seconds  it ends by itself
   --counts   a file of one counter a computing thread, 64 bytes apart: what it has done */

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int ggml_cpu_has_avx2(void);

enum { PAGE = 4096, LINE = 8, MOST = 64, STEPS = 1000 };

static const unsigned char *model;
static size_t model_pages;
static long threads = 0;
static volatile uint64_t spare[MOST * LINE];
static volatile uint64_t *counts = spare;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *compute(void *argument) {
    size_t number = (size_t)argument;
    size_t share = model_pages / (size_t)threads, page = number * share;
    uint64_t sum = 0;
    for (;;) {
        for (int step = 0; step < STEPS; step++) {
            sum = sum * 6364136223846793005u + 1;
            if (share) {
                sum += model[page * PAGE];
                page = page + 1 < (number + 1) * share ? page + 1 : number * share;
            }
        }
        counts[number * LINE] += 1 + (sum == 0);
    }
    return NULL;
}

static void *wait_for_work(void *argument) {
    for (;;)
        pause();
    return argument;
}

static void start(void *(*work)(void *), long how_many) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
    for (long number = 0; number < how_many; number++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, work, (void *)number))
            fail("pthread_create");
    }
}

static void *map(const char *path, int flags, int protection, size_t *size) {
    struct stat told;
    int file = open(path, flags);
    if (file < 0 || fstat(file, &told))
        fail(path);
    void *at = mmap(NULL, (size_t)told.st_size, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        fail(path);
    close(file);
    *size = (size_t)told.st_size;
    return at;
}

int main(int argc, char **argv) {
    long pool = 0, seconds = 0;
    size_t size = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--threads"))
            threads = atol(value);
        else if (!strcmp(name, "--pool"))
            pool = atol(value);
        else if (!strcmp(name, "--seconds"))
            seconds = atol(value);
        else if (!strcmp(name, "--counts"))
            counts = map(value, O_RDWR, PROT_READ | PROT_WRITE, &size);
        else if (!strcmp(name, "--model")) {
            model = map(value, O_RDONLY, PROT_READ, &size);
            model_pages = size / PAGE;
        }
    }
    if (threads > MOST) {
        fputs("too many threads\n", stderr);
        return 1;
    }
    start(wait_for_work, pool);
    start(compute, threads);
    printf("ready, avx2 = %d\n", ggml_cpu_has_avx2());
    fflush(stdout);
    if (seconds)
        sleep((unsigned)seconds);
    else
        wait_for_work(NULL);
    return 0;
}
