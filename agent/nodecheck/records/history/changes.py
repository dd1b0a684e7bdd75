"""What a node was and is no longer: traits and findings that came, went or changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from nodecheck.model import Struct
from nodecheck.records.differences import Difference, by_name, by_subject, could_tell, differences
from nodecheck.records.series import Window
from nodecheck.records.state import State

FLAPPING = 4
"""Changes of one thing to and fro, from which they are told as one. Source: nodecheck's own
judgement: there and back, twice."""


class Change(Struct, frozen=True, kw_only=True):
    """A difference and the snapshot that showed it first; `time` in seconds since 1970.

    What goes to and fro is told once: `repeats` changes since `first`, the last of them here.
    """

    time: int
    snapshot: int
    difference: Difference
    repeats: int = 1
    first: int


def changes(window: Window) -> tuple[Change, ...]:
    """All changes, newest first. What a snapshot could not see stays as it was last known."""
    found = list(_each_change(window))
    by_thing: dict[_Thing, list[Change]] = {}
    for each in found:
        by_thing.setdefault(_thing(each), []).append(each)
    flapping = {thing: group for thing, group in by_thing.items() if _flaps(group)}
    told = []
    for each in found:
        group = flapping.get(_thing(each), [each])
        if each is group[-1]:
            repeats = msgspec.structs.replace(each, repeats=len(group), first=group[0].time)
            told.append(repeats)
    return tuple(sorted(told, key=lambda each: (-each.time, -each.snapshot)))


_Thing = tuple[str, str, str | None]


def _thing(change: Change) -> _Thing:
    what = change.difference
    return what.kind, what.name, what.where


def _flaps(group: list[Change]) -> bool:
    """Whether most of many changes have been there before: four drivers in turn are no flapping."""
    return len(group) >= FLAPPING and 2 * len({each.difference for each in group}) <= len(group)


def _each_change(window: Window) -> Iterator[Change]:
    """Oldest first; each pair of what was known and what was seen is compared once."""
    known: list[State] = []
    places: dict[State, int] = {}
    steps: dict[tuple[int, int], tuple[tuple[Difference, ...], int]] = {}
    at, last = -1, None
    for snapshot, time, number in zip(window.ids, window.times, window.states, strict=True):
        if number == last:
            continue
        last = number
        if (at, number) not in steps:
            new = window.state_by_id[number]
            merged = _carried(known[at], new) if known else new
            found = differences(known[at], merged) if known else ()
            place = places.setdefault(merged, len(known))
            known += [merged] if place == len(known) else []
            steps[at, number] = found, place
        found, at = steps[at, number]
        for each in found:
            yield Change(time=time, snapshot=snapshot, difference=each, first=time)


def _carried(known: State, new: State) -> State:
    """What is known after a snapshot: what it saw, and from before what it could not see."""
    traits, findings = by_name(new), by_subject(new)
    kept = [
        traits.pop(key, trait)
        for key, trait in by_name(known).items()
        if key in traits or not new.looked_at(trait.check, trait.field)
    ]
    unheard = [
        told
        for key, told in by_subject(known).items()
        if key not in findings and not could_tell(new.unseen, known.unseen, told.check)
    ]
    return State(
        traits=(*kept, *traits.values()),
        findings=(*new.findings, *unheard),
        unseen=tuple(
            sorted(
                (set(new.unseen) - new.blind_to(known)) | (set(known.unseen) - known.blind_to(new))
            )
        ),
    )
