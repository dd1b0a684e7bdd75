"""NVML's child: its deadline, the memory of a hang, and the errors that it keeps."""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodecheck.checks.gpu import from_nvml
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
    real = child.call

    def hang(work: Any, answer_type: Any, deadline_seconds: float) -> Outcome[Any]:
        if answer_type is not nvml.Answer:  # whether the directory of the markers answers
            return real(work, answer_type, deadline_seconds)
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


def ended(monkeypatch: pytest.MonkeyPatch, outcome: Outcome[nvml.Answer]) -> nvml.Answer:
    def call(work: object, answer_type: object, seconds: float) -> Outcome[nvml.Answer]:
        del seconds
        if answer_type is not nvml.Answer:  # where the markers are
            return Outcome()
        assert isinstance(work, functools.partial)
        work.args[0].asking("to start")
        return outcome

    monkeypatch.setattr(child, "call", call)
    return nvml.query(1)


@pytest.mark.parametrize(
    ("number", "limited", "crashed"),
    [
        (signal.SIGSEGV, False, True),
        (signal.SIGBUS, False, True),
        (signal.SIGILL, True, True),
        (signal.SIGFPE, False, True),
        (signal.SIGABRT, False, True),
        (signal.SIGABRT, True, False),
        (signal.SIGKILL, False, False),
        (signal.SIGTERM, False, False),
        (None, False, False),
    ],
)
def test_what_ends_the_child_is_the_drivers_or_ours(
    number: signal.Signals | None, limited: bool, crashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_memory_is_limited", lambda: limited)
    answer = ended(monkeypatch, Outcome(error="died", signal=number))
    assert answer.error == (nvml.CHILD_DIED if crashed else nvml.NOT_ASKED)
    facts = from_nvml.facts_of(answer)
    assert facts.state == ("failed" if crashed else None)
    assert "died" in (facts.message or "")


def test_a_crash_before_nvml_was_asked_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_collect", lambda _: os.kill(os.getpid(), signal.SIGSEGV))
    assert nvml.query(1).error == nvml.NOT_ASKED


def test_no_process_is_no_fault_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(stuck, "stuck_pid", lambda _: None)
    monkeypatch.setattr(os, "fork", refuse)
    answer = nvml.query(1)
    assert answer.error == nvml.NOT_ASKED
    assert "no process could be started" in (answer.message or "")


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
