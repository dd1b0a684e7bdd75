"""What commands read: policies, saved reports, nodes. Every failure is one line."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from nodecheck.checks import CHECKS
from nodecheck.checks.seen import Past
from nodecheck.cli.output import progress
from nodecheck.diagnose import rules
from nodecheck.machine import child
from nodecheck.machine.asking import why_silent
from nodecheck.machine.host import Host, open_host
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Struct
from nodecheck.policy import Policy, PolicyError, parse_policy
from nodecheck.report import Report, ReportError, from_json
from nodecheck.serving import Run, Workload
from nodecheck.words import near

SYSTEM_POLICY = Path("/etc/nodecheck/policy.toml")
INPUT_LIMIT_BYTES = 64 << 20
READ_SECONDS = 10.0
WINDOW_SECONDS = 5.0
"""For which an engine is watched, unless said."""

PAST_SECONDS = 1.0
"""A report does without the history rather than wait; a month of one a minute takes 0.07 s."""


class NodeOptions(Struct, frozen=True, kw_only=True):
    """Which node is meant, and what may be measured on it; `saved` is --from."""

    quick: bool
    kernels: str
    saved: str | None
    root: str | None
    policy: str | None
    python: str | None = None
    attach: int | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> NodeOptions:
        """Those that `node_options` adds. Raises UsageError where they contradict each other."""
        members: dict[str, Any] = {name: options.get(name) for name in cls.__struct_fields__}
        for option in ("--from", "--root", "--policy", "--python"):
            if members["saved" if option == "--from" else option[2:]] == "":
                raise click.UsageError(f"{option} is empty")
        asked = cls(**members)
        if asked.saved and (asked.root or asked.python or asked.attach):
            raise click.UsageError(
                "--from judges saved facts: it takes neither --root nor --python nor --attach"
            )
        if asked.quick and asked.kernels == "always":
            raise click.UsageError("--quick runs no kernels, --kernels always does")
        return asked

    @property
    def measures(self) -> str:
        """Whether kernels run: auto, always or never."""
        return "never" if self.quick else self.kernels

    @property
    def is_live(self) -> bool:
        """Whether it is this machine."""
        return not self.saved and not self.root


def read_node(asked: NodeOptions, policy: Policy, work: Workload | None) -> Report:
    """The node's facts, not yet judged: measured now, for that model, or read."""
    if asked.saved:
        return read_report_or_snapshot(asked.saved)
    from msgspec.structs import replace

    from nodecheck.cli.processes import check_process
    from nodecheck.collect import collect, watch
    from nodecheck.judge.node import measurable_types

    reference = (policy.reference_workload.weight_type,)
    told: list[Past | None] = []

    def meanwhile() -> None:
        _load_rules()
        if not asked.root:
            told.append(_read_past())

    host = read_host(asked.root)
    if asked.attach is not None:
        check_process(host, asked.attach)
    seen = collect(
        host,
        kernels=asked.measures,
        python=asked.python,
        thresholds=policy.thresholds,
        weight_types=measurable_types(work) if work else reference,
        progress=progress,
        meanwhile=meanwhile,
    )
    if asked.attach is not None:
        progress(f"watching process {asked.attach}")
        seen = watch(host, seen, asked.attach, WINDOW_SECONDS)
    return replace(seen, past=told[0]) if told else seen


def _read_past() -> Past | None:
    """What the history of this machine tells; None where there is none, or it does not answer."""

    def work() -> _Told:
        from nodecheck.records.past import LOOKS_BACK_SECONDS, past
        from nodecheck.records.snapshots import database

        since = int(time.time()) - LOOKS_BACK_SECONDS
        try:
            return _Told(past=past(database.read_spells(database.path(), since)))
        except database.HistoryError:
            return _Told()

    outcome = child.call(work, _Told, PAST_SECONDS)
    return outcome.value.past if outcome.value else None


class _Told(Struct, frozen=True, kw_only=True):
    past: Past | None = None


def _load_rules() -> None:
    """Import what judges the facts, so that it is there when they are."""
    for _ in rules():
        pass


def read_policy(path: str | None) -> Policy:
    """--policy, $NODECHECK_POLICY, /etc/nodecheck/policy.toml, else what is shipped."""
    named = path or os.environ.get("NODECHECK_POLICY") or _system_policy()
    if named is None:
        return Policy()
    try:
        policy = parse_policy(_policy_text(named).decode("utf-8-sig"), named)
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{named}: not UTF-8 text: {error.reason}") from error
    except PolicyError as error:
        raise click.ClickException(str(error)) from error
    _check_names(policy, named)
    return policy


def _system_policy() -> str | None:
    """The node's own, where there is one: if it cannot be looked at, reading it tells why."""
    try:
        SYSTEM_POLICY.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass
    return str(SYSTEM_POLICY)


