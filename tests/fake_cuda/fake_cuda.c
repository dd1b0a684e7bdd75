#define _GNU_SOURCE /* sched_getaffinity */
/* A stand-in for CUDA's driver, for tests: libcuda.so.1 with the functions that a health check
 * calls. description.c says what $FAKE_CUDA may hold.
 *
 * Here are its cards, contexts and memory; copies.c has the rest. Signatures and numbers follow the
 * public driver API. */
#include "fake_cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct allocation {
    char *memory;
    size_t bytes;
    int card; /* -1: the host's, pinned */
    struct allocation *next;
};

static bool started;
static struct allocation *allocations;
static struct allocation *freed;  /* of cards: it comes back as it was left */
static int order[CARDS], visible; /* of the cards that this process has */
_Thread_local int current = -1;

/* --- the library and its cards --- */

/* As the driver does: the fastest comes first, which is not the order of PCI addresses, unless told
 * otherwise, and CUDA_VISIBLE_DEVICES chooses from that. */
static void see(void) {
    const char *first = getenv("CUDA_DEVICE_ORDER"), *chosen = getenv("CUDA_VISIBLE_DEVICES");
    bool by_address = first && !strcmp(first, "PCI_BUS_ID");
    visible = 0;
    for (int i = 0; i < card_count && !chosen; i++) {
        order[visible++] = by_address ? i : card_count - 1 - i;
    }
    while (chosen && *chosen && visible < CARDS) {
        long number = strtol(chosen, NULL, 10);
        if (number < 0 || number >= card_count) {
            break;
        }
        order[visible++] = by_address ? (int)number : card_count - 1 - (int)number;
        chosen = strchr(chosen, ',') ? strchr(chosen, ',') + 1 : "";
    }
}

int cuInit(unsigned flags) {
    ENTER(-1);
    if (flags) {
        return INVALID_VALUE;
    }
    const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    while (mps_serves && (!pipes || !access(pipes, F_OK))) {
        pause();
    }
    see();
    started = visible > 0;
    return started ? SUCCESS : NO_DEVICE;
}

int cuDriverGetVersion(int *version) {
    ENTER(-1);
    *version = cuda_version;
    return SUCCESS;
}

static const struct {
    int error;
    const char *name, *words;
} ERRORS[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int tell(int error, const char **told, bool name) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++) {
        if (ERRORS[i].error == error) {
            *told = name ? ERRORS[i].name : ERRORS[i].words;
            return SUCCESS;
        }
    }
    *told = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int error, const char **name) { return tell(error, name, true); }

int cuGetErrorString(int error, const char **words) { return tell(error, words, false); }

int cuDeviceGetCount(int *count) {
    ENTER(-1);
    *count = visible;
    return started ? SUCCESS : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int position) {
    if (!started) {
        return NOT_INITIALIZED;
    }
    if (position < 0 || position >= visible) {
        return INVALID_DEVICE;
    }
    ENTER(order[position]);
    *device = order[position];
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *address, int bytes, int device) {
    ENTER(device);
    snprintf(address, (size_t)bytes, "%s", cards[device].address);
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER(device);
    *value = cards[device].multiprocessors;
    return attribute == 16 ? SUCCESS : INVALID_VALUE;
}

/* --- contexts: a context is its card --- */

