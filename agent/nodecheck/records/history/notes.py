"""What the snapshots of a node cannot tell, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from nodecheck.records.figures import LOGGED, Kind
from nodecheck.records.history import drift, forecast
from nodecheck.records.history.changes import Change
from nodecheck.records.history.drift import Drift
from nodecheck.records.history.growth import span_of_log, spans_read
from nodecheck.records.series import DAY, HOUR, Series, Window, picked
from nodecheck.records.state import VERSION
from nodecheck.units import count, listed

Untold = Literal["drifts", "forecasts", "growths"]

COUNTED = {
    "GPU ECC": ("ecc_",),
    "Xid": (LOGGED,),
    "PCIe": ("pcie_", "aer_"),
    "RAM": ("ram_",),
    "file system": ("disk_",),
}
"""Errors that are counted, and how the names of their counters start."""

OF_CARDS = ("GPU ECC", "Xid")
"""Errors that a node without a GPU cannot have."""


def untold(window: Window, rates: Iterable[Series], rooms: Iterable[Series]) -> tuple[Untold, ...]:
    """Of what nothing could be told, were there any; series with a point an hour at most."""
    known: dict[Untold, bool] = {
        "drifts": any(drift.is_enough(each.clean()) for each in rates),
        "forecasts": any(forecast.is_enough(each.points()) for each in rooms),
        "growths": bool(_counted(window)),
    }
    return tuple(name for name, some in known.items() if not some)


def notes(window: Window, rates: Sequence[Series], rooms: Sequence[Series]) -> Iterator[str]:
    """Sentences on what more snapshots, or other rights, would tell; none of one snapshot."""
    if len(window.ids) < 2:
        return
    yield from _unmeasured(window)
    yield from _few_measurements(rates)
    yield from _short_of_room(rooms)
    yield from _uncounted(window)


def of_ourselves(changed: Iterable[Change], drifted: Iterable[Drift]) -> Iterator[str]:
    """A figure that left its level with an update may be measured otherwise."""
    updates = [each.time for each in changed if each.difference.name == VERSION]
    if any(abs(each.since - time) < DAY for each in drifted for time in updates):
        yield "A drift began on the day that nodecheck was changed, which may measure otherwise now"


def _unmeasured(window: Window) -> Iterator[str]:
    measured = picked(window, Kind.RATE)
    without = sum(layout not in measured for layout in window.layouts)
    if without and measured:
        yield f"{without:,} of {count(len(window.ids), 'snapshot')} hold no measurements"
    elif without:
        yield "Drift needs measurements; no snapshot holds any (--quick leaves them out)"


def _few_measurements(rates: Sequence[Series]) -> Iterator[str]:
    few = [series for series in rates if not drift.is_enough(series.clean())]
    if few:
        most = max(few, key=lambda series: len(series.clean()))
        clean = most.clean()
        days = len({time // DAY for time, _ in clean})
        others = len(most.times) - len(clean)
        disturbed = f", and {others:,} disturbed" if others else ""
        yield (
            f"Drift needs {drift.POINTS_MIN} undisturbed measurements an hour apart, on "
            f"{drift.DAYS_BEFORE + 1} days; "
            f"{_there(few, rates, 'figures', len(clean))} {len(clean)} on "
            f"{count(days, 'day')}{disturbed}"
        )


def _short_of_room(rooms: Sequence[Series]) -> Iterator[str]:
    few = [series for series in rooms if not forecast.is_enough(series.points())]
    if few:
        longest = max(few, key=lambda series: series.times[-1] - series.times[0])
        number, seconds = len(longest.times), longest.times[-1] - longest.times[0]
        would_do = number > forecast.LOSSES_MIN and seconds >= forecast.SHORTEST_SECONDS
        yield (
            f"A forecast needs {forecast.LOSSES_MIN + 1} snapshots an hour apart, over "
            f"{count(forecast.SHORTEST_SECONDS // HOUR, 'hour')}; "
            f"{_there(few, rooms, 'figures of free space', number)} {number} over "
            f"{count(seconds // HOUR, 'hour')}{', but too unevenly spread' if would_do else ''}"
        )
    elif not rooms:
        yield "A forecast needs the free space of a file system; no snapshot holds any"


def _there(few: Sequence[Series], every: Sequence[Series], noun: str, number: int) -> str:
    """There are, or some of the figures have at most."""
    if len(few) == len(every):
        return "there is" if number == 1 else "there are"
    return f"{len(few)} of {len(every)} {noun} had at most"


def _uncounted(window: Window) -> Iterator[str]:
    """What a node with cards, or without, could have counters of."""
    cards = any(
        trait.check == "gpu" and trait.field.startswith(("gpus", "on_pci"))
        for state in window.state_by_id.values()
        for trait in state.traits
    )
    possible = [name for name in COUNTED if cards or name not in OF_CARDS]
    unknown = [name for name in possible if name not in _counted(window)]
    if unknown:
        yield f"Error counters need two readings; fewer were made of {listed(unknown)}"


def _counted(window: Window) -> set[str]:
    """The errors whose counters were read at two times at least."""
    read = {metric.name for metric, (first, last) in spans_read(window).items() if first < last}
    found = {what for what, starts in COUNTED.items() if any(n.startswith(starts) for n in read)}
    log = span_of_log(window)
    return found | {"Xid"} if log and log[0] < log[1] else found
