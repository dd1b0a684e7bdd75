"""A report as Prometheus reads it: text format 0.0.4, base units, no times of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodecheck.report import Report


STATUS_HELP = "1 for the status that the node has, unknown where no report stands for it."


def metrics(report: Report) -> bytes:
    """All series of a report. What is not known has none: absence is never 0."""
    from nodecheck.render.prometheus import figures, gpus, measured, state, text

    samples = (
        *state.samples(report),
        *figures.samples(report),
        *gpus.samples(report),
        *measured.samples(report),
    )
    return text.written(samples)


def unknown() -> bytes:
    """The series of a node that has no report, or none that is fresh: its status is unknown.

    It imports nothing, so that the daemon can say so whatever has happened to it.
    """
    lines = [f"# HELP nodecheck_status {STATUS_HELP}", "# TYPE nodecheck_status gauge"]
    for status in ("ok", "warning", "critical", "unknown"):
        held = "1.0" if status == "unknown" else "0.0"
        lines.append(f'nodecheck_status{{status="{status}"}} {held}')
    return "".join(f"{line}\n" for line in lines).encode()
