"""Judges the memory bandwidth that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nodecheck.checks.dram import decode_rules, placement_rules
from nodecheck.checks.dram.floors import Silicon, silicon
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Measurement, Owner, Remedy, Severity, Struct
from nodecheck.units import count, gb_per_second, gib, percent

_POLICY_FLAGS = ("bimodal", "unsteady", "undersized")
_POINTS_MIN = 3
_UNKNOWN_SMT = 2
_BYTES_PER_TRANSFER = 8


class _Floor(Struct, frozen=True):
    rate: float
    cores: int
    smt_known: bool
    silicon: Silicon


def _clean(seen: Seen) -> list[Measurement]:
    """The read rates that nothing disturbed, by threads."""
    found = [
        each
        for each in seen.measurements
        if each.name == "dram_read"
        and each.memory_node is None
        and "contended" not in each.flags
        and each.threads >= 1
    ]
    return sorted(found, key=lambda each: each.threads)


def _low(seen: Seen) -> Iterator[Finding]:
    measured = _clean(seen)
    if not measured:
        return
    best = max(measured, key=lambda each: each.median_bytes_per_second)
    floor = _floor(seen, measured[-1].threads)
    rate = best.median_bytes_per_second
    if floor is None or rate >= floor.rate or _is_emulated(seen):
        return
    fraction = seen.policy.thresholds.floor_known_fraction
    doubted = [flag for flag in best.flags if flag in _POLICY_FLAGS]
    critical = rate < fraction * floor.rate and not doubted
    yield Finding(
        id="mem.bandwidth_low",
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        subject="RAM",
        summary=f"Memory is read at {gb_per_second(rate)} on {count(best.threads, 'thread')}, at "
        f"least {gb_per_second(floor.rate)} expected",
        evidence=tuple(_low_evidence(measured, best, floor)),
        impact=_low_impact(seen, rate),
        remedy=_low_remedy(seen),
        owner=Owner.HYPERVISOR if seen.facts.virt.guest else Owner.HARDWARE,
    )


def _is_emulated(seen: Seen) -> bool:
    """Full emulation: a figure there is the emulator's."""
    return any(
        "TCG" in text for text in (*seen.facts.virt.guest_evidence, seen.facts.cpu.brand or "")
    )


