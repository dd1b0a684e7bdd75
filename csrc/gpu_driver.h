#ifndef NODECHECK_GPU_DRIVER_H
#define NODECHECK_GPU_DRIVER_H

#include "nodecheck.h"

/* What is used of CUDA's driver API, by its public reference: no header of NVIDIA's is needed.
 * Names with _v2 are those of the 64-bit interface; the plain ones have other arguments. */

typedef struct cuda_context cuda_context;
typedef struct cuda_stream cuda_stream;
typedef struct cuda_event cuda_event;
typedef struct cuda_module cuda_module;
typedef struct cuda_function cuda_function;
typedef uint64_t cuda_pointer; /* to a card's memory */

enum {
    CUDA_INVALID_DEVICE = 101,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_TOO_MANY_PEERS = 711
};
enum { CUDA_ATTRIBUTE_MULTIPROCESSORS = 16 };
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_BLOCKING_SYNC = 1, CUDA_HOST_PORTABLE = 1 };

#define CUDA_FUNCTIONS(X)                                                                        \
    X(cuInit, (unsigned flags))                                                                  \
    X(cuDriverGetVersion, (int *version))                                                        \
    X(cuGetErrorName, (int error, const char **name))                                            \
    X(cuGetErrorString, (int error, const char **words))                                         \
    X(cuDeviceGetCount, (int *count))                                                            \
    X(cuDeviceGet, (int *device, int position))                                                  \
    X(cuDeviceGetPCIBusId, (char *address, int bytes, int device))                               \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                             \
    X(cuDevicePrimaryCtxRetain, (cuda_context * *context, int device))                           \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                \
    X(cuCtxSetCurrent, (cuda_context * context))                                                 \
    X(cuCtxSynchronize, (void))                                                                  \
    X(cuCtxEnablePeerAccess, (cuda_context * peer, unsigned flags))                              \
    X(cuDeviceCanAccessPeer, (int *can, int device, int peer))                                   \
    X(cuMemGetInfo_v2, (size_t *unused, size_t *total))                                          \
    X(cuMemAlloc_v2, (cuda_pointer * memory, size_t bytes))                                      \
    X(cuMemFree_v2, (cuda_pointer memory))                                                       \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                             \
    X(cuMemFreeHost, (void *memory))                                                             \
    X(cuMemcpyHtoD_v2, (cuda_pointer to, const void *from, size_t bytes))                        \
    X(cuMemcpyDtoH_v2, (void *to, cuda_pointer from, size_t bytes))                              \
    X(cuMemcpyHtoDAsync_v2, (cuda_pointer to, const void *from, size_t bytes, cuda_stream *in))  \
    X(cuMemcpyDtoHAsync_v2, (void *to, cuda_pointer from, size_t bytes, cuda_stream *in))        \
    X(cuMemcpyDtoDAsync_v2, (cuda_pointer to, cuda_pointer from, size_t bytes, cuda_stream *in)) \
    X(cuMemcpyPeerAsync, (cuda_pointer to, cuda_context * peer, cuda_pointer from,               \
                          cuda_context * context, size_t bytes, cuda_stream *in))                \
    X(cuStreamCreate, (cuda_stream * *stream, unsigned flags))                                   \
    X(cuStreamDestroy_v2, (cuda_stream * stream))                                                \
    X(cuEventCreate, (cuda_event * *event, unsigned flags))                                      \
    X(cuEventDestroy_v2, (cuda_event * event))                                                   \
    X(cuEventRecord, (cuda_event * event, cuda_stream * in))                                     \
    X(cuEventSynchronize, (cuda_event * event))                                                  \
    X(cuEventElapsedTime, (float *milliseconds, cuda_event *begin, cuda_event *end))             \
    X(cuModuleLoadData, (cuda_module * *module, const void *image))                              \
    X(cuModuleUnload, (cuda_module * module))                                                    \
    X(cuModuleGetFunction, (cuda_function * *function, cuda_module * module, const char *name))  \
    X(cuLaunchKernel,                                                                            \
      (cuda_function * function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,        \
       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,        \
       cuda_stream *in, void **arguments, void **extra))

/* What can fail beside them. */
#define CUDA_SYSTEM_CALLS(X) X(dlopen) X(calloc) X(mmap) X(sched_setaffinity) X(pthread_create)

#define CUDA_NUMBER(NAME, ...) CUDA_CALL_##NAME,
enum { CUDA_CALL_NONE, CUDA_FUNCTIONS(CUDA_NUMBER) CUDA_SYSTEM_CALLS(CUDA_NUMBER) CUDA_CALLS };
#undef CUDA_NUMBER

#define CUDA_MEMBER(NAME, ARGUMENTS) int(*NAME) ARGUMENTS;
typedef struct {
    CUDA_FUNCTIONS(CUDA_MEMBER)
} cuda_functions;
#undef CUDA_MEMBER

/* Those that the library lacks are NULL. */
extern cuda_functions nc_cuda;

/* The number that a function gives. Of the failure it is only noted that it is under way. */
#define CUDA_CODE(FAILURE, NAME, ...)         \
    (nc_gpu_enter(FAILURE, CUDA_CALL_##NAME), \
     nc_gpu_leave(FAILURE, nc_cuda.NAME ? nc_cuda.NAME(__VA_ARGS__) : NC_GPU_SYMBOL_MISSING))

/* Whether a function succeeded. The first failure stays. */
#define CUDA(FAILURE, NAME, ...) \
    nc_gpu_succeeded(FAILURE, CUDA_CALL_##NAME, CUDA_CODE(FAILURE, NAME, __VA_ARGS__))

void nc_gpu_enter(nc_gpu_failure *failure, int call);
/* Gives the code. */
int nc_gpu_leave(nc_gpu_failure *failure, int code);
bool nc_gpu_succeeded(nc_gpu_failure *failure, int call, int code);
/* False: what the system, or we ourselves, say instead of CUDA. */
bool nc_gpu_refused(nc_gpu_failure *failure, int call, int error, const char *words);
/* Those of an errno. */
const char *nc_gpu_system_words(int error);

/* A card's primary context, made where it is not there yet; false, with the reason. */
bool nc_gpu_context(nc_gpu_failure *failure, int position, cuda_context **context);

#endif
