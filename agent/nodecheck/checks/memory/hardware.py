"""Judges memory modules: errors, and channels that hold none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nodecheck.checks.kernel_log.facts import DimmErrors
from nodecheck.checks.memory.facts import Dimm, MemoryController
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, ranges

_LOG_LINES_SHOWN = 3


def ecc_correctable(seen: Seen) -> Iterator[Finding]:
    """`mem.ecc_correctable`: corrected errors, few (a stray bit) or many (a failing module)."""
    errors = _errors(seen, "CE")
    if errors <= 0:
        return
    many = errors >= seen.policy.thresholds.correctable_errors_warning
    names = _module_names(seen, "CE")
    yield Finding(
        id="mem.ecc_correctable",
        severity=Severity.WARNING if many else Severity.INFO,
        subject="RAM",
        summary=f"{count(errors, 'memory error')} corrected" + (f" on {names}" if names else ""),
        evidence=tuple(_error_evidence(seen, "CE")),
        impact="A module that corrects this often tends to fail: then a bit error stops a job or "
        "the node"
        if many
        else "None so far: single bits flip on healthy modules too",
        remedy=Remedy(
            text=f"Replace {names or 'the module that the kernel log names'} at the next stop"
            if many
            else "Watch the count",
            action=Action.REPLACE if many else Action.NONE,
            commands=("grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_{label,ce_count}",),
            cost="One stop of the node and a module" if many else None,
        ),
        owner=Owner.HARDWARE,
    )


def ecc_uncorrectable(seen: Seen) -> Iterator[Finding]:
    """`mem.ecc_uncorrectable`: data was lost."""
    errors = _errors(seen, "UE")
    if errors <= 0:
        return
    names = _module_names(seen, "UE")
    yield Finding(
        id="mem.ecc_uncorrectable",
        severity=Severity.CRITICAL,
        subject="RAM",
        summary=f"{count(errors, 'memory error')} that could not be corrected"
        + (f" on {names}" if names else ""),
        evidence=tuple(_error_evidence(seen, "UE")),
        impact="Data in memory was lost: weights or results may be wrong, and the next error can "
        "stop the node",
        remedy=Remedy(
            text=f"Take the node out of service and replace {names or 'the module'}",
            action=Action.REPLACE,
            commands=("grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_{label,ue_count}",),
            cost="One stop of the node and a module",
        ),
        owner=Owner.HARDWARE,
    )


def _errors(seen: Seen, kind: str) -> int:
    """The counters' sum, or the kernel log's where it is larger (counters may be reset)."""
    counted = sum(_of(kind, each) for each in seen.facts.memory.controllers)
    logged = sum(_of(kind, each) for each in seen.facts.kernel_log.dimm_errors)
    return max(counted, logged)


def _of(kind: str, errors: MemoryController | DimmErrors) -> int:
    return errors.correctable if kind == "CE" else errors.uncorrectable


def _module_names(seen: Seen, kind: str) -> str:
    """The modules that the controllers, else the kernel log, name; as text."""
    counted = [name for c in seen.facts.memory.controllers if _of(kind, c) for name in c.dimms]
    logged = [each.dimm for each in seen.facts.kernel_log.dimm_errors if _of(kind, each)]
    return ", ".join(dict.fromkeys(counted or logged))


def _error_evidence(seen: Seen, kind: str) -> Iterator[Evidence]:
    correctable, log = kind == "CE", seen.facts.kernel_log
    least = seen.policy.thresholds.correctable_errors_warning if correctable else 1
    basis = "policy correctable_errors_warning" if correctable else "none may occur"
    for controller in seen.facts.memory.controllers:
        if errors := _of(kind, controller):
            name = "ce_count" if correctable else "ue_count"
            yield Evidence(
                value=f"{errors} on {controller.name}",
                source=f"/sys/devices/system/edac/mc/{controller.name}/{name}",
                expected=f"below {least}",
                basis=basis,
            )
    for each in log.dimm_errors:
        if errors := _of(kind, each):
            yield Evidence(value=f"{errors} on {each.dimm}", source=log.source or "kernel log")
    lines = [line for line in log.memory_errors if f" {kind} " in f"{line} "]
    for line in lines[-_LOG_LINES_SHOWN:]:
        yield Evidence(value=line[:200], source=log.source or "kernel log")


def channels(seen: Seen) -> Iterator[Finding]:
    """`mem.channels`: a channel without a module beside one that has some, on the same socket."""
    empty, filled = 0, 0
    evidence = []
    for socket, slots in _by_channel(seen.facts.memory.dimms).items():
        bare = [name for name, dimms in slots.items() if all(d.size_bytes == 0 for d in dimms)]
        full = [name for name, dimms in slots.items() if any(d.size_bytes for d in dimms)]
        if bare and full:
            empty, filled = empty + len(bare), filled + len(full)
            evidence.append(_channel_evidence(socket, bare, full))
    if not evidence:
        return
    yield Finding(
        id="mem.channels",
        severity=Severity.WARNING,
        subject="RAM",
        summary=f"{filled} of {filled + empty} memory channels "
        + ("holds a module" if filled == 1 else "hold modules"),
        evidence=tuple(evidence),
        impact=f"At most {100 * filled // (filled + empty)} % of the memory bandwidth that the "
        "board has; decode on the CPU slows down as much, GPU-resident decode does not",
        remedy=Remedy(
            text="Put a module of the same kind into each channel, by the order in the board's "
            "manual",
            action=Action.RESEAT,
            commands=("sudo dmidecode -t 17",),
            cost="One stop of the node and the modules; moving those that are there costs the "
            "stop only",
        ),
        owner=Owner.HARDWARE,
    )


def _by_channel(dimms: tuple[Dimm, ...]) -> dict[str, dict[str, list[Dimm]]]:
    """Socket -> channel -> its slots, without the slots whose names tell no channel."""
    sockets: dict[str, dict[str, list[Dimm]]] = defaultdict(lambda: defaultdict(list))
    for dimm in dimms:
        if dimm.channel is not None:
            sockets[dimm.socket or ""][dimm.channel].append(dimm)
    return sockets


def _channel_evidence(socket: str, bare: list[str], full: list[str]) -> Evidence:
    where = f"{socket}: " if socket else ""
    return Evidence(
        value=f"{where}no module in channel {', '.join(bare)}; modules in {', '.join(full)}",
        source="dmidecode -t 17",
        expected="a module in each channel",
        basis="the slots' own names (Locator, Bank Locator)",
    )


def side_cache(seen: Seen) -> Iterator[Finding]:
    """`mem.side_cache`: DRAM works as a cache before slower memory."""
    nodes = [node.id for node in seen.facts.numa.nodes if node.side_cache]
    if not nodes:
        return
    yield Finding(
        id="mem.side_cache",
        severity=Severity.INFO,
        subject="RAM",
        summary=f"DRAM is a cache for slower memory on NUMA node {ranges(nodes)}",
        evidence=tuple(
            Evidence(
                value=f"node {number} has a memory_side_cache",
                source=f"/sys/devices/system/node/node{number}/memory_side_cache",
            )
            for number in nodes
        ),
        impact="MemTotal is the slower memory; a figure measured within the cache says nothing "
        "of a model that does not fit into it",
        remedy=Remedy(
            text="Measure with a buffer larger than the cache",
            action=Action.NONE,
            commands=("grep . /sys/devices/system/node/node*/memory_side_cache/index*/size",),
        ),
        owner=Owner.HARDWARE,
    )
