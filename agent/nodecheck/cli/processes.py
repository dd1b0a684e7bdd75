"""Which process is meant: by its id, or by the engine that it is."""

from __future__ import annotations

import click

from nodecheck.checks.engine import engines, tasks, tree
from nodecheck.machine.host import Host
from nodecheck.machine.reader import Reader
from nodecheck.render.layout import printable

PIDS_SHOWN = 12
HIDDEN = "another user's: /proc hides those (hidepid); run as that user, or as root"


def check_process(host: Host, pid: int) -> None:
    """Raise ClickException where there is no such process, or none that runs a program."""
    reader = Reader(host, "engine")
    found = tasks.stat(tasks.Moment(reader), pid)
    if found is None:
        raise click.ClickException(_why_none(reader, pid))
    named = f"process {pid} ({printable(found.name)})"
    if found.is_kernels:
        raise click.ClickException(f"{named} is a thread of the kernel: it runs no engine")
    if found.is_over:
        raise click.ClickException(f"{named} has ended: only its parent has not noticed yet")


def _why_none(reader: Reader, pid: int) -> str:
    if not reader.host.live:
        return f"process {pid} is not in this capture"
    if tree.hides_others(reader):
        return f"process {pid} is not there, or {HIDDEN}"
    return f"there is no process {pid} here: ps -e lists them (outside a container by other ids)"


def process_of(host: Host, engine: str) -> int:
    """The process that an engine of this name began with. Raises ClickException but for one."""
    reader = Reader(host, "engine")
    found = engines.find(reader, engine)
    if len(found) == 1:
        return found[0]
    if found:
        pids = ", ".join(map(str, found[:PIDS_SHOWN]))
        more = f" and {len(found) - PIDS_SHOWN} more" if len(found) > PIDS_SHOWN else ""
        raise click.ClickException(
            f"{engine}: {len(found)} run here: nodecheck attach one of {pids}{more}"
        )
    if reader.gaps:
        raise click.ClickException(reader.gaps[0].detail)
    if tree.hides_others(reader):
        raise click.ClickException(f"{engine}: none runs here, or it is {HIDDEN}")
    raise click.ClickException(
        f"{engine}: none was found to run here; where it goes by another name: nodecheck attach PID"
    )
