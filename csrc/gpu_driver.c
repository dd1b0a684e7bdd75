/* libcuda.so.1, found at run time: its functions, its cards, and what goes wrong with them. */
#include "gpu_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

cuda_functions nc_cuda;

#define CUDA_NAME(NAME, ...) [CUDA_CALL_##NAME] = #NAME,
static const char *const CALLS[CUDA_CALLS] = {CUDA_FUNCTIONS(CUDA_NAME)
                                                  CUDA_SYSTEM_CALLS(CUDA_NAME)};
#undef CUDA_NAME

const char *nc_gpu_call_name(int call) {
    return call > CUDA_CALL_NONE && call < CUDA_CALLS ? CALLS[call] : NULL;
}

void nc_gpu_enter(nc_gpu_failure *failure, int call) { failure->inside = call; }

int nc_gpu_leave(nc_gpu_failure *failure, int code) {
    failure->inside = CUDA_CALL_NONE;
    return code;
}

static void say(nc_gpu_failure *failure, int code) {
    const char *name = NULL, *words = NULL;
    size_t room = sizeof failure->words;
    if (code == NC_GPU_SYMBOL_MISSING) {
        (void)snprintf(failure->words, room, "libcuda.so.1 has no %s", CALLS[failure->call]);
    } else if (nc_cuda.cuGetErrorName && !nc_cuda.cuGetErrorName(code, &name) && name) {
        bool told = nc_cuda.cuGetErrorString && !nc_cuda.cuGetErrorString(code, &words) && words;
        (void)snprintf(failure->words, room, "%s%s%s", name, told ? ": " : "", told ? words : "");
    } else {
        (void)snprintf(failure->words, room, "CUDA error %d", code);
    }
}

bool nc_gpu_succeeded(nc_gpu_failure *failure, int call, int code) {
    if (code && !failure->error) {
        failure->error = code;
        failure->call = call;
        say(failure, code);
    }
    return !code;
}

bool nc_gpu_refused(nc_gpu_failure *failure, int call, int error, const char *words) {
    if (!failure->error) {
        failure->error = error;
        failure->call = call;
        (void)snprintf(failure->words, sizeof failure->words, "%s", words);
    }
    return false;
}

const char *nc_gpu_system_words(int error) {
    return strerror(error); // NOLINT(concurrency-mt-unsafe): each thread has its own
}

static bool load(nc_gpu_failure *failure) {
    static void *library; /* for good: the driver's own threads run in it */
    if (library) {
        return true;
    }
    nc_gpu_enter(failure, CUDA_CALL_dlopen);
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    nc_gpu_leave(failure, 0);
    if (!library) {
        const char *why = dlerror(); // NOLINT(concurrency-mt-unsafe): each thread has its own
        return nc_gpu_refused(failure, CUDA_CALL_dlopen, NC_GPU_LIBRARY_MISSING,
                              why ? why : "no libcuda.so.1");
    }
    void *found;
    /* POSIX has data pointers carry functions here; C has no cast for it. */
#define CUDA_RESOLVE(NAME, ...)    \
    found = dlsym(library, #NAME); \
    memcpy((void *)&nc_cuda.NAME, (void *)&found, sizeof found);
    CUDA_FUNCTIONS(CUDA_RESOLVE)
#undef CUDA_RESOLVE
    if (!nc_cuda.cuDevicePrimaryCtxRelease_v2) { /* drivers before 450 have it by its first name */
        found = dlsym(library, "cuDevicePrimaryCtxRelease");
        memcpy((void *)&nc_cuda.cuDevicePrimaryCtxRelease_v2, (void *)&found, sizeof found);
    }
    return true;
}

void nc_gpu_query(nc_gpu_answer *answer) {
    nc_gpu_failure *failure = &answer->failure;
    int count, device;
    /* The version is known before CUDA starts, and where it does not. */
    bool ready = load(failure) && CUDA(failure, cuDriverGetVersion, &answer->version) &&
                 CUDA(failure, cuInit, 0) && CUDA(failure, cuDeviceGetCount, &count);
    while (ready && answer->count < count && answer->count < NC_GPU_CARDS) {
        char *address = answer->pci_addresses[answer->count];
        ready = CUDA(failure, cuDeviceGet, &device, answer->count) &&
                CUDA(failure, cuDeviceGetPCIBusId, address, sizeof *answer->pci_addresses, device);
        answer->count += ready;
    }
}

static struct {
    cuda_context *context;
    int device;
} held[NC_GPU_CARDS]; /* by position */

bool nc_gpu_context(nc_gpu_failure *failure, int position, cuda_context **context) {
    if (position < 0 || position >= NC_GPU_CARDS) {
        return nc_gpu_succeeded(failure, CUDA_CALL_cuDeviceGet, CUDA_INVALID_DEVICE);
    }
    if (!held[position].context) {
        int device;
        cuda_context *made;
        if (!CUDA(failure, cuDeviceGet, &device, position) ||
            !CUDA(failure, cuDevicePrimaryCtxRetain, &made, device)) {
            return false;
        }
        held[position].context = made;
        held[position].device = device;
    }
    *context = held[position].context;
    return true;
}

void nc_gpu_close(nc_gpu_failure *failure) {
    for (int i = 0; i < NC_GPU_CARDS; i++) {
        if (held[i].context) {
            (void)CUDA_CODE(failure, cuDevicePrimaryCtxRelease_v2, held[i].device);
            held[i].context = NULL;
        }
    }
}
