"""A card's health as NVML tells it: memory errors, temperatures, counters."""

from __future__ import annotations

from typing import Any

from nodecheck.machine.nvml_asking import Fields

_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX, _GPU_MAX = 0, 1, 2, 3
_BY_SINGLE_BIT_ERRORS, _BY_DOUBLE_BIT_ERROR = 0, 1

FIELD_IDS = {
    "power cap time": 74,
    "thermal time": 75,
    "sync boost time": 76,
    "board limit time": 77,
    "low utilisation time": 78,
    "reliability time": 79,
    "memory temperature": 82,
    "common NVLink speed": 90,
    "NVLink count": 91,
    "PCIe replay rollovers": 95,
    "C2C links": 170,
    "C2C link": 171,
    "correctable PCIe errors": 173,
    "PCIe NAKs received": 174,
    "PCIe receiver errors": 175,
    "bad PCIe TLPs": 176,
    "PCIe NAKs sent": 177,
    "bad PCIe DLLPs": 178,
    "non-fatal PCIe errors": 179,
    "fatal PCIe errors": 180,
    "unsupported PCIe requests": 181,
    "PCIe LCRC errors": 182,
    "PCIe lane errors": 183,
    "shutdown margin": 193,
    "slowdown margin": 194,
    "memory margin": 195,
    "GPU margin": 196,
    "recovery action": 230,
}
"""Field values of the card as a whole -> NVML's id."""

RENUMBERED_IDS = {
    "software thermal slowdown time": 269,
    "hardware thermal slowdown time": 270,
    "power brake time": 271,
}
FIRST_RENUMBERED_DRIVER = (580, 82)
"""The first driver on which RENUMBERED_IDS mean what they say.

CUDA 13.0 Update 1 gave the ids 251 to 273 new meanings; on 580.65 those three are settings of the
power smoothing, which would pass for times. Source: NVML's list of known issues, and the constants
of its bindings before (251 to 253) and after.
"""


def read_values(handle: Any, fields: Fields, driver_version: str | None) -> dict[str, Any]:
    """Everything that NVML tells by number, in one call."""
    wanted = dict(FIELD_IDS)
    if _release(driver_version) >= FIRST_RENUMBERED_DRIVER:
        wanted.update(RENUMBERED_IDS)
    else:
        fields.unsupported.extend(RENUMBERED_IDS)
    return {"values": fields.values(handle, wanted)}


def _release(driver_version: str | None) -> tuple[int, ...]:
    """580.65.06 -> (580, 65, 6); () where it is not a version."""
    parts = (driver_version or "").split(".")
    return tuple(int(part) for part in parts) if all(p.isdecimal() for p in parts) else ()


def read_errors(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    """ECC counts, rows that were remapped and pages that were retired."""
    mode = fields.read("ECC mode", lambda: pynvml.nvmlDeviceGetEccMode(handle))
    rows = fields.read("remapped rows", lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    corrected, uncorrected, pending, failure = rows or (None,) * 4
    enabled, enabled_next = mode or (None, None)
    return {
        "ecc_enabled": enabled,
        "ecc_pending": enabled_next,
        **_ecc_counts(pynvml, handle, fields),
        "sram_threshold_exceeded": fields.read("SRAM ECC status", lambda: _sram(pynvml, handle)),
        "remapped_correctable": corrected,
        "remapped_uncorrectable": uncorrected,
        "remap_pending": pending,
        "remap_failure": failure,
        "remap_histogram": fields.read("remap histogram", lambda: _histogram(pynvml, handle)),
        **_retired_pages(pynvml, handle, fields),
    }


def _ecc_counts(pynvml: Any, handle: Any, fields: Fields) -> dict[str, int | None]:
    def count(name: str, kind: str, since: str) -> int | None:
        kinds = getattr(pynvml, f"NVML_MEMORY_ERROR_TYPE_{kind}")
        counter = getattr(pynvml, f"NVML_{since}_ECC")
        value: int | None = fields.read(
            name, lambda: pynvml.nvmlDeviceGetTotalEccErrors(handle, kinds, counter)
        )
        return value

    return {
        "ecc_corrected": count("corrected errors", "CORRECTED", "VOLATILE"),
        "ecc_uncorrected": count("uncorrected errors", "UNCORRECTED", "VOLATILE"),
        "ecc_aggregate_corrected": count("aggregate corrected errors", "CORRECTED", "AGGREGATE"),
        "ecc_aggregate_uncorrected": count(
            "aggregate uncorrected errors", "UNCORRECTED", "AGGREGATE"
        ),
    }


def _sram(pynvml: Any, handle: Any) -> int:
    from ctypes import byref  # pynvml has loaded it

    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, byref(status))
    return int(status.bThresholdExceeded)


def _histogram(pynvml: Any, handle: Any) -> dict[str, int]:
    banks = pynvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return {name: getattr(banks, name) for name, _ in banks._fields_}


def _pages(pynvml: Any, handle: Any, cause: int) -> int:
    """How many there are; the binding asks for all of their addresses."""
    from ctypes import byref, c_uint  # pynvml has loaded it

    told = c_uint(0)
    function = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetRetiredPages")  # noqa: SLF001 - the binding asks for the list at once
    code = function(handle, c_uint(cause), byref(told), None)
    if code not in (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE):
        raise pynvml.NVMLError(code)
    return told.value


def _retired_pages(pynvml: Any, handle: Any, fields: Fields) -> dict[str, int | None]:
    def count(name: str, cause: int) -> int | None:
        value: int | None = fields.read(name, lambda: _pages(pynvml, handle, cause))
        return value

    return {
        "retired_single": count("pages retired by single-bit errors", _BY_SINGLE_BIT_ERRORS),
        "retired_double": count("pages retired by double-bit errors", _BY_DOUBLE_BIT_ERROR),
        "retired_pending": fields.read(
            "pending page retirement",
            lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
        ),
    }


def read_temperatures(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    """Temperature, the margin to the nearest slowdown, and the temperatures at which it acts."""
    gpu = pynvml.NVML_TEMPERATURE_GPU

    def threshold(name: str, which: int) -> int | None:
        value: int | None = fields.read(
            name, lambda: pynvml.nvmlDeviceGetTemperatureThreshold(handle, which)
        )
        return value

    return {
        "temperature": fields.read(
            "temperature",
            lambda: pynvml.nvmlDeviceGetTemperatureV(handle, gpu),
            lambda: pynvml.nvmlDeviceGetTemperature(handle, gpu),
        ),
        "margin": fields.read(
            "temperature margin", lambda: pynvml.nvmlDeviceGetMarginTemperature(handle)
        ),
        "shutdown_temperature": threshold("shutdown temperature", _SHUTDOWN),
        "slowdown_temperature": threshold("slowdown temperature", _SLOWDOWN),
        "memory_max_temperature": threshold("maximum memory temperature", _MEMORY_MAX),
        "gpu_max_temperature": threshold("maximum GPU temperature", _GPU_MAX),
    }
