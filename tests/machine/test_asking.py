"""Many paths asked in few children: each has its answer, whatever becomes of the others."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from nodecheck.machine import asking, stuck
from nodecheck.machine.asking import ask_each
from nodecheck.machine.child import Outcome


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "history.db"))


def answer(path: str) -> str:
    """Its name; some names are trouble."""
    name = Path(path).name
    if name.startswith("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("hangs"):
        time.sleep(60)
    if name.startswith("slow"):
        time.sleep(0.3)
    if name.startswith("fails"):
        raise RuntimeError(name)
    return name


def asked(paths: list[str], seconds: float = 20.0) -> dict[str, Outcome[str]]:
    found = list(ask_each(paths, answer, str, seconds))
    assert sorted(path for path, _ in found) == sorted(paths)
    return dict(found)


def test_every_path_is_answered_in_few_children(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"folder/{n}" for n in range(450)]
    forks = []
    fork = os.fork

    def counted() -> int:
        forks.append(1)
        return fork()

    stuck.stuck_pid("")  # once a process: whether there is a memory
    monkeypatch.setattr(os, "fork", counted)
    found = asked(paths)
    assert [found[path].value for path in paths] == [str(n) for n in range(450)]
    assert len(forks) == 5


def test_no_paths_are_no_answers() -> None:
    assert asked([]) == {}


@pytest.mark.parametrize("name", ["dies", "fails"])
@pytest.mark.parametrize("place", [0, 3, 9])
def test_a_child_that_ends_costs_one_path(name: str, place: int) -> None:
    paths = [f"folder/{n}" for n in range(10)]
    paths[place] = f"folder/{name}"
    found = asked(paths)
    assert [path for path in paths if found[path].value is None] == [f"folder/{name}"]
    assert found[f"folder/{name}"].error
    assert not found[f"folder/{name}"].hung


def test_a_path_that_hangs_costs_its_folder_and_no_other() -> None:
    paths = ["a/1", "a/2", "b/hangs", "b/1", "b/2", "a/3"]
    found = asked(paths, 2.0)
    assert {path for path in paths if found[path].hung} == {"b/hangs", "b/1", "b/2"}
    assert "b/hangs" in (found["b/1"].error or "")
    assert found["a/3"].value == "3"


def test_many_that_are_slow_are_not_taken_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "IN_TURN", 8)
    paths = [f"folder/slow{n}" for n in range(8)]
    found = asked(paths, 1.5)
    assert all(found[path].value for path in paths)
