"""How NVML is asked: how often, how fast, and what comes of it where the way ends before."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.checks.gpu.nvml_rows import BASE, SYSTEM
from tests.checks.gpu.queried import queried
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import DRIVER, L40, NODES, Card, at, description

__all__ = ["fake_nvml"]

NODE_NAMES = sorted(file.stem for file in NODES.glob("*.txt"))
TIMED = """
import time
import pynvml
from nodecheck.machine import nvml
from nodecheck.machine.nvml_asking import Notes
pynvml.nvmlInit()
seconds = []
for _ in range(5):
    started = time.perf_counter()
    answer = nvml._collect(Notes())
    seconds.append(time.perf_counter() - started)
assert len(answer.devices) == 8
assert all(len(device.links) == 18 for device in answer.devices)
print(min(seconds))
"""


def calls(place: Path, number: int = 0) -> list[str]:
    """The library's log of the query of that number, without the first step of two-step calls."""
    lines = (place / f"{number}.log").read_text().splitlines()
    return [line for line in lines if not line.endswith(" size")]


def on_card(place: Path, index: int) -> int:
    """How often that card was asked; a call for many fields is one."""
    words = [line.split() for line in calls(place)]
    of_it = [
        w[0] for w in words if len(w) > 1 and w[0].startswith("nvmlDevice") and w[1] == str(index)
    ]
    fields = of_it.count("nvmlDeviceGetFieldValues")
    return len(of_it) - fields + min(fields, 1)


