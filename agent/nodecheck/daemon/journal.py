"""What the daemon tells of itself: lines on standard error, which the system's journal dates."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Hashable

from nodecheck.words import without_controls


class Journal:
    """One line an event. What stays as it is, is told once, whatever figures change in it."""

    def __init__(self) -> None:
        self._told: dict[str, Hashable] = {}

    def tell(self, line: str) -> None:
        """Say it."""
        with contextlib.suppress(OSError, ValueError):  # who reads it may be gone
            sys.stderr.write(f"{without_controls(line)}\n")
            sys.stderr.flush()

    def state(self, topic: str, state: Hashable, line: str | None) -> None:
        """Say it where the state of the topic is another than before; no line, nothing is said."""
        if self._told.get(topic) != state:
            self._told[topic] = state
            if line is not None:
                self.tell(line)
