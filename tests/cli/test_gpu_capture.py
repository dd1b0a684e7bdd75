"""A capture of a node with GPUs gives what the live node gave; and how NVML is asked meanwhile."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodecheck.diagnose import rules
from nodecheck.report import Report
from tests.cli.live_node import nodecheck, on_pci, told
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import NODES, Card, node
from tests.trees import plant

__all__ = ["fake_nvml"]

NAMES = sorted(file.stem for file in NODES.glob("*.txt"))
OURS = ("gpu", "pcie", "cuda")
NVML_CPU_SECONDS = 0.050

FAULTS: dict[str, tuple[str, dict[str, str | int], dict[str, str | int], str]] = {
    "lost": ("three_l40", {"handle": "!15"}, {}, "gpu.lost"),
    "lost later": ("three_l40", {"fault": "lost 12"}, {}, "gpu.lost"),
    "power brake": ("three_l40", {"clock_event_reasons": 0x80}, {}, "gpu.hw_power_brake_slowdown"),
    "remap pending": ("eight_h200", {"remap_pending": 1}, {}, "gpu.remap_pending"),
    "x4": ("eight_h200", {"link_width": 4}, {}, "pcie.width_below_max"),
    "mismatch": ("three_l40", {}, {"fault": "version_mismatch"}, "gpu.driver_mismatch"),
    "ECC": ("eight_h200", {"ecc_uncorrected": 3}, {}, "gpu.ecc_uncorrectable"),
    "NVLink down": ("eight_h200", {"nvlink 7.state": 0}, {}, "gpu.nvlink_down"),
    "fabric": ("eight_h200", {"fabric_state": 2}, {}, "gpu.fabric_not_ready"),
    "hang": ("pro_6000", {}, {"fault": "hang 30"}, "gpu.unresponsive"),
}
"""A node, what its last card answers instead, what its system answers, and what is found."""


@pytest.fixture(scope="module")
def waiver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy under which the findings of other subjects, which come and go, count for nothing."""
    others = [rule.id for rule in rules() if rule.id.partition(".")[0] not in OURS]
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    file.write_text(
        "".join(f'[[waivers]]\nid = "{id_}"\nreason = "not tested here"\n' for id_ in others)
    )
    return str(file)


def found(report: Report) -> list[tuple[str, str, str | None]]:
    return sorted(
        (finding.id, finding.severity.value, str(finding.subject))
        for finding in report.findings
        if finding.id.partition(".")[0] in OURS
    )


