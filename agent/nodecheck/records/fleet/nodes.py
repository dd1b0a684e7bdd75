"""What of a report is held against those of other nodes; the rest of it can be let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nodecheck.checks.cpu.isa import BY_ARCHITECTURE
from nodecheck.model import Severity, Status, Struct, faults
from nodecheck.records.figures import Figure, Kind, Metric, figures
from nodecheck.records.state import State, Trait, state
from nodecheck.report import Report, in_utc
from nodecheck.units import GIB

IN_HARDWARE = {
    ("host", "name"),
    ("cpu", "brand"),
    ("cpu", "logical_cpus"),
    ("cpu", "sockets"),
    ("memory", "total_bytes"),
    ("gpu", "gpus.name"),
    ("gpu", "on_pci"),
}
"""Traits by which nodes are named and put into groups."""

TOLD_OTHERWISE = {
    ("cpu", "flags"),  # a kernel's list grows with its version
    ("cpu", "x86_64_level"),  # follows from the instruction sets
    ("cpu", "usable_flags"),
    ("disk", "filesystems"),
    ("gpu", "gpus.memory_bytes"),  # a driver's reserve differs by its version
}


class Card(Struct, frozen=True):
    """A GPU by its name, and by its PCI vendor and device, which outlive the driver."""

    name: str | None
    device: str | None


class Feature(Struct, frozen=True, kw_only=True):
    """What a node is or has: a text, a set of names, or a size in bytes.

    `fact` is `check.field` that it was read from. Of several (cards, slots) the value counts them;
    `places` tells where each lies, if they are not alike.
    """

    name: str
    fact: str
    value: str | tuple[str, ...] | float
    places: tuple[tuple[str, str], ...] = ()


class Fault(Struct, frozen=True, kw_only=True):
    """A finding that asks for something, with all that it was found on; `check` judged it."""

    check: str
    id: str
    severity: Severity
    subjects: tuple[str, ...]


class Node(Struct, frozen=True, kw_only=True):
    """One report, reduced. `time` is in seconds since 1970; `cards` None where nobody could look.

    `unseen` is that of the state; `is_measured` where something was measured undisturbed.
    """

    file: str
    name: str | None
    time: int
    status: Status
    guest: bool | None
    cpu: str | None
    sockets: int | None
    logical_cpus: int | None
    ram_bytes: int | None
    cards: tuple[Card, ...] | None
    figures: tuple[Figure, ...] = ()
    features: tuple[Feature, ...] = ()
    faults: tuple[Fault, ...] = ()
    unseen: tuple[str, ...] = ()
    is_measured: bool = False


def node(report: Report, file: str) -> Node:
    """The node of a report; `file` is where that lies."""
    facts, seen = report.facts, state(report)
    rates = tuple(f for f in figures(report) if f.metric.kind is Kind.RATE)
    return Node(
        file=file,
        name=report.host.name,
        time=int(in_utc(report.time).timestamp()),
        status=report.verdict.status,
        guest=facts.virt.guest,
        cpu=_cpu(report),
        sockets=facts.cpu.sockets,
        logical_cpus=facts.cpu.logical_cpus,
        ram_bytes=facts.memory.total_bytes,
        cards=_cards(report, seen),
        figures=(*rates, *_ways(report)),
        features=(*_traits(seen), *_instruction_sets(report), *_sizes(report)),
        faults=tuple(_faults(report, seen)),
        unseen=seen.unseen,
        is_measured=any(not figure.flags for figure in rates),
    )


def _cpu(report: Report) -> str | None:
    """The brand; the part numbers where there is none, as on Arm."""
    cpu = report.facts.cpu
    if cpu.brand:
        return " ".join(cpu.brand.split())
    return " ".join((cpu.arch or "", cpu.implementer, *cpu.parts)) if cpu.implementer else None


def _cards(report: Report, seen: State) -> tuple[Card, ...] | None:
    found = report.facts.gpus
    if not found and not seen.looked_at("gpu", "gpus"):
        return None
    return tuple(Card(gpu.name, gpu.pci_device_id) for gpu in found)


def _ways(report: Report) -> Iterator[Figure]:
    """The middle of what each strategy reaches: it proves no more than what was measured.

    Estimates of a node that was not measured are held against others of that kind alone.
    """
    flags = {f for each in report.measurements for f in each.flags}
    flags.update(f for each in report.latencies for f in each.flags)
    work = report.workload
    model = f" ({work.name})" if work and work.named_by_user else ""
    basis = "" if report.measurements else ", memory not measured"
    for way in report.strategies:
        if way.low is not None and way.high is not None:
            name, speed = f"{way.strategy}{model}{basis}", way.unit == "tok/s"
            unit = way.unit if speed else "s"
            yield Figure(
                metric=Metric(name, unit, Kind.RATE, more_is_better=speed),
                value=(way.low + way.high) / 2,
                flags=tuple(sorted(flags)),
            )


def _traits(seen: State) -> Iterator[Feature]:
    by_name: dict[tuple[str, str], list[Trait]] = {}
    for trait in seen.traits:
        if (trait.check, trait.field) not in IN_HARDWARE | TOLD_OTHERWISE:
            by_name.setdefault((trait.name, f"{trait.check}.{trait.field}"), []).append(trait)
    for (name, fact), traits in by_name.items():
        if traits[0].where is None:
            yield Feature(name=name, fact=fact, value=traits[0].value)
        else:
            yield _counted(name, fact, {str(t.where): str(t.value) for t in traits})


def _counted(name: str, fact: str, values: dict[str, str]) -> Feature:
    """Cards are not told apart by where they lie: that may differ between like nodes."""
    counts = Counter(sorted(values.values())).most_common()
    places = [
        (value, ", ".join(where for where, each in values.items() if each == value))
        for value, _ in counts
    ]
    told = ", ".join(f"{number}x {value}" for value, number in counts)
    return Feature(
        name=name, fact=fact, value=told, places=tuple(places) if len(counts) > 1 else ()
    )


def _instruction_sets(report: Report) -> Iterator[Feature]:
    cpu = report.facts.cpu
    matter = BY_ARCHITECTURE.get(cpu.arch or "", frozenset())
    if cpu.usable_flags:
        found = tuple(sorted(matter & set(cpu.usable_flags)))
        yield Feature(name="instruction sets", fact="cpu.usable_flags", value=found)


def _sizes(report: Report) -> Iterator[Feature]:
    for each in report.facts.disk.filesystems:
        if each.persistent and not each.network and each.total_bytes:
            fact, size = "disk.filesystems", float(each.total_bytes)
            yield Feature(name=f"file system {each.mount}", fact=fact, value=each.fstype)
            yield Feature(name=f"size of {each.mount}", fact=fact, value=size)
    vram = {
        gpu.pci_address or str(gpu.index): f"{round(gpu.memory_bytes / GIB)} GiB"
        for gpu in report.facts.gpus
        if gpu.memory_bytes
    }
    if vram:
        yield _counted("VRAM", "gpu.gpus.memory_bytes", vram)


def _faults(report: Report, seen: State) -> Iterator[Fault]:
    checks = {told.id: told.check for told in seen.findings}
    found: dict[tuple[str, Severity], list[str]] = {}
    for each in faults(report.findings):
        found.setdefault((each.id, each.severity), []).append(each.subject)
    for (id_, severity), subjects in found.items():
        yield Fault(check=checks[id_], id=id_, severity=severity, subjects=tuple(subjects))
