/* Copies on the cards of a library that fails: whatever fails, and whenever, all is freed. Each
 * run is a process of its own, so that a sanitizer looks at it when it ends. */
#include "nodecheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(TRUTH) require(TRUTH, #TRUTH, __LINE__)

enum { STEPS = 8, CARDS = 2, BUFFER_BYTES = 32768, LATEST = 3 };

static const char *failing = "nothing";
static char description[64], record[64];

static void require(bool truth, const char *words, int line) {
    if (!truth) {
        (void)fprintf(stderr, "line %d, where %s fails: %s does not hold\n", line, failing, words);
        abort();
    }
}

/* What lets go, or words for errors: its failure is nobody's. */
static bool is_silent(const char *call) {
    return strstr(call, "Free") || strstr(call, "Destroy") || strstr(call, "Release") ||
           strstr(call, "Unload") || strstr(call, "GetError");
}

static void describe(const char *fault, int from) {
    (void)snprintf(description, sizeof description, "/tmp/copies_driver.%d.txt", (int)getpid());
    (void)snprintf(record, sizeof record, "/tmp/copies_driver.%d.log", (int)getpid());
    REQUIRE(!setenv("FAKE_CUDA", description, 1)); // NOLINT(concurrency-mt-unsafe): one thread
    REQUIRE(!setenv("FAKE_CUDA_LOG", record, 1));  // NOLINT(concurrency-mt-unsafe)
    FILE *file = fopen(description, "we");
    REQUIRE(file);
    (void)fprintf(file, "%s !719@%d\ncard\ncard\n", fault, from);
    (void)fclose(file);
}

/* How much was made, and how much of it was not let go. */
static int made(int *left) {
    FILE *file = fopen(record, "re");
    int count = 0;
    char line[160];
    *left = 0;
    while (file && fgets(line, sizeof line, file)) {
        count += line[0] == '+';
        *left += line[0] == '+' ? 1 : -1;
    }
    if (file) {
        (void)fclose(file);
    }
    return count;
}

static nc_gpu_copy part(int step, int card, nc_gpu_result *result) {
    static const int OPERATIONS[STEPS] = {
        NC_GPU_HOST_TO_DEVICE, NC_GPU_DEVICE_TO_HOST, NC_GPU_HOST_TO_DEVICE, NC_GPU_DEVICE_TO_HOST,
        NC_GPU_PEER_TO_PEER,   NC_GPU_DEVICE_COPY,    NC_GPU_DEVICE_READ,    NC_GPU_PEER_TO_PEER};
    return (nc_gpu_copy){.operation = OPERATIONS[step],
                         .pageable = step == 2 || step == 3,
                         .card = card,
                         .peer = 1 - card,
                         .buffer_bytes = BUFFER_BYTES,
                         .warm_up_seconds = 1e-3,
                         .seconds = 2e-3,
                         .result = result};
}

/* Whether anything failed in it. */
static bool judge(const nc_gpu_result *result) {
    REQUIRE(result->phase == NC_GPU_DONE);
    REQUIRE(!result->failure.inside);
    if (!result->failure.error) {
        REQUIRE(result->samples >= 1); /* a busy machine may do no more in the time */
        REQUIRE(result->intact == 1);
        return false;
    }
    REQUIRE(result->failure.error == 719);
    REQUIRE(!strcmp(nc_gpu_call_name(result->failure.call), failing));
    REQUIRE(*result->failure.words);
    return true;
}

static bool copy_all(void) {
    bool failed = false;
    for (int i = 0; i < STEPS; i++) {
        int cards = i == STEPS - 1 ? CARDS : 1; /* the last: both at once, each to the other */
        nc_gpu_result results[CARDS] = {0};
        nc_gpu_copy copies[CARDS];
        for (int card = 0; card < cards; card++) {
            copies[card] = part(i, card, &results[card]);
        }
        nc_gpu_step *step;
        REQUIRE(!nc_gpu_start(copies, cards, &step));
        nc_gpu_finish(step);
        for (int card = 0; card < cards; card++) {
            failed |= judge(&results[card]);
        }
    }
    return failed;
}

static void run(const char *fault, int from) {
    failing = fault;
    describe(fault, from);
    nc_gpu_answer *answer = calloc(1, sizeof *answer);
    REQUIRE(answer);
    nc_gpu_query(answer);
    bool failed = answer->failure.error != 0;
    REQUIRE(answer->failure.error != NC_GPU_LIBRARY_MISSING);
    REQUIRE(failed || answer->count == CARDS);
    free(answer);
    if (!failed) {
        failed = copy_all();
        nc_gpu_failure closing = {0};
        nc_gpu_close(&closing);
        REQUIRE(!closing.error && !closing.inside);
        int left, count = made(&left);
        REQUIRE(failed || count > 0);
        REQUIRE(is_silent(fault) || !left);
    }
    REQUIRE(from > 1 || failed != is_silent(fault));
}

static pid_t start(const char *fault, int from) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child) {
        return child;
    }
    run(fault, from);
    (void)remove(description);
    (void)remove(record);
    if (is_silent(fault)) { /* what could not be let go is still there, and seen as a leak */
        _exit(0);
    }
    exit(0); // NOLINT(concurrency-mt-unsafe): its threads have ended
}

static void run_apart(const char *fault) {
    pid_t children[LATEST];
    for (int i = 0; i < LATEST; i++) {
        children[i] = start(fault, i + 1);
    }
    failing = fault;
    for (int i = 0; i < LATEST; i++) {
        int status;
        REQUIRE(waitpid(children[i], &status, 0) == children[i]);
        REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Anew, where the loader finds the library that lies beside this program. */
static void begin_again(void) {
    char directory[4096];
    ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
    REQUIRE(length > 0);
    directory[length] = '\0';
    *strrchr(directory, '/') = '\0';
    REQUIRE(!setenv("LD_LIBRARY_PATH", directory, 1)); // NOLINT(concurrency-mt-unsafe): one thread
    REQUIRE(!setenv("FAKE_CUDA", "", 1));              // NOLINT(concurrency-mt-unsafe)
    (void)execl("/proc/self/exe", "copies_driver", (char *)NULL);
    REQUIRE(!"begun again");
}

int main(void) {
    if (!getenv("FAKE_CUDA")) { // NOLINT(concurrency-mt-unsafe)
        begin_again();
    }
    const char *call;
    for (int i = 1; (call = nc_gpu_call_name(i)); i++) {
        if (!strncmp(call, "cu", 2)) {
            run_apart(call);
        }
    }
    puts("copies: ok");
    return 0;
}
