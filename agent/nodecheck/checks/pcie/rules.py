"""Judges the links of the accelerators. Idle cards slow their links down but do not narrow them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodecheck.checks.pcie.link import (
    Link,
    encoded_bytes_per_second,
    generation,
    in_guest,
    links,
)
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gb_per_second


def judge_width(seen: Seen) -> Iterator[Finding]:
    """Links with fewer lanes than their ends have."""
    all_links = list(links(seen))
    narrow = [
        (severity, link)
        for link in _once(all_links)
        if (severity := _width_severity(link, all_links, seen)) is not None
    ]
    if narrow:
        yield _narrow(seen, sorted(narrow, key=lambda pair: -pair[0].rank))


def _once(all_links: Iterable[Link]) -> list[Link]:
    """A switch's uplink lies on the way of several cards and is one link."""
    return list({link.place: link for link in all_links}.values())


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
        subject=_subjects(link for _, link in narrow),
        summary=f"PCIe link x{worst.width} of a device with x{wanted}{_why(worst, severity, guest)}",
        evidence=tuple(_width_evidence(link) for _, link in narrow),
        impact=_width_impact(worst),
        remedy=_width_remedy(severity, guest=guest, wiring=wiring),
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
        f"at most {gb_per_second(now)} each way instead of {gb_per_second(full)}: slower loading, "
        "offload and traffic between cards; decode on one card does not use the link"
    )


def _width_remedy(severity: Severity, *, guest: bool, wiring: bool) -> Remedy:
    if guest:
        return Remedy(
            text="Measure host to device copies; ask the provider or look on the host which lanes the "
            "slot has. Nothing inside the guest changes it.",
            action=Action.NONE,
            commands=("on the host: lspci -vvv -s <address> | grep -E 'LnkCap:|LnkSta:'",),
        )
    if wiring and severity is Severity.INFO:
        return Remedy(
            text="None for one card: the slot is wired so. Several cards in tensor parallel and "
            "offload gain from a slot with more lanes.",
            action=Action.NONE,
        )
    if wiring or severity is Severity.CRITICAL:
        return Remedy(
            text="Use a slot with more lanes, without a riser or adapter; check whether the firmware "
            "splits the slot (bifurcation).",
            action=Action.RESEAT,
            cost="the node is off for the change",
        )
    return Remedy(
        text="Compare with the vendor's slot layout and the firmware's bifurcation setting first; if the "
        "slot should be wider, clean and reseat the card, then try another slot or riser.",
        action=Action.RESEAT,
        commands=("lspci -vvv -s <address> | grep -E 'LnkCap:|LnkSta:'",),
        cost="the node is off for the change",
    )


def _below_speed(seen: Seen) -> list[Link]:
    return [
        link
        for link in _once(links(seen))
        if link.gts is not None and link.wanted_gts is not None and link.gts < link.wanted_gts
    ]


def _is_loaded(link: Link, seen: Seen) -> bool | None:
    """Whether the card works in a state in which its link must be fast; None where it is stuck in
    a slow state under load, which is a finding of its own."""
    limits, gpu = seen.policy.thresholds, link.gpu
    if gpu is None or gpu.utilisation_share is None or gpu.performance_state is None:
        return False
    if gpu.utilisation_share < limits.busy_gpu_share:
        return False
    return True if gpu.performance_state <= limits.loaded_performance_state else None


def judge_speed(seen: Seen) -> Iterator[Finding]:
    """Links that stay slow while their card works."""
    slow = [link for link in _below_speed(seen) if _is_loaded(link, seen)]
    if not slow:
        return
    worst = min(slow, key=lambda link: (link.gts or 0) / (link.wanted_gts or 1))
    now = encoded_bytes_per_second(worst.gts, worst.width)
    full = encoded_bytes_per_second(worst.wanted_gts, worst.width)
    rates = f"at most {gb_per_second(now)} instead of {gb_per_second(full)}" if now and full else (
        f"{worst.gts} of {worst.wanted_gts} GT/s a lane"
    )
    yield Finding(
        id="pcie.speed_below_max",
        severity=Severity.WARNING,
        subject=_subjects(slow),
        summary=f"PCIe link at {generation(worst.gts)} under load, {generation(worst.wanted_gts)} possible",
        evidence=tuple(_speed_evidence(link) for link in slow),
        impact=f"{rates} each way for loading, offload and traffic between cards",
        remedy=_speed_remedy(guest=in_guest(seen)),
        owner=Owner.HYPERVISOR if in_guest(seen) else Owner.HARDWARE,
    )


def _speed_remedy(*, guest: bool) -> Remedy:
    if guest:
        return Remedy(
            text="Ask the host for the slot's own generation and error counters; a guest cannot see "
            "or change them.",
            action=Action.NONE,
            commands=("on the host: lspci -vvv -s <address> | grep -E 'LnkCap|LnkSta|LnkCtl2'",),
        )
    return Remedy(
        text="Check the slot's speed in the firmware setup (auto, not a fixed generation), then riser, "
        "cable and seating; LnkCtl2 tells whether someone capped the target speed.",
        action=Action.RESEAT,
        commands=("lspci -vvv -s <address> | grep -E 'LnkCap|LnkSta|LnkCtl2'",),
        cost="a reboot for the firmware setup; the node is off for reseating",
    )


