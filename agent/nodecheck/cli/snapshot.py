"""`nodecheck snapshot`: a report into the history of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nodecheck.cli.options import node_options

if TYPE_CHECKING:
    from pathlib import Path

    from nodecheck.records.snapshots.database import Written
    from nodecheck.report import Report


TEXTFILE_MODE = 0o644
"""node_exporter has a user of its own, who has to read it."""


@click.command("snapshot")
@node_options
@click.option(
    "--textfile",
    metavar="FILE",
    help="Write metrics too, for the textfile collector of Prometheus' node_exporter: a name that "
    "ends in .prom. They are written also where the history cannot be.",
)
def command(textfile: str | None, **options: Any) -> None:
    """Make a report as nodecheck does and store it in the history: for cron or a timer.

    The history is $NODECHECK_HISTORY, else /var/lib/nodecheck/history.db for root and
    ~/.local/state/nodecheck/history.db for others. The policy says how much of it is kept.
    nodecheck history and nodecheck compare read it.
    """
    from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
    from nodecheck.cli.output import progress
    from nodecheck.diagnose import diagnose
    from nodecheck.records.snapshots import database

    asked = NodeOptions.of(options)
    file = None if textfile is None else _metrics_file(textfile)
    history = database.path()
    try:
        database.check(history)  # before time is spent, and before anything else looks there
    except database.HistoryError as error:
        if file is None:
            raise _not_stored(error) from error
    policy = read_policy(asked.policy)
    report = diagnose(read_node(asked, policy, None), policy)
    progress("storing it")
    try:
        written = database.add(history, report, policy.retention)
    except database.HistoryError as error:
        raise _not_stored(error) from error
    finally:
        progress("")
        if file is not None:
            _write_metrics(file, report)
    click.echo(_told(written, report, str(history)))


def _not_stored(error: Exception) -> click.ClickException:
    return click.ClickException(f"{error}; no snapshot was stored")


def _metrics_file(name: str) -> Path:
    """The file, if node_exporter would read it and it can be written."""
    from nodecheck.cli.output import METRICS, writable

    if name and not name.endswith(".prom"):
        raise click.UsageError(f"{name}: node_exporter reads files that end in .prom alone")
    return writable(name, METRICS)


def _write_metrics(file: Path, report: Report) -> None:
    from nodecheck.cli.output import put_whole
    from nodecheck.render.prometheus import metrics

    put_whole(file, [metrics(report)], TEXTFILE_MODE)


def _told(written: Written, report: Report, history: str) -> str:
    from nodecheck.model import faults
    from nodecheck.render.layout import printable
    from nodecheck.units import count

    found = faults(report.findings)
    words = [report.verdict.status.value.upper()]
    if found:
        words.append(count(len(found), "finding"))
    kept = f"{printable(history)}, {_size(written.size_bytes)}"
    if written.removed:
        kept += f", {count(written.removed, 'old one')} removed"
    if written.not_pruned:
        kept += f"; old ones could not be removed: {written.not_pruned}"
    return f"snapshot {written.id}: {' '.join(words)} ({kept})"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"
