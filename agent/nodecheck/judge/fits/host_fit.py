"""Whether host RAM, locked memory and disk have the room that serving a model needs."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits import host_room, room
from nodecheck.judge.fits.room import LLAMA_CPP, SGLANG
from nodecheck.judge.ways import load, pool
from nodecheck.serving import Fit, Need, Workload
from nodecheck.units import GB, gib


def cpu_only(seen: Seen, work: Workload) -> Fit:
    """RAM for all of the model."""
    needs = host_room.cpu_needs(seen, work, host_room.in_ram(seen, work), repacks=True)
    return ram(seen, "cpu-only", needs, "")


def ram(seen: Seen, strategy: str, needs: tuple[Need, ...], how: str) -> Fit:
    """RAM for what llama.cpp keeps there; `how` is the setting."""
    free, needed = node.free_ram_bytes(seen), sum(need.bytes for need in needs)
    enough = None if free is None else needed <= free
    advice = None
    if enough is False:
        advice = f"{gib(needed - (free or 0))} more free RAM: mapped pages are read from disk anew "
        advice += "with each token otherwise, repacked ones do not start or swap"
    basis = "; ".join(part for part in (how, host_room.free_ram_basis(seen)) if part)
    return Fit(
        strategy=strategy,
        engine=LLAMA_CPP,
        room="host RAM",
        needs=needs,
        needed_bytes=needed,
        available_bytes=free,
        fits=enough,
        basis=basis,
        advice=advice,
    )


def host_pool(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Fit]:
    """RAM and locked memory for SGLang's pool, where it reads the model or flags ask for it."""
    asked = seen.serving.hicache_size_bytes or seen.serving.hicache_ratio is not None
    if SGLANG not in room.engines_for(work) and not asked:
        return
    found = pool.sglang_pool(seen, work, cards)
    if found is None or not found.device.tokens:  # the model itself does not fit
        return
    yield _pool_ram(seen, found)
    limit = seen.facts.limits.memlock_bytes
    if limit is not None:
        yield _memlock(found, limit)


def _pool_needs(found: pool.RankPool) -> tuple[Need, ...]:
    each = found.pool
    ranks = f" on {found.ranks} ranks" if found.ranks > 1 else ""
    needs = (
        Need(what=f"{each.tokens:,} cached tokens{ranks}", bytes=each.token_bytes * found.ranks),
        Need(what=f"{each.states:,} states{ranks}", bytes=each.state_bytes * found.ranks),
    )
    return tuple(need for need in needs if need.bytes)


def _pool_ram(seen: Seen, found: pool.RankPool) -> Fit:
    needs, each = _pool_needs(found), found.pool
    free = node.free_ram_bytes(seen)
    reserve = seen.policy.thresholds.host_pool_reserve_bytes
    allowed = None if free is None else max(0, free - reserve)
    basis = (
        f"{host_room.free_ram_basis(seen)} less SGLang's reserve of {gib(reserve)}; by {each.by}"
    )
    return Fit(
        strategy=pool.NAME,
        engine=SGLANG,
        room="host RAM",
        needs=needs,
        needed_bytes=each.bytes * found.ranks,
        available_bytes=allowed,
        fits=None if each.allowed_bytes is None else each.refusal is None,
        basis="; ".join(part for part in (basis, each.refusal, each.warning) if part),
        advice=_pool_advice(found) if each.refusal else None,
    )


def _pool_advice(found: pool.RankPool) -> str:
    largest = (found.pool.allowed_bytes or 0) // GB
    if not largest:
        return "no pool: free RAM does not reach beyond the reserve"
    return f"--hicache-size {largest} (GB a rank), or neither flag: SGLang then takes what fits"


def _memlock(found: pool.RankPool, limit: int) -> Fit:
    """CUDA pins through its driver, which does not count against the limit; RDMA and mlock do."""
    needed = found.pool.bytes * found.ranks
    return Fit(
        strategy=pool.NAME,
        engine=SGLANG,
        room="memlock",
        needs=_pool_needs(found),
        needed_bytes=needed,
        available_bytes=limit,
        fits=True if limit >= needed else None,
        basis="the pool is pinned; CUDA's driver does not count that against RLIMIT_MEMLOCK, a "
        "storage backend over RDMA does",
        advice=None if limit >= needed else "ulimit -l unlimited (docker: --ulimit memlock=-1)",
    )


def disk(seen: Seen, work: Workload) -> Iterator[Fit]:
    """Disk for the model where it is not here yet, and for its conversion."""
    where = load.filesystem(seen, work)
    if where is None:
        return
    kept = 0 if load.is_here(work) else work.weight_bytes_shipped
    converted = load.conversion_bytes(work)
    for engine, extra in ((None, 0), *(((LLAMA_CPP, converted),) if converted else ())):
        needs = tuple(
            need
            for need in (
                Need(what=room.WEIGHTS, bytes=kept),
                Need(what="GGUF file", bytes=extra),
            )
            if need.bytes
        )
        if needs:
            yield _on_disk(where.mount, where.available_bytes, needs, engine)


def _on_disk(mount: str, free: int | None, needs: tuple[Need, ...], engine: str | None) -> Fit:
    needed = sum(need.bytes for need in needs)
    enough = None if free is None else needed <= free
    return Fit(
        strategy=load.NAME,
        engine=engine,
        room="disk",
        needs=needs,
        needed_bytes=needed,
        available_bytes=free,
        fits=enough,
        basis=f"available on {mount}" + ("" if engine is None else ", to convert it for llama.cpp"),
        advice=f"free {gib(needed - (free or 0))} on {mount}" if enough is False else None,
    )
