/* What $FAKE_CUDA describes: lines of `key value`, before the first `card` the system's.
 *
 *     version 13000                 cuDriverGetVersion's answer
 *     uplink left 40                cards with `uplink left` share 40 GB/s a direction
 *     cuInit !802                   any function, by its exact name: error 802
 *     cuMemAlloc_v2 !2@5            from the 5th call on
 *     cuStreamCreate hang@3         never returns; `crash` dies, `killed` is killed by another,
 *                                   `~0.5` takes half a second longer
 *     mps serving                   an MPS daemon that has cuInit wait for another user's server
 *     card                          begins the next one; functions then fail for this card alone
 *     pci_address 0000:17:00.0
 *     multiprocessors 132
 *     memory 150754820096
 *     free 149000000000             what cuMemGetInfo_v2 begins with
 *     h2d 55.2                      GB/s of 10^9 bytes; also d2h, h2d_pageable, d2h_pageable,
 *     device 2150                   peer, peer_staged, device (one way) and read (the kernel's)
 *     uplink left
 *     peer_access no                cuDeviceCanAccessPeer says 0
 *     ramp 0.2                      its first 0.2 s of copying run at a quarter of the rate
 *     jitter 0.3                    rates differ from sample to sample by up to 30 %
 *     corrupt 12                    from its 12th copy on a byte arrives wrong
 *     lost 2                        copies in its 2nd stream and later ones do nothing */
#include "fake_cuda.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct card cards[CARDS];
double uplink_rates[UPLINKS];
int card_count, cuda_version = 13000;
bool mps_serves;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char uplink_names[UPLINKS][16];
static int uplinks;

static struct fault {
    char function[40], how[16];
    int card;
    long from, calls;
} faults[FAULTS];
static int fault_count;

