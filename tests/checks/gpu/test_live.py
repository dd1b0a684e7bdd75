"""The whole way from NVML to findings, against a library that answers as a driver would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodecheck.checks.gpu import granted
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.gaps import JUDGED
from nodecheck.machine import nvml
from nodecheck.machine.host import Host
from nodecheck.machine.reader import Reader
from tests.checks.gpu.inputs import L40 as PRINTED_L40
from tests.checks.gpu.inputs import device, xml
from tests.checks.gpu.judging import probed
from tests.checks.gpu.nvml_rows import BASE
from tests.checks.live_tree import live_tree
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import GB10, H100, IDLE_4090, L40, PRO_6000, Card, at
from tests.trees import Link, Tree, plant

__all__ = ["fake_nvml"]

ONE: Tree = device("0000:01:00.0")
THREE: Tree = {**ONE, **device("0000:02:00.0"), **device("0000:03:00.0")}


def ids(answer: dict[str, Any]) -> dict[str, str]:
    return {finding["id"]: finding["severity"] for finding in answer["findings"]}


def test_three_l40(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(THREE, [at(L40, 1), at(L40, 2), at(L40, 3)], tmp_path)
    assert answer["gpu"]["state"] == "ok"
    assert answer["gpu"]["driver_version"] == "580.65.06"
    assert answer["gpu"]["cuda_version"] == "13.0"
    assert [gpu["pci_address"] for gpu in answer["gpus"]] == [
        "0000:01:00.0", "0000:02:00.0", "0000:03:00.0",
    ]  # fmt: skip
    for gpu in answer["gpus"]:
        assert gpu["seen_by"] == ["nvml", "pci"]
        assert gpu["granted"] is True
        assert gpu["vram_bytes_per_second"] == pytest.approx(864.096e9)
        assert gpu["vram_rate_source"] == "2 x 9001 MHz x 384 bit / 8"
        assert gpu["virtualisation"] == "Pass-Through"
    assert ids(answer) == {}
    assert not answer["pynvml_imported"]  # only the child pays for it


def test_nvml_and_nvidia_smi_give_the_same_facts(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    live = fake_nvml.probe(ONE, [at(L40, 1)], tmp_path)["gpus"][0]
    tree = {
        **ONE,
        "cmd/nvidia-smi_-q_-x.txt": xml([{**PRINTED_L40, "virtualisation": "Pass-Through"}]),
    }
    (printed,) = probed(plant(tree, tmp_path / "printed"))[0].gpus
    for member in (
        "index", "pci_address", "name", "pci_device_id", "memory_bytes", "unified_memory",
        "memory_clock_mhz", "maximum_memory_clock_mhz", "sm_clock_mhz", "maximum_sm_clock_mhz",
        "vram_bytes_per_second", "performance_state", "temperature_celsius", "power_watts",
        "power_limit_watts", "default_power_limit_watts", "ecc_volatile_uncorrectable",
        "remap_pending", "remap_failure", "remapped_rows_uncorrectable", "link_generation",
        "link_generation_max", "link_generation_device_max", "link_width", "link_width_max",
        "pcie_replays",
        "mig", "persistence", "virtualisation", "granted", "lost", "error",
    ):  # fmt: skip
        assert live[member] == getattr(printed, member), member
    assert tuple(live["clocks_event_reasons"]) == printed.clocks_event_reasons


@pytest.mark.parametrize(
    ("card", "ids_", "rate"),
    [
        (L40, "10de:26b5", 864.1e9),
        (PRO_6000, "10de:2bb1", 1792.1e9),
        (H100, "10de:2330", 3352.3e9),
        (IDLE_4090, "10de:2684", 1008.1e9),
        (GB10, "10de:2e12", 273e9),
        ({**H100, "name": "NVIDIA H200", "device_id": 0x233510DE, "memory_bus_bits": 6144,
          "memory_clock_max": 3201}, "10de:2335", 4800e9),
    ],
)  # fmt: skip
def test_memory_rates(
    card: dict[str, str | int], ids_: str, rate: float, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    answer = fake_nvml.probe(device("0000:01:00.0", ids=ids_), [at(card, 1)], tmp_path)
    assert answer["gpus"][0]["vram_bytes_per_second"] == pytest.approx(rate, rel=1e-4)


def test_an_idle_card_is_not_blamed(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    slow = device(
        "0000:01:00.0", ids="10de:2684", pci_class="0x030000", now=("2.5 GT/s PCIe", "16")
    )
    answer = fake_nvml.probe(slow, [at(IDLE_4090, 1)], tmp_path)
    assert ids(answer) == {"gpu.persistence_off": "info", "pcie.idle_downshift": "info"}
    unsupported = {gap["field"] for gap in answer["gaps"] if gap["reason"] == "unsupported"}
    assert "gpus.ecc_volatile_uncorrectable" in unsupported


def test_unified_memory(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    tree = device(
        "0000:01:00.0", ids="10de:2e12", now=("2.5 GT/s PCIe", "1"), most=("32.0 GT/s PCIe", "16")
    )
    answer = fake_nvml.probe(tree, [at(GB10, 1)], tmp_path)
    assert ids(answer) == {"gpu.unified_memory": "info"}
    assert answer["gpus"][0]["memory_bytes"] is None


@pytest.mark.parametrize("error", ["!15", "!999"])
def test_a_lost_card_is_lost_and_the_others_are_told(
    error: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    answer = fake_nvml.probe(THREE, [at(L40, 1), at(L40, 2, handle=error), at(L40, 3)], tmp_path)
    assert ids(answer) == {"gpu.lost": "critical"}
    assert [gpu["lost"] for gpu in answer["gpus"]] == [False, True, False]
    assert answer["gpus"][1]["pci_address"] == "0000:02:00.0"


def test_a_card_lost_between_two_calls(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, utilisation="!15")], tmp_path)
    assert ids(answer) == {"gpu.lost": "critical"}
    assert answer["gpus"][0]["name"] == "NVIDIA L40"


def test_a_card_lost_before_the_second_sample(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, clock_event_reasons="0x80,!15")], tmp_path)
    assert ids(answer) == {"gpu.lost": "critical"}


def test_a_card_that_refuses_for_a_fault(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, serial="!8")], tmp_path)
    assert answer["gpus"][0]["error"] == "Insufficient External Power"
    assert ids(answer) == {"gpu.nvml_failed": "critical"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, "Invalid Argument"),
        (8, "Insufficient External Power"),
        (10, "Timeout"),
        (17, "Operating system blocked the request"),
        (20, "Insufficient memory"),
        (27, "Not ready"),
        (28, "NVML error 28"),
    ],
)
def test_a_card_that_cannot_be_opened(
    code: int, words: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    answer = fake_nvml.probe(
        THREE, [at(L40, 1), at(L40, 2, handle=f"!{code}"), at(L40, 3)], tmp_path
    )
    (finding,) = answer["findings"]
    assert finding["id"] == "gpu.nvml_failed"
    assert finding["subject"] == "GPU 1 (NVIDIA L40, 0000:02:00.0)"
    assert finding["evidence"][0]["value"] == f"GPU 1 (NVIDIA L40, 0000:02:00.0): {words}"
    gpu = answer["gpus"][1]
    assert (gpu["error"], gpu["lost"], gpu["granted"]) == (words, False, None)
    (gap,) = (gap for gap in answer["gaps"] if "0000:02:00.0" in gap["detail"])
    assert gap["reason"] == "failed"
    assert gap["detail"].startswith(f"nvml: {words} for 0000:02:00.0: memory bytes, ")


def test_a_card_whose_handle_is_denied_is_not_ours(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(THREE, [at(L40, 1), at(L40, 2, handle="!4"), at(L40, 3)], tmp_path)
    assert ids(answer) == {"gpu.not_granted": "info"}
    assert answer["gpus"][1]["granted"] is False


def test_an_older_driver_lacks_functions(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, clock_event_reasons=0x4)], tmp_path, old=True)
    (gpu,) = answer["gpus"]
    assert gpu["memory_bytes"] == 48305799168
    assert gpu["temperature_celsius"] == 61
    assert gpu["clocks_event_reasons"] == ["sw_power_cap"]


def test_a_refused_field_is_a_gap_and_the_rest_is_told(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, utilisation="!3", power_limit="!999")], tmp_path)
    (gpu,) = answer["gpus"]
    assert gpu["utilisation_share"] is None
    assert gpu["memory_bytes"] == 48305799168
    reasons = {gap["field"]: gap["reason"] for gap in answer["gaps"]}
    assert reasons["gpus.utilisation_share"] == "unsupported"
    assert reasons["gpus.power_limit_watts"] == "failed"


def test_refused_members_that_rules_judge_are_a_gap_a_reason(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    refused: Card = {
        "sram_threshold_exceeded": "!4", "retired_pending": "!4", "field 230": "!4",
        "field 91": "!3", "nvlink 0.state": "!4", "fabric_state": "!4",
        "serial": "!28", "ecc_uncorrected_aggregate": "!28", "compute_mode": "!3",
    }  # fmt: skip
    two = {**device("0000:01:00.0"), **device("0000:02:00.0")}
    answer = fake_nvml.probe(two, [at(BASE, 1), at(BASE, 2, **refused)], tmp_path)
    told = {gap["reason"]: gap for gap in answer["gaps"]}
    assert sorted(told) == ["denied", "failed"]
    assert len(answer["gaps"]) == 2
    assert told["denied"]["field"] == "gpus.sram_threshold_exceeded"
    assert told["denied"]["detail"] == (
        "nvml: Insufficient Permissions for 0000:02:00.0: sram threshold exceeded, retired pages "
        "pending, recovery action, nvlinks and fabric"
    )
    assert told["failed"]["detail"] == (
        "nvml: NVML error 28 for 0000:02:00.0: serial and ecc aggregate uncorrectable"
    )


def test_a_card_that_refuses_everything_is_no_flood(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    apart = ("bus_id", "device_id", "subsystem_id")
    refused = {key: "!4" for key in BASE if key not in apart}
    answer = fake_nvml.probe(ONE, [{**BASE, **refused}], tmp_path)
    assert {gap["reason"] for gap in answer["gaps"]} == {"denied"}
    (other,) = (gap for gap in answer["gaps"] if gap["field"].removeprefix("gpus.") not in JUDGED)
    assert other["detail"].startswith(
        "nvml: Insufficient Permissions for 0000:01:00.0: uuid, serial, "
    )
    assert other["detail"].endswith(" more")


@pytest.mark.parametrize(
    ("error", "id_", "state"),
    [
        (9, "gpu.driver_missing", "missing"),
        (18, "gpu.driver_mismatch", "mismatch"),
        (999, "gpu.nvml_failed", "failed"),
        (4, "gpu.device_denied", "failed"),
    ],
)
def test_a_driver_that_does_not_start(
    error: int, id_: str, state: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1)], tmp_path, init=f"!{error}")
    assert ids(answer) == {id_: "critical"}
    assert answer["gpu"]["state"] == state
    assert len(answer["gpus"]) == 1


def test_a_driver_that_hangs_is_told_in_time(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1)], tmp_path, init="hang")
    assert ids(answer) == {"gpu.unresponsive": "critical"}
    assert answer["elapsed_seconds"] < 20  # the deadline is 3 s; without one it would never end
    (finding,) = answer["findings"]
    assert finding["evidence"][0]["value"].startswith("NVML: no answer within 3 s")
    assert finding["evidence"][0]["value"].endswith("; it was asked to start")
    assert [gpu["pci_address"] for gpu in answer["gpus"]] == ["0000:01:00.0"]


def test_cards_read_before_a_hang_are_told(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [at(L40, 1), at(L40, 2, uuid="hang"), at(L40, 3)]
    answer = fake_nvml.probe(THREE, cards, tmp_path)
    assert ids(answer) == {"gpu.unresponsive": "critical"}
    (finding,) = answer["findings"]
    assert "nothing else of 2 cards could be checked" in finding["impact"]
    assert "it was asked for the UUID of card 1" in finding["evidence"][0]["value"]
    assert [gpu["seen_by"] for gpu in answer["gpus"]] == [["nvml", "pci"], ["pci"], ["pci"]]
    assert answer["gpus"][0]["temperature_celsius"] == 61
    assert ("gpus", "timeout") in [(gap["field"], gap["reason"]) for gap in answer["gaps"]]


def test_a_hang_without_a_card_of_ours_is_not_told(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    link: Tree = {
        "sys/devices/pci0000:00/0000:01:00.0/driver": Link("../../../bus/pci/drivers/vfio-pci"),
        "sys/bus/pci/drivers/vfio-pci/new_id": "",
    }
    answer = fake_nvml.probe({**ONE, **link}, [at(L40, 1)], tmp_path, init="hang")
    assert ids(answer) == {"gpu.not_granted": "info"}


def test_a_hang_without_any_card_is_a_gap(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe({"proc/cpuinfo": ""}, [at(L40, 1)], tmp_path, init="hang")
    assert ids(answer) == {}
    assert [(gap["field"], gap["reason"]) for gap in answer["gaps"]] == [("gpus", "timeout")]


def test_a_slowdown_that_only_flashes_is_not_counted(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    flash = at(L40, 1, clock_event_reasons="0x88,0x0")
    assert ids(fake_nvml.probe(ONE, [flash], tmp_path)) == {}


def test_a_slowdown_that_stays_is_counted(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = fake_nvml.probe(ONE, [at(L40, 1, clock_event_reasons="0x88,0x80")], tmp_path)
    assert ids(answer) == {"gpu.hw_power_brake_slowdown": "critical"}
    assert answer["gpus"][0]["clocks_event_reasons"] == ["hw_power_brake_slowdown"]


DESKTOP = at(IDLE_4090, 1, persistence=1)


@pytest.mark.parametrize(
    ("state", "utilisation", "found"),
    [
        (8, "55", {"gpu.pstate_stuck": "critical"}),
        (8, "55,0", {}),  # a job that just ended
        ("8,2", "55", {}),
        (8, "55,!3", {}),
    ],
)
def test_a_card_is_stuck_if_it_works_so_twice(
    state: str | int, utilisation: str, found: dict[str, str], fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    stuck = {**DESKTOP, "performance_state": state, "utilisation": utilisation}
    stuck = {**stuck, "clock_event_reasons": 0, "graphics_processes": "none"}
    answer = fake_nvml.probe(ONE, [stuck], tmp_path)
    told = {id_: severity for id_, severity in ids(answer).items() if id_ != "pcie.idle_downshift"}
    assert told == found


def test_a_new_superchip_is_known_by_its_driver(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    narrow: Card = {"link_generation": 1, "link_width": 1, "device_id": 0x2ABC10DE}
    new = at({**L40, **narrow, "name": "NVIDIA GX999"}, 1)
    tree = device("0000:01:00.0", now=("2.5 GT/s PCIe", "1"))
    for links, told in (("u32:0", False), ("u32:10", True)):
        answer = fake_nvml.probe(tree, [{**new, "field 170": links}], tmp_path / links)
        assert answer["gpus"][0]["chip_to_chip"] is told
        assert ("pcie.width_below_max" not in ids(answer)) is told


def test_without_a_sign_of_a_driver_nothing_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(devices_expected: int) -> nvml.Answer:
        raise AssertionError(devices_expected)

    def only_by_pci(host: Host, *, nvidia_on_pci: bool) -> bool:
        assert host.live
        return nvidia_on_pci

    monkeypatch.setattr(nvml, "query", refuse)
    monkeypatch.setattr(nvml, "worth_trying", only_by_pci)
    answer, gaps = probed(live_tree({"proc/cpuinfo": ""}, tmp_path / "node"))
    assert answer.gpu.state is None
    assert gaps == []


def test_the_file_of_a_card_that_nvml_could_not_open_is_not_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That it is there is enough: to open it starts a sick card once more."""

    def refuse(reader: Reader, path: str) -> None:
        raise AssertionError(reader.check, path)

    monkeypatch.setattr(granted, "_refusal", refuse)
    card = Gpu(pci_address="0000:01:00.0", vendor="nvidia", error="Timeout", seen_by=("nvml",))
    tree: Tree = {
        "dev/nvidia3": "",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Device Minor: \t 3\n",
    }
    (gpu,), denied = granted.with_files(Reader(plant(tree, tmp_path), "gpu"), (card,), False)
    assert (gpu.device_file, gpu.granted, denied) == (True, True, None)
