"""The part of a token that runs on the CPU: the slower of reading weights and using them up."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge import ceilings, node
from nodecheck.judge.ceilings import Range
from nodecheck.model import Measurement, Struct, Workload
from nodecheck.units import GB, gb_per_second


class CpuStage(Struct, frozen=True):
    """What a byte of weights costs: `seconds_per_byte` is fastest to slowest.

    With `ceiling_only` the slowest is not known, since the memory was not measured.
    """

    seconds_per_byte: Range
    limit: str
    basis: str
    ceiling_only: bool


def cpu_stage(seen: Seen, work: Workload) -> CpuStage | str:
    """What weights on this CPU cost, or why that is not known."""
    cpu = seen.facts.cpu
    if cpu.arch != "x86_64":
        return f"no reference rates for {cpu.arch or 'this architecture'}"
    flags = cpu.usable_flags or cpu.flags
    level = ceilings.engine_level(flags) if flags else None
    cores = node.cores(seen)
    if level is None or cores is None:
        return "the CPU's instruction sets or its number of CPUs are not known"
    rate = ceilings.core_rate(level, work.weight_type)
    if rate is None:
        return f"no reference rate for {work.weight_type} weights"
    compute = Range(cores.floor * rate.floor, cores.high * rate.high)
    return _slower(compute, node.best_read(seen.measurements), level, _compute_basis(cores, rate))


def _compute_basis(cores: Range, rate: Range) -> str:
    span = (
        f"{cores.floor:.0f}" if cores.floor == cores.high else f"{cores.floor:.0f}-{cores.high:.0f}"
    )
    low, high = rate.floor / GB, rate.high / GB
    noun = "core" if cores.high == 1 else "cores"
    return f"{span} {noun} x {low:.1f}-{high:.1f} GB/s (reference)"


def _slower(compute: Range, dram: Measurement | None, level: str, basis: str) -> CpuStage:
    instructions = "CPU cores" if level == "AVX2" else f"CPU instruction set ({level})"
    if dram is None:
        fastest = Range(1 / compute.high, 1 / compute.floor)
        limit = f"{instructions} at best; DRAM not measured"
        return CpuStage(fastest, limit, basis, ceiling_only=True)
    seen = gb_per_second(dram.median_bytes_per_second)
    least = dram.p10_bytes_per_second or dram.median_bytes_per_second
    if "contended" in dram.flags:  # alone it would be faster: how much is not known
        most, limit = compute.high, f"{instructions} or DRAM"
        said = f"DRAM {seen} or more, disturbed by other work"
    else:
        most, said = dram.median_bytes_per_second, f"DRAM {seen}"
        limit = _limit(compute, most, instructions, f"DRAM, {seen}")
    seconds = Range(1 / min(compute.high, most), 1 / min(compute.floor, least))
    return CpuStage(seconds, limit, f"{basis}; {said}", ceiling_only=False)


def _limit(compute: Range, read: float, instructions: str, memory: str) -> str:
    if compute.high <= read:
        return f"{instructions}, then DRAM"
    return memory if compute.floor >= read else f"{instructions} or {memory}"
