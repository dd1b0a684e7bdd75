"""Files that commands write as root into folders that others write to as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nodecheck.cli.output import put_whole, writable
from tests.cli.test_commands import failed, run
from tests.hosts import THREE_L40
from tests.trees import plant

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a link of another user's")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Where a file is to be written."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "page.html"


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.lstat().st_mode)


def planted(page: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links at every name that can be foreseen, and a process whose number is known."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    victim.write_text("precious")
    for name in (f".{page.name}.7", f".{page.name}", f"{page.name}.7"):
        (page.parent / name).symlink_to(victim)


def test_a_planted_link_is_not_written_through(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    planted(page, victim, monkeypatch)
    put_whole(page, [b"<!doctype html>"])
    assert victim.read_text() == "precious"
    assert not page.is_symlink()
    assert page.read_bytes() == b"<!doctype html>"


def test_what_a_killed_run_left_refuses_no_later_one(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(page, tmp_path / "victim", monkeypatch)
    assert writable(str(page)) == page


@pytest.mark.parametrize("arguments", [["--html", "--quick"], ["export", "nfd", "--to", "--json"]])
def test_an_option_is_no_name_of_a_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.returncode == 2
    assert f"{arguments[-1]} is no name of a file to write; if it is one: ./-" in done.stderr
    assert not list(tmp_path.iterdir())
    assert writable(f"./{arguments[-1]}").name == arguments[-1]


def test_the_mode_is_there_before_the_file_is(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the folder may open it at once, and must not see more than it may."""
    moved: list[tuple[str, int]] = []
    replace = Path.replace

    def noted(made: Path, target: Path) -> Path:
        moved.append((made.name, mode_of(made)))
        return replace(made, target)

    monkeypatch.setattr(Path, "replace", noted)
    before = os.umask(0o077)
    try:
        put_whole(page, [b"x"], 0o644)
        page.chmod(0o640)
        put_whole(page, [b"y"])
        page.unlink()
        put_whole(page, [b"z"])
    finally:
        os.umask(before)
    assert [mode for _, mode in moved] == [0o644, 0o640, 0o600]
    assert all(name.startswith(".") for name, _ in moved)
    assert len({name for name, _ in moved}) == 3


def test_nothing_is_left_of_what_failed(page: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(click.ClickException, match="cannot be written: No space left"):
        put_whole(page, chunks())
    assert list(page.parent.iterdir()) == []


def test_a_link_of_our_own_is_followed(page: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.html"
    page.symlink_to(target)
    put_whole(page, [b"x"])
    assert page.is_symlink()
    assert target.read_bytes() == b"x"


@as_root
def test_a_link_of_another_users_is_not_followed(page: Path, tmp_path: Path) -> None:
    target = tmp_path / "cron.d"
    page.symlink_to(target)
    os.lchown(page, NOBODY, NOBODY)
    for write in (lambda: put_whole(page, [b"x"]), lambda: writable(str(page))):
        with pytest.raises(click.ClickException, match=r"cannot be written: .*another user's"):
            write()
    assert not target.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """a/../b, where a is a file: the kernel refuses it, and nothing says that it was written."""
    plant(THREE_L40, tmp_path / "node")
    (tmp_path / "a").touch()
    to = tmp_path / "a" / ".." / "b"
    done = run("export", "nfd", "--root", str(tmp_path / "node"), "--to", str(to))
    failed(done, "Not a directory")
    assert "Wrote" not in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_long_name_of_wide_letters_can_be_written(page: Path) -> None:
    long = page.with_name("é" * 124 + ".html")
    put_whole(long, [b"x"])
    assert long.read_bytes() == b"x"
