"""What a node was and is no longer: traits and findings that came, went or changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from nodecheck.model import Severity, Struct
from nodecheck.records.series import Window
from nodecheck.records.state import State, Told, Trait, covers

FLAPPING = 4
"""Changes of one thing to and fro, from which they are told as one. Source: nodecheck's own
judgement: there and back, twice."""

_CARDS, _LOG = ("gpu", "gpus"), ("kernel_log", "source")

READS = {
    "cpu": (_CARDS,),
    "disk": (_CARDS, _LOG),
    "gpu": (_LOG,),
    "memory": (_CARDS, _LOG),
    "numa": (_CARDS,),
    "pcie": (_CARDS,),
}
"""Facts of others that the findings of a check rest on, and that a hung driver or a missing
permission hides. Source: the checks' rules."""


ASKED_FOR = frozenset({"dram.*", "python.*"})
"""Probes that rest unless they are asked for: no failure."""


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that is not as before. `name` is a trait's, or a finding's id; `where` its subject.

    `before` is None where it appeared, `after` where it has gone; of a finding they are severities.
    Of a trait that is a set both are None, and `gained` and `lost` tell its members.
    """

    kind: Literal["trait", "finding"]
    name: str
    where: str | None
    before: str | None = None
    after: str | None = None
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def is_set(self) -> bool:
        """Whether it has members that came and went instead of two values."""
        return bool(self.gained or self.lost)


class Change(Struct, frozen=True, kw_only=True):
    """A difference and the snapshot that showed it first; `time` in seconds since 1970.

    What goes to and fro is told once: `repeats` changes since `first`, the last of them here.
    """

    time: int
    snapshot: int
    difference: Difference
    repeats: int = 1
    first: int


def differences(before: State, after: State) -> tuple[Difference, ...]:
    """What differs: nodecheck's version, then traits, then findings, the gravest first.

    What one side could not see is no difference. Of a device that came or went its first trait is
    told.
    """
    return (*_traits(before, after), *_findings(before, after))


def _traits(before: State, after: State) -> Iterator[Difference]:
    ours, theirs = _by_name(before), _by_name(after)
    devices: set[str | None] = {None}
    for key in ours | theirs:
        one, other = ours.get(key), theirs.get(key)
        trait = one or theirs[key]
        old, new = one.value if one else None, other.value if other else None
        if one and other:
            if old != new:
                yield _trait(trait, old, new)
        elif (after if one else before).looked_at(trait.check, trait.field):
            if trait.where is None or trait.where not in devices:
                yield _trait(trait, old, new)
            devices.add(trait.where)


_Value = str | tuple[str, ...] | None


def _trait(trait: Trait, before: _Value, after: _Value) -> Difference:
    difference = Difference(kind="trait", name=trait.name, where=trait.where)
    if isinstance(trait.value, str):
        return msgspec.structs.replace(difference, before=before, after=after)
    old, new = set(before or ()), set(after or ())
    gained, lost = tuple(sorted(new - old)), tuple(sorted(old - new))
    return msgspec.structs.replace(difference, gained=gained, lost=lost)


def _findings(before: State, after: State) -> list[Difference]:
    ours, theirs = _by_subject(before), _by_subject(after)
    found = []
    for key in ours | theirs:
        one, other = ours.get(key), theirs.get(key)
        told = one or theirs[key]
        if one and other:
            news = one.severity is not other.severity
        else:
            lacking, having = (after, before) if one else (before, after)
            news = could_tell(lacking.unseen, having.unseen, told.check)
        if news:
            found.append(_finding(told, one, other))
    return sorted(found, key=lambda each: (-_rank(each), each.name, each.where or ""))


def _finding(told: Told, one: Told | None, other: Told | None) -> Difference:
    return Difference(
        kind="finding",
        name=told.id,
        where=told.subject,
        before=one.severity.value if one else None,
        after=other.severity.value if other else None,
    )


def _rank(difference: Difference) -> int:
    return max(Severity(each).rank for each in (difference.before, difference.after) if each)


def _by_name(state: State) -> dict[tuple[str, str | None], Trait]:
    return {(trait.name, trait.where): trait for trait in state.traits}


def _by_subject(state: State) -> dict[tuple[str, str], Told]:
    return {(told.id, told.subject): told for told in state.findings}


def could_tell(unseen: Collection[str], having: Collection[str], check: str) -> bool:
    """Whether who lacks a finding of a check has seen what it rests on, as who has it did.

    Both tell what they could not see. A probe that failed whole leaves all findings open: rules
    read the facts of other checks.
    """
    blind = {each for each in unseen if not covers(having, each)}
    failed = {each for each in blind if each.endswith(".*")} - ASKED_FOR
    facts = map(".".join, READS.get(check, ()))
    return (
        not failed
        and not any(each.startswith(f"{check}.") for each in blind)
        and not any(covers(unseen, fact) and not covers(having, fact) for fact in facts)
    )


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
    traits, findings = _by_name(new), _by_subject(new)
    kept = [
        traits.pop(key, trait)
        for key, trait in _by_name(known).items()
        if key in traits or not new.looked_at(trait.check, trait.field)
    ]
    unheard = [
        told
        for key, told in _by_subject(known).items()
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
