#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CARDS = 16, UPLINKS = 8, FAULTS = 32, SYSTEM = CARDS };

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    PEER_ACCESS_UNSUPPORTED = 217,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    UNKNOWN = 999
};

enum way { H2D, D2H, H2D_PAGEABLE, D2H_PAGEABLE, PEER, PEER_STAGED, DEVICE, READ, WAYS };

struct card {
    char address[32];
    int multiprocessors;
    size_t memory, unused;
    double rates[WAYS]; /* bytes a second */
    int uplink;         /* -1: none that it shares */
    bool peer_access;
    double ramp, jitter;
    long corrupt_from, lost_from; /* 0: never */
    /* what became of it */
    size_t allocated;
    int retained;
    long copies, streams;
    double copied_seconds;
    bool peers[CARDS];
};

extern struct card cards[CARDS];
extern double uplink_rates[UPLINKS];
extern int card_count, cuda_version;
extern bool mps_serves;
extern pthread_mutex_t lock; /* of all of it, but while time is spent */

/* Reads $FAKE_CUDA, once. */
void read_description(void);
/* What the description has this function do: 0, an error, or nothing ever again. -1: the system's.
 */
int fault_of(const char *function, int card);
/* A line to $FAKE_CUDA_LOG. */
void note(const char *form, ...) __attribute__((format(printf, 1, 2)));

double now(void);
void sleep_until(double moment);

extern _Thread_local int current; /* card, as the context is; -1: none */

/* The card whose memory that is, -1 for the host's and for none. */
int owner(uint64_t memory, size_t bytes);
/* Whether cuMemHostAlloc gave it. */
bool is_pinned(const void *memory, size_t bytes);

#define ENTER(CARD)                            \
    do {                                       \
        read_description();                    \
        int fault_ = fault_of(__func__, CARD); \
        if (fault_) {                          \
            return fault_;                     \
        }                                      \
    } while (0)

#define ENTER_CONTEXT()         \
    ENTER(current);             \
    if (current < 0) {          \
        return INVALID_CONTEXT; \
    }

#endif
