/* A stand-in for NVIDIA's management library, for tests: libnvidia-ml.so.1 with the functions that
 * a health check calls. The file that $FAKE_NVML names says what they answer:
 *
 *     driver_version 580.65.06        before the first `device`: the system's answers
 *     init !9                         `!N` is NVML's error N, `hang` never returns, `crash` aborts
 *     device                          begins the next card
 *     name NVIDIA L40
 *     clock_event_reasons 0x8,0x0     each call takes the next value, the last one stays
 *
 * A key that is not there is NVML_ERROR_NOT_SUPPORTED. Built with -DOLD_DRIVER it lacks the
 * functions that older drivers lack. Layouts and numbers follow the public API of nvml.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, UNKNOWN = 999 };
enum { DEVICES = 16, KEYS = 48, SYSTEM = DEVICES };

struct entry {
    char key[40];
    char text[96];
    int calls;
};

struct holder {
    struct entry entries[KEYS];
    int count;
};

static struct holder holders[DEVICES + 1];
static int devices;

typedef struct holder *handle;

struct pci_info {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct utilisation {
    unsigned gpu, memory;
};
struct temperature {
    unsigned version, sensor;
    int value;
};

static void load(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[160];
    struct holder *here = &holders[SYSTEM];

    devices = 0;
    memset(holders, 0, sizeof(holders));
    while (file && fgets(line, sizeof(line), file)) {
        struct entry *entry = &here->entries[here->count];

        if (strncmp(line, "device\n", 7) == 0 && devices < DEVICES) {
            here = &holders[devices++];
        } else if (here->count < KEYS &&
                   sscanf(line, "%39s %95[^\n]", entry->key, entry->text) == 2) {
            here->count++;
        }
    }
    if (file)
        fclose(file);
}

/* The answer to a key: 0 with its text, or an error. */
static int answer(struct holder *from, const char *key, const char **text) {
    for (int i = 0; i < from->count; i++) {
        struct entry *entry = &from->entries[i];
        const char *value = entry->text;

        if (strcmp(entry->key, key) != 0)
            continue;
        for (int skip = entry->calls++; skip > 0 && strchr(value, ','); skip--)
            value = strchr(value, ',') + 1;
        if (strncmp(value, "hang", 4) == 0)
            for (;;)
                pause();
        if (strncmp(value, "crash", 5) == 0)
            abort();
        if (*value == '!')
            return atoi(value + 1);
        *text = value;
        return SUCCESS;
    }
    return NOT_SUPPORTED;
}

static int number(struct holder *from, const char *key, unsigned long long *value) {
    const char *text;
    int error = answer(from, key, &text);

    if (error == SUCCESS)
        *value = strtoull(text, NULL, 0);
    return error;
}

static int small(struct holder *from, const char *key, unsigned *value) {
    unsigned long long wide;
    int error = number(from, key, &wide);

    if (error == SUCCESS)
        *value = (unsigned)wide;
    return error;
}

static int string(struct holder *from, const char *key, char *buffer, unsigned length) {
    const char *text;
    int error = answer(from, key, &text);

    if (error == SUCCESS)
        snprintf(buffer, length, "%s", text);
    return error;
}

int nvmlInitWithFlags(unsigned flags) {
    const char *text;
    int error;

    (void)flags;
    load();
    error = answer(&holders[SYSTEM], "init", &text);
    return error == NOT_SUPPORTED ? SUCCESS : error;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    static char text[32];

    snprintf(text, sizeof(text), "fake error %d", error);
    return text;
}

int nvmlSystemGetDriverVersion(char *buffer, unsigned length) {
    return string(&holders[SYSTEM], "driver_version", buffer, length);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    return small(&holders[SYSTEM], "cuda_version", (unsigned *)version);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)devices;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    const char *text;
    int error;

    if (index >= (unsigned)devices)
        return INVALID_ARGUMENT;
    error = answer(&holders[index], "handle", &text);
    *device = &holders[index];
    return error == NOT_SUPPORTED ? SUCCESS : error;
}

int nvmlDeviceGetPciInfo_v3(handle device, struct pci_info *info) {
    memset(info, 0, sizeof(*info));
    small(device, "device_id", &info->device_id);
    small(device, "subsystem_id", &info->subsystem_id);
    return string(device, "bus_id", info->bus_id, sizeof(info->bus_id));
}

int nvmlDeviceGetName(handle device, char *buffer, unsigned length) {
    return string(device, "name", buffer, length);
}

int nvmlDeviceGetMemoryInfo(handle device, struct memory *memory) {
    memory->free = 0;
    number(device, "memory_used", &memory->used);
    return number(device, "memory_total", &memory->total);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(handle device, struct memory_v2 *memory) {
    memory->free = memory->reserved = 0;
    number(device, "memory_used", &memory->used);
    return number(device, "memory_total", &memory->total);
}

int nvmlDeviceGetCurrentClocksEventReasons(handle device, unsigned long long *reasons) {
    return number(device, "clock_event_reasons", reasons);
}

int nvmlDeviceGetTemperatureV(handle device, struct temperature *temperature) {
    return small(device, "temperature", (unsigned *)&temperature->value);
}
#else
int nvmlDeviceGetTemperature(handle device, unsigned sensor, unsigned *value) {
    (void)sensor;
    return small(device, "temperature", value);
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(handle device, unsigned long long *reasons) {
    return number(device, "clock_event_reasons", reasons);
}

static const char *clock_key(unsigned kind, const char *sm, const char *memory) {
    return kind == 2 ? memory : sm;
}

int nvmlDeviceGetClockInfo(handle device, unsigned kind, unsigned *mhz) {
    return small(device, clock_key(kind, "sm_clock", "memory_clock"), mhz);
}

int nvmlDeviceGetMaxClockInfo(handle device, unsigned kind, unsigned *mhz) {
    return small(device, clock_key(kind, "sm_clock_max", "memory_clock_max"), mhz);
}

int nvmlDeviceGetUtilizationRates(handle device, struct utilisation *rates) {
    rates->memory = 0;
    return small(device, "utilisation", &rates->gpu);
}

int nvmlDeviceGetEccMode(handle device, unsigned *current, unsigned *pending) {
    *pending = 0;
    return small(device, "ecc_mode", current);
}

int nvmlDeviceGetTotalEccErrors(handle device, unsigned kind, unsigned counter,
                                unsigned long long *count) {
    (void)counter;
    return number(device, kind == 1 ? "ecc_uncorrected" : "ecc_corrected", count);
}

int nvmlDeviceGetRemappedRows(handle device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failure) {
    *corrected = *uncorrected = *failure = 0;
    small(device, "remapped_uncorrectable", uncorrected);
    small(device, "remap_failure", failure);
    return small(device, "remap_pending", pending);
}

int nvmlDeviceGetMigMode(handle device, unsigned *current, unsigned *pending) {
    *pending = 0;
    return small(device, "mig", current);
}

#define SMALL(function, key) \
    int function(handle device, unsigned *v) { return small(device, key, v); }

SMALL(nvmlDeviceGetMinorNumber, "minor")
SMALL(nvmlDeviceGetMemoryBusWidth, "memory_bus_bits")
SMALL(nvmlDeviceGetPerformanceState, "performance_state")
SMALL(nvmlDeviceGetPowerUsage, "power")
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
SMALL(nvmlDeviceGetPowerManagementLimit, "power_limit")
SMALL(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default")
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "link_generation")
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "link_generation_max")
SMALL(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_generation_device_max")
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")
SMALL(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
SMALL(nvmlDeviceGetPersistenceMode, "persistence")
SMALL(nvmlDeviceGetVirtualizationMode, "virtualisation")
