"""Which of NVML's numbers can be true; the others are not told, and why is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from nodecheck.checks.gpu.card_files import (
    FASTEST_MHZ,
    HOTTEST_CELSIUS,
    STRONGEST_WATTS,
    Refusals,
    impossible,
)
from nodecheck.checks.gpu.readings import GENERATION_LIMIT
from nodecheck.machine.nvml_codes import ALL_ONES
from nodecheck.machine.nvml_fields import Device
from nodecheck.machine.pci import WIDTH_LIMIT
from nodecheck.model import Reason, Struct

S = TypeVar("S", bound=Struct)
Bounds = tuple[float, float]

_FLAG: Bounds = (0, 1)
_COUNT: Bounds = (0, 1e15)
_PAGES: Bounds = (0, 1 << 24)
_BYTES: Bounds = (0, 1e15)
_IDS: Bounds = (0, 0xFFFFFFFE)
_MASK: Bounds = (0, 1 << 64)
_MHZ: Bounds = (0, FASTEST_MHZ)
_MILLIWATTS: Bounds = (0, 1000 * STRONGEST_WATTS)
_CELSIUS: Bounds = (0, HOTTEST_CELSIUS)
_MARGIN: Bounds = (-HOTTEST_CELSIUS, HOTTEST_CELSIUS)
_GENERATION: Bounds = (0, GENERATION_LIMIT - 1)
_WIDTH: Bounds = (0, WIDTH_LIMIT)
_NANOSECONDS: Bounds = (0, 1e18)
_RATE: Bounds = (0, 1e9)
"""KB/s and MB/s: a terabyte a second is more than any link of a card carries."""

_DEVICE: Mapping[str, tuple[str, Bounds]] = {
    "device_id": ("pci_device_id", _IDS),
    "subsystem_id": ("subsystem_id", _IDS),
    "memory_total": ("memory_bytes", _BYTES),
    "memory_used": ("memory_used_bytes", _BYTES),
    "memory_bus_bits": ("memory_bus_bits", (0, 1 << 15)),
    "bar1_total": ("bar1_bytes", _BYTES),
    "memory_clock": ("memory_clock_mhz", _MHZ),
    "memory_clock_max": ("maximum_memory_clock_mhz", _MHZ),
    "sm_clock": ("sm_clock_mhz", _MHZ),
    "sm_clock_max": ("maximum_sm_clock_mhz", _MHZ),
    "utilisation_percent": ("utilisation_share", (0, 100)),
    "clock_event_reasons": ("clocks_event_reasons", _MASK),
    "temperature": ("temperature_celsius", _CELSIUS),
    "margin": ("thermal.margin_celsius", _MARGIN),
    "shutdown_temperature": ("thermal.shutdown_celsius", _CELSIUS),
    "slowdown_temperature": ("thermal.slowdown_celsius", _CELSIUS),
    "memory_max_temperature": ("thermal.memory_max_celsius", _CELSIUS),
    "gpu_max_temperature": ("thermal.gpu_max_celsius", _CELSIUS),
    "power": ("power_watts", _MILLIWATTS),
    "power_limit_enforced": ("power_limit_watts", _MILLIWATTS),
    "power_limit_requested": ("requested_power_limit_watts", _MILLIWATTS),
    "power_limit_default": ("default_power_limit_watts", _MILLIWATTS),
    "power_limit_min": ("minimum_power_limit_watts", _MILLIWATTS),
    "power_limit_max": ("maximum_power_limit_watts", _MILLIWATTS),
    "ecc_enabled": ("ecc_enabled", _FLAG),
    "ecc_pending": ("ecc_pending", _FLAG),
    "ecc_corrected": ("ecc_volatile_correctable", _COUNT),
    "ecc_uncorrected": ("ecc_volatile_uncorrectable", _COUNT),
    "ecc_aggregate_corrected": ("ecc_aggregate_correctable", _COUNT),
    "ecc_aggregate_uncorrected": ("ecc_aggregate_uncorrectable", _COUNT),
    "sram_threshold_exceeded": ("sram_threshold_exceeded", _FLAG),
    "remapped_correctable": ("remapped_rows_correctable", _PAGES),
    "remapped_uncorrectable": ("remapped_rows_uncorrectable", _PAGES),
    "remap_pending": ("remap_pending", _FLAG),
    "remap_failure": ("remap_failure", _FLAG),
    "retired_single": ("retired_pages.single_bit", _PAGES),
    "retired_double": ("retired_pages.double_bit", _PAGES),
    "retired_pending": ("retired_pages.pending", _FLAG),
    "link_generation": ("link_generation", _GENERATION),
    "link_generation_max": ("link_generation_max", _GENERATION),
    "link_generation_device_max": ("link_generation_device_max", _GENERATION),
    "link_width": ("link_width", _WIDTH),
    "link_width_max": ("link_width_max", _WIDTH),
    "pcie_replays": ("pcie_replays", _COUNT),
    "pcie_sent": ("pcie_sent_bytes_per_second", _RATE),
    "pcie_received": ("pcie_received_bytes_per_second", _RATE),
    "mig": ("mig", _FLAG),
    "mig_pending": ("mig_pending", _FLAG),
    "persistence": ("persistence", _FLAG),
    "display_active": ("display_active", _FLAG),
}
"""A member of Device -> that of Gpu, and its least and most in NVML's units."""

