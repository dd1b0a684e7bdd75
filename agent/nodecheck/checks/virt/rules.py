"""What it means that the node is a guest or a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity

_NO_REMEDY = Remedy(text="Nothing to change.", action=Action.NONE)


def _judge_guest(seen: Seen) -> Iterator[Finding]:
    virt = seen.facts.virt
    if not virt.guest:
        return
    kind = virt.hypervisor or "unknown hypervisor"
    where = f", platform {virt.platform}" if virt.platform else ""
    emulation = " by full emulation" if virt.emulated else ""
    yield Finding(
        id="virt.guest",
        severity=Severity.INFO,
        subject="node",
        summary=f"This is a virtual machine ({kind}{where}){emulation}",
        evidence=_evidence(virt.guest_evidence, "no trace of a hypervisor on bare metal"),
        impact=(
            "CPU type, topology, cache sizes and PCIe ports are what the hypervisor tells; "
            "neighbours share DRAM bandwidth unseen, even at 0 % steal"
        ),
        remedy=_NO_REMEDY,
        owner=Owner.HYPERVISOR,
    )


def _judge_container(seen: Seen) -> Iterator[Finding]:
    virt = seen.facts.virt
    if virt.container is None:
        return
    lxcfs = any("lxcfs" in item for item in virt.container_evidence)
    memory = (
        "/proc/meminfo is the container's already (lxcfs): its limit counts once"
        if lxcfs
        else "/proc/meminfo and the CPU count are the node's; the limits are the cgroup's"
    )
    yield Finding(
        id="virt.container",
        severity=Severity.INFO,
        subject="node",
        summary=f"This process runs in a container ({virt.container})",
        evidence=_evidence(virt.container_evidence, "no trace of a container on the node itself"),
        impact=f"{memory}. CPU flags are those of the node or its virtual machine",
        remedy=_NO_REMEDY,
        owner=Owner.OPERATOR,
    )


def _evidence(items: Iterable[str], expected: str) -> tuple[Evidence, ...]:
    """Facts in the form `source: value` as evidence."""
    pairs = [item.partition(": ") for item in items]
    return tuple(
        Evidence(
            value=value or source, source=source, expected=expected, basis="systemd-detect-virt"
        )
        for source, _, value in pairs
    )


RULES: tuple[Rule, ...] = (
    Rule("virt.guest", "The node is a virtual machine", _judge_guest),
    Rule("virt.container", "nodecheck runs inside a container", _judge_container),
)
