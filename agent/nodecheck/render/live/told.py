"""What the page is made of, beside the report."""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.records.history.history import History
from nodecheck.records.series import Series


class Told(Struct, frozen=True, kw_only=True):
    """What the history tells of the last DAYS days; `why_not` says in a line why it tells nothing.

    `over_time` are the figures that the page follows, by their names.
    """

    history: History | None = None
    over_time: tuple[Series, ...] = ()
    why_not: str | None = None


DAYS = 30
"""Source: as `nodecheck history`."""
