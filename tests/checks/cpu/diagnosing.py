"""From a captured node to the findings of the processor and the hypervisor."""

from __future__ import annotations

from nodecheck.checks.cpu import probe as cpu_probe
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cpu.rules import RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt import probe as virt_probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Gap
from nodecheck.policy import Policy


def cpu_facts(host: CapturedHost) -> tuple[CpuFacts, list[Gap]]:
    """What the probe sees, and what it misses."""
    reader = Reader(host, "cpu")
    return cpu_probe.probe(reader), reader.gaps


def seen(host: CapturedHost) -> Seen:
    """The facts of both probes."""
    cpu, _ = cpu_facts(host)
    virt = virt_probe.probe(Reader(host, "virt"))
    return Seen(facts=Facts(cpu=cpu, virt=virt), policy=Policy())


def judge(what: Seen) -> dict[str, Finding]:
    """The processor's findings by id."""
    return {finding.id: finding for rule in RULES for finding in rule.judge(what)}
