"""Judges whether the engine computes where its memory and its cards are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import EngineFacts, Process
from nodecheck.checks.engine.signs import (
    computes_on_cpu,
    computing,
    held_cards,
    subject,
    watched,
)
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gb_per_second, gib, percent, ranges


def remote_memory(seen: Seen) -> Iterator[Finding]:
    """engine.remote_memory: it computes on other NUMA nodes than its memory or its card is on."""
    engine = watched(seen)
    if engine is None or not _told_apart(seen):
        return
    far = [(p, share) for p in engine.processes if (share := _remote_share(seen, p)) is not None]
    cards = [gpu for gpu in _cards(seen, engine) if _is_far(seen, engine, gpu)]
    if not far and not cards:
        return
    wanted = sorted(
        {gpu.numa_node for gpu in cards if gpu.numa_node is not None}
        or {node for process, _ in far for node in _nodes_of(seen, process)}
    )
    yield Finding(
        id="engine.remote_memory",
        severity=Severity.WARNING,
        subject=subject(engine),
        summary=_remote_summary(seen, far, cards),
        headline=_remote_headline(far, cards),
        evidence=(
            *(_memory_evidence(seen, process) for process, _ in far),
            *(_card_evidence(engine, gpu) for gpu in cards),
        ),
        impact=_remote_impact(seen, far),
        remedy=_remote_remedy(seen, [process for process, _ in far], wanted),
        owner=Owner.USER,
    )


def _told_apart(seen: Seen) -> bool:
    """Whether there are several nodes with memory, and each CPU is of one."""
    nodes = seen.facts.numa.nodes
    cpus = [cpu for node in nodes for cpu in node.cpus or ()]
    return sum(bool(node.memory_bytes) for node in nodes) > 1 and len(cpus) == len(set(cpus))


def _nodes_of(seen: Seen, process: Process) -> set[int]:
    """The nodes on which its threads that compute ran last."""
    at = {cpu: node.id for node in seen.facts.numa.nodes for cpu in node.cpus or ()}
    cpus = [t.cpu for t in computing(seen) if t.pid == process.pid]
    return set() if None in cpus else {at[cpu] for cpu in cpus if cpu in at}


def _remote_share(seen: Seen, process: Process) -> float | None:
    """Part of its memory on nodes where it does not run, where that is too much; else None."""
    limits, far = seen.policy.thresholds, away_bytes(seen, process)
    total = sum((process.numa_bytes or {}).values())
    if far is None or total < limits.engine_remote_bytes_min or not computes_on_cpu(seen):
        return None
    return far / total if far / total > limits.engine_remote_share else None


def away_bytes(seen: Seen, process: Process) -> int | None:
    """Its memory on nodes where none of its threads computes; None where that is not known."""
    nodes = _nodes_of(seen, process)
    if not nodes or process.numa_bytes is None:
        return None
    return sum(size for node, size in process.numa_bytes.items() if node not in nodes)


def _cards(seen: Seen, engine: EngineFacts) -> list[Gpu]:
    held = {use.card.lower() for use in held_cards(engine)}
    return [gpu for gpu in seen.facts.gpus if (gpu.pci_address or "").lower() in held]


def _is_far(seen: Seen, engine: EngineFacts, gpu: Gpu) -> bool:
    """Whether no process that may hold the card may run on a CPU of its node."""
    node = next((n for n in seen.facts.numa.nodes if n.id == gpu.numa_node), None)
    holders = [p for p in engine.processes if p.gpu_files is None or p.gpu_files]
    allowed = [process.allowed_cpus for process in holders]
    if node is None or not node.cpus or not allowed or None in allowed:
        return False
    return not any(set(cpus or ()) & set(node.cpus) for cpus in allowed)


def _remote_summary(seen: Seen, far: list[tuple[Process, float]], cards: list[Gpu]) -> str:
    told = []
    if far:
        worst, _ = max(far, key=lambda each: each[1])
        away, total = away_bytes(seen, worst) or 0, sum((worst.numa_bytes or {}).values())
        told.append(
            f"{gib(away)} of its {gib(total)} of memory are not on {_at(_nodes_of(seen, worst))}, "
            "where its threads compute"
        )
    if cards:
        which = "the card" if len(cards) == 1 else f"{len(cards)} cards"
        told.append(f"it may not use the CPUs of the NUMA node of {which} that it uses")
    text = " and ".join(told)
    return text[0].upper() + text[1:]


def _remote_headline(far: list[tuple[Process, float]], cards: list[Gpu]) -> str:
    if far:
        share = percent(max(share for _, share in far))
        return f"{share} of its memory is on another NUMA node than its threads"
    which = "its card" if len(cards) == 1 else f"{len(cards)} of its cards"
    return f"It may not run on the NUMA node of {which}"


def _memory_evidence(seen: Seen, process: Process) -> Evidence:
    parts = [
        f"node {node}: {gib(size)}" for node, size in sorted((process.numa_bytes or {}).items())
    ]
    return Evidence(
        value=f"{', '.join(parts)}; its threads run on {_at(_nodes_of(seen, process))}",
        source=f"/proc/{process.pid}/numa_maps and task/*/stat",
        expected=f"at most {percent(seen.policy.thresholds.engine_remote_share)} elsewhere",
        basis="policy engine_remote_share",
    )


def _card_evidence(engine: EngineFacts, gpu: Gpu) -> Evidence:
    cpus = {cpu for process in engine.processes for cpu in process.allowed_cpus or ()}
    return Evidence(
        value=f"{gpu.label} is on node {gpu.numa_node}; CPUs {ranges(cpus)} are allowed",
        source=f"PCI numa_node and /proc/{engine.pid}/status Cpus_allowed_list",
        expected=f"CPUs of node {gpu.numa_node}",
    )


def _at(nodes: Collection[int]) -> str:
    return f"node{'' if len(nodes) == 1 else 's'} {ranges(nodes)}"


def _remote_impact(seen: Seen, far: list[tuple[Process, float]]) -> str:
    if not far:
        return (
            "Each copy between host and card crosses the link between the sockets: loading, layers "
            "on the CPU and a cache in RAM slow down; decode within the card does not"
        )
    near, remote = _rates(seen, local=True), _rates(seen, local=False)
    measured = (
        f": {gb_per_second(remote)} against {gb_per_second(near)} on the own node, measured here"
        if near and remote
        else "; unplaced, a public report had 4 tok/s instead of 8"
    )
    return f"Decode on the CPU runs at the rate of the link between the nodes{measured}"


def _rates(seen: Seen, *, local: bool) -> float | None:
    """What memory of the own node, or of another, delivered where it was measured."""
    return max(
        (
            each.median_bytes_per_second
            for each in seen.measurements
            if each.name == "dram_read"
            and not each.flags
            and each.cpu_node is not None
            and each.memory_node is not None
            and (each.cpu_node == each.memory_node) is local
        ),
        default=None,
    )


def _remote_remedy(seen: Seen, far: list[Process], nodes: list[int]) -> Remedy:
    engine = seen.facts.engine
    needed = sum(sum((process.numa_bytes or {}).values()) for process in far)
    room = sum(n.memory_bytes or 0 for n in seen.facts.numa.nodes if n.id in nodes)
    if needed >= room:
        return Remedy(
            text="Spread threads and memory over all nodes: one node does not hold it",
            action=Action.RESTART_ENGINE,
            commands=remedies.spread_commands(engine),
            cost="One restart of the engine",
        )
    cached = ("sudo sysctl -w vm.drop_caches=3",) if far and engine.model_files else ()
    return Remedy(
        text=f"Start it on the CPUs and the memory of {_at(nodes)}"
        + ("; cached files stay on their node until they are dropped" if cached else ""),
        action=Action.RESTART_ENGINE,
        commands=(*cached, *remedies.node_commands(seen, nodes)),
        cost="One restart of the engine" + (", and files are read anew" if cached else ""),
    )
