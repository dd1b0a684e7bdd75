/* What a card is and does: identity, memory, clocks, temperatures, power, errors of memory. */

#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a card is */

#define STRING(function, key)                                                              \
    PUBLIC nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned int length) { \
        ON_DEVICE("%s", "");                                                               \
        return string_of(device, key, buffer, length);                                     \
    }

STRING(nvmlDeviceGetName, "name")
STRING(nvmlDeviceGetUUID, "uuid")
STRING(nvmlDeviceGetSerial, "serial")
STRING(nvmlDeviceGetVbiosVersion, "vbios_version")

PUBLIC nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                       int *minor) {
    const char *text;
    unsigned times;
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    error = text_of(device, "compute_capability", &text, &times);
    if (error == NVML_SUCCESS && sscanf(text, "%d.%d", major, minor) != 2)
        error = NVML_ERROR_UNKNOWN;
    return error;
}

#define SMALL_AS(function, type, key)                                \
    PUBLIC nvmlReturn_t function(nvmlDevice_t device, type *value) { \
        unsigned number;                                             \
        nvmlReturn_t error;                                          \
        ON_DEVICE("%s", "");                                         \
        error = small_of(device, key, &number);                      \
        if (error == NVML_SUCCESS)                                   \
            *value = (type)number;                                   \
        return error;                                                \
    }
#define SMALL(function, key) SMALL_AS(function, unsigned int, key)

SMALL(nvmlDeviceGetMinorNumber, "minor")
SMALL(nvmlDeviceGetMemoryBusWidth, "memory_bus_bits")
SMALL(nvmlDeviceGetPowerUsage, "power")
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
SMALL(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default")
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "link_generation")
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "link_generation_max")
SMALL(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_generation_device_max")
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")
SMALL(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
SMALL(nvmlDeviceGetGpuInstanceId, "gpu_instance")
SMALL(nvmlDeviceGetComputeInstanceId, "compute_instance")
SMALL_AS(nvmlDeviceGetPerformanceState, nvmlPstates_t, "performance_state")
SMALL_AS(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, "persistence")
SMALL_AS(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
SMALL_AS(nvmlDeviceGetDisplayMode, nvmlEnableState_t, "display_mode")
SMALL_AS(nvmlDeviceGetDisplayActive, nvmlEnableState_t, "display_active")
SMALL_AS(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, "virtualisation")
SMALL_AS(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, "retired_pending")

/* Memory */

PUBLIC nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    unsigned long long reserved = 0;
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    memset(memory, 0, sizeof(*memory));
    number_of(device, "memory_used", &memory->used);
    number_of(device, "memory_reserved", &reserved);
    error = number_of(device, "memory_total", &memory->total);
    memory->used += reserved; /* the first version does not tell them apart */
    memory->free = memory->total - memory->used;
    return error;
}

PUBLIC nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    memset(memory, 0, sizeof(*memory));
    number_of(device, "bar1_used", &memory->bar1Used);
    error = number_of(device, "bar1_total", &memory->bar1Total);
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return error;
}

static nvmlReturn_t process(const char *text, nvmlProcessInfo_t *info) {
    char bytes[24];
    int told = sscanf(text, "%u:%23[^@ ]@%u/%u", &info->pid, bytes, &info->gpuInstanceId,
                      &info->computeInstanceId);

    if (told < 2)
        return NVML_ERROR_UNKNOWN;
    if (told < 4)
        info->gpuInstanceId = info->computeInstanceId = 0xFFFFFFFF;
    info->usedGpuMemory =
        *bytes == '-' ? (unsigned long long)NVML_VALUE_NOT_AVAILABLE : strtoull(bytes, NULL, 0);
    return NVML_SUCCESS;
}

static nvmlReturn_t processes(nvmlDevice_t device, const char *key, unsigned *count,
                              nvmlProcessInfo_t *infos) {
    const char *text;
    unsigned room = *count, found = 0, times;
    nvmlReturn_t error =
        infos ? text_of(device, key, &text, &times) : still_text_of(device, key, &text);

    if (error != NVML_SUCCESS)
        return error;
    if (strcmp(text, "none") == 0)
        text = "";
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        if (infos && found < room)
            error = process(text, &infos[found]);
        if (error != NVML_SUCCESS)
            return error;
        found++;
        text += strcspn(text, " ");
    }
    *count = found;
    return found > (infos ? room : 0) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(function, key)                                           \
    PUBLIC nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, \
                                 nvmlProcessInfo_t *infos) {               \
        ON_DEVICE("%s", infos ? "" : " size");                             \
        return processes(device, key, count, infos);                       \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute_processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics_processes")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps_processes")

