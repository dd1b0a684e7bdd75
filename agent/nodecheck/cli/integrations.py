"""What `nodecheck init` prints: the files of an integration, for the program that runs now."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodecheck.model import Struct

if TYPE_CHECKING:
    from importlib.abc import Traversable

PLACE = files("nodecheck") / "integrations"
PROGRAM = "@NODECHECK@"
"""Stands in a file for the absolute path of the program."""

_PLAIN_PATH = re.compile(r"[\w./+,:-]+", re.ASCII)
"""What needs no quotes in a unit, a crontab, a shell script or JSON."""
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""Where ProtectHome= looks for homes. Source: systemd.exec(5)."""


class File(Struct, frozen=True, kw_only=True):
    """One file: where it goes (relative: where the user keeps such files), its mode, its text."""

    name: str
    path: str
    mode: int
    text: str


class Integration(Struct, frozen=True, kw_only=True):
    """What plugs nodecheck into one system: its files, and what to do once they are in place."""

    name: str
    about: str
    next: tuple[str, ...]
    files: tuple[File, ...]


def names() -> list[str]:
    """Those that there are."""
    return sorted(each.name for each in PLACE.iterdir() if (each / "init.toml").is_file())


def about(name: str) -> str:
    """One line on what it is."""
    return str(_description(PLACE / name)["about"])


def read(name: str) -> tuple[Integration, list[str]]:
    """An integration with the program's path filled in, and what is wrong with that path.

    Raises ClickException where the program has no path that can stand in such files.
    """
    folder = PLACE / name
    said = _description(folder)
    texts = [(folder / file["name"]).read_text(encoding="utf-8") for file in said["files"]]
    doubts: list[str] = []
    if any(PROGRAM in text for text in (*texts, *said["next"])):
        path = program()
        doubts = why_not_for_services(path)
        texts = [text.replace(PROGRAM, str(path)) for text in texts]
        said["next"] = [step.replace(PROGRAM, str(path)) for step in said["next"]]
    return _integration(name, said, texts), doubts


def _integration(name: str, said: dict[str, Any], texts: list[str]) -> Integration:
    made = (
        File(name=each["name"], path=each["path"], mode=int(each.get("mode", "644"), 8), text=text)
        for each, text in zip(said["files"], texts, strict=True)
    )
    return Integration(name=name, about=said["about"], next=tuple(said["next"]), files=tuple(made))


def _description(folder: Traversable) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    said: dict[str, Any] = tomllib.loads((folder / "init.toml").read_text(encoding="utf-8"))
    return said


def program() -> Path:
    """The program that runs now, as it was called: a symlink that an update moves is kept."""
    called = sys.argv[0]
    if called.endswith(".py"):  # python -m nodecheck
        called = str(Path(sys.executable).with_name("nodecheck"))
    found = shutil.which(os.path.join(os.curdir, called)) or shutil.which(called)  # noqa: PTH118
    if found is None:
        raise click.ClickException(
            f"{called}: no such program, and the files must name one: install nodecheck"
        )
    path = _absolute(found)
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise click.ClickException(
            f"{path}: a unit or a crontab cannot name this path: install nodecheck under a plain "
            "one, e.g. /opt/nodecheck"
        )
    return path


def _absolute(found: str) -> Path:
    """Its path by the folder that we are in, as the shell names that where it does: PREFIX/current.

    Neither a step up from a link nor a name that is out of date may lead to another program.
    """
    named = os.environ.get("PWD", "")
    here = named if named.startswith("/") and _are_same(named, os.curdir) else ""
    for way in (os.path.join(here, found), found):  # noqa: PTH118
        path = Path(os.path.abspath(way))  # noqa: PTH100 - resolve() follows the symlink
        if _are_same(path, found):
            return path
    return Path(found).parent.resolve() / Path(found).name


def _are_same(one: str | Path, other: str | Path) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def why_not_for_services(path: Path) -> list[str]:
    """Why a service under another user could not run it, a line each."""
    doubts = []
    for part in dict.fromkeys((path, path.resolve(), Path(sys.executable).resolve())):
        if any(home in part.parents for home in (*_HOMES, Path.home())):
            doubts.append(f"{part} lies in a home directory, where services may find nothing")
        elif closed := next((p for p in (part, *part.parents) if not _others_may(p)), None):
            doubts.append(f"{closed} is closed to other users: no service of theirs can run {part}")
    return doubts


def _others_may(path: Path) -> bool:
    """Whether any user may run it, or enter it where it is a folder."""
    return bool(path.stat().st_mode & stat.S_IXOTH)
