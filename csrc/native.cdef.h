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

/* The named read kernel, or for NULL the default one; NULL where this CPU cannot run it. */
const char *nc_read_kernel_name(const char *wanted);
/* Bytes that one iteration of the kernel's loop reads; 0 for an unknown kernel. */
size_t nc_read_kernel_bytes(const char *kernel);
/* Sum of the 64-bit words of a 64-byte aligned buffer; false where the kernel cannot run or the
 * size is no whole number of iterations. */
bool nc_read_sum(const char *kernel, const void *buffer, size_t bytes, uint64_t *sum);

typedef struct {
    double seconds;   /* last end - first start over all threads */
    double cpu_share; /* least over the threads of CPU time / wall time */
} nc_read_pass;

typedef struct {
    const char *kernel; /* NULL: the default one */
    const int *cpus;    /* one thread pinned to each */
    int threads;
    size_t bytes_per_thread; /* rounded down to whole 2 MiB */
    size_t omit_bytes;       /* left unread at each buffer's end, so that a test sees it caught */
    double budget_seconds;   /* from call to return, but 5 passes are always made */
    int max_passes;
    nc_read_pass *passes; /* max_passes of them */
} nc_dram_request;

typedef struct {
    const char *kernel;
    const char *failed_step; /* set where an errno is returned */
    int failed_cpu;
    size_t bytes_per_thread;
    int64_t huge_page_bytes; /* of all buffers, in 2 MiB pages; -1 unknown */
    int passes;
} nc_dram_result;

/* Returns 0 or an errno. */
int nc_dram_read(const nc_dram_request *request, nc_dram_result *result);
