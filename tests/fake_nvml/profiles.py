"""Cards for the fake library, as their drivers describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Card = Mapping[str, "str | int"]

L40: Card = {
    "name": "NVIDIA L40",
    "device_id": 0x26B510DE,
    "subsystem_id": 0x169D10DE,
    "memory_total": 48305799168,
    "memory_used": 0,
    "memory_bus_bits": 384,
    "memory_clock": 9001,
    "memory_clock_max": 9001,
    "sm_clock": 2490,
    "sm_clock_max": 2490,
    "performance_state": 0,
    "utilisation": 98,
    "temperature": 61,
    "power": 270_000,
    "power_limit": 300_000,
    "power_limit_default": 300_000,
    "clock_event_reasons": 0,
    "ecc_mode": 1,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remapped_uncorrectable": 0,
    "remap_pending": 0,
    "remap_failure": 0,
    "link_generation": 4,
    "link_generation_max": 4,
    "link_generation_device_max": 4,
    "link_width": 16,
    "link_width_max": 16,
    "pcie_replays": 9,
    "persistence": 1,
    "virtualisation": 1,
}
PRO_6000: Card = {
    **L40,
    "name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "device_id": 0x2BB110DE,
    "memory_total": 102641958912,
    "memory_bus_bits": 512,
    "memory_clock": 14001,
    "memory_clock_max": 14001,
    "power": 550_000,
    "power_limit": 600_000,
    "power_limit_default": 600_000,
    "link_generation": 5,
    "link_generation_max": 5,
    "link_generation_device_max": 5,
    "virtualisation": 0,
}
H100: Card = {
    **L40,
    "name": "NVIDIA H100 80GB HBM3",
    "device_id": 0x233010DE,
    "memory_total": 85520809984,
    "memory_bus_bits": 5120,
    "memory_clock": 2619,
    "memory_clock_max": 2619,
    "power_limit": 700_000,
    "power_limit_default": 700_000,
    "link_generation": 5,
    "link_generation_max": 5,
    "link_generation_device_max": 5,
    "mig": 0,
}
_GEFORCE_LACKS = ("ecc_mode", "ecc_corrected", "ecc_uncorrected", "remap_pending", "remap_failure")
IDLE_4090: Card = {
    **{key: value for key, value in L40.items() if key not in _GEFORCE_LACKS},
    "name": "NVIDIA GeForce RTX 4090",
    "device_id": 0x268410DE,
    "memory_total": 25757220864,
    "memory_clock": 405,
    "memory_clock_max": 10501,
    "sm_clock": 210,
    "sm_clock_max": 3120,
    "performance_state": 8,
    "utilisation": 0,
    "clock_event_reasons": 1,
    "power": 26_000,
    "power_limit": 450_000,
    "power_limit_default": 450_000,
    "link_generation": 1,
    "persistence": 0,
    "virtualisation": 0,
}
GB10: Card = {
    "name": "NVIDIA GB10",
    "device_id": 0x2E1210DE,
    "memory_bus_bits": 256,
    "memory_clock_max": 8533,
    "sm_clock": 2405,
    "sm_clock_max": 3003,
    "performance_state": 0,
    "utilisation": 4,
    "temperature": 45,
    "clock_event_reasons": 0,
    "link_generation": 1,
    "link_generation_max": 1,
    "link_width": 1,
    "link_width_max": 1,
    "persistence": 1,
    "virtualisation": 0,
}
"""A card without memory of its own: NVML has neither version of its memory information."""

DRIVER: Card = {"driver_version": "580.65.06", "cuda_version": 13000}


def at(card: Card, bus: int, **changes: str | int) -> Card:
    """The card at 0000:<bus>:00.0, with changed answers (`!15` is NVML's error 15)."""
    return {**card, "bus_id": f"00000000:{bus:02X}:00.0", "minor": bus - 1, **changes}


def description(cards: Sequence[Card], **system: str | int) -> str:
    """The text that the fake library reads."""
    holders = [{**DRIVER, **system}, *cards]
    return "device\n".join("".join(f"{k} {v}\n" for k, v in holder.items()) for holder in holders)
