"""What the snapshots of a node tell together: changes, drift, forecasts, counters that grow."""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.records.figures import Kind
from nodecheck.records.history.changes import Change, changes
from nodecheck.records.history.drift import Drift, drifts
from nodecheck.records.history.forecast import Forecast, forecasts
from nodecheck.records.history.growth import Growth, growths
from nodecheck.records.history.notes import Untold, notes, of_ourselves, untold
from nodecheck.records.series import Listed, Window, hourly
from nodecheck.records.state import HOST_NAME

SCHEMA_VERSION = 1


class History(Struct, frozen=True, kw_only=True):
    """`count` snapshots from `first` to `last`, and what they told at `time` (seconds since 1970).

    `untold` are the members that are empty because nothing of the kind could be told, `notes`
    sentences on what could not be concluded, and why. `latest` are the snapshots stored last of
    all, the last first.
    """

    schema_version: int = SCHEMA_VERSION
    node: str | None
    time: int
    count: int
    first: int | None
    last: int | None
    changes: tuple[Change, ...] = ()
    drifts: tuple[Drift, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    growths: tuple[Growth, ...] = ()
    untold: tuple[Untold, ...] = ()
    notes: tuple[str, ...] = ()
    latest: tuple[Listed, ...] = ()


def make_history(window: Window, now: int, latest: tuple[Listed, ...] = ()) -> History:
    """The history of the node whose snapshots these are, asked at `now` (seconds since 1970).

    A clock that is behind the last of them is not believed.
    """
    now = max((now, *window.times[-1:]))
    rates, rooms = hourly(window, Kind.RATE), hourly(window, Kind.ROOM)
    changed, drifted = changes(window), drifts(rates)
    return History(
        node=_node(window),
        time=now,
        count=len(window.ids),
        first=window.times[0] if window.times else None,
        last=window.times[-1] if window.times else None,
        changes=changed,
        drifts=drifted,
        forecasts=forecasts(rooms, now),
        growths=growths(window),
        untold=untold(window, rates, rooms),
        notes=(*notes(window, rates, rooms), *of_ourselves(changed, drifted)),
        latest=latest,
    )


def _node(window: Window) -> str | None:
    """The name that it had last."""
    if not window.states:
        return None
    traits = window.state_by_id[window.states[-1]].traits
    names = (trait.value for trait in traits if trait.name == HOST_NAME)
    return next((name for name in names if isinstance(name, str)), None)
