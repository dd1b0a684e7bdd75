"""Judges the lanes of a link. Idle cards slow their links down; those of AMD narrow them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodecheck.checks.pcie.link import (
    AMD,
    Link,
    alike,
    in_guest,
    links,
    look,
    once,
    subjects,
    utilisation,
)
from nodecheck.checks.pcie.speed_rules import is_clocked_up
from nodecheck.checks.seen import Seen
from nodecheck.links import GTS, encoded_bytes_per_second
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity, Struct
from nodecheck.units import gb_per_second

ID = "pcie.width_below_max"


class _Fault(Struct, frozen=True):
    """One narrow link, and what tells that it could be wider; `idle` that it may be by itself."""

    severity: Severity
    link: Link
    wider: Sequence[Link]
    idle: bool


def judge_width(seen: Seen) -> Iterator[Finding]:
    """Links with fewer lanes than their ends have: one finding for each severity and cause.

    A card whose width a policy waives has its own, so that the waiver covers no other card.
    """
    all_links = list(links(seen))
    alone = seen.policy.singled_out(ID)
    groups: dict[tuple[int, bool, bool, str], list[_Fault]] = {}
    for link in once(all_links):
        same = [other for other in alike(link, all_links) if other.width is not None]
        wider = [other for other in same if (other.width or 0) > (link.width or 0)]
        severity = _width_severity(link, len(wider), len(same), seen)
        if severity is not None:
            idle = not _is_wiring(link) and _may_be_idle(link, seen)
            if idle:
                severity = Severity.INFO
            own = link.accelerator if subjects([link]) in alone else ""
            cause = (-severity.rank, idle, _is_wiring(link), own)
            groups.setdefault(cause, []).append(_Fault(severity, link, wider, idle))
    for _, narrow in sorted(groups.items()):
        yield _narrow(narrow, guest=in_guest(seen))


def _width_severity(link: Link, wider: int, alike: int, seen: Seen) -> Severity | None:
    """`wider` of `alike` links of the same model of card have more lanes."""
    limits = seen.policy.thresholds
    width, device = link.width, link.device_width
    if width is None or device is None or width >= device:
        return None
    if width == 1:
        return Severity.CRITICAL
    if _is_wiring(link):
        odd = wider >= limits.wider_siblings_min and wider > alike / 2
        fine = width >= limits.port_width_info_min and not odd
        return Severity.INFO if fine else Severity.WARNING
    if width >= (link.wanted_width or 0):
        return None
    by_design = width >= limits.guest_width_min and not wider
    return Severity.INFO if in_guest(seen) and by_design else Severity.WARNING


def _is_wiring(link: Link) -> bool:
    """Whether the link is as wide as the upstream port itself can be."""
    return link.width is not None and link.port_width is not None and link.width >= link.port_width


def _may_be_idle(link: Link, seen: Seen) -> bool:
    """Whether the card narrowed its link to save power, or may have.

    Radeon cards list `0: 2.5GT/s, x1` as the idle level of their link (pp_dpm_pcie): one that runs
    faster is not at it. Other makers' cards keep their lanes.
    """
    if link.maker != AMD or link.copying or (link.gts or 0) > GTS[1]:
        return False
    works = utilisation(link) >= seen.policy.thresholds.busy_gpu_share
    return not (works or (link.gpu is not None and is_clocked_up(link.gpu)))


def _narrow(narrow: Sequence[_Fault], *, guest: bool) -> Finding:
    severity, worst, idle = narrow[0].severity, narrow[0].link, narrow[0].idle
    affected = [fault.link for fault in narrow]
    return Finding(
        id=ID,
        severity=severity,
        subject=subjects(affected),
        summary=f"PCIe link x{worst.width} of a device with "
        f"x{worst.device_width}" + (", not under load" if idle else _why(worst, severity, guest)),
        evidence=tuple(_width_evidence(fault) for fault in narrow),
        impact="None: an idle card of AMD may narrow its link to save power; whether it gets its "
        "lanes back under load was not seen"
        if idle
        else _width_impact(worst),
        remedy=Remedy(text="None. Look again while the card works", action=Action.NONE)
        if idle
        else _width_remedy(affected, severity, guest=guest, wiring=_is_wiring(worst)),
        owner=Owner.HYPERVISOR if guest else Owner.HARDWARE,
    )


def _why(link: Link, severity: Severity, guest: bool) -> str:
    if _is_wiring(link):
        return f": the slot has {link.port_width} lanes"
    if severity is Severity.INFO:
        return ": wiring of the platform, as far as a guest can tell"
    return "; what stands behind it is the host's to see" if guest else ""


def _width_evidence(fault: _Fault) -> Evidence:
    link = fault.link
    ends = [f"device x{link.device_width}"]
    if link.port_width is not None:
        ends.append(f"port x{link.port_width}")
    if link.ceiling_width is not None:
        ends.append(f"device and system x{link.ceiling_width}")
    for other in fault.wider[:1]:
        more = f" and {len(fault.wider) - 1} more" if len(fault.wider) > 1 else ""
        ends.append(f"x{other.width} of {other.accelerator}{more}, cards of the same model")
    return Evidence(
        value=f"{link.place}: x{link.width}",
        source=link.source,
        expected=", ".join(ends),
        basis="the ends' own maxima"
        + ("" if link.maker == AMD else "; an idle card keeps its width"),
    )


def _width_impact(link: Link) -> str:
    speed = link.wanted_gts or link.gts
    now = encoded_bytes_per_second(speed, link.width)
    full = encoded_bytes_per_second(speed, link.device_width)
    if now is None or full is None:
        return f"{link.width} of {link.device_width} lanes: that share of the transfer rate"
    return (
        f"At most {gb_per_second(now)} each way instead of {gb_per_second(full)}: slower loading, "
        "offload and traffic between cards; decode on one card does not use the link"
    )


def _width_remedy(narrow: list[Link], severity: Severity, *, guest: bool, wiring: bool) -> Remedy:
    if guest:
        return Remedy(
            text="Measure host to device copies; ask the provider or look on the host which lanes "
            "the slot has. Nothing inside the guest changes it",
            action=Action.NONE,
            commands=look(narrow, on_host=True),
        )
    if wiring and severity is Severity.INFO:
        return Remedy(
            text="None for one card: the slot is wired so. Several cards in tensor parallel and "
            "offload gain from a slot with more lanes",
            action=Action.NONE,
        )
    if wiring or severity is Severity.CRITICAL:
        return Remedy(
            text="Use a slot with more lanes, without a riser or adapter; check whether the "
            "firmware splits the slot (bifurcation)",
            action=Action.RESEAT,
            cost="The node is off for the change",
        )
    return Remedy(
        text="Compare with the vendor's slot layout and the firmware's bifurcation setting first; "
        "if the slot should be wider, clean and reseat the card, then try another slot or riser",
        action=Action.RESEAT,
        commands=look(narrow),
        cost="The node is off for the change",
    )
