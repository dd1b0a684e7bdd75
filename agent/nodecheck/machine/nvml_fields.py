"""One card as NVML tells it, field by field; the binding is handed in by its only importer.

A field that a card or a driver does not have is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nodecheck.machine.nvml_asking import Fields, Values, calling, text_of
from nodecheck.machine.nvml_codes import NOT_SUPPORTED
from nodecheck.machine.nvml_health import read_errors, read_temperatures, read_values
from nodecheck.machine.nvml_links import FabricState, Link, read_fabric, read_links, read_pcie
from nodecheck.model import Struct

PROCESS_KINDS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
}


class Process(Struct, frozen=True, kw_only=True):
    """A program on a card; its memory in bytes, None where the driver does not tell."""

    pid: int
    kind: str
    memory: int | None = None


class MigDevice(Struct, frozen=True, kw_only=True):
    """A compute instance of a card that MIG cut up; memory in bytes."""

    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_total: int | None = None
    memory_used: int | None = None


class Device(Struct, frozen=True, kw_only=True):
    """One card in NVML's units.

    Memory in bytes, clocks in MHz, power in mW, temperatures in degrees Celsius, PCIe traffic in
    KB/s, ids as NVML packs them (device << 16 | vendor), `values` by the names of
    nvml_health.FIELD_IDS, times among them in ns. `error` is the code with which its handle was
    refused; `without_memory` says that the card has no memory to tell of; `errors` are the codes of
    fields that failed, `unsupported` the fields that the card or driver lacks.
    """

    index: int
    error: int | None = None
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    bus_id: str | None = None
    device_id: int | None = None
    subsystem_id: int | None = None
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    vbios: str | None = None
    compute_capability: tuple[int, int] | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    without_memory: bool = False
    memory_bus_bits: int | None = None
    bar1_total: int | None = None
    processes: tuple[Process, ...] | None = None
    memory_clock: int | None = None
    memory_clock_max: int | None = None
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    performance_state: int | None = None
    utilisation_percent: int | None = None
    clock_event_reasons: int | None = None
    temperature: int | None = None
    margin: int | None = None
    shutdown_temperature: int | None = None
    slowdown_temperature: int | None = None
    memory_max_temperature: int | None = None
    gpu_max_temperature: int | None = None
    power: int | None = None
    power_limit_enforced: int | None = None
    power_limit_requested: int | None = None
    power_limit_default: int | None = None
    power_limit_min: int | None = None
    power_limit_max: int | None = None
    ecc_enabled: int | None = None
    ecc_pending: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_aggregate_corrected: int | None = None
    ecc_aggregate_uncorrected: int | None = None
    sram_threshold_exceeded: int | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: int | None = None
    remap_failure: int | None = None
    remap_histogram: dict[str, int] | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retired_pending: int | None = None
    values: Values = msgspec.field(default_factory=dict)
    link_generation: int | None = None
    link_generation_max: int | None = None
    link_generation_device_max: int | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    pcie_replays: int | None = None
    pcie_sent: int | None = None
    pcie_received: int | None = None
    links: tuple[Link, ...] | None = None
    fabric: FabricState | None = None
    mig: int | None = None
    mig_pending: int | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    persistence: int | None = None
    compute_mode: int | None = None
    display_active: int | None = None
    virtualisation: int | None = None


def read_device(
    pynvml: Any, index: int, asking: Callable[[str], None], driver_version: str | None
) -> Device:
    """All of one card. `asking` is told of each call before it is made. Raises DriverGoneError."""
    fields = Fields(pynvml, asking, f"card {index}")
    handle, refused = fields.attempt("handle", lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    if refused is not None:
        return Device(index=index, error=refused)
    read: dict[str, Any] = {}
    read.update(_identity(pynvml, handle, fields))
    read.update(_memory(pynvml, handle, fields))
    read.update(_modes(pynvml, handle, fields))
    read.update(_clocks(pynvml, handle, fields))
    read.update(_power(pynvml, handle, fields))
    read.update(read_temperatures(pynvml, handle, fields))
    read.update(read_errors(pynvml, handle, fields))
    read.update(read_values(handle, fields, driver_version))
    read.update(read_pcie(pynvml, handle, fields, read["utilisation_percent"]))
    read["links"] = read_links(pynvml, handle, fields, read["values"])
    read["fabric"] = read_fabric(pynvml, handle, fields)
    read["processes"] = read_processes(pynvml, handle, fields)
    read["mig_devices"] = _mig_devices(pynvml, handle, fields) if read["mig"] else ()
    return Device(index=index, errors=fields.errors, unsupported=tuple(fields.unsupported), **read)


def _identity(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    pci = fields.read("PCI address", lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    return {
        "bus_id": text_of(getattr(pci, "busId", None)),
        "device_id": getattr(pci, "pciDeviceId", None),
        "subsystem_id": getattr(pci, "pciSubSystemId", None),
        "name": text_of(fields.read("name", lambda: pynvml.nvmlDeviceGetName(handle))),
        "uuid": text_of(fields.read("UUID", lambda: pynvml.nvmlDeviceGetUUID(handle))),
        "serial": text_of(fields.read("serial number", lambda: pynvml.nvmlDeviceGetSerial(handle))),
        "vbios": text_of(
            fields.read("VBIOS version", lambda: pynvml.nvmlDeviceGetVbiosVersion(handle))
        ),
        "compute_capability": fields.read(
            "compute capability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        ),
    }


def _memory(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    memory, refused = fields.attempt("memory", *_memory_calls(pynvml, handle))
    if refused is not None:
        fields.note("memory", refused)
    bar1 = fields.read("BAR1", lambda: pynvml.nvmlDeviceGetBAR1MemoryInfo(handle))
    return {
        "memory_total": getattr(memory, "total", None),
        "memory_used": getattr(memory, "used", None),
        "without_memory": refused == NOT_SUPPORTED,
        "memory_bus_bits": fields.read(
            "memory bus width", lambda: pynvml.nvmlDeviceGetMemoryBusWidth(handle)
        ),
        "bar1_total": getattr(bar1, "bar1Total", None),
    }


def _memory_calls(pynvml: Any, handle: Any) -> tuple[Callable[[], Any], ...]:
    return (
        # Version 1 counts the driver's reserve as used.
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle),
    )


def _clocks(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    return {
        **read_load(pynvml, handle, fields),
        "memory_clock_max": fields.read(
            "maximum memory clock", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, memory)
        ),
        "sm_clock_max": fields.read(
            "maximum SM clock", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, sm)
        ),
        "clock_event_reasons": read_reasons(pynvml, handle, fields),
    }


def read_load(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    """How busy the card is, and the clocks and the state in which it works."""
    sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    rates = fields.read("utilisation", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    return {
        "memory_clock": fields.read(
            "memory clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, memory)
        ),
        "sm_clock": fields.read("SM clock", lambda: pynvml.nvmlDeviceGetClockInfo(handle, sm)),
        "performance_state": fields.read(
            "performance state", lambda: pynvml.nvmlDeviceGetPerformanceState(handle)
        ),
        "utilisation_percent": getattr(rates, "gpu", None),
    }


def read_reasons(pynvml: Any, handle: Any, fields: Fields) -> int | None:
    """What holds the clocks now, as NVML's mask."""
    mask: int | None = fields.read(
        "clock event reasons",
        lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )
    return mask