def _policy_text(named: str) -> bytes:
    """A file, or a shipped policy: a word without slash and dot that is no file."""
    if "/" in named or "." in named or is_there(named):
        return read_file(Path(named))
    from importlib.resources import files

    shipped = {file.name: file for file in files("nodecheck").joinpath("policies").iterdir()}
    if file := shipped.get(f"{named}.toml"):
        return file.read_bytes()
    known = ", ".join(sorted(name.removesuffix(".toml") for name in shipped))
    raise click.ClickException(f"{named}: no such file, nor is it a shipped policy ({known})")


def is_there(path: str) -> bool:
    """Whether there is something by that name; not where its file system does not tell."""
    return why_silent(path, lambda: _look(path), READ_SECONDS) is None


def _look(path: str) -> None:
    os.lstat(path)


def _check_names(policy: Policy, file: str) -> None:
    """A misspelt name would ask for nothing, or waive nothing, unnoticed."""
    _check_known(f"{file}: required", policy.required, CHECKS, "subject")
    check_instruction_sets(f"{file}: instruction_sets", policy.requirements.instruction_sets)
    if policy.waivers:
        ids = [rule.id for rule in rules()]
        _check_known(f"{file}: waivers", [w.id for w in policy.waivers], ids, "finding")


def check_instruction_sets(place: str, names: Sequence[str]) -> None:
    """Raise ClickException where one is none that is known; `place` says where they were named."""
    if names:
        from nodecheck.checks.cpu.isa import BY_ARCHITECTURE

        known = sorted(frozenset().union(*BY_ARCHITECTURE.values()))
        _check_known(place, names, known, "instruction set")


def _check_known(place: str, names: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise click.ClickException(f"{place}: there is no {what} {name!r}{near(name, known)}")


def read_report(path: str) -> Report:
    """A saved report; `-` is standard input."""
    try:
        if path == "-":
            return from_json(_standard_input(), "standard input")
        return from_json(read_file(Path(path)), path)
    except ReportError as error:
        raise click.ClickException(str(error)) from error


def read_report_or_snapshot(name: str) -> Report:
    """A saved report, or one of the history's: @-1, @17, @2026-11-29, @2026-11-29T10:00."""
    if not name.startswith("@"):
        return read_report(name)
    from nodecheck.records.snapshots import database

    try:
        return database.read_report(database.path(), name)
    except database.HistoryError as error:
        raise click.ClickException(str(error)) from error


def read_runs(paths: Sequence[str]) -> tuple[Run, ...]:
    """Rows of benchmarks' output; `-` is standard input."""
    from nodecheck.measured.fields import MeasuredError
    from nodecheck.measured.read import parse

    runs: list[Run] = []
    for path in paths:
        text = _standard_input() if path == "-" else read_file(Path(path))
        try:
            runs += parse(text, "standard input" if path == "-" else Path(path).name)
        except MeasuredError as error:
            raise click.ClickException(f"{path}: {error}") from error
    return tuple(runs)


def read_host(root: str | None) -> Host:
    """The live machine or a captured tree."""
    if root and (why := why_silent(root, lambda: _check_root(root), READ_SECONDS)):
        raise click.ClickException(f"{root}: {why}")
    try:
        return open_host(Path(root) if root else None)
    except UnreadableError as error:
        raise click.ClickException(error.detail) from error


def _check_root(root: str) -> None:
    found = os.stat(root)
    if not stat.S_ISDIR(found.st_mode) and not (stat.S_ISREG(found.st_mode) and found.st_size):
        raise OSError(errno.EINVAL, "neither a captured folder nor an archive of one")


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    content = sys.stdin.buffer.read(INPUT_LIMIT_BYTES + 1)
    if len(content) > INPUT_LIMIT_BYTES:
        raise click.ClickException(f"standard input: longer than {INPUT_LIMIT_BYTES} bytes")
    return content


def read_file(path: Path, most_bytes: int = INPUT_LIMIT_BYTES) -> bytes:
    """What a file holds. Raises ClickException, also where it is longer or does not answer."""
    if why := why_silent(str(path), lambda: _check(path), READ_SECONDS):
        raise click.ClickException(f"{path}: {why}")
    try:
        content = regular_content(path, most_bytes + 1)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    if len(content) > most_bytes:
        raise click.ClickException(f"{path}: longer than {most_bytes} bytes")
    return content


def _check(path: Path) -> None:
    regular_content(path, 1)


def regular_content(path: Path, most_bytes: int) -> bytes:
    """What a file holds, or its start. Raises OSError; nothing is waited for but file systems."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most_bytes) or b""  # None where it would have to be waited for
