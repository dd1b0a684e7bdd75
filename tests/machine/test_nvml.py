"""NVML's child: its deadline, the memory of a hang, and the errors that it keeps."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.machine import child, nvidia_driver, nvml, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.nvml_asking import Notes
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))


def test_a_child_that_cannot_be_killed_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []

    def hang(work: object, answer_type: object, deadline_seconds: float) -> Outcome[nvml.Answer]:
        del work, answer_type
        calls.append(deadline_seconds)
        return Outcome(error="no answer", hung=True, stuck_pid=sleeper)

    sleeper = os.fork()
    if sleeper == 0:
        signal.pause()
        os._exit(0)
    try:
        monkeypatch.setattr(child, "call", hang)
        assert nvml.query(1).hung
        again = nvml.query(1)
        assert again.hung
        assert str(sleeper) in (again.message or "")
        assert len(calls) == 1
    finally:
        os.kill(sleeper, signal.SIGKILL)
        os.waitpid(sleeper, 0)
    assert stuck.stuck_pid(nvml.STUCK_MARKER) is None
    nvml.query(1)
    assert len(calls) == 2


def test_a_child_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(notes: Notes) -> None:
        notes.asking("for the temperature of card 2")
        os.kill(os.getpid(), signal.SIGSEGV)

    monkeypatch.setattr(nvml, "_collect", die)
    answer = nvml.query(1)
    assert answer.error == nvml.CHILD_DIED
    assert "SIGSEGV" in (answer.message or "")
    assert answer.asked == "for the temperature of card 2"


def test_notes_cross_to_the_parent() -> None:
    notes = Notes()
    assert (notes.asked(), notes.kept()) == (None, [])
    pid = os.fork()
    if pid == 0:
        notes.asking("for a field with a long name")
        notes.keep(b"first")
        notes.keep(b"second")
        notes.asking("to stop")
        os._exit(0)
    os.waitpid(pid, 0)
    assert notes.asked() == "to stop"
    assert notes.kept() == [b"first", b"second"]


def test_notes_have_an_end() -> None:
    """What does not fit is dropped, and what was there stays."""
    notes = Notes()
    notes.asking("x" * 1000)
    notes.keep(b"first")
    notes.keep(b"x" * (2 << 20))
    notes.keep(b"last")
    assert notes.asked() == "x" * 128
    assert notes.kept() == [b"first", b"last"]


def test_notes_hold_no_descriptor() -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    notes = Notes()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert notes.asked() is None


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.query(1).error == nvml.BINDING_MISSING


def test_signs_of_a_driver(monkeypatch: pytest.MonkeyPatch, node: Node, tmp_path: Path) -> None:
    monkeypatch.setattr(nvidia_driver, "_LIBRARY_DIRECTORIES", ())
    monkeypatch.setattr(nvidia_driver, "CONTROL_DEVICE", str(tmp_path / "nvidiactl"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    host = node({"proc/cpuinfo": ""})
    assert not nvml.worth_trying(host, nvidia_on_pci=False)
    assert nvml.worth_trying(host, nvidia_on_pci=True)
    (tmp_path / nvml.LIBRARY).touch()
    assert nvml.worth_trying(host, nvidia_on_pci=False)
    (tmp_path / nvml.LIBRARY).unlink()
    (tmp_path / "nvidiactl").touch()
    assert nvml.worth_trying(host, nvidia_on_pci=False)
