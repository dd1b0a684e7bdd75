"""What was looked at, in a line each, where no finding holds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodecheck.checks.engine.cpu_rules import cpus, longest_wait, other_cpus
from nodecheck.checks.engine.facts import CpuLibrary, EngineFacts, Process
from nodecheck.checks.engine.memory_rules import mb_per_second, rereads, waits_for_disk
from nodecheck.checks.engine.placement_rules import away_bytes
from nodecheck.checks.engine.signs import (
    asks_for_cpu,
    cards_idle,
    computing,
    held_cards,
    known_sum,
    missing_bytes,
    model_bytes,
    most_in_one_process,
    read_per_second,
    throttled_share,
    weights_on_cards,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Gap
from nodecheck.units import count, gib, listed, percent, ranges


def is_idle(seen: Seen) -> bool:
    """Whether it did nothing that could be judged: no CPU, no card, and no wait for any of them.

    A scheduler that spins while its card does nothing is idle too.
    """
    engine, limits = seen.facts.engine, seen.policy.thresholds
    stopped = (throttled_share(engine) or 0.0) >= limits.engine_throttled_share
    waits = any((t.delay_share or 0.0) >= limits.engine_waited_share for t in computing(seen))
    if engine.cpus is None or stopped or waits or waits_for_disk(seen):
        return False
    own = [card for card in engine.cards if card.memory_bytes != 0]
    if engine.cpus < limits.engine_idle_cpus:
        return not own or cards_idle(seen, own)
    held = held_cards(engine)
    spins = most_in_one_process(seen) <= 1 and weights_on_cards(seen) is not False
    return spins and cards_idle(seen, held)


def is_loading(seen: Seen) -> bool:
    """Whether it reads its model for the first time: much from storage, and nothing again."""
    engine = seen.facts.engine
    read = read_per_second(engine)
    much = waits_for_disk(seen) if read is None else _is_much(seen, read)
    whole = missing_bytes(engine) == 0
    return much and not whole and not rereads(seen)


def _is_much(seen: Seen, read: float) -> bool:
    return read >= seen.policy.thresholds.engine_read_bytes_per_second_min


def looked_at(seen: Seen, gaps: Sequence[Gap] = ()) -> tuple[str, ...]:
    """One line for each thing that was looked at, with its number or why it is not known.

    `gaps` are the report's: they hold the reasons.
    """
    return tuple(
        f"{name}: {say(seen) or _why(gaps, fields) or none}" for name, say, fields, none in _LINES
    )


def _why(gaps: Sequence[Gap], fields: tuple[str, ...]) -> str | None:
    """The reason of the first gap in one of these fields, or in a part of the first of them."""
    reasons = {gap.field: gap.detail for gap in reversed(gaps) if gap.check == "engine"}
    parts = [field for field in reasons if field.startswith(f"{fields[0]}.")]
    found = next((f for f in (fields[0], *parts, *fields[1:], "*") if f in reasons), None)
    return None if found is None else f"not known: {reasons[found]}"


def _threads(seen: Seen) -> str | None:
    engine, threads = seen.facts.engine, computing(seen)
    if engine.thread_count is None and not engine.threads:
        return None
    of_all = f" of {engine.thread_count:,}" if engine.thread_count else ""
    if not threads:
        return f"none{of_all} computed"
    ran = percent(sum(thread.cpu_share for thread in threads) / len(threads))
    waits = [t.delay_share for t in threads if t.delay_share is not None]
    waited = (
        f"waited at most {percent(max(waits))}"
        if waits
        else f"{'its wait is' if len(threads) == 1 else 'their waits are'} not known"
    )
    verb = "computed" if len(threads) == 1 else "computed, each"
    return f"{len(threads)}{of_all} {verb} {ran} of {engine.seconds or 0:.1f} s; {waited}"


def _cpus(seen: Seen) -> str | None:
    engine = seen.facts.engine
    if engine.usable_cpus is None or engine.cpus is None:
        return None
    others = other_cpus(engine)
    told = f"; others used {others:.1f}" if engine.others or engine.busy_cpus is not None else ""
    used = f"{engine.cpus:.1f} used of {len(engine.usable_cpus)} ({ranges(engine.usable_cpus)})"
    waited = longest_wait(seen)
    return f"{used}{told}" if waited is None else f"{used}{told}; longest wait {percent(waited)}"


def _quota(seen: Seen) -> str | None:
    group = seen.facts.engine.cpu_group
    if group is None:
        return None
    if group.periods is None or group.throttled_periods is None:
        return f"{cpus(group.quota_cpus)}, how often it stopped the engine is not known"
    return f"{cpus(group.quota_cpus)}, stopped it in {group.throttled_periods} of " + count(
        group.periods, "period"
    )


def _disk(seen: Seen) -> str | None:
    engine = seen.facts.engine
    faults = known_sum(process.major_faults for process in engine.processes)
    if faults is None:
        return None
    read = read_per_second(engine)
    rate = "what was read is not known" if read is None else f"{mb_per_second(read)} read"
    swapped = known_sum(process.swapped_bytes for process in engine.processes)
    in_swap = f", {gib(swapped)} in swap" if swapped else ""
    return f"{count(faults, 'page fault')} waited for it, {rate}{in_swap}"


def _files(seen: Seen) -> str | None:
    engine = seen.facts.engine
    size, missing = model_bytes(engine), missing_bytes(engine)
    if size is None:
        return None
    if missing is None:
        return f"{gib(size)}, how much is in memory is not known"
    return f"{gib(size - missing)} of {gib(size)} in memory"


def _code(seen: Seen) -> str | None:
    libraries = seen.facts.engine.libraries
    if not libraries:
        return None
    return listed([_library(library) for library in libraries], most=3)


def _library(library: CpuLibrary) -> str:
    built = library.variant or (" ".join(library.compiled) if library.compiled else None)
    return f"{library.family} {f'for {built}' if built else 'that chooses at run time'}"


def _cards(seen: Seen) -> str | None:
    engine, asked = seen.facts.engine, asks_for_cpu(seen)
    wish = f"; it was started for the CPU ({asked})" if asked else ""
    if not engine.cards:
        return None if not engine.processes else f"none seen{wish}"
    return listed([_card(engine, number) for number in range(len(engine.cards))], most=4) + wish


def _card(engine: EngineFacts, number: int) -> str:
    use = engine.cards[number]
    held = "what it holds is not known" if use.memory_bytes is None else f"{gib(use.memory_bytes)}"
    load = use.utilisation_share
    return f"{use.card} {held}, {'load not known' if load is None else f'{percent(load)} busy'}"


def _numa(seen: Seen) -> str | None:
    nodes = [node for node in seen.facts.numa.nodes if node.memory_bytes]
    if len(nodes) == 1:
        return "one node"
    known = [p for p in seen.facts.engine.processes if p.numa_bytes]
    return None if not nodes or not known else _away(seen, known)


def _away(seen: Seen, processes: list[Process]) -> str:
    total = sum(sum((process.numa_bytes or {}).values()) for process in processes)
    away = [away_bytes(seen, process) for process in processes]
    told = known_sum(away)
    if told is None:
        return f"{gib(total)}, where its threads run is not known"
    return f"{percent(told / total if total else 0)} of {gib(total)} on nodes where it does not run"


_LINES: tuple[tuple[str, Callable[[Seen], str | None], tuple[str, ...], str], ...] = (
    ("Threads", _threads, ("threads", "processes"), "not known"),
    ("CPUs", _cpus, ("usable_cpus", "processes"), "not known"),
    ("CPU quota", _quota, ("cpu_group",), "none"),
    ("Disk", _disk, ("processes.major_faults", "processes"), "not known"),
    ("Model files", _files, ("model_files",), "none mapped"),
    ("CPU code", _code, ("libraries",), "no library that computes on the CPU"),
    ("Cards", _cards, ("cards", "processes.gpu_files"), "not known"),
    ("NUMA", _numa, ("processes.numa_bytes", "processes"), "not known"),
)
"""The name of a line, what says it, the fields whose gaps explain its absence, and what stands
there where there is no gap either."""