def _speed_evidence(link: Link) -> Evidence:
    gpu = link.gpu
    busy = gpu.utilisation_share if gpu else None
    state = gpu.performance_state if gpu else None
    load = "load not known" if busy is None else f"{busy:.0%} busy"
    return Evidence(
        value=f"{link.place}: {generation(link.gts)}, {load}" + ("" if state is None else f", P{state}"),
        source=link.source,
        expected=generation(link.wanted_gts),
        basis="the slower of both ends' maxima",
    )


def judge_idle(seen: Seen) -> Iterator[Finding]:
    """Links that are slow while nothing is known to use them."""
    slow = [link for link in _below_speed(seen) if _is_loaded(link, seen) is False]
    if slow:
        yield Finding(
            id="pcie.idle_downshift",
            severity=Severity.INFO,
            subject=_subjects(slow),
            summary=f"PCIe link at {generation(slow[0].gts)} of {generation(slow[0].wanted_gts)}, "
            "not under load",
            evidence=tuple(_speed_evidence(link) for link in slow),
            impact="none: an idle card slows its link down to save power and is at full speed under "
            "load; whether it gets there was not seen",
            remedy=Remedy(text="None. Look again while the card works.", action=Action.NONE),
            owner=Owner.USER,
        )


def judge_host_limit(seen: Seen) -> Iterator[Finding]:
    """Links at the speed of a port that is older than the card."""
    limited = [link for link in _once(links(seen)) if _host_limit(link) is not None]
    if limited:
        first = limited[0]
        now = encoded_bytes_per_second(first.gts, first.width)
        full = encoded_bytes_per_second(first.device_gts, first.width)
        yield Finding(
            id="pcie.host_limit",
            severity=Severity.INFO,
            subject=_subjects(limited),
            summary=f"{generation(first.device_gts)} card in a {generation(first.gts)} slot, "
            "at the slot's full speed",
            evidence=tuple(_limit_evidence(link) for link in limited),
            impact=f"{gb_per_second(now)} each way; the card could do {gb_per_second(full)}"
            if now and full
            else "the slot's speed, not the card's",
            remedy=Remedy(text="None: only another board changes it.", action=Action.NONE),
            owner=Owner.HARDWARE,
        )


def _host_limit(link: Link) -> float | None:
    """The port's speed where it holds the card back and the link runs at it."""
    limit = link.port_gts if link.port_gts is not None else link.ceiling_gts
    if limit is None or link.device_gts is None or link.gts != limit:
        return None
    return limit if link.device_gts > limit else None


def _limit_evidence(link: Link) -> Evidence:
    return Evidence(
        value=f"{link.place}: {generation(link.gts)} x{link.width or '?'}",
        source=link.source,
        expected=f"device {generation(link.device_gts)}, port {generation(_host_limit(link))}",
        basis="the ends' own maxima",
    )


def judge_virtual_port(seen: Seen) -> Iterator[Finding]:
    """Ports that a hypervisor made up, on the way of an accelerator."""
    ports = {h.address: h for path in seen.facts.pcie.paths for h in path.hops if h.emulated}
    if ports:
        yield Finding(
            id="pcie.virtual_port",
            severity=Severity.INFO,
            subject=", ".join(sorted(ports)),
            summary="the accelerator hangs on an emulated PCIe port",
            evidence=tuple(
                Evidence(
                    value=f"{address}: {port.vendor}:{port.device}",
                    source=seen.facts.pcie.source or "sysfs",
                    basis="a vendor of emulated bridges; their speed and width are fiction",
                )
                for address, port in sorted(ports.items())
            ),
            impact="none by itself: the real slot is not visible here and its link is not judged",
            remedy=Remedy(text="None.", action=Action.NONE),
            owner=Owner.HYPERVISOR,
        )


def judge_unknown_link(seen: Seen) -> Iterator[Finding]:
    """Links of which the files are there and say nothing."""
    blind = {
        path.accelerator
        for path in seen.facts.pcie.paths
        if path.hops and path.hops[0].link_files and not path.hops[0].gone
    }
    unknown = [
        link
        for link in _once(links(seen))
        if link.place in blind and (link.width is None or link.gts is None)
    ]
    if unknown:
        yield Finding(
            id="pcie.unknown_link",
            severity=Severity.INFO,
            subject=_subjects(unknown),
            summary="PCIe speed or width is not told by the node",
            evidence=tuple(
                Evidence(
                    value=f"{link.place}: speed {link.gts or 'unknown'}, width {link.width or 'unknown'}",
                    source=link.source,
                    basis="0 and Unknown are no values",
                )
                for link in unknown
            ),
            impact="not known: the link can be neither blamed nor ruled out",
            remedy=Remedy(
                text="Ask on the host, or measure host to device copies. A virtual machine with a PCIe "
                "root port (type q35 rather than i440fx) shows the link.",
                action=Action.NONE,
                commands=("on the host: lspci -vvv -s <address> | grep -E 'LnkCap:|LnkSta:'",),
            ),
            owner=Owner.HYPERVISOR,
        )


def _subjects(affected: Iterable[Link]) -> str:
    return ", ".join(dict.fromkeys(link.accelerator for link in affected))


RULES: tuple[Rule, ...] = (
    Rule("pcie.width_below_max", "A link has fewer lanes than the card", judge_width),
    Rule("pcie.speed_below_max", "A link stays slow under load", judge_speed),
    Rule("pcie.idle_downshift", "A link is slow while its card is idle", judge_idle),
    Rule("pcie.host_limit", "The slot is of an older generation than the card", judge_host_limit),
    Rule("pcie.virtual_port", "An emulated port hides the real link", judge_virtual_port),
    Rule("pcie.unknown_link", "Speed or width of a link is not told", judge_unknown_link),
)
