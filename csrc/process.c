#include "nodecheck.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MPOL_DEFAULT_POLICY = 0 }; /* MPOL_DEFAULT, whose header is libnuma's */

static void *set_mempolicy_default(void *result) {
    long failed = syscall(SYS_set_mempolicy, MPOL_DEFAULT_POLICY, NULL, 0UL);
    *(int *)result = failed ? errno : 0;
    return NULL;
}

int nc_set_mempolicy_default_errno(void) {
    /* The policy is a thread's own: asking in a thread leaves the caller's numactl settings be. */
    pthread_t thread;
    int result = 0;
    int failed = pthread_create(&thread, NULL, set_mempolicy_default, &result);
    if (failed) {
        return failed;
    }
    pthread_join(thread, NULL);
    return result;
}

int nc_die_with_parent(void) { return prctl(PR_SET_PDEATHSIG, SIGKILL) ? errno : 0; }
