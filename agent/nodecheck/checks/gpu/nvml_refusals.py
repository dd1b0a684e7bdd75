"""Why NVML does not tell a member of Gpu."""

from __future__ import annotations

from nodecheck.checks.gpu import nvml_bounds, nvml_words
from nodecheck.checks.gpu.card_files import Refusals
from nodecheck.machine.nvml_codes import NO_PERMISSION, NOT_SUPPORTED
from nodecheck.machine.nvml_fields import Device
from nodecheck.model import Reason

MEMBERS = {
    "name": "name",
    "uuid": "UUID",
    "serial": "serial number",
    "vbios_version": "VBIOS version",
    "compute_capability": "compute capability",
    "compute_mode": "compute mode",
    "display_active": "display",
    "memory_bytes": "memory",
    "memory_used_bytes": "memory",
    "memory_bus_bits": "memory bus width",
    "bar1_bytes": "BAR1",
    "processes": "compute processes",
    "memory_clock_mhz": "memory clock",
    "maximum_memory_clock_mhz": "maximum memory clock",
    "sm_clock_mhz": "SM clock",
    "maximum_sm_clock_mhz": "maximum SM clock",
    "performance_state": "performance state",
    "utilisation_share": "utilisation",
    "clocks_event_reasons": "clock event reasons",
    "clock_event_seconds": "power cap time",
    "temperature_celsius": "temperature",
    "memory_temperature_celsius": "memory temperature",
    "thermal": "slowdown temperature",
    "power_watts": "power",
    "power_limit_watts": "power limit",
    "requested_power_limit_watts": "requested power limit",
    "default_power_limit_watts": "default power limit",
    "minimum_power_limit_watts": "power limits",
    "maximum_power_limit_watts": "power limits",
    "ecc_enabled": "ECC mode",
    "ecc_pending": "ECC mode",
    "ecc_volatile_uncorrectable": "uncorrected errors",
    "ecc_volatile_correctable": "corrected errors",
    "ecc_aggregate_uncorrectable": "aggregate uncorrected errors",
    "ecc_aggregate_correctable": "aggregate corrected errors",
    "sram_threshold_exceeded": "SRAM ECC status",
    "remap_pending": "remapped rows",
    "remap_failure": "remapped rows",
    "remapped_rows_uncorrectable": "remapped rows",
    "remapped_rows_correctable": "remapped rows",
    "remap_banks": "remap histogram",
    "retired_pages.single_bit": "pages retired by single-bit errors",
    "retired_pages.double_bit": "pages retired by double-bit errors",
    "retired_pages.pending": "pending page retirement",
    "recovery_action": "recovery action",
    "link_generation": "PCIe generation",
    "link_generation_max": "maximum PCIe generation",
    "link_generation_device_max": "card's PCIe generation",
    "link_width": "PCIe width",
    "link_width_max": "maximum PCIe width",
    "pcie_replays": "PCIe replays",
    "pcie_replay_rollovers": "PCIe replay rollovers",
    "pcie_errors": "correctable PCIe errors",
    "pcie_sent_bytes_per_second": "PCIe traffic sent",
    "pcie_received_bytes_per_second": "PCIe traffic received",
    "mig": "MIG mode",
    "mig_pending": "MIG mode",
    "persistence": "persistence mode",
    "virtualisation": "virtualisation mode",
    "nvlinks": "NVLinks",
    "fabric": "fabric state",
}
"""A member of Gpu, by dots within it -> the NVML field that it comes from.

Of several fields it is the leading one.
"""


def refusals(device: Device) -> Refusals:
    """A member of Gpu -> why NVML does not tell it: none, an error, or an absurd number."""
    why: Refusals = {}
    for member, field in MEMBERS.items():
        if field in device.errors:
            code = device.errors[field]
            reason = Reason.DENIED if code == NO_PERMISSION else Reason.FAILED
            why[member] = (reason, nvml_words.error(code))
        elif field in device.unsupported:
            why[member] = (Reason.UNSUPPORTED, nvml_words.error(NOT_SUPPORTED))
    return {**why, **nvml_bounds.believable(device)[1]}
