/* A stand-in for NVIDIA's management library, for tests: libnvidia-ml.so.1 with the functions that
 * a health check calls, of the types that nvml.h gives them. The file that $FAKE_NVML names says
 * what they answer, a line a key:
 *
 *     # comment
 *     driver_version 580.65.06      before the first `device`: the system's answers
 *     device                        begins the next card; `device like 0`: with the keys of card 0
 *     name NVIDIA L40
 *     mig                           begins the next MIG device of the card
 *
 * A key that is not there is NVML_ERROR_NOT_SUPPORTED. A value is a text or a number (0x too);
 * `!N` is NVML's error N, `hang` never returns, `crash` aborts, `9+2` is 9, then 11, 13 ..., and
 * `0x8,0x0` has each call take the next value, of which the last one stays.
 *
 * System: driver_version nvml_version cuda_version init, count (!N), cc_environment cc_feature
 * cc_dev_tools cc_multi_gpu, `process_name PID NAME`.
 *     missing nvmlDeviceGetName     that function is not found
 *     fault hang 3                  from the third call on (nvmlInit is the first), or one of
 *                                   hang/3 (each third call), slow SECONDS [N], lost N,
 *                                   uninitialized N, unknown N, version_mismatch N, !ERROR N
 * A card may have a fault too: it strikes calls on that card alone, which alone it counts.
 *
 * Card: handle (!N) bus_id device_id subsystem_id name uuid serial vbios_version minor
 * compute_capability (8.9) memory_total memory_used memory_reserved bar1_total bar1_used
 * memory_bus_bits sm_clock sm_clock_max graphics_clock graphics_clock_max memory_clock
 * memory_clock_max clock_event_reasons performance_state utilisation utilisation_memory temperature
 * margin_temperature, `threshold KIND CELSIUS`, power power_limit power_limit_requested
 * power_limit_default power_limit_min power_limit_max persistence compute_mode display_mode
 * display_active virtualisation ecc_mode ecc_pending ecc_corrected ecc_uncorrected
 * ecc_corrected_aggregate ecc_uncorrected_aggregate sram_threshold_exceeded sram_corrected
 * sram_uncorrected remap_pending remap_failure remapped_correctable remapped_uncorrectable,
 * `remap_banks MAX HIGH PARTIAL LOW NONE`, retired_single retired_double retired_pending
 * link_generation link_generation_max link_generation_device_max link_width link_width_max
 * pcie_replays pcie_sent pcie_received mig mig_pending mig_max nvlinks fabric_state fabric_status
 * fabric_health_mask fabric_health_summary fabric_clique field_values (!N), and
 *     field 230 0                   a field value; `field 186.1` that of one scope. Fields whose
 *                                   number a function tells too need no line of their own; a
 *                                   value may tell its type: u16: u32: u64: i32: i64: f64:
 *     nvlink 3.state 0              of link 3, `nvlink *.state` of the others: state version speed
 *                                   remote remote_bus crc_flit crc_data replay recovery
 *     compute_processes 77:4096 78:-   a pid and its bytes, `-` where they are not told, `none`;
 *                                   @1/0 follows for a GPU and compute instance; graphics_, mps_
 * MIG device: name uuid gpu_instance compute_instance memory_total memory_used mig_sm_count
 * mig_gpu_slices mig_compute_slices mig_copy_engines.
 *
 * $FAKE_NVML_LOG names a file that gets a line a call, of nvmlDeviceGetFieldValues one a field.
 * Built with -DOLD_DRIVER the library lacks what older drivers lack. */

#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool initialised;

nvmlReturn_t begun(const char *function, nvmlDevice_t of, bool needs_device) {
    if (!initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (needs_device && of == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return begin(function, of);
}

PUBLIC nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    const char *text;
    unsigned times;
    nvmlReturn_t error;

    if (!initialised)
        description_load();
    note(__func__, NULL, " %u", flags);
    error = begin(__func__, NULL);
    if (error == NVML_SUCCESS && holds(described_system(), "init"))
        error = text_of(described_system(), "init", &text, &times);
    initialised = initialised || error == NVML_SUCCESS;
    return error;
}

PUBLIC nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

PUBLIC nvmlReturn_t nvmlShutdown(void) {
    ON_SYSTEM("%s", "");
    initialised = false;
    return NVML_SUCCESS;
}

PUBLIC const char *nvmlErrorString(nvmlReturn_t error) {
    static char text[32];

    snprintf(text, sizeof(text), "fake error %d", (int)error);
    return text;
}

#define SYSTEM_STRING(function, key)                                  \
    PUBLIC nvmlReturn_t function(char *buffer, unsigned int length) { \
        ON_SYSTEM("%s", "");                                          \
        return string_of(described_system(), key, buffer, length);    \
    }

SYSTEM_STRING(nvmlSystemGetDriverVersion, "driver_version")

/* A library knows its own version without a driver: it is not among those that need nvmlInit. */
PUBLIC nvmlReturn_t nvmlSystemGetNVMLVersion(char *buffer, unsigned int length) {
    nvmlReturn_t error;

    note(__func__, NULL, "%s", "");
    error = begin(__func__, NULL);
    return error == NVML_SUCCESS ? string_of(described_system(), "nvml_version", buffer, length)
                                 : error;
}

PUBLIC nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    ON_SYSTEM("%s", "");
    return small_of(described_system(), "cuda_version", (unsigned *)version);
}

