"""One pass: `python -m nodecheck.daemon.collector light|full`. A child, so that it may hang or die.

Standard input is a Task, standard output a Pass (both msgpack), standard error one line where it
fails. It is the daemon's only way to the machine and to the history.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import click
import msgspec

from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
from nodecheck.daemon import carry, silence
from nodecheck.daemon.findings import Findings
from nodecheck.daemon.passes import FULL, LIGHT, Pass, Task
from nodecheck.diagnose import diagnose
from nodecheck.policy import Policy, Retention
from nodecheck.records.snapshots import database
from nodecheck.report import Report


def make_pass(kind: str, task: Task) -> Pass:
    """Look at the node, store what was seen, judge it with what an earlier pass measured.

    Raises ClickException where the policy cannot be read.
    """
    policy = _policy(task)
    asked = NodeOptions(
        quick=kind == LIGHT, kernels="auto", saved=None, root=None, policy=None, python=None
    )
    return judged(kind, read_node(asked, policy, None), policy, task)


def judged(kind: str, seen: Report, policy: Policy, task: Task) -> Pass:
    """What the daemon serves of a report that is not yet judged; its snapshot is stored."""
    if kind == LIGHT:
        otherwise = carry.YET if task.measured_seconds else carry.NEVER
        seen = carry.told(seen, task.unmeasured, otherwise)
    collected = diagnose(seen, policy)
    not_stored = _store(collected, policy.retention)
    given = msgspec.msgpack.decode(task.measured, type=carry.Measured) if task.measured else None
    earlier = carry.still(given or carry.Measured(), seen, task.measured_seconds or 0.0)
    silent = _silent(kind, seen, task)
    published = collected
    if earlier.memory or earlier.cuda or silent:
        checks = tuple(source.check for source in silent)
        published = diagnose(carry.carried(seen, earlier), policy, silent=checks)
    handed_on = carry.handed_on(seen, earlier)
    sources = silence.handed_on(silent, silence.sources(published, policy))
    return Pass(
        time=published.time,
        status=published.verdict.status,
        headline=published.verdict.headline,
        report=msgspec.json.encode(published),
        findings=_findings(published),
        metrics=_metrics(published),
        measured=msgspec.msgpack.encode(handed_on) if handed_on else None,
        confirm=carry.rests_on_measured(published, collected),
        skipped=carry.why_not_measured(seen) if kind == FULL else None,
        not_stored=not_stored,
        sources=msgspec.msgpack.encode(sources) if sources else None,
        unmeasured=task.unmeasured if kind == LIGHT else carry.unmeasured(seen),
    )


def _silent(kind: str, seen: Report, task: Task) -> tuple[silence.Source, ...]:
    """The checks that had a fault and do not answer; where it is never measured, not those."""
    if not task.sources:
        return ()
    earlier = msgspec.msgpack.decode(task.sources, type=tuple[silence.Source, ...])
    silent = silence.fallen_silent(earlier, seen, kind)
    costly = () if task.measured_seconds else (carry.DRAM, carry.CUDA)
    return tuple(source for source in silent if source.check not in costly)


def _policy(task: Task) -> Policy:
    return msgspec.msgpack.decode(task.policy, type=Policy) if task.policy else read_policy(None)


def _store(report: Report, retention: Retention) -> str | None:
    """Why the history could not take it: no reason to lose the report."""
    try:
        written = database.add(database.path(), report, retention)
    except database.HistoryError as error:
        return str(error)
    return written.not_pruned and f"old snapshots could not be removed: {written.not_pruned}"


def _findings(report: Report) -> bytes:
    return msgspec.json.encode(
        Findings(
            time=report.time,
            host=report.host.name,
            status=report.verdict.status,
            headline=report.verdict.headline,
            findings=report.findings,
            gaps=report.gaps,
        )
    )


def _metrics(report: Report) -> bytes:
    from nodecheck.render.prometheus import metrics

    return metrics(report)


def answer(work: Callable[[], bytes]) -> int:
    """Write what `work` makes; the exit status. A failure is one line on standard error."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # children of ours are ended on the way
    try:
        sys.stdout.buffer.write(work())
        sys.stdout.buffer.flush()
    except click.ClickException as error:
        line = error.format_message()
    except Exception as error:  # noqa: BLE001 - whatever it is, one line tells it
        line = f"{type(error).__name__}: {error}"
    else:
        return 0
    sys.stderr.write(f"{' '.join(line.split())}\n")
    return 1


def main() -> int:
    """Make the pass that the command line names."""

    def work() -> bytes:
        given = sys.stdin.buffer.read()
        task = msgspec.msgpack.decode(given, type=Task) if given else Task()
        kinds = [word for word in sys.argv[1:] if word in (LIGHT, FULL)]
        if len(kinds) != 1 or len(sys.argv) != 2:
            raise click.UsageError(f"say {LIGHT} or {FULL}")
        return msgspec.msgpack.encode(make_pass(kinds[0], task))

    return answer(work)


if __name__ == "__main__":
    sys.exit(main())
