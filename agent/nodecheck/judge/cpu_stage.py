"""The part of a token that runs on the CPU: the slower of reading weights and using them up."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge import ceilings, node
from nodecheck.judge.ceilings import Range
from nodecheck.model import Measurement, Struct
from nodecheck.serving import Workload
from nodecheck.units import GB, count, gb_per_second


class CpuStage(Struct, frozen=True):
    """What a byte of weights costs: `seconds_per_byte` is fastest to slowest.

    With `ceiling_only` the slowest is not known, since the memory was not measured.
    """

    seconds_per_byte: Range
    limit: str
    basis: str
    ceiling_only: bool


class _Compute(Struct, frozen=True):
    """Bytes of weights a second that the cores use up, by which instructions, how it was got."""

    rate: Range
    level: str
    basis: str


def cpu_stage(seen: Seen, work: Workload) -> CpuStage | str:
    """What weights on this CPU cost, or why that is not known.

    From the best that was measured here: products of weights in memory, products in the caches and
    the memory's read rate, the read rate alone beside reference products.
    """
    products = node.decode_rate(seen.measurements, work.weight_type)
    whole = node.decode_rate_from_memory(seen.measurements, work.weight_type)
    read = node.best_read(seen.measurements)
    if whole:
        return _from_memory(whole, products, read)
    if products and read and "contended" not in read.flags:
        return _from_caches(products, read)
    compute = _referred(seen, work)
    return compute if isinstance(compute, str) else _slower(compute, read)


def _from_memory(
    whole: Measurement, products: Measurement | None, read: Measurement | None
) -> CpuStage:
    rate = whole.median_bytes_per_second
    return CpuStage(
        seconds_per_byte=_inverse(ceilings.from_memory(rate)),
        limit=_measured_limit(whole.kernel, products, read),
        basis=f"{gb_per_second(rate)} used up from memory on {count(whole.threads, 'thread')} "
        "(measured)",
        ceiling_only=False,
    )


def _from_caches(products: Measurement, read: Measurement) -> CpuStage:
    compute, memory = products.median_bytes_per_second, read.median_bytes_per_second
    return CpuStage(
        seconds_per_byte=_inverse(ceilings.from_caches(compute, memory)),
        limit=_measured_limit(products.kernel, products, read),
        basis=f"{gb_per_second(compute)} used up from the caches on "
        f"{count(products.threads, 'thread')} (measured); DRAM {gb_per_second(memory)}",
        ceiling_only=False,
    )


def _inverse(rate: Range) -> Range:
    """Seconds a byte, fastest to slowest."""
    return Range(1 / rate.high, 1 / rate.floor)


def _measured_limit(kernel: str, products: Measurement | None, read: Measurement | None) -> str:
    """What is slower by more than the two can differ by chance."""
    instructions = _instructions(ceilings.MEASURED_LEVELS.get(kernel, kernel))
    if products is None or read is None or "contended" in read.flags:
        return f"{instructions} or DRAM"
    factor = read.median_bytes_per_second / products.median_bytes_per_second
    memory = f"DRAM, {gb_per_second(read.median_bytes_per_second)}"
    if factor >= ceilings.CLEARLY_SLOWER:
        return f"{instructions}, then DRAM"
    return memory if factor <= 1 / ceilings.CLEARLY_SLOWER else f"{instructions} and {memory}"


def _referred(seen: Seen, work: Workload) -> _Compute | str:
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
    return _Compute(compute, level, _reference_basis(cores, rate))


def _reference_basis(cores: Range, rate: Range) -> str:
    span = (
        f"{cores.floor:.0f}" if cores.floor == cores.high else f"{cores.floor:.0f}-{cores.high:.0f}"
    )
    low, high = rate.floor / GB, rate.high / GB
    noun = "core" if cores.high == 1 else "cores"
    return f"{span} {noun} x {low:.1f}-{high:.1f} GB/s (reference)"


def _slower(compute: _Compute, dram: Measurement | None) -> CpuStage:
    instructions = _instructions(compute.level)
    rate = compute.rate
    if dram is None:
        fastest = Range(1 / rate.high, 1 / rate.floor)
        limit = f"{instructions} at best; DRAM not measured"
        return CpuStage(fastest, limit, compute.basis, ceiling_only=True)
    seen = gb_per_second(dram.median_bytes_per_second)
    least = dram.p10_bytes_per_second or dram.median_bytes_per_second
    if "contended" in dram.flags:  # alone it would be faster: how much is not known
        most, limit = rate.high, f"{instructions} or DRAM"
        said = f"DRAM {seen} or more, disturbed by other work"
    else:
        most, said = dram.median_bytes_per_second, f"DRAM {seen}"
        limit = _limit(rate, most, instructions, f"DRAM, {seen}")
    seconds = Range(1 / min(rate.high, most), 1 / min(rate.floor, least))
    return CpuStage(seconds, limit, f"{compute.basis}; {said}", ceiling_only=False)


def _instructions(level: str) -> str:
    return "CPU cores" if level in ceilings.WIDE_LEVELS else f"CPU instruction set ({level})"


def _limit(compute: Range, read: float, instructions: str, memory: str) -> str:
    if compute.high <= read:
        return f"{instructions}, then DRAM"
    return memory if compute.floor >= read else f"{instructions} or {memory}"
