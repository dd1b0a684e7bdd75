"""What a node is, in words that stay the same until somebody or something changes it."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator

from nodecheck.checks import CHECKS
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.judge.node import read_rate
from nodecheck.model import Severity, Struct
from nodecheck.report import Report
from nodecheck.units import gib

HOST_NAME = "host name"

UNNAMED = (None, "", "(none)", "localhost", "localhost.localdomain")
"""Host names that tell no node from another."""

VERSION, POLICY = "nodecheck", "policy"
"""Traits that tell what judged: others may find more, or less, on the same node."""


class Trait(Struct, frozen=True):
    """One thing that a node is or has; `check` and `field` tell the fact that it was read from.

    `value` is a text, or a set of names in order. `where` names one of several (a GPU, a slot).
    """

    check: str
    field: str
    name: str
    where: str | None
    value: str | tuple[str, ...]


class Told(Struct, frozen=True):
    """A finding that a report has: `check` judged it."""

    check: str
    id: str
    subject: str
    severity: Severity


class State(Struct, frozen=True, kw_only=True):
    """All of it. `unseen` are `check.field` that could not be read, `check.*` for a whole check.

    A field stands for its members too: `gpu.gpus` for `gpu.gpus.mig`. What is missing from an
    unseen field has not gone: nobody could look.
    """

    traits: tuple[Trait, ...] = ()
    findings: tuple[Told, ...] = ()
    unseen: tuple[str, ...] = ()

    def looked_at(self, check: str, field: str) -> bool:
        """Whether absence from this field is news."""
        return not covers(self.unseen, f"{check}.{field}")

    def blind_to(self, other: State) -> set[str]:
        """What could not be read here, and could be there."""
        return {each for each in self.unseen if not covers(other.unseen, each)}


def covers(unseen: Collection[str], name: str) -> bool:
    """Whether a fact, `check.field`, is among what could not be read, by itself or within it."""
    check, *members = name.split(".")
    above = (".".join((check, *members[: n + 1])) for n in range(len(members)))
    return f"{check}.*" in unseen or any(each in unseen for each in above)


_SIZELESS = ("zfs",)
"""What is free in the pool counts as theirs, so their size changes with what others write."""


def state(report: Report) -> State:
    """The state of the node that a report was made of."""
    owners = _owners()
    return State(
        traits=tuple(_traits(report)),
        findings=tuple(
            sorted(
                (Told(owners.get(f.id, ""), f.id, f.subject, f.severity) for f in report.findings),
                key=lambda t: (t.id, t.subject),
            )
        ),
        unseen=tuple(sorted(_unseen(report))),
    )


def _owners() -> dict[str, str]:
    """Finding id -> the check that judges it."""
    return {
        rule.id: check
        for check in CHECKS
        for rule in importlib.import_module(f"nodecheck.checks.{check}.rules").RULES
    }


def _unseen(report: Report) -> set[str]:
    unseen = {f"{gap.check}.{gap.field}" for gap in report.gaps}
    if report.facts.dram.skipped is not None or read_rate(report.measurements) is None:
        unseen.add("dram.*")
    if report.facts.python.interpreter is None:
        unseen.add("python.*")
    if report.facts.engine.state is None:
        unseen.add("engine.*")
    if _driver_is_silent(report):
        unseen |= {"gpu.driver_version", "gpu.cuda_version", "gpu.gpus"}
    return unseen


def _driver_is_silent(report: Report) -> bool:
    """Whether there is a driver that does not answer: cards are then known by less, or not."""
    return report.facts.gpu.state not in (None, "ok", "missing")


def _traits(report: Report) -> Iterator[Trait]:
    host = (
        Trait("host", "version", VERSION, None, report.nodecheck_version),
        Trait("host", "policy", POLICY, None, report.policy or ""),
        Trait("host", "name", HOST_NAME, None, report.host.name or ""),
        Trait("host", "kernel", "kernel", None, report.host.kernel or ""),
    )
    for each in (*host, *_cpu(report), *_machine(report), *_memory(report), *_gpus(report)):
        if each.value:
            yield each


def _cpu(report: Report) -> Iterator[Trait]:
    cpu = report.facts.cpu
    for field, name, value in (
        ("brand", "CPU", cpu.brand),
        ("x86_64_level", "x86-64 level", cpu.x86_64_level and f"v{cpu.x86_64_level}"),
        ("logical_cpus", "CPUs", cpu.logical_cpus),
        ("physical_cores", "physical cores", cpu.physical_cores),
        ("sockets", "sockets", cpu.sockets),
        ("smt_control", "SMT", cpu.smt_control),
        ("clocksource", "clock source", cpu.clocksource),
        ("scaling_driver", "frequency driver", cpu.scaling_driver),
    ):
        yield Trait("cpu", field, name, None, "" if value is None else str(value))
    yield Trait("cpu", "flags", "CPU flags", None, tuple(sorted(set(cpu.flags or ()))))
    yield Trait("cpu", "usable_flags", "instruction sets", None,
                tuple(sorted(set(cpu.usable_flags or ()))))  # fmt: skip
    yield Trait("cpu", "governors", "frequency governor", None, ", ".join(sorted(cpu.governors)))


def _machine(report: Report) -> Iterator[Trait]:
    virt, limits, facts = report.facts.virt, report.facts.limits, report.facts
    quota = limits.cpu_quota
    for check, field, name, value in (
        ("virt", "hypervisor", "hypervisor", virt.hypervisor),
        ("virt", "machine_type", "machine type", virt.machine_type),
        ("virt", "product_name", "product", virt.product_name),
        ("virt", "container", "container", virt.container),
        ("limits", "cpu_quota", "CPU quota", None if quota is None else f"{quota:g} CPUs"),
        ("limits", "memory_limit_bytes", "memory limit",
         gib(limits.memory_limit_bytes) if limits.memory_limit_bytes else None),
        ("numa", "nodes", "NUMA nodes", str(len(facts.numa.nodes)) if facts.numa.nodes else None),
    ):  # fmt: skip
        yield Trait(check, field, name, None, value or "")
    for each in facts.disk.filesystems:
        if each.persistent and not each.network and each.total_bytes:
            size = "" if each.fstype in _SIZELESS else f", {gib(each.total_bytes)}"
            yield Trait("disk", "filesystems", "file system", each.mount, f"{each.fstype}{size}")


def _memory(report: Report) -> Iterator[Trait]:
    memory = report.facts.memory
    if memory.total_bytes:
        yield Trait("memory", "total_bytes", "RAM", None, gib(memory.total_bytes))
    yield Trait("memory", "thp", "transparent huge pages", None, memory.thp or "")
    for dimm in memory.dimms:
        if dimm.size_bytes:
            speed = dimm.configured_mts or dimm.speed_mts
            where = " ".join(filter(None, (dimm.bank, dimm.locator)))
            value = gib(dimm.size_bytes) + (f", {speed} MT/s" if speed else "")
            yield Trait("memory", "dimms", "DIMM", where, value)


def _gpus(report: Report) -> Iterator[Trait]:
    gpu = report.facts.gpu
    yield Trait("gpu", "driver_version", "GPU driver", None, gpu.driver_version or "")
    yield Trait("gpu", "cuda_version", "CUDA", None, gpu.cuda_version or "")
    for card in report.facts.gpus:
        where = card.pci_address or str(card.index)
        if not _driver_is_silent(report) or {"nvml", "nvidia-smi"} & set(card.seen_by):
            name = card.name or card.pci_device_id or "unnamed"
            yield Trait("gpu", "gpus.name", "GPU", where, name)
        if "pci" in card.seen_by:
            yield Trait("gpu", "on_pci", "PCI device", where, card.pci_device_id or "unnamed")
        yield Trait("gpu", "gpus.link_width", "PCIe link", where, _link(card))
        if card.memory_bytes:
            yield Trait("gpu", "gpus.memory_bytes", "VRAM", where, gib(card.memory_bytes))
        if card.power_limit_watts:
            limit = f"{card.power_limit_watts:.0f} W"
            yield Trait("gpu", "gpus.power_limit_watts", "power limit", where, limit)
        if card.mig is not None:
            yield Trait("gpu", "gpus.mig", "MIG", where, "on" if card.mig else "off")


def _link(card: Gpu) -> str:
    """Not the speed now: it falls when the card idles."""
    width = f"x{card.link_width}" if card.link_width else ""
    known = card.link_generation_max
    return " ".join(filter(None, (f"Gen{known}" if known else "", width)))
