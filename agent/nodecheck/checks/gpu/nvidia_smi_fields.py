"""One card as nvidia-smi prints it in any of its forms, as facts.

Every form is read into the same record, so that the forms cannot differ in what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodecheck.checks.gpu import readings
from nodecheck.checks.gpu.facts import (
    Fabric,
    Gpu,
    GpuProcess,
    MigInstance,
    RetiredPages,
    Thermal,
)
from nodecheck.checks.gpu.nvidia_smi_names import BANKS, COUNTERS, HEALTH, THRESHOLD
from nodecheck.checks.gpu.nvidia_smi_record import (
    MIG,
    NO_PROCESSES,
    PROCESS,
    PROCESSES,
    REASON,
    Record,
    several,
)
from nodecheck.checks.gpu.nvml_words import BAD_INFOROM, LOST, NEEDS_RESET, fabric_problems
from nodecheck.machine.pci import NVIDIA, normal_address

_READ: dict[str, tuple[str, Any]] = {
    "index": ("index", readings.integer),
    "uuid": ("uuid", readings.uuid),
    "serial": ("serial", readings.serial),
    "vbios_version": ("vbios_version", readings.vbios_version),
    "compute_capability": ("compute_cap", readings.compute_capability),
    "compute_mode": ("compute_mode", readings.compute_mode),
    "display_active": ("display_active", readings.switch),
    "memory_bytes": ("memory.total", readings.mebibytes),
    "memory_used_bytes": ("memory.used", readings.mebibytes),
    "bar1_bytes": ("bar1.total", readings.mebibytes),
    "memory_clock_mhz": ("clocks.mem", readings.integer),
    "maximum_memory_clock_mhz": ("clocks.max.mem", readings.integer),
    "sm_clock_mhz": ("clocks.sm", readings.integer),
    "maximum_sm_clock_mhz": ("clocks.max.sm", readings.integer),
    "performance_state": ("pstate", readings.performance_state),
    "utilisation_share": ("utilization.gpu", readings.share),
    "temperature_celsius": ("temperature.gpu", readings.degrees),
    "memory_temperature_celsius": ("temperature.memory", readings.degrees),
    "power_watts": ("power.draw", readings.number),
    "power_limit_watts": ("power.limit", readings.number),
    "requested_power_limit_watts": ("power.requested_limit", readings.number),
    "default_power_limit_watts": ("power.default_limit", readings.number),
    "minimum_power_limit_watts": ("power.min_limit", readings.number),
    "maximum_power_limit_watts": ("power.max_limit", readings.number),
    "ecc_enabled": ("ecc.mode.current", readings.switch),
    "ecc_pending": ("ecc.mode.pending", readings.switch),
    "ecc_volatile_uncorrectable": ("ecc.volatile.uncorrected", readings.count),
    "ecc_volatile_correctable": ("ecc.volatile.corrected", readings.count),
    "ecc_aggregate_uncorrectable": ("ecc.aggregate.uncorrected", readings.count),
    "ecc_aggregate_correctable": ("ecc.aggregate.corrected", readings.count),
    "sram_threshold_exceeded": (THRESHOLD, readings.switch),
    "remap_pending": ("remapped_rows.pending", readings.switch),
    "remap_failure": ("remapped_rows.failure", readings.switch),
    "remapped_rows_uncorrectable": ("remapped_rows.uncorrectable", readings.count),
    "remapped_rows_correctable": ("remapped_rows.correctable", readings.count),
    "recovery_action": ("gpu_recovery_action", readings.recovery_action),
    "link_generation": ("pcie.link.gen.current", readings.generation),
    "link_generation_max": ("pcie.link.gen.max", readings.generation),
    "link_generation_device_max": ("pcie.link.gen.gpumax", readings.generation),
    "link_generation_host_max": ("pcie.link.gen.hostmax", readings.generation),
    "link_width": ("pcie.link.width.current", readings.lanes),
    "link_width_max": ("pcie.link.width.max", readings.lanes),
    "pcie_replays": ("pcie.replays", readings.count),
    "pcie_replay_rollovers": ("pcie.replay_rollovers", readings.count),
    "pcie_sent_bytes_per_second": ("pcie.tx", readings.bytes_per_second),
    "pcie_received_bytes_per_second": ("pcie.rx", readings.bytes_per_second),
    "mig": ("mig.mode.current", readings.switch_or_lacking),
    "mig_pending": ("mig.mode.pending", readings.switch_or_lacking),
    "persistence": ("persistence_mode", readings.switch),
    "pci_device_id": ("pci.device_id", readings.packed_ids),
    "subsystem_id": ("pci.sub_device_id", readings.packed_ids),
}
"""A member of Gpu -> the query name that it comes from and how that text is read."""

_THERMAL = {
    "shutdown_celsius": "temperature.shutdown",
    "slowdown_celsius": "temperature.slowdown",
    "gpu_max_celsius": "temperature.gpu.max",
    "memory_max_celsius": "temperature.memory.max",
    "margin_celsius": "temperature.gpu.tlimit",
    "shutdown_margin_celsius": "tlimit.shutdown",
    "slowdown_margin_celsius": "tlimit.slowdown",
    "gpu_max_margin_celsius": "tlimit.gpu.max",
    "memory_max_margin_celsius": "tlimit.memory.max",
}
"""A member of Thermal -> its query name."""

_KINDS = {
    "C": "compute",
    "G": "graphics",
    "C+G": "compute",
    "M": "mps",
    "M+C": "mps",
    "C+M": "mps",
    "O": "other",
}
"""nvidia-smi's letters for what a program does; O (since 610) holds memory without a context."""

