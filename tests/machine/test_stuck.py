from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.machine import state, stuck

PROBE = "statvfs /mnt/models"


@pytest.fixture(autouse=True)
def markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))
    stuck._answers.cache_clear()
    return tmp_path / "state" / "stuck"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        yield sleeping
        sleeping.kill()


def test_nothing_is_known_at_first() -> None:
    assert stuck.stuck_pid(PROBE) is None


def test_a_marker_holds_while_its_process_lives(process: subprocess.Popen[bytes]) -> None:
    stuck.remember(PROBE, process.pid)
    assert stuck.stuck_pid(PROBE) == process.pid
    assert stuck.stuck_pid("statvfs /mnt/other") is None


def test_no_link_that_others_have_put_there_is_written_through(
    markers: Path, tmp_path: Path
) -> None:
    """The folder may be another user's, where the history lies in a folder of all."""
    stuck.remember(PROBE, os.getpid())
    (marker,) = markers.iterdir()
    marker.unlink()
    (tmp_path / "victim").write_text("precious")
    for name in (marker.name, f"{marker.name}.{os.getpid()}"):
        (markers / name).symlink_to(tmp_path / "victim")
    stuck.remember(PROBE, os.getpid())
    assert (tmp_path / "victim").read_text() == "precious"
    assert stuck.stuck_pid(PROBE) == os.getpid()


def test_a_zombie_has_let_go(process: subprocess.Popen[bytes], markers: Path) -> None:
    """Who left it need not live to reap it, nor need process 1 of a container."""
    stuck.remember(PROBE, process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{process.pid}").exists()
    assert stuck.stuck_pid(PROBE) is None
    assert list(markers.iterdir()) == []
    stuck.remember(PROBE, process.pid)
    assert list(markers.iterdir()) == []


def test_another_process_with_the_same_number_is_not_it(
    process: subprocess.Popen[bytes], markers: Path
) -> None:
    stuck.remember(PROBE, process.pid)
    marker = next(markers.iterdir())
    pid, started, rest = marker.read_text().split(" ", 2)
    marker.write_text(f"{pid} {int(started) - 1} {rest}")
    assert stuck.stuck_pid(PROBE) is None
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    ["", "\n", "x y", "²  1", "-1 0", "0 0", "1", "9" * 5000 + " 1", b"\xff\xfe \x00", "1 1 1"],
)
def test_a_damaged_marker_is_none(content: str | bytes, markers: Path) -> None:
    stuck.remember(PROBE, os.getpid())
    marker = next(markers.iterdir())
    marker.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert stuck.stuck_pid(PROBE) is None


def test_odd_names_are_kept_apart() -> None:
    names = ("statvfs /a\nb", "statvfs /a\udcff", "statvfs /" + "x" * 5000)
    for name in names:
        stuck.remember(name, os.getpid())
        assert stuck.stuck_pid(name) == os.getpid()


def test_a_directory_that_cannot_be_made_is_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "file" / "below" / "history.db"))
    stuck.remember(PROBE, os.getpid())
    assert stuck.stuck_pid(PROBE) is None


def test_a_process_that_is_gone_is_not_remembered(markers: Path) -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    stuck.remember(PROBE, done.pid)
    assert not markers.exists()


def test_state_lies_beside_the_history(tmp_path: Path) -> None:
    assert state.directory() == tmp_path / "state"


@pytest.mark.parametrize(
    ("uid", "environment", "directory"),
    [
        (0, {}, "/var/lib/nodecheck"),
        (1000, {"XDG_STATE_HOME": "/x"}, "/x/nodecheck"),
        (1000, {"HOME": "/home/me"}, "/home/me/.local/state/nodecheck"),
    ],
)
def test_without_a_history_it_is_the_users_or_the_systems(
    uid: int, environment: dict[str, str], directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NODECHECK_HISTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert state.directory() == Path(directory)


def test_a_user_without_a_home_has_no_place_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODECHECK_HISTORY", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert state.directory() == state.SYSTEM


def test_a_directory_that_hangs_is_no_memory_and_leaves_one_child(
    monkeypatch: pytest.MonkeyPatch, markers: Path
) -> None:
    """A look that never ends stands for a dead mount; its child holds on as one in the kernel."""
    monkeypatch.setattr(os.path, "isdir", lambda _: time.sleep(60))
    stuck._answers.cache_clear()
    began = time.monotonic()
    assert stuck.stuck_pid(PROBE) is None
    stuck.remember(PROBE, os.getpid())
    assert time.monotonic() - began < 2 * stuck.ANSWER_SECONDS
    assert not markers.exists()
    monkeypatch.undo()
    stuck._answers.cache_clear()


def test_who_finds_another_looking_for_long_does_not_look() -> None:
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(f"\0nodecheck.stuck.{os.geteuid()}")
        stuck._answers.cache_clear()
        assert stuck.stuck_pid(PROBE) is None
        assert stuck._answers(state.directory() / "stuck") is False
    stuck._answers.cache_clear()
