"""Probes run apart: one that fails, hangs or lies costs its own facts and nobody else's."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck import checks
from nodecheck.checks import cpu, disk
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.gpu.facts import GpuFacts, GpuProbe
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Status
from nodecheck.policy import Policy
from nodecheck.units import GIB
from tests.checks.gpu.judging import CARD
from tests.hosts import HEALTHY, THREE_L40
from tests.trees import Tree, plant

FAULTY = replace(CARD, index=1, pci_address="0000:02:00.0", remap_failure=True)


def hang(_: Reader) -> CpuFacts:
    time.sleep(60)
    return CpuFacts()


def crash(_: Reader) -> CpuFacts:
    os.kill(os.getpid(), signal.SIGSEGV)
    return CpuFacts()


def fail(_: Reader) -> CpuFacts:
    raise RuntimeError("no luck\nat all")


def lie(_: Reader) -> CpuFacts:
    return CpuFacts(arch="x86_64", logical_cpus=2**60)


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        (hang, Reason.TIMEOUT, "no answer within 1 s"),
        (crash, Reason.FAILED, "SIGSEGV"),
        (fail, Reason.FAILED, "RuntimeError: no luck"),
        (lie, Reason.FAILED, "logical_cpus is"),
    ],
)
def test_a_probe_that_goes_wrong_is_named_and_all_else_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fault: Callable[[Reader], CpuFacts],
    reason: Reason,
    words: str,
) -> None:
    from nodecheck.checks.cpu import probe

    monkeypatch.setattr(probe, "probe", fault)
    monkeypatch.setattr(cpu, "DEADLINE_SECONDS", 1.0)
    began = time.monotonic()
    report = diagnose(collect(plant(HEALTHY, tmp_path / "node")), Policy())
    assert time.monotonic() - began < 1.0 + 1.0 + 4.0 * disk.DEADLINE_SECONDS
    (gap,) = [gap for gap in report.gaps if gap.check == "cpu" and gap.field == "*"]
    assert gap.reason is reason
    assert words in gap.detail
    assert report.verdict.status is Status.UNKNOWN
    assert any(words in line for line in report.verdict.not_checked)
    assert report.facts.memory.total_bytes
    assert report.facts.disk.filesystems
    assert report.facts.gpus


def test_an_absurd_number_of_one_card_hides_no_fault_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nodecheck.checks.gpu import probe

    def lying(_: Reader) -> GpuProbe:
        first = replace(CARD, memory_used_bytes=2**64 - 4096)
        return GpuProbe(gpu=GpuFacts(state="ok", source="nvml"), gpus=(first, FAULTY))

    monkeypatch.setattr(probe, "probe", lying)
    report = diagnose(collect(plant(HEALTHY, tmp_path / "node")), Policy())
    assert "gpu.remap_failure" in [finding.id for finding in report.findings]
    assert report.facts.gpus == (replace(CARD, memory_used_bytes=None), FAULTY)
    (gap,) = [gap for gap in report.gaps if gap.field == "gpus.memory_used_bytes"]
    assert gap.reason is Reason.FAILED
    assert "0000:01:00.0" in gap.detail


def test_every_check_says_what_it_is_and_how_long_it_may_take() -> None:
    import importlib

    for name in checks.CHECKS:
        check = importlib.import_module(f"nodecheck.checks.{name}")
        assert check.__doc__
        assert check.DEADLINE_SECONDS > 0


def test_a_capture_may_name_the_model_that_it_was_taken_for(tmp_path: Path) -> None:
    tree: Tree = {**THREE_L40, "measurements.json": f'{{"model_bytes": {200 * GIB}}}'}
    report = diagnose(collect(plant(tree, tmp_path / "node")), Policy())
    assert {f.id for f in report.findings} >= {"mem.insufficient", "disk.headroom"}
    without = diagnose(collect(plant(THREE_L40, tmp_path / "other")), Policy())
    assert not {f.id for f in without.findings} & {"mem.insufficient", "disk.headroom"}


@pytest.mark.parametrize("size", ["-1", '"big"', "1e300", "true", "[]"])
def test_a_captured_model_without_a_size_is_none(tmp_path: Path, size: str) -> None:
    tree: Tree = {**THREE_L40, "measurements.json": f'{{"model_bytes": {size}}}'}
    report = collect(plant(tree, tmp_path / "node"))
    assert report.workload is None
    assert any(gap.field == "model_bytes" for gap in report.gaps)
