"""Cards and nodes for the fake library, as their drivers describe them: from nodes/*.txt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Card = Mapping[str, "str | int"]
"""A key of the description -> its value; `mig 0.name` names the card's first MIG device."""

NODES = Path(__file__).with_name("nodes")

_TWO_WORDS = ("field", "nvlink", "threshold", "process_name", "missing")
"""With these a key is two words, as fake_nvml.c says."""


def node(name: str) -> tuple[list[Card], Card]:
    """The cards of nodes/<name>.txt, and what its system answers."""
    system: dict[str, str | int] = {}
    cards: list[dict[str, str | int]] = []
    here, prefix, migs = system, "", 0
    for line in (NODES / f"{name}.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "device":
            here = dict(cards[int(words[2])]) if len(words) > 1 else {}
            cards.append(here)
            prefix, migs = "", 0
        elif words == ["mig"]:
            prefix = f"mig {migs}."
            migs += 1
        elif words[0] != "#":
            length = 2 if words[0] in _TWO_WORDS else 1
            here[prefix + " ".join(words[:length])] = " ".join(words[length:])
    return list(cards), system


def _first(name: str, **changes: str | int) -> Card:
    return {**node(name)[0][0], **changes}


L40 = _first("three_l40")
PRO_6000 = _first("pro_6000")
H200 = _first("eight_h200")
H100: Card = {
    **H200,
    "name": "NVIDIA H100 80GB HBM3",
    "device_id": 0x233010DE,
    "subsystem_id": 0x16C110DE,
    "memory_total": 85520809984,
    "memory_reserved": 636485632,
    "bar1_total": 137438953472,
    "memory_bus_bits": 5120,
    "memory_clock": 2619,
    "memory_clock_max": 2619,
    "remap_banks": "2560 0 0 0 0",
}
A100_MIG = _first("a100_mig")
IDLE_4090 = _first("rtx_4090")
T4 = _first("t4")
GB10 = _first("gb10")
"""A card without memory of its own: NVML has neither version of its memory information."""
L40S = _first("l40s_passthrough")

DRIVER: Card = {
    "driver_version": "580.65.06",
    "nvml_version": "13.580.65.06",
    "cuda_version": 13000,
}


def at(card: Card, bus: int, **changes: str | int | None) -> Card:
    """The card at 0000:<bus>:00.0, with changed answers: `!15` is NVML's error 15, None none."""
    own: dict[str, str | int | None] = {"bus_id": f"00000000:{bus:02X}:00.0", "minor": bus - 1}
    if "uuid" in card:
        own["uuid"] = f"GPU-{bus:08x}-52c1-4d07-9e8b-3fa6c0d17b24"
    if "serial" in card:
        own["serial"] = str(1320000000000 + bus)
    changed = {**card, **own, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def description(cards: Sequence[Card], **system: str | int) -> str:
    """The text that the fake library reads."""
    return _lines({**DRIVER, **system}) + "".join(map(_section, cards))


def _section(card: Card) -> str:
    """A card's lines, and its MIG devices after it."""
    text = "device\n" + _lines({k: v for k, v in card.items() if not k.startswith("mig ")})
    migs: dict[int, dict[str, str | int]] = {}
    for key, value in card.items():
        if key.startswith("mig "):
            position, _, member = key.removeprefix("mig ").partition(".")
            migs.setdefault(int(position), {})[member] = value
    return text + "".join("mig\n" + _lines(migs[position]) for position in sorted(migs))


def _lines(answers: Card) -> str:
    return "".join(f"{key} {value}\n" for key, value in answers.items())