int cuDevicePrimaryCtxRetain(struct card **context, int device) {
    ENTER(device);
    note("+context %d\n", device);
    cards[device].retained++;
    *context = &cards[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER(device);
    if (!cards[device].retained) {
        return INVALID_CONTEXT;
    }
    note("-context %d\n", device);
    cards[device].retained--;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }

int cuCtxSetCurrent(const struct card *context) {
    int card = context ? (int)(context - cards) : -1;
    ENTER(card);
    if (context && !context->retained) {
        return INVALID_CONTEXT;
    }
    current = card;
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    ENTER_CONTEXT();
    return SUCCESS;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER(device);
    *can = device != peer && cards[device].peer_access && cards[peer].peer_access;
    return SUCCESS;
}

int cuCtxEnablePeerAccess(const struct card *context, unsigned flags) {
    ENTER_CONTEXT();
    int peer = (int)(context - cards);
    if (flags || peer == current) {
        return INVALID_VALUE;
    }
    if (!cards[current].peer_access || !context->peer_access) {
        return PEER_ACCESS_UNSUPPORTED;
    }
    pthread_mutex_lock(&lock);
    bool already = cards[current].peers[peer];
    cards[current].peers[peer] = true;
    pthread_mutex_unlock(&lock);
    return already ? PEER_ACCESS_ALREADY_ENABLED : SUCCESS;
}

/* --- memory --- */

/* Under the lock, as all that looks at allocations. */
static struct allocation **holder(const char *memory, size_t bytes) {
    struct allocation **at = &allocations;
    while (*at && (memory < (*at)->memory || memory + bytes > (*at)->memory + (*at)->bytes)) {
        at = &(*at)->next;
    }
    return at;
}

static struct allocation *allocate_anew(size_t bytes, int card) {
    struct allocation *made = malloc(sizeof *made);
    *made = (struct allocation){malloc(bytes), bytes, card, NULL};
    memset(made->memory, 0xee, bytes); /* what real memory may hold */
    return made;
}

static char *allocate(size_t bytes, int card) {
    pthread_mutex_lock(&lock);
    struct allocation **at = &freed, *made;
    while (*at && ((*at)->card != card || (*at)->bytes != bytes)) {
        at = &(*at)->next;
    }
    made = *at;
    if (made) {
        *at = made->next;
    }
    pthread_mutex_unlock(&lock);
    made = made ? made : allocate_anew(bytes, card);
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    return made->memory;
}

static int let_go(char *memory, bool host) {
    pthread_mutex_lock(&lock);
    struct allocation **at = holder(memory, 1), *found = *at;
    bool right = found && found->memory == memory && (found->card < 0) == host;
    if (right) {
        *at = found->next;
        if (!host) {
            cards[found->card].allocated -= found->bytes;
            found->next = freed;
            freed = found;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!right) {
        return INVALID_VALUE;
    }
    note("-%s %p\n", host ? "pinned" : "device", (void *)memory);
    if (host) {
        free(found->memory);
        free(found);
    }
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    ENTER_CONTEXT();
    pthread_mutex_lock(&lock);
    *unused = cards[current].unused - cards[current].allocated;
    *total = cards[current].memory;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    ENTER_CONTEXT();
    struct card *card = &cards[current];
    pthread_mutex_lock(&lock);
    bool fits = card->allocated + bytes <= card->unused;
    card->allocated += fits ? bytes : 0;
    pthread_mutex_unlock(&lock);
    if (!fits) {
        return OUT_OF_MEMORY;
    }
    char *made = allocate(bytes, current);
    note("+device %p %d %zu\n", (void *)made, current, bytes);
    *memory = (uint64_t)made;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t memory) {
    ENTER_CONTEXT();
    return let_go((char *)memory, false);
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    ENTER_CONTEXT();
    if (flags != 1) {
        return INVALID_VALUE;
    }
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    *memory = allocate(bytes, -1);
    note("+pinned %p %zu on %d cpus\n", *memory, bytes, CPU_COUNT(&set));
    return SUCCESS;
}

int cuMemFreeHost(void *memory) {
    ENTER_CONTEXT();
    return let_go(memory, true);
}

int owner(uint64_t memory, size_t bytes) {
    pthread_mutex_lock(&lock);
    const struct allocation *found = *holder((const char *)memory, bytes);
    pthread_mutex_unlock(&lock);
    return found ? found->card : -1;
}

bool is_pinned(const void *memory, size_t bytes) {
    pthread_mutex_lock(&lock);
    const struct allocation *found = *holder(memory, bytes);
    pthread_mutex_unlock(&lock);
    return found && found->card < 0;
}
