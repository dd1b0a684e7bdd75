"""What the snapshots of a node tell together: changes, drift, forecasts, counters that grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from nodecheck.model import Struct
from nodecheck.records.changes import Change, changes
from nodecheck.records.drift import DAYS_BEFORE, POINTS_MIN, Drift, drifts, is_enough
from nodecheck.records.figures import Kind
from nodecheck.records.forecast import Forecast, forecasts
from nodecheck.records.growth import Growth, growths
from nodecheck.records.series import Series, Window, hourly, picked
from nodecheck.records.state import HOST_NAME
from nodecheck.units import count

SCHEMA_VERSION = 1


class History(Struct, frozen=True, kw_only=True):
    """`count` snapshots from `first` to `last` (seconds since 1970), and what they tell.

    `notes` are sentences on what could not be concluded, and why.
    """

    schema_version: int = SCHEMA_VERSION
    node: str | None
    count: int
    first: int | None
    last: int | None
    changes: tuple[Change, ...] = ()
    drifts: tuple[Drift, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()


def make_history(window: Window) -> History:
    """The history of the node whose snapshots these are."""
    rates = hourly(window, Kind.RATE)
    return History(
        node=_node(window),
        count=len(window.ids),
        first=window.times[0] if window.times else None,
        last=window.times[-1] if window.times else None,
        changes=changes(window),
        drifts=drifts(rates),
        forecasts=forecasts(hourly(window, Kind.ROOM)),
        growths=growths(window),
        notes=tuple(_notes(window, rates)),
    )


def _node(window: Window) -> str | None:
    """The name that it had last."""
    if not window.states:
        return None
    traits = window.state_by_id[window.states[-1]].traits
    names = (trait.value for trait in traits if trait.name == HOST_NAME)
    return next((name for name in names if isinstance(name, str)), None)


def _notes(window: Window, rates: Sequence[Series]) -> Iterator[str]:
    """Why drift could not be told, of all figures or some."""
    measured = picked(window, Kind.RATE)
    without = sum(layout not in measured for layout in window.layouts)
    if without and measured:
        yield f"{without} of {count(len(window.ids), 'snapshot')} hold no measurements"
    elif without:
        yield "no snapshot holds measurements, so drift is not told (--quick leaves them out)"
    few = [series for series in rates if not is_enough(series.clean())]
    if few:
        clean = max(len(series.clean()) for series in few)
        most = max(len(series.times) for series in few)
        yield (
            f"drift of {len(few)} of {count(len(rates), 'figure')} is not told: "
            f"{clean} of {count(most, 'hourly measurement')} undisturbed at most, "
            f"{POINTS_MIN} on {DAYS_BEFORE + 1} days are needed"
        )


def to_json(history: History) -> bytes:
    """The history as one JSON object, indented, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(history), indent=1) + b"\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) that every history is valid against."""
    return msgspec.json.schema(History)
