/* PCIe traffic, NVLinks and their fabric, and field values, which tell of all things. */

#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PUBLIC nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                                unsigned int *value) {
    ON_DEVICE(" %u", counter);
    if (counter >= NVML_PCIE_UTIL_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return small_of(device, counter == NVML_PCIE_UTIL_TX_BYTES ? "pcie_sent" : "pcie_received",
                    value);
}

/* The key of a link's answer: the link's own, else the one for all; NULL where there is no such
 * link. */
static const char *nvlink_key(nvmlDevice_t device, unsigned link, const char *member) {
    static char key[48];
    const char *text;

    if (still_text_of(device, "nvlinks", &text) != NVML_SUCCESS || link >= strtoul(text, NULL, 0))
        return NULL;
    snprintf(key, sizeof(key), "nvlink %u.%s", link, member);
    if (!holds(device, key))
        snprintf(key, sizeof(key), "nvlink *.%s", member);
    return key;
}

static nvmlReturn_t nvlink_number(nvmlDevice_t device, unsigned link, const char *member,
                                  unsigned long long *value) {
    const char *key = nvlink_key(device, link, member);

    if (key == NULL)
        return holds(device, "nvlinks") ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
    return number_of(device, key, value);
}

static nvmlReturn_t nvlink_small(nvmlDevice_t device, unsigned link, const char *member,
                                 unsigned *value) {
    unsigned long long wide;
    nvmlReturn_t error = nvlink_number(device, link, member, &wide);

    if (error == NVML_SUCCESS)
        *value = (unsigned)wide;
    return error;
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                             nvmlEnableState_t *state) {
    ON_DEVICE(" %u", link);
    return nvlink_small(device, link, "state", (unsigned *)state);
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                               unsigned int *version) {
    ON_DEVICE(" %u", link);
    return nvlink_small(device, link, "version", version);
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                        nvmlIntNvLinkDeviceType_t *type) {
    ON_DEVICE(" %u", link);
    return nvlink_small(device, link, "remote", (unsigned *)type);
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                        nvmlPciInfo_t *info) {
    const char *key;
    nvmlReturn_t error;

    ON_DEVICE(" %u", link);
    key = nvlink_key(device, link, "remote_bus");
    memset(info, 0, sizeof(*info));
    if (key == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    error = string_of(device, key, info->busId, sizeof(info->busId));
    place(info);
    return error;
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                    nvmlNvLinkErrorCounter_t counter,
                                                    unsigned long long *value) {
    static const char *const MEMBERS[] = {"replay", "recovery", "crc_flit", "crc_data"};

    ON_DEVICE(" %u %u", link, counter);
    if (counter > NVML_NVLINK_ERROR_DL_CRC_DATA)
        return NVML_ERROR_NOT_SUPPORTED;
    return nvlink_number(device, link, MEMBERS[counter], value);
}

static nvmlReturn_t fabric(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info) {
    unsigned state = 0, status = 0, summary = 0;
    nvmlReturn_t error = small_of(device, "fabric_state", &state);

    if (error != NVML_SUCCESS)
        return error;
    small_of(device, "fabric_status", &status);
    small_of(device, "fabric_health_summary", &summary);
    info->cliqueId = info->healthMask = 0;
    small_of(device, "fabric_clique", &info->cliqueId);
    small_of(device, "fabric_health_mask", &info->healthMask);
    memset(info->clusterUuid, 0, sizeof(info->clusterUuid));
    info->state = (nvmlGpuFabricState_t)state;
    info->status = (nvmlReturn_t)status;
    info->healthSummary = (unsigned char)summary;
    return NVML_SUCCESS;
}

PUBLIC nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    nvmlGpuFabricInfo_v3_t whole;
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    error = fabric(device, &whole);
    if (error == NVML_SUCCESS) {
        memcpy(info->clusterUuid, whole.clusterUuid, sizeof(info->clusterUuid));
        info->status = whole.status;
        info->cliqueId = whole.cliqueId;
        info->state = whole.state;
    }
    return error;
}

#ifndef OLD_DRIVER
PUBLIC nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
    nvmlGpuFabricInfo_v3_t whole;
    unsigned version = info->version;
    nvmlReturn_t error;

    ON_DEVICE("%s", "");
    if (version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    error = fabric(device, &whole);
    if (error == NVML_SUCCESS) {
        whole.version = version;
        memcpy(info, &whole,
               version == nvmlGpuFabricInfo_v3 ? sizeof(nvmlGpuFabricInfo_v3_t)
                                               : sizeof(nvmlGpuFabricInfo_v2_t));
    }
    return error;
}
#endif

/* Fields */

enum { LAST_FIELD_OF_OLD_DRIVERS = 184 };

