"""Judges errors on the links: what was lost, and what had to be sent again more than is normal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodecheck.checks.pcie.facts import Errors, Hop, Path, ends_of, expected_replays
from nodecheck.checks.pcie.link import in_guest, judged
from nodecheck.checks.seen import Seen
from nodecheck.links import generation, is_normal, normal_errors_per_minute
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity, Struct
from nodecheck.thresholds import Thresholds
from nodecheck.units import count

LOOKS_AT_MOST = 2
"""Commands that are shown where many devices are affected."""


class _Trouble(Struct, frozen=True):
    """Errors of one device: how many of the kind that counts, and how many a minute are normal.

    `link` is the lower end of the link that the device is an end of.
    """

    severity: Severity
    accelerator: str
    place: str
    link: str
    errors: int
    seconds: float
    normal: float | None
    evidence: Evidence
    unjudged: bool = False


def judge_errors(seen: Seen) -> Iterator[Finding]:
    """Errors that rose between two samples, and replays while copies ran.

    What both ends of a link and its copies tell is one fault, as bad as the worst of it.
    """
    found = [*_counted(seen), *_copied(seen)]
    worst: dict[str, Severity] = {}
    for each in found:
        known = worst.setdefault(each.link, each.severity)
        worst[each.link] = max(known, each.severity, key=lambda severity: severity.rank)
    for severity in (Severity.CRITICAL, Severity.WARNING, Severity.INFO):
        if some := [each for each in found if worst[each.link] is severity]:
            yield _finding(severity, some, guest=in_guest(seen))


def normal_per_minute(gts: float | None, lanes: int | None, limits: Thresholds) -> float | None:
    """Errors that a healthy link corrects a minute: GT/s x 60 / 1000 a lane, rounded up.

    Source: the replay rates of DCGM's health check.
    """
    if gts is None or lanes is None:
        return None
    return normal_errors_per_minute(gts, lanes, limits.replays_per_minute_per_gts)


def _counted(seen: Seen) -> Iterator[_Trouble]:
    """By Advanced Error Reporting, each device once: a switch lies on the way of several cards."""
    known: set[str] = set()
    for path, _ in judged(seen):
        for place, hop in enumerate(path.hops):
            if hop.address in known or hop.emulated:
                continue
            known.add(hop.address)
            if hop.aer_rise is not None and (each := _rise(seen, path, place, hop.aer_rise)):
                yield each


def _rise(seen: Seen, path: Path, place: int, rise: Errors) -> _Trouble | None:
    hop, limits = path.hops[place], seen.policy.thresholds
    seconds = seen.facts.pcie.window_seconds or 0.0
    ends = ends_of(path.hops, place)
    normal = normal_per_minute(*_full_link(ends), limits)
    expected = None if normal is None else normal * seconds / 60
    severity, errors, what = Severity.INFO, rise.correctable, "corrected"
    if rise.uncorrected:
        severity, errors, what = Severity.CRITICAL, rise.uncorrected, "uncorrected"
    elif expected is not None and not is_normal(rise.of_link, expected, limits.link_errors_chance):
        severity, errors = Severity.WARNING, rise.of_link
    elif not errors:
        errors, what = rise.refused, "refused"
    if not errors:
        return None
    lost = severity is Severity.CRITICAL
    names = f" ({rise.named})" if rise.named else ""
    evidence = Evidence(
        value=f"{hop.address}: {count(errors, f'{what} error')} in {seconds:.1f} s{names}",
        source=f"sysfs aer_dev_* of {hop.address}, read twice",
        expected="0" if lost else _expected(normal, expected),
        basis="what cannot be corrected is lost" if lost else _basis(limits),
    )
    return _Trouble(
        severity=severity,
        accelerator=path.accelerator,
        place=hop.address,
        link=ends[0].address,
        errors=errors,
        seconds=seconds,
        normal=normal,
        unjudged=normal is None and rise.of_link > 0,
        evidence=evidence,
    )


def _full_link(ends: Sequence[Hop]) -> tuple[float | None, int | None]:
    """Speed and lanes of a link at its fastest.

    A card that is woken between two samples speeds its link up.
    """
    real = [hop for hop in ends if not hop.emulated]
    speeds = [hop.maximum_gts for hop in real if hop.maximum_gts]
    widths = [hop.current_width or hop.maximum_width for hop in real]
    return min(speeds, default=None), min((w for w in widths if w), default=None)


def _expected(normal: float | None, expected: float | None) -> str | None:
    if normal is None or expected is None:
        return None
    return f"{normal:.0f} a minute, {expected:.2g} in that time"


def _basis(limits: Thresholds) -> str:
    return (
        "policy replays_per_minute_per_gts for each lane; chance reaches more than is normal once "
        f"in {1 / max(limits.link_errors_chance, 1e-18):,.0f} times"
    )


def _copied(seen: Seen) -> Iterator[_Trouble]:
    """By the card itself, while it copied: all its copies have one count."""
    limits = seen.policy.thresholds
    for card in dict.fromkeys(each.card for each in seen.transfers):
        known = ((t, expected_replays(t, limits)) for t in seen.transfers if t.card == card)
        told, expected = next((pair for pair in known if pair[1] is not None), (None, None))
        if told is None or expected is None or not told.replays or not told.replay_seconds:
            continue
        usual = is_normal(told.replays, expected, limits.link_errors_chance)
        normal = expected * 60 / told.replay_seconds
        evidence = Evidence(
            value=f"{card}: {count(told.replays, 'replay')} in {told.replay_seconds:.0f} s of "
            f"copies, {generation(told.link_gts)} x{told.link_width}",
            source=f"NVML replay counter of {card}, before and after",
            expected=_expected(normal, expected),
            basis=_basis(limits),
        )
        severity = Severity.INFO if usual else Severity.WARNING
        yield _Trouble(
            severity=severity,
            accelerator=card,
            place=card,
            link=card,
            errors=told.replays,
            seconds=told.replay_seconds,
            normal=normal,
            evidence=evidence,
        )


def _finding(severity: Severity, found: Sequence[_Trouble], *, guest: bool) -> Finding:
    worst = max(
        (each for each in found if each.severity is severity),
        key=lambda each: each.errors / (each.seconds or 1),
    )
    unjudged = severity is Severity.INFO and any(each.unjudged for each in found)
    owner = Owner.HYPERVISOR if guest else Owner.HARDWARE
    return Finding(
        id="pcie.aer",
        severity=severity,
        subject=", ".join(dict.fromkeys(each.accelerator for each in found)),
        summary=_UNJUDGED if unjudged else _SUMMARIES[severity],
        evidence=tuple(each.evidence for each in found),
        impact=_UNJUDGED_IMPACT if unjudged else _impact(severity, worst),
        remedy=_remedy(severity, found, guest=guest),
        owner=Owner.USER if severity is Severity.INFO else owner,
    )


_SUMMARIES = {
    Severity.CRITICAL: "PCIe errors that nothing corrects, on the way to an accelerator",
    Severity.WARNING: "More PCIe errors are corrected than a healthy link has",
    Severity.INFO: "PCIe errors were corrected or refused; nothing tells of a bad link",
}


_UNJUDGED = "PCIe errors were corrected on a link of unknown speed: whether too many is not judged"
_UNJUDGED_IMPACT = "Not known: what is normal grows with the link's speed and lanes"


def _impact(severity: Severity, worst: _Trouble) -> str:
    minute = worst.errors * 60 / worst.seconds if worst.seconds else None
    if severity is Severity.CRITICAL:
        return (
            f"{count(worst.errors, 'transfer')} lost in {worst.seconds:.1f} s: programs on the "
            "card fail, and it may fall off the bus"
        )
    if severity is Severity.INFO or minute is None:
        return "None seen: what is corrected is sent again"
    more = f", {minute / worst.normal:.0f} times what is normal" if worst.normal else ""
    return (
        f"{minute:.0f} errors a minute{more}: each is sent again, copies slow down, and a link "
        "that gets worse retrains slower or drops"
    )


def _remedy(severity: Severity, found: Iterable[_Trouble], *, guest: bool) -> Remedy:
    places = list(dict.fromkeys(each.place for each in found))
    if severity is Severity.INFO:
        return Remedy(
            text="None. Physical-layer errors that rise faster later on point to riser, slot or "
            "cable; refused requests (UnsupReq, and NonFatalErr with it) to a driver",
            action=Action.NONE,
        )
    if guest:
        return Remedy(
            text="Tell the provider, or look on the host: riser, slot and cable are not the "
            "guest's to touch",
            action=Action.NONE,
            commands=("sudo dmesg | grep -E 'AER|PCIe Bus Error'  # on the host",),
        )
    counters = (
        f"grep -H . /sys/bus/pci/devices/{place}/aer_dev_*" for place in places[:LOOKS_AT_MOST]
    )
    return Remedy(
        text="Drain the node and power it off; clean and reseat the card, its riser and its "
        "cables, and try another slot. Errors that stay with the slot are the board's, those that "
        "go with the card are the card's: replace that part"
        + (
            ". RxErr, BadTLP, BadDLLP, Timeout and Rollover are the link's own"
            if severity is Severity.WARNING
            else ". The kernel's log names the device and the request"
        ),
        action=Action.RESEAT,
        commands=(*counters, "sudo dmesg | grep -E 'AER|PCIe Bus Error'"),
        cost="The node is off for reseating",
    )
