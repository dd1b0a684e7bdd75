/* The memory of one card's part in a step, and what copies leave in it. */
#include "gpu_part.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const size_t BLOCK_BYTES = 4096;             /* buffers are whole ones */
static const size_t PIECE_BYTES = (size_t)16 << 20; /* of a host buffer that only fills a card's */
static const size_t SPARED_BYTES = (size_t)256 << 20; /* of a card's memory: not for us */

/* Word i of a pattern is (first + i) * FACTOR: no two words of two patterns are the same. OTHER
 * leads from a part's pattern to another, which is where copies go: one that is not made is seen.
 */
static const uint64_t FACTOR = 0x9e3779b97f4a7c15, OTHER = 1ULL << 39;

/* --- patterns --- */

static void fill_pattern(uint64_t *words, size_t bytes, uint64_t first) {
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        words[i] = (first + i) * FACTOR;
    }
}

static bool has_pattern(const uint64_t *words, size_t bytes, uint64_t first) {
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        if (words[i] != (first + i) * FACTOR) {
            return false;
        }
    }
    return true;
}

static uint64_t pattern_sum(size_t bytes, uint64_t first) {
    uint64_t words = bytes / sizeof(uint64_t); /* whole blocks: an even number */
    return (words * first + words / 2 * (words - 1)) * FACTOR;
}

/* --- memory --- */

void nc_gpu_part_begin(nc_gpu_part *self, const nc_gpu_copy *wanted) {
    static uint64_t parts; /* memory that one part frees comes back in the next as it was left */
    nc_gpu_result *result = wanted->result;
    *self = (nc_gpu_part){.wanted = *wanted, .failure = &result->failure};
    self->bytes = wanted->buffer_bytes / BLOCK_BYTES * BLOCK_BYTES;
    self->bytes = self->bytes ? self->bytes : BLOCK_BYTES;
    parts++;
    self->seed = (parts << 40) + parts; /* the latter, or sums of many words would be the same */
    result->buffer_bytes = self->bytes;
    result->intact = result->direct = -1;
    (void)(nc_gpu_context(self->failure, wanted->card, &self->context) &&
           wanted->operation == NC_GPU_PEER_TO_PEER &&
           nc_gpu_context(self->failure, wanted->peer, &self->peer_context));
}

static bool is_with_host(const nc_gpu_part *self) {
    return self->wanted.operation == NC_GPU_HOST_TO_DEVICE ||
           self->wanted.operation == NC_GPU_DEVICE_TO_HOST;
}

/* Other programs may be about to ask for the last of it. */
static bool leaves_room(nc_gpu_part *self, size_t bytes) {
    size_t unused = 0, total = 0;
    if (!CUDA(self->failure, cuMemGetInfo_v2, &unused, &total)) {
        return false;
    }
    if (unused >= bytes + SPARED_BYTES) {
        return true;
    }
    char words[sizeof self->failure->words];
    (void)snprintf(words, sizeof words,
                   "too little free memory on the card: %zu MiB, and %zu MiB beside %zu MiB that "
                   "others may want are needed",
                   unused >> 20, bytes >> 20, SPARED_BYTES >> 20);
    return nc_gpu_refused(self->failure, CUDA_CALL_cuMemGetInfo_v2, NC_GPU_TOO_LITTLE_MEMORY,
                          words);
}

static bool allocate_on_card(nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    int operation = self->wanted.operation, device = 0;
    size_t bytes = self->bytes, beside = operation == NC_GPU_DEVICE_COPY ? bytes : 0;
    if (!CUDA(failure, cuCtxSetCurrent, self->context) ||
        !CUDA(failure, cuDeviceGet, &device, self->wanted.card)) {
        return false;
    }
    if (operation == NC_GPU_DEVICE_READ) {
        if (!nc_gpu_reader_size(failure, device, &self->reader)) {
            return false;
        }
        beside = self->reader.sums_bytes;
    }
    return leaves_room(self, bytes + beside) && CUDA(failure, cuMemAlloc_v2, &self->near, bytes) &&
           (operation != NC_GPU_DEVICE_COPY || CUDA(failure, cuMemAlloc_v2, &self->far, bytes)) &&
           (operation != NC_GPU_DEVICE_READ || nc_gpu_reader_make(failure, &self->reader));
}

