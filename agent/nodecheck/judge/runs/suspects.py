"""What to look at where no resource explains a row: what the facts speak for first."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import SLOWDOWNS
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.runs.busy import busy, is_near, looked_at
from nodecheck.judge.runs.rows import Row, cpu_rate
from nodecheck.serving import Workload
from nodecheck.units import GB, count, gb_per_second, gib, percent

ALIKE = 1.4
"""Between two rates that may be one. Source: what a core's or a disk's rate differs by from run to
run; the code paths of 4-bit weights lie 4 to 19 times apart."""

NOTABLE_SPREAD = 0.10
"""Of a row's mean, from which its own passes disagree: an idle machine repeats to a few percent."""


def slower_on_cpu(seen: Seen, work: Workload, row: Row, time: str | None) -> tuple[str, ...]:
    """For a row with weights on the CPU that is slower than it can be explained."""
    found = [*_threads(seen, work, row), *_paging(seen, work, row), *_build(seen, work, row)]
    return _once([*found, *_disturbed(seen, row, time), *_cache(row)])


def slower_on_cards(seen: Seen, row: Row, time: str | None) -> tuple[str, ...]:
    """For a row in VRAM that is slower than its cards explain."""
    found = []
    if row.machine.parallel:
        found.append("the link between the cards: what it costs is not measured")
    found += [f"its circumstances: {text}" for text in row.run.remarks]
    if row.machine.here:
        found += list(_clocks(seen))
    if not row.machine.named:
        found.append("the card: the row names none")
    if row.run.model_bytes is None:
        found.append("the weights: the row does not say how many bytes it served")
    return _once([*found, *_cache(row), *_disturbed(seen, row, time)])


def faster(work: Workload, row: Row) -> tuple[str, ...]:
    """For a row above what rates allow."""
    found = []
    if not row.on_gpu:
        found.append(
            "the memory's figure: measured too low, beside other work or on too few threads"
        )
        found.append("the build: code for other instructions than this CPU shows")
        found.append("the CPU: another type, more cores, or another machine")
    if row.run.accepted_tokens is None and row.run.tool != "llama-bench":
        found.append("guessing ahead (MTP, a draft model): the row does not say")
    if row.run.model_bytes is None:
        found.append(f"the weights: here {gib(work.weight_bytes_shipped)}, the row does not say")
    if row.on_gpu and not row.machine.named:
        found.append("the card: the row names none")
    if work.read_bytes_per_token_shipped is None and row.on_gpu:
        found.append("the model: which of its bytes a token reads is not known")
    return tuple(found) or ("the row itself: no such card or CPU is that fast",)


def _once(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found)) or ("what the node's facts do not show",)


def _threads(seen: Seen, work: Workload, row: Row) -> Iterator[str]:
    used, limits = row.run.threads, seen.facts.limits
    usable = len(limits.usable_cpus) if limits.usable_cpus else seen.facts.cpu.logical_cpus
    if used and usable and used > usable:
        yield f"oversubscription: {count(used, 'thread')} on {count(usable, 'CPU')}"
    elif used and limits.cpu_quota and used > limits.cpu_quota:
        yield f"CPU quota: {count(used, 'thread')} on a quota of {limits.cpu_quota:g} CPUs"
    if limits.throttled_share_now:
        yield f"CPU quota: throttled in {percent(limits.throttled_share_now)} of its periods"
    alone, rate = _one_core(seen, work), cpu_rate(row)
    if used is None and alone and rate and _alike(rate, alone[0]):
        one = between(alone[0].floor / GB, alone[0].high / GB)
        yield f"the number of threads: one core alone uses up {one} GB/s ({alone[1]})"


def _one_core(seen: Seen, work: Workload) -> tuple[Range, str] | None:
    """Bytes a second that one core uses up, and a word on how that was got."""
    alone = [m for m in seen.measurements if m.threads == 1]
    if measured := node.decode_rate(tuple(alone), work.weight_type):
        rate = measured.median_bytes_per_second
        return Range(rate, rate), "measured"
    level = ceilings.engine_level(seen.facts.cpu.usable_flags or seen.facts.cpu.flags or ())
    found = ceilings.core_rate(level, work.weight_type) if level else None
    return (found, "reference") if found else None


def _alike(rate: Range, other: Range) -> bool:
    return rate.floor <= other.high * ALIKE and rate.high >= other.floor / ALIKE


def _paging(seen: Seen, work: Workload, row: Row) -> Iterator[str]:
    need = row.cut.on_cpu.room_bytes if row.cut else 0
    free, rate = node.free_ram_bytes(seen), cpu_rate(row)
    disk = work.storage.sequential_bytes_per_second if work.storage else None
    if free is not None and need > free:
        yield f"paging: {gib(need)} needed in RAM, {gib(free)} free"
    elif disk and rate and _alike(rate, Range(disk, disk)):
        yield f"paging: the disk below the model reads {gb_per_second(disk)}"
    elif row.run.mmap is not False:
        there = f"; {gib(free)} are free now" if free is not None else ""
        yield f"paging: weights that were not in RAM then are read while they are used{there}"
    if seen.facts.memory.file_refaults_now or seen.facts.memory.swapped_in_pages_now:
        yield "paging: the node reads pages again that it had dropped"


def _build(seen: Seen, work: Workload, row: Row) -> Iterator[str]:
    """The code path that the rate fits better than that of this CPU's best instructions."""
    cpu, rate, cores = seen.facts.cpu, cpu_rate(row), node.cores(seen)
    level = ceilings.engine_level(cpu.usable_flags or cpu.flags or ())
    names = [name for name, _ in ceilings.ENGINE_LEVELS]
    if level is None or rate is None or cores is None or cpu.arch != "x86_64":
        return
    own = ceilings.core_rate(level, work.weight_type)
    if own and rate.high >= own.floor * cores.floor:
        return
    for lower in names[names.index(level) + 1 :]:
        core = ceilings.core_rate(lower, work.weight_type)
        if core and _alike(rate, Range(core.floor * cores.floor, core.high * cores.high)):
            most = gb_per_second(core.high * cores.high)
            yield f"the build: code for {lower} alone uses up {most} at most here (reference)"
            return


def _disturbed(seen: Seen, row: Row, time: str | None) -> Iterator[str]:
    rate, spread = row.rate, row.run.spread
    if spread and rate and spread > NOTABLE_SPREAD * rate:
        yield f"contention: its own passes differ by {percent(spread / rate)}"
    if not row.machine.here:
        return
    if not is_near(row.run.when, time) or not looked_at(seen):
        yield "contention: what else ran then is not known"
    elif others := busy(seen):
        yield f"contention: {', '.join(others)}"


def _cache(row: Row) -> Iterator[str]:
    if row.run.kv_on_host:
        yield "the cache: kept in RAM (-nkvo)"


def _clocks(seen: Seen) -> Iterator[str]:
    reasons = {r for gpu in node.cards(seen).gpus for r in gpu.clocks_event_reasons or ()}
    if held := sorted(reasons & set(SLOWDOWNS)):
        yield f"GPU clocks: {', '.join(held)}"
