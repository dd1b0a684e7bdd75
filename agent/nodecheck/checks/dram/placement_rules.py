"""Judges how far apart the CPUs lie."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.dram.distance import Split, siblings, split
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, RoundTrip, Severity
from nodecheck.units import count, ranges

_GROUPS_SHOWN = 8


def _placement_split(seen: Seen) -> Iterator[Finding]:
    """Groups that the guest's topology does not show; where it does, engines can see them too."""
    found = split(_all_pairs(seen))
    if found is None or not _looks_like_one(seen):
        return
    times = found.far_seconds / found.near_seconds
    yield Finding(
        id="cpu.placement_split",
        severity=Severity.INFO,
        subject="CPU",
        summary=f"The vCPUs lie in {len(found.groups)} groups that this guest is not told of",
        evidence=tuple(_evidence(seen, found)),
        impact=f"Threads of different groups wait {times:.1f} times as long for one another "
        f"({found.far_seconds * 1e9:.0f} against {found.near_seconds * 1e9:.0f} ns a cache line); "
        "a group has the caches and the memory bandwidth of its own die or socket",
        remedy=Remedy(
            text="Pin each vCPU to a core of its own and give the guest the host's topology, so "
            "that an engine can keep its threads together; or take no more vCPUs than one core "
            "complex holds",
            action=Action.RECONFIGURE_VM,
            commands=("lscpu -e=CPU,CORE,SOCKET,CACHE,NODE  # on the host",),
            cost="A cold stop of the VM",
        ),
        owner=Owner.HYPERVISOR,
    )


def _siblings_hidden(seen: Seen) -> Iterator[Finding]:
    """Threads of one core that the guest takes for two."""
    found = siblings(_all_pairs(seen))
    cpu = seen.facts.cpu
    if found is None or (cpu.physical_cores or 0) < (cpu.logical_cpus or 1):
        return
    cores = len(found.groups)
    yield Finding(
        id="cpu.siblings_hidden",
        severity=Severity.INFO,
        subject="CPU",
        summary=f"The {2 * cores} vCPUs are the threads of {count(cores, 'core')}, and this guest "
        f"takes them for {2 * cores} cores",
        evidence=tuple(_evidence(seen, found)),
        impact=f"The threads of a core share its units: what computes runs on {cores} cores, and "
        f"an engine that starts {2 * cores} threads gains little or loses",
        remedy=Remedy(
            text="Give the guest the topology of its threads (threads=2), pinned to the host's; "
            f"until then start engines with {count(cores, 'thread')}",
            action=Action.RECONFIGURE_VM,
            commands=(f"llama-server --threads {cores}",),
            cost="A cold stop of the VM; the thread count alone, one restart of the engine",
        ),
        owner=Owner.HYPERVISOR,
    )


def _all_pairs(seen: Seen) -> tuple[RoundTrip, ...]:
    """The round trips of a guest, if they were taken between all of its CPUs."""
    dram = seen.facts.dram
    complete = len(dram.round_trips) == dram.pairs
    return dram.round_trips if complete and seen.facts.virt.guest else ()


def _looks_like_one(seen: Seen) -> bool:
    several = (seen.facts.cpu.sockets or 1, len(seen.facts.numa.nodes), seen.facts.dram.llc_count)
    return all((number or 1) <= 1 for number in several)


def _evidence(seen: Seen, found: Split) -> Iterator[Evidence]:
    pairs = len(seen.facts.dram.round_trips)
    for group in found.groups[:_GROUPS_SHOWN]:
        yield Evidence(
            value=f"CPUs {ranges(group)}: {found.near_seconds * 1e9:.0f} ns among themselves, "
            f"{found.far_seconds * 1e9:.0f} ns to others",
            source=f"a cache line sent to and fro between {count(pairs, 'pair')} of CPUs",
            expected="one class of times, as the topology tells of one kind of neighbour",
        )


RULES: tuple[Rule, ...] = (
    Rule("cpu.placement_split", "vCPUs lie on dies or sockets that are not told", _placement_split),
    Rule("cpu.siblings_hidden", "vCPUs are threads of a core and look like two", _siblings_hidden),
)
