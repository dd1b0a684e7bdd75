"""What is said of a node that is not like the others, and when a few are few."""

from __future__ import annotations

from enum import Enum

from nodecheck.model import Severity, Struct
from nodecheck.records.figures import Metric

FEWEST = 5
"""Nodes that it takes to tell which of them is odd. Source: with four, two that agree by chance
make the others odd."""

FEW_SHARE = 0.1
"""A part of a group that is odd; more of it is another kind of node. Source: nodecheck's own
judgement."""

TWO_FROM = 8
"""Nodes from which two may be odd: six others are more than FEWEST alike. Source: nodecheck's own
judgement."""


def few(number: int) -> int:
    """How many of so many nodes may be odd in one thing: 1 of 5, 2 of 8, a tenth of many."""
    return max(2 if number >= TWO_FROM else 1, int(number * FEW_SHARE))


class About(str, Enum):
    """What is odd about a node."""

    HARDWARE = "hardware"
    FINDING = "finding"
    FIGURE = "figure"
    FEATURE = "feature"


class Oddity(Struct, frozen=True, kw_only=True):
    """One thing in which a node is not like the others of its group.

    For a figure `value` and `usual` (the group's median) are in the unit of `metric`, `spreads`
    says how many of the group's spreads lie between, `worse` that it is on the wrong side.
    """

    about: About
    name: str
    value: str | float
    usual: str | float
    metric: Metric | None = None
    spreads: float | None = None
    worse: bool | None = None
    severity: Severity | None = None

    @property
    def rank(self) -> int:
        """The worst first: hardware, a critical finding, a slow figure, other findings."""
        grave = self.severity is Severity.CRITICAL
        order = {
            About.HARDWARE: 0,
            About.FINDING: 1 if grave else 3,
            About.FIGURE: 2 if self.worse else 5,
            About.FEATURE: 4,
        }
        return order[self.about]


class Share(Struct, frozen=True):
    """So many nodes have this value; a figure's is the median of theirs."""

    value: str | float
    nodes: int


class Split(Struct, frozen=True, kw_only=True):
    """In this a group is of several kinds: none of them is few, or nodes are too few to tell."""

    name: str
    shares: tuple[Share, ...]
    metric: Metric | None = None
