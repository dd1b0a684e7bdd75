"""The man pages: all commands and options, as man itself shows them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click import Context

from nodecheck.cli import group
from tests.packaging.conftest import ROOT

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "72", "HOME": "/"}


def contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[Context]:
    ctx = click.Context(command, parent=parent, info_name=name, **command.context_settings)
    yield ctx
    if isinstance(command, click.Group):
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            assert found is not None
            yield from contexts(found, below, ctx)


COMMANDS = {ctx.command_path: ctx for ctx in contexts(group, "nodecheck", None)}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make dist` writes them."""
    out = tmp_path_factory.mktemp("man")
    command = [sys.executable, "-m", "release.man", str(out)]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(ROOT / "agent")})
    return out


def page_of(pages: Path, command: str) -> str:
    return str(pages / f"{command.replace(' ', '-')}.1")


def shown(page: str, *options: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("man") is None:
        pytest.skip("man is not here: apt-get install man-db")
    return subprocess.run(
        ["man", *options, "-l", page], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )


def test_each_command_has_its_page_and_no_other(pages: Path) -> None:
    assert {p.name for p in pages.iterdir()} == {f"{c.replace(' ', '-')}.1" for c in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_tells_what_the_help_tells(pages: Path, command: str) -> None:
    ctx = COMMANDS[command]
    page = shown(page_of(pages, command)).stdout
    text = joined(page)
    for param in ctx.command.get_params(ctx):
        for part in param.get_help_record(ctx) or ():
            assert joined(part) in text
    for paragraph in (ctx.command.help or "").replace("\b", "").split("\n\n"):
        assert joined(paragraph) in text
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            assert f"{command.replace(' ', '-')}-{name}(1)" in text
    titles = re.findall("^[A-Z].*$", page, re.MULTILINE)
    assert {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} <= set(titles)


def joined(text: str) -> str:
    """Without the spaces, which lie where lines are full."""
    return "".join(text.split())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("nodecheck", "NODECHECK_HISTORY NODECHECK_POLICY /etc/nodecheck/policy.toml"),
        ("nodecheck gate", "NODECHECK_POLICY Critical. With --exit-style npd: unknown."),
        ("nodecheck snapshot", "NODECHECK_HISTORY /var/lib/nodecheck/history.db"),
        ("nodecheck daemon", "NOTIFY_SOCKET /etc/nodecheck/daemon.toml"),
    ],
)
def test_a_page_tells_what_help_does_not(pages: Path, command: str, told: str) -> None:
    text = " ".join(shown(page_of(pages, command)).stdout.split())
    assert all(each in text for each in re.findall("[A-Z_]{9,}|/.*|Crit.*", told))


@pytest.mark.parametrize("command", COMMANDS)
def test_man_has_nothing_to_warn_of(pages: Path, command: str) -> None:
    checked = shown(page_of(pages, command), "--warnings", "-E", "UTF-8", "-Tutf8", "-Z")
    assert checked.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_whatis_finds_it(pages: Path, command: str) -> None:
    if shutil.which("lexgrog") is None:
        pytest.skip("lexgrog is not here: apt-get install man-db")
    page = page_of(pages, command)
    told = subprocess.run(["lexgrog", page], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f'{page}: "{command.replace(" ", "-")} - ')
