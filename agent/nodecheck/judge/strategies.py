"""Each way to serve a workload: what it can reach here, what limits it, how that was got."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.seen import Seen
from nodecheck.judge import ceilings, node
from nodecheck.judge.ceilings import Range
from nodecheck.judge.cpu_stage import CpuStage, cpu_stage
from nodecheck.judge.figures import between
from nodecheck.model import Point, Strategy, Viability
from nodecheck.policy import Policy
from nodecheck.serving import Workload
from nodecheck.units import GB, count, gb_per_second, gib
from nodecheck.workload.cache import whole_context_bytes
from nodecheck.workload.numbers import from_numbers

TOKENS = "tok/s"


def reference_workload(policy: Policy) -> Workload:
    """The policy's workload, for a node that nobody named a model for."""
    reference = policy.reference_workload
    return from_numbers(
        reference.name,
        reference.weights_bytes,
        reference.layers,
        reference.weight_type,
        reference.kv_bytes_per_token,
        named_by_user=False,
    )


def strategies(seen: Seen) -> tuple[Strategy, ...]:
    """Every strategy that applies to what was seen of this node."""
    work = seen.workload or reference_workload(seen.policy)
    cards = node.cards(seen)
    return (
        *(_on_cards(seen, work, cards) if cards.gpus else ()),
        *([_cpu_only(seen, work)] if seen.facts.cpu.arch is not None else []),
        *([_host_kv_pool(seen, work, cards)] if cards.gpus else []),
        *([_model_load(seen, work)] if seen.facts.disk.filesystems else []),
    )


def _on_cards(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Strategy]:
    yield from _gpu_resident(seen, work, cards)
    yield from _tensor_parallel(seen, work, cards)
    if seen.facts.cpu.arch is not None:
        yield _partial_offload(seen, work, cards)


def speed_viability(seen: Seen, rate: Range) -> Viability:
    """A rate against what a reader does not wait for."""
    usable = seen.policy.thresholds.usable_tokens_per_second
    if rate.high < usable:
        return Viability.NOT_VIABLE
    if rate.low is None:
        return Viability.UNKNOWN
    return Viability.VIABLE if rate.low >= usable else Viability.MARGINAL


def needed_vram_bytes(seen: Seen, work: Workload) -> int:
    """Weights, the cache of one context, and what the engine takes beside them."""
    limits = seen.policy.thresholds
    cache = whole_context_bytes(work, limits.context_tokens) or 0
    return work.weight_bytes_shipped + cache + limits.vram_overhead_bytes


def _read_bytes(work: Workload) -> Range:
    """Bytes of weights that one token reads."""
    low, high = ceilings.READ_SHARE
    return Range(work.weight_bytes_shipped * low, work.weight_bytes_shipped * high)


def _gpu_rate(vram_rate: float, work: Workload) -> Range:
    read = _read_bytes(work)
    low, high = ceilings.VRAM_EFFICIENCY
    return Range(vram_rate * low / read.high, vram_rate * high / read.floor)


def _gpu_resident(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Strategy]:
    need = needed_vram_bytes(seen, work)
    if any(gpu.unified_memory and not gpu.memory_bytes for gpu in cards.gpus):
        yield _unknown(
            "gpu-resident", "the GPU shares the system's memory; its size is not the card's"
        )
        return
    if need > cards.total_bytes:
        held = f"{gib(cards.total_bytes)} of VRAM on {count(len(cards.gpus), 'card')}"
        basis = f"{gib(need)} needed, {held}"
        yield _refused("gpu-resident", "VRAM size", basis)
        return
    rate = cards.slowest_rate
    if rate is None:
        shared = any(gpu.mig for gpu in cards.gpus)
        why = "MIG: a job gets an instance" if shared else "the VRAM rate of a card is not known"
        yield _unknown("gpu-resident", f"{why}; the card as a whole could hold the model")
        return
    split = (
        ""
        if need <= cards.largest_bytes
        else f", layers split over {count(len(cards.gpus), 'card')}"
    )
    speed = _gpu_rate(rate, work)
    low, high = ceilings.VRAM_EFFICIENCY
    read = _read_bytes(work)
    weights = f"{read.floor / GB:.1f}-{read.high / GB:.1f} GB"
    yield Strategy(
        strategy="gpu-resident",
        viability=speed_viability(seen, speed),
        limit=f"VRAM bandwidth, {gb_per_second(rate)}",
        low=speed.low,
        high=speed.high,
        unit=TOKENS,
        basis=f"{low:.1f}-{high:.1f} x {rate / GB:.0f} / {weights}{split}",
    )


