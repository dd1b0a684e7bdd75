"""Numbers of a card that cannot be true: they are not told, and hide nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodecheck.checks.gpu import merge, readings
from nodecheck.checks.gpu.card_files import count_of
from nodecheck.checks.gpu.facts import Gpu
from tests.checks.gpu.amd_inputs import radeon
from tests.checks.gpu.nvml_rows import BASE, SYSTEM
from tests.checks.gpu.queried import queried
from tests.checks.gpu.test_live import ONE, THREE, ids
from tests.checks.gpu.test_live_facts import at as told_at
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, Card, at, description

__all__ = ["fake_nvml"]

ONES_32, ONES_64 = (1 << 32) - 1, (1 << 64) - 1
ABSURD: list[tuple[str, str, str | int]] = [
    ("memory_bytes", "memory_total", ONES_64),
    ("memory_used_bytes", "memory_used", ONES_64),
    ("bar1_bytes", "bar1_total", ONES_64),
    ("memory_bus_bits", "memory_bus_bits", ONES_32),
    ("pcie_replay_rollovers", "field 95", ONES_64),
    ("pcie_replays", "pcie_replays", ONES_32),
    ("ecc_volatile_uncorrectable", "ecc_uncorrected", ONES_64),
    ("ecc_volatile_uncorrectable", "ecc_uncorrected", ONES_32),
    ("ecc_volatile_correctable", "ecc_corrected", -40),
    ("ecc_aggregate_uncorrectable", "ecc_uncorrected_aggregate", ONES_64),
    ("remap_failure", "remap_failure", ONES_32),
    ("remap_failure", "remap_failure", 2),
    ("remap_pending", "remap_pending", 255),
    ("remapped_rows_uncorrectable", "remapped_uncorrectable", ONES_32),
    ("sram_threshold_exceeded", "sram_threshold_exceeded", 7),
    ("ecc_enabled", "ecc_mode", ONES_32),
    ("mig", "mig", 99),
    ("persistence", "persistence", 2),
    ("retired_pages.single_bit", "retired_single", -40),
    ("retired_pages.double_bit", "retired_double", ONES_32),
    ("retired_pages.pending", "retired_pending", 3),
    ("clocks_event_reasons", "clock_event_reasons", str(ONES_64)),
    ("clocks_event_reasons", "clock_event_reasons", str(ONES_32)),
    ("clocks_event_reasons", "clock_event_reasons", f"0x80,{ONES_64}"),
    ("memory_clock_mhz", "memory_clock", 0),
    ("sm_clock_mhz", "sm_clock", 0),
    ("maximum_memory_clock_mhz", "memory_clock_max", ONES_32),
    ("maximum_sm_clock_mhz", "sm_clock_max", ONES_32),
    ("default_power_limit_watts", "power_limit_default", ONES_32),
    ("maximum_power_limit_watts", "power_limit_max", ONES_32),
    ("temperature_celsius", "temperature", -1),
    ("temperature_celsius", "temperature", 255),
    ("memory_temperature_celsius", "field 82", "u32:255"),
    ("thermal.slowdown_celsius", "threshold 1", 255),
    ("thermal.slowdown_margin_celsius", "field 194", "u32:2147483647"),
    ("link_width", "link_width", 63),
    ("link_width", "link_width", 255),
    ("link_width_max", "link_width_max", ONES_32),
    ("link_generation", "link_generation", 8),
    ("link_generation_max", "link_generation_max", ONES_32),
    ("nvlinks.1.crc_errors", "nvlink *.crc_flit", ONES_64),
    ("recovery_action", "field 230", ONES_32),
]
ZERO = ("memory_clock", "sm_clock")
"""A clock that is off is no error."""


def test_what_cannot_be_is_not_told_and_a_gap(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    changed: list[Card] = [{**BASE, key: value} for _, key, value in ABSURD]
    (answer,) = queried(fake_nvml, tmp_path, [description(changed, **SYSTEM)])
    assert answer["gpu"]["state"] == "ok"
    (healthy,) = queried(fake_nvml, tmp_path, [description([BASE], **SYSTEM)])
    for (member, key, value), gpu, why in zip(
        ABSURD, answer["gpus"], answer["refusals"], strict=True
    ):
        assert told_at(healthy["gpus"][0], member) is not None, member
        assert told_at(gpu, member) is None, (member, value)
        if key not in ZERO and "," not in str(value):
            reason, words = why[member.replace(".1.", ".")]
            assert reason == "failed", (member, value)
            assert words.startswith("impossible value ")


HIDDEN: list[Card] = [
    {"field 95": ONES_64},
    {"memory_total": ONES_64},
    {"memory_used": ONES_64},
    {"ecc_uncorrected": ONES_64},
]


@pytest.mark.parametrize("changes", HIDDEN)
def test_a_fault_beside_it_is_told(changes: Card, fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [at(L40, 1), {**at(L40, 2), **changes}, at(L40, 3, remap_failure=1)]
    answer = fake_nvml.probe(THREE, cards, tmp_path)
    assert ids(answer) == {"gpu.remap_failure": "critical"}
    gaps = [gap for gap in answer["gaps"] if "impossible value" in gap["detail"]]
    assert gaps
    assert all("0000:02:00.0" in gap["detail"] for gap in gaps)


@pytest.mark.parametrize("answer", ["!13", "!2", "!3"])
def test_a_card_that_hides_its_memory_has_memory(
    answer: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    told = fake_nvml.probe(ONE, [at(L40, 1, memory_total=answer)], tmp_path)
    assert ids(told) == {}
    (gpu,) = told["gpus"]
    assert (gpu["unified_memory"], gpu["chip_to_chip"]) == (False, False)
    assert "gpus.memory_bytes" in [gap["field"] for gap in told["gaps"]]


@pytest.mark.parametrize(("answer", "unified"), [("!3", True), ("!13", False), ("!2", False)])
def test_an_unknown_card_without_memory(
    answer: str, unified: bool, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    card = at(L40, 1, memory_total=answer, name="NVIDIA X9", device_id="0x7FFF10DE")
    (gpu,) = fake_nvml.probe(ONE, [card], tmp_path)["gpus"]
    assert (gpu["unified_memory"], gpu["chip_to_chip"]) == (unified, unified)


def test_an_unknown_recovery_action_is_asked_for(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, **{"field 230": 99})], tmp_path)
    assert ids(answer) == {"gpu.xid": "critical"}
    (piece,) = answer["findings"][0]["evidence"]
    assert "recovery action action 99" not in piece["value"]
    assert piece["basis"] == "the driver asks for recovery action 99; see its manual"


def test_a_radeons_absurd_count_is_its_own_gap(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    tree = {**ONE, **radeon(mem_info_vram_used="18446744073709547520")}
    answer = fake_nvml.probe(tree, [at(L40, 1, remap_failure=1)], tmp_path)
    assert "gpu.remap_failure" in ids(answer)
    (gap,) = [gap for gap in answer["gaps"] if gap["field"] == "gpus.memory_used_bytes"]
    assert gap["detail"] == "sysfs: impossible value 18446744073709547520 for 0000:03:00.0"


def test_cards_of_two_makers_are_two_cards() -> None:
    nvidia = Gpu(index=0, vendor="nvidia", name="NVIDIA L40", seen_by=("nvidia-smi",))
    amd = Gpu(index=0, vendor="amd", pci_address="0000:03:00.0", seen_by=("amd-smi",))
    assert len(merge.together([[nvidia], [amd]], [])) == 2


NAMELESS = "!999"


def failing(answer: dict[str, Any]) -> list[str | None]:
    return [gpu["pci_address"] for gpu in answer["gpus"] if gpu["remap_failure"]]


def test_a_nameless_card_of_a_short_list_is_put_nowhere(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    cards = [at(L40, 2), at(L40, 3, bus_id=NAMELESS, remap_failure=1)]
    answer = fake_nvml.probe(THREE, cards, tmp_path)
    assert failing(answer) == [None]
    assert ids(answer) == {"gpu.remap_failure": "critical"}
    both = [at(L40, 2, bus_id=NAMELESS), at(L40, 3, bus_id=NAMELESS, remap_failure=1)]
    assert failing(fake_nvml.probe(THREE, both, tmp_path / "both")) == [None]


def test_a_nameless_card_takes_no_other_ones_place(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [at(L40, 2), at(L40, 1, bus_id=NAMELESS, remap_failure=1), at(L40, 3)]
    answer = fake_nvml.probe(THREE, cards, tmp_path)
    assert failing(answer) == [None]
    assert [gpu["pci_address"] for gpu in answer["gpus"] if gpu["index"] is not None] == [
        "0000:02:00.0", None, "0000:03:00.0",
    ]  # fmt: skip


def test_a_complete_list_places_its_nameless_card(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [at(L40, 1), at(L40, 2, bus_id=NAMELESS, remap_failure=1), at(L40, 3)]
    assert failing(fake_nvml.probe(THREE, cards, tmp_path)) == ["0000:02:00.0"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), (str(ONES_32), None), (str(ONES_64), None), ("18446744073709547520", None),
     ("-4", None), (str(10**15), 10**15)],
)  # fmt: skip
def test_a_count_in_sysfs(text: str, value: int | None) -> None:
    assert count_of(text) == value


def test_what_nvidia_smi_prints_for_none() -> None:
    assert readings.reason_mask(f"0x{ONES_64:X}") is None
    assert readings.reason_mask("0x0000000000000004") == ("sw_power_cap",)
    assert readings.count(str(ONES_32)) is None
    assert readings.degrees("255 C") is None
    assert readings.degrees("-8 C") == -8
