"""`nodecheck snapshot`: a report into the history of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nodecheck.cli.options import node_options

if TYPE_CHECKING:
    from nodecheck.records.snapshots.database import Written
    from nodecheck.report import Report


@click.command("snapshot")
@node_options
def command(**options: Any) -> None:
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
    history = database.path()
    try:
        database.check(history)  # before time is spent, and before anything else looks there
        policy = read_policy(asked.policy)
        report = diagnose(read_node(asked, policy, None), policy)
        progress("storing it")
        written = database.add(history, report, policy.retention)
    except database.HistoryError as error:
        progress("")
        raise click.ClickException(f"{error}; no snapshot was stored") from error
    progress("")
    click.echo(_told(written, report, str(history)))


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
