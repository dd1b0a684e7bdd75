/* Copies of the fake library, its streams and events, and the one kernel that it knows.
 *
 * Memory is real and so is what copies leave in it. Time is reckoned, not measured: a stream's
 * clock goes on by what each copy takes at the described rate, and events hold its readings, so
 * that rates are those described however busy the machine is. Who waits does wait that long. */
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = 8 };

struct operation {
    char *to;
    const char *from;
    size_t bytes;
    bool corrupt;
    uint64_t *sums; /* of the words that are read, in place of a copy */
    size_t sums_bytes;
};

struct stream {
    int card;
    bool lost; /* what is queued is not done */
    double clock, jitter;
    double busy_until; /* of the real clock */
    int batches;
    int way; /* of its last copy; -1: none yet */
    struct operation queued[OPERATIONS];
    int count;
    struct stream *next;
};

struct event {
    int card;
    struct stream *stream;
    double at;
};

static struct stream *streams;

static bool climbs(int way) { return way == D2H || way == D2H_PAGEABLE; }

static double shared_rate(const struct stream *stream, int way) {
    const struct card *card = &cards[stream->card];
    double rate = card->rates[way];
    if (card->uplink < 0 || way >= PEER) {
        return rate;
    }
    int sharers = 0;
    for (const struct stream *each = streams; each; each = each->next) {
        sharers += each->way >= 0 && each->way < PEER && climbs(each->way) == climbs(way) &&
                   cards[each->card].uplink == card->uplink;
    }
    double share = uplink_rates[card->uplink] / sharers;
    return share < rate ? share : rate;
}

/* A batch of equal copies leaves what one does: each is made once. */
static void remember(struct stream *stream, struct operation wanted) {
    for (int i = 0; i < stream->count; i++) {
        struct operation *each = &stream->queued[i];
        if (each->to == wanted.to && each->from == wanted.from && each->bytes == wanted.bytes) {
            each->corrupt = wanted.corrupt;
            return;
        }
    }
    if (stream->count == OPERATIONS) {
        abort();
    }
    stream->queued[stream->count++] = wanted;
}