#ifndef OLD_DRIVER
PUBLIC nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    VERSIONED(memory, nvmlMemory_v2);
    memory->reserved = memory->used = memory->total = 0;
    number_of(device, "memory_used", &memory->used);
    number_of(device, "memory_reserved", &memory->reserved);
    error = number_of(device, "memory_total", &memory->total);
    memory->free = memory->total - memory->used - memory->reserved;
    return error;
}
#endif

/* Clocks, temperatures, power */

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t kind, bool most, unsigned *mhz) {
    static const char *const KEYS[2][3] = {
        {"graphics_clock", "sm_clock", "memory_clock"},
        {"graphics_clock_max", "sm_clock_max", "memory_clock_max"}};
    const char *key;

    if (kind > NVML_CLOCK_MEM)
        return NVML_ERROR_NOT_SUPPORTED;
    key = KEYS[most][kind];
    if (kind == NVML_CLOCK_GRAPHICS && !holds(device, key))
        key = KEYS[most][NVML_CLOCK_SM];
    return small_of(device, key, mhz);
}

PUBLIC nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t kind,
                                           unsigned int *mhz) {
    ON_DEVICE(" %u", kind);
    return clock_of(device, kind, false, mhz);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t kind,
                                              unsigned int *mhz) {
    ON_DEVICE(" %u", kind);
    return clock_of(device, kind, true, mhz);
}

PUBLIC nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                              unsigned long long *reasons) {
    ON_DEVICE("%s", "");
    return number_of(device, "clock_event_reasons", reasons);
}

PUBLIC nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ON_DEVICE("%s", "");
    rates->memory = 0;
    small_of(device, "utilisation_memory", &rates->memory);
    return small_of(device, "utilisation", &rates->gpu);
}

PUBLIC nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                             unsigned int *celsius) {
    ON_DEVICE(" %u", sensor);
    return sensor == NVML_TEMPERATURE_GPU ? small_of(device, "temperature", celsius)
                                          : NVML_ERROR_INVALID_ARGUMENT;
}

PUBLIC nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                                      nvmlTemperatureThresholds_t kind,
                                                      unsigned int *celsius) {
    char key[32];

    ON_DEVICE(" %u", kind);
    snprintf(key, sizeof(key), "threshold %u", kind);
    return small_of(device, key, celsius);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device,
                                                      unsigned int *milliwatts) {
    ON_DEVICE("%s", "");
    return small_of(
        device, holds(device, "power_limit_requested") ? "power_limit_requested" : "power_limit",
        milliwatts);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                 unsigned int *least,
                                                                 unsigned int *most) {
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    error = small_of(device, "power_limit_min", least);
    return error == NVML_SUCCESS ? small_of(device, "power_limit_max", most) : error;
}

#ifndef OLD_DRIVER
PUBLIC nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                           unsigned long long *reasons) {
    ON_DEVICE("%s", "");
    return number_of(device, "clock_event_reasons", reasons);
}

PUBLIC nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *told) {
    ON_DEVICE(" %u", told->sensorType);
    VERSIONED(told, nvmlTemperature_v1);
    return told->sensorType == NVML_TEMPERATURE_GPU
               ? small_of(device, "temperature", (unsigned *)&told->temperature)
               : NVML_ERROR_INVALID_ARGUMENT;
}

