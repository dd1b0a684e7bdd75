"""A pool of cached tokens in host RAM: how fast it gives them back, and whether it has the room."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import figure
from nodecheck.judge.fits import room
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.ways import hicache, sglang
from nodecheck.judge.ways.answers import refused, unknown
from nodecheck.judge.ways.hicache import HostPool
from nodecheck.judge.ways.sglang import DevicePools
from nodecheck.model import Lever, Strategy, Struct, Viability
from nodecheck.serving import Workload
from nodecheck.units import gb_per_second, gib
from nodecheck.workload.cache import whole_context_bytes

NAME = "host-kv-pool"

READ_AGAIN = "as of 2026-09 SGLang's pool gave hybrids no prefix back (sglang#33713)"


class Way(Struct, frozen=True):
    """How fast bytes come from the pool to a card, slowest and fastest, and what holds them."""

    bytes_per_second: Range
    limit: str


def host_kv_pool(
    seen: Seen, work: Workload, cards: node.Cards, measured_prefill: float | None = None
) -> Strategy:
    """Moving bytes needs no SIMD: the pool is held by DRAM and link rates and by free RAM.

    `measured_prefill` is the rate at which prompts were read here, in tokens a second: the time to
    compute the tokens again is held against it.
    """
    tokens = seen.policy.thresholds.host_pool_tokens
    size = restored_bytes(seen, work, tokens)
    if size is None:
        return unknown(NAME, "bytes of cache a token are not known")
    if not whole_context_bytes(work, 1):
        why = "the model keeps states alone: there are no tokens to cache"
        return refused(NAME, "no attention cache", why, unit=_unit(seen))
    model = room.demand(seen, work, room.SGLANG, cards)
    if room.SGLANG in room.engines_for(work) and model and model.fits is False:
        short = f"{gib(model.needed_bytes)} needed, {gib(model.free_bytes or 0)} there"
        return refused(
            NAME, "VRAM size", f"SGLang does not hold the model: {short}", unit=_unit(seen)
        )
    way = _way(seen, cards)
    if way is None:
        return unknown(NAME, "neither the link to the card nor the memory was measured")
    free = node.free_ram_bytes(seen)
    if free is not None and _allowed(seen, 1) < size:
        reserve = gib(seen.policy.thresholds.host_pool_reserve_bytes)
        short = f"{gib(free)} free, of which SGLang leaves {reserve}; {gib(size)} needed"
        found = refused(NAME, "RAM size", short, unit=_unit(seen))
        return replace(found, levers=(Lever(resource="ram", change=_more_ram(seen, size)),))
    seconds = Range(size / way.bytes_per_second.high, size / way.bytes_per_second.floor)
    refusal = _refusal(seen, work, cards)
    worth = _viability(seen, seconds, way, measured_prefill)
    return Strategy(
        strategy=NAME,
        viability=Viability.NOT_VIABLE if refusal else worth,
        limit="RAM size" if refusal else way.limit,
        low=seconds.low,
        high=seconds.high,
        unit=_unit(seen),
        basis=_basis(seen, work, cards, measured_prefill),
        levers=_levers(seen, cards, size, way),
    )


def _refusal(seen: Seen, work: Workload, cards: node.Cards) -> str | None:
    """Why SGLang does not start with the pool that was asked for."""
    if not _is_asked(seen):
        return None
    found = sglang_pool(seen, work, cards)
    return found.pool.refusal if found else None


def _is_asked(seen: Seen) -> bool:
    return bool(seen.serving.hicache_size_bytes) or seen.serving.hicache_ratio is not None


def restored_bytes(seen: Seen, work: Workload, tokens: int) -> int | None:
    """Bytes that bring so many cached tokens back: their cache, and the state after the last.

    None where the cache is not known.
    """
    kind = room.cache_type(room.SGLANG, seen.serving.kv_type)
    cached = whole_context_bytes(work, tokens, kind)
    state = room.state_bytes(work, room.SGLANG)
    return None if cached is None else cached + state


def _rates(seen: Seen, cards: node.Cards) -> dict[str, Range]:
    """Bytes a second of the link and of the memory that it reads, slowest and fastest."""
    link, read = node.host_link(seen, cards), node.best_read(seen.measurements)
    low, high = ceilings.LINK_EFFICIENCY
    rates = {}
    if measured := node.measured_link(seen, cards):
        rates["copies to the card"] = Range(measured, measured)
    elif link:
        rates["PCIe"] = Range(link * low, link * high)
    if read:
        dram = read.median_bytes_per_second
        rates["DRAM"] = Range(dram * low, dram)
    return rates


def _way(seen: Seen, cards: node.Cards) -> Way | None:
    """The slower of the two."""
    rates = _rates(seen, cards)
    if not rates:
        return None
    name = min(rates, key=lambda each: rates[each].high)
    fastest = rates[name].high
    slowest = min(rate.floor for rate in rates.values())
    return Way(Range(slowest, fastest), f"{name}, {gb_per_second(fastest)}")


def _unit(seen: Seen) -> str:
    return f"s to fetch {seen.policy.thresholds.host_pool_tokens // 1000}k cached tokens from RAM"


def _allowed(seen: Seen, ranks: int) -> int:
    """What SGLang lets the pools of one rank take of free RAM; all of it where that is unknown."""
    free = node.free_ram_bytes(seen)
    reserve = seen.policy.thresholds.host_pool_reserve_bytes
    return 1 << 62 if free is None else hicache.allowance_bytes(free, ranks, reserve)


def _viability(seen: Seen, seconds: Range, way: Way, measured_prefill: float | None) -> Viability:
    """Worth it where fetching beats computing again: as measured, else by the policy's rate."""
    limits = seen.policy.thresholds
    if measured_prefill:
        again = limits.host_pool_tokens / measured_prefill
        if seconds.floor >= again:
            return Viability.NOT_VIABLE
        worth = Viability.VIABLE if seconds.high < again else Viability.MARGINAL
    elif way.bytes_per_second.floor < limits.host_pool_min_bytes_per_second:
        return Viability.NOT_VIABLE
    else:
        worth = Viability.VIABLE
    return Viability.UNKNOWN if node.free_ram_bytes(seen) is None else worth


