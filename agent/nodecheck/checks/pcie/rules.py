"""Judges the links of the accelerators, and says where they cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.pcie.error_rules import judge_errors
from nodecheck.checks.pcie.link import judged, links, look, once, subjects
from nodecheck.checks.pcie.speed_rules import judge_host_limit, judge_idle, judge_speed
from nodecheck.checks.pcie.width_rules import judge_width
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity


def judge_virtual_port(seen: Seen) -> Iterator[Finding]:
    """Ports that a hypervisor made up, on the way of an accelerator."""
    ports = {h.address: h for path, _ in judged(seen) for h in path.hops if h.emulated}
    if ports:
        yield Finding(
            id="pcie.virtual_port",
            severity=Severity.INFO,
            subject=", ".join(sorted(ports)),
            summary="The accelerator hangs on an emulated PCIe port",
            evidence=tuple(
                Evidence(
                    value=f"{address}: {port.vendor}:{port.device}",
                    source=seen.facts.pcie.source or "sysfs",
                    basis="a vendor of emulated bridges; their speed and width are fiction",
                )
                for address, port in sorted(ports.items())
            ),
            impact="None by itself: the real slot is not visible here and its link is not judged",
            remedy=Remedy(text="None", action=Action.NONE),
            owner=Owner.HYPERVISOR,
        )


def judge_unknown_link(seen: Seen) -> Iterator[Finding]:
    """Links of which the files are there and say nothing."""
    blind = {
        path.accelerator
        for path in seen.facts.pcie.paths
        if path.hops and path.hops[0].link_files
        if not (path.hops[0].gone or path.hops[0].asleep)
    }
    unknown = [
        link
        for link in once(links(seen))
        if link.place in blind and (link.width is None or link.gts is None)
    ]
    if unknown:
        yield Finding(
            id="pcie.unknown_link",
            severity=Severity.INFO,
            subject=subjects(unknown),
            summary="The node does not tell the speed or the width of the PCIe link",
            evidence=tuple(
                Evidence(
                    value=f"{link.place}: speed {link.gts or 'unknown'}, width "
                    f"{link.width or 'unknown'}",
                    source=link.source,
                    basis="0 and Unknown are no values",
                )
                for link in unknown
            ),
            impact="Not known: the link can be neither blamed nor ruled out",
            remedy=Remedy(
                text="Ask on the host, or measure host to device copies. A virtual machine with a "
                "PCIe root port (type q35 rather than i440fx) shows the link",
                action=Action.NONE,
                commands=look(unknown, on_host=True),
            ),
            owner=Owner.HYPERVISOR,
        )


RULES: tuple[Rule, ...] = (
    Rule("pcie.width_below_max", "A link has fewer lanes than the card", judge_width),
    Rule("pcie.aer", "Errors on a link rise", judge_errors),
    Rule("pcie.speed_below_max", "A link stays slow under load", judge_speed),
    Rule("pcie.idle_downshift", "A link is slow while its card is idle", judge_idle),
    Rule("pcie.host_limit", "The slot is of an older generation than the card", judge_host_limit),
    Rule("pcie.virtual_port", "An emulated port hides the real link", judge_virtual_port),
    Rule("pcie.unknown_link", "Speed or width of a link is not told", judge_unknown_link),
)
