"""Many snapshots as columns, and one figure of them over time."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from nodecheck.model import Struct
from nodecheck.records.figures import Figure, Measure
from nodecheck.records.state import State


class Window(Struct, frozen=True, kw_only=True):
    """Snapshots of one node, oldest first: one entry a snapshot in each of the columns.

    `times` are seconds since 1970 (UTC), `statuses` those of the verdicts. `states` and `layouts`
    hold keys of `state_by_id` and `layout_by_id`; `packed` are the figures of `pack`.
    """

    ids: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    statuses: tuple[str, ...] = ()
    states: tuple[int, ...] = ()
    layouts: tuple[int, ...] = ()
    packed: tuple[bytes, ...] = ()
    state_by_id: dict[int, State] = {}
    layout_by_id: dict[int, tuple[Measure, ...]] = {}


class Series(Struct, frozen=True, kw_only=True):
    """One figure over time, oldest first; `flagged` marks those that prove nothing."""

    measure: Measure
    times: tuple[int, ...]
    values: tuple[float, ...]
    flagged: tuple[bool, ...]


def pack(found: Sequence[Figure]) -> tuple[tuple[Measure, ...], bytes]:
    """What the figures are of, and their values: doubles, then a bit each, set where flagged."""
    bits = sum(1 << place for place, each in enumerate(found) if each.flags)
    values = struct.pack(f"<{len(found)}d", *(each.value for each in found))
    return (
        tuple(each.measure for each in found),
        values + bits.to_bytes((len(found) + 7) // 8, "little"),
    )
