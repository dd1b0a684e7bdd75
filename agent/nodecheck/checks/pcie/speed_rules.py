"""Judges the speed of a link: under load as a fault, at idle as what it is."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
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
from nodecheck.checks.seen import Seen
from nodecheck.links import encoded_bytes_per_second, generation
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gb_per_second, percent

EQUALISED_FROM_GTS = 8.0
"""From this speed on both ends tune a link before they use it."""


def _below_speed(seen: Seen) -> list[Link]:
    def work(link: Link) -> float:
        return utilisation(link) + (1.0 if is_loaded(link, seen) else 0.0)

    return [
        link
        for link in once(links(seen), work)
        if link.gts is not None and link.wanted_gts is not None and link.gts < link.wanted_gts
    ]


def is_loaded(link: Link, seen: Seen) -> bool | None:
    """Whether the card works in a state in which its link must be fast.

    None where it is stuck in a slow state under load, which is a finding of its own.
    """
    limits, gpu = seen.policy.thresholds, link.gpu
    if link.copying:
        return True
    if gpu is None or (gpu.utilisation_share or 0) < limits.busy_gpu_share:
        return False
    if gpu.performance_state is None:
        return is_clocked_up(gpu) if gpu.vendor == AMD else False
    return True if gpu.performance_state <= limits.loaded_performance_state else None


def is_clocked_up(gpu: Gpu) -> bool | None:
    """Cards of AMD have no P-states: one that works at half of its clock or more is not idling.

    None where it is slower, or its clock is not known.
    """
    now, most = gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz
    return True if now is not None and most and 2 * now >= most else None


def judge_speed(seen: Seen) -> Iterator[Finding]:
    """Links that stay slow while their card works: held back by a setting, or not."""
    guest, all_links = in_guest(seen), list(links(seen))
    slow = [link for link in _below_speed(seen) if is_loaded(link, seen)]
    hidden = [link for link in slow if guest and _may_be_the_slots(link, all_links)]
    known = [link for link in slow if link not in hidden]
    for capped in (True, False):
        if some := [link for link in known if link.capped is capped]:
            yield _slow(some, capped=capped, guest=guest)
    if hidden:
        yield _unseen(hidden)


def _may_be_the_slots(link: Link, all_links: list[Link]) -> bool:
    """Whether a guest that sees no real port of the link cannot tell what its slot can do.

    A card of the same model that runs faster shows that the host can.
    """
    faster = any((other.gts or 0) > (link.gts or 0) for other in alike(link, all_links))
    return link.port is None and not faster


def _unseen(slow: list[Link]) -> Finding:
    worst = min(slow, key=lambda link: (link.gts or 0) / (link.wanted_gts or 1))
    return Finding(
        id="pcie.speed_below_max",
        severity=Severity.INFO,
        subject=subjects(slow),
        summary=f"PCIe link at {generation(worst.gts)} under load, the card can do "
        f"{generation(worst.wanted_gts)}; what its slot can do is the host's to see",
        evidence=tuple(_speed_evidence(link, "the card's own maximum") for link in slow),
        impact=f"{_rates(worst)}, unless the host's slot is of that generation",
        remedy=_speed_remedy(slow, capped=False, guest=True),
        owner=Owner.HYPERVISOR,
    )


def _rates(link: Link) -> str:
    now = encoded_bytes_per_second(link.gts, link.width)
    full = encoded_bytes_per_second(link.wanted_gts, link.width)
    rates = (
        f"At most {gb_per_second(now)} instead of {gb_per_second(full)}"
        if now and full
        else f"{link.gts} of {link.wanted_gts} GT/s a lane"
    )
    return f"{rates} each way for loading, offload and traffic between cards"


def _slow(slow: list[Link], *, capped: bool, guest: bool) -> Finding:
    worst = min(slow, key=lambda link: (link.gts or 0) / (link.wanted_gts or 1))
    why = f": its port is set to {generation(worst.target_gts)} at most" if capped else ""
    owner = Owner.OPERATOR if capped else Owner.HARDWARE
    return Finding(
        id="pcie.speed_below_max",
        severity=Severity.WARNING,
        subject=subjects(slow),
        summary=f"PCIe link at {generation(worst.gts)} under load, "
        f"{generation(worst.wanted_gts)} possible{why}",
        evidence=tuple(_speed_evidence(link) for link in slow),
        impact=_rates(worst),
        remedy=_speed_remedy(slow, capped=capped, guest=guest),
        owner=Owner.HYPERVISOR if guest else owner,
    )


def _speed_remedy(slow: list[Link], *, capped: bool, guest: bool) -> Remedy:
    if guest:
        return Remedy(
            text="Ask the host for the slot's own generation and error counters; a guest cannot "
            "see or change them",
            action=Action.NONE,
            commands=look(slow, on_host=True),
        )
    if capped:
        return Remedy(
            text="Find who set it: the firmware setup (set the slot to auto, not to a fixed "
            "generation), a boot script with setpci, or the kernel that cools a hot port down "
            "(cooling devices of type PCIe_Port_Link_Speed). Ask first whether a riser or cable "
            "that takes no more was the reason",
            action=Action.CHANGE_SETTING,
            commands=(*_look_at_ports(slow), "grep -H . /sys/class/thermal/cooling_device*/type"),
            cost="A reboot for the firmware setup",
        )
    return Remedy(
        text="Check the slot's speed in the firmware setup (auto, not a fixed generation), then "
        "riser, cable and seating; LnkCtl2 tells whether someone capped the target speed",
        action=Action.RESEAT,
        commands=look(slow),
        cost="A reboot for the firmware setup; the node is off for reseating",
    )


def _look_at_ports(slow: list[Link]) -> tuple[str, ...]:
    ports = dict.fromkeys(link.port for link in slow if link.port)
    return tuple(f"sudo lspci -vvv -s {port} | grep LnkCtl2" for port in list(ports)[:2])


def _speed_evidence(link: Link, basis: str = "the slower of both ends' maxima") -> Evidence:
    gpu = link.gpu
    busy = gpu.utilisation_share if gpu else None
    state = gpu.performance_state if gpu else None
    parts = ["load not known" if busy is None else f"{percent(busy)} busy"]
    if state is not None:
        parts.append(f"performance state P{state}")
    if link.copying:  # the source says so; load and state are those before the copies
        parts = []
    if link.capped:
        parts.append(f"target speed of {link.port} {generation(link.target_gts)} (LnkCtl2)")
    elif link.equalised is False and (link.wanted_gts or 0) >= EQUALISED_FROM_GTS:
        parts.append("not tuned for 8 GT/s (LnkSta2 EqualizationComplete-)")
    return Evidence(
        value=f"{link.place}: {', '.join([generation(link.gts), *parts])}",
        source=link.source,
        expected=generation(link.wanted_gts),
        basis=basis,
    )


def judge_idle(seen: Seen) -> Iterator[Finding]:
    """Links that are slow while nothing is known to use them."""
    slow = [link for link in _below_speed(seen) if is_loaded(link, seen) is False]
    if slow:
        capped = [link for link in slow if link.capped]
        yield Finding(
            id="pcie.idle_downshift",
            severity=Severity.INFO,
            subject=subjects(slow),
            summary=f"PCIe link at {generation(slow[0].gts)} of {generation(slow[0].wanted_gts)}, "
            "not under load",
            evidence=tuple(_speed_evidence(link) for link in slow),
            impact=_idle_impact(capped),
            remedy=Remedy(
                text="None. Look again while the card works",
                action=Action.NONE,
                commands=_look_at_ports(capped),
            ),
            owner=Owner.USER,
        )


def _idle_impact(capped: list[Link]) -> str:
    idle = "None: an idle card slows its link down to save power and is at full speed under load"
    if not capped:
        return f"{idle}; whether it gets there was not seen"
    lowest = min(link.target_gts or 0 for link in capped)
    return f"{idle}, but {subjects(capped)} at {generation(lowest)} at most: its port is set so"


def judge_host_limit(seen: Seen) -> Iterator[Finding]:
    """Links at the speed of a port that is older than the card."""
    limited = [link for link in once(links(seen)) if _host_limit(link) is not None]
    if limited:
        first = limited[0]
        now = encoded_bytes_per_second(first.gts, first.width)
        full = encoded_bytes_per_second(first.device_gts, first.width)
        yield Finding(
            id="pcie.host_limit",
            severity=Severity.INFO,
            subject=subjects(limited),
            summary=f"{generation(first.device_gts)} card in a {generation(first.gts)} slot, "
            "at the slot's full speed",
            evidence=tuple(_limit_evidence(link) for link in limited),
            impact=f"{gb_per_second(now)} each way; the card could do {gb_per_second(full)}"
            if now and full
            else "The slot's speed, not the card's",
            remedy=Remedy(text="None: only another board changes it", action=Action.NONE),
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