def _basis(seen: Seen, work: Workload, cards: node.Cards, measured_prefill: float | None) -> str:
    kind = room.cache_type(room.SGLANG, seen.serving.kv_type)
    state = room.state_bytes(work, room.SGLANG)
    parts = [f"{whole_context_bytes(work, 1, kind) or 0:,} B a token"]
    parts += [f"{state / 1e6:.0f} MB of state for each prefix"] if state else []
    parts += [_room(seen), _against(seen, measured_prefill), "no SIMD needed"]
    found = sglang_pool(seen, work, cards)
    if found and _is_asked(seen):
        pool = found.pool
        parts.append(pool.refusal or pool.warning or hicache.said(pool))
    parts += [READ_AGAIN] if work.is_hybrid else []
    return "; ".join(filter(None, parts))


def _room(seen: Seen) -> str:
    if node.free_ram_bytes(seen) is None:
        return "free RAM not known"
    return f"room for {gib(_allowed(seen, 1))}"


def _against(seen: Seen, measured_prefill: float | None) -> str:
    """What computing the tokens again takes."""
    if not measured_prefill:
        return ""
    again = seen.policy.thresholds.host_pool_tokens / measured_prefill
    return (
        f"computing them again takes {figure(again)} s at {measured_prefill:,.0f} tok/s (measured)"
    )


class RankPool(Struct, frozen=True):
    """What each of so many ranks keeps in host RAM, and on its card."""

    ranks: int
    pool: HostPool
    device: DevicePools


def sglang_pool(seen: Seen, work: Workload, cards: node.Cards) -> RankPool | None:
    """The pool that SGLang would make for a rank on these cards; None where that is not known."""
    found = room.demand(seen, work, room.SGLANG, cards)
    kind = room.cache_type(room.SGLANG, seen.serving.kv_type)
    per_token = whole_context_bytes(work, 1, kind)
    if found is None or found.free_bytes is None or not per_token:
        return None
    held = sum(n.bytes for n in found.needs if n.what in room.FIXED)
    ranks = found.ranks * found.stages
    per_token //= room.cache_ranks(work, found.ranks) * found.stages
    per_state = room.state_bytes(work, room.SGLANG) // ranks
    device = sglang.device_pools(
        found.free_bytes - held,
        per_token,
        per_state,
        seen.serving.draft_tokens,
        seen.serving.requests,
    )
    free = node.free_ram_bytes(seen)
    allowed = None if free is None else _allowed(seen, ranks)
    found_pool = hicache.host_pool(device, per_token, per_state, seen.serving, allowed)
    return RankPool(ranks, found_pool, device)


def _levers(seen: Seen, cards: node.Cards, size: int, way: Way) -> tuple[Lever, ...]:
    """What would bring them back faster: what is not the slower of the two, caught up with."""
    rates = _rates(seen, cards)
    faster = max(rates.values(), key=lambda each: each.high)
    other = faster.high
    if other <= way.bytes_per_second.high:
        return ()
    seconds = {"low": size / other, "high": size / faster.floor}
    if way.limit.startswith("DRAM"):
        change = f"DRAM that reads as fast as the link takes it, {gb_per_second(other)}"
        return (Lever(resource="bandwidth", change=change, **seconds),)
    change = f"a link that takes what DRAM reads, {gb_per_second(other)}"
    return (Lever(resource="link", change=change, **seconds),)


def _more_ram(seen: Seen, size: int) -> str:
    need = size + seen.policy.thresholds.host_pool_reserve_bytes
    return f"{gib(need)} of free RAM or more"
