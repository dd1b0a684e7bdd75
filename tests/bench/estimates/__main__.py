"""`nodecheck plan` and other estimators beside llama.cpp: `make bench-estimates`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.engines import build, models, run
from tests.bench.engines.table import publish, row
from tests.bench.estimates import tools
from tests.bench.estimates.tools import Estimate
from tests.bench.peers import environment

from nodecheck.checks.dram import placement
from nodecheck.checks.dram.statistics import has_moved

ROUNDS = 5
SECONDS = 2.0
"""Of a repetition, about."""

MODELS = {
    models.LLAMA_1B: ("Q4_0", "Q4_K_M", "Q8_0", "F16"),
    models.OURS: ("Q4_0", "Q4_K_M", "Q8_0", "F16"),
    models.QWEN_8B: ("Q4_K_M", "Q8_0"),
}
SECTION = "estimates"


@dataclass(frozen=True)
class Round:
    """What was predicted, then measured. Tokens a second."""

    predicted: Estimate
    measured: float
    is_clean: bool

    @property
    def is_held(self) -> bool:
        """Whether the range that was printed before holds what was measured."""
        low, high = self.predicted.low, self.predicted.high
        return low is not None and high is not None and low <= self.measured <= high


@dataclass(frozen=True)
class Point:
    """All rounds of one file, and what the other programs say of it."""

    model: str
    weights: str
    weight_bytes: int
    rounds: tuple[Round, ...]
    others: dict[str, Estimate]

    @property
    def clean(self) -> list[Round]:
        """The undisturbed rounds."""
        return [r for r in self.rounds if r.is_clean]


def main() -> None:
    """Measure, print and publish the table."""
    build.build()
    environment.prepare()
    points = list(_points())
    text = "\n".join(_lines(points))
    publish(text, SECTION)
    print(text)


def _points() -> Iterator[Point]:
    for model, formats in MODELS.items():
        folder = build.FOLDER / "models" / ("" if model is models.OURS else model.name)
        paths = models.make(folder, build.program("llama-quantize"), model, formats)
        for weights, path in paths.items():
            models.warm(path)
            point = Point(
                model=model.name,
                weights=weights,
                weight_bytes=path.stat().st_size,
                rounds=tuple(_round(model.name, weights, path) for _ in range(ROUNDS)),
                others={
                    name: _asked(ask, model.name, weights, path)
                    for name, ask in tools.TOOLS.items()
                },
            )
            print(row(_cells(point)), flush=True)
            yield point


def _asked(ask: tools.Ask, model: str, weights: str, path: Path) -> Estimate:
    try:
        return ask(model, weights, path)
    except KeyError:  # not in its database
        return Estimate()


def _round(model: str, weights: str, path: Path) -> Round:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    before = placement.along(cpus)
    predicted = tools.nodecheck(model, weights, path)
    tokens = max(4, round(SECONDS * (predicted.middle or 4)))
    decoded = run.decode("native", path, cpus, tokens)
    after = placement.along(cpus)
    moved = any(has_moved((a.seconds, b.seconds)) for a, b in zip(before, after, strict=True))
    return Round(predicted, decoded.tokens_per_second, decoded.is_undisturbed and not moved)


def _lines(points: list[Point]) -> Iterator[str]:
    clean = [r for p in points for r in p.clean]
    held = sum(r.is_held for r in clean)
    every = [r for p in points for r in p.rounds]
    yield (
        f"{len(clean)} of {len(every)} rounds are clean; the range of the plan holds {held} of "
        f"these, and {sum(r.is_held for r in every)} of all."
    )
    yield ""
    others = [name for name in tools.TOOLS if name not in ("nodecheck", "modelinfo")]
    heads = ["model", "weights", "clean", "measured tok/s", "nodecheck", "its middle", "in range"]
    yield row([*heads, *others])
    yield row(["---"] * (len(heads) + len(others)))
    for point in points:
        yield row(_cells(point))
    yield ""
    yield row(["model", "weights", "file, bytes", *(f"{name}: weights" for name in tools.TOOLS)])
    yield row(["---"] * (3 + len(tools.TOOLS)))
    for point in points:
        yield row([point.model, point.weights, f"{point.weight_bytes:,}", *_sizes(point)])


def _cells(point: Point) -> Iterator[str]:
    rounds = point.clean or list(point.rounds)
    measured = median(r.measured for r in rounds)
    yield from (point.model, point.weights, f"{len(point.clean)} of {len(point.rounds)}")
    yield f"{measured:.2f}"
    lows = [r.predicted.low for r in rounds if r.predicted.low is not None]
    highs = [r.predicted.high for r in rounds if r.predicted.high is not None]
    yield f"{median(lows):.2f} to {median(highs):.2f}" if lows and highs else "-"
    middle = median([m for r in rounds if (m := r.predicted.middle)] or [0.0])
    yield f"{middle / measured - 1:+.0%}"
    yield f"{sum(r.is_held for r in rounds)} of {len(rounds)}"
    for name in tools.TOOLS:
        if name not in ("nodecheck", "modelinfo"):
            yield _told(point.others[name], measured)


def _told(estimate: Estimate, measured: float) -> str:
    if estimate.middle is None or estimate.low is None or estimate.high is None:
        return "-"
    said = f"{estimate.low:.1f}"
    if estimate.high != estimate.low:
        said += f" to {estimate.high:.1f}"
    return f"{said} ({estimate.middle / measured - 1:+.0%})"


def _sizes(point: Point) -> Iterator[str]:
    for name in tools.TOOLS:
        size = point.others[name].weight_bytes
        yield f"{size:,.0f} ({size / point.weight_bytes - 1:+.1%})" if size else "-"


if __name__ == "__main__":
    main()
