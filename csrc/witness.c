/* Does the silicon execute what CPUID hides? User-level instructions cannot be intercepted, so an
 * instruction that runs and gives the right value proves that a hypervisor masks it. The converse
 * does not hold: SIGILL may be old silicon or an emulator. */
#include "witness.h"
#include "nodecheck.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_REACHED, EXECUTED, ILLEGAL, WRONG };

enum { ALARM_SECONDS = 2 };

static sigjmp_buf next_test;

static void on_sigill(int signal) { siglongjmp(next_test, signal); }

/* An emulator may hang or kill where hardware traps: no core file, and an end in any case. */
static void confine(void) {
    struct rlimit no_core = {0, 0};
    struct sigaction illegal = {.sa_handler = on_sigill};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    setrlimit(RLIMIT_CORE, &no_core);
    sigaction(SIGILL, &illegal, NULL);
    sigaction(SIGALRM, &standard, NULL);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    alarm(ALARM_SECONDS);
}

static void run_tests(volatile unsigned char *outcomes, int count) {
    for (volatile int i = 0; i < count && nc_witness_tests[i].name; i++) {
        if (sigsetjmp(next_test, 1)) {
            outcomes[i] = ILLEGAL;
        } else {
            outcomes[i] = nc_witness_tests[i].right() ? EXECUTED : WRONG;
        }
    }
}

/* Shared memory, not a pipe: no descriptor that a fork in another thread could keep open, and what
 * was reached is known even where the child is killed. */
int nc_witness(unsigned char *outcomes, int count) {
    if (!nc_witness_tests[0].name) {
        return ENOSYS;
    }
    size_t bytes = (size_t)count;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return errno;
    }
    pid_t child = fork();
    if (child == 0) {
        confine();
        run_tests(shared, count);
        _exit(0);
    }
    int failed = child < 0 ? errno : 0;
    while (!failed && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    memcpy(outcomes, shared, bytes);
    munmap(shared, bytes);
    return failed;
}

const char *nc_witness_name(int index) { return nc_witness_tests[index].name; }
