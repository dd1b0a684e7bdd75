"""What a policy holds, at a terminal: what it asks for, what it lives with, what it sets."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from nodecheck.model import Struct
from nodecheck.policy import Policy, Waiver, in_units
from nodecheck.render.layout import Line, joined
from nodecheck.units import count

SOON = datetime.timedelta(days=30)
"""A waiver that expires within this time is worth a look now. Source: nodecheck's own judgement."""

INDENT = 13
SHIPPED = Policy()


def render(policy: Policy, today: datetime.date, width: int) -> list[Line]:
    """The lines; `today` (UTC) tells which waivers have expired."""
    sections: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("POLICY", (policy.name, _usable(policy, today))),
        ("REQUIRED", policy.required or ("nothing",)),
        ("MUST HAVE", tuple(_asked(policy)) or ("nothing",)),
        ("WAIVED", tuple(_waived(policy.waivers, today)) or ("nothing",)),
        ("THRESHOLDS", tuple(_changed(policy.thresholds, SHIPPED.thresholds)) or ("as shipped",)),
        ("MODEL", tuple(_changed(policy.reference_workload, SHIPPED.reference_workload))),
        ("HISTORY", tuple(_changed(policy.retention, SHIPPED.retention))),
    )
    return [line for label, items in sections if items for line in _section(label, items, width)]


def _usable(policy: Policy, today: datetime.date) -> str:
    expired = sum(not waiver.holds(today) for waiver in policy.waivers)
    ending = sum(ends_soon(waiver, today) for waiver in policy.waivers)
    told = ["can be used"]
    if expired:
        told.append(f"{count(expired, 'waiver')} expired")
    if ending:
        end = "ends" if ending == 1 else "end"
        told.append(f"{count(ending, 'waiver')} {end} within {SOON.days} days")
    return "; ".join(told)


def _section(label: str, items: tuple[str, ...], width: int) -> list[Line]:
    """Short items beside one another, sentences one below the other."""
    if not any(": " in item for item in items):
        return joined(label, items, INDENT, width)
    return [
        line
        for number, item in enumerate(items)
        for line in joined("" if number else label, (item,), INDENT, width)
    ]


def _asked(policy: Policy) -> Iterator[str]:
    for name in policy.requirements.__struct_fields__:
        value = getattr(policy.requirements, name)
        if value not in (None, ()):
            yield f"{name} {' '.join(value) if isinstance(value, tuple) else in_units(name, value)}"


def _changed(ours: Struct, shipped: Struct) -> Iterator[str]:
    """Members that a policy sets to something else, with what they were."""
    for name in ours.__struct_fields__:
        value, before = getattr(ours, name), getattr(shipped, name)
        if value != before:
            yield f"{name} {in_units(name, value)} (shipped: {in_units(name, before)})"


def _waived(waivers: tuple[Waiver, ...], today: datetime.date) -> Iterator[str]:
    for number, waiver in enumerate(waivers):
        where = f" on {waiver.subject}" if waiver.subject else ""
        twice = ", named twice" if _is_covered(waiver, waivers[:number]) else ""
        yield f"{waiver.id}{where}: {until(waiver, today)}{twice}: {waiver.reason}"


def ends_soon(waiver: Waiver, today: datetime.date) -> bool:
    """Whether it holds, and not for long."""
    return waiver.expires is not None and waiver.holds(today) and waiver.expires - today <= SOON


def until(waiver: Waiver, today: datetime.date) -> str:
    """How long it holds, with the days that are left."""
    if waiver.expires is None:
        return "for good"
    if not waiver.holds(today):
        return f"expired on {waiver.expires}"
    return f"until {waiver.expires} ({count((waiver.expires - today).days, 'day')} left)"


def _is_covered(waiver: Waiver, earlier: tuple[Waiver, ...]) -> bool:
    """Whether one before it is of the same finding, on the same subject or on any."""
    return any(w.id == waiver.id and w.subject in (None, waiver.subject) for w in earlier)
