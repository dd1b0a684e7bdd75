"""The ways to serve a model in pairs, and which of them moved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from nodecheck.model import Strategy
from nodecheck.records.compare.comparison import StrategyPair
from nodecheck.records.compare.figures import differ
from nodecheck.records.figures import REPEATS_SHARE
from nodecheck.records.state import State
from nodecheck.report import Report
from nodecheck.serving import Workload

NEEDED = {f"{check}.{field}" for check, field in (
    ("cpu", "*"), ("cpu", "arch"), ("gpu", "*"), ("gpu", "gpus"), ("disk", "*"),
    ("disk", "filesystems"),
)}  # fmt: skip
"""Facts without which a way to serve is not judged at all."""


def strategies(one: Report, other: Report, states: tuple[State, State]) -> Iterator[StrategyPair]:
    """Ways to serve the model, in the order of the later report; `states` are those of the two."""
    earlier = {each.strategy: each for each in one.strategies}
    later = {each.strategy: each for each in other.strategies}
    blind = [bool(NEEDED & lacks.blind_to(has)) for lacks, has in (states, states[::-1])]
    for name in dict.fromkeys([*later, *earlier]):
        before, after = earlier.get(name), later.get(name)
        unseen = (before is None and blind[0]) or (after is None and blind[1])
        moved = not unseen and _moved(before, after)
        yield StrategyPair(strategy=name, before=before, after=after, moved=moved, unseen=unseen)


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