/* Of the current context, where copies are queued, to the other's memory; without it they are
 * staged in the host's. */
static bool enable_peer(nc_gpu_part *self) {
    int code = CUDA_CODE(self->failure, cuCtxEnablePeerAccess, self->peer_context, 0);
    if (code == CUDA_PEER_ACCESS_UNSUPPORTED || code == CUDA_TOO_MANY_PEERS) {
        self->wanted.result->direct = 0;
        return true;
    }
    return code == CUDA_PEER_ACCESS_ALREADY_ENABLED ||
           nc_gpu_succeeded(self->failure, CUDA_CALL_cuCtxEnablePeerAccess, code);
}

static bool reach_peer(nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    int device = 0, peer = 0, can = 0;
    if (!CUDA(failure, cuDeviceGet, &device, self->wanted.card) ||
        !CUDA(failure, cuDeviceGet, &peer, self->wanted.peer) ||
        !CUDA(failure, cuDeviceCanAccessPeer, &can, device, peer) ||
        !CUDA(failure, cuCtxSetCurrent, self->peer_context) || !leaves_room(self, self->bytes) ||
        !CUDA(failure, cuMemAlloc_v2, &self->far, self->bytes)) {
        return false;
    }
    self->wanted.result->direct = can != 0;
    return CUDA(failure, cuCtxSetCurrent, self->context) && (!can || enable_peer(self));
}

static bool allocate_on_host(nc_gpu_part *self) {
    size_t bytes = self->bytes;
    self->host_bytes = is_with_host(self) || bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    if (!self->wanted.pageable) {
        return CUDA(self->failure, cuMemHostAlloc, &self->host, self->host_bytes,
                    CUDA_HOST_PORTABLE);
    }
    void *mapping =
        mmap(NULL, self->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return nc_gpu_refused(self->failure, CUDA_CALL_mmap, NC_GPU_SYSTEM_REFUSED,
                              nc_gpu_system_words(errno));
    }
    self->host = mapping;
    return true;
}

static bool fill_card(nc_gpu_part *self, cuda_pointer memory, uint64_t first) {
    bool filled = true;
    for (size_t at = 0; filled && at < self->bytes; at += self->host_bytes) {
        size_t left = self->bytes - at, piece = left < self->host_bytes ? left : self->host_bytes;
        fill_pattern(self->host, piece, first + at / sizeof(uint64_t));
        filled = CUDA(self->failure, cuMemcpyHtoD_v2, memory + at, self->host, piece);
    }
    /* What comes from pageable memory may still be under way, past other streams. */
    return filled && CUDA(self->failure, cuCtxSynchronize);
}

static bool fill(nc_gpu_part *self) {
    uint64_t other = self->seed + OTHER;
    bool to_card = self->wanted.operation == NC_GPU_HOST_TO_DEVICE;
    if (!fill_card(self, self->near, to_card ? other : self->seed)) {
        return false;
    }
    if (is_with_host(self)) {
        fill_pattern(self->host, self->bytes, to_card ? self->seed : other);
    }
    cuda_context *there = self->peer_context ? self->peer_context : self->context;
    return !self->far ||
           (CUDA(self->failure, cuCtxSetCurrent, there) && fill_card(self, self->far, other) &&
            CUDA(self->failure, cuCtxSetCurrent, self->context));
}

static int pin(const int *cpus, int count) {
    int highest = 0;
    for (int i = 0; i < count; i++) {
        highest = cpus[i] > highest ? cpus[i] : highest;
    }
    cpu_set_t *set = CPU_ALLOC((size_t)highest + 1);
    if (!set) {
        return ENOMEM;
    }
    size_t bytes = CPU_ALLOC_SIZE((size_t)highest + 1);
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < count; i++) {
        CPU_SET_S((size_t)cpus[i], bytes, set);
    }
    int failed = sched_setaffinity(0, bytes, set) ? errno : 0;
    CPU_FREE(set);
    return failed;
}

