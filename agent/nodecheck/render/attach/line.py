"""A window of a watched engine as one line: when, why, and the figures that matter."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine.signs import (
    held_cards,
    rate_words,
    read_per_second,
    throttled_share,
)
from nodecheck.checks.seen import Seen
from nodecheck.judge.engine.answer import (
    answer,
    busy_words,
    of_engine,
    waited_share,
)
from nodecheck.policy import Policy
from nodecheck.render.attach.terminal import label_style
from nodecheck.render.layout import Line, Span
from nodecheck.report import Report, in_utc
from nodecheck.units import gib, percent


def line(report: Report, policy: Policy) -> Line:
    """The line: "02:14:09Z  SLOW  engine.paging  0.31 CPUs, 340 MB/s read"."""
    told, found = answer(report, policy), of_engine(report.findings)
    why = f"{' '.join(finding.id for finding in found)}  " if found else ""
    return (
        Span(f"{in_utc(report.time):%H:%M:%SZ}  "),
        Span(f"{told.doing.value.upper():9}", label_style(told, found)),
        Span(f"{why}{', '.join(_figures(report, policy))}"),
    )


def _figures(report: Report, policy: Policy) -> Iterator[str]:
    facts = report.facts.engine
    if facts.cpus is not None:
        of = f" of {len(facts.usable_cpus)}" if facts.usable_cpus else ""
        yield f"{facts.cpus:.2f}{of} CPUs"
    if (waited := waited_share(Seen(facts=report.facts, policy=policy))) is not None:
        yield f"waited {percent(waited)}"
    if share := throttled_share(facts):
        yield f"stopped {percent(share)}"
    if read := read_per_second(facts):
        yield f"{rate_words(read)} read"
    if held := held_cards(facts):
        size = gib(sum(card.memory_bytes or 0 for card in held))
        yield f"{size} on GPUs, {busy_words(held)} busy"
