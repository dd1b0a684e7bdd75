/* What the files that hold the library's functions share. */
#ifndef FAKE_NVML_FUNCTIONS_H
#define FAKE_NVML_FUNCTIONS_H

#include "description.h"

#define PUBLIC __attribute__((visibility("default")))

/* What ends a call before it begins: no library, no device, a fault. */
nvmlReturn_t begun(const char *function, nvmlDevice_t of, bool needs_device);

/* At the head of a function: its line in the log, then what may end it. */
#define CALL(device, needed, ...)                \
    do {                                         \
        nvmlReturn_t ended;                      \
        note(__func__, device, __VA_ARGS__);     \
        ended = begun(__func__, device, needed); \
        if (ended != NVML_SUCCESS)               \
            return ended;                        \
    } while (0)
#define ON_SYSTEM(...) CALL(NULL, false, __VA_ARGS__)
#define ON_DEVICE(...) CALL(device, true, __VA_ARGS__)

#define VERSIONED(pointer, wanted)      \
    if ((pointer)->version != (wanted)) \
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

/* A mode that is on now, and the one that a restart brings: the same where no key tells. */
nvmlReturn_t mode_of(nvmlDevice_t device, const char *now, const char *later, unsigned *mode,
                     unsigned *pending);

/* Fills in what follows from busId. */
void place(nvmlPciInfo_t *info);

#endif
