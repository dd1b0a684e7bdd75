"""What the daemon tells of itself: lines on standard error, which the system's journal dates."""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Hashable

from nodecheck.words import without_controls

STANDARD_ERROR = 2

LINE_MOST = 1000
"""Characters: so much is written at once or not at all. Source: pipe(7), 4096 bytes, with room for
a line that tells of those that were lost."""


class Journal:
    """One line an event. What stays as it is, is told once, whatever figures change in it.

    Nothing here waits: while nobody reads, lines are lost, and told by their number afterwards.
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        self._descriptor = descriptor
        self._lost = 0
        self._told: dict[str, Hashable] = {}

    def tell(self, line: str) -> None:
        """Say it."""
        text = without_controls(line)[:LINE_MOST].encode(errors="replace") + b"\n"
        if self._lost:
            text = b"%d lines were lost: nobody read them\n" % self._lost + text
        self._lost = 0 if self._write(text) else self._lost + 1

    def _write(self, text: bytes) -> bool:
        """Whether it was taken."""
        poller = select.poll()
        try:
            poller.register(self._descriptor, select.POLLOUT)
            takes = any(event == select.POLLOUT for _, event in poller.poll(0))
            return takes and os.write(self._descriptor, text) == len(text)
        except OSError:  # who reads it may be gone
            return False

    def state(self, topic: str, state: Hashable, line: str | None) -> None:
        """Say it where the state of the topic is another than before; no line, nothing is said."""
        if self._told.get(topic) != state:
            self._told[topic] = state
            if line is not None:
                self.tell(line)


class Logged(logging.Handler):
    """Has what libraries log told by a journal: a line each, no trace."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, where it is news."""
        line = record.getMessage()
        self._journal.state("log", line, line)