static const struct {
    const char *key;
    double rate; /* of a card that does not say */
} WAY_KEYS[WAYS] = {
    [H2D] = {"h2d", 25e9},
    [D2H] = {"d2h", 25e9},
    [H2D_PAGEABLE] = {"h2d_pageable", 8e9},
    [D2H_PAGEABLE] = {"d2h_pageable", 7e9},
    [PEER] = {"peer", 20e9},
    [PEER_STAGED] = {"peer_staged", 10e9},
    [DEVICE] = {"device", 300e9},
    [READ] = {"read", 600e9},
};

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void sleep_until(double moment) {
    struct timespec until = {.tv_sec = (time_t)moment};
    until.tv_nsec = (long)((moment - (double)until.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

void note(const char *form, ...) {
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (!file) {
        return;
    }
    va_list values;
    va_start(values, form);
    vfprintf(file, form, values);
    va_end(values);
    fclose(file);
}

static void refuse(const char *line) {
    fprintf(stderr, "FAKE_CUDA: %s\n", line);
    abort();
}

static int uplink(const char *name) {
    for (int i = 0; i < uplinks; i++) {
        if (!strcmp(uplink_names[i], name)) {
            return i;
        }
    }
    if (uplinks == UPLINKS) {
        refuse(name);
    }
    snprintf(uplink_names[uplinks], sizeof uplink_names[0], "%s", name);
    return uplinks++;
}

static void read_fault(const char *function, const char *value, int card) {
    if (fault_count == FAULTS) {
        refuse(function);
    }
    struct fault *fault = &faults[fault_count++];
    snprintf(fault->function, sizeof fault->function, "%.39s", function);
    snprintf(fault->how, sizeof fault->how, "%.*s", (int)strcspn(value, "@"), value);
    const char *from = strchr(value, '@');
    fault->from = from ? strtol(from + 1, NULL, 10) : 1;
    fault->card = card;
}

static void begin_card(void) {
    if (card_count == CARDS) {
        refuse("too many cards");
    }
    struct card *card = &cards[card_count++];
    *card = (struct card){.multiprocessors = 4, .memory = 16UL << 30};
    card->uplink = -1;
    card->peer_access = true;
    snprintf(card->address, sizeof card->address, "0000:%02x:00.0", card_count);
    for (int way = 0; way < WAYS; way++) {
        card->rates[way] = WAY_KEYS[way].rate;
    }
}

static bool read_rate(struct card *card, const char *key, const char *value) {
    for (int way = 0; way < WAYS; way++) {
        if (!strcmp(key, WAY_KEYS[way].key)) {
            card->rates[way] = strtod(value, NULL) * 1e9;
            return true;
        }
    }
    return false;
}

static void read_card(struct card *card, const char *key, const char *value) {
    if (!strcmp(key, "pci_address")) {
        snprintf(card->address, sizeof card->address, "%s", value);
    } else if (!strcmp(key, "multiprocessors")) {
        card->multiprocessors = (int)strtol(value, NULL, 10);
    } else if (!strcmp(key, "memory")) {
        card->memory = strtoull(value, NULL, 10);
    } else if (!strcmp(key, "free")) {
        card->unused = strtoull(value, NULL, 10);
    } else if (!strcmp(key, "uplink")) {
        card->uplink = uplink(value);
    } else if (!strcmp(key, "peer_access")) {
        card->peer_access = strcmp(value, "no") != 0;
    } else if (!strcmp(key, "ramp")) {
        card->ramp = strtod(value, NULL);
    } else if (!strcmp(key, "jitter")) {
        card->jitter = strtod(value, NULL);
    } else if (!strcmp(key, "corrupt")) {
        card->corrupt_from = strtol(value, NULL, 10);
    } else if (!strcmp(key, "lost")) {
        card->lost_from = strtol(value, NULL, 10);
    } else if (!read_rate(card, key, value)) {
        refuse(key);
    }
}

static void read_system(const char *key, const char *value) {
    char name[16];
    double rate;
    if (!strcmp(key, "version")) {
        cuda_version = (int)strtol(value, NULL, 10);
    } else if (!strcmp(key, "mps")) {
        mps_serves = !strcmp(value, "serving");
    } else if (!strcmp(key, "uplink") && sscanf(value, "%15s %lf", name, &rate) == 2) {
        uplink_rates[uplink(name)] = rate * 1e9;
    } else {
        refuse(key);
    }
}

static void read_lines(void) {
    const char *path = getenv("FAKE_CUDA");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[160];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *value = line + strcspn(line, " ");
        value += *value ? 1 : 0;
        if (value != line && value[-1] == ' ') {
            value[-1] = '\0';
        }
        if (!*line || *line == '#') {
            continue;
        }
        if (!strcmp(line, "card")) {
            begin_card();
        } else if (!strncmp(line, "cu", 2) && line[2] >= 'A' && line[2] <= 'Z') {
            read_fault(line, value, card_count - 1);
        } else if (card_count) {
            read_card(&cards[card_count - 1], line, value);
        } else {
            read_system(line, value);
        }
    }
    if (file) {
        fclose(file);
    }
    for (int i = 0; i < card_count; i++) {
        cards[i].unused = cards[i].unused ? cards[i].unused : cards[i].memory;
    }
}

void read_description(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_lines);
}

static struct fault *due(const char *function, int card) {
    struct fault *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        bool meant = !strcmp(fault->function, function) && (fault->card < 0 || fault->card == card);
        if (meant && ++fault->calls >= fault->from && !found) {
            found = fault;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int fault_of(const char *function, int card) {
    const struct fault *fault = due(function, card);
    if (!fault) {
        return SUCCESS;
    }
    if (*fault->how == '!') {
        return (int)strtol(fault->how + 1, NULL, 10);
    }
    if (*fault->how == '~') {
        sleep_until(now() + strtod(fault->how + 1, NULL));
        return SUCCESS;
    }
    if (!strcmp(fault->how, "crash")) {
        raise(SIGSEGV);
    }
    if (!strcmp(fault->how, "killed")) {
        raise(SIGKILL);
    }
    for (;;) {
        pause();
    }
}
