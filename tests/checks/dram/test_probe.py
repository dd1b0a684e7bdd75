"""Kernels run only where they may: not on a node that serves, and one nodecheck at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.checks.dram import measure
from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.checks.dram.probe import probe
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Facts
from nodecheck.machine import child, lock, native
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.live_tree import live_tree, while_sleeping
from tests.trees import Tree

RAN = DramProbe(facts=DramFacts(kernel="sse2"))


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RUN_LOCK", tmp_path)
    monkeypatch.setattr(measure, "run", lambda *_: RAN)


@pytest.fixture
def reader() -> Reader:
    return Reader(LiveHost(), "dram")


def test_always_runs_whatever_the_node_does(reader: Reader) -> None:
    seen = Facts(gpus=(Gpu(name="a card", utilisation_share=1.0),))
    assert probe(reader, seen, "always") == RAN


def test_never_runs_nothing(reader: Reader) -> None:
    assert probe(reader, Facts(), "never").facts.skipped == "not asked for (--quick)"
    assert [gap.reason for gap in reader.gaps] == [Reason.ABSENT]


def test_a_second_measurement_waits_for_none() -> None:
    def second() -> str:
        return probe(Reader(LiveHost(), "dram"), Facts(), "always").facts.skipped or "it ran"

    with lock.measuring() as first:
        assert first
        assert child.call(second, str, 20).value == "another nodecheck is measuring on this node"
    assert child.call(second, str, 20).value == "it ran"


@pytest.mark.parametrize(("share", "busy"), [(None, False), (0.49, False), (0.5, True)])
def test_a_busy_gpu_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float | None, busy: bool
) -> None:
    host = live_tree({"proc/stat": ""}, tmp_path / "node")
    while_sleeping(monkeypatch, "nodecheck.checks.dram.probe", tmp_path / "node", {})
    seen = Facts(gpus=(Gpu(name="a card", utilisation_share=share),))
    found = probe(Reader(host, "dram"), seen, "auto")
    assert found.facts.skipped == ("a card is busy (50 %)" if busy else None)


def stat(idle: int, busy: int) -> str:
    return f"cpu  0 0 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\nintr 5\n"


@pytest.mark.parametrize(("busy", "expected"), [(12, True), (8, False)])
def test_busy_cpus_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, expected: bool
) -> None:
    tree: Tree = {"proc/stat": stat(100, 100)}
    later: Tree = {"proc/stat": stat(120 - busy, 100 + busy)}
    host = live_tree(tree, tmp_path / "node")
    while_sleeping(monkeypatch, "nodecheck.checks.dram.probe", tmp_path / "node", later)
    skipped = probe(Reader(host, "dram"), Facts(), "auto").facts.skipped or ""
    assert ("CPUs are busy" in skipped) is expected


def test_a_missing_extension_is_a_gap(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise native.NativeUnavailable("the C extension cannot be loaded: no file")

    monkeypatch.setattr(measure, "run", missing)
    assert "C extension" in (probe(reader, Facts(), "always").facts.skipped or "")
    assert [gap.reason for gap in reader.gaps] == [Reason.UNSUPPORTED]