static bool settle(nc_gpu_part *self) {
    const nc_gpu_copy *wanted = &self->wanted;
    int error = wanted->cpu_count ? pin(wanted->cpus, wanted->cpu_count) : 0;
    return !error || nc_gpu_refused(self->failure, CUDA_CALL_sched_setaffinity,
                                    NC_GPU_SYSTEM_REFUSED, nc_gpu_system_words(error));
}

bool nc_gpu_part_prepare(nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    return settle(self) && allocate_on_card(self) &&
           (self->wanted.operation != NC_GPU_PEER_TO_PEER || reach_peer(self)) &&
           allocate_on_host(self) &&
           CUDA(failure, cuStreamCreate, &self->stream, CUDA_STREAM_NON_BLOCKING) &&
           CUDA(failure, cuEventCreate, &self->begin, CUDA_EVENT_BLOCKING_SYNC) &&
           CUDA(failure, cuEventCreate, &self->end, CUDA_EVENT_BLOCKING_SYNC) && fill(self);
}

void nc_gpu_part_release(nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    (void)CUDA_CODE(failure, cuCtxSetCurrent, self->context);
    if (self->end) {
        (void)CUDA_CODE(failure, cuEventDestroy_v2, self->end);
    }
    if (self->begin) {
        (void)CUDA_CODE(failure, cuEventDestroy_v2, self->begin);
    }
    if (self->stream) {
        (void)CUDA_CODE(failure, cuStreamDestroy_v2, self->stream);
    }
    if (self->host && self->wanted.pageable) {
        munmap(self->host, self->host_bytes);
    } else if (self->host) {
        (void)CUDA_CODE(failure, cuMemFreeHost, self->host);
    }
    nc_gpu_reader_free(failure, &self->reader);
    if (self->near) {
        (void)CUDA_CODE(failure, cuMemFree_v2, self->near);
    }
    if (self->far && self->peer_context) {
        (void)CUDA_CODE(failure, cuCtxSetCurrent, self->peer_context);
    }
    if (self->far) {
        (void)CUDA_CODE(failure, cuMemFree_v2, self->far);
    }
}

/* --- what arrived --- */

static bool holds_pattern(nc_gpu_part *self, cuda_pointer memory, bool *intact) {
    *intact = true;
    for (size_t at = 0; *intact && at < self->bytes; at += self->host_bytes) {
        size_t left = self->bytes - at, piece = left < self->host_bytes ? left : self->host_bytes;
        memset(self->host, 0, piece);
        if (!CUDA(self->failure, cuMemcpyDtoH_v2, self->host, memory + at, piece)) {
            return false;
        }
        *intact = has_pattern(self->host, piece, self->seed + at / sizeof(uint64_t));
    }
    return true;
}

bool nc_gpu_part_compare(nc_gpu_part *self) {
    nc_gpu_failure *failure = self->failure;
    bool compared = true, intact = false;
    uint64_t sum = 0;
    switch (self->wanted.operation) {
    case NC_GPU_HOST_TO_DEVICE:
        compared = holds_pattern(self, self->near, &intact);
        break;
    case NC_GPU_DEVICE_TO_HOST:
        intact = has_pattern(self->host, self->bytes, self->seed);
        break;
    case NC_GPU_PEER_TO_PEER:
        compared = CUDA(failure, cuCtxSetCurrent, self->peer_context) &&
                   holds_pattern(self, self->far, &intact);
        break;
    case NC_GPU_DEVICE_COPY:
        compared = holds_pattern(self, self->far, &intact);
        break;
    default:
        compared = nc_gpu_reader_sum(failure, &self->reader, &sum);
        intact = sum == pattern_sum(self->bytes, self->seed);
    }
    if (compared) {
        self->wanted.result->intact = intact;
    }
    return compared;
}