@pytest.mark.parametrize("name", NODE_NAMES)
def test_nothing_is_asked_twice(name: str, fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (answer,) = queried(fake_nvml, tmp_path, [(NODES / f"{name}.txt").read_text()])
    assert answer["gpu"]["state"] == "ok"
    twice = {call for call, times in Counter(calls(tmp_path)).items() if times > 1}
    for gpu in answer["gpus"]:
        number = gpu["index"]
        if "sw_power_cap" in gpu["clocks_event_reasons"]:  # the second sample
            handle = f"nvmlDeviceGetHandleByIndex_v2 {number}"
            twice -= {handle, f"nvmlDeviceGetCurrentClocksEventReasons {number}"}
    assert twice == set()


def test_counters_that_rise_are_read_once(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    rising = {"pcie_replays": "9+2", "ecc_corrected": "1+1", "field 74": "1000000000+5000000000"}
    (answer,) = queried(fake_nvml, tmp_path, [description([{**BASE, **rising}], **SYSTEM)])
    (gpu,) = answer["gpus"]
    assert gpu["pcie_replays"] == 9
    assert gpu["ecc_volatile_correctable"] == 1
    assert gpu["clock_event_seconds"]["sw_power_cap"] == 1.0


def test_eight_cards_are_read_in_50_ms(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    described = str(NODES / "eight_h200.txt")
    environment = {**fake_nvml.environment([], tmp_path), "FAKE_NVML": described}
    environment.pop("FAKE_NVML_LOG")  # a write a call would be timed too
    done = subprocess.run(
        (sys.executable, "-c", TIMED), env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert float(done.stdout) < 0.05


def test_traffic_is_measured_on_cards_that_work(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    idle, unknown = {**BASE, "utilisation": 0}, {**BASE, "utilisation": "!3"}
    (answer,) = queried(fake_nvml, tmp_path, [description([BASE, idle, unknown], **SYSTEM)])
    told = [gpu["pcie_sent_bytes_per_second"] for gpu in answer["gpus"]]
    assert told == [5.2e6, None, None]
    throughput = [line for line in calls(tmp_path) if "PcieThroughput" in line]
    assert throughput == ["nvmlDeviceGetPcieThroughput 0 0", "nvmlDeviceGetPcieThroughput 0 1"]
    assert "pcie_sent_bytes_per_second" not in answer["refusals"][0]


@pytest.mark.parametrize(
    ("driver", "asked"),
    [
        ("580.65.06", False),
        ("575.57.08", False),
        ("580.82.07", True),
        ("581.15", True),
        ("610.43.02", True),
        ("!3", False),
        ("R610-rc", False),
    ],
)
def test_renumbered_fields_are_read_where_their_meaning_is_known(
    driver: str, asked: bool, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    text = description([BASE], **{**SYSTEM, "driver_version": driver})
    (answer,) = queried(fake_nvml, tmp_path, [text])
    times = answer["gpus"][0]["clock_event_seconds"]
    assert ("hw_power_brake_slowdown" in times) is asked
    assert times["sw_power_cap"] == 3.3
    fields = [line for line in calls(tmp_path) if "FieldValues" in line]
    assert any(line.endswith(" 269.0") for line in fields) is asked


def test_nvlinks_without_a_count(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """They are asked one by one; only "no such link" ends the list."""
    counted_by_asking = {**BASE, "field 91": "!3"}
    none = {key: value for key, value in BASE.items() if not key.startswith("nvlink")}
    every = description([counted_by_asking, none], **SYSTEM)
    lacking = description([none], **SYSTEM, **{"missing nvmlDeviceGetNvLinkState": 1})
    broken = description([{**counted_by_asking, "nvlink 1.state": "!999"}], **SYSTEM)
    answers = queried(fake_nvml, tmp_path, [every, lacking, broken])
    told, without = answers[0]["gpus"]
    assert [link["link"] for link in told["nvlinks"]] == [0, 1]
    assert without["nvlinks"] == []
    assert answers[1]["gpus"][0]["nvlinks"] is None
    assert answers[1]["refusals"][0]["nvlinks"] == ["unsupported", "Not Supported"]
    assert answers[2]["gpus"][0]["nvlinks"] is None
    assert answers[2]["refusals"][0]["nvlinks"] == ["failed", "Unknown Error"]


def test_nvlinks_of_which_some_are_not_active(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Their counters are told, since a link may be down by them; a far end they have not."""
    card = {**BASE, "nvlink 0.state": 0, "field 214.0": 2}
    (answer,) = queried(fake_nvml, tmp_path, [description([card], **SYSTEM)])
    down, up = answer["gpus"][0]["nvlinks"]
    assert (down["active"], down["fatal_errors"], down["remote"]) == (False, 2, None)
    assert (up["active"], up["fatal_errors"], up["remote"]) == (True, 0, "switch")
    assert not [line for line in calls(tmp_path) if "Remote" in line and line.endswith(" 0 0")]


def test_nvlinks_of_older_and_newer_cards(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Before field values there were functions; Blackwell counts recoveries alone."""
    counts = {"nvlink *.crc_flit": 3, "nvlink *.crc_data": 4, "nvlink *.replay": 5}
    refused = {f"field {number}": "!3" for number in (161, 162, 163, 214)}
    blackwell = {**BASE, **refused, "nvlink *.speed": 53125, "field 214": 0, "field 215": 6}
    texts = [
        description([{**BASE, **counts, **refused}], **SYSTEM),
        description([blackwell], **SYSTEM),
    ]
    older, newer = (
        answer["gpus"][0]["nvlinks"][0] for answer in queried(fake_nvml, tmp_path, texts)
    )
    errors = ("crc_errors", "replay_errors", "recovery_errors", "fatal_errors")
    assert [older[name] for name in errors] == [7, 5, 0, None]
    assert [newer[name] for name in errors] == [None, None, 6, 0]
    assert not [line for line in calls(tmp_path, 1) if "NvLinkErrorCounter" in line]


def test_a_driver_of_before(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Older functions tell the same; what none of them tells is not known."""
    texts = [description([BASE], **{**SYSTEM, **DRIVER})]
    (new,) = queried(fake_nvml, tmp_path, texts)[0]["gpus"]
    (old,) = queried(fake_nvml, tmp_path, texts, old=True)[0]["gpus"]
    changed = {member for member in new if new[member] != old[member]}
    assert changed == {"thermal", "sram_threshold_exceeded", "remap_banks", "recovery_action",
                       "nvlinks"}  # fmt: skip
    assert old["thermal"]["slowdown_celsius"] == 92
    assert old["thermal"]["slowdown_margin_celsius"] is None
    assert [link["fatal_errors"] for link in old["nvlinks"]] == [None, None]


def test_a_card_lost_from_any_call_on(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """It is asked no more, and what it told before is kept; the others are told in full."""
    (whole,) = queried(fake_nvml, tmp_path, [description([BASE], **SYSTEM)])[0]["gpus"]
    count = on_card(tmp_path, 0)
    (tmp_path / "0.log").unlink()
    assert 50 < count < 90
    cards: list[Card] = [{**BASE, "fault": f"lost {number}"} for number in range(1, count)]
    (answer,) = queried(fake_nvml, tmp_path, [description([*cards, BASE], **SYSTEM)])
    assert answer["gpu"]["state"] == "ok"
    *gone, last = answer["gpus"]
    assert {**last, "index": 0} == whole
    for number, gpu in enumerate(gone, start=1):
        assert gpu["lost"] is True, number
        assert gpu["error"] is None, number
        assert on_card(tmp_path, gpu["index"]) <= number, number
    assert gone[0]["name"] is None
    assert gone[10]["name"] == "NVIDIA H200"


KEYS = ("handle", "serial", "memory_total", "field 82", "nvlink 1.state", "fabric_state")


def test_errors_that_tell_of_the_card(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Whichever call they come from; without a handle, an unknown error is a lost card too."""
    faults = {
        "!8": "Insufficient External Power",
        "!11": "Interrupt Request Issue",
        "!14": "Corrupted infoROM",
        "!15": None,
        "!16": "GPU requires reset",
        "!999": None,
    }
    cases = [(key, error) for key in KEYS for error in faults]
    cards: list[Card] = [{**BASE, key: error} for key, error in cases]
    (answer,) = queried(fake_nvml, tmp_path, [description(cards, **SYSTEM)])
    for (key, error), gpu in zip(cases, answer["gpus"], strict=True):
        assert gpu["lost"] is (error == "!15" or (key, error) == ("handle", "!999")), (key, error)
        named = error == "!15" or key != "nvlink 1.state"
        assert gpu["error"] == (faults[error] if named else None), (key, error)


@pytest.mark.parametrize(
    ("fault", "state", "words"),
    [
        ("uninitialized", "failed", "NVML: Uninitialized"),
        ("version_mismatch", "mismatch", "NVML: RM has detected an NVML/RM version mismatch."),
        ("!9", "missing", "NVML: Driver Not Loaded"),
    ],
)
def test_a_driver_that_goes_in_the_middle(
    fault: str, state: str, words: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    """An error of the driver as a whole is no card's; what was read before it is kept."""
    numbers = (1, 2, 8, 9, 60, 120)
    texts = [
        description([BASE, {**BASE, "uuid": "GPU-2"}], **SYSTEM, fault=f"{fault} {number}")
        for number in numbers
    ]
    answers = queried(fake_nvml, tmp_path, texts)
    assert [answer["gpu"]["state"] for answer in answers] == [state] * len(numbers)
    assert [len(answer["gpus"]) for answer in answers] == [0, 0, 0, 0, 0, 1]
    assert answers[0]["gpu"]["message"].startswith("Failed to initialize NVML: ")
    assert answers[-1]["gpu"]["message"].startswith(f"{words}; it was asked for the ")
    assert answers[-1]["gpu"]["message"].endswith(" of card 1")
    last = calls(tmp_path, len(numbers) - 1)
    assert len([line for line in last if "FieldValues" not in line]) < 120


def test_a_driver_that_goes_before_the_second_sample(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """It is no answer of a driver that works, and a slowdown seen once is not told."""
    card = {**BASE, "clock_event_reasons": "0x80,!9"}
    (answer,) = queried(fake_nvml, tmp_path, [description([card], **SYSTEM)])
    assert answer["gpu"]["state"] == "missing"
    assert answer["gpu"]["message"].endswith("; it was asked for the clock event reasons of card 0")
    assert [gpu["clocks_event_reasons"] for gpu in answer["gpus"]] == [None]
    assert answer["gpus"][0]["name"] == BASE["name"]


def test_a_library_tells_its_version_without_a_driver(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (answer,) = queried(fake_nvml, tmp_path, [description([BASE], **SYSTEM, init="!18")])
    assert answer["gpu"]["state"] == "mismatch"
    assert answer["gpu"]["library_version"] == "580.95.05"
    assert answer["gpu"]["driver_version"] is None


def test_a_crash_is_told_with_what_it_was_asked(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [BASE, {**BASE, "serial": "crash"}]
    (answer,) = queried(fake_nvml, tmp_path, [description(cards, **SYSTEM)])
    assert answer["gpu"]["state"] == "failed"
    assert answer["gpu"]["message"] == (
        "NVML: the child that asked it died by SIGABRT; "
        "it was asked for the serial number of card 1"
    )
    assert len(answer["gpus"]) == 1


def test_a_slowdown_seen_once_before_a_hang_is_not_told(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    """There was no second sample, so that nothing is known of it."""
    slow, well = at(L40, 1, clock_event_reasons="0x80"), at(L40, 2, clock_event_reasons="0x4,0x4")
    other = at(L40, 3, clock_event_reasons="0x1")
    cards = [slow, well, other, at(L40, 4, serial="hang")]
    (answer,) = queried(fake_nvml, tmp_path, [description(cards)], hang_seconds=2)
    assert [gpu["clocks_event_reasons"] for gpu in answer["gpus"]] == [None, None, ["gpu_idle"]]
    assert answer["gpus"][0]["memory_bytes"] == 48305799168
