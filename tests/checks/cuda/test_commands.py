"""`nodecheck` and `nodecheck bench gpu` as commands, against fake NVIDIA libraries."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodecheck.model import Action, Reason, Severity
from nodecheck.report import Report
from tests.checks.cuda.commands import OURS, Node, node, run, wait_for_others
from tests.fake_cuda.build import fake_cuda, left
from tests.fake_nvml.build import fake_nvml

__all__ = ["fake_cuda", "fake_nvml", "node"]

SHORT = ("bench", "gpu", "--json", "--max-seconds", "3")
"""Time for the copies over the link of one card."""

CARD = "0000:01:00.0"


def rates(report: Report) -> dict[str, float]:
    """GB/s of the copies of a card alone, by name."""
    return {t.name: t.median_bytes_per_second / 1e9 for t in report.transfers if t.cards == 1}


def test_a_healthy_card_is_measured_and_all_is_given_back(node: Node) -> None:
    done = run(node.environment(), "bench", "gpu", "--json")
    assert done.status == 0, done.err
    report = done.report
    assert rates(report) == pytest.approx(
        {
            "host_to_device": 26.2,
            "device_to_host": 26.4,
            "host_to_device_pageable": 9,
            "device_to_host_pageable": 8,
        },
        rel=0.05,
    )
    assert {each.card for each in report.transfers} == {CARD}
    assert all(each.intact and each.flags == () for each in report.transfers)
    assert (report.facts.cuda.state, report.facts.cuda.devices) == ("ok", (CARD,))
    assert done.ids() == []
    assert left(node.place) == {}
    assert report.elapsed_seconds is not None
    assert report.elapsed_seconds < 15


def test_memory_of_a_card_is_measured_where_there_is_room_and_may_be_slow(node: Node) -> None:
    environment = node.environment(driver=[{"memory_total": 2 << 30}], cards=[{"device": 160}])
    done = run(environment, "bench", "gpu", "--json")
    assert rates(done.report)["device_copy"] == pytest.approx(320, rel=0.05)
    assert rates(done.report)["device_read"] == pytest.approx(780, rel=0.05)
    assert done.ids() == ["gpu.vram_slow"]


def test_a_slow_link_is_found_by_its_rate(node: Node) -> None:
    done = run(node.environment(cards=[{"h2d": 11}]), *SHORT)
    assert done.status == 0
    assert done.ids() == ["pcie.link_slow"]


def test_data_that_a_copy_changes_is_critical(node: Node) -> None:
    done = run(node.environment(cards=[{"corrupt": 3}]), *SHORT)
    assert done.ids() == ["gpu.data_corrupt"]


BUSY = [{"utilisation": 98}]


def test_a_busy_card_is_left_alone(node: Node) -> None:
    done = run(node.environment(driver=BUSY), *SHORT)
    assert (done.status, done.report.transfers) == (1, ())
    assert any("busy (98 %); --force" in gap.detail for gap in done.report.gaps)
    assert done.err == "Error: nothing was measured; the report says why\n"
    assert done.report.facts.cuda.state is None  # it was not even started


def test_a_busy_card_is_measured_by_force_and_never_blamed(node: Node) -> None:
    done = run(node.environment(driver=BUSY, cards=[{"h2d": 5}]), *SHORT, "--force")
    assert done.status == 0
    assert all("busy" in each.flags for each in done.report.transfers)
    assert done.ids() == []


def test_a_card_of_several_is_left_alone_the_others_are_measured(node: Node) -> None:
    environment = node.environment(driver=[*BUSY, {}], cards=[{}, {}])
    done = run(environment, *SHORT)
    assert done.status == 0
    assert {each.card for each in done.report.transfers} == {"0000:02:00.0"}


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        ({"compute_mode": 3}, "exclusive process"),
        ({"mig": 1}, "MIG is on"),
        ({"memory_used": 600 << 20}, "too little of its memory is free"),
    ],
)
def test_cards_that_cannot_be_measured_are_told(
    node: Node, driver: dict[str, int], why: str
) -> None:
    done = run(node.environment(driver=[driver]), *SHORT)
    assert (done.status, done.report.transfers) == (1, ())
    assert any(why in gap.detail for gap in done.report.gaps if gap.check == "cuda")
    assert done.ids() == []


def test_a_copy_that_fails_is_a_gap_and_the_others_are_measured(node: Node) -> None:
    done = run(node.environment(cards=[{"cuMemHostAlloc": "!2"}]), "bench", "gpu", "--json")
    assert set(rates(done.report)) == {"host_to_device_pageable", "device_to_host_pageable"}
    details = [gap.detail for gap in done.report.gaps if gap.check == "cuda"]
    assert any("to the card: CUDA_ERROR_OUT_OF_MEMORY" in detail for detail in details)
    assert done.ids() == []


def test_a_card_that_fails_as_data_is_read_back_keeps_its_rates_and_is_told(node: Node) -> None:
    done = run(node.environment(cards=[{"cuMemcpyDtoH_v2": "!214"}]), *SHORT)
    (to_card,) = [t for t in done.report.transfers if t.name == "host_to_device"]
    assert to_card.intact is None
    details = [gap.detail for gap in done.report.gaps if gap.check == "cuda"]
    assert any("to the card: CUDA_ERROR_ECC_UNCORRECTABLE" in detail for detail in details)
    assert done.ids() == ["gpu.cuda_unavailable"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("!214", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("!719", "CUDA_ERROR_LAUNCH_FAILED"),
        ("!999", "CUDA_ERROR_UNKNOWN"),
        ("crash", "the process died by SIGSEGV"),
    ],
)
def test_a_card_that_fails_its_copies_is_found(node: Node, fault: str, words: str) -> None:
    cards: list[dict[str, str | float]] = [{}, {"cuEventSynchronize": fault}]
    done = run(node.environment(driver=[{}, {}], cards=cards), *SHORT[:-1], "14")
    (finding,) = [f for f in done.report.findings if f.id in OURS]
    assert finding.severity is Severity.CRITICAL
    assert finding.subject.endswith("0000:02:00.0)")
    assert finding.summary == f"CUDA fails copies of GPU 1: {words}"
    assert "cuEventSynchronize" in finding.evidence[0].value
    assert finding.remedy.action is Action.RESET_GPU
    assert finding.remedy.commands[1].endswith("-i 0000:02:00.0")
    assert {t.card for t in done.report.transfers if t.cards == 1 and not t.peer} == {CARD}
    gaps = [gap for gap in done.report.gaps if gap.check == "cuda"]
    assert not [gap for gap in gaps if gap.reason is Reason.TIMEOUT or "child" in gap.detail]
    assert not [gap for gap in gaps if CARD in gap.detail and "SIGSEGV" in gap.detail]


def test_time_that_is_short_leaves_out_what_tells_least(node: Node) -> None:
    began = time.monotonic()
    done = run(node.environment(driver=[{}, {}], cards=[{}, {}]), *SHORT)
    assert time.monotonic() - began < 12
    assert set(rates(done.report)) >= {"host_to_device", "device_to_host"}
    assert any("no time was left" in gap.detail for gap in done.report.gaps)


def test_without_a_card_it_says_so_in_a_line(node: Node) -> None:
    environment = node.environment(driver=[], cards=[])
    for more in ((), ("--json",)):
        done = run(environment, "bench", "gpu", *more)
        assert (done.status, done.out) == (1, "")
        assert done.err == "Error: this machine has no NVIDIA GPU: nothing to measure\n"


def test_ctrl_c_ends_it_with_all_that_was_measured(node: Node) -> None:
    leader, follower = pty.openpty()
    environment = node.environment(driver=[{}] * 2, cards=[{}] * 2) | {"TERM": "xterm"}
    command = [sys.executable, "-m", "nodecheck", "bench", "gpu", "--json"]
    wait_for_others()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        told = b""
        while b"measuring GPU 2 of 2" not in told:
            told += os.read(leader, 4096)
        assert b" s left" in told
        time.sleep(1.3)  # its first step takes 0.9 s, its second as long
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=30)
        took = time.monotonic() - sent
    os.close(leader)
    report = json.loads(printed)
    assert process.returncode == 1
    assert [each["card"] for each in report["transfers"]] == [*[CARD] * 4, "0000:02:00.0"]
    assert report["facts"]["cuda"]["interrupted"]
    assert report["facts"]["cuda"]["warnings"][0].startswith("interrupted after")
    assert took < 5


# --- whether CUDA starts, in an ordinary report ---


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("!802", "the fabric between the cards"),
        ("!803", "different versions"),
        ("!804", "forward-compatibility"),
        ("!999", "CUDA does not start"),
        ("!3", "CUDA does not start"),
        ("!100", "CUDA does not start"),
        ("crash", "the driver refuses"),
    ],
)
def test_cuda_that_is_dead_beside_a_driver_that_is_well(
    node: Node, answer: str, words: str
) -> None:
    done = run(node.environment(cuInit=answer), "--json")
    assert done.ids() == ["gpu.cuda_unavailable"]
    (finding,) = [f for f in done.report.findings if f.id in OURS]
    assert words in finding.summary
    assert "0000:01:00.0" in finding.subject


def test_cuda_that_hangs_does_not_hold_the_report(node: Node) -> None:
    began = time.monotonic()
    done = run(node.environment(cuInit="hang"), "--json")
    assert time.monotonic() - began < 12
    assert done.report.facts.cuda.state == "unresponsive"
    assert done.report.facts.cuda.call == "cuInit"
    assert done.ids() == ["gpu.cuda_unavailable"]


def test_a_start_for_which_there_is_no_memory_is_a_warning(node: Node) -> None:
    done = run(node.environment(cuInit="!2"), "--json")
    assert done.report.facts.cuda.error == 2
    assert [(f.id, f.severity) for f in done.report.findings if f.id in OURS] == [
        ("gpu.cuda_unavailable", Severity.WARNING)
    ]


def test_a_child_that_is_killed_is_no_dead_cuda(node: Node) -> None:
    done = run(node.environment(cuInit="killed"), "--json")
    assert done.ids() == []
    assert any("SIGKILL" in gap.detail for gap in done.report.gaps if gap.check == "cuda")


def test_a_card_that_cuda_lacks_is_told(node: Node) -> None:
    done = run(node.environment(driver=[{}, {}], cards=[{}]), "--json")
    (finding,) = [f for f in done.report.findings if f.id in OURS]
    assert "0000:02:00.0" in finding.subject


def test_a_quick_look_wakes_no_card(node: Node) -> None:
    done = run(node.environment(cuInit="!802"), "--json", "--quick")
    assert done.report.facts.cuda.state is None
    assert done.ids() == []
    assert any(gap.check == "cuda" for gap in done.report.gaps)


def test_a_capture_gives_the_same_finding(node: Node, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    assert run(node.environment(cuInit="!803"), "capture", str(capture)).status == 0
    assert json.loads((capture / "cuda.json").read_text())["error"] == 803
    done = run(dict(os.environ), "--root", str(capture), "--json")
    assert done.ids() == ["gpu.cuda_unavailable"]
    assert not (capture / "measurements.json").exists()


def test_a_capture_that_is_to_start_nothing_wakes_no_card(node: Node, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    environment = node.environment(cuInit="!803")
    assert run(environment, "capture", str(capture), "--kernels", "never").status == 0
    assert (capture / "nvml.json").exists()
    assert not (capture / "cuda.json").exists()
