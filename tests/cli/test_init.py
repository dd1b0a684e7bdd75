"""`nodecheck init`: the real command, and rules that hold for every integration."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nodecheck.cli import integrations
from nodecheck.cli.integrations import PLACE, PROGRAM, names, read, why_not_for_services
from tests.cli.test_commands import NODECHECK, failed, run

PROGRAM_HERE = str(Path(sys.executable).with_name("nodecheck"))


def test_alone_it_lists_them_with_a_line_each() -> None:
    lines = run("init").stdout.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert {"cron", "systemd"} <= set(names())
    assert all(len(line) <= 110 for line in lines)


@pytest.mark.parametrize("name", names())
def test_each_is_whole(name: str) -> None:
    """Every file of the folder goes somewhere, but for what is built from the repository."""
    integration, _ = read(name)
    folder = Path(str(PLACE)) / name
    there = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {file.name for file in integration.files} == there - {"init.toml", "Containerfile"}
    assert integration.next
    assert integration.about.endswith(".")
    assert len({file.path for file in integration.files}) == len(integration.files)
    for file in integration.files:
        assert ".." not in Path(file.path).parts
        assert file.text.endswith("\n")
        assert (file.mode == 0o755) == file.text.startswith("#!"), file.name
        assert PROGRAM not in file.text + "".join(integration.next)


def test_printed_each_file_stands_below_its_path_and_what_is_next_at_the_end() -> None:
    printed = run("init", "systemd").stdout
    integration, _ = read("systemd")
    before = 0
    for file in integration.files:
        here = printed.index(f"# {file.path}\n{file.text}\n")
        assert here >= before
        before = here
    steps = "".join(f"#   {step}\n" for step in integration.next)
    assert printed.endswith(f"# next:\n{steps}")


def test_one_file_alone_is_what_would_be_written(tmp_path: Path) -> None:
    where = "/etc/systemd/system/nodecheck.service"
    assert run("init", "systemd", "--to", str(tmp_path)).returncode == 0
    written = (tmp_path / where.lstrip("/")).read_text()
    assert f"ExecStart={PROGRAM_HERE} daemon\n" in written
    for name in ("nodecheck.service", where):
        assert run("init", "systemd", name).stdout == written


def test_it_writes_below_a_directory_and_a_second_time_nothing(tmp_path: Path) -> None:
    place = tmp_path / "not" / "there"
    first = run("init", "cron", "--to", str(place))
    file = place / "etc" / "cron.d" / "nodecheck"
    assert first.returncode == 0
    assert f"Wrote {file}" in first.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    before = file.stat().st_mtime_ns
    file.chmod(0o600)
    second = run("init", "cron", "--to", str(place))
    assert second.returncode == 0
    assert f"{file}: there already" in second.stderr
    assert file.stat().st_mtime_ns == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [p for p in place.rglob("*") if p.is_file()] == [file]


@pytest.mark.parametrize("what", ["fifo", "fifo behind a link", "/dev/zero", "endless file"])
def test_what_has_no_end_differs_and_is_not_read(what: str, tmp_path: Path) -> None:
    there = tmp_path / read("cron")[0].files[0].path.lstrip("/")
    there.parent.mkdir(parents=True)
    if what == "endless file":
        there.touch()
        os.truncate(there, 1 << 40)
    elif what == "fifo":
        os.mkfifo(there)
    elif what == "fifo behind a link":
        os.mkfifo(tmp_path / "fifo")
        there.symlink_to(tmp_path / "fifo")
    else:
        there.symlink_to(what)
    done = subprocess.run(
        [*NODECHECK, "init", "cron", "--to", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=30, preexec_fn=_little_memory,
    )  # fmt: skip
    failed(done, str(there), "differs")


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def test_services_can_enter_the_folders_whatever_the_umask(tmp_path: Path) -> None:
    place = tmp_path / "new" / "root"
    done = subprocess.run(
        [*NODECHECK, "init", "systemd", "--to", str(place)],
        capture_output=True, text=True, check=False, timeout=30, umask=0o077,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = [place.parent, place, *place.rglob("*")]
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in made}
    files = {Path("new/root") / f.path.lstrip("/"): f.mode for f in read("systemd")[0].files}
    assert modes == {path: files.get(path, 0o755) for path in modes}
    assert files.keys() <= modes.keys()


@pytest.mark.parametrize("what", ["other", "link", "directory"])
def test_what_differs_stays_and_nothing_else_is_written(what: str, tmp_path: Path) -> None:
    last = read("systemd")[0].files[-1].path
    there = tmp_path / last.lstrip("/")
    there.parent.mkdir(parents=True)
    if what == "other":
        there.write_text("# mine\n")
    elif what == "link":  # as systemctl mask does it
        there.symlink_to("/dev/null")
    else:
        there.mkdir()
    failed(run("init", "systemd", "--to", str(tmp_path)), str(there), "differs")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == ([there] if what == "other" else [])
    assert there.is_symlink() == (what == "link")


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("a file")
    failed(run("init", "cron", "--to", str(tmp_path)), f"{tmp_path}/etc")


def test_what_is_not_there_is_told_with_what_is() -> None:
    failed(run("init", "sysvinit"), "sysvinit", "systemd")
    failed(run("init", "systemd", "nodecheck.socket"), "nodecheck.socket", "nodecheck.service")
    assert run("init", "cron", "--to", "").returncode == 2


def named_by(called: str | Path, place: Path, **environment: str) -> str:
    """The program in the crontab that `called` prints."""
    printed = subprocess.run(
        [called, "init", "cron", "nodecheck"],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env={**os.environ, **environment},
    )
    assert printed.returncode == 0, printed.stderr
    return printed.stdout.partition("-n 19 ")[2].split()[0]


def test_the_program_is_named_as_it_was_called(tmp_path: Path) -> None:
    """A link that an update moves is kept; a relative path becomes absolute."""
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "nodecheck"
    link.symlink_to(PROGRAM_HERE)
    assert named_by(link, tmp_path) == str(link)
    assert named_by(Path("bin/nodecheck"), tmp_path) == str(link)
    path = f"{link.parent}{os.pathsep}{os.environ['PATH']}"
    assert named_by(Path("nodecheck"), tmp_path, PATH=path) == str(link)


def test_the_program_beside_us_is_named_not_one_of_the_path(tmp_path: Path) -> None:
    """./nodecheck is this installation, whatever lies on the PATH."""
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nodecheck").symlink_to(PROGRAM_HERE)
    path = f"{tmp_path / 'elsewhere'}{os.pathsep}{os.environ['PATH']}"
    here = tmp_path / "here"
    assert named_by("./nodecheck", here, PATH=path) == str(here / "nodecheck")


def test_a_folder_that_an_update_moves_is_named_as_the_shell_names_it(tmp_path: Path) -> None:
    """In PREFIX/current, a link to a release, bin/nodecheck is PREFIX/current/bin/nodecheck."""
    release, current = tmp_path / "release-1", tmp_path / "current"
    (release / "bin").mkdir(parents=True)
    (release / "bin" / "nodecheck").symlink_to(PROGRAM_HERE)
    current.symlink_to("release-1")
    asked = Path("bin/nodecheck")
    assert named_by(asked, current, PWD=str(current)) == str(current / "bin" / "nodecheck")
    physical = str(release / "bin" / "nodecheck")
    for wrong in ("", ".", "/nowhere", str(tmp_path)):
        assert named_by(asked, current, PWD=wrong) == physical
    up = named_by("../bin/nodecheck", current / "bin", PWD=str(current / "bin"))
    assert up == str(current / "bin" / "nodecheck")


def test_a_step_up_from_a_link_is_that_of_the_kernel(tmp_path: Path) -> None:
    """link/../nodecheck is beside what the link leads to, not beside the link."""
    (tmp_path / "far" / "folder").mkdir(parents=True)
    (tmp_path / "far" / "nodecheck").symlink_to(PROGRAM_HERE)
    (tmp_path / "link").symlink_to("far/folder")
    for called in (f"{tmp_path}/link/../nodecheck", "link/../nodecheck"):
        found = named_by(called, tmp_path, PWD=str(tmp_path))
        assert found == str(tmp_path / "far" / "nodecheck")


def test_a_path_that_would_need_quotes_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "node check"
    link.symlink_to(PROGRAM_HERE)
    done = subprocess.run([str(link), "init", "cron"], capture_output=True, text=True, check=False)
    failed(done, "node check", "/opt/nodecheck")


def test_without_a_program_there_is_nothing_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/nowhere/nodecheck"])
    with pytest.raises(click.ClickException, match="no such program"):
        integrations.program()


def test_a_program_that_services_may_not_run_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    assert why_not_for_services(Path("/bin/sh")) == []
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "nodecheck"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert f"{closed} is closed" in why_not_for_services(program)[0]
    closed.chmod(0o755)
    program.chmod(0o700)
    assert f"{program} is closed" in why_not_for_services(program)[0]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "home directory" in why_not_for_services(program)[0]


def test_the_warning_does_not_get_into_the_file() -> None:
    done = run("init", "systemd", "nodecheck.service")
    assert done.stdout.startswith("[Unit]\n")
    assert "Warning" not in done.stdout


def test_from_a_folder_that_is_gone_a_full_path_still_names_it(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$1" && rmdir "$1" && exec "$2" init cron nodecheck'
    done = subprocess.run(
        ["sh", "-c", script, "sh", str(tmp_path / "gone"), PROGRAM_HERE],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{PROGRAM_HERE} snapshot" in done.stdout, done.stderr