static const struct {
    unsigned field;
    const char *key;
} SAME_AS[] = {
    {NVML_FI_DEV_ECC_CURRENT, "ecc_mode"},
    {NVML_FI_DEV_ECC_PENDING, "ecc_pending"},
    {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_corrected"},
    {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_uncorrected"},
    {NVML_FI_DEV_ECC_SBE_AGG_TOTAL, "ecc_corrected_aggregate"},
    {NVML_FI_DEV_ECC_DBE_AGG_TOTAL, "ecc_uncorrected_aggregate"},
    {NVML_FI_DEV_RETIRED_SBE, "retired_single"},
    {NVML_FI_DEV_RETIRED_DBE, "retired_double"},
    {NVML_FI_DEV_RETIRED_PENDING, "retired_pending"},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, "nvlinks"},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, "pcie_replays"},
    {NVML_FI_DEV_REMAPPED_COR, "remapped_correctable"},
    {NVML_FI_DEV_REMAPPED_UNC, "remapped_uncorrectable"},
    {NVML_FI_DEV_REMAPPED_PENDING, "remap_pending"},
    {NVML_FI_DEV_REMAPPED_FAILURE, "remap_failure"},
    {NVML_FI_DEV_POWER_AVERAGE, "power"},
    {NVML_FI_DEV_POWER_INSTANT, "power"},
    {NVML_FI_DEV_POWER_MIN_LIMIT, "power_limit_min"},
    {NVML_FI_DEV_POWER_MAX_LIMIT, "power_limit_max"},
    {NVML_FI_DEV_POWER_DEFAULT_LIMIT, "power_limit_default"},
    {NVML_FI_DEV_POWER_CURRENT_LIMIT, "power_limit"},
    {NVML_FI_DEV_POWER_REQUESTED_LIMIT, "power_limit_requested"},
    {NVML_FI_DEV_POWER_REQUESTED_LIMIT, "power_limit"},
};

static const struct {
    unsigned field;
    const char *member;
} OF_A_LINK[] = {
    {NVML_FI_DEV_NVLINK_GET_SPEED, "speed"},
    {NVML_FI_DEV_NVLINK_GET_STATE, "state"},
    {NVML_FI_DEV_NVLINK_GET_VERSION, "version"},
    {NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "crc_flit"},
    {NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "replay"},
    {NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "recovery"},
};

static nvmlValueType_t type_of(unsigned field) {
    if (field >= NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT &&
        field <= NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT)
        return NVML_VALUE_TYPE_SIGNED_INT;
    if ((field >= NVML_FI_DEV_POWER_AVERAGE && field <= NVML_FI_DEV_POWER_REQUESTED_LIMIT) ||
        (field >= NVML_FI_DEV_NVLINK_GET_SPEED && field <= NVML_FI_DEV_NVLINK_GET_VERSION) ||
        field == NVML_FI_DEV_MEMORY_TEMP || field == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)
        return NVML_VALUE_TYPE_UNSIGNED_INT;
    return NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
}

/* Where a field's value stands: its own line, with its scope or without, else another function's.
 */
static const char *field_key(nvmlDevice_t device, const nvmlFieldValue_t *value) {
    static char key[48];

    snprintf(key, sizeof(key), "field %u.%u", value->fieldId, value->scopeId);
    if (holds(device, key))
        return key;
    snprintf(key, sizeof(key), "field %u", value->fieldId);
    if (holds(device, key))
        return key;
    for (size_t i = 0; i < sizeof(OF_A_LINK) / sizeof(*OF_A_LINK); i++)
        if (OF_A_LINK[i].field == value->fieldId)
            return nvlink_key(device, value->scopeId, OF_A_LINK[i].member);
    for (size_t i = 0; i < sizeof(SAME_AS) / sizeof(*SAME_AS) && value->scopeId == 0; i++)
        if (SAME_AS[i].field == value->fieldId && holds(device, SAME_AS[i].key))
            return SAME_AS[i].key;
    return NULL;
}

static nvmlReturn_t field_value(nvmlDevice_t device, nvmlFieldValue_t *value) {
    const char *key;

#ifdef OLD_DRIVER
    if (value->fieldId > LAST_FIELD_OF_OLD_DRIVERS)
        return NVML_ERROR_INVALID_ARGUMENT;
#endif
    if (value->fieldId >= NVML_FI_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    key = field_key(device, value);
    return key ? value_of(device, key, type_of(value->fieldId), value) : NVML_ERROR_NOT_SUPPORTED;
}

PUBLIC nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                             nvmlFieldValue_t *values) {
    unsigned none;
    nvmlReturn_t error;

    for (int i = 0; i < count; i++)
        note(__func__, device, " %u.%u", values[i].fieldId, values[i].scopeId);
    error = begun(__func__, device, true);
    if (error == NVML_SUCCESS && holds(device, "field_values"))
        error = small_of(device, "field_values", &none);
    for (int i = 0; error == NVML_SUCCESS && i < count; i++) {
        values[i].timestamp = values[i].latencyUsec = 0;
        values[i].nvmlReturn = field_value(device, &values[i]);
    }
    return error;
}