_MARGINS = {
    "shutdown margin": "thermal.shutdown_margin_celsius",
    "slowdown margin": "thermal.slowdown_margin_celsius",
    "memory margin": "thermal.memory_max_margin_celsius",
    "GPU margin": "thermal.gpu_max_margin_celsius",
}
_VALUES: Mapping[str, tuple[str, Bounds]] = {
    "memory temperature": ("memory_temperature_celsius", _CELSIUS),
    "PCIe replay rollovers": ("pcie_replay_rollovers", _COUNT),
    "recovery action": ("recovery_action", (0, 254)),
    **{name: (member, _MARGIN) for name, member in _MARGINS.items()},
}
"""A field value -> as above; of the others times are nanoseconds, and all else counts."""

_LINK: Mapping[str, tuple[str, Bounds]] = {
    "active": ("nvlinks.active", _FLAG),
    "speed": ("nvlinks.bytes_per_second", _RATE),
    "crc": ("nvlinks.crc_errors", _COUNT),
    "replay": ("nvlinks.replay_errors", _COUNT),
    "recovery": ("nvlinks.recovery_errors", _COUNT),
    "failed": ("nvlinks.fatal_errors", _COUNT),
}
_INSTANCE: Mapping[str, tuple[str, Bounds]] = {
    "gpu_instance": ("mig_instances.gpu_instance", _PAGES),
    "compute_instance": ("mig_instances.compute_instance", _PAGES),
    "memory_total": ("mig_instances.memory_bytes", _BYTES),
    "memory_used": ("mig_instances.memory_used_bytes", _BYTES),
}
_PROCESS: Mapping[str, tuple[str, Bounds]] = {"memory": ("processes.memory_bytes", _BYTES)}


def believable(device: Device) -> tuple[Device, Refusals]:
    """The device without numbers that cannot be true, and which members of Gpu lack them."""
    why: Refusals = {}
    device = _cleaned(device, _DEVICE, why)
    values = {name: v for name, v in device.values.items() if _value_is_told(name, v, why)}
    banks = {
        bank: number
        for bank, number in (device.remap_histogram or {}).items()
        if _is_told(number, f"remap_banks.{bank}", _PAGES, why)
    }
    links, processes = device.links, device.processes
    return msgspec.structs.replace(
        device,
        values=values,
        remap_histogram=None if device.remap_histogram is None else banks,
        links=None if links is None else tuple(_cleaned(each, _LINK, why) for each in links),
        processes=None
        if processes is None
        else tuple(_cleaned(each, _PROCESS, why) for each in processes),
        mig_devices=tuple(_cleaned(each, _INSTANCE, why) for each in device.mig_devices),
    ), why


def signed(value: float) -> int:
    """Margins are signed numbers of 32 bits, whatever type the driver declares for them."""
    low = int(value) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _cleaned(told: S, table: Mapping[str, tuple[str, Bounds]], why: Refusals) -> S:
    wrong: dict[str, Any] = {
        name: None
        for name, (member, bounds) in table.items()
        if not _is_told(getattr(told, name), member, bounds, why)
    }
    return msgspec.structs.replace(told, **wrong) if wrong else told


def _value_is_told(name: str, value: float, why: Refusals) -> bool:
    member, bounds = _VALUES.get(name) or (name, _COUNT)
    if name in _MARGINS:
        value = signed(value)
    elif name.endswith(" time"):
        member, bounds = f"clock_event_seconds.{name.removesuffix(' time')}", _NANOSECONDS
    return _is_told(value, member, bounds, why)


def _is_told(value: float | None, member: str, bounds: Bounds, why: Refusals) -> bool:
    """Whether a number can be true, or is none anyway."""
    if value is None or (bounds[0] <= value <= bounds[1] and value not in ALL_ONES):
        return True
    why.setdefault(member, (Reason.FAILED, impossible(value)))
    return False
