"""Judges what the cards' memory and the driver's events say. One fault is told once."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import xid
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import card_key, evidence, label, labels, ours, reset
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count


def _failed_remaps(seen: Seen) -> tuple[list[Gpu], list[Xid]]:
    """The cards that say so, and the current events that do."""
    cards = [gpu for gpu in ours(seen) if gpu.remap_failure]
    events = [
        event
        for event in seen.facts.kernel_log.xids
        if event.code == xid.REMAP_FAILED
        and not event.recovered
        and not xid.is_harmless_remap(event)
    ]
    return cards, events


def _failed_keys(seen: Seen) -> set[str | None]:
    cards, events = _failed_remaps(seen)
    return {card_key(gpu.pci_address) for gpu in cards} | {card_key(e.pci_address) for e in events}


def judge_remap_failure(seen: Seen) -> Iterator[Finding]:
    """Memory that could not be repaired."""
    cards, events = _failed_remaps(seen)
    if not cards and not events:
        return
    known = {card_key(gpu.pci_address): gpu for gpu in seen.facts.gpus}
    names = [label(gpu) for gpu in cards]
    names += [
        label(known[key])
        if (key := card_key(event.pci_address)) in known
        else event.pci_address or "?"
        for event in events
    ]
    pieces = [evidence(gpu, "Remapping Failure Occurred: Yes", "No") for gpu in cards]
    pieces += [_event_evidence(seen, event) for event in events]
    yield Finding(
        id="gpu.remap_failure",
        severity=Severity.CRITICAL,
        subject=", ".join(dict.fromkeys(names)),
        summary="Faulty GPU memory could not be remapped",
        evidence=tuple(pieces),
        impact="Wrong results or stopped programs whenever the faulty rows are used; a reset "
        "does not "
        "repair it",
        remedy=Remedy(
            text="Take the card out of service and have it replaced; run the vendor's field "
            "diagnostics "
            "for the claim",
            action=Action.REPLACE,
            commands=("nvidia-smi -q -d ROW_REMAPPER,ECC",),
            cost="The card",
        ),
        owner=Owner.HARDWARE,
    )


def judge_remap_pending(seen: Seen) -> Iterator[Finding]:
    """Memory that the next reset repairs."""
    failed = _failed_keys(seen)
    cards = [
        gpu for gpu in ours(seen) if gpu.remap_pending and card_key(gpu.pci_address) not in failed
    ]
    cards = [gpu for gpu in cards if not gpu.remap_failure]
    if not cards:
        return
    yield Finding(
        id="gpu.remap_pending",
        severity=Severity.CRITICAL,
        subject=labels(cards),
        summary="Faulty GPU memory waits for a reset to be remapped",
        evidence=tuple(evidence(gpu, _remap_words(gpu), "Pending: No") for gpu in cards),
        impact="Until the reset a program that meets the faulty row is stopped",
        remedy=reset(
            cards,
            "Drain the card and reset it: that completes the remap. The card is not broken and "
            "need not "
            "be replaced",
        ),
        owner=Owner.OPERATOR,
    )


def _remap_words(gpu: Gpu) -> str:
    rows = gpu.remapped_rows_uncorrectable
    known = "" if rows is None else f", {count(rows, 'row')} remapped after uncorrectable errors"
    counted = gpu.ecc_volatile_uncorrectable
    errors = (
        "" if not counted else f", {count(counted, 'uncorrectable error')} since the driver loaded"
    )
    return f"remap pending{known}{errors}"


def _told_events(seen: Seen) -> list[tuple[Xid, xid.Meaning]]:
    """The events that no other finding tells better, the gravest first."""
    lost = set(lost_cards(seen))
    reset_due = _failed_keys(seen)
    reset_due |= {card_key(gpu.pci_address) for gpu in ours(seen) if gpu.remap_pending}
    told: list[tuple[Xid, xid.Meaning]] = []
    for event in seen.facts.kernel_log.xids:
        key = card_key(event.pci_address)
        meaning = xid.meaning(event)
        by_loss = key in lost or (event.code == xid.FALLEN_OFF and not event.recovered)
        by_remap = (
            event.code == xid.REMAP_FAILED
            and not event.recovered
            and (not xid.is_harmless_remap(event))
        )
        repaired_by_reset = key in reset_due and _is_of_the_remap(event, meaning)
        if meaning is not None and not (by_loss or by_remap or repaired_by_reset):
            told.append((event, meaning))
    return sorted(told, key=lambda pair: -pair[1].severity.rank)


def _is_of_the_remap(event: Xid, meaning: xid.Meaning | None) -> bool:
    """Whether an event of a card whose row is to be remapped is the same fault once more."""
    if event.code == xid.RECOVERY_ACTION:
        return meaning is not None and meaning.action is Action.RESET_GPU
    return event.code in (xid.ROW_REMAPPED, *xid.MEMORY_CODES)


def judge_xid(seen: Seen) -> Iterator[Finding]:
    """Events of the driver, each number and card once."""
    told = _told_events(seen)
    if not told:
        return
    groups: dict[tuple[int, str | None, bool], list[tuple[Xid, xid.Meaning]]] = {}
    for event, meaning in told:
        groups.setdefault((event.code, event.pci_address, event.recovered), []).append(
            (event, meaning)
        )
    first, worst = told[0]
    names = dict.fromkeys(event.pci_address or "address not said" for event, _ in told)
    yield Finding(
        id="gpu.xid",
        severity=worst.severity,
        subject=", ".join(names),
        summary=f"Xid {first.code}: {worst.text}",
        evidence=tuple(_group_evidence(seen, group) for group in groups.values()),
        impact=_xid_impact(worst.severity, sum(event.count for event, _ in told)),
        remedy=Remedy(
            text=f"{worst.step[:1].upper()}{worst.step[1:]}",
            action=worst.action,
            commands=("sudo dmesg | grep -E 'NVRM|Xid'",),
            cost="Work on the card ends" if worst.severity is not Severity.INFO else None,
        ),
        owner=Owner.HARDWARE if worst.severity is not Severity.INFO else Owner.USER,
    )


def _xid_impact(severity: Severity, events: int) -> str:
    if severity is Severity.INFO:
        return f"None on the node: {count(events, 'event')} of programs, or over since a reset"
    if severity is Severity.WARNING:
        return "Work on the card may have been stopped; it may come back"
    return "The card is likely to fail or to give wrong results until that is done"


def _group_evidence(seen: Seen, group: list[tuple[Xid, xid.Meaning]]) -> Evidence:
    event, meaning = group[0]
    piece = _event_evidence(seen, event)
    times = sum(event.count for event, _ in group)
    often = f" ({times} times)" if times > 1 else ""
    over = ", before the last reset, driver load or boot" if event.recovered else ""
    return Evidence(
        value=piece.value + often,
        source=piece.source,
        basis=f"{meaning.text}{over}; {meaning.step}",
    )


def _event_evidence(seen: Seen, event: Xid) -> Evidence:
    where = event.pci_address or "address not said"
    return Evidence(
        value=f"{where}: Xid {event.code}, {event.text}"[:240],
        source=seen.facts.kernel_log.source or "kernel log",
    )


def judge_ecc(seen: Seen) -> Iterator[Finding]:
    """Uncorrectable errors that neither a remap nor an event of the driver explains."""
    explained = set(lost_cards(seen)) | _failed_keys(seen)
    explained |= {
        card_key(event.pci_address)
        for event, meaning in _told_events(seen)
        if event.code in xid.MEMORY_CODES and meaning.severity is not Severity.INFO
    }
    cards = [
        gpu
        for gpu in ours(seen)
        if (gpu.ecc_volatile_uncorrectable or 0) > 0
        and not gpu.remap_pending
        and not gpu.remap_failure
        and (gpu.pci_address is None or card_key(gpu.pci_address) not in explained)
    ]
    if not cards:
        return
    yield Finding(
        id="gpu.ecc_uncorrectable",
        severity=Severity.WARNING,
        subject=labels(cards),
        summary="GPU memory had uncorrectable errors since the driver was loaded",
        evidence=tuple(
            evidence(
                gpu,
                f"{gpu.ecc_volatile_uncorrectable} uncorrectable",
                "0",
                "volatile count; no remap is pending or failed",
            )
            for gpu in cards
        ),
        impact="The programs that met the errors were stopped; more may follow",
        remedy=reset(
            cards, "Reset the card when its work is done, then watch whether the count grows"
        ),
        owner=Owner.HARDWARE,
    )