def _floor(seen: Seen, most_threads: int) -> _Floor | None:
    """min(cores x floor per core, cap), and no more than half of what the modules can do.

    The cores are those behind the CPUs that were used: mask, quota and threads bound them.
    None where neither logical CPUs nor cores are known.
    """
    cpu, limits = seen.facts.cpu, seen.facts.limits
    logical, cores = cpu.logical_cpus, cpu.physical_cores
    if logical is None and cores is None:
        return None
    used = [most_threads]
    used += [logical] if logical else []
    used += [len(limits.usable_cpus)] if limits.usable_cpus else []
    used += [math.ceil(limits.cpu_quota)] if limits.cpu_quota else []
    threads_per_core = _threads_per_core(seen)
    behind = max(1, min(used) // (threads_per_core or _UNKNOWN_SMT))
    behind = min(behind, cores) if cores else behind
    kind = silicon(cpu)
    peak = _modules_peak(seen)
    rate = min(kind.floor(behind), peak / 2) if peak else kind.floor(behind)
    return _Floor(rate, behind, threads_per_core is not None, kind)


def _threads_per_core(seen: Seen) -> int | None:
    """None where not known: a guest with one thread a core is told nothing of siblings."""
    cpu, guest = seen.facts.cpu, seen.facts.virt.guest or seen.facts.cpu.hypervisor
    if not cpu.logical_cpus or not cpu.physical_cores:
        return None
    threads = max(1, round(cpu.logical_cpus / cpu.physical_cores))
    return None if guest and threads == 1 else threads


def _modules_peak(seen: Seen) -> float | None:
    """Transfers a second x 8 bytes x channels with modules; a guest's modules are fiction."""
    dimms = [dimm for dimm in seen.facts.memory.dimms if dimm.size_bytes]
    speeds = [dimm.configured_mts or dimm.speed_mts for dimm in dimms]
    if not dimms or None in speeds or seen.facts.virt.guest:
        return None
    named = {(dimm.socket, dimm.channel) for dimm in dimms}
    channels = len(dimms) if any(dimm.channel is None for dimm in dimms) else len(named)
    return channels * min(speed or 0 for speed in speeds) * 1e6 * _BYTES_PER_TRANSFER


def _low_evidence(
    measured: list[Measurement], best: Measurement, floor: _Floor
) -> Iterator[Evidence]:
    siblings = "" if floor.smt_known else ", two vCPUs counted as one core"
    yield Evidence(
        value=_reading(best),
        source=f"read kernel {best.kernel}, median of {best.passes} clean passes"
        if best.passes
        else "measurements.json",
        expected=f"at least {gb_per_second(floor.rate)}",
        basis=f"{count(floor.cores, 'core')} of {floor.silicon.name} at "
        f"{gb_per_second(floor.silicon.per_core)} each{siblings}; a floor, not the socket's peak",
    )
    for other in measured:
        if other is not best:
            yield Evidence(
                value=_reading(other),
                source="the same measurement",
            )


def _reading(each: Measurement) -> str:
    return f"{count(each.threads, 'thread')}: {gb_per_second(each.median_bytes_per_second)}"


def _low_impact(seen: Seen, rate: float) -> str:
    named = seen.workload
    weights = named.weight_bytes_shipped if named else seen.policy.reference_workload.weights_bytes
    name = named.name if named else f"a {seen.policy.reference_workload.name} model"
    return (
        f"The weights of {name} ({gib(weights)}) cannot be read faster than {weights / rate:.1f} "
        "s a token, "
        "whatever the instruction set; decode within the GPUs is not affected"
    )


def _low_remedy(seen: Seen) -> Remedy:
    if seen.facts.virt.guest:
        return Remedy(
            text="Ask the host whether neighbours or a limit take its memory bandwidth, whether "
            "its channels are filled and whether the vCPUs lie on one die; measure on the host. "
            "More instruction sets alone do not raise it",
            action=Action.RECONFIGURE_VM,
            commands=("sudo dmidecode -t 17  # on the host",),
            cost="A cold stop where vCPUs are pinned or the guest moves to another host",
        )
    return Remedy(
        text="Look at the slots (channels without a module, speed below the module's), then at "
        "the firmware's memory and power profile",
        action=Action.RESEAT,
        commands=("sudo dmidecode -t 17",),
        cost="One stop of the node",
    )


def _bound(seen: Seen) -> Iterator[Finding]:
    measured = _clean(seen)
    if len({each.threads for each in measured}) < _POINTS_MIN:
        return
    before, last = measured[-2:]
    gain = last.median_bytes_per_second / before.median_bytes_per_second - 1
    least = seen.policy.thresholds.bandwidth_gain_min
    if gain >= least:
        return
    yield Finding(
        id="mem.bandwidth_bound",
        severity=Severity.INFO,
        subject="RAM",
        summary=f"Memory is saturated by {count(before.threads, 'thread')}",
        evidence=tuple(
            Evidence(
                value=_reading(each),
                source=f"read kernel {each.kernel}" if each.passes else "measurements.json",
                expected=f"{percent(least)} more than on {count(before.threads, 'thread')}"
                if each is last
                else None,
                basis="policy bandwidth_gain_min" if each is last else None,
            )
            for each in measured
        ),
        impact=f"From {before.threads} to {last.threads} threads the rate changes by "
        f"{100 * gain:+.0f} %: "
        "more threads do not decode faster on the CPU",
        remedy=Remedy(
            text=f"Decode with {count(before.threads, 'thread')}; prompts may use all",
            action=Action.RESTART_ENGINE,
            commands=(f"llama-server --threads {before.threads} --threads-batch {last.threads}",),
            cost="One restart of the engine",
        ),
        owner=Owner.USER,
    )


RULES: tuple[Rule, ...] = (
    *placement_rules.RULES,
    *decode_rules.RULES,
    Rule("mem.bandwidth_low", "Memory is read slower than this platform should", _low),
    Rule("mem.bandwidth_bound", "More threads add no memory bandwidth", _bound),
)
