"""One card as nvidia-smi prints it in any of its forms, as facts.

Every form is read into a record: nvidia-smi's own query names -> text. So the forms cannot differ
in what they mean.
"""

from __future__ import annotations

from typing import Any

from nodecheck.checks.gpu import readings
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine.pci import NVIDIA, normal_address

Record = dict[str, str]
"""Query name (`pcie.link.gen.current`; for replays, which no query gives, `pcie.replays`) -> text.
`reason.<name>` holds one clock event reason."""

REASON = "reason."
LINE_LIMIT = 4096
"""Longest line that any of the forms prints; patterns are not tried on longer ones."""

_READ: dict[str, tuple[str, Any]] = {
    "index": ("index", readings.integer),
    "memory_bytes": ("memory.total", readings.mebibytes),
    "memory_used_bytes": ("memory.used", readings.mebibytes),
    "memory_clock_mhz": ("clocks.mem", readings.integer),
    "maximum_memory_clock_mhz": ("clocks.max.mem", readings.integer),
    "sm_clock_mhz": ("clocks.sm", readings.integer),
    "maximum_sm_clock_mhz": ("clocks.max.sm", readings.integer),
    "performance_state": ("pstate", readings.performance_state),
    "utilisation_share": ("utilization.gpu", readings.share),
    "temperature_celsius": ("temperature.gpu", readings.integer),
    "power_watts": ("power.draw", readings.number),
    "power_limit_watts": ("power.limit", readings.number),
    "default_power_limit_watts": ("power.default_limit", readings.number),
    "ecc_volatile_uncorrectable": ("ecc.uncorrected", readings.integer),
    "ecc_volatile_correctable": ("ecc.corrected", readings.integer),
    "remap_pending": ("remapped_rows.pending", readings.switch),
    "remap_failure": ("remapped_rows.failure", readings.switch),
    "remapped_rows_uncorrectable": ("remapped_rows.uncorrectable", readings.integer),
    "link_generation": ("pcie.link.gen.current", readings.generation),
    "link_generation_max": ("pcie.link.gen.max", readings.generation),
    "link_generation_device_max": ("pcie.link.gen.gpumax", readings.generation),
    "link_generation_host_max": ("pcie.link.gen.hostmax", readings.generation),
    "link_width": ("pcie.link.width.current", readings.lanes),
    "link_width_max": ("pcie.link.width.max", readings.lanes),
    "pcie_replays": ("pcie.replays", readings.integer),
    "mig": ("mig.mode.current", readings.switch_or_lacking),
    "persistence": ("persistence_mode", readings.switch),
    "pci_device_id": ("pci.device_id", readings.packed_ids),
    "subsystem_id": ("pci.sub_device_id", readings.packed_ids),
}
"""A member of Gpu -> the query name that it comes from and how that text is read."""


def renamed(texts: Record, names: dict[str, str]) -> Record:
    """The texts under their query names; of two for one the later that says something."""
    record: Record = {}
    for path, name in names.items():
        text = texts.get(path)
        if text and (name not in record or not readings.is_neutral(text)):
            record[name] = text
    return record


def gpu_of(record: Record) -> Gpu:
    """The card's facts; what the record does not hold stays None."""
    values = {member: read(record.get(name)) for member, (name, read) in _READ.items()}
    values["pci_device_id"] = _nvidia_only(values["pci_device_id"])
    return Gpu(
        **values,
        pci_address=normal_address(record.get("pci.bus_id", "")),
        vendor="nvidia",
        name=_name(record.get("name")),
        seen_by=("nvidia-smi",),
        granted=True,
        lost=any("GPU is lost" in text for text in record.values()),
        unified_memory=_without_memory(record),
        clocks_event_reasons=_reasons(record),
        virtualisation=_word(record.get("gpu_virtualization_mode")),
    )


def unsupported(record: Record) -> frozenset[str]:
    """The members of Gpu of which the card says that it has no such thing."""
    names = {name for name, text in record.items() if readings.is_neutral(text)}
    if "remapped_rows.pending" in names:  # one N/A stands for the whole section
        names.add("remapped_rows.failure")
    return frozenset(member for member, (name, _) in _READ.items() if name in names)


def _nvidia_only(ids: str | None) -> str | None:
    """Ids that were blotted out on capture name no vendor."""
    return ids if ids is not None and ids.startswith(NVIDIA) else None


def _name(text: str | None) -> str | None:
    """A name; not one that the table cut short, nor a message in its place."""
    if text is None or readings.is_neutral(text) or text.endswith("...") or text.startswith("["):
        return None
    return text if "GPU is lost" not in text and "Error" not in text else None


def _word(text: str | None) -> str | None:
    return text if text and not text.startswith("N/A") else None


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
