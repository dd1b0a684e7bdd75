"""Judges whether a model fits into the memory that this process may use."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.serving import Workload
from nodecheck.units import count, gib, percent


def host_bytes(seen: Seen) -> int | None:
    """MemTotal without the nodes that have no CPU: their memory is a GPU's, CXL or persistent."""
    total = seen.facts.memory.total_bytes
    if total is None:
        return None
    foreign = sum(n.memory_bytes or 0 for n in seen.facts.numa.nodes if n.cpus == ())
    return total - foreign if foreign < total else total


def gpu_bytes(seen: Seen) -> int | None:
    """The memory of the granted GPUs in all, 0 without one; None where a card does not tell."""
    cards = [g for g in seen.facts.gpus if seen.facts.grants(g) and not g.unified_memory]
    sizes = [0 if card.lost else card.memory_bytes for card in cards]
    return None if None in sizes else sum(size or 0 for size in sizes)


def insufficient(seen: Seen) -> Iterator[Finding]:
    """`mem.insufficient`: the named model is larger than the memory that could hold it."""
    workload, vram, host = seen.workload, gpu_bytes(seen), host_bytes(seen)
    if workload is None or vram is None:
        return
    limit = seen.facts.limits.memory_limit_bytes
    most = min((size for size in (host, limit) if size is not None), default=None)
    size = workload.weight_bytes_shipped
    if most is not None and size > most and size > vram:
        basis = "the cgroup's limit" if most == limit else "MemTotal"
        yield _too_large(workload, (most, vram), basis, _cards(seen, vram))
        return
    available = _available(seen)
    on_host = size - vram
    if available is not None and on_host > available:
        yield _not_free(seen, workload, on_host, available)


def _available(seen: Seen) -> int | None:
    """MemAvailable, or less where the process's cgroup leaves less."""
    sizes = (seen.facts.memory.available_bytes, seen.facts.limits.memory_headroom_bytes)
    return min((size for size in sizes if size is not None), default=None)


def _cards(seen: Seen, vram: int) -> str:
    if vram:
        return f"GPU memory {gib(vram)}"
    return "no GPU memory to use" if seen.facts.gpus else "no GPU"


def _named(workload: Workload) -> str:
    """The model and its size; one that was told in numbers has no name."""
    size, kind = gib(workload.weight_bytes_shipped), workload.weight_type
    if workload.format == "numbers":
        return f"this model ({size}, {kind})"
    return f"{workload.name} ({size})"


def _too_large(workload: Workload, room: tuple[int, int], basis: str, cards: str) -> Finding:
    (most, vram), size = room, workload.weight_bytes_shipped
    together = size <= most + vram
    return Finding(
        id="mem.insufficient",
        severity=Severity.CRITICAL,
        subject="RAM",
        summary=f"{'Neither RAM nor GPU memory holds' if vram else 'RAM does not hold'} "
        f"{_named(workload)}",
        evidence=(_sizes(workload, f"RAM {gib(most)}, {cards}", basis),),
        impact=f"{gib(size - most)} of the weights are read from disk again for "
        "every token, or the engine is killed"
        + (
            "; RAM and GPU memory hold it only together, with nothing left for caches"
            if together and vram
            else ""
        ),
        remedy=Remedy(
            text=f"Choose a quantisation below {gib(max(most, vram))}, or give the node more "
            "memory",
            action=Action.NONE,
            cost="Another download; fewer bits cost quality",
        ),
        owner=Owner.USER,
    )


def _not_free(seen: Seen, workload: Workload, on_host: int, available: int) -> Finding:
    vram = gpu_bytes(seen) or 0
    held = f" beside {gib(vram)} of GPU memory" if vram else ""
    return Finding(
        id="mem.insufficient",
        severity=Severity.WARNING,
        subject="RAM",
        summary=f"{gib(on_host)} of RAM are needed for {workload.name}{held}; {gib(available)} are "
        "available",
        evidence=(_sizes(workload, _left(seen), "/proc/meminfo and the cgroup"),),
        impact=f"{gib(on_host - available)} of the weights do not stay in memory and are read "
        "from disk again and again",
        remedy=Remedy(
            text="Stop what holds memory before the engine starts, or choose a smaller model",
            action=Action.RESTART_ENGINE,
            commands=("ps -eo rss,pid,args --sort=-rss | head",),
            cost="What is stopped",
        ),
        owner=Owner.USER,
    )


def _left(seen: Seen) -> str:
    """Both readings: MemAvailable and what the cgroup leaves."""
    available, headroom = (
        seen.facts.memory.available_bytes,
        seen.facts.limits.memory_headroom_bytes,
    )
    parts = [f"MemAvailable {gib(available)}"] if available is not None else []
    parts += [f"cgroup headroom {gib(headroom)}"] if headroom is not None else []
    return ", ".join(parts)


def _sizes(workload: Workload, value: str, source: str) -> Evidence:
    return Evidence(
        value=value,
        source=source,
        expected=f"at least {gib(workload.weight_bytes_shipped)}",
        basis=f"the weights of {workload.name}",
    )


def hugepages_reserved(seen: Seen) -> Iterator[Finding]:
    """`mem.hugepages_reserved`: memory that lies in a pool which nothing uses."""
    memory, share = seen.facts.memory, seen.policy.thresholds.hugepages_idle_share
    idle, total = memory.hugepages_idle_bytes, memory.total_bytes
    if idle is None or total is None or idle <= 0 or idle < share * total:
        return
    available = memory.available_bytes
    yield Finding(
        id="mem.hugepages_reserved",
        severity=Severity.WARNING,
        subject="RAM",
        summary=f"{gib(idle)} of {gib(total)} lie idle in the huge page pool",
        evidence=(
            Evidence(
                value=_pool(seen, idle),
                source="/proc/meminfo HugePages_*, /sys/kernel/mm/hugepages",
                expected=f"below {percent(share)} of {gib(total)}",
                basis="policy hugepages_idle_share; MemAvailable does not count the pool",
            ),
        ),
        impact=f"Only {gib(available)} are available to programs that do not ask for huge pages"
        if available is not None
        else f"{gib(idle)} are lost to programs that do not ask for huge pages",
        remedy=Remedy(
            text="Lower the pool to what is used, also in /etc/sysctl.d and on the kernel "
            "command line",
            action=Action.CHANGE_SETTING,
            commands=(f"sudo sysctl -w vm.nr_hugepages={_used_pages(seen)}",),
            cost="None while the pages are free; a program that takes them later fails to start",
        ),
        owner=Owner.OPERATOR,
    )


def _pool(seen: Seen, idle: int) -> str:
    memory = seen.facts.memory
    size, free = memory.hugepage_bytes, memory.hugepages_free
    if size is None or free is None or free - (memory.hugepages_reserved or 0) != idle // size:
        return f"{gib(idle)} free and not reserved"
    return f"{count(free, 'page')} of {gib(size)} free, {memory.hugepages_reserved or 0} reserved"


def _used_pages(seen: Seen) -> int:
    memory = seen.facts.memory
    free = (memory.hugepages_free or 0) - (memory.hugepages_reserved or 0)
    return max(0, (memory.hugepages_total or 0) - free)