def _tensor_parallel(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Strategy]:
    """Only a ceiling: what the link between the cards costs is not measured."""
    rate = cards.slowest_rate
    if len(cards.gpus) < 2 or rate is None or needed_vram_bytes(seen, work) > cards.total_bytes:
        return
    number = len(cards.gpus)
    ceiling = number * _gpu_rate(rate, work).high
    yield Strategy(
        strategy="tensor-parallel",
        viability=Viability.UNKNOWN,
        limit="link between the cards, not measured",
        high=ceiling,
        unit=TOKENS,
        basis=f"ceiling: {number} x {rate / GB:.0f} GB/s; may be slower than one card",
    )


def _partial_offload(seen: Seen, work: Workload, cards: node.Cards) -> Strategy:
    stage = cpu_stage(seen, work)
    vram = cards.slowest_rate
    if isinstance(stage, str) or vram is None:
        why = stage if isinstance(stage, str) else "the VRAM rate of a card is not known"
        return _unknown("partial-offload", why)
    settings = _offload_settings(seen, work, cards)
    if not settings:
        return _refused("partial-offload", "VRAM size", "not one layer fits beside the cache")
    curve = [(ngl, _offload_rate(work, ngl, stage, vram)) for ngl in settings]
    judged = curve[-1][1]
    low, high = stage.seconds_per_byte.floor * GB, stage.seconds_per_byte.high * GB
    if short := _ram_shortage(seen, work, work.layers + 1 - settings[0]):
        return _refused("partial-offload", "RAM size", short)
    return Strategy(
        strategy="partial-offload",
        viability=speed_viability(seen, judged),
        limit=stage.limit,
        low=judged.low,
        high=curve[0][1].high,
        unit=TOKENS,
        basis=f"{stage.basis}; a GB on the CPU adds {between(1000 * low, 1000 * high)} ms a token",
        points=tuple(_point(f"ngl {ngl}", rate) for ngl, rate in curve),
        cpu_seconds_per_gb=(low, high),
    )


def _offload_settings(seen: Seen, work: Workload, cards: node.Cards) -> list[int]:
    """Values of -ngl worth telling: one layer on the CPU, and about a quarter of them.

    Fewer where the VRAM holds no more. llama.cpp counts the output layer too: with N layers, N + 1
    leaves nothing on the CPU.
    """
    layer = work.weight_bytes_shipped / (work.layers + 1)
    room = cards.total_bytes - (needed_vram_bytes(seen, work) - work.weight_bytes_shipped)
    fits = max(0, min(work.layers, int(room / layer)))
    quarter = min(fits, work.layers - max(1, round(work.layers * 0.22)))
    return sorted({n for n in (fits, quarter) if n > 0}, reverse=True)


def _offload_rate(work: Workload, ngl: int, stage: CpuStage, vram: float) -> Range:
    on_cpu = max(0, work.layers + 1 - ngl) / (work.layers + 1)
    read = _read_bytes(work)
    low_e, high_e = ceilings.VRAM_EFFICIENCY
    fastest = read.floor * (on_cpu * stage.seconds_per_byte.floor + (1 - on_cpu) / (vram * high_e))
    slowest = read.high * (on_cpu * stage.seconds_per_byte.high + (1 - on_cpu) / (vram * low_e))
    return Range(None if stage.ceiling_only else 1 / slowest, 1 / fastest)


def _ram_shortage(seen: Seen, work: Workload, cpu_layers: int) -> str | None:
    free = node.free_ram_bytes(seen)
    need = work.weight_bytes_shipped * min(1.0, cpu_layers / (work.layers + 1))
    return f"{gib(need)} needed, {gib(free)} free" if free is not None and need > free else None