PUBLIC nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ON_SYSTEM("%s", "");
    return small_of(described_system(), "cuda_version", (unsigned *)version);
}

PUBLIC nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state) {
    nvmlDevice_t system = described_system();

    ON_SYSTEM("%s", "");
    memset(state, 0, sizeof(*state));
    small_of(system, "cc_environment", &state->environment);
    small_of(system, "cc_dev_tools", &state->devToolsMode);
    return small_of(system, "cc_feature", &state->ccFeature);
}

PUBLIC nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    char key[32];

    ON_SYSTEM(" %u", pid);
    snprintf(key, sizeof(key), "process_name %u", pid);
    if (!holds(described_system(), key))
        return NVML_ERROR_NOT_FOUND;
    return string_of(described_system(), key, name, length);
}

#ifndef OLD_DRIVER
PUBLIC nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings) {
    nvmlDevice_t system = described_system();

    ON_SYSTEM("%s", "");
    VERSIONED(settings, nvmlSystemConfComputeSettings_v1);
    settings->environment = settings->devToolsMode = settings->ccFeature = 0;
    small_of(system, "cc_environment", &settings->environment);
    small_of(system, "cc_dev_tools", &settings->devToolsMode);
    small_of(system, "cc_feature", &settings->ccFeature);
    return small_of(system, "cc_multi_gpu", &settings->multiGpuMode);
}
#endif

/* Which cards there are */

PUBLIC nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ON_SYSTEM("%s", "");
    *count = described_cards();
    return holds(described_system(), "count") ? small_of(described_system(), "count", count)
                                              : NVML_SUCCESS;
}

static nvmlReturn_t handed_out(nvmlDevice_t card, nvmlDevice_t *device) {
    unsigned none;

    *device = card;
    return holds(card, "handle") ? small_of(card, "handle", &none) : NVML_SUCCESS;
}

PUBLIC nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    nvmlDevice_t card = initialised ? described_card(index) : NULL;

    CALL(card, true, "%s", "");
    return handed_out(card, device);
}

static bool position(const char *bus_id, unsigned parts[4]) {
    return sscanf(bus_id, "%x:%x:%x.%x", &parts[0], &parts[1], &parts[2], &parts[3]) == 4;
}

PUBLIC nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    unsigned wanted[4], here[4];
    const char *text;

    ON_SYSTEM(" %s", bus_id);
    if (!position(bus_id, wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < described_cards(); i++)
        if (still_text_of(described_card(i), "bus_id", &text) == NVML_SUCCESS &&
            position(text, here) && memcmp(here, wanted, sizeof(here)) == 0)
            return handed_out(described_card(i), device);
    return NVML_ERROR_NOT_FOUND;
}

void place(nvmlPciInfo_t *info) {
    unsigned parts[4] = {0};

    if (!position(info->busId, parts))
        return;
    info->domain = parts[0];
    info->bus = parts[1];
    info->device = parts[2];
    snprintf(info->busIdLegacy, sizeof(info->busIdLegacy), "%04X:%02X:%02X.0", parts[0] & 0xffff,
             parts[1] & 0xff, parts[2] & 0x1f);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    memset(info, 0, sizeof(*info));
    small_of(device, "device_id", &info->pciDeviceId);
    small_of(device, "subsystem_id", &info->pciSubSystemId);
    error = string_of(device, "bus_id", info->busId, sizeof(info->busId));
    place(info);
    return error;
}

/* MIG */

PUBLIC nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now,
                                         unsigned int *pending) {
    ON_DEVICE("%s", "");
    return mode_of(device, "mig", "mig_pending", now, pending);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    ON_DEVICE("%s", "");
    *count = 0; /* as the header says of cards without MIG */
    return holds(device, "mig_max") ? small_of(device, "mig_max", count) : NVML_SUCCESS;
}

PUBLIC nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                        nvmlDevice_t *mig) {
    ON_DEVICE(" %u", index);
    if (!holds(device, "mig"))
        return NVML_ERROR_NOT_SUPPORTED;
    *mig = described_mig(device, index);
    return *mig ? handed_out(*mig, mig) : NVML_ERROR_NOT_FOUND;
}

PUBLIC nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig) {
    ON_DEVICE("%s", "");
    *is_mig = device->parent != NULL;
    return NVML_SUCCESS;
}

PUBLIC nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device,
                                                                 nvmlDevice_t *card) {
    ON_DEVICE("%s", "");
    *card = device->parent;
    return *card ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

PUBLIC nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *told) {
    unsigned long long bytes = 0;

    ON_DEVICE("%s", "");
    memset(told, 0, sizeof(*told));
    small_of(device, "mig_gpu_slices", &told->gpuInstanceSliceCount);
    small_of(device, "mig_compute_slices", &told->computeInstanceSliceCount);
    small_of(device, "mig_copy_engines", &told->sharedCopyEngineCount);
    number_of(device, "memory_total", &bytes);
    told->memorySizeMB = bytes >> 20;
    return small_of(device, "mig_sm_count", &told->multiprocessorCount);
}
