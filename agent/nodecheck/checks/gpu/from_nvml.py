"""What NVML said, as facts: its units to ours, its codes to words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from nodecheck.checks.gpu import nvml_bounds, nvml_words, readings
from nodecheck.checks.gpu.facts import (
    Fabric,
    Gpu,
    GpuFacts,
    GpuProcess,
    MigInstance,
    NvLink,
    RetiredPages,
    Thermal,
)
from nodecheck.machine import nvml
from nodecheck.machine.nvml_codes import (
    CARD_FAULTS,
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
    VERSION_MISMATCH,
)
from nodecheck.machine.nvml_fields import Device, MigDevice
from nodecheck.machine.nvml_links import FabricState, Link
from nodecheck.machine.pci import normal_address
from nodecheck.units import cuda_version

T = TypeVar("T")

INSUFFICIENT_MEMORY = 20
"""Of ours: a limit on this process, or a node that is full. The driver may be well.
Source: nvmlReturn_t of nvml.h."""

_STATES = {
    DRIVER_NOT_LOADED: "missing",
    LIBRARY_NOT_FOUND: "missing",
    VERSION_MISMATCH: "mismatch",
}
_NOT_ASKED = (nvml.NOT_ASKED, INSUFFICIENT_MEMORY)
_LOST_HANDLE = (GPU_IS_LOST, UNKNOWN)

_CLOCK_EVENT_TIMES = {
    "sw_power_cap": "power cap time",
    "thermal": "thermal time",
    "sync_boost": "sync boost time",
    "board_limit": "board limit time",
    "low_utilisation": "low utilisation time",
    "reliability": "reliability time",
    "sw_thermal_slowdown": "software thermal slowdown time",
    "hw_thermal_slowdown": "hardware thermal slowdown time",
    "hw_power_brake_slowdown": "power brake time",
}
_PCIE_ERRORS = {
    "correctable": "correctable PCIe errors",
    "naks_received": "PCIe NAKs received",
    "receiver": "PCIe receiver errors",
    "bad_tlp": "bad PCIe TLPs",
    "naks_sent": "PCIe NAKs sent",
    "bad_dllp": "bad PCIe DLLPs",
    "non_fatal": "non-fatal PCIe errors",
    "fatal": "fatal PCIe errors",
    "unsupported_request": "unsupported PCIe requests",
    "lcrc": "PCIe LCRC errors",
    "lane": "PCIe lane errors",
}


def facts_of(answer: nvml.Answer) -> GpuFacts:
    """The driver's side."""
    return GpuFacts(
        state=state_of(answer),
        message=message_of(answer),
        source="nvml",
        driver_version=answer.driver_version,
        library_version=nvml_words.release_of(answer.library_version),
        cuda_version=cuda_version(answer.cuda_version) if answer.cuda_version else None,
        denied_device="/dev/nvidiactl" if answer.error == NO_PERMISSION else None,
        confidential_compute=_flag(answer.confidential_compute),
    )


def state_of(answer: nvml.Answer) -> str | None:
    """The state of the driver, as GpuFacts.state."""
    if answer.hung:
        return "unresponsive"
    if answer.error in _NOT_ASKED:
        return None
    return "ok" if answer.error is None else _STATES.get(answer.error, "failed")


def message_of(answer: nvml.Answer) -> str | None:
    """The driver's words for why there is no answer, and what it was asked last."""
    if answer.asked is not None:
        begin = answer.message if answer.hung else f"NVML: {answer.message}"
        return f"{begin}; it was asked {answer.asked}"
    if answer.hung or answer.error is None:
        return answer.message
    words = nvml_words.ERRORS.get(answer.error)
    return f"Failed to initialize NVML: {words}" if words else f"NVML: {answer.message}"


def gpus_of(answer: nvml.Answer) -> list[Gpu]:
    """The facts of every card."""
    return [gpu_of(device, answer.process_names) for device in answer.devices]