def _cpu_only(seen: Seen, work: Workload) -> Strategy:
    stage = cpu_stage(seen, work)
    if isinstance(stage, str):
        return _unknown("cpu-only", stage)
    read = _read_bytes(work)
    slow = read.high * stage.seconds_per_byte.high
    rate = Range(
        None if stage.ceiling_only else 1 / slow, 1 / (read.floor * stage.seconds_per_byte.floor)
    )
    if short := _ram_shortage(seen, work, work.layers + 1):
        return _refused("cpu-only", "RAM size", short)
    return Strategy(
        strategy="cpu-only",
        viability=speed_viability(seen, rate),
        limit=stage.limit,
        low=rate.low,
        high=rate.high,
        unit=TOKENS,
        basis=stage.basis,
    )


def _host_kv_pool(seen: Seen, work: Workload, cards: node.Cards) -> Strategy:
    """Moving bytes needs no SIMD: the pool is held by DRAM and link rates and by free RAM."""
    limits = seen.policy.thresholds
    link, read = node.host_link(seen, cards), node.best_read(seen.measurements)
    size = whole_context_bytes(work, limits.host_pool_tokens)
    if not size:
        return _unknown("host-kv-pool", "bytes of cache a token are not known")
    if link is None and read is None:
        return _unknown("host-kv-pool", "neither the link to the card nor the memory was measured")
    low_e, high_e = ceilings.LINK_EFFICIENCY
    rates = {
        "PCIe": link * high_e if link else None,
        "DRAM": read.median_bytes_per_second if read else None,
    }
    slowest = min(r for r in rates.values() if r)
    limit = next(name for name, rate in rates.items() if rate == slowest)
    pool = _pool_bytes(seen)
    viable = slowest * low_e >= limits.host_pool_min_bytes_per_second
    return Strategy(
        strategy="host-kv-pool",
        viability=_pool_viability(pool, size, viable),
        limit=f"{limit}, {gb_per_second(slowest)}" if pool != 0 else "RAM size",
        low=size / slowest,
        high=size / slowest / low_e,
        unit=f"s to fetch {limits.host_pool_tokens // 1000}k cached tokens from RAM",
        basis=f"{size // limits.host_pool_tokens:,} B a token"
        + (f"; room for {gib(pool)}" if pool else "; free RAM not known" if pool is None else "")
        + "; no SIMD needed",
    )


def _pool_bytes(seen: Seen) -> int | None:
    free = node.free_ram_bytes(seen)
    return None if free is None else max(0, free - seen.policy.thresholds.host_pool_reserve_bytes)


def _pool_viability(pool: int | None, size: int, fast_enough: bool) -> Viability:
    if not fast_enough or (pool is not None and pool < size):
        return Viability.NOT_VIABLE
    return Viability.UNKNOWN if pool is None else Viability.VIABLE


def _model_load(seen: Seen, work: Workload) -> Strategy:
    roomy = [
        f for f in seen.facts.disk.filesystems if f.persistent and f.available_bytes is not None
    ]
    best = max(roomy, key=lambda f: f.available_bytes or 0, default=None)
    if best is None or best.available_bytes is None:
        return _unknown("model-load", "disk read not measured", unit="s")
    if best.available_bytes < work.weight_bytes_shipped:
        room = f"{gib(best.available_bytes)} of {gib(work.weight_bytes_shipped)}"
        basis = f"{best.mount} has the most room, {room}"
        return _refused("model-load", "disk space", basis, unit="s")
    times = best.available_bytes // work.weight_bytes_shipped
    room = "once" if times == 1 else f"{times} times"
    basis = f"disk read not measured; this model fits {room} on {best.mount}"
    return _unknown("model-load", basis, unit="s")


def _refused(strategy: str, limit: str, why: str, unit: str = TOKENS) -> Strategy:
    return Strategy(
        strategy=strategy, viability=Viability.NOT_VIABLE, limit=limit, basis=why, unit=unit
    )


def _unknown(strategy: str, why: str, unit: str = TOKENS) -> Strategy:
    return Strategy(
        strategy=strategy, viability=Viability.UNKNOWN, limit="not known", basis=why, unit=unit
    )


def _point(setting: str, rate: Range) -> Point:
    return Point(setting=setting, low=rate.low, high=rate.high)
