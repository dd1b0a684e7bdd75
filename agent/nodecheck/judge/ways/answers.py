"""Answers that several strategies give: refused for want of something, not known, how fast."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge.rates.ceilings import Range
from nodecheck.model import Strategy, Viability

TOKENS = "tok/s"

SHARED_MEMORY = "the GPU shares the system's memory; its size is not the card's"

ORDER = (Viability.VIABLE, Viability.MARGINAL, Viability.UNKNOWN, Viability.NOT_VIABLE)
"""The best verdict first."""


def speed_viability(seen: Seen, rate: Range) -> Viability:
    """A rate in tokens a second against what a reader does not wait for."""
    usable = seen.policy.thresholds.usable_tokens_per_second
    if rate.high < usable:
        return Viability.NOT_VIABLE
    if rate.low is None:
        return Viability.UNKNOWN
    return Viability.VIABLE if rate.low >= usable else Viability.MARGINAL


def refused(strategy: str, limit: str, why: str, unit: str = TOKENS) -> Strategy:
    """A way that cannot be gone here: `limit` is what is short, `why` the figures."""
    return Strategy(
        strategy=strategy, viability=Viability.NOT_VIABLE, limit=limit, basis=why, unit=unit
    )


def unknown(strategy: str, why: str, unit: str = TOKENS) -> Strategy:
    """A way of which nothing can be said, and why."""
    return Strategy(
        strategy=strategy, viability=Viability.UNKNOWN, limit="not known", basis=why, unit=unit
    )
