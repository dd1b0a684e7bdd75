"""NVML's child: its deadline, the memory of a hang, and the errors that it keeps."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.machine import child, nvml, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.host import CapturedHost
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))


def test_the_deadline_grows_with_the_cards_and_has_an_end() -> None:
    one, eight = nvml.deadline_seconds(1), nvml.deadline_seconds(8)
    assert one < eight <= nvml.deadline_seconds(1000) == nvml.DEADLINE_LIMIT_SECONDS


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
    monkeypatch.setattr(nvml, "_collect", lambda: os.kill(os.getpid(), signal.SIGSEGV))
    answer = nvml.query(1)
    assert answer.error == nvml.CHILD_DIED
    assert "SIGSEGV" in (answer.message or "")


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.query(1).error == nvml.BINDING_MISSING


def test_signs_of_a_driver(monkeypatch: pytest.MonkeyPatch, node: Node, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "_LIBRARY_DIRECTORIES", ())
    monkeypatch.setattr(nvml, "CONTROL_DEVICE", str(tmp_path / "nvidiactl"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    host = node({"proc/cpuinfo": ""})
    assert not nvml.worth_trying(host, nvidia_on_pci=False)
    assert nvml.worth_trying(host, nvidia_on_pci=True)
    (tmp_path / nvml.LIBRARY).touch()
    assert nvml.worth_trying(host, nvidia_on_pci=False)
    (tmp_path / nvml.LIBRARY).unlink()
    (tmp_path / "nvidiactl").touch()
    assert nvml.worth_trying(host, nvidia_on_pci=False)
