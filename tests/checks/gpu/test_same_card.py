"""One card, asked through NVML and printed by nvidia-smi: the same facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.checks.gpu.inputs import L40, Values, device, made, running
from tests.checks.gpu.judging import probed
from tests.checks.gpu.printed import COUNTERS, REASONS
from tests.checks.gpu.test_forms import CSV, HELD, OLD, PRINTED, TABLE
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import Card, node
from tests.trees import plant

__all__ = ["fake_nvml"]

MIB = 1 << 20
PATHS = {
    0: "cmd/nvidia-smi_-q_-x.txt",
    1: "cmd/nvidia-smi_-q.txt",
    2: "cmd/nvidia-smi_--query-gpu.csv",
    3: "cmd/nvidia-smi.txt",
}
ONE_SOURCE_ALONE = {
    "seen_by",
    "link_generation_host_max",  # which NVML has no function for
    "vram_bytes_per_second",  # follows from a bus width that nvidia-smi does not print
    "vram_rate_source",
}

SWITCH = {"0": "Disabled", "1": "Enabled"}
YES = {"0": "No", "1": "Yes"}
WORDS = {
    "persistence": ("persistence", SWITCH),
    "display": ("display_active", SWITCH),
    "ecc": ("ecc_mode", SWITCH),
    "ecc_pending": ("ecc_mode", SWITCH),
    "mig": ("mig", SWITCH),
    "mig_pending": ("mig", SWITCH),
    "threshold": ("sram_threshold_exceeded", YES),
    "pending": ("remap_pending", YES),
    "failure": ("remap_failure", YES),
    "page_pending": ("retired_pending", YES),
    "compute_mode": ("compute_mode", {"0": "Default", "3": "Exclusive_Process"}),
    "virtualisation": ("virtualisation", {"0": "None", "1": "Pass-Through"}),
    "recovery": ("field 230", {"0": "None", "1": "Reset"}),
    "fabric_state": ("fabric_state", {"3": "Completed"}),
    "fabric_status": ("fabric_status", {"0": "Success"}),
}
FORMS = {
    "name": ("name", "{}"),
    "uuid": ("uuid", "{}"),
    "serial": ("serial", "{}"),
    "vbios": ("vbios_version", "{}"),
    "cap": ("compute_capability", "{}"),
    "pstate": ("performance_state", "P{}"),
    "util": ("utilisation", "{} %"),
    "temp": ("temperature", "{} C"),
    "mem_temp": ("field 82", "{} C"),
    "margin": ("margin_temperature", "{} C"),
    "shutdown_margin": ("field 193", "{} C"),
    "slowdown_margin": ("field 194", "{} C"),
    "mem_max_margin": ("field 195", "{} C"),
    "gpu_max_margin": ("field 196", "{} C"),
    "sm": ("sm_clock", "{} MHz"),
    "mem": ("memory_clock", "{} MHz"),
    "max_sm": ("sm_clock_max", "{} MHz"),
    "max_mem": ("memory_clock_max", "{} MHz"),
    "gen": ("link_generation", "{}"),
    "gen_max": ("link_generation_max", "{}"),
    "gen_device": ("link_generation_device_max", "{}"),
    "width": ("link_width", "{}"),
    "width_max": ("link_width_max", "{}"),
    "replays": ("pcie_replays", "{}"),
    "rollovers": ("field 95", "{}"),
    "tx": ("pcie_sent", "{} KB/s"),
    "rx": ("pcie_received", "{} KB/s"),
    "unc": ("ecc_uncorrected", "{}"),
    "corr": ("ecc_corrected", "{}"),
    "agg_unc": ("ecc_uncorrected_aggregate", "{}"),
    "agg_corr": ("ecc_corrected_aggregate", "{}"),
    "rows": ("remapped_uncorrectable", "{}"),
    "rows_corr": ("remapped_correctable", "{}"),
    "banks": ("remap_banks", "{}"),
    "sbe": ("retired_single", "{}"),
    "dbe": ("retired_double", "{}"),
}
SIZES = {"total": "memory_total", "used": "memory_used", "bar1": "bar1_total"}
POWERS = {
    "draw": "power",
    "limit": "power_limit",
    "requested": "power_limit",
    "default": "power_limit_default",
    "min_limit": "power_limit_min",
    "max_limit": "power_limit_max",
}
THRESHOLDS = {"shutdown": 0, "slowdown": 1, "mem_max": 2, "gpu_max": 3}
COUNTER_IDS = (74, 76, 269, 270, 271)


def printed(fake: Card, system: Card) -> Values:
    """A card of the fake library as nvidia-smi would print it."""

    def told(key: str, form: str) -> str:
        return form.format(fake[key]) if key in fake else "N/A"

    values = {**L40, **{name: told(*place) for name, place in FORMS.items()}}
    for name, (key, words) in WORDS.items():
        values[name] = words[str(fake[key])] if key in fake else "N/A"
    for name, key in SIZES.items():
        values[name] = f"{int(fake[key]) // MIB} MiB" if key in fake else "N/A"
    for name, key in POWERS.items():
        values[name] = f"{int(fake[key]) / 1000:.2f} W" if key in fake else "N/A"
    if "threshold 0" in fake or "field 193" not in fake:
        for name, number in THRESHOLDS.items():
            values[name] = told(f"threshold {number}", "{} C")
    mask = int(str(fake.get("clock_event_reasons", 0)), 0)
    held = {
        f"held_{name}": f"{int(fake[f'field {number}']) // 1000} us"
        if f"field {number}" in fake
        else "N/A"
        for (name, _, _), number in zip(COUNTERS, COUNTER_IDS, strict=True)
    }
    ids = {name: f"{int(str(fake[name]), 16):08X}" for name in ("device_id", "subsystem_id")}
    return {
        **values,
        "bus": str(fake["bus_id"])[9:11],
        "device": ids["device_id"],
        "subsystem": ids["subsystem_id"],
        "zero": "0" if "ecc_uncorrected" in fake else "N/A",
        "sram": "0" if "ecc_uncorrected" in fake else "N/A",
        "agg_sram": "0" if "ecc_uncorrected_aggregate" in fake else "N/A",
        "active": " ".join(name for name, _, bit in REASONS if mask & bit),
        **held,
        "processes": running(*_programs(fake, system)),
        "instances": made(*_instances(fake)),
    }


LETTERS = {"compute": "C", "graphics": "G", "compute graphics": "C+G", "compute mps": "M+C"}


def _programs(fake: Card, system: Card) -> list[tuple[int, str, str, str]]:
    kinds: dict[str, list[str]] = {}
    sizes: dict[str, str] = {}
    for kind in ("compute", "graphics", "mps"):
        for process in str(fake.get(f"{kind}_processes", "none")).removeprefix("none").split():
            pid, _, sizes[pid] = process.partition("@")[0].partition(":")
            kinds.setdefault(pid, []).append(kind)
    return [
        (
            int(pid),
            LETTERS[" ".join(kinds[pid])],
            f"{int(size) // MIB} MiB",
            str(system[f"process_name {pid}"]),
        )
        for pid, size in sizes.items()
    ]


def _instances(fake: Card) -> list[tuple[int, int, str, str]]:
    def size(number: int, key: str) -> str:
        return f"{int(fake[f'mig {number}.memory_{key}']) // MIB} MiB"

    count = sum(key.endswith(".gpu_instance") for key in fake)
    return [
        (
            int(fake[f"mig {n}.gpu_instance"]),
            int(fake[f"mig {n}.compute_instance"]),
            size(n, "total"),
            size(n, "used"),
        )
        for n in range(count)
    ]


def comparable(member: str, value: Any, other: Any) -> Any:
    """A member in what both sources tell of it."""
    if member == "mig_instances":  # nvidia-smi has no names for them
        return [{**instance, "profile": None} for instance in value]
    if member == "clock_event_seconds" and value and other:  # NVML has more of them, or fewer
        return {name: pytest.approx(value[name], abs=1e-5) for name in value if name in other}
    return value


FAULTS: Card = {
    "ecc_uncorrected": 5, "ecc_corrected": 700, "ecc_uncorrected_aggregate": 1205,
    "ecc_corrected_aggregate": 98765432109, "sram_threshold_exceeded": 1,
    "remap_pending": 1, "remap_failure": 1, "remapped_uncorrectable": 4, "remapped_correctable": 1,
    "remap_banks": "2556 1 1 1 1", "field 230": 1, "clock_event_reasons": "0xC8",
    "field 271": 61_000_000_000, "pcie_replays": 4000, "field 95": 12, "link_generation": 1,
    "link_width": 4, "margin_temperature": -3, "power_limit": 350000, "display_active": 1,
    "compute_mode": 3, "persistence": 0, "utilisation": 0, "performance_state": 8,
}  # fmt: skip
NODES: list[tuple[str, Card]] = [
    ("three_l40", {}),
    ("three_l40", {"mps_processes": "4711:524288000", "graphics_processes": "4712:1048576"}),
    ("three_l40", {"graphics_processes": "4711:524288000"}),
    ("eight_h200", {}),
    ("eight_h200", FAULTS),
    ("a100_mig", {}),
    ("rtx_4090", {}),
    ("t4", {"retired_single": 2, "retired_double": 1, "retired_pending": 1}),
    ("gb10", {}),
    ("l40s_passthrough", {}),
    ("pro_6000", {}),
]


@pytest.mark.parametrize(("name", "changes"), NODES)
def test_nvml_and_every_form_agree(
    name: str, changes: Card, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    cards, system = node(name)
    fake = {**cards[0], **changes, "bus_id": "00000000:0A:00.0"}
    tree = device("0000:0a:00.0", ids=f"10de:{str(fake['device_id'])[2:6].lower()}")
    live = fake_nvml.probe(tree, [fake], tmp_path, old=False, **system)["gpus"][0]
    values = printed(fake, system)
    for form, (number, prints) in PRINTED.items():
        captured = plant({**tree, PATHS[number]: prints([values])}, tmp_path / form)
        (gpu,) = probed(captured)[0].gpus
        told = msgspec.json.decode(msgspec.json.encode(gpu))
        for member in sorted(set(HELD) - ONE_SOURCE_ALONE):
            if form in HELD[member] and not held_in_part(form, member, live):
                expected = comparable(member, live[member], told[member])
                got = comparable(member, told[member], live[member])
                assert got == expected, (form, member)


def held_in_part(form: str, member: str, live: dict[str, Any]) -> bool:
    """What this form prints less of, or NVML is not asked for."""
    if member.startswith("pcie_") and member.endswith("per_second"):
        return not live["utilisation_share"]  # it takes 20 ms a call: on a card at work alone
    if form == CSV and member == "thermal":
        return True
    if form == TABLE and member == "ecc_volatile_uncorrectable":
        return bool(live["mig"])
    if form == TABLE and member == "name":
        return len(live["name"]) > 27
    if form == TABLE and member == "power_watts":
        return bool(live["power_watts"] % 1)  # whole watts
    return form == OLD and member == "recovery_action"