def gpu_of(device: Device, process_names: Mapping[int, str]) -> Gpu:
    """One card's facts, without numbers that cannot be true."""
    device, _ = nvml_bounds.believable(device)
    values = device.values
    return Gpu(
        index=device.index,
        pci_address=normal_address(device.bus_id or ""),
        vendor="nvidia",
        name=device.name,
        pci_device_id=_ids(device.device_id),
        subsystem_id=_ids(device.subsystem_id),
        seen_by=("nvml",),
        granted=_granted(device),
        lost=_is_lost(device),
        error=_error(device),
        uuid=device.uuid,
        serial=device.serial,
        vbios_version=device.vbios,
        compute_capability=_joined(device.compute_capability),
        compute_mode=_word(nvml_words.COMPUTE_MODES, device.compute_mode),
        display_active=_flag(device.display_active),
        virtualisation=_virtualisation(device.virtualisation),
        persistence=_flag(device.persistence),
        memory_bytes=device.memory_total,
        memory_used_bytes=device.memory_used,
        unified_memory=device.without_memory and device.mig != 1,
        memory_bus_bits=device.memory_bus_bits,
        bar1_bytes=device.bar1_total,
        processes=_processes(device, process_names),
        memory_clock_mhz=device.memory_clock or None,
        maximum_memory_clock_mhz=device.memory_clock_max or None,
        sm_clock_mhz=device.sm_clock or None,
        maximum_sm_clock_mhz=device.sm_clock_max or None,
        performance_state=_performance_state(device.performance_state),
        utilisation_share=_share(device.utilisation_percent),
        clocks_event_reasons=_reasons(device.clock_event_reasons),
        clock_event_seconds=_seconds(device),
        temperature_celsius=device.temperature,
        memory_temperature_celsius=_whole(values.get("memory temperature")) or None,
        thermal=_thermal(device),
        power_watts=_watts(device.power),
        power_limit_watts=_watts(
            device.power_limit_requested
            if device.power_limit_enforced is None
            else device.power_limit_enforced
        ),
        requested_power_limit_watts=_watts(device.power_limit_requested),
        default_power_limit_watts=_watts(device.power_limit_default),
        minimum_power_limit_watts=_watts(device.power_limit_min),
        maximum_power_limit_watts=_watts(device.power_limit_max),
        ecc_enabled=_flag(device.ecc_enabled),
        ecc_pending=_flag(device.ecc_pending),
        ecc_volatile_uncorrectable=device.ecc_uncorrected,
        ecc_volatile_correctable=device.ecc_corrected,
        ecc_aggregate_uncorrectable=device.ecc_aggregate_uncorrected,
        ecc_aggregate_correctable=device.ecc_aggregate_corrected,
        sram_threshold_exceeded=_flag(device.sram_threshold_exceeded),
        remap_pending=_flag(device.remap_pending),
        remap_failure=_flag(device.remap_failure),
        remapped_rows_uncorrectable=device.remapped_uncorrectable,
        remapped_rows_correctable=device.remapped_correctable,
        remap_banks=device.remap_histogram,
        retired_pages=_retired_pages(device),
        recovery_action=_recovery_action(_whole(values.get("recovery action"))),
        link_generation=device.link_generation or None,
        link_generation_max=device.link_generation_max or None,
        link_generation_device_max=device.link_generation_device_max or None,
        link_width=device.link_width or None,
        link_width_max=device.link_width_max or None,
        pcie_replays=device.pcie_replays,
        pcie_replay_rollovers=_whole(values.get("PCIe replay rollovers")),
        pcie_errors=_pcie_errors(device),
        pcie_sent_bytes_per_second=_times(device.pcie_sent, 1e3),
        pcie_received_bytes_per_second=_times(device.pcie_received, 1e3),
        mig=_lacking_is_off(device, device.mig),
        mig_pending=_lacking_is_off(device, device.mig_pending),
        mig_instances=tuple(map(_mig_instance, device.mig_devices)),
        nvlinks=None if device.links is None else tuple(map(_nvlink, device.links)),
        fabric=_fabric(device.fabric),
        chip_to_chip=_chip_to_chip(values),
    )


def _chip_to_chip(values: Mapping[str, float]) -> bool:
    """Whether the card has NVLink-C2C and its first link is not told to be inactive."""
    return bool(values.get("C2C links")) and values.get("C2C link") != 0


def _is_lost(device: Device) -> bool:
    """No handle is what nvidia-smi calls "Unable to determine the device handle"."""
    return device.error in _LOST_HANDLE or GPU_IS_LOST in device.errors.values()


def _granted(device: Device) -> bool | None:
    """Without a handle its file in /dev tells, but for a card that is known to be lost."""
    if device.error == NO_PERMISSION:
        return False
    return True if device.error in (None, *_LOST_HANDLE) else None


def _error(device: Device) -> str | None:
    """Why the card cannot be used: any refusal of its handle, and some of its fields."""
    if device.error is not None:
        told_else = device.error in (NO_PERMISSION, *_LOST_HANDLE)
        return None if told_else else nvml_words.error(device.error)
    faults = (code for code in device.errors.values() if code in CARD_FAULTS)
    return next(map(nvml_words.error, faults), None)


def _lacking_is_off(device: Device, mode: int | None) -> bool | None:
    """A card that cannot do MIG is not in MIG mode."""
    if mode is None:
        return False if "MIG mode" in device.unsupported else None
    return mode == 1


