#ifndef NODECHECK_WORKERS_H
#define NODECHECK_WORKERS_H

#include "nodecheck.h"

/* What one thread does in one pass, timed; 0, or an errno that ends the group. */
typedef int nc_work(void *context, int thread, int pass);

/* One thread pinned to each CPU; in every pass all start at one agreed instant. Fills the group's
 * records and load. Returns 0 or an errno; the group then names the step and the CPU. */
int nc_run_group(const int *cpus, int threads, nc_work *work, void *context, nc_group *group);

/* What the calling thread has run so far, in seconds. */
double nc_thread_cpu_seconds(void);

#endif
