"""Judges the driver's events, and what it asks for, where no other finding tells it better."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nodecheck.checks.gpu import memory, xid
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.nvlink_rules import down_keys, unready_cards
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import (
    NVIDIA,
    card_key,
    foreign_keys,
    from_driver,
    ours,
    power_cycle,
    reset,
)
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count

RESETS = (Action.RESET_GPU, Action.REBOOT)


class Told(NamedTuple):
    """An event, or what the driver asks of a card without one (`event` is None)."""

    address: str | None
    meaning: xid.Meaning
    event: Xid | None
    gpu: Gpu | None = None


class _Elsewhere(NamedTuple):
    """The cards whose events other findings tell, or that are not ours."""

    foreign: set[str | None]
    lost: set[str]
    unready: list[Gpu]
    repaired_by_reset: set[str | None]
    worn: set[str | None]
    links_down: set[str | None]
    failed: list[Xid]

    def tells(self, event: Xid) -> bool:
        """Whether the event is such a finding's fault once more, or another's."""
        key = card_key(event.pci_address)
        if key in self.foreign or key in self.lost:
            return True
        if event.code == xid.FALLEN_OFF and not event.recovered:
            return True
        if key in self.repaired_by_reset and _is_of_the_remap(event):
            return True
        links = event.code in xid.NVLINK_CODES and key in self.links_down
        worn = event.code in xid.MEMORY_CODES and key in self.worn
        return event in self.failed or (not event.recovered and (links or worn))

    def asks(self, gpu: Gpu, meaning: xid.Meaning) -> bool:
        """Whether the driver wants such a fault's card recovered for it."""
        key = card_key(gpu.pci_address)
        by_reset = key in self.repaired_by_reset and meaning.action is Action.RESET_GPU
        unready = gpu in self.unready
        return gpu.lost or by_reset or unready or key in self.lost or key in self.links_down


def told_events(seen: Seen) -> list[Told]:
    """The events that no other finding tells better, the gravest first."""
    elsewhere = _Elsewhere(
        foreign=foreign_keys(seen),
        lost=set(lost_cards(seen)),
        unready=unready_cards(seen),
        repaired_by_reset=memory.failed_keys(seen) | memory.pending_keys(seen),
        worn=memory.worn_sram_keys(seen),
        links_down=down_keys(seen),
        failed=memory.failed_events(seen),
    )
    told = [
        Told(event.pci_address, meaning, event)
        for event in seen.facts.kernel_log.xids
        if (meaning := xid.meaning(event)) is not None and not elsewhere.tells(event)
    ]
    told += _asking(seen, told, elsewhere)
    return sorted(told, key=_order)


def _order(told: Told) -> tuple[int, bool, int]:
    """The gravest first, of equals what is current, then what asks for the longer step."""
    over = told.event is not None and told.event.recovered
    return -told.meaning.severity.rank, over, -_reach(told.meaning)


def _reach(meaning: xid.Meaning) -> int:
    """Of two steps the further one leads: a reboot resets the card too."""
    return RESETS.index(meaning.action) if meaning.action in RESETS else -1


def _is_of_the_remap(event: Xid) -> bool:
    """Whether an event of a card whose row is to be remapped is the same fault once more."""
    if event.code == xid.RECOVERY_ACTION:
        meaning = xid.meaning(event)
        return meaning is not None and meaning.action is Action.RESET_GPU
    return event.code in (xid.ROW_REMAPPED, *xid.MEMORY_CODES)


def _asking(seen: Seen, told: list[Told], elsewhere: _Elsewhere) -> Iterator[Told]:
    """Cards that the driver wants recovered, and nothing that is told says so."""
    for gpu in ours(seen):
        if gpu.recovery_action in (None, "none"):
            continue
        meaning = xid.asked(gpu.recovery_action or "")
        here = [each.meaning for each in told if _same_card(each.address, gpu)]
        grave = [each for each in here if each.severity is not Severity.INFO]
        said = any(_reach(each) >= _reach(meaning) for each in grave)
        if not said and not elsewhere.asks(gpu, meaning):
            yield Told(gpu.pci_address, meaning, None, gpu)


def _same_card(address: str | None, gpu: Gpu) -> bool:
    key = card_key(gpu.pci_address)
    return key is not None and card_key(address) == key


