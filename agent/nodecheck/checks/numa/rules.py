"""Judges how CPUs, memory and GPUs lie on NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.numa.facts import NumaNode
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gib, ranges

_SYSFS = "/sys/devices/system/node"


def _with_cpus_and_memory(seen: Seen) -> list[NumaNode]:
    return [node for node in seen.facts.numa.nodes if node.cpus and node.memory_bytes]


def _overlapping(seen: Seen) -> list[NumaNode]:
    """The nodes that share a CPU with another."""
    owners: dict[int, set[int]] = {}
    for node in seen.facts.numa.nodes:
        for cpu in node.cpus or ():
            owners.setdefault(cpu, set()).add(node.id)
    shared = {node for nodes in owners.values() if len(nodes) > 1 for node in nodes}
    return [node for node in seen.facts.numa.nodes if node.id in shared]


def _multi_node(seen: Seen) -> Iterator[Finding]:
    nodes = _with_cpus_and_memory(seen)
    if len(nodes) < 2 or _overlapping(seen):
        return
    far = max((distance for node in nodes for distance in node.distances), default=10)
    remote = f", distance up to {far} (10 is local)" if far > 10 else ""
    first = nodes[0].id
    yield Finding(
        id="numa.multi_node",
        severity=Severity.INFO,
        subject="NUMA",
        summary=f"CPUs and memory lie on {len(nodes)} NUMA nodes{remote}",
        evidence=tuple(_node_evidence(node) for node in nodes),
        impact="Inference on the CPU that is not placed has run at half the speed of one pinned "
        "to a node "
        "(4 against 8 tok/s in a public report)",
        remedy=Remedy(
            text="Pin an engine that fits into one node, interleave one that does not",
            action=Action.RESTART_ENGINE,
            commands=(
                f"numactl --cpunodebind={first} --membind={first} <ENGINE>",
                "numactl --interleave=all <ENGINE>",
                "llama-server --numa distribute",
            ),
            cost="One restart of the engine; pinned, it has one node's CPUs and memory",
        ),
        owner=Owner.USER,
    )


def _node_evidence(node: NumaNode) -> Evidence:
    memory = "unknown memory" if node.memory_bytes is None else gib(node.memory_bytes)
    cpus = "unknown CPUs" if node.cpus is None else f"CPUs {ranges(node.cpus) or 'none'}"
    return Evidence(value=f"node {node.id}: {cpus}, {memory}", source=f"{_SYSFS}/node{node.id}")


def _inconsistent(seen: Seen) -> Iterator[Finding]:
    nodes = _overlapping(seen)
    if not nodes:
        return
    yield Finding(
        id="numa.inconsistent",
        severity=Severity.INFO,
        subject="NUMA",
        summary=f"The CPU sets of {len(nodes)} NUMA nodes overlap: the firmware's map is wrong",
        evidence=tuple(_node_evidence(node) for node in nodes),
        impact="Pinning to a node may bind memory that is remote; no placement can be trusted",
        remedy=Remedy(
            text="Do not pin to nodes here; update the firmware, or correct the guest's NUMA map",
            action=Action.NONE,
        ),
        owner=Owner.HARDWARE,
    )


def _memoryless(seen: Seen) -> Iterator[Finding]:
    nodes = [node for node in seen.facts.numa.nodes if node.cpus and node.memory_bytes == 0]
    if not nodes:
        return
    cpus = len({cpu for node in nodes for cpu in node.cpus or ()})
    guest = seen.facts.virt.guest is True
    yield Finding(
        id="numa.memoryless",
        severity=Severity.WARNING,
        subject="NUMA",
        summary=f"NUMA node {ranges(n.id for n in nodes)} has CPUs but no memory"
        if len(nodes) == 1
        else f"NUMA nodes {ranges(n.id for n in nodes)} have CPUs but no memory",
        evidence=tuple(
            Evidence(
                value=f"node {node.id}: MemTotal 0, CPUs {ranges(node.cpus or ())}",
                source=f"{_SYSFS}/node{node.id}/meminfo",
                expected="memory on each node that has CPUs",
                basis="each socket has its own memory channels",
            )
            for node in nodes
        ),
        impact=f"{count(cpus, 'CPU')} {'reaches' if cpus == 1 else 'reach'} all memory through "
        "another node, and that "
        "node's channels alone carry the traffic of both",
        remedy=Remedy(
            text="Give each virtual NUMA node its share of the memory in the guest's NUMA map"
            if guest
            else "Put modules into the slots of that socket",
            action=Action.RECONFIGURE_VM if guest else Action.RESEAT,
            commands=_numa_map_commands(seen) if guest else ("sudo dmidecode -t 17",),
            cost="One cold stop and start" if guest else "One stop of the node and the modules",
        ),
        owner=Owner.HYPERVISOR if guest else Owner.HARDWARE,
    )


def _numa_map_commands(seen: Seen) -> tuple[str, ...]:
    return {
        "proxmox": ("qm set <VMID> --numa0 cpus=<CPUS>,memory=<MIB>  # Proxmox, on its host",),
        "libvirt": (
            "virsh edit <DOMAIN>  # libvirt, on its host: <cell cpus='..' memory='..'/> of <numa>",
        ),
    }.get(seen.facts.virt.platform or "", ())


def _cpuless(seen: Seen) -> Iterator[Finding]:
    nodes = [node for node in seen.facts.numa.nodes if node.cpus == () and node.memory_bytes]
    if not nodes:
        return
    held = sum(node.memory_bytes or 0 for node in nodes)
    yield Finding(
        id="numa.cpuless",
        severity=Severity.INFO,
        subject="NUMA",
        summary=f"{count(len(nodes), 'NUMA node')} without CPUs "
        f"{'holds' if len(nodes) == 1 else 'hold'} {gib(held)}: GPU, CXL or "
        "persistent memory",
        evidence=tuple(_node_evidence(node) for node in nodes),
        impact=f"MemTotal counts {gib(held)} that are not the host's DRAM: they are left out of "
        "its headroom",
        remedy=Remedy(
            text="Nothing to repair; bind host allocations to the nodes that have CPUs",
            action=Action.NONE,
            commands=(
                "numactl --membind="
                + (ranges(n.id for n in seen.facts.numa.nodes if n.cpus) or "<NODES>")
                + " <ENGINE>",
            ),
        ),
        owner=Owner.USER,
    )


def _gpu_remote(seen: Seen) -> Iterator[Finding]:
    remote = [(gpu, why) for gpu in seen.facts.gpus if (why := _why_remote(seen, gpu))]
    if not remote:
        return
    nodes = sorted({gpu.numa_node for gpu, _ in remote if gpu.numa_node is not None})
    yield Finding(
        id="numa.gpu_remote",
        severity=Severity.WARNING,
        subject="NUMA",
        summary=f"This process may not run or allocate beside {count(len(remote), 'GPU')}",
        evidence=tuple(
            Evidence(
                value=f"{gpu.name or 'GPU'} {gpu.pci_address or gpu.index} is on node "
                f"{gpu.numa_node}; {why}",
                source="PCI numa_node, /proc/self/status Mems_allowed_list and Cpus_allowed_list",
                expected=f"CPUs and memory of node {gpu.numa_node}",
                basis="copies between host and GPU then stay on one node",
            )
            for gpu, why in remote
        ),
        impact="Each copy between host and GPU crosses the link between the sockets: model load, "
        "offloaded layers and a host KV pool slow down; decode within the GPU does not",
        remedy=Remedy(
            text=f"Let the engine run on the CPUs and memory of node {ranges(nodes)}",
            action=Action.RESTART_ENGINE,
            commands=(
                f"numactl --cpunodebind={ranges(nodes)} --membind={ranges(nodes)} <ENGINE>",
                f"docker run --cpuset-mems {ranges(nodes)} --cpuset-cpus {_cpus_of(seen, nodes)}",
            ),
            cost="One restart of the engine",
        ),
        owner=Owner.OPERATOR,
    )


def _why_remote(seen: Seen, gpu: Gpu) -> str | None:
    """What keeps the process from a granted GPU's node; None where nothing is known to."""
    limits = seen.facts.limits
    node = next((n for n in seen.facts.numa.nodes if n.id == gpu.numa_node), None)
    if node is None or not seen.facts.grants(gpu):
        return None
    if len(seen.facts.numa.nodes) < 2 or _overlapping(seen):
        return None
    if limits.mems_allowed is not None and node.memory_bytes and node.id not in limits.mems_allowed:
        return f"memory is allowed on node {ranges(limits.mems_allowed)} only"
    if (
        limits.usable_cpus is not None
        and node.cpus
        and not set(node.cpus) & set(limits.usable_cpus)
    ):
        return f"CPUs {ranges(limits.usable_cpus)} are usable, the node has {ranges(node.cpus)}"
    return None


