"""How severities, verdicts and a node's status are marked, and how wide lines become."""

from __future__ import annotations

from nodecheck.model import Severity, Status, Viability

STATUS_STYLES = {
    Status.OK: "bold green",
    Status.WARNING: "bold yellow",
    Status.CRITICAL: "bold red",
    Status.UNKNOWN: "bold magenta",
}
MARKS = {Severity.CRITICAL: ("x", "bold red"), Severity.WARNING: ("!", "bold yellow")}
VERDICTS = {
    Viability.VIABLE: "viable",
    Viability.MARGINAL: "marginal",
    Viability.NOT_VIABLE: "not viable",
    Viability.UNKNOWN: "unknown",
}
VERDICT_STYLES = {
    "viable": "green",
    "marginal": "yellow",
    "not viable": "red",
    "unknown": "magenta",
}

WIDTH_MIN, WIDTH_WIDE, WIDTH_MAX = 60, 100, 140


def fitting(width: int) -> int:
    """The width nearest to a terminal's that lines are made for."""
    return max(WIDTH_MIN, min(width, WIDTH_MAX))
