/* What a description says: holders of keys and their values, faults, and the log of calls.
 * The grammar stands at the top of fake_nvml.c. */
#ifndef FAKE_NVML_DESCRIPTION_H
#define FAKE_NVML_DESCRIPTION_H

#include <nvml.h>
#include <stdbool.h>

struct entry {
    char key[72];
    char text[144];
    unsigned calls;
};

/* The system, a card or a MIG device: what NVML hands out as a device is a pointer to one. */
struct nvmlDevice_st {
    struct nvmlDevice_st *parent; /* of a MIG device: its card */
    struct entry *entries;
    int count, room;
    unsigned index, calls;
};

/* Reads the file that $FAKE_NVML names anew. */
void description_load(void);

nvmlDevice_t described_system(void);
unsigned described_cards(void);
nvmlDevice_t described_card(unsigned index);                 /* or NULL */
nvmlDevice_t described_mig(nvmlDevice_t of, unsigned index); /* or NULL */

/* Notes a line in the log of calls: the function, its device, and what else was asked. */
__attribute__((format(printf, 3, 4))) void note(const char *function, nvmlDevice_t of,
                                                const char *arguments, ...);

/* Counts a call and lets faults strike: the error with which it ends at once. */
nvmlReturn_t begin(const char *function, nvmlDevice_t of);

bool holds(nvmlDevice_t of, const char *key);

/* The value of a key. Each call takes the next of a sequence. Hangs and dies where told to. */
nvmlReturn_t text_of(nvmlDevice_t of, const char *key, const char **text, unsigned *times);
nvmlReturn_t string_of(nvmlDevice_t of, const char *key, char *buffer, unsigned length);
nvmlReturn_t number_of(nvmlDevice_t of, const char *key, unsigned long long *value);
nvmlReturn_t small_of(nvmlDevice_t of, const char *key, unsigned *value);
nvmlReturn_t value_of(nvmlDevice_t of, const char *key, nvmlValueType_t kind,
                      nvmlFieldValue_t *value);

/* As number_of and text_of, for an answer that is asked for twice: first how long it is. */
nvmlReturn_t still_text_of(nvmlDevice_t of, const char *key, const char **text);

#endif
