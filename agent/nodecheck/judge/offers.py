"""What can be asked of nodes like this one: what it has, less what comes and goes on sound ones."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from nodecheck.judge.gate.gpus import looked_in_vain, usable, why_no_more
from nodecheck.judge.gate.links import GENERATION, WIDTH, pcie
from nodecheck.judge.node import best_read
from nodecheck.model import Measurement, Status, Struct
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import GB, count, gb_per_second, gib, percent

ENGINES_USE = (
    "ssse3", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512f", "avx512bw",
    "avx512vl", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16",
    "asimd", "asimddp", "i8mm", "bf16", "sve", "sve2",
)  # fmt: skip
"""Instruction sets that kernels of engines are written for. Source: the builds of llama.cpp and
vLLM for CPUs."""

WHOLE_SHARE = 0.8
"""Of the median read rate, where the node has its CPUs to itself. Source: over 13 s the passes of
an undisturbed thread lay between 0.88 and 1.12 of their median."""

SHARED_SHARE = 0.5
"""Of the median in a guest, or on a part of the CPUs. Source: two vCPUs read 35 GB/s on one die and
62 on two, and a host moves them while the guest runs."""

NOT_TOLD = "A gate with --quick, or on a busy node, cannot tell it: UNKNOWN"

LANES = (1, 2, 4, 8, 16)


class Offer(Struct, frozen=True):
    """A value to ask for, and what it was drawn from; without a value, why there is none."""

    value: tuple[str, ...] | str | float | None
    text: str


def _instruction_sets(report: Report) -> Offer:
    cpu = report.facts.cpu
    flags = cpu.usable_flags or ()
    found = tuple(name for name in ENGINES_USE if name in flags)
    if not found:
        return Offer(None, "none that engines are built for were seen")
    return Offer(
        found, f"Those that engines are built for, of {len(flags)} on {cpu.brand or cpu.arch}"
    )


def _dram_read(report: Report) -> Offer:
    best = best_read(report.measurements)
    if best is None:
        return Offer(None, f"not measured: {report.facts.dram.skipped or 'no figure'}")
    rate = f"{gb_per_second(best.median_bytes_per_second)} on {count(best.threads, 'thread')}"
    if best.flags:
        return Offer(None, f"{rate} is {' and '.join(best.flags)}")
    whole = _has_all_cpus(report)
    share = WHOLE_SHARE if whole else SHARED_SHARE
    floor = min(share * best.median_bytes_per_second, best.p10_bytes_per_second or math.inf)
    why = "bare metal" if whole else "a host may move vCPUs, and others share their memory"
    drawn = f"{percent(share)} of {rate}{_spread(best)}: {why}. {NOT_TOLD}"
    return Offer(_two_figures(floor), drawn)


def _has_all_cpus(report: Report) -> bool:
    usable_cpus, logical = report.facts.limits.usable_cpus, report.facts.cpu.logical_cpus
    part = usable_cpus is not None and logical is not None and len(usable_cpus) < logical
    return report.facts.virt.guest is False and not part


def _spread(best: Measurement) -> str:
    low, high = best.p10_bytes_per_second, best.p90_bytes_per_second
    if low is None or high is None:
        return ""
    return f" (p10 to p90 {gb_per_second(low)} to {gb_per_second(high)})"


def _two_figures(rate: float) -> float:
    step: int = 10 ** max(0, int(math.log10(rate)) - 1)
    return float(int(rate) // step * step)


def _disk_free(report: Report) -> Offer:
    """As much as the roomiest disk has left when disk.low would warn of it."""
    own = [f for f in report.facts.disk.filesystems if f.persistent and not f.network]
    best = max(own, key=lambda f: f.available_bytes or 0, default=None)
    if best is None or best.available_bytes is None or best.used_share is None:
        return Offer(None, "no disk of its own tells its room")
    limits, room = Thresholds(), best.total_bytes or 0
    if best.used_share < 1:
        room = round(best.available_bytes / (1 - best.used_share))
    low = min((1 - limits.disk_low_share) * room, limits.disk_large_bytes)
    floor = int(low // GB * GB)
    if floor <= limits.model_min_bytes:
        warns = f"disk.low would warn at {gib(low)} free on {best.mount}"
        return Offer(None, f"{warns}, of {gib(room)} that can be filled: too little to ask for")
    free = f"{gib(best.available_bytes)} are free on {best.mount}"
    return Offer(floor, f"{free}, where disk.low would warn at this")


def _gpus(report: Report) -> Offer:
    cards = usable(report)
    if not cards:
        return Offer(None, _why_no_gpu(report))
    names = sorted({gpu.name or gpu.vendor or "unnamed" for gpu in cards})
    return Offer(len(cards), f"{count(len(cards), 'GPU')}: {', '.join(names)}")


def _why_no_gpu(report: Report) -> str:
    in_vain = looked_in_vain(report.gaps)
    return why_no_more(report) if in_vain else "no GPU was seen that this node may use"


def _pcie(report: Report) -> Offer:
    """What is sure of the links even when all cards idle."""
    if not usable(report):
        return Offer(None, _why_no_gpu(report))
    answers = {each.name: each for each in pcie(_idle(report), Policy(), "gen1x1")}
    if unmet := [each.text for each in answers.values() if each.status is not Status.OK]:
        return Offer(None, "; ".join(dict.fromkeys(unmet)))
    generation, lanes = answers[GENERATION].value, answers[WIDTH].value
    if generation is None or lanes is None:
        return Offer(None, answers[WIDTH].text)
    wide = max(each for each in LANES if each <= lanes)
    seen = f"Every link has x{wide} or more"
    only = "; the generation is not sure while a card idles, so it is not asked for"
    can = f" and can run at Gen{generation:.0f}" if generation > 1 else only
    return Offer(f"gen{generation:.0f}x{wide}", seen + can)


def _idle(report: Report) -> Report:
    """The same node while its cards do nothing: links run slow."""
    facts = report.facts
    gpus = (
        replace(gpu, link_generation=gpu.link_generation and 1, performance_state=8,
                utilisation_share=0.0)
        for gpu in facts.gpus
    )  # fmt: skip
    paths = (
        replace(path, hops=tuple(
            replace(hop, current_gts=hop.current_gts and 2.5) for hop in path.hops
        ))
        for path in facts.pcie.paths
    )  # fmt: skip
    pcie_facts = replace(facts.pcie, paths=tuple(paths))
    return replace(report, facts=replace(facts, gpus=tuple(gpus), pcie=pcie_facts))


OFFERS: dict[str, Callable[[Report], Offer]] = {
    "instruction_sets": _instruction_sets,
    "dram_read_bytes_per_second": _dram_read,
    "disk_free_bytes": _disk_free,
    "gpus": _gpus,
    "pcie": _pcie,
}
"""Requirement -> what this node allows to be asked for."""
