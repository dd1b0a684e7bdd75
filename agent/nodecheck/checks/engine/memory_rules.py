"""Judges whether the engine's weights stay in memory."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import EngineFacts, MemoryGroup
from nodecheck.checks.engine.signs import (
    asks_for_cpu,
    faults_per_second,
    known_sum,
    missing_bytes,
    model_bytes,
    rate_words,
    read_per_second,
    subject,
    usable_gpus,
    watched,
    weights_on_cards,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gb_per_second, gib


def paging(seen: Seen) -> Iterator[Finding]:
    """engine.paging: it waits for the disk for what it had in memory before."""
    engine = watched(seen)
    if engine is None or not waits_for_disk(seen):
        return
    again = rereads(seen)
    if not again and not _swaps(seen):
        return
    read, what = read_per_second(engine), "weights are" if again else "swapped memory is"
    yield Finding(
        id="engine.paging",
        severity=_severity(seen, engine, read),
        subject=subject(engine),
        summary=_paging_summary(engine) if again else _swap_summary(engine),
        headline=f"Its {what} read from disk again and again, {_rate(engine)}",
        evidence=tuple(_paging_evidence(seen, engine)),
        impact=_paging_impact(seen, engine, read),
        remedy=_paging_remedy(seen, engine),
        owner=Owner.USER,
    )


def _rate(engine: EngineFacts) -> str:
    read, faults = read_per_second(engine), faults_per_second(engine) or 0.0
    return f"{faults:,.0f} page faults a second" if read is None else rate_words(read)


def _paging_summary(engine: EngineFacts) -> str:
    size, missing = model_bytes(engine), missing_bytes(engine)
    told = f"{gib(missing)} of {gib(size)} missing, " if size and missing else ""
    return f"Weights do not stay in memory: {told}{_rate(engine)} from disk"


def _swap_summary(engine: EngineFacts) -> str:
    swapped = known_sum(process.swapped_bytes for process in engine.processes) or 0
    resident = known_sum(process.resident_bytes for process in engine.processes) or 0
    return f"{gib(swapped)} of its {gib(swapped + resident)} are in swap: {_rate(engine)} from disk"


def waits_for_disk(seen: Seen) -> bool:
    """Whether it reads what it maps, and more than a stray page.

    The kernel reads ahead, so that few page faults wait themselves: what is missing of its files
    tells as much. What lies on cards needs no file any more.
    """
    engine = seen.facts.engine
    read, missing = read_per_second(engine), missing_bytes(engine)
    if read is None:
        return _faults(seen)
    if read < seen.policy.thresholds.engine_read_bytes_per_second_min:
        return False
    return _faults(seen) or (bool(missing) and weights_on_cards(seen) is not True)


def _faults(seen: Seen) -> bool:
    faults = faults_per_second(seen.facts.engine)
    return (faults or 0.0) >= seen.policy.thresholds.engine_major_faults_per_second_min


def rereads(seen: Seen) -> bool:
    """Whether what it reads of files is what it had before.

    Pages that come back are told by the kernel: of its control group, else of the node, where they
    may be another program's unless it reads as much itself, and has read all of its files. Where
    they have room it has nothing again before that. A model that was changed for another reads more
    than its files hold too, so that sum counts only where nothing else is known.
    """
    engine, limits = seen.facts.engine, seen.policy.thresholds
    ours = engine.memory_group.file_refaults if engine.memory_group else None
    back = engine.file_refaults if ours is None else ours
    read = read_per_second(engine)
    if back is None:
        total = known_sum(process.read_total_bytes for process in engine.processes)
        size = model_bytes(engine)
        return bool(total and size) and (total or 0) >= limits.engine_reread_factor * (size or 0)
    whole = _has_read_all(engine)
    if (ours is None and not whole) or (whole is False and _has_room(seen)):
        return False
    rate = back / (engine.seconds or 1.0)
    if rate < limits.refaults_per_second_min:
        return False
    if read is None or engine.page_bytes is None:
        return ours is not None
    return rate * engine.page_bytes >= limits.engine_refault_share * read


def _has_read_all(engine: EngineFacts) -> bool | None:
    """Whether it had as much from storage as its files hold, since it began."""
    totals, size = [p.read_total_bytes for p in engine.processes], model_bytes(engine)
    if size is None or None in totals:
        return None
    return (known_sum(totals) or 0) >= size


def _has_room(seen: Seen) -> bool:
    """Whether its model files may all lie in memory at once, as far as limits are known."""
    engine = seen.facts.engine
    limit = engine.memory_group.limit_bytes if engine.memory_group else None
    size, total = model_bytes(engine) or 0, seen.facts.memory.total_bytes
    return (limit is None or size <= limit) and (total is None or size <= total)


def _swaps(seen: Seen) -> bool:
    """Whether much of its memory is in swap, while all that it maps of a model is in memory."""
    engine = seen.facts.engine
    swapped = known_sum(process.swapped_bytes for process in engine.processes)
    resident = known_sum(process.resident_bytes for process in engine.processes)
    if not swapped or resident is None or missing_bytes(engine) or not _faults(seen):
        return False
    return swapped >= seen.policy.thresholds.engine_swapped_share * (swapped + resident)


def _severity(seen: Seen, engine: EngineFacts, read: float | None) -> Severity:
    """Critical where a pass over the weights waits for many seconds of reading."""
    missing, most = missing_bytes(engine), seen.policy.thresholds.engine_token_seconds_max
    slow = missing and read and missing / read >= most
    return Severity.CRITICAL if slow else Severity.WARNING


def _paging_evidence(seen: Seen, engine: EngineFacts) -> Iterator[Evidence]:
    least = seen.policy.thresholds.engine_read_bytes_per_second_min
    faults = known_sum(process.major_faults for process in engine.processes) or 0
    read = known_sum(process.read_bytes for process in engine.processes)
    told = "" if read is None else f"{gib(read)} read from storage in {engine.seconds:.1f} s, "
    yield Evidence(
        value=f"{told}{count(faults, 'page fault')} waited for it",
        source=f"/proc/{engine.pid}/io and stat, and of what it started",
        expected=f"below {rate_words(least)}",
        basis="policy engine_read_bytes_per_second_min",
    )
    yield from _refault_evidence(seen, engine)
    yield from file_evidence(engine)
    swapped = known_sum(process.swapped_bytes for process in engine.processes)
    if swapped:
        yield Evidence(value=f"{gib(swapped)} in swap", source="/proc/*/status VmSwap")
    if (group := engine.memory_group) is not None:
        yield _group_evidence(group)


def _refault_evidence(seen: Seen, engine: EngineFacts) -> Iterator[Evidence]:
    group, least = engine.memory_group, seen.policy.thresholds.refaults_per_second_min
    ours = group.file_refaults if group else None
    back, source = (
        (ours, f"{group.source.rpartition('/')[0]}/memory.stat")
        if group and ours is not None
        else (engine.file_refaults, "/proc/vmstat workingset_refault_file")
    )
    total = known_sum(process.read_total_bytes for process in engine.processes)
    if back is not None:
        yield Evidence(
            value=f"{count(back, 'page')} of files came back that had been thrown out",
            source=source,
            expected=f"below {least:,g} pages a second",
            basis="policy refaults_per_second_min",
        )
    elif total is not None and (size := model_bytes(engine)) is not None:
        yield Evidence(
            value=f"{gib(total)} read since it began, for {gib(size)} of model files",
            source="/proc/*/io read_bytes",
            expected="the files once",
        )


def file_evidence(engine: EngineFacts) -> Iterator[Evidence]:
    """How much of each model file lies in memory."""
    for file in engine.model_files:
        if file.cached_bytes is not None and file.size_bytes is not None:
            yield Evidence(
                value=f"{file.path.rpartition('/')[2]}: {gib(file.cached_bytes)} of "
                f"{gib(file.size_bytes)} in memory",
                source="page cache",
                expected="all of it",
            )


def _group_evidence(group: MemoryGroup) -> Evidence:
    now = "" if group.current_bytes is None else f", {gib(group.current_bytes)} used"
    hits = "" if not group.limit_hits else f", met {count(group.limit_hits, 'time')}"
    return Evidence(value=f"limit {gib(group.limit_bytes)}{now}{hits}", source=group.source)


def memory_rate(seen: Seen) -> float | None:
    """What memory delivered where it was measured, on the threads that do it best."""
    return max(
        (
            each.median_bytes_per_second
            for each in seen.measurements
            if each.name == "dram_read" and not each.flags and each.memory_node is None
        ),
        default=None,
    )


def _paging_impact(seen: Seen, engine: EngineFacts, read: float | None) -> str:
    missing, memory = missing_bytes(engine), memory_rate(seen)
    if not missing or not read:
        return "Each token of a dense model needs all weights, and gets some at the disk's rate"
    near = (
        f", {missing / memory:.2f} s from memory at {gb_per_second(memory)}: {memory / read:,.0f}x"
        if memory
        else ""
    )
    return (
        f"Each token of a dense model needs all weights: the {gib(missing)} that are not in memory "
        f"take {missing / read:.1f} s or more at {rate_words(read)}{near}"
    )


def _paging_remedy(seen: Seen, engine: EngineFacts) -> Remedy:
    """What makes room; locking only where the weights fit."""
    size, total, group = model_bytes(engine), seen.facts.memory.total_bytes, engine.memory_group
    layers = _layers_too(seen, engine)
    if group is not None and (size is None or group.limit_bytes < size):
        needed = 1.2 * size if size else 2.0 * group.limit_bytes
        room = total is None or needed < total
        raised = remedies.memory_commands(seen, group.source, needed) if room else ()
        text = f"Raise the memory limit to {gib(needed)} or more, or take" if room else "Take"
        return Remedy(
            text=f"{text} a smaller model or quantisation; locking cannot help, it does not fit",
            action=Action.CHANGE_SETTING if room else Action.RESTART_ENGINE,
            commands=(*raised, *layers),
            cost="Memory that others use, or the quality of a smaller model",
        )
    if size is not None and total is not None and size >= total:
        return Remedy(
            text="Take a smaller model or quantisation, or more RAM: the weights do not fit",
            action=Action.RESTART_ENGINE,
            commands=layers,
            cost="The quality of a smaller model",
        )
    lock = remedies.lock_commands(engine)
    return Remedy(
        text="Free memory by stopping what holds it"
        + (", then lock the weights into RAM" if lock else ""),
        action=Action.RESTART_ENGINE,
        commands=("ps -eo rss,pid,args --sort=-rss | head", *lock, *layers),
        cost="One restart of the engine",
    )


def _layers_too(seen: Seen, engine: EngineFacts) -> tuple[str, ...]:
    """Layers that go onto a card need no RAM; not where the user wants the CPU."""
    if asks_for_cpu(seen) or not usable_gpus(seen):
        return ()
    return remedies.layer_commands(engine)
