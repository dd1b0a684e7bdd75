"""The fake library does as its descriptions say: what is tested with it rests on that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import A100_MIG, H200, L40, NODES, Card, at, node

__all__ = ["fake_nvml"]

ASKING = """
import json, sys, pynvml as p
said = []
def ask(name, *arguments):
    try:
        said.append(getattr(p, "nvml" + name)(*arguments))
    except p.NVMLError as error:
        said.append(f"!{error.value}")
ask("Init")
device = None if said[0] else p.nvmlDeviceGetHandleByIndex(0)
said.clear()
"""
LOST, UNKNOWN, UNINITIALIZED, NOT_SUPPORTED, NOT_FOUND = "!15", "!999", "!1", "!3", "!13"


def said(environment: dict[str, str], code: str, timeout: float = 30) -> list[object]:
    """What pynvml answers to the `ask` calls in `code`, after it was started (call 1, handle 2)."""
    script = f"{ASKING}{code}\njson.dump(said, sys.stdout)"
    done = subprocess.run(
        (sys.executable, "-c", script),
        env=environment,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[object] = json.loads(done.stdout)
    return answers


@pytest.mark.usefixtures("fake_nvml")
def test_a_command_runs_on_the_cards_of_a_file() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "tests.fake_nvml", *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    asked = "import pynvml as p, sys; p.nvmlInit(); sys.exit(p.nvmlDeviceGetCount())"
    assert run("eight_h200", "--", sys.executable, "-c", asked).returncode == 8
    refused = run("nine", "--", "true")
    assert refused.returncode == 2
    assert "eight_h200|" in refused.stderr


THRICE = 'for _ in range(3): ask("DeviceGetPcieReplayCounter", device)'


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        (9, [9, 9, 9]),
        ("9+2", [9, 11, 13]),
        ("1,0x10", [1, 16, 16]),
        ("1,!15,3+1", [1, LOST, 3]),
        ("!999", [UNKNOWN] * 3),
        (None, [NOT_SUPPORTED] * 3),
    ],
)
def test_a_value_and_what_becomes_of_it(
    value: str | int | None, answers: list[object], fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    card = at(L40, 1, pcie_replays=value)
    assert said(fake_nvml.environment([card], tmp_path), THRICE) == answers


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ("lost 4", [9, LOST, LOST]),
        ("unknown 5", [9, 9, UNKNOWN]),
        ("uninitialized 3", [UNINITIALIZED] * 3),
        ("!17 4", [9, "!17", "!17"]),
    ],
)
def test_a_fault_strikes_from_its_call_on(
    fault: str, answers: list[object], fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    assert said(fake_nvml.environment([L40], tmp_path, fault=fault), THRICE) == answers


def test_a_fault_of_one_card(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [at(L40, 1), at(L40, 2, fault="lost 2")]
    other = "other = p.nvmlDeviceGetHandleByIndex(1)\n"
    both = 'for each in (device, other): ask("DeviceGetMinorNumber", each)'
    assert said(fake_nvml.environment(cards, tmp_path), other + both) == [0, LOST]


def test_the_library_as_a_whole_may_fail_to_start(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    environment = fake_nvml.environment([L40], tmp_path, fault="version_mismatch")
    assert said(environment, 'ask("SystemGetDriverVersion")') == [UNINITIALIZED]


@pytest.mark.parametrize(("fault", "calls"), [("hang/3", 3), ("hang 5", 5)])
def test_it_hangs_in_the_call_that_it_should(
    fault: str, calls: int, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    environment = fake_nvml.environment([L40], tmp_path, fault=fault)
    with pytest.raises(subprocess.TimeoutExpired):
        said(environment, THRICE, timeout=3)
    assert len((tmp_path / "calls.txt").read_text().splitlines()) == calls


def test_it_may_be_slow(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    timed = f"import time; start = time.monotonic()\n{THRICE}\n"
    code = timed + "said.append(time.monotonic() - start)"
    *_, seconds = said(fake_nvml.environment([L40], tmp_path, fault="slow 0.1"), code)
    assert isinstance(seconds, float)
    assert seconds >= 0.3


def test_functions_may_be_missing(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    both = (
        'ask("DeviceGetPerformanceState", device); ask("DeviceGetMarginTemperature", device);'
        'ask("DeviceGetPowerManagementLimitConstraints", device)'
    )
    names = ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerManagementLimitConstraints")
    missing = {f"missing {name}": "" for name in names}
    answers = said(fake_nvml.describing([L40], missing, tmp_path), both)
    assert answers == [NOT_FOUND, 26, NOT_FOUND]
    older = said(fake_nvml.environment([L40], tmp_path, old=True), both)
    assert older == [0, NOT_FOUND, [100_000, 300_000]]


def test_fields_say_what_functions_say(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    code = (
        "asked = [94, (164, 17), 193, 186, (164, 18), 999]\n"
        "for value in p.nvmlDeviceGetFieldValues(device, asked):\n"
        "    bad = value.nvmlReturn\n"
        "    said.append(f'!{bad}' if bad else [value.valueType, value.value.siVal])"
    )
    answers = said(fake_nvml.environment([{**H200, "field 164.17": 0}], tmp_path), code)
    assert answers == [[3, 9], [1, 0], [5, -8], [1, 76500], NOT_SUPPORTED, "!2"]


def test_mig_devices_and_what_their_card_refuses(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    code = (
        "for index in range(4):\n"
        '    ask("DeviceGetMigDeviceHandleByIndex", device, index)\n'
        "    mig = said.pop()\n"
        '    ask("DeviceGetName", mig) if not isinstance(mig, str) else said.append(mig)\n'
        'ask("DeviceGetRemappedRows", device); ask("DeviceGetUtilizationRates", device)'
    )
    names = [str(A100_MIG[f"mig {position}.name"]) for position in range(3)]
    answers = said(fake_nvml.environment([A100_MIG], tmp_path), code)
    assert answers == [*names, "!6", NOT_SUPPORTED, NOT_SUPPORTED]


@pytest.mark.parametrize("name", sorted(file.stem for file in NODES.glob("*.txt")))
def test_a_nodes_figures_agree(name: str) -> None:
    cards, system = node(name)
    assert str(system["nvml_version"]).partition(".")[2] == system["driver_version"]
    for key in ("bus_id", "uuid", "minor"):
        assert len({card.get(key) for card in cards}) == len(cards)
    for card in cards:
        for key, most in (("memory_clock", "memory_clock_max"), ("sm_clock", "sm_clock_max"),
                          ("link_width", "link_width_max"), ("power", "power_limit"),
                          ("link_generation", "link_generation_max"),
                          ("bar1_used", "bar1_total")):  # fmt: skip
            assert _number(card, key) <= _number(card, most), key
        held = _number(card, "memory_used") + _number(card, "memory_reserved")
        assert held <= _number(card, "memory_total")
        turing_or_ampere = str(card["compute_capability"]) in ("7.5", "8.0", "8.6")
        assert ("threshold 1" in card) == turing_or_ampere
        assert "field 194" not in card or not turing_or_ampere
        assert ("retired_single" in card) == (card["compute_capability"] == "7.5")


def _number(card: Card, key: str) -> int:
    """0 where the card does not tell, for a maximum the largest."""
    return int(str(card.get(key, 1 << 62 if key.endswith(("max", "limit", "total")) else 0)), 0)