def _power(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    limits = fields.read(
        "power limits", lambda: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
    )
    least, most = limits or (None, None)
    return {
        "power": fields.read("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle)),
        "power_limit_enforced": fields.read(
            "power limit", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
        ),
        "power_limit_requested": fields.read(
            "requested power limit", lambda: pynvml.nvmlDeviceGetPowerManagementLimit(handle)
        ),
        "power_limit_default": fields.read(
            "default power limit",
            lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle),
        ),
        "power_limit_min": least,
        "power_limit_max": most,
    }


def _modes(pynvml: Any, handle: Any, fields: Fields) -> dict[str, Any]:
    mig = fields.read("MIG mode", lambda: pynvml.nvmlDeviceGetMigMode(handle))
    current, pending = mig or (None, None)
    return {
        "mig": current,
        "mig_pending": pending,
        "persistence": fields.read(
            "persistence mode", lambda: pynvml.nvmlDeviceGetPersistenceMode(handle)
        ),
        "compute_mode": fields.read(
            "compute mode", lambda: pynvml.nvmlDeviceGetComputeMode(handle)
        ),
        "display_active": fields.read("display", lambda: pynvml.nvmlDeviceGetDisplayActive(handle)),
        "virtualisation": fields.read(
            "virtualisation mode", lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle)
        ),
    }


def read_processes(pynvml: Any, handle: Any, fields: Fields) -> tuple[Process, ...] | None:
    """The programs on the card, each once; None where not even those that compute are told."""
    found: dict[int, Process] = {}
    for kind, function in PROCESS_KINDS.items():
        running = fields.read(
            f"{kind} processes",
            calling(pynvml, f"{function}_v3", handle),
            calling(pynvml, f"{function}_v2", handle),  # drivers before 510
        )
        if running is None and kind == "compute":
            return None
        for process in running or ():
            if process.pid not in found or kind == "mps":  # which is listed as compute too
                memory = process.usedGpuMemory
                found[process.pid] = Process(pid=process.pid, kind=kind, memory=memory)
    return tuple(found.values())


def _mig_devices(pynvml: Any, handle: Any, fields: Fields) -> tuple[MigDevice, ...]:
    """The instances that were made; a place without one is refused as not found."""
    places = fields.read("MIG device count", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    devices = []
    for place in range(places or 0):
        device, refused = fields.attempt(
            f"MIG device {place}",
            calling(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place),
        )
        if refused is None:
            devices.append(_mig_device(pynvml, device, fields, f"MIG device {place}"))
    return tuple(devices)


def _mig_device(pynvml: Any, device: Any, fields: Fields, which: str) -> MigDevice:
    def ask(what: str, *calls: Callable[[], Any]) -> Any:
        return fields.attempt(f"{what} of {which}", *calls)[0]

    memory = ask("memory", *_memory_calls(pynvml, device))
    return MigDevice(
        name=text_of(ask("name", lambda: pynvml.nvmlDeviceGetName(device))),
        gpu_instance=ask("GPU instance", lambda: pynvml.nvmlDeviceGetGpuInstanceId(device)),
        compute_instance=ask(
            "compute instance", lambda: pynvml.nvmlDeviceGetComputeInstanceId(device)
        ),
        memory_total=getattr(memory, "total", None),
        memory_used=getattr(memory, "used", None),
    )
