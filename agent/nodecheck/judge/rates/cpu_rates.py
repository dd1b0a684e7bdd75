"""What a byte of weights of one type costs on this CPU, from the best that was measured."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates import ceilings, weight_types
from nodecheck.judge.rates.ceilings import Range
from nodecheck.model import Measurement, Struct
from nodecheck.units import GB, count, gb_per_second


class Cost(Struct, frozen=True):
    """`seconds_per_byte` is fastest to slowest, `limit` what holds it.

    `rate` says how fast weights are used up and how that was got, `memory` how fast it reads where
    that was a figure of its own. With `ceiling_only` the slowest is not known, since the memory was
    not measured.
    """

    seconds_per_byte: Range
    limit: str
    rate: str
    memory: str | None = None
    ceiling_only: bool = False

    @property
    def basis(self) -> str:
        """Both in words."""
        return "; ".join(filter(None, (self.rate, self.memory)))


class _Compute(Struct, frozen=True):
    """Bytes of weights a second that the cores use up, by which instructions, how it was got."""

    rate: Range
    level: str
    basis: str


def cost(seen: Seen, weight_type: str) -> Cost | str:
    """What weights of this type cost, or why that is not known.

    From products of weights in memory; else from products in the caches, of this type or of one
    that it is like, and the memory's read rate; else from reference products beside that rate.
    """
    whole = node.decode_rate_from_memory(seen.measurements, weight_type)
    products = _products(seen.measurements, weight_type)
    read = node.best_read(seen.measurements)
    if whole:
        return _from_memory(whole, products, read)
    if products and read and "contended" not in read.flags:
        return _from_caches(products, read)
    compute = _referred(seen, weight_type)
    return compute if isinstance(compute, str) else _slower(compute, read)


def used_up(seen: Seen, weight_type: str) -> Range | None:
    """Bytes of weights a second that all cores use up where no memory holds them back."""
    compute = _products(seen.measurements, weight_type) or _referred(seen, weight_type)
    return None if isinstance(compute, str) else compute.rate


def _products(measurements: tuple[Measurement, ...], weight_type: str) -> _Compute | None:
    """What the cores use up from their own caches."""
    if own := node.decode_rate(measurements, weight_type):
        rate = own.median_bytes_per_second
        return _Compute(Range(rate, rate), own.kernel, f"{_used_up(own)} (measured)")
    for like in weight_types.MEASURED_TYPES:
        stand_in = node.decode_rate(measurements, like)
        if stand_in is None:
            continue
        rate = stand_in.median_bytes_per_second
        found = weight_types.rate_by_likeness(weight_type, {like: Range(rate, rate)})
        if found:
            basis = f"{_span(found[1])}, assumed from {like}: {_used_up(stand_in)} (measured)"
            return _Compute(found[1], stand_in.kernel, basis)
    return None


def _used_up(products: Measurement) -> str:
    rate, threads = gb_per_second(products.median_bytes_per_second), products.threads
    return f"{rate} used up from the caches on {count(threads, 'thread')}"


def _span(rate: Range) -> str:
    return f"{rate.floor / GB:.1f}-{rate.high / GB:.1f} GB/s"


def _from_memory(whole: Measurement, products: _Compute | None, read: Measurement | None) -> Cost:
    rate = whole.median_bytes_per_second
    level = ceilings.MEASURED_LEVELS.get(whole.kernel, whole.kernel)
    return Cost(
        seconds_per_byte=_inverse(ceilings.from_memory(rate)),
        limit=_measured_limit(level, products, read),
        rate=f"{gb_per_second(rate)} used up from memory on {count(whole.threads, 'thread')} "
        "(measured)",
    )


def _from_caches(products: _Compute, read: Measurement) -> Cost:
    memory = read.median_bytes_per_second
    slow = ceilings.from_caches(products.rate.floor, memory)
    fast = ceilings.from_caches(products.rate.high, memory)
    level = ceilings.MEASURED_LEVELS.get(products.level, products.level)
    return Cost(
        seconds_per_byte=_inverse(Range(slow.low, fast.high)),
        limit=_measured_limit(level, products, read),
        rate=products.basis,
        memory=f"DRAM {gb_per_second(memory)}",
    )


def _inverse(rate: Range) -> Range:
    """Seconds a byte, fastest to slowest."""
    return Range(1 / rate.high, 1 / rate.floor)


def _measured_limit(level: str, products: _Compute | None, read: Measurement | None) -> str:
    """What is slower by more than the two can differ by chance."""
    instructions = _instructions(level)
    if products is None or read is None or "contended" in read.flags:
        return f"{instructions} or DRAM"
    memory = f"DRAM, {gb_per_second(read.median_bytes_per_second)}"
    if read.median_bytes_per_second >= ceilings.CLEARLY_SLOWER * products.rate.high:
        return f"{instructions}, then DRAM"
    if read.median_bytes_per_second <= products.rate.floor / ceilings.CLEARLY_SLOWER:
        return memory
    return f"{instructions} and {memory}"


def _referred(seen: Seen, weight_type: str) -> _Compute | str:
    cpu = seen.facts.cpu
    if cpu.arch is None:
        return "the CPU was not read"
    if cpu.arch != "x86_64":
        return f"no reference rates for {cpu.arch}"
    flags = cpu.usable_flags or cpu.flags
    level = ceilings.engine_level(flags) if flags else None
    cores = node.cores(seen)
    if level is None or cores is None:
        return "the CPU's instruction sets or its number of CPUs are not known"
    rate, like = ceilings.core_rate(level, weight_type), None
    if rate is None:
        known = {name: ceilings.core_rate(level, name) for name in weight_types.MEASURED_TYPES}
        found = weight_types.rate_by_likeness(weight_type, {n: r for n, r in known.items() if r})
        if found is None:
            return f"no reference rate for {weight_type} weights"
        like, rate = found
    compute = Range(cores.floor * rate.floor, cores.high * rate.high)
    return _Compute(compute, level, _reference_basis(cores, rate, like))


def _reference_basis(cores: Range, rate: Range, like: str | None) -> str:
    span = (
        f"{cores.floor:.0f}" if cores.floor == cores.high else f"{cores.floor:.0f}-{cores.high:.0f}"
    )
    noun = "core" if cores.high == 1 else "cores"
    told = f"reference, assumed from {like}" if like else "reference"
    return f"{span} {noun} x {_span(rate)} ({told})"


def _slower(compute: _Compute, dram: Measurement | None) -> Cost:
    instructions = _instructions(compute.level)
    rate = compute.rate
    if dram is None:
        limit = f"{instructions} at best; DRAM not measured"
        return Cost(_inverse(rate), limit, compute.basis, ceiling_only=True)
    seen = gb_per_second(dram.median_bytes_per_second)
    least = dram.p10_bytes_per_second or dram.median_bytes_per_second
    if "contended" in dram.flags:  # alone it would be faster: how much is not known
        most, limit = rate.high, f"{instructions} or DRAM"
        said = f"DRAM {seen} or more, disturbed by other work"
    else:
        most, said = dram.p90_bytes_per_second or dram.median_bytes_per_second, f"DRAM {seen}"
        limit = _limit(rate, most, instructions, f"DRAM, {seen}")
    engine = Range(ceilings.from_reference(rate.floor, least), min(rate.high, most))
    return Cost(_inverse(engine), limit, compute.basis, said)


def _instructions(level: str) -> str:
    return "CPU cores" if level in ceilings.WIDE_LEVELS else f"CPU instruction set ({level})"


def _limit(compute: Range, read: float, instructions: str, memory: str) -> str:
    if compute.high <= read:
        return f"{instructions}, then DRAM"
    return memory if compute.floor >= read else f"{instructions} or {memory}"
