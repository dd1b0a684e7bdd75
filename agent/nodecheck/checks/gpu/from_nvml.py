"""What NVML said, as facts: its units to ours, its codes to words."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.gpu import readings
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine import nvml
from nodecheck.machine.nvml_fields import UNKNOWN, Device
from nodecheck.machine.pci import normal_address
from nodecheck.model import Reason

NAMES = {
    1: "Uninitialized",
    4: "Insufficient Permissions",
    6: "Not Found",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "Operating system blocked the request",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient memory",
    999: "Unknown Error",
}
_STATES = {
    nvml.DRIVER_NOT_LOADED: "missing",
    nvml.LIBRARY_NOT_FOUND: "missing",
    nvml.VERSION_MISMATCH: "mismatch",
}
_VIRTUALISATION = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
_LOST_HANDLE = (nvml.GPU_IS_LOST, UNKNOWN)
_FAULTS = (8, 11, 14, nvml.RESET_REQUIRED)

MEMBERS = {
    "memory_bytes": "memory",
    "memory_used_bytes": "memory",
    "utilisation_share": "utilisation",
    "clocks_event_reasons": "clock_event_reasons",
    "ecc_volatile_uncorrectable": "ecc_uncorrected",
    "ecc_volatile_correctable": "ecc_corrected",
    "remap_pending": "remapped_rows",
    "remap_failure": "remapped_rows",
    "performance_state": "performance_state",
    "power_limit_watts": "power_limit",
    "link_generation": "link_generation",
    "link_width": "link_width",
    "maximum_memory_clock_mhz": "memory_clock_max",
    "memory_bus_bits": "memory_bus_bits",
}
"""A member of Gpu -> the NVML field that it comes from, for those that rules judge."""


def state_of(answer: nvml.Answer) -> str:
    """The state of the driver, as GpuFacts.state."""
    if answer.hung:
        return "unresponsive"
    return "ok" if answer.error is None else _STATES.get(answer.error, "failed")


def message_of(answer: nvml.Answer) -> str | None:
    """The driver's words for why there is no answer."""
    if answer.hung or answer.error is None:
        return answer.message
    words = NAMES.get(answer.error)
    return f"Failed to initialize NVML: {words}" if words else f"NVML: {answer.message}"


def cuda_version(packed: int | None) -> str | None:
    """13010 -> 13.1."""
    return None if packed is None else f"{packed // 1000}.{packed % 1000 // 10}"


def gpu_of(device: Device) -> Gpu:
    """One card's facts."""
    pending, failure = device.remap_pending, device.remap_failure
    return Gpu(
        index=device.index,
        pci_address=normal_address(device.bus_id or ""),
        vendor="nvidia",
        name=device.name,
        pci_device_id=_ids(device.device_id),
        subsystem_id=_ids(device.subsystem_id),
        seen_by=("nvml",),
        granted=device.error != nvml.NO_PERMISSION,
        lost=_is_lost(device),
        error=_error(device),
        memory_bytes=device.memory_total,
        memory_used_bytes=device.memory_used,
        unified_memory="memory" in device.unsupported and device.mig != 1,
        memory_bus_bits=device.memory_bus_bits,
        memory_clock_mhz=device.memory_clock,
        maximum_memory_clock_mhz=device.memory_clock_max,
        sm_clock_mhz=device.sm_clock,
        maximum_sm_clock_mhz=device.sm_clock_max,
        performance_state=_performance_state(device.performance_state),
        utilisation_share=_share(device.utilisation_percent),
        temperature_celsius=device.temperature,
        power_watts=_watts(device.power),
        power_limit_watts=_watts(device.power_limit),
        default_power_limit_watts=_watts(device.power_limit_default),
        clocks_event_reasons=_reasons(device.clock_event_reasons),
        ecc_volatile_uncorrectable=device.ecc_uncorrected,
        ecc_volatile_correctable=device.ecc_corrected,
        remap_pending=None if pending is None else bool(pending),
        remap_failure=None if failure is None else bool(failure),
        remapped_rows_uncorrectable=device.remapped_uncorrectable,
        link_generation=device.link_generation or None,
        link_generation_max=device.link_generation_max or None,
        link_generation_device_max=device.link_generation_device_max or None,
        link_width=device.link_width or None,
        link_width_max=device.link_width_max or None,
        pcie_replays=device.pcie_replays,
        mig=_mig(device),
        persistence=None if device.persistence is None else device.persistence == 1,
        virtualisation=_virtualisation(device.virtualisation),
    )


def _mig(device: Device) -> bool | None:
    """A card that cannot do MIG is not in MIG mode."""
    if device.mig is None:
        return False if "mig" in device.unsupported else None
    return device.mig == 1


def refusals(devices: Iterable[Device]) -> dict[str, tuple[Reason, str]]:
    """A member of Gpu -> why NVML does not tell it: no such thing, or an error that is kept."""
    why: dict[str, tuple[Reason, str]] = {}
    for device in devices:
        for member, field in MEMBERS.items():
            if field in device.errors:
                code = device.errors[field]
                reason = Reason.DENIED if code == nvml.NO_PERMISSION else Reason.FAILED
                why[member] = (reason, NAMES.get(code, f"NVML error {code}"))
            elif field in device.unsupported:
                why.setdefault(member, (Reason.UNSUPPORTED, "Not Supported"))
    return why


def _is_lost(device: Device) -> bool:
    """No handle is what nvidia-smi calls "Unable to determine the device handle"."""
    return device.error in _LOST_HANDLE or nvml.GPU_IS_LOST in device.errors.values()


def _error(device: Device) -> str | None:
    codes = [code for code in (device.error, *device.errors.values()) if code in _FAULTS]
    return NAMES[codes[0]] if codes else None


def _ids(packed: int | None) -> str | None:
    return readings.packed_ids(f"0x{packed:08x}") if packed is not None else None


def _performance_state(value: int | None) -> int | None:
    """NVML has 32 for a state that is not known."""
    return value if value is not None and value <= 15 else None


def _virtualisation(mode: int | None) -> str | None:
    return None if mode is None else _VIRTUALISATION.get(mode, f"mode {mode}")


def _share(percent: int | None) -> float | None:
    return percent / 100 if percent is not None and percent <= 100 else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _reasons(mask: int | None) -> tuple[str, ...] | None:
    return None if mask is None else readings.reason_names(mask)
