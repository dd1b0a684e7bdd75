"""What commands read: policies, saved reports, nodes. Every failure is one line."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import click

from nodecheck.checks import CHECKS
from nodecheck.diagnose import rules
from nodecheck.machine.host import Host, open_host
from nodecheck.machine.tree import UnreadableError
from nodecheck.policy import Policy, PolicyError, parse_policy, parse_size
from nodecheck.report import Report, ReportError, from_json
from nodecheck.serving import Workload
from nodecheck.workload.numbers import from_numbers

SYSTEM_POLICY = Path("/etc/nodecheck/policy.toml")
INPUT_LIMIT_BYTES = 64 << 20
SMALLEST_MODEL_BYTES = 1 << 20


def read_policy(path: str | None) -> Policy:
    """--policy, $NODECHECK_POLICY, /etc/nodecheck/policy.toml, else what is shipped."""
    named = path or os.environ.get("NODECHECK_POLICY")
    if not named and not os.path.exists(SYSTEM_POLICY):
        return Policy()
    file = Path(named) if named else SYSTEM_POLICY
    try:
        policy = parse_policy(_read(file).decode(), str(file))
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: not UTF-8 text: {error.reason}") from error
    except PolicyError as error:
        raise click.ClickException(str(error)) from error
    _check_names(policy, file)
    return policy


def _check_names(policy: Policy, file: Path) -> None:
    """A misspelt subject or finding would ask for nothing, or waive nothing, unnoticed."""
    for subject in policy.required:
        if subject not in CHECKS:
            known_subjects = ", ".join(CHECKS)
            message = f"{file}: required: there is no {subject!r}, but {known_subjects}"
            raise click.ClickException(message)
    known = {rule.id for rule in rules()} if policy.waivers else set()
    for waiver in policy.waivers:
        if waiver.id not in known:
            raise click.ClickException(f"{file}: waivers: there is no finding {waiver.id!r}")


def read_report(path: str) -> Report:
    """A saved report; `-` is standard input."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise click.ClickException("standard input is closed")
            return from_json(sys.stdin.buffer.read(INPUT_LIMIT_BYTES), "standard input")
        return from_json(_read(Path(path)), path)
    except ReportError as error:
        raise click.ClickException(str(error)) from error


def read_host(root: str | None) -> Host:
    """The live machine or a captured tree."""
    try:
        return open_host(Path(root) if root else None)
    except UnreadableError as error:
        raise click.ClickException(error.detail) from error


def read_workload(weights: str | None, layers: int | None, weight_type: str) -> Workload | None:
    """The model that --weights and --layers name."""
    if weights is None and layers is None:
        return None
    if weights is None or layers is None:
        raise click.UsageError("--weights and --layers go together")
    try:
        size = parse_size(weights)
    except PolicyError as error:
        raise click.BadParameter(str(error), param_hint="--weights") from error
    if size < SMALLEST_MODEL_BYTES:
        message = f"{weights!r} is {size} bytes, less than any model; write it as 16.3GiB"
        raise click.BadParameter(message, param_hint="--weights")
    return from_numbers(f"{weight_type} model", size, layers, weight_type)


def _read(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise click.ClickException(f"{path}: not a regular file")
            content = file.read(INPUT_LIMIT_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    if len(content) > INPUT_LIMIT_BYTES:
        raise click.ClickException(f"{path}: longer than {INPUT_LIMIT_BYTES} bytes")
    return content
