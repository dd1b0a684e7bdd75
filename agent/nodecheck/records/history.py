"""What the snapshots of a node tell together: changes, drift, forecasts, counters that grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodecheck.model import Struct
from nodecheck.records.changes import Change, changes
from nodecheck.records.drift import DAYS_BEFORE, POINTS_MIN, Drift, drifts, is_enough
from nodecheck.records.figures import Kind
from nodecheck.records.forecast import Forecast, forecasts
from nodecheck.records.growth import Growth, growths
from nodecheck.records.series import DAY, Series, Window, hourly, picked
from nodecheck.records.state import HOST_NAME, VERSION
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
    changed, drifted = changes(window), drifts(rates)
    return History(
        node=_node(window),
        count=len(window.ids),
        first=window.times[0] if window.times else None,
        last=window.times[-1] if window.times else None,
        changes=changed,
        drifts=drifted,
        forecasts=forecasts(hourly(window, Kind.ROOM)),
        growths=growths(window),
        notes=(*_missing(window), *_too_few(rates), *_ourselves(changed, drifted)),
    )


def _node(window: Window) -> str | None:
    """The name that it had last."""
    if not window.states:
        return None
    traits = window.state_by_id[window.states[-1]].traits
    names = (trait.value for trait in traits if trait.name == HOST_NAME)
    return next((name for name in names if isinstance(name, str)), None)


def _missing(window: Window) -> Iterator[str]:
    measured = picked(window, Kind.RATE)
    without = sum(layout not in measured for layout in window.layouts)
    if without and measured:
        yield f"{without} of {count(len(window.ids), 'snapshot')} hold no measurements"
    elif without:
        yield "no snapshot holds measurements, so drift is not told (--quick leaves them out)"


def _too_few(rates: Sequence[Series]) -> Iterator[str]:
    few = [series for series in rates if not is_enough(series.clean())]
    if few:
        clean = max(len(series.clean()) for series in few)
        most = max(len(series.times) for series in few)
        yield (
            f"{len(few)} of {count(len(rates), 'figure')} had too few undisturbed measurements "
            f"to tell drift: {clean} of {most} at most, one an hour; {POINTS_MIN} on "
            f"{DAYS_BEFORE + 1} days are needed"
        )


def _ourselves(changed: Iterable[Change], drifted: Iterable[Drift]) -> Iterator[str]:
    """A figure that left its level with an update may be measured otherwise."""
    updates = [each.time for each in changed if each.difference.name == VERSION]
    if any(abs(each.since - time) < DAY for each in drifted for time in updates):
        yield "nodecheck changed on the day that a figure drifted from: it may measure otherwise"