static int queue(struct stream *stream, int way, struct operation wanted) {
    struct card *card = &cards[stream->card];
    pthread_mutex_lock(&lock);
    stream->way = way;
    double rate = shared_rate(stream, way) * stream->jitter;
    rate /= card->copied_seconds < card->ramp ? 4 : 1;
    double seconds = (double)wanted.bytes / rate, moment = now();
    card->copied_seconds += seconds;
    stream->clock += seconds;
    stream->busy_until = (stream->busy_until > moment ? stream->busy_until : moment) + seconds;
    card->copies++;
    wanted.corrupt = card->corrupt_from && card->copies >= card->corrupt_from;
    remember(stream, wanted);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static void perform(const struct operation *each) {
    if (each->sums) {
        uint64_t sum = each->corrupt;
        for (size_t i = 0; i < each->bytes / sizeof sum; i++) {
            sum += ((const uint64_t *)(const void *)each->from)[i];
        }
        memset(each->sums, 0, each->sums_bytes);
        *each->sums = sum;
        return;
    }
    memcpy(each->to, each->from, each->bytes);
    each->to[each->bytes / 2] ^= each->corrupt;
}

static void wait_for(struct stream *stream) {
    for (int i = 0; i < stream->count && !stream->lost; i++) {
        perform(&stream->queued[i]);
    }
    stream->count = 0;
    sleep_until(stream->busy_until);
}

/* What touches pageable memory is done when the call returns. */
static int queue_host(struct stream *stream, const void *host, int way, struct operation wanted) {
    bool pinned = is_pinned(host, wanted.bytes);
    int error = queue(stream, way + (pinned ? 0 : H2D_PAGEABLE), wanted);
    if (!pinned) {
        wait_for(stream);
    }
    return error;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    ENTER_CONTEXT();
    if (owner(to, bytes) != current) {
        return INVALID_VALUE;
    }
    memcpy((void *)to, from, bytes);
    return SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    ENTER_CONTEXT();
    if (owner(from, bytes) != current) {
        return INVALID_VALUE;
    }
    memcpy(to, (const void *)from, bytes);
    return SUCCESS;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *in) {
    ENTER_CONTEXT();
    struct operation wanted = {.to = (char *)to, .from = from, .bytes = bytes};
    return owner(to, bytes) == in->card ? queue_host(in, from, H2D, wanted) : INVALID_VALUE;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *in) {
    ENTER_CONTEXT();
    struct operation wanted = {.to = to, .from = (const char *)from, .bytes = bytes};
    return owner(from, bytes) == in->card ? queue_host(in, to, D2H, wanted) : INVALID_VALUE;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *in) {
    ENTER_CONTEXT();
    struct operation wanted = {.to = (char *)to, .from = (const char *)from, .bytes = bytes};
    bool right = owner(to, bytes) == in->card && owner(from, bytes) == in->card;
    return right ? queue(in, DEVICE, wanted) : INVALID_VALUE;
}

int cuMemcpyPeerAsync(uint64_t to, const struct card *peer, uint64_t from,
                      const struct card *context, size_t bytes, struct stream *in) {
    ENTER_CONTEXT();
    int there = (int)(peer - cards), here = (int)(context - cards);
    struct operation wanted = {.to = (char *)to, .from = (const char *)from, .bytes = bytes};
    if (owner(to, bytes) != there || owner(from, bytes) != here || in->card != here) {
        return INVALID_VALUE;
    }
    return queue(in, context->peers[there] ? PEER : PEER_STAGED, wanted);
}

/* --- streams and events --- */

int cuStreamCreate(struct stream **stream, unsigned flags) {
    ENTER_CONTEXT();
    if (flags != 1) {
        return INVALID_VALUE;
    }
    *stream = calloc(1, sizeof **stream);
    **stream = (struct stream){.card = current, .jitter = 1, .way = -1};
    note("+stream %p\n", (void *)*stream);
    pthread_mutex_lock(&lock);
    struct card *card = &cards[current];
    (*stream)->lost = card->lost_from && ++card->streams >= card->lost_from;
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuStreamDestroy_v2(struct stream *stream) {
    ENTER_CONTEXT();
    pthread_mutex_lock(&lock);
    struct stream **at = &streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    pthread_mutex_unlock(&lock);
    note("-stream %p\n", (void *)stream);
    free(stream);
    return SUCCESS;
}

int cuEventCreate(struct event **event, unsigned flags) {
    ENTER_CONTEXT();
    if (flags > 1) { /* 2 would be an event that keeps no time */
        return INVALID_VALUE;
    }
    *event = calloc(1, sizeof **event);
    (*event)->card = current;
    note("+event %p\n", (void *)*event);
    return SUCCESS;
}

int cuEventDestroy_v2(struct event *event) {
    ENTER_CONTEXT();
    note("-event %p\n", (void *)event);
    free(event);
    return SUCCESS;
}

int cuEventRecord(struct event *event, struct stream *in) {
    ENTER_CONTEXT();
    if (event->card != in->card) {
        return INVALID_HANDLE;
    }
    event->stream = in;
    event->at = in->clock;
    double turn = ++in->batches * 0.618034;
    in->jitter = 1 + cards[in->card].jitter * (2 * (turn - (long)turn) - 1);
    return SUCCESS;
}

int cuEventSynchronize(struct event *event) {
    ENTER_CONTEXT();
    wait_for(event->stream);
    return SUCCESS;
}

int cuEventElapsedTime(float *milliseconds, const struct event *begin, const struct event *end) {
    ENTER_CONTEXT();
    *milliseconds = (float)((end->at - begin->at) * 1e3);
    return SUCCESS;
}

/* --- the kernel that reads --- */

int cuModuleLoadData(char **module, const char *image) {
    ENTER_CONTEXT();
    if (strncmp(image, ".version", 8) != 0) {
        return INVALID_IMAGE;
    }
    *module = strdup(image);
    note("+module %p\n", (void *)*module);
    const char *path = getenv("FAKE_CUDA_IMAGE");
    FILE *file = path ? fopen(path, "we") : NULL;
    if (file) {
        fputs(image, file);
        fclose(file);
    }
    return SUCCESS;
}

int cuModuleUnload(char *module) {
    ENTER_CONTEXT();
    note("-module %p\n", (void *)module);
    free(module);
    return SUCCESS;
}

int cuModuleGetFunction(const char **function, const char *module, const char *name) {
    ENTER_CONTEXT();
    *function = strstr(module, name);
    return *function ? SUCCESS : NOT_FOUND;
}

int cuLaunchKernel(const char *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, struct stream *in, void **arguments, void **extra) {
    ENTER_CONTEXT();
    uint64_t memory = *(uint64_t *)arguments[0], bytes = *(uint64_t *)arguments[1];
    uint64_t *sums = (uint64_t *)*(uint64_t *)arguments[2];
    size_t sums_bytes = (size_t)blocks_x * threads_x * sizeof *sums;
    if (!function || blocks_y * blocks_z * threads_y * threads_z != 1 || shared_bytes || extra ||
        owner(memory, bytes) != in->card || owner((uint64_t)sums, sums_bytes) != in->card) {
        return INVALID_VALUE;
    }
    struct operation wanted = {
        .from = (const char *)memory, .bytes = bytes, .sums = sums, .sums_bytes = sums_bytes};
    return queue(in, READ, wanted);
}
