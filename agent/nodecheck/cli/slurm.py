"""`nodecheck gate --slurm`: what it asks otherwise, and what it does about the node in Slurm."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from nodecheck.cli import exit_status
from nodecheck.judge.gate.gate import Gate
from nodecheck.judge.gate.slurm import Decision, Do, decide, doubt_of, parse_node
from nodecheck.judge.gate.slurm_reason import reason_of
from nodecheck.machine import slurm
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Status
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.words import without_controls

LIMIT_SECONDS = 45.0
"""Whatever hangs, it ends by then. Source: Slurm kills a health check after 60 s."""

LENIENT = ("warning", "unknown")
"""What drains no node unless it is asked for: a fleet must not go because a disk is 90 % full."""


def begin(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options as they count with --slurm; from now on there is a limit of time.

    Raises UsageError where they ask for what a health check must not do.
    """
    if options["kernels"] == "always":
        raise click.UsageError("--slurm runs no kernels, --kernels always does")
    if options["dram_read_bytes_per_second"] is not None:
        raise click.UsageError("--slurm runs no kernels, which --min-dram-read needs")
    if options["saved"] is not None or options["root"] is not None:
        raise click.UsageError("--slurm is about this node: it takes neither --from nor --root")
    if _is_given(ctx, "style"):
        raise click.UsageError("--slurm has its own exit status: it takes no --exit-style")
    exit_status.end_after(LIMIT_SECONDS)
    lenient = {name: "ok" for name in LENIENT if not _is_given(ctx, name)}
    return {**options, **lenient, "quick": True, "style": "posix"}


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def without_kernels(policy: Policy) -> Policy:
    """The policy without the rate of memory, which is not measured here and would never be met."""
    asked = replace(policy.requirements, dram_read_bytes_per_second=None)
    return replace(policy, requirements=asked)


def act(told: Gate, report: Report, policy: Policy, *, passes: bool) -> tuple[str, int]:
    """Do what has to be done; what became of the node, for the first line, and the exit status.

    In a prolog or epilog Slurm does it, by the status. Raises ClickException where scontrol fails.
    """
    if exit_status.in_script_of_job():
        return "", 0 if passes else 1
    name = slurm.node_name()
    if passes and told.status is Status.UNKNOWN:
        return f"{name}: left as it is", 1
    reason = None if passes else reason_of(told, report)
    try:
        decision = _decide(name, reason, doubt_of(told, report, policy))
        _do(decision.do, name, reason or "")
    except (UnreadableError, ValueError) as error:
        raise click.ClickException(f"{name}: {error}") from error
    return without_controls(f"{name}: {decision.said}"), 0


def _decide(name: str, reason: str | None, doubt: str | None) -> Decision:
    return decide(parse_node(slurm.node_text(name), name), reason, doubt, slurm.user())


def _do(what: Do, name: str, reason: str) -> None:
    if what in (Do.DRAIN, Do.RENEW):
        slurm.drain(name, reason)
    elif what is Do.RESUME:
        slurm.undrain(name)
