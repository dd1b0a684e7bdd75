"""NVML field by field; the binding is handed in by its only importer.

A field that a card or a driver does not have is None: newer drivers drop old functions, older ones
lack new ones, and a card may refuse any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from nodecheck.model import Struct

UNKNOWN = 999
NEUTRAL = (2, 3, 13, 25, 26)
"""Not faults: an argument, a feature, a function or a structure that this driver does not know."""


class Device(Struct, frozen=True, kw_only=True):
    """One card in NVML's units.

    Memory in bytes, clocks in MHz, power in mW, temperature in degrees Celsius, ids as NVML packs
    them (device << 16 | vendor). `error` is the code with which its handle was refused; `errors`
    are the codes of fields that failed, `unsupported` the fields that the card or driver lacks.
    """

    index: int
    error: int | None = None
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    bus_id: str | None = None
    device_id: int | None = None
    subsystem_id: int | None = None
    name: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_bus_bits: int | None = None
    memory_clock: int | None = None
    memory_clock_max: int | None = None
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    performance_state: int | None = None
    utilisation_percent: int | None = None
    temperature: int | None = None
    power: int | None = None
    power_limit: int | None = None
    power_limit_default: int | None = None
    clock_event_reasons: int | None = None
    ecc_enabled: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: int | None = None
    remap_failure: int | None = None
    link_generation: int | None = None
    link_generation_max: int | None = None
    link_generation_device_max: int | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    pcie_replays: int | None = None
    mig: int | None = None
    persistence: int | None = None
    virtualisation: int | None = None
    minor: int | None = None


class Fields:
    """Reads single fields; a refusal is noted and leaves the field None."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml
        self.errors: dict[str, int] = {}
        self.unsupported: list[str] = []

    def read(self, name: str, *calls: Callable[[], Any]) -> Any:
        """The first call that the driver knows: newer drivers drop old functions."""
        code = 0
        for call in calls:
            value, refused = self._one(call, code)
            if refused is None:
                return value
            code = refused
        if code in NEUTRAL:
            self.unsupported.append(name)
        else:
            self.errors[name] = code
        return None

    def _one(self, call: Callable[[], Any], before: int) -> tuple[Any, int | None]:
        """The value and None, or None and the code of the refusal."""
        try:
            return call(), None
        except self._pynvml.NVMLError as error:
            return None, code_of(error)
        except (AttributeError, TypeError, ValueError):  # an older or newer pynvml
            return None, before or NEUTRAL[0]


def code_of(error: Any) -> int:
    """NVML's number for an error."""
    return int(getattr(error, "value", UNKNOWN))


def text_of(value: Any) -> str | None:
    """A string, which older bindings give as bytes."""
    if isinstance(value, bytes):  # pynvml before 11.5
        return value.decode(errors="replace")
    return None if value is None else str(value)


def read_device(pynvml: Any, index: int) -> Device:
    """All of one card."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return Device(index=index, error=code_of(error))
    fields = Fields(pynvml)
    values: dict[str, Any] = {}
    for read in (_identity, _memory, _clocks, _power, _errors, _link, _modes):
        values.update(read(pynvml, handle, fields))
    values.update(errors=fields.errors, unsupported=tuple(fields.unsupported))
    return Device(index=index, **values)


def _identity(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    pci = fields.read("pci", lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    return {
        "bus_id": text_of(getattr(pci, "busId", None)),
        "device_id": getattr(pci, "pciDeviceId", None),
        "subsystem_id": getattr(pci, "pciSubSystemId", None),
        "name": text_of(fields.read("name", lambda: pynvml.nvmlDeviceGetName(handle))),
        "minor": fields.read("minor", lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
    }


def _memory(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    memory = fields.read(
        "memory",
        # Version 1 counts the driver's reserve as used.
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle),
    )
    width = fields.read("memory_bus_bits", lambda: pynvml.nvmlDeviceGetMemoryBusWidth(handle))
    return {
        "memory_total": getattr(memory, "total", None),
        "memory_used": getattr(memory, "used", None),
        "memory_bus_bits": width,
    }


def _clocks(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    rates = fields.read("utilisation", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    return {
        "memory_clock": fields.read(
            "memory_clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, memory)
        ),
        "memory_clock_max": fields.read(
            "memory_clock_max", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, memory)
        ),
        "sm_clock": fields.read("sm_clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, sm)),
        "sm_clock_max": fields.read(
            "sm_clock_max", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, sm)
        ),
        "performance_state": fields.read(
            "performance_state", lambda: pynvml.nvmlDeviceGetPerformanceState(handle)
        ),
        "utilisation_percent": getattr(rates, "gpu", None),
        "clock_event_reasons": fields.read("clock_event_reasons", *reason_calls(pynvml, handle)),
    }


def reason_calls(pynvml: Any, handle: Any) -> tuple[Callable[[], Any], ...]:
    return (
        lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )


def _power(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    gpu = pynvml.NVML_TEMPERATURE_GPU
    return {
        "temperature": fields.read(
            "temperature",
            lambda: pynvml.nvmlDeviceGetTemperatureV(handle, gpu),
            lambda: pynvml.nvmlDeviceGetTemperature(handle, gpu),
        ),
        "power": fields.read("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle)),
        "power_limit": fields.read(
            "power_limit",
            lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            lambda: pynvml.nvmlDeviceGetPowerManagementLimit(handle),
        ),
        "power_limit_default": fields.read(
            "power_limit_default",
            lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle),
        ),
    }


def _errors(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    volatile = pynvml.NVML_VOLATILE_ECC
    mode = fields.read("ecc_mode", lambda: pynvml.nvmlDeviceGetEccMode(handle))
    rows = fields.read("remapped_rows", lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    corrected, uncorrected, pending, failure = rows or (None,) * 4
    return {
        "ecc_enabled": mode[0] if mode else None,
        "ecc_corrected": fields.read(
            "ecc_corrected",
            lambda: pynvml.nvmlDeviceGetTotalEccErrors(
                handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, volatile
            ),
        ),
        "ecc_uncorrected": fields.read(
            "ecc_uncorrected",
            lambda: pynvml.nvmlDeviceGetTotalEccErrors(
                handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, volatile
            ),
        ),
        "remapped_correctable": corrected,
        "remapped_uncorrectable": uncorrected,
        "remap_pending": pending,
        "remap_failure": failure,
    }


def _link(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    calls = {
        "link_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
        "link_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
        "link_generation_device_max": "nvmlDeviceGetGpuMaxPcieLinkGeneration",
        "link_width": "nvmlDeviceGetCurrPcieLinkWidth",
        "link_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
        "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
    }
    return {
        name: fields.read(name, functools.partial(_call, pynvml, function, handle))
        for name, function in calls.items()
    }


def _call(pynvml: Any, function: str, handle: Any) -> Any:
    return getattr(pynvml, function)(handle)


def _modes(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    mig = fields.read("mig", lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return {
        "mig": mig[0] if mig else None,
        "persistence": fields.read(
            "persistence", lambda: pynvml.nvmlDeviceGetPersistenceMode(handle)
        ),
        "virtualisation": fields.read(
            "virtualisation", lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle)
        ),
    }
