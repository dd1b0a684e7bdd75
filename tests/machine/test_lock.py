"""Two measurements never run at once, whoever made the lock file first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodecheck.machine import child, lock


def take() -> bool:
    with lock.measuring() as alone:
        return alone


@pytest.fixture(autouse=True)
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(lock, "RUN_LOCK", tmp_path / "run")
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))
    return tmp_path


def taken_elsewhere() -> bool | None:
    return child.call(take, bool, 10).value


def test_a_second_process_is_told_that_the_first_measures() -> None:
    with lock.measuring() as alone:
        assert alone
        assert taken_elsewhere() is False
    assert taken_elsewhere() is True


def test_a_file_that_another_user_made_is_locked_without_writing_it(directories: Path) -> None:
    (directories / "run" / "nodecheck.lock").touch(mode=0o444)
    with lock.measuring() as alone:
        assert alone
        assert taken_elsewhere() is False


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_file_is_passed_over(directories: Path, kind: str) -> None:
    path = directories / "run" / "nodecheck.lock"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with lock.measuring() as alone:
        assert alone
        assert (directories / "state" / "nodecheck.lock").is_file()
        assert taken_elsewhere() is False


def test_without_any_directory_a_kernel_name_is_the_lock(
    directories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directories / "file").touch()
    monkeypatch.setattr(lock, "RUN_LOCK", directories / "none")
    monkeypatch.setattr(lock, "_ABSTRACT_SOCKET", f"\0nodecheck-test-{os.getpid()}")
    monkeypatch.setenv("NODECHECK_HISTORY", str(directories / "file" / "history.db"))
    with lock.measuring() as alone:
        assert alone
        assert taken_elsewhere() is False
    assert taken_elsewhere() is True