def both(
    environment: dict[str, str], cards: list[Card], waiver: str, place: Path
) -> tuple[Report, Report]:
    """The live report, and the report of a capture."""
    plant(on_pci(cards), place / "node")
    captured = str(place / "captured")
    with ThreadPoolExecutor() as pool:
        capture = pool.submit(told, environment, "capture", captured, node=place / "node")
        live = nodecheck(environment, "--quick", "--policy", waiver, node=place / "node")
        capture.result()
    elsewhere = {k: v for k, v in environment.items() if not k.startswith(("LD_", "FAKE_"))}
    return live, nodecheck(elsewhere, "--root", captured, "--policy", waiver)


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_tells_what_the_live_node_tells(
    name: str, fake_nvml: FakeNvml, waiver: str, tmp_path: Path
) -> None:
    cards, system = node(name)
    live, again = both(fake_nvml.describing(cards, system, tmp_path), cards, waiver, tmp_path)
    assert len(live.facts.gpus) == len(cards)
    assert {gpu.seen_by for gpu in live.facts.gpus} == {("nvml", "pci")}
    assert found(again) == found(live)
    assert again.verdict.status == live.verdict.status
    assert again.verdict.headline == live.verdict.headline
    assert {finding.severity.value for finding in live.findings if finding.id[:3] == "gpu"} <= {
        "info"
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_capture_tells_of_a_fault(
    fault: str, fake_nvml: FakeNvml, waiver: str, tmp_path: Path
) -> None:
    name, changes, changed_system, id_ = FAULTS[fault]
    cards, system = node(name)
    cards[-1] = {**cards[-1], **changes}
    environment = fake_nvml.describing(cards, {**system, **changed_system}, tmp_path)
    live, again = both(environment, cards, waiver, tmp_path)
    assert id_ in {each[0] for each in found(live)}
    assert found(again) == found(live)
    assert again.verdict.status == live.verdict.status
    assert again.verdict.headline == live.verdict.headline


def test_a_capture_tells_of_a_driver_where_no_card_is_seen(
    fake_nvml: FakeNvml, waiver: str, tmp_path: Path
) -> None:
    environment = fake_nvml.environment([], tmp_path, fault="version_mismatch")
    captured = str(tmp_path / "captured")
    told(environment, "capture", captured)
    live = nodecheck(environment, "--quick", "--policy", waiver)
    again = nodecheck(environment, "--root", captured, "--policy", waiver)
    assert ("gpu.driver_mismatch", "critical") in {each[:2] for each in found(live)}
    assert found(again) == found(live)


@pytest.mark.parametrize("keeps", [False, True])
def test_identities_are_kept_only_when_asked(
    keeps: bool, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    cards, system = node("a100_mig")
    environment = fake_nvml.describing(cards, system, tmp_path)
    place = tmp_path / "captured"
    told(environment, "capture", str(place), *(["--keep-identities"] if keeps else []))
    held = "".join(f.read_text(errors="replace") for f in place.rglob("*") if f.is_file())
    known = {str(cards[0][key]).rpartition("GPU-")[2] for key in ("uuid", "serial")}
    assert {each for each in known if each in held} == (known if keeps else set())
    (gpu,) = json.loads((place / "nvml.json").read_text())["gpus"]
    assert gpu["name"] == "NVIDIA A100 80GB PCIe"
    assert ("uuid" in gpu) == keeps


def test_no_field_is_asked_twice(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards, system = node("eight_h200")
    nodecheck(fake_nvml.describing(cards, system, tmp_path), "--quick")
    calls = Counter((tmp_path / "calls.txt").read_text().splitlines())
    assert calls["nvmlInitWithFlags 0"] == 1
    assert calls["nvmlDeviceGetHandleByIndex_v2 7"] == 1
    assert {call: times for call, times in calls.items() if times > 1} == {}


def test_a_bad_clock_event_reason_alone_is_asked_again(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards, system = node("eight_h200")
    cards[3] = {**cards[3], "clock_event_reasons": 0x80}
    nodecheck(fake_nvml.describing(cards, system, tmp_path), "--quick")
    calls = Counter((tmp_path / "calls.txt").read_text().splitlines())
    assert {call for call, times in calls.items() if times > 1} <= {
        "nvmlDeviceGetHandleByIndex_v2 3",
        "nvmlDeviceGetCurrentClocksEventReasons 3",
    }
    assert calls["nvmlDeviceGetCurrentClocksEventReasons 3"] == 2


def test_eight_cards_cost_next_to_no_work(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards, system = node("eight_h200")
    environment = fake_nvml.describing(cards, system, tmp_path)
    del environment["FAKE_NVML_LOG"]
    script = (
        "import time, pynvml; from nodecheck.machine import child, nvml\n"
        "real = pynvml.nvmlInit; begun = []\n"
        "def init(): real(); begun.append(time.process_time())\n"
        "pynvml.nvmlInit = init\n"
        "child.call = lambda work, *_: child.Outcome(value=work())\n"
        "answer = nvml.query(8)\n"
        "print(time.process_time() - begun[0], len(answer.devices))"
    )
    took = []
    for _ in range(5):
        done = subprocess.run(
            (sys.executable, "-c", script), env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        seconds, count = done.stdout.split()
        assert int(count) == 8
        took.append(float(seconds))
    assert statistics.median(took) < NVML_CPU_SECONDS, took
