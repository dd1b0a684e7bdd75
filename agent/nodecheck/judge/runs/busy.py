"""What else kept the node busy, and whether it was looked at near the time of a measurement."""

from __future__ import annotations

from datetime import datetime

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.units import count, percent

NEAR_SECONDS = 900
"""Between a benchmark and the report, up to which the report's load says something of the
benchmark's. Source: nodecheck's own judgement; a load average of a minute is older within two."""


def busy(seen: Seen) -> tuple[str, ...]:
    """What was seen of other work, each in a few words with its figure."""
    cpu, limits = seen.facts.cpu, seen.policy.thresholds
    found = [
        f"GPU {number if gpu.index is None else gpu.index} {percent(gpu.utilisation_share)} busy"
        for number, gpu in enumerate(node.cards(seen).gpus)
        if gpu.utilisation_share is not None and gpu.utilisation_share >= limits.busy_gpu_share
    ]
    cpus = cpu.logical_cpus
    if cpu.load_1min is not None and cpus and cpu.load_1min / cpus >= limits.busy_cpu_load:
        found.append(f"a load of {cpu.load_1min:.1f} on {count(cpus, 'CPU')}")
    elif cpu.busy_share is not None and cpu.busy_share >= limits.busy_node_share:
        found.append(f"its CPUs {percent(cpu.busy_share)} busy")
    if cpu.steal_share is not None and cpu.steal_share >= limits.steal_warning_share:
        found.append(f"{percent(cpu.steal_share)} of CPU time stolen by other guests")
    if any("contended" in m.flags for m in seen.measurements):
        found.append("its memory measured beside other work")
    return tuple(found)


def looked_at(seen: Seen) -> bool:
    """Whether the node's load was read at all."""
    cpu = seen.facts.cpu
    return any(value is not None for value in (cpu.load_1min, cpu.busy_share, cpu.steal_share))


def apart_seconds(when: str | None, time: str | None) -> float | None:
    """Seconds between two times of ISO 8601; None where one is missing or has no zone."""
    moments = [_moment(text) for text in (when, time)]
    first, second = moments
    if first is None or second is None:
        return None
    return abs((first - second).total_seconds())


def is_near(when: str | None, time: str | None) -> bool:
    """Whether what was seen of the node at `time` says something of `when`."""
    apart = apart_seconds(when, time)
    return apart is not None and apart <= NEAR_SECONDS


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else None
