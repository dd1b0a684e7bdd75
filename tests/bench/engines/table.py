"""What came of the runs: one line for each point, written into docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engines.predict import Prediction
from tests.bench.engines.run import Decode

from nodecheck.checks.dram.statistics import has_moved

PAGE = Path("docs/accuracy.md")
CLOSE = 0.20

COLUMNS = (
    *("engine built for", "weights", "threads", "measured tok/s", "predicted", "range", "error"),
    *("in range", "clean", "DRAM GB/s"),
)


@dataclass(frozen=True)
class Run:
    """A prediction just before and just after one decode, the point that they belong to."""

    round: int
    flavour: str
    weights: str
    threads: int
    before: Prediction
    decode: Decode
    after: Prediction

    @property
    def is_clean(self) -> bool:
        """Undisturbed, and on vCPUs that the host did not move meanwhile."""
        pairs = zip(self.before.round_trips, self.after.round_trips, strict=True)
        moved = any(has_moved((before.seconds, after.seconds)) for before, after in pairs)
        return self.decode.is_undisturbed and not moved

    @property
    def expected(self) -> float:
        """tok/s."""
        return (self.before.expected + self.after.expected) / 2

    @property
    def error(self) -> float:
        """Of the prediction, as a part of what was measured."""
        return self.expected / self.decode.tokens_per_second - 1

    @property
    def is_in_range(self) -> bool:
        """Whether the range that was printed before holds what was measured."""
        return self.before.range.floor <= self.decode.tokens_per_second <= self.before.range.high


def best(runs: Iterable[Run]) -> list[Run]:
    """Of each point the fastest clean run, or the fastest where none is clean."""
    points = dict[tuple[str, str, int], Run]()
    for run in runs:
        point = (run.flavour, run.weights, run.threads)
        points[point] = max(points.get(point, run), run, key=_rank)
    return list(points.values())


def _rank(run: Run) -> tuple[bool, float]:
    return run.is_clean, run.decode.tokens_per_second


def summary(points: list[Run]) -> str:
    """How many of the clean points are close, and how many ranges hold."""
    clean = [p for p in points if p.is_clean]
    close = sum(abs(p.error) <= CLOSE for p in clean)
    held = sum(p.is_in_range for p in clean)
    return (
        f"{len(clean)} of {len(points)} points are clean; of these {close} are predicted within "
        f"{CLOSE:.0%}, and {held} lie in the range."
    )


def lines(points: Iterable[Run]) -> Iterator[str]:
    """The table, in Markdown."""
    yield row(COLUMNS)
    yield row("---" for _ in COLUMNS)
    yield from (row(cells(point)) for point in points)


def row(texts: Iterable[str]) -> str:
    """One line of the table."""
    return f"| {' | '.join(texts)} |"


def cells(run: Run) -> Iterator[str]:
    """What COLUMNS says of one run."""
    yield from (run.flavour, run.weights, str(run.threads))
    yield f"{run.decode.tokens_per_second:.2f}"
    yield from (
        f"{run.expected:.2f}",
        f"{run.before.range.floor:.2f} to {run.before.range.high:.2f}",
        f"{run.error:+.0%}",
    )
    yield "yes" if run.is_in_range else "**no**"
    yield "yes" if run.is_clean else "no"
    yield f"{max(run.before.read, run.after.read) / 1e9:.1f}"


def publish(text: str, section: str = "engines") -> None:
    """Put text between the section's markers in docs/accuracy.md."""
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    page = PAGE.read_text()
    before, rest = page.split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}")