_FABRIC_STATES = {
    "not started": "not_started",
    "in progress": "in_progress",
    "completed": "completed",
}
_HEALTH_BITS = {
    "bandwidth": (0, {"degraded": 1}),
    "route_recovery": (2, {"true": 1}),
    "route_unhealthy": (4, {"true": 1}),
    "access_timeout_recovery": (6, {"true": 1}),
    "incorrect_configuration": (
        8,
        {
            "incorrect systemguid": 2,
            "incorrect system guid": 2,
            "incorrect chassis serial number": 3,
            "no partition": 4,
            "insufficient nvlink resources": 5,
            "insufficient nvlinks": 5,
            "incompatible gpu firmware": 6,
            "invalid location": 7,
            "gpu state invalid": 8,
        },
    ),
    "partition_assigned": (12, {"false": 2}),
}
"""Part of the fabric's health -> where NVML's mask holds it, and the words for what is wrong."""

_SUMMARIES = {"unhealthy": 2, "limited capacity": 3}
_FINE = ("success", "nvml_success")


def gpu_of(record: Record) -> Gpu:
    """The card's facts; what the record does not hold stays None."""
    values = {member: read(record.get(name)) for member, (name, read) in _READ.items()}
    values["pci_device_id"] = _nvidia_only(values["pci_device_id"])
    # A program's name is its owner's to choose.
    words = [text for name, text in record.items() if not name.startswith(PROCESS)]
    return Gpu(
        **values,
        pci_address=normal_address(record.get("pci.bus_id", "")),
        vendor="nvidia",
        name=_name(record.get("name")),
        seen_by=("nvidia-smi",),
        granted=True,
        lost=any(LOST in text for text in words),
        error=_error(words),
        unified_memory=_without_memory(record),
        clocks_event_reasons=_reasons(record),
        clock_event_seconds=_numbered(record, COUNTERS, readings.seconds),
        thermal=_thermal(record),
        remap_banks=_numbered(record, BANKS, readings.count),
        retired_pages=_retired_pages(record),
        processes=_processes(record),
        mig_instances=_mig_instances(record),
        fabric=_fabric(record),
        virtualisation=_word(record.get("gpu_virtualization_mode")),
    )


def _error(words: list[str]) -> str | None:
    """What stands in a value's place and tells of the whole card."""
    said = {text.strip("[] ") for text in words}
    return next((fault for fault in (NEEDS_RESET, BAD_INFOROM) if fault in said), None)


def node_facts(records: Iterable[Record]) -> dict[str, Any]:
    """What the forms tell of the node as a whole, by member of GpuFacts."""
    driver = cuda = None
    protected: list[int] = []
    for record in records:
        driver = driver or readings.version(record.get("driver_version"))
        cuda = cuda or readings.version(record.get("cuda_version"))
        size = readings.mebibytes(record.get("protected_memory.total"))
        protected += [] if size is None else [size]
    return {
        "driver_version": driver,
        "cuda_version": cuda,
        "confidential_compute": any(protected) if protected else None,
    }


def unsupported(record: Record) -> frozenset[str]:
    """The members of Gpu of which the card says that it has no such thing."""
    names = {name for name, text in record.items() if readings.is_neutral(text)}
    return frozenset(member for member, (name, _) in _READ.items() if name in names)


