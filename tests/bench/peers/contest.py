"""What rounds gave, for one number of threads, and what follows of ours against each peer's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from tests.bench.peers.tools import OPERATIONS, Loop

from nodecheck.checks.dram.statistics import has_moved

MIN_ROUNDS = 5


class Sample(NamedTuple):
    """One run's bytes a second, and the ping-pongs before and after it in seconds."""

    rate: float
    round_trips: tuple[float, float]


@dataclass(frozen=True)
class Contest:
    """Rounds, each with a sample of every loop that did not fail in it."""

    threads: int
    ours: Mapping[str, Loop]
    """By operation."""

    comparable: Mapping[Loop, bool]
    """The peers' loops, and whether each counts."""

    huge_share: Mapping[str, float]
    """By tool: of its memory, what lay in 2 MiB pages."""

    rounds: list[Mapping[Loop, Sample]] = field(default_factory=list)

    def loops(self, operation: str) -> list[Loop]:
        """The peers'."""
        return sorted(loop for loop in self.comparable if loop.operation == operation)

    def steady(self, loop: Loop) -> list[float]:
        """Its figures from runs before and after which the placement was the same."""
        samples = [samples[loop] for samples in self.rounds if loop in samples]
        return [sample.rate for sample in samples if is_same_placement(sample.round_trips)]

    def ratios(self, loop: Loop) -> list[float]:
        """Ours to its figure, in each round in which both were measured in one placement."""
        mine = self.ours[loop.operation]
        pairs = [(each[mine], each[loop]) for each in self.rounds if {mine, loop} <= each.keys()]
        return [
            one.rate / other.rate
            for one, other in pairs
            if is_same_placement(one.round_trips + other.round_trips)
        ]

    def best_peer(self, operation: str) -> Loop | None:
        """The loop with the highest median of those that count."""
        loops = [x for x in self.loops(operation) if self.comparable[x] and self.ratios(x)]
        return max(loops, key=lambda loop: median(self.steady(loop)), default=None)

    def needs_more(self) -> bool:
        """Whether ours was compared with a best peer in less than MIN_ROUNDS rounds."""
        best = [self.best_peer(operation) for operation in OPERATIONS]
        return any(loop is None or len(self.ratios(loop)) < MIN_ROUNDS for loop in best)


def is_same_placement(round_trips: Sequence[float]) -> bool:
    """Whether the host kept the vCPUs where they were, by the cache line's time between them."""
    return not has_moved((min(round_trips), max(round_trips)))
