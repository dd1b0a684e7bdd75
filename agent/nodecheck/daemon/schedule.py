"""Which pass is due when. Pure: the time and chance are told.

One pass at a time, and every next one is set when a pass ends: what a sleeping guest has missed
does not pile up.
"""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.daemon.passes import FULL, LIGHT

JITTER = 0.1
"""A light pass comes so much of the interval sooner or later. Source: enough that a fleet that was
switched on at once has no common beat after some passes."""

FULL_JITTER = 0.5
"""A full one falls anywhere in its interval: guests of one host that measure memory at the same
time take it from each other."""

FIRST_FULL_SECONDS = 300
"""Within it, after the first light pass, the first full one comes: spread for the same reason."""

AGAIN_SECONDS = 600
"""A node that was busy is idle by then, or not for long; a fault that was measured is looked at
again. Source: nodecheck's own judgement; measuring for 3 s in 600 is no load."""

MOST_INTERVALS = 3
"""A pass that fails is tried again after one interval, then two, then three: no rarer, for nobody
would see that it works again."""


class Schedule:
    """When light and full passes are due. `interval` and `kernels` are seconds.

    `kernels` is None where no full pass ever is. `chance` gives numbers from 0 up to 1.
    """

    def __init__(
        self, interval: float, kernels: float | None, now: float, chance: Callable[[], float]
    ) -> None:
        self.interval, self.kernels = interval, kernels
        self.failures = 0
        self._chance = chance
        self._light = now
        self._full: float | None = None
        self._looked = False

    def due(self, now: float) -> str | None:
        """The pass that is due, a full one before a light one."""
        if self._full is not None and now >= self._full:
            return FULL
        return LIGHT if now >= self._light else None

    def seconds_left(self, now: float) -> float:
        """Until the next is due."""
        return max(0.0, min(self._light, self._light if self._full is None else self._full) - now)

    def ended(self, kind: str, now: float, *, again: bool = False, skipped: bool = False) -> None:
        """A pass has given a report.

        `again` asks to measure soon, `skipped` says that a full pass could not measure.
        """
        self.failures = 0
        self._light = now + self.interval * self._around(JITTER)
        if self.kernels is None:
            return
        if not self._looked:
            self._looked = True
            self._full = now + min(FIRST_FULL_SECONDS, self.kernels) * self._chance()
        elif kind == FULL:
            self._full = now + self.kernels * self._around(FULL_JITTER)
        if again or skipped:
            soon = now + min(AGAIN_SECONDS, self.kernels) * self._around(FULL_JITTER)
            self._full = soon if self._full is None else min(self._full, soon)

    def failed(self, kind: str, now: float) -> None:
        """A pass has given none, or could not be started."""
        self.failures += 1
        most = MOST_INTERVALS * self.interval
        wait = self.interval * min(self.failures, MOST_INTERVALS) * self._around(JITTER)
        self._light = now + min(wait, most)
        if kind == FULL and self.kernels is not None:
            self._full = now + min(AGAIN_SECONDS, self.kernels) * self._around(JITTER)

    def change(self, interval: float, kernels: float | None, now: float) -> None:
        """Go by other intervals; nothing is put off by longer than those."""
        self.interval, self.kernels = interval, kernels
        self._light = min(self._light, now + interval)
        if kernels is None:
            self._full = None
        elif self._looked:
            latest = now + kernels * self._around(FULL_JITTER)
            self._full = latest if self._full is None else min(self._full, latest)

    def hurry(self, now: float) -> None:
        """Look at once."""
        self._light = now

    def _around(self, jitter: float) -> float:
        """A factor around 1."""
        return 1 + jitter * (2 * self._chance() - 1)
