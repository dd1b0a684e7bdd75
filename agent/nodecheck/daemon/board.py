"""What the daemon knows now: the loop writes on it, requests read it. One event loop, no locks."""

from __future__ import annotations

import time
from collections.abc import Callable

from nodecheck.daemon.passes import Pass

FRESH_INTERVALS = 3
"""A report older than so many intervals tells nothing of now: one pass may fail."""


def boot_seconds() -> float:
    """Seconds that no setting of the clock moves, and that go on while a guest is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Board:
    """The last pass and its age; whether the loop goes round.

    `slack_seconds` is what the slowest pass may take: it is no sign of staleness.
    """

    def __init__(
        self,
        interval_seconds: float,
        slack_seconds: float,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.slack_seconds = slack_seconds
        self.latest: Pass | None = None
        self._clock = clock
        self._received: float | None = None
        self._turned = clock()

    def take(self, latest: Pass) -> None:
        """A pass has ended well."""
        self.latest = latest
        self._received = self._clock()

    def turn(self) -> None:
        """The loop has gone round once more."""
        self._turned = self._clock()

    @property
    def age_seconds(self) -> float | None:
        """Of the last report; None before the first."""
        return None if self._received is None else self._clock() - self._received

    @property
    def is_fresh(self) -> bool:
        """Whether the last report may stand for now. Before the first nothing does."""
        age = self.age_seconds
        return age is not None and age <= self.stale_after_seconds

    @property
    def stale_after_seconds(self) -> float:
        """The age at which a report stands for nothing."""
        return FRESH_INTERVALS * self.interval_seconds + self.slack_seconds

    @property
    def seconds_since_turn(self) -> float:
        """How long ago the loop went round."""
        return self._clock() - self._turned
