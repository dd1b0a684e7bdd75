/* What Python may call. The compiler reads this through nodecheck.h and cffi reads it as it is:
 * declarations only, no preprocessor. Times are seconds, sizes bytes, CPUs Linux CPU numbers. */

/* registers = {eax, ebx, ecx, edx}; false off x86-64. */
bool nc_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]);
/* False where the OS has not enabled XSAVE, and off x86-64. */
bool nc_xgetbv(uint64_t *xcr0);
void nc_hwcaps(unsigned long hwcaps[2]);

/* outcomes[i] of instruction set i: 0 not reached, 1 executed, 2 SIGILL, 3 wrong value.
 * Returns 0 or an errno; ENOSYS off x86-64. */
int nc_witness(unsigned char *outcomes, int count);
/* NULL past the last one. */
const char *nc_witness_name(int index);

double nc_clock_gettime_seconds(void);
int nc_set_mempolicy_default_errno(void);
int nc_die_with_parent(void);

typedef struct {
    const char *operation; /* "read", "copy", or a weight type */
    const char *isa;
    const char *variant; /* how it stores or fetches, or what the vector is quantised to */
    bool usable;         /* on this CPU, under this OS */
} nc_kernel_description;

typedef struct {
    double seconds;   /* last end - first start over all threads */
    double cpu_share; /* least over the threads of CPU time / wall time */
} nc_pass;

/* Passes of all threads, back to back: how many are asked for, and what came of them. */
typedef struct {
    int warm_ups; /* made, not recorded */
    int passes;
    nc_pass *records; /* one a pass */
    size_t bytes_per_pass;
    double run_delay_seconds; /* runnable and not run, all threads; -1 unknown */
    long involuntary_switches;
    const char *failed_step; /* holds where an errno is returned */
    int failed_cpu;          /* -1: none in particular */
} nc_group;

/* Memory of threads: each has a source, which measurements leave as it was filled, and behind it a
 * destination. Sizes are rounded down to 2 MiB. All that follows returns 0 or an errno. */
typedef struct nc_arena nc_arena;
/* huge_pages: ask for 2 MiB pages; else what the system gives any program. */
int nc_arena_new(const int *cpus, int threads, size_t source_bytes, size_t destination_bytes,
                 bool huge_pages, nc_arena **made);
/* Bytes [from, to) of every slab, each by a thread on its CPU of cpus: it decides the NUMA node. */
int nc_arena_touch(nc_arena *arena, const int *cpus, size_t from, size_t to, nc_group *group);
/* Leaves the sources only their first bytes, as many as have been touched. */
void nc_arena_shrink(nc_arena *arena, size_t source_bytes);
/* Of all slabs, in 2 MiB pages; -1 unknown. */
int64_t nc_arena_huge_page_bytes(const nc_arena *arena);
void nc_arena_free(nc_arena *arena);

/* False past the last kernel. */
bool nc_stream_describe(int index, nc_kernel_description *described);
typedef struct {
    int kernel;
    const int *cpus; /* one for each of the arena's threads */
    /* Passes walk through a slab window by window, whole 4 KiB each: many short ones tell more of
     * the spread than a few long ones, and what is read again was driven out of the caches. */
    size_t window_bytes;
    int first_window;  /* where the first pass begins */
    size_t omit_bytes; /* left out at each window's end, so that a test sees it caught */
} nc_stream_request;
int nc_stream_run(const nc_arena *arena, const nc_stream_request *request, nc_group *group);
/* One kernel on 64-byte aligned arrays; *sum is the value to write and then the sum read. False
 * where it cannot run or bytes is no whole number of iterations. */
bool nc_stream_once(int index, const void *source, const void *second_source, void *destination,
                    size_t bytes, uint64_t *sum);

/* Links the lines of the first destination to one random cycle; its bytes, 0 where that failed. */
size_t nc_latency_link(nc_arena *arena, const int *cpus, nc_group *group);
typedef struct {
    const int *cpus; /* the first follows the cycle, the others read their sources meanwhile */
    int loads;       /* a pass */
    int reader;      /* the stream kernel that they read with */
} nc_latency_request;
/* *at is where the cycle goes on: 0 at first. */
int nc_latency_run(const nc_arena *arena, const nc_latency_request *request, nc_group *group,
                   uint64_t *at);
