"""What a comparison of two reports holds."""

from __future__ import annotations

from enum import Enum

from nodecheck.model import Severity, Status, Strategy, Struct
from nodecheck.records.differences import Difference
from nodecheck.records.figures import Metric

SCHEMA_VERSION = 1


class Certainty(str, Enum):
    """What the difference of two figures proves."""

    BEYOND = "beyond"
    """Their ranges, p10 to p90, lie apart, and further than a measurement repeats: 10 % by `make
    repeat` for memory read on one guest, for latency and decode by analogy."""
    WITHIN = "within"
    FLAGGED = "flagged"
    """One of them was disturbed: they prove nothing."""
    UNKNOWN = "unknown"
    """They differ, and no spread of them is known."""
    ONE_SIDED = "one_sided"


class Outcome(str, Enum):
    """What became of a finding."""

    CLEARED = "cleared"
    APPEARED = "appeared"
    SEVERITY = "severity"
    UNSEEN = "unseen"
    """One report has it, the other could not look."""
    SAME = "same"


class Side(Struct, frozen=True, kw_only=True):
    """One of the two. `label` is how it was named; `node` tells name, guest, CPUs, RAM, GPUs.

    `workload` is the model that its strategies are judged for.
    """

    label: str
    time: str
    host: str | None
    nodecheck_version: str
    node: tuple[str, ...]
    cpu: str | None
    status: Status
    headline: str
    workload: str | None
    not_checked: tuple[str, ...]


class Value(Struct, frozen=True, kw_only=True):
    """A figure of one side: with its spread, p10 to p90, where it was measured in passes."""

    value: float
    low: float | None = None
    high: float | None = None
    flags: tuple[str, ...] = ()


class FigurePair(Struct, frozen=True, kw_only=True):
    """One figure on both sides. `ratio` is after / before, None where that says nothing."""

    metric: Metric
    before: Value | None
    after: Value | None
    ratio: float | None
    certainty: Certainty


class FindingPair(Struct, frozen=True, kw_only=True):
    """A finding on either side; `summary` and `waived` are the later one's."""

    id: str
    subject: str
    outcome: Outcome
    before: Severity | None
    after: Severity | None
    summary: str
    waived: str | None = None


class StrategyPair(Struct, frozen=True, kw_only=True):
    """A way to serve the model on both sides; `moved` where its verdict or its range did.

    `unseen` where one report has it, and the other could not see what it needs.
    """

    strategy: str
    before: Strategy | None
    after: Strategy | None
    moved: bool
    unseen: bool = False

    @property
    def same(self) -> bool:
        """Whether both sides have it and it did not move."""
        return not (self.moved or self.unseen)


class Comparison(Struct, frozen=True, kw_only=True):
    """Two reports side by side, judged by the same rules and policy.

    `traits` are what the node is, where that differs; `unchanged` names those that are the same.
    `differs` is false where nothing went beyond noise. `strategies` are empty where the two were
    judged for different models.
    """

    schema_version: int = SCHEMA_VERSION
    nodecheck_version: str
    before: Side
    after: Side
    headline: str
    differs: bool
    notes: tuple[str, ...] = ()
    traits: tuple[Difference, ...] = ()
    unchanged: tuple[str, ...] = ()
    findings: tuple[FindingPair, ...] = ()
    figures: tuple[FigurePair, ...] = ()
    strategies: tuple[StrategyPair, ...] = ()
