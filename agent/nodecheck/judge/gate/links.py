"""Whether every GPU's PCIe link is known to be what was asked for, or known not to be.

A link falls to a lower generation while its card is idle, so what counts is what both of its ends
can do. In a guest the far end is the hypervisor's fiction, or not there: then only a link that runs
as fast as was asked is known to be able to. Lanes are those in use: an idle card keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodecheck.checks.pcie.link import Link, in_guest, links
from nodecheck.checks.pcie.speed_rules import is_loaded
from nodecheck.checks.seen import Seen
from nodecheck.judge.gate.answers import Answer, worst
from nodecheck.judge.gate.gpus import looked_in_vain, usable, why_no_more
from nodecheck.links import GENERATIONS
from nodecheck.model import Status, Struct
from nodecheck.policy import Policy
from nodecheck.quantities import parse_link
from nodecheck.report import Report

GENERATION, WIDTH = "pcie_generation", "pcie_width"


class _Judged(Struct, frozen=True):
    """What a link has of what was asked: a number that is sure, or why none is."""

    status: Status
    place: str
    has: int | None
    why: str = ""


def pcie(report: Report, policy: Policy, asked: str) -> Iterator[Answer]:
    """The slowest and the narrowest link of all usable GPUs, against a link as gen4x16."""
    generation, width = parse_link(asked)
    seen = Seen(facts=report.facts, policy=policy, live=report.host.source == "live")
    gpus = usable(report)
    found = [link for link in links(seen) if link.gpu in gpus]
    shown = [link.gpu for link in found]
    hidden = [g for g in gpus if g not in shown and not g.chip_to_chip]
    if not found and not hidden:
        status, text = _without_links(report, there=bool(gpus))
        yield Answer(name=GENERATION, status=status, text=text, critical_below=generation)
        yield Answer(name=WIDTH, status=status, text=text, critical_below=width)
        return
    dark = [_Judged(Status.UNKNOWN, g.pci_address or "GPU", None, "not seen") for g in hidden]
    speeds = [*dark, *(_speed(link, seen, generation) for link in found)]
    lanes = [*dark, *(_lanes(link, width) for link in found)]
    yield _answer(GENERATION, "gen", speeds, generation)
    yield _answer(WIDTH, "x", lanes, width)


def _without_links(report: Report, *, there: bool) -> tuple[Status, str]:
    """No GPU, or none that needs a link: who asks for links wants GPUs."""
    if there:
        return Status.OK, "PCIe not used: the GPU is beside the CPU"
    if looked_in_vain(report.gaps):
        return Status.UNKNOWN, f"PCIe: {why_no_more(report)}"
    return Status.CRITICAL, "PCIe: no GPU that may be used"


def _answer(name: str, unit: str, judged: Sequence[_Judged], least: int) -> Answer:
    """The answer of the worst link; of equal ones that which has least."""
    status = worst(each.status for each in judged)
    lead = min((j for j in judged if j.status is status), key=lambda j: j.has or 0)
    text = {
        Status.OK: f"PCIe {unit}{lead.has}",
        Status.CRITICAL: f"PCIe {unit}{lead.has} < {unit}{least}{lead.why}: {lead.place}",
        Status.UNKNOWN: f"PCIe {unit}{least} not known: {lead.place} {lead.why}",
    }[status]
    return Answer(name=name, status=status, text=text, value=lead.has, critical_below=least)


def _speed(link: Link, seen: Seen, least: int) -> _Judged:
    now, can, sure = GENERATIONS.get(link.gts or 0), *allowed_generation(link, guest=in_guest(seen))
    if now is not None and now >= least:
        return _Judged(Status.OK, link.place, can if can and sure else now)
    if can is not None and can < least:
        return _Judged(Status.CRITICAL, link.place, can)
    if now is not None and is_loaded(link, seen):
        return _Judged(Status.CRITICAL, link.place, now, " under load")
    if can is not None and sure:
        return _Judged(Status.OK, link.place, can)
    at = "does not tell its speed" if now is None else f"is at gen{now} and not known to be busy"
    return _Judged(Status.UNKNOWN, link.place, None, at)


def allowed_generation(link: Link, *, guest: bool) -> tuple[int | None, bool]:
    """The generation that the known ends allow, and whether none can bring it down further.

    What a driver says of device and system together is true where it sees the real port.
    """
    both = None if guest else link.ceiling_gts
    ends = (link.device_gts, link.port_gts, both)
    known = [GENERATIONS[gts] for gts in ends if gts in GENERATIONS]
    return min(known, default=None), both is not None or None not in ends[:2]


def _lanes(link: Link, least: int) -> _Judged:
    if link.width is None:
        return _Judged(Status.UNKNOWN, link.place, None, "does not tell its width")
    status = Status.OK if link.width >= least else Status.CRITICAL
    return _Judged(status, link.place, link.width)
