"""The ways to serve a model in pairs, and which of them moved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from nodecheck.model import Strategy
from nodecheck.records.compare.comparison import StrategyPair
from nodecheck.records.compare.figures import REPEATS_SHARE, differ
from nodecheck.report import Report
from nodecheck.serving import Workload


def strategies(one: Report, other: Report) -> Iterator[StrategyPair]:
    """Ways to serve the model, in the order of the later report."""
    earlier = {each.strategy: each for each in one.strategies}
    later = {each.strategy: each for each in other.strategies}
    for name in dict.fromkeys([*later, *earlier]):
        before, after = earlier.get(name), later.get(name)
        yield StrategyPair(strategy=name, before=before, after=after, moved=_moved(before, after))


def _moved(before: Strategy | None, after: Strategy | None) -> bool:
    if before is None or after is None or before.viability is not after.viability:
        return True
    if before.high is None and after.high is None:
        return _without_figures(before.limit) != _without_figures(after.limit)
    ends = (before.low, after.low), (before.high, after.high)
    return any(
        (a is None) != (b is None)
        or (a is not None and b is not None and differ(a, b, REPEATS_SHARE))
        for a, b in ends
    )


def _without_figures(limit: str) -> str:
    """A limit's name: what follows it in numbers is as it was measured."""
    return re.sub(r"(?<!\w)\d[\d,.]*", "", limit)


def is_alike(one: Workload | None, other: Workload | None) -> bool:
    """Whether it is the same model, wherever its files lie."""
    return _apart_from_files(one) == _apart_from_files(other)


def _apart_from_files(work: Workload | None) -> Workload | None:
    return work and msgspec.structs.replace(work, storage=None, notes=())