def judge_xid(seen: Seen) -> Iterator[Finding]:
    """Events of the driver, each number and card once."""
    told = told_events(seen)
    if not told:
        return
    groups: dict[tuple[int | None, str | None, bool], list[Told]] = {}
    for each in told:
        code, over = (each.event.code, each.event.recovered) if each.event else (None, False)
        groups.setdefault((code, each.address, over), []).append(each)
    first = told[0]
    worst = first.meaning
    names = dict.fromkeys(each.address or "address not said" for each in told)
    events = sum(each.event.count for each in told if each.event)
    yield Finding(
        id="gpu.xid",
        severity=worst.severity,
        subject=", ".join(names),
        summary=f"Xid {first.event.code}: {worst.text}"
        if first.event
        else f"The driver asks to {worst.step}",
        evidence=tuple(_group_evidence(seen, group) for group in groups.values()),
        impact=_impact(worst.severity, events),
        remedy=_remedy(seen, told),
        owner=Owner.HARDWARE if worst.severity is not Severity.INFO else Owner.USER,
    )


def _impact(severity: Severity, events: int) -> str:
    if severity is Severity.INFO:
        return f"None on the node: {count(events, 'event')} of programs, or over since a reset"
    if severity is Severity.WARNING:
        return "Work on the card may have been stopped; it may come back"
    return "The card is likely to fail or to give wrong results until that is done"


def _remedy(seen: Seen, told: list[Told]) -> Remedy:
    """The step of the gravest event, for all cards that have one as grave."""
    worst = told[0].meaning
    text = f"{worst.step[:1].upper()}{worst.step[1:]}"
    commands = ("sudo dmesg | grep -E 'NVRM|Xid'",)
    if worst.severity is Severity.INFO:
        return Remedy(text=text, action=worst.action, commands=commands)
    if worst.action in (Action.REBOOT, Action.COLD_RESTART):
        done = power_cycle(seen, text, "All work on the node ends")
    elif worst.action is Action.RESET_GPU:
        alike = [t for t in told if t.meaning.severity is worst.severity]
        keys = dict.fromkeys(each.address for each in alike if each.meaning.action is worst.action)
        done = reset([_card(seen, address) for address in keys], seen, text)
    else:
        cost = _COSTS.get(worst.action, "Work on the card ends")
        done = Remedy(text=text, action=worst.action, cost=cost)
    return Remedy(
        text=done.text,
        action=done.action,
        commands=(*done.commands, *commands),
        cost=done.cost,
    )


_COSTS = {
    Action.RESEAT: "The node is off for work on it",
    Action.RELOAD_DRIVER: "Work on the GPUs ends",
    Action.RESTART_ENGINE: "The programs on the card start anew",
    Action.INSPECT_HARDWARE: "None for asking",
}


def _card(seen: Seen, address: str | None) -> Gpu:
    key = card_key(address)
    known = (gpu for gpu in seen.facts.gpus if card_key(gpu.pci_address) == key)
    return next(known, Gpu(pci_address=address, vendor=NVIDIA))


def _group_evidence(seen: Seen, group: list[Told]) -> Evidence:
    address, meaning, event, gpu = group[0]
    if event is None:
        return _asked_evidence(gpu or _card(seen, address), meaning)
    piece = event_evidence(seen, event)
    times = sum(each.event.count for each in group if each.event)
    often = f" ({times} times)" if times > 1 else ""
    over = ", before the last reset, driver load or boot" if event.recovered else ""
    return Evidence(
        value=piece.value + often,
        source=piece.source,
        basis=f"{meaning.text}{over}; {meaning.step}",
    )


def _asked_evidence(gpu: Gpu, meaning: xid.Meaning) -> Evidence:
    errors = gpu.ecc_volatile_uncorrectable
    counted = f", {count(errors, 'uncorrectable memory error')}" if errors else ""
    asked = (gpu.recovery_action or "").removeprefix("action ")
    return Evidence(
        value=f"{gpu.label}: recovery action {asked}{counted}",
        source=from_driver(gpu),
        expected="none",
        basis=f"{meaning.text}; {meaning.step}",
    )


def event_evidence(seen: Seen, event: Xid) -> Evidence:
    """An event as the log has it."""
    where = event.pci_address or "address not said"
    return Evidence(
        value=f"{where}: Xid {event.code}, {event.text}"[:240],
        source=seen.facts.kernel_log.source or "kernel log",
    )
