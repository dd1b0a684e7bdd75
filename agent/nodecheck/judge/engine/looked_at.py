"""What was looked at of a watched engine, and is fine. Absent data says nothing."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.checks.engine.cpu_rules import cpus
from nodecheck.checks.engine.placement_rules import away_bytes
from nodecheck.checks.engine.signs import (
    asks_for_cpu,
    computing,
    faults_per_second,
    held_cards,
    known_sum,
    throttled_share,
)
from nodecheck.checks.seen import Seen
from nodecheck.judge.engine.answer import SHIPPED, busy_words, of_engine, waited_share
from nodecheck.judge.verdict import has_no_gpu
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.units import count, gib, listed, percent

TOLD_SETS = ("amx_int8", "avx512_vnni", "avx512f", "avx_vnni", "avx2", "fma", "f16c", "avx",
             "asimddp", "i8mm", "sve", "asimd")  # fmt: skip
"""Instruction sets worth naming, the newest first."""

SETS_SHOWN = 3


def looked_at(report: Report, policy: Policy = SHIPPED) -> tuple[str, ...]:
    """Short statements, each of what would have been a finding."""
    found = {each.id.partition(".")[2] for each in of_engine(report.findings)}
    seen = Seen(facts=report.facts, policy=policy)
    return tuple(
        said for ids, say in _STATEMENTS if not found & set(ids) and (said := say(seen, report))
    )


def _quota(seen: Seen, report: Report) -> str | None:
    facts = seen.facts.engine
    group = facts.cpu_group
    if group is None:
        unseen = any((gap.check, gap.field) == ("engine", "cpu_group") for gap in report.gaps)
        return None if unseen or facts.usable_cpus is None else "CPU quota: none"
    share = throttled_share(facts)
    if share is None:
        return None
    stopped = f"stopped it in {percent(share)} of its periods" if share else "never reached"
    return f"CPU quota: {cpus(group.quota_cpus)}, {stopped}"


def _waiting(seen: Seen, _: Report) -> str | None:
    """Of the threads that compute: those that hardly want a CPU wait for other things."""
    share = waited_share(seen)
    its = "its thread" if len(computing(seen)) == 1 else "its threads"
    return None if share is None else f"CPUs: {its} waited {percent(share)} of the time"


def _variant(seen: Seen, _: Report) -> str | None:
    for library in seen.facts.engine.libraries:
        named = [each for each in TOLD_SETS if each in (library.compiled or ())]
        if named:
            return f"instruction sets: {listed(named[:SETS_SHOWN])}"
    return None


def _disk(seen: Seen, _: Report) -> str | None:
    facts, least = seen.facts.engine, seen.policy.thresholds.engine_major_faults_per_second_min
    rate = faults_per_second(facts)
    if rate is None or rate >= least:
        return None
    read = known_sum(each.read_bytes for each in facts.processes)
    faults = known_sum(each.major_faults for each in facts.processes) or 0
    told = f", {gib(read)} read" if read else ", nothing read" if read == 0 else ""
    waited = count(faults, "page fault") if faults else "no page fault"
    return f"disk: {waited} waited for it{told}"


def _swap(seen: Seen, _: Report) -> str | None:
    swapped = known_sum(each.swapped_bytes for each in seen.facts.engine.processes)
    return "swap: none of it" if swapped == 0 else None


def _numa(seen: Seen, _: Report) -> str | None:
    if len(seen.facts.numa.nodes) == 1:
        return "NUMA: one node"
    share = _near_share(seen)
    return None if share is None else f"NUMA: {percent(share)} of its memory is where it runs"


def _near_share(seen: Seen) -> float | None:
    """The part of its memory that lies on the nodes whose CPUs its threads ran on last."""
    away, whole = 0, 0
    for process in seen.facts.engine.processes:
        if (far := away_bytes(seen, process)) is not None:
            away += far
            whole += sum((process.numa_bytes or {}).values())
    return 1 - away / whole if whole else None


def _gpus(seen: Seen, report: Report) -> str | None:
    facts = seen.facts.engine
    if held := held_cards(facts):
        size = gib(sum(card.memory_bytes or 0 for card in held))
        return f"GPUs: {size} held on {count(len(held), 'card')}, {busy_words(held)} busy"
    if seen.facts.gpus and (setting := asks_for_cpu(seen)):
        return f"GPUs: none used, as {setting} asks"
    return "GPUs: none" if has_no_gpu(report) else None


def _steal(seen: Seen, _: Report) -> str | None:
    share = seen.facts.engine.steal_share
    if share is None or share >= seen.policy.thresholds.steal_warning_share:
        return None
    return f"steal: {percent(share)}"


_Say = Callable[[Seen, Report], str | None]

_STATEMENTS: tuple[tuple[tuple[str, ...], _Say], ...] = (
    (("throttled_quota",), _quota),
    (("throttled_quota", "oversubscribed", "gpu_starved"), _waiting),
    (("slow_variant",), _variant),
    (("paging",), _disk),
    (("paging",), _swap),
    (("remote_memory",), _numa),
    (("cpu_fallback", "gpu_starved"), _gpus),
    ((), _steal),
)
"""Findings, any of which makes it untrue, and what is said without them."""