PUBLIC nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
                                                   nvmlMarginTemperature_t *told) {
    ON_DEVICE("%s", "");
    VERSIONED(told, nvmlMarginTemperature_v1);
    return small_of(device, "margin_temperature", (unsigned *)&told->marginTemperature);
}
#endif

/* Errors of memory */

nvmlReturn_t mode_of(nvmlDevice_t device, const char *now, const char *later, unsigned *mode,
                     unsigned *pending) {
    nvmlReturn_t error = small_of(device, now, mode);

    if (error == NVML_SUCCESS) {
        *pending = *mode;
        if (holds(device, later))
            error = small_of(device, later, pending);
    }
    return error;
}

PUBLIC nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *now,
                                         nvmlEnableState_t *pending) {
    ON_DEVICE("%s", "");
    return mode_of(device, "ecc_mode", "ecc_pending", (unsigned *)now, (unsigned *)pending);
}

PUBLIC nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t kind,
                                                nvmlEccCounterType_t counter,
                                                unsigned long long *count) {
    static const char *const KEYS[2][2] = {
        {"ecc_corrected", "ecc_corrected_aggregate"},
        {"ecc_uncorrected", "ecc_uncorrected_aggregate"},
    };

    ON_DEVICE(" %u %u", kind, counter);
    if (kind > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter > NVML_AGGREGATE_ECC)
        return NVML_ERROR_INVALID_ARGUMENT;
    return number_of(device, KEYS[kind][counter], count);
}

PUBLIC nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                              unsigned int *uncorrectable, unsigned int *pending,
                                              unsigned int *failure) {
    ON_DEVICE("%s", "");
    *correctable = *uncorrectable = *failure = 0;
    small_of(device, "remapped_correctable", correctable);
    small_of(device, "remapped_uncorrectable", uncorrectable);
    small_of(device, "remap_failure", failure);
    return small_of(device, "remap_pending", pending);
}

static nvmlReturn_t pages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned *count,
                          unsigned long long *addresses, unsigned long long *times) {
    const char *key = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR ? "retired_double"
                                                                               : "retired_single";
    const char *text;
    unsigned retired, room = *count;
    nvmlReturn_t error;

    if (cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    error = still_text_of(device, key, &text);
    if (error != NVML_SUCCESS)
        return error;
    retired = (unsigned)strtoul(text, NULL, 0);
    *count = retired;
    if (retired > (addresses ? room : 0))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; addresses && i < retired; i++) {
        addresses[i] = 0x10000ULL * (i + 1);
        if (times)
            times[i] = 1700000000ULL + i;
    }
    return NVML_SUCCESS;
}

PUBLIC nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                              unsigned int *count, unsigned long long *addresses) {
    ON_DEVICE(" %u%s", cause, addresses ? "" : " size");
    return pages(device, cause, count, addresses, NULL);
}

PUBLIC nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device,
                                                 nvmlPageRetirementCause_t cause,
                                                 unsigned int *count, unsigned long long *addresses,
                                                 unsigned long long *times) {
    ON_DEVICE(" %u%s", cause, addresses ? "" : " size");
    return pages(device, cause, count, addresses, times);
}

#ifndef OLD_DRIVER
PUBLIC nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                    nvmlEccSramErrorStatus_t *told) {
    ON_DEVICE("%s", "");
    VERSIONED(told, nvmlEccSramErrorStatus_v1);
    memset(told, 0, sizeof(*told));
    told->version = nvmlEccSramErrorStatus_v1;
    number_of(device, "sram_corrected", &told->aggregateCor);
    number_of(device, "sram_uncorrected", &told->aggregateUncSecDed);
    return small_of(device, "sram_threshold_exceeded", &told->bThresholdExceeded);
}

PUBLIC nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                      nvmlRowRemapperHistogramValues_t *banks) {
    const char *text;
    unsigned times;
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    error = text_of(device, "remap_banks", &text, &times);
    if (error == NVML_SUCCESS && sscanf(text, "%u %u %u %u %u", &banks->max, &banks->high,
                                        &banks->partial, &banks->low, &banks->none) != 5)
        error = NVML_ERROR_UNKNOWN;
    return error;
}
#endif