def _nvidia_only(ids: str | None) -> str | None:
    """Ids that were blotted out on capture name no vendor."""
    return ids if ids is not None and ids.startswith(NVIDIA) else None


def _name(text: str | None) -> str | None:
    """A name; not one that the table cut short, nor a message in its place."""
    if text is None or not readings.is_told(text) or text.endswith("...") or text.startswith("["):
        return None
    return text if LOST not in text and "Error" not in text else None


def _word(text: str | None) -> str | None:
    """A mode by the driver's word for it; None is a mode."""
    return text if text and (text == "None" or readings.is_told(text)) else None


def _without_memory(record: Record) -> bool:
    """Whether the card has no memory of its own; under MIG the memory is the instances'."""
    text = record.get("memory.total")
    if text is None or readings.switch(record.get("mig.mode.current")):
        return False
    return text.strip("[] ").casefold() in ("n/a", "not supported")


def _reasons(record: Record) -> tuple[str, ...] | None:
    mask = readings.reason_mask(record.get("reasons.active"))
    if mask is not None:
        return mask
    states = {
        name.removeprefix(REASON): readings.switch(text)
        for name, text in record.items()
        if name.startswith(REASON)
    }
    known = {name: state for name, state in states.items() if state is not None}
    order = [*readings.REASONS.values(), *known]
    active = dict.fromkeys(name for name in order if known.get(name))
    return tuple(active) if known else None


def _numbered(record: Record, prefix: str, read: Any) -> dict[str, Any] | None:
    """The figures whose names begin so, by the rest of the name; None without any."""
    found = {
        name.removeprefix(prefix): read(text)
        for name, text in record.items()
        if name.startswith(prefix)
    }
    return {name: value for name, value in found.items() if value is not None} or None


def _thermal(record: Record) -> Thermal | None:
    """No threshold is at 0 degrees; a margin may be 0 and below."""
    values = {member: readings.degrees(record.get(name)) for member, name in _THERMAL.items()}
    told = Thermal(
        **{
            member: value
            for member, value in values.items()
            if value or (value is not None and "margin" in member)
        }
    )
    return None if told == Thermal() else told


def _retired_pages(record: Record) -> RetiredPages | None:
    told = RetiredPages(
        single_bit=readings.count(record.get("retired_pages.single_bit")),
        double_bit=readings.count(record.get("retired_pages.double_bit")),
        pending=readings.switch(record.get("retired_pages.pending")),
    )
    return None if told == RetiredPages() else told


def _processes(record: Record) -> tuple[GpuProcess, ...] | None:
    """The programs on the card; None where there is no list, or a word in its place."""
    found = []
    for process in several(record, PROCESS):
        pid, kind = readings.count(process.get("pid")), _KINDS.get(process.get("type", ""))
        if pid is not None and kind is not None:
            name = process.get("name", "")
            found.append(
                GpuProcess(
                    pid=pid,
                    kind=kind,
                    name=name if readings.is_told(name) and not name.startswith("[") else None,
                    memory_bytes=readings.mebibytes(process.get("memory")),
                )
            )
    if found:
        return tuple(found)
    return () if record.get(PROCESSES) == NO_PROCESSES else None


def _mig_instances(record: Record) -> tuple[MigInstance, ...]:
    return tuple(
        MigInstance(
            gpu_instance=readings.count(instance.get("gpu_instance")),
            compute_instance=readings.count(instance.get("compute_instance")),
            memory_bytes=readings.mebibytes(instance.get("total")),
            memory_used_bytes=readings.mebibytes(instance.get("used")),
        )
        for instance in several(record, MIG)
    )


def _fabric(record: Record) -> Fabric | None:
    """A card without a fabric has none; the status counts once the state is completed."""
    state = _FABRIC_STATES.get(_plain(record.get("fabric.state")))
    if state is None:
        return None
    status = record.get("fabric.status", "")
    fine = state != "completed" or readings.is_neutral(status) or _plain(status) in _FINE
    mask = 0
    for part, (shift, ill) in _HEALTH_BITS.items():
        mask |= ill.get(_plain(record.get(HEALTH + part)), 0) << shift
    return Fabric(
        state=state,
        error=None if fine else status.strip("[] "),
        problems=fabric_problems(mask, _SUMMARIES.get(_plain(record.get(f"{HEALTH}summary")))),
    )


def _plain(text: str | None) -> str:
    return (text or "").strip("[] ").casefold()