def _cpus_of(seen: Seen, nodes: list[int]) -> str:
    return ranges(c for node in seen.facts.numa.nodes if node.id in nodes for c in node.cpus or ())


def _balancing(seen: Seen) -> Iterator[Finding]:
    nodes, gpus = _with_cpus_and_memory(seen), seen.facts.gpus
    if not seen.facts.numa.balancing or len(nodes) < 2 or not gpus:
        return
    yield Finding(
        id="numa.balancing",
        severity=Severity.INFO,
        subject="NUMA",
        summary="The kernel moves pages between NUMA nodes by itself (numa_balancing)",
        evidence=(
            Evidence(
                value="numa_balancing 1",
                source="/proc/sys/kernel/numa_balancing",
                expected="0",
                basis=f"{len(nodes)} nodes and {count(len(gpus), 'GPU')}",
            ),
        ),
        impact="Pages are unmapped to see who uses them, so threads that feed the GPUs stop at "
        "random",
        remedy=Remedy(
            text="Switch it off while models are served",
            action=Action.CHANGE_SETTING,
            commands=("sudo sysctl -w kernel.numa_balancing=0",),
            cost="None; programs that rely on it must be pinned",
        ),
        owner=Owner.OPERATOR,
    )


def _node_offline(seen: Seen) -> Iterator[Finding]:
    numa = seen.facts.numa
    if numa.online is None:
        return
    lists = {"has_memory": numa.has_memory or (), "has_cpu": numa.has_cpu or ()}
    offline = {name: set(nodes) - set(numa.online) for name, nodes in lists.items()}
    missing = set().union(*offline.values())
    if not missing:
        return
    yield Finding(
        id="numa.node_offline",
        severity=Severity.WARNING,
        subject="NUMA",
        summary=f"NUMA node {ranges(missing)} is not online"
        if len(missing) == 1
        else f"NUMA nodes {ranges(missing)} are not online",
        evidence=tuple(
            Evidence(
                value=f"{name} lists {ranges(lists[name])}",
                source=f"{_SYSFS}/{name}",
                expected=f"only nodes that are online: {ranges(numa.online)}",
                basis=f"{_SYSFS}/online",
            )
            for name, nodes in offline.items()
            if nodes
        ),
        impact=f"The CPUs and memory of {count(len(missing), 'node')} are not used",
        remedy=Remedy(
            text="Bring its CPUs and memory online; if that fails, look at the firmware's NUMA "
            "settings",
            action=Action.CHANGE_SETTING,
            commands=("sudo chcpu -e <CPUS>", "sudo chmem -e <RANGE>", "lsmem"),
            cost="None while it succeeds; firmware settings cost a reboot",
        ),
        owner=Owner.OPERATOR,
    )


RULES: tuple[Rule, ...] = (
    Rule("numa.multi_node", "CPUs and memory lie on several nodes", _multi_node),
    Rule("numa.inconsistent", "The CPU sets of NUMA nodes overlap", _inconsistent),
    Rule("numa.memoryless", "A node has CPUs and no memory", _memoryless),
    Rule("numa.cpuless", "A node has memory and no CPU", _cpuless),
    Rule("numa.gpu_remote", "The process is kept from a GPU's node", _gpu_remote),
    Rule("numa.balancing", "Automatic NUMA balancing is on", _balancing),
    Rule("numa.node_offline", "A node is not online", _node_offline),
)