def _processes(device: Device, names: Mapping[int, str]) -> tuple[GpuProcess, ...] | None:
    if device.processes is None:
        return None
    return tuple(
        GpuProcess(
            pid=process.pid,
            kind=process.kind,
            name=names.get(process.pid),
            memory_bytes=process.memory,
        )
        for process in device.processes
    )


def _seconds(device: Device) -> dict[str, float] | None:
    times = {
        reason: device.values[name] / 1e9
        for reason, name in _CLOCK_EVENT_TIMES.items()
        if name in device.values
    }
    return times or None


def _pcie_errors(device: Device) -> dict[str, int] | None:
    counts = {
        error: int(device.values[name])
        for error, name in _PCIE_ERRORS.items()
        if name in device.values
    }
    return counts or None


def _thermal(device: Device) -> Thermal | None:
    """No threshold is at 0 degrees; a margin may be 0 and below."""
    told = Thermal(
        shutdown_celsius=device.shutdown_temperature or None,
        slowdown_celsius=device.slowdown_temperature or None,
        gpu_max_celsius=device.gpu_max_temperature or None,
        memory_max_celsius=device.memory_max_temperature or None,
        margin_celsius=device.margin,
        shutdown_margin_celsius=_signed(device.values.get("shutdown margin")),
        slowdown_margin_celsius=_signed(device.values.get("slowdown margin")),
        gpu_max_margin_celsius=_signed(device.values.get("GPU margin")),
        memory_max_margin_celsius=_signed(device.values.get("memory margin")),
    )
    return None if told == Thermal() else told


def _signed(value: float | None) -> int | None:
    return None if value is None else nvml_bounds.signed(value)


def _retired_pages(device: Device) -> RetiredPages | None:
    told = RetiredPages(
        single_bit=device.retired_single,
        double_bit=device.retired_double,
        pending=_flag(device.retired_pending),
    )
    return None if told == RetiredPages() else told


def _mig_instance(device: MigDevice) -> MigInstance:
    """The profile is the end of the name: NVIDIA A100-SXM4-80GB MIG 1g.10gb."""
    _, found, profile = (device.name or "").rpartition("MIG ")
    return MigInstance(
        gpu_instance=device.gpu_instance,
        compute_instance=device.compute_instance,
        profile=profile.strip() if found else None,
        memory_bytes=device.memory_total,
        memory_used_bytes=device.memory_used,
    )


def _nvlink(link: Link) -> NvLink:
    return NvLink(
        link=link.number,
        active=_flag(link.active),
        version=_word(nvml_words.LINK_VERSIONS, link.version),
        bytes_per_second=_times(link.speed or None, 1e6),
        remote=_word(nvml_words.LINK_REMOTES, link.remote_type),
        remote_address=normal_address(link.remote_bus_id or ""),
        crc_errors=_whole(link.crc),
        replay_errors=_whole(link.replay),
        recovery_errors=_whole(link.recovery),
        fatal_errors=_whole(link.failed),
    )


def _fabric(told: FabricState | None) -> Fabric | None:
    """A state of 0 is a card without a fabric; the status counts once the state is completed."""
    state = _word(nvml_words.FABRIC_STATES, told.state if told else None)
    if told is None or state is None:
        return None
    ended = state == "completed" and told.status != 0
    return Fabric(
        state=state,
        error=nvml_words.error(told.status) if ended else None,
        problems=nvml_words.fabric_problems(told.health_mask, told.health_summary),
    )


def _ids(packed: int | None) -> str | None:
    return readings.packed_ids(f"0x{packed:08x}") if packed is not None else None


def _flag(value: int | None) -> bool | None:
    """0 and 1 are answers, and nothing else is."""
    return value == 1 if value in (0, 1) else None


def _recovery_action(code: int | None) -> str | None:
    """A word that is not known is kept as its number: the driver asks for something."""
    return None if code is None else nvml_words.RECOVERY_ACTIONS.get(code, f"action {code}")


def _word(words: Mapping[int, T], code: int | None) -> T | None:
    """The word for a code; None for one that this program does not know."""
    return None if code is None else words.get(code)


def _virtualisation(mode: int | None) -> str | None:
    return None if mode is None else nvml_words.VIRTUALISATION.get(mode, f"mode {mode}")


def _joined(numbers: tuple[int, int] | None) -> str | None:
    return ".".join(map(str, numbers)) if numbers else None


def _performance_state(value: int | None) -> int | None:
    """NVML has 32 for a state that is not known."""
    return value if value is not None and value <= 15 else None


def _share(percent: int | None) -> float | None:
    return percent / 100 if percent is not None and percent <= 100 else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _reasons(mask: int | None) -> tuple[str, ...] | None:
    return None if mask is None else readings.reason_names(mask)
