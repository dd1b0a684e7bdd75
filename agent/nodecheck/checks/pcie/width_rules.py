"""Judges the lanes of a link. Idle cards slow their links down but do not narrow them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodecheck.checks.pcie.link import (
    Link,
    encoded_bytes_per_second,
    in_guest,
    links,
    look,
    once,
    subjects,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gb_per_second


def judge_width(seen: Seen) -> Iterator[Finding]:
    """Links with fewer lanes than their ends have."""
    all_links = list(links(seen))
    narrow = [
        (severity, link)
        for link in once(all_links)
        if (severity := _width_severity(link, all_links, seen)) is not None
    ]
    if narrow:
        yield _narrow(seen, sorted(narrow, key=lambda pair: -pair[0].rank))


def _width_severity(link: Link, all_links: Sequence[Link], seen: Seen) -> Severity | None:
    limits = seen.policy.thresholds
    width, device = link.width, link.device_width
    if width is None or device is None or width >= device:
        return None
    if width == 1:
        return Severity.CRITICAL
    if _is_wiring(link):
        return Severity.INFO if width >= limits.port_width_info_min else Severity.WARNING
    if width >= (link.wanted_width or 0):
        return None
    by_design = width >= limits.guest_width_min and not _wider_sibling(link, all_links)
    return Severity.INFO if in_guest(seen) and by_design else Severity.WARNING


def _is_wiring(link: Link) -> bool:
    """Whether the link is as wide as the upstream port itself can be."""
    return link.width is not None and link.port_width is not None and link.width >= link.port_width


def _wider_sibling(link: Link, all_links: Iterable[Link]) -> Link | None:
    """A card of the same model whose own link is wider."""
    if link.gpu is None or link.width is None:
        return None
    model = link.gpu.pci_device_id or link.gpu.name
    for other in all_links:
        if other.gpu is None or other.place != other.accelerator or other.width is None:
            continue
        if model == (other.gpu.pci_device_id or other.gpu.name) and other.width > link.width:
            return other
    return None


def _narrow(seen: Seen, narrow: Sequence[tuple[Severity, Link]]) -> Finding:
    severity, worst = narrow[0]
    guest, wiring = in_guest(seen), _is_wiring(worst)
    wanted = worst.device_width
    return Finding(
        id="pcie.width_below_max",
        severity=severity,
        subject=subjects(link for _, link in narrow),
        summary=f"PCIe link x{worst.width} of a device with "
        f"x{wanted}{_why(worst, severity, guest)}",
        evidence=tuple(_width_evidence(link) for _, link in narrow),
        impact=_width_impact(worst),
        remedy=_width_remedy([link for _, link in narrow], severity, guest=guest, wiring=wiring),
        owner=Owner.HYPERVISOR if guest else Owner.HARDWARE,
    )


def _why(link: Link, severity: Severity, guest: bool) -> str:
    if _is_wiring(link):
        return f": the slot has {link.port_width} lanes"
    if severity is Severity.INFO:
        return ": wiring of the platform, as far as a guest can tell"
    return "; what stands behind it is the host's to see" if guest else ""


def _width_evidence(link: Link) -> Evidence:
    ends = [f"device x{link.device_width}"]
    if link.port_width is not None:
        ends.append(f"port x{link.port_width}")
    if link.ceiling_width is not None:
        ends.append(f"device and system x{link.ceiling_width}")
    return Evidence(
        value=f"{link.place}: x{link.width}",
        source=link.source,
        expected=", ".join(ends),
        basis="the ends' own maxima; an idle card keeps its width",
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
            text="Measure host to device copies; ask the provider or look on the host which "
            "lanes the "
            "slot has. Nothing inside the guest changes it",
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
            "firmware "
            "splits the slot (bifurcation)",
            action=Action.RESEAT,
            cost="The node is off for the change",
        )
    return Remedy(
        text="Compare with the vendor's slot layout and the firmware's bifurcation setting "
        "first; if the "
        "slot should be wider, clean and reseat the card, then try another slot or riser",
        action=Action.RESEAT,
        commands=look(narrow),
        cost="The node is off for the change",
    )
