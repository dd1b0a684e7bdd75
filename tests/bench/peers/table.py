"""The tables of docs/accuracy.md: ours against each peer, and how far runs of each spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from tests.bench.peers.contest import MIN_ROUNDS, Contest
from tests.bench.peers.tools import FACTORS, OPERATIONS, Loop

PAGE = Path("docs/accuracy.md")
BEGIN, END = "<!-- peers -->", "<!-- /peers -->"
GOALS = {"read": 0.97, "write": 0.97, "copy": 1.05}
"""Least ratio of ours to the best peer."""

_SUMMARY = ("operation", "threads", "ours", "GB/s", "best peer", "GB/s", "ratio", "goal", "rounds")
_PEERS = ("operation", "threads", "tool", "loop", "GB/s", "ours / it", "rounds", "2 MiB pages")
_SPREAD = ("one thread", "GB/s", "p90 / p10")


def missed(contests: Iterable[Contest]) -> list[str]:
    """Goals that were not reached, or that too few rounds can tell of."""
    return [
        f"{operation}, {contest.threads} threads"
        for contest in contests
        for operation, goal in GOALS.items()
        if (peer := contest.best_peer(operation)) is None
        or len(contest.ratios(peer)) < MIN_ROUNDS
        or median(contest.ratios(peer)) < goal
    ]


def summary(contests: Iterable[Contest]) -> Iterator[str]:
    """A line for each operation and number of threads."""
    yield from _head(_SUMMARY)
    for contest in contests:
        for operation in OPERATIONS:
            mine, peer = contest.ours[operation], contest.best_peer(operation)
            if peer:
                ratios = contest.ratios(peer)
                yield _row(
                    *(operation, str(contest.threads), mine.name, _gb(contest.steady(mine))),
                    *(f"{peer.tool} {peer.name}", _gb(contest.steady(peer))),
                    *(f"{median(ratios):.2f}", str(GOALS.get(operation, "")), str(len(ratios))),
                )


def peers(contests: Iterable[Contest]) -> Iterator[str]:
    """A line for each loop of a peer; in brackets what does not count."""
    yield from _head(_PEERS)
    for contest in contests:
        for loop in (loop for operation in OPERATIONS for loop in contest.loops(operation)):
            ratios = contest.ratios(loop)
            yield _row(
                *(loop.operation, str(contest.threads)),
                loop.tool if contest.comparable[loop] else f"({loop.tool})",
                *(loop.name, _gb(contest.steady(loop))),
                *(f"{median(ratios):.2f}" if ratios else "", str(len(ratios))),
                f"{contest.huge_share[loop.tool]:.0%}",
            )


def factors() -> Iterator[str]:
    """What each tool's own figure was multiplied with."""
    yield from _head(("tool", "bytes read + written a second"))
    yield from (_row(tool, factor) for tool, factor in FACTORS.items())


def spreads(rates: Mapping[Loop, Sequence[float]]) -> Iterator[str]:
    """A line for each loop that was run again and again."""
    yield from _head(_SPREAD)
    for loop, each in rates.items():
        low, *_, high = _deciles(each)
        yield _row(f"{loop.tool} {loop.operation} {loop.name}", _gb(each), f"{high / low:.2f}")


def publish(text: str) -> None:
    """Put it between the marks of the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def _deciles(rates: Sequence[float]) -> list[float]:
    return quantiles(rates, n=10, method="inclusive") if len(rates) > 1 else [*rates, *rates]


def _gb(rates: Sequence[float]) -> str:
    if not rates:
        return ""
    low, *_, high = _deciles(rates)
    return f"{median(rates) / 1e9:.1f} ({low / 1e9:.1f}-{high / 1e9:.1f})"


def _head(columns: Sequence[str]) -> Iterator[str]:
    yield _row(*columns)
    yield _row(*("---" for _ in columns))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
