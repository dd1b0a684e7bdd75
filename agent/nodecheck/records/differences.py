"""What two states of a node do not have in common, less what one of them could not see."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from nodecheck.model import Severity, Struct
from nodecheck.records.state import State, Told, Trait, covers

_CARDS, _LOG = ("gpu", "gpus"), ("kernel_log", "source")

READS = {
    "cpu": (_CARDS,),
    "cuda": (_CARDS, _LOG),
    "disk": (_CARDS, _LOG),
    "engine": (_CARDS,),
    "gpu": (_LOG,),
    "memory": (_CARDS, _LOG),
    "numa": (_CARDS,),
    "pcie": (_CARDS,),
}
"""Facts of others that the findings of a check rest on, and that a hung driver or a missing
permission hides. Source: the checks' rules."""


ASKED_FOR = frozenset({"dram.*", "engine.*", "python.*"})
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


def differences(before: State, after: State) -> tuple[Difference, ...]:
    """What differs: nodecheck's version and policy, then traits, then findings, the gravest first.

    What one side could not see is no difference. Of a device that came or went its first trait is
    told.
    """
    return (*_traits(before, after), *_findings(before, after))


def _traits(before: State, after: State) -> Iterator[Difference]:
    ours, theirs = by_name(before), by_name(after)
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
    ours, theirs = by_subject(before), by_subject(after)
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


def by_name(state: State) -> dict[tuple[str, str | None], Trait]:
    return {(trait.name, trait.where): trait for trait in state.traits}


def by_subject(state: State) -> dict[tuple[str, str], Told]:
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
