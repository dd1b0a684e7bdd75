"""Completions, in the shells themselves: what is typed, then the tabulator."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodecheck.cli import COMMANDS
from tests.packaging.conftest import ROOT

PROGRAM = Path(sys.executable).with_name("nodecheck")
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")
SECONDS = 30.0


@pytest.fixture(scope="session")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder share/ as `make dist` fills it."""
    out = tmp_path_factory.mktemp("share")
    code = "import pathlib, sys, release.wheelhouse as w; w.write_share(pathlib.Path(sys.argv[1]))"
    environment = {"PYTHONPATH": str(ROOT / "agent"), "PATH": "/nothing"}
    subprocess.run([sys.executable, "-c", code, str(out)], check=True, env=environment)
    return out


@pytest.fixture
def environment(share: Path, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "report.json").touch()
    (tmp_path / "captured").mkdir()
    (tmp_path / "a file").touch()
    return {
        "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_DATA_DIRS": f"{share}:/usr/share",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }


def typed(shell: list[str], setup: str, line: str, environment: dict[str, str]) -> str:
    """What the line has become behind the tabulator: the shell's editor echoes it as a command."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not here: apt-get install {shell[0]}")
    main, theirs = pty.openpty()
    running = subprocess.Popen(
        shell, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        cwd=environment["HOME"], start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        os.write(main, f"{setup}\necho rea''dy\n".encode())
        until(main, "^ready\r")
        os.write(main, f"{line}\t\x01echo '\x05' en''d\n".encode())
        shown = until(main, r"^.*[^'].end\r")
        return str(re.findall(r"^(.*?) *end\r", shown, re.MULTILINE)[-1])
    finally:
        running.kill()
        running.wait()
        os.close(main)


def until(terminal: int, pattern: str) -> str:
    """What the terminal shows up to there."""
    shown, end = "", time.monotonic() + SECONDS
    while not re.search(pattern, shown, re.MULTILINE):
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {pattern} in {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown


LINES = {
    "nodecheck gat": "nodecheck gate",
    "nodecheck gate --exit-s": "nodecheck gate --exit-style",
    "nodecheck gate --exit-style na": "nodecheck gate --exit-style nagios",
    "nodecheck history exp": "nodecheck history export",
    "nodecheck gate --from rep": "nodecheck gate --from report.json",
    "nodecheck --root capt": "nodecheck --root captured/",
    "nodecheck plan rep": "nodecheck plan report.json",
    "nodecheck explain cpu.hyb": "nodecheck explain cpu.hybrid",
    "nodecheck init kub": "nodecheck init kubernetes",
    "nodecheck nothing --x": "nodecheck nothing --x",
}
"""What is typed before the tabulator, and what stands there behind it."""


@pytest.mark.parametrize("line", LINES)
def test_bash(environment: dict[str, str], line: str) -> None:
    if not BASH_COMPLETION.exists():
        pytest.skip("bash-completion is not here: apt-get install bash-completion")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    assert typed(shell, f"source {BASH_COMPLETION}", line, environment) == LINES[line]


def test_bash_quotes_what_has_a_space(environment: dict[str, str]) -> None:
    setup = f"source {BASH_COMPLETION}"
    stands = typed(["bash", "--norc", "-i"], setup, r"nodecheck plan a\ f", environment)
    assert stands == r"nodecheck plan a\ file"


@pytest.mark.parametrize("line", LINES)
def test_zsh(environment: dict[str, str], share: Path, line: str) -> None:
    setup = f"fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D"
    stands = typed(["zsh", "-f", "-i"], setup, line, environment)
    assert stands == LINES[line].rstrip("/")  # zsh takes the slash back when a line is entered


@pytest.mark.parametrize("line", LINES)
def test_fish(environment: dict[str, str], line: str) -> None:
    last = line.rsplit(maxsplit=1)[-1]
    told = [row.partition("\t")[0] for row in fish(line, environment)]
    expected = LINES[line].rsplit(maxsplit=1)[-1]
    assert told == ([] if expected == last else [expected])


def test_fish_tells_what_each_command_does(environment: dict[str, str]) -> None:
    told = dict(row.split("\t") for row in fish("nodecheck ", environment))
    # click's script for fish ends a description at its first comma.
    assert told == {name: line.partition(",")[0] for name, (_, line) in COMMANDS.items()}


def fish(line: str, environment: dict[str, str]) -> list[str]:
    if shutil.which("fish") is None:
        pytest.skip("fish is not here: apt-get install fish")
    command = ["fish", "--command", f"complete --do-complete '{line}'"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=environment["HOME"],
        check=True, timeout=SECONDS,
    )  # fmt: skip
    return [row for row in done.stdout.splitlines() if row]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_program_writes_the_same_completions(share: Path, shell: str) -> None:
    environment = {"_NODECHECK_COMPLETE": f"{shell}_source", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in {path.read_text() for path in share.rglob("*") if path.is_file()}


def test_what_cannot_be_completed_says_nothing() -> None:
    environment = {"_NODECHECK_COMPLETE": "bash_complete", "COMP_WORDS": "nodecheck"}
    done = subprocess.run([PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


LISTS = """
import sys
from nodecheck.cli.completion import COMPLETING
import click
COMPLETING.shell_complete(click.Context(COMPLETING), "")
print(*sys.modules)
"""


def test_listing_the_commands_imports_none() -> None:
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=True)
    heavy = {module for module, _ in COMMANDS.values()} | {"msgspec", "rich", "jinja2"}
    assert set(done.stdout.split()) & heavy == set()