/* Seconds of a record: one round trip of a cache line between the two CPUs. */
int nc_ping_pong(const int cpus[2], nc_group *group);

/* False past the last kernel. */
bool nc_decode_describe(int index, nc_kernel_description *described);
typedef struct {
    int kernel;
    const int *cpus;
    size_t columns;
    size_t window_bytes; /* of weights, that a pass uses up in each thread */
    bool resident;       /* the same window in every pass, `repeats` times over */
    int repeats;
    int first_window;
} nc_decode_request;
/* Fills the destinations with weights where they are resident, else the sources, which no stream
 * can read after that; compares some products with plain ones: EIO. */
int nc_decode_fill(nc_arena *arena, const nc_decode_request *request, nc_group *group);
int nc_decode_run(const nc_arena *arena, const nc_decode_request *request, nc_group *group);

/* NVIDIA cards through libcuda.so.1, which is loaded where it is first asked. Structs that are
 * written may lie in memory shared with another process, which reads what was found before a hang
 * or a crash. */
enum {
    NC_GPU_LIBRARY_MISSING = -1,
    NC_GPU_SYMBOL_MISSING = -2,
    NC_GPU_TOO_LITTLE_MEMORY = -4,
    NC_GPU_SYSTEM_REFUSED = -5
};
enum { NC_GPU_CARDS = 64, NC_GPU_SAMPLES = 128 };

typedef struct {
    int error; /* 0, CUDA's own number or one of the above */
    int call;  /* the function that gave it */
    char words[160];
    int inside; /* the function that is under way: where it hangs or dies */
} nc_gpu_failure;
/* NULL for none. */
const char *nc_gpu_call_name(int call);

typedef struct {
    nc_gpu_failure failure;
    int version; /* 13000 is 13.0 */
    int count;   /* of the cards that are filled in */
    char pci_addresses[NC_GPU_CARDS][32];
} nc_gpu_answer;
/* Starts CUDA and asks for its cards. */
void nc_gpu_query(nc_gpu_answer *answer);

enum {
    NC_GPU_HOST_TO_DEVICE,
    NC_GPU_DEVICE_TO_HOST,
    NC_GPU_PEER_TO_PEER,
    NC_GPU_DEVICE_COPY,
    NC_GPU_DEVICE_READ
};
enum { NC_GPU_NOT_BEGUN, NC_GPU_PREPARING, NC_GPU_COPYING, NC_GPU_DONE };

typedef struct {
    nc_gpu_failure failure;
    int phase;
    int samples;
    double rates[NC_GPU_SAMPLES]; /* bytes a second, by CUDA's events around several copies */
    uint64_t buffer_bytes;
    int intact;      /* -1: not compared */
    int direct;      /* a peer copy: whether it goes past the host; -1: none */
    double link_gts; /* the caller's; 0: not seen */
    int link_width;
} nc_gpu_result;

typedef struct {
    int operation;
    bool pageable; /* the host memory: as mmap gives it, else CUDA's own, which is pinned */
    int card;      /* in CUDA's order, as peer */
    int peer;
    const int *cpus; /* where host memory is touched and copies are queued */
    int cpu_count;   /* 0: anywhere */
    size_t buffer_bytes;
    double warm_up_seconds;
    double seconds;        /* samples are taken so long, and at least 3 */
    nc_gpu_result *result; /* zeroed by the caller */
} nc_gpu_copy;

typedef struct nc_gpu_step nc_gpu_step;
/* After a query. All cards begin at once, each in a thread of its own. Returns 0 or an errno. */
int nc_gpu_start(const nc_gpu_copy *copies, int count, nc_gpu_step **started);
/* Waits for all of them. */
void nc_gpu_finish(nc_gpu_step *step);
/* Lets go of the cards. An error of that is not told, only the function that is under way. */
void nc_gpu_close(nc_gpu_failure *failure);
