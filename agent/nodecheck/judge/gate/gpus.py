"""How many GPUs a node may use for certain."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import NVIDIA
from nodecheck.judge.gate.answers import Answer, why_unknown
from nodecheck.model import Gap, Reason, Status
from nodecheck.report import Report
from nodecheck.units import count

DRIVERS = ("nvml", "nvidia-smi")
"""Sources of a GPU that ask its driver."""

LOOKED_IN_VAIN = (Reason.TIMEOUT, Reason.FAILED, Reason.DENIED)


def usable(report: Report) -> tuple[Gpu, ...]:
    """The GPUs that this node may use, as far as it is known; each is there once."""
    facts = report.facts
    return tuple(g for g in facts.gpus if facts.grants(g) and not g.lost and not g.is_barred)


def gpus(report: Report, least: int) -> Answer:
    """GPUs that may be used for certain; those that no driver told of are in doubt."""
    possible = usable(report)
    sure = [g for g in possible if _is_sure(g, report)]
    doubtful = [g for g in possible if g not in sure and not _has_no_driver(g, report)]
    seen, value = count(len(sure), "GPU"), len(sure)
    if len(sure) >= least:
        return _answer(Status.OK, f"{seen} >= {least}", value, least)
    if looked_in_vain(report.gaps):
        return _answer(
            Status.UNKNOWN, f"{seen} of {least} sure: {why_no_more(report)}", None, least
        )
    if len(sure) + len(doubtful) >= least:
        on_pci = f"{len(doubtful)} more known from PCI alone"
        return _answer(Status.UNKNOWN, f"{seen} of {least} sure: {on_pci}", None, least)
    more = f" and {len(doubtful)} known from PCI alone" if doubtful else ""
    return _answer(Status.CRITICAL, f"{seen}{more} < {least}", value, least)


def _answer(status: Status, text: str, value: int | None, least: int) -> Answer:
    return Answer(name="gpus", status=status, text=text, value=value, critical_below=least)


def _is_sure(gpu: Gpu, report: Report) -> bool:
    """Whether its driver told of it; its file in /dev counts where nobody asked or could ask."""
    if not set(gpu.seen_by).isdisjoint(DRIVERS):
        return True
    asked = gpu.vendor == NVIDIA and report.facts.gpu.state is not None
    return bool(gpu.granted) and gpu.error is None and not asked


def _has_no_driver(gpu: Gpu, report: Report) -> bool:
    """A card that its driver does not list, or that has none, is of no use."""
    return gpu.vendor == NVIDIA and report.facts.gpu.state in ("ok", "missing")


def looked_in_vain(gaps: Iterable[Gap]) -> bool:
    """Whether the probe or the driver failed to tell which GPUs there are."""
    return any(
        gap.field == "*" or (gap.field == "gpus" and gap.reason in LOOKED_IN_VAIN)
        for gap in gaps
        if gap.check == "gpu"
    )


def why_no_more(report: Report) -> str:
    """Why it is not known which GPUs there are."""
    return why_unknown(report, "gpu", "gpus")
