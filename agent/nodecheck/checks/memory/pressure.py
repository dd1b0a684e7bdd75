"""Judges signs that memory is short or broken into pieces while the node runs."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gib, percent


def cache_thrash(seen: Seen) -> Iterator[Finding]:
    """`mem.cache_thrash`: file pages are dropped and read again at once."""
    evidence = [*_refault_evidence(seen), *_high_evidence(seen)]
    stalled = list(_stall_evidence(seen))
    if not evidence and not stalled:
        return
    yield Finding(
        id="mem.cache_thrash",
        severity=Severity.CRITICAL if stalled else Severity.WARNING,
        subject="RAM",
        summary="Memory is too small for what runs: the same pages are read from disk again and "
        "again",
        evidence=(*stalled, *evidence),
        impact=_thrash_impact(seen),
        remedy=Remedy(
            text="Free memory, or take a smaller model; lock the weights into RAM only where "
            "they fit",
            action=Action.RESTART_ENGINE,
            commands=("ps -eo rss,pid,args --sort=-rss | head", "llama-server --mlock"),
            cost="One restart of the engine",
        ),
        owner=Owner.USER,
    )


def _refault_evidence(seen: Seen) -> Iterator[Evidence]:
    memory = seen.facts.memory
    # who captured two samples saw something; a live node always reads a few pages again
    least = seen.policy.thresholds.refaults_per_second_min if seen.live else 0.0
    refaults, faults, seconds = (
        memory.file_refaults_now,
        memory.major_faults_now,
        memory.sample_seconds,
    )
    if refaults and faults and seconds and refaults >= least * seconds:
        yield Evidence(
            value=f"{refaults} pages of files read again, {faults} major faults in {seconds:.1f} s",
            source="/proc/vmstat workingset_refault_file, pgmajfault",
            expected=f"below {least:g} pages a second",
            basis="policy refaults_per_second_min",
        )


def _high_evidence(seen: Seen) -> Iterator[Evidence]:
    if hits := seen.facts.limits.memory_high_events_now:
        yield Evidence(
            value=f"memory.high was reached {count(hits, 'time')} between two samples",
            source="memory.events of the process's cgroup",
            expected="0",
            basis="above memory.high the kernel stops the process to reclaim",
        )


def _stall_evidence(seen: Seen) -> Iterator[Evidence]:
    share, most = seen.facts.memory.full_stall_avg10, seen.policy.thresholds.full_stall_share
    if share is not None and share >= most:
        yield Evidence(
            value=f"every task waited for memory in {percent(share)} of the last 10 s",
            source="/proc/pressure/memory full avg10",
            expected=f"below {percent(most)}",
            basis="policy full_stall_share",
        )


def _thrash_impact(seen: Seen) -> str:
    memory = seen.facts.memory
    parts = []
    if memory.full_stall_avg10:
        parts.append(
            f"{percent(memory.full_stall_avg10)} of all time is lost to waiting for memory"
        )
    if memory.file_refaults_now and memory.sample_seconds:
        rate = memory.file_refaults_now / memory.sample_seconds
        parts.append(
            f"{rate:.0f} pages a second come from disk although they were in memory before"
        )
    return "; ".join(parts) or "The process is stopped again and again while the kernel reclaims"


def swap_active(seen: Seen) -> Iterator[Finding]:
    """`mem.swap_active`: swap is used, and pages come back from it."""
    memory, least = seen.facts.memory, seen.policy.thresholds.swap_used_share
    total, free = memory.swap_total_bytes, memory.swap_free_bytes
    now = memory.swapped_in_pages_now
    moved = memory.swapped_in_pages if now is None else now
    if not total or free is None or free > total or (total - free) < least * total or not moved:
        return
    used = total - free
    since = "since boot" if now is None else f"within {memory.sample_seconds or 0:.1f} s"
    yield Finding(
        id="mem.swap_active",
        severity=Severity.WARNING,
        subject="RAM",
        summary=f"{gib(used)} of {gib(total)} swap are used, and pages are read back",
        evidence=(
            Evidence(
                value=f"{percent(used / total)} of swap used",
                source="/proc/meminfo SwapTotal, SwapFree",
                expected=f"below {percent(least)}",
                basis="policy swap_used_share",
            ),
            Evidence(value=f"{moved} pages read back {since}", source="/proc/vmstat pswpin"),
        ),
        impact=f"{gib(used)} of what runs here lie on disk; a weight or cache page that is among "
        "them costs a disk read at each use",
        remedy=Remedy(
            text="Find what holds the memory, and move or stop it; then empty the swap",
            action=Action.CHANGE_SETTING,
            commands=(
                "ps -eo rss,pid,args --sort=-rss | head",
                "sudo grep VmSwap /proc/*/status | sort -k2 -n | tail",
                "sudo swapoff -a && sudo swapon -a",
            ),
            cost="What is stopped; swapoff reads all of it back and needs that much free memory",
        ),
        owner=Owner.OPERATOR,
    )


def thp(seen: Seen) -> Iterator[Finding]:
    """`mem.thp`: no free block is large enough for a transparent huge page."""
    memory = seen.facts.memory
    if memory.thp in (None, "never") or memory.free_order9_blocks != 0:
        return
    yield Finding(
        id="mem.thp",
        severity=Severity.INFO,
        subject="RAM",
        summary="Free memory is in pieces smaller than a huge page",
        evidence=(
            Evidence(
                value="0 free blocks of 2 MiB or more",
                source="/proc/buddyinfo",
                expected="some",
                basis=f"transparent huge pages are on ({memory.thp})",
            ),
        ),
        impact="A large allocation waits for the kernel to compact memory: engines have needed "
        "tens of minutes to start; on small pages one CPU reads memory about 20 % slower",
        remedy=Remedy(
            text="Drop clean caches and compact memory before the engine starts",
            action=Action.CHANGE_SETTING,
            commands=(
                "echo 1 | sudo tee /proc/sys/vm/drop_caches",
                "echo 1 | sudo tee /proc/sys/vm/compact_memory",
            ),
            cost="Files are read from disk once more; seconds of CPU time",
        ),
        owner=Owner.OPERATOR,
    )
