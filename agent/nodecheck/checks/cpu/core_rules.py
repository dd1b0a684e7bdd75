"""Rules on how many CPUs there are, and which of them a program gets."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu.core_names import core_name
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, ranges

_FOLDER = "/sys/devices/system/cpu"


def judge_few_cores(seen: Seen) -> Iterator[Finding]:
    """cpu.few_cores."""
    cores, usable = tuple(_few_physical_cores(seen)), tuple(_few_usable_cpus(seen))
    if not cores and not usable:
        return
    told = [_cores_words(seen.facts.cpu)] if cores else []
    told += [f"{count(_usable(seen) or 0, 'usable CPU')} for {count(_gpus(seen), 'GPU')}"] * len(
        usable
    )
    guest = bool(seen.facts.virt.guest)
    yield Finding(
        id="cpu.few_cores",
        severity=Severity.WARNING,
        subject="cpu",
        summary="Too few cores: " + " and ".join(told),
        evidence=(*cores, *usable),
        impact=(
            "The engine's scheduler, its tokenizer and the threads that feed the GPUs share one "
            "core and wait for each other; work on the CPU cannot run in parallel"
        ),
        remedy=Remedy(
            text=(
                "Take a larger instance or give the VM more vCPUs; count cores, not hardware "
                "threads: 2 logical CPUs are often one core"
                if guest
                else "Give the process more CPUs, or use a larger machine"
            ),
            action=Action.RECONFIGURE_VM if guest else Action.CHANGE_SETTING,
            commands=("lscpu -e=CPU,CORE,SOCKET", "nproc"),
            cost="A resize" if guest else "CPUs that others use",
        ),
        owner=Owner.OPERATOR,
    )


def _few_physical_cores(seen: Seen) -> Iterator[Evidence]:
    cpu, least = seen.facts.cpu, seen.policy.thresholds.physical_cores_min
    if cpu.physical_cores is not None and cpu.physical_cores < least:
        logical = f", logical CPUs: {cpu.logical_cpus}" if cpu.logical_cpus else ""
        yield Evidence(
            value=f"cores: {cpu.physical_cores}{logical}",
            source=f"{_FOLDER} topology and /proc/cpuinfo",
            expected=f"at least {least}",
            basis="policy physical_cores_min",
        )


def _cores_words(cpu: CpuFacts) -> str:
    logical = f" ({count(cpu.logical_cpus, 'logical CPU')})" if cpu.logical_cpus else ""
    return f"{count(cpu.physical_cores or 0, 'physical core')}{logical}"


def _usable(seen: Seen) -> int | None:
    """CPUs that the process may use; all of the node's are an upper bound of them."""
    usable = seen.facts.limits.usable_cpus
    return seen.facts.cpu.logical_cpus if usable is None else len(usable)


def _gpus(seen: Seen) -> int:
    """GPUs that an engine here would drive: granted, or told of by their driver."""
    told = {"nvml", "nvidia-smi"}
    return sum(
        not gpu.lost and (gpu.granted or (gpu.granted is None and bool(told & set(gpu.seen_by))))
        for gpu in seen.facts.gpus
    )


def _few_usable_cpus(seen: Seen) -> Iterator[Evidence]:
    cpus, gpus = _usable(seen), _gpus(seen)
    least = seen.policy.thresholds.cores_beside_gpus + gpus
    if cpus is not None and cpus < least:
        yield Evidence(
            value=f"CPUs: {cpus}, GPUs: {gpus}",
            source="online CPUs"
            if seen.facts.limits.usable_cpus is None
            else "/proc/self/status and cpuset",
            expected=f"at least {least}",
            basis="policy cores_beside_gpus, and one a GPU",
        )


def judge_offline(seen: Seen) -> Iterator[Finding]:
    """cpu.offline_cpus."""
    cpu = seen.facts.cpu
    if cpu.present is None or cpu.online is None or cpu.smt_control in {"off", "forceoff"}:
        return
    offline = sorted(set(cpu.present) - set(cpu.online))
    if not offline:
        return
    limits = _options(cpu, "maxcpus", "nr_cpus", "nosmt")
    yield Finding(
        id="cpu.offline_cpus",
        severity=Severity.WARNING,
        subject="cpu",
        summary=f"{count(len(offline), 'CPU')} of {len(cpu.present)} offline: {ranges(offline)}",
        evidence=(
            Evidence(
                value=f"present {ranges(cpu.present)}, online {ranges(cpu.online)}",
                source=f"{_FOLDER}/present and online",
                expected="all present CPUs online",
            ),
            *limits,
        ),
        impact=f"{len(offline)} of {len(cpu.present)} CPUs "
        f"{'takes' if len(offline) == 1 else 'take'} no work",
        remedy=Remedy(
            text=(
                f"Remove {' '.join(x.value for x in limits)} from the command line and reboot"
                if limits
                else "Bring them online, unless they were taken out on purpose"
            ),
            action=Action.REBOOT if limits else Action.CHANGE_SETTING,
            commands=(f"sudo chcpu -e {ranges(offline)}",),
            cost="One reboot" if limits else "None",
        ),
        owner=Owner.OPERATOR,
    )


def judge_isolated(seen: Seen) -> Iterator[Finding]:
    """cpu.isolated."""
    cpu = seen.facts.cpu
    if not cpu.isolated:
        return
    left = sorted(set(cpu.online or ()) - set(cpu.isolated))
    rest = f"; only {ranges(left)} take ordinary threads" if left else ""
    yield Finding(
        id="cpu.isolated",
        severity=Severity.WARNING,
        subject="cpu",
        summary=f"CPUs {ranges(cpu.isolated)} are isolated from the scheduler{rest}",
        evidence=(
            Evidence(
                value=f"isolated {ranges(cpu.isolated)}",
                source=f"{_FOLDER}/isolated",
                expected="no isolated CPU",
            ),
            *_options(cpu, "isolcpus", "nohz_full"),
        ),
        impact=(
            f"An engine that starts a thread a CPU piles them up on {count(len(left), 'CPU')}"
            if left
            else "Threads are not spread over these CPUs"
        ),
        remedy=Remedy(
            text=(
                "Pin the engine to CPUs and set its thread count to match, or drop isolcpus= from "
                "the command line and reboot"
            ),
            action=Action.CHANGE_SETTING,
            commands=(f"taskset -c {ranges(cpu.isolated)} <ENGINE>",),
            cost="Pinned threads are not balanced; dropping isolcpus= takes one reboot",
        ),
        owner=Owner.OPERATOR,
    )


def _options(cpu: CpuFacts, *names: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(value=option, source="/proc/cmdline")
        for option in cpu.boot_options
        if option.partition("=")[0] in names
    )


def judge_hybrid(seen: Seen) -> Iterator[Finding]:
    """cpu.hybrid."""
    kinds = seen.facts.cpu.core_types
    if len(kinds) < 2:
        return
    cpu = seen.facts.cpu
    told = ", ".join(f"{core_name(cpu, kind.name)} on {ranges(kind.cpus)}" for kind in kinds)
    read = "; ".join(f"{kind.name}: {ranges(kind.cpus)}" for kind in kinds)
    yield Finding(
        id="cpu.hybrid",
        severity=Severity.INFO,
        subject="cpu",
        summary=f"{len(kinds)} kinds of cores: {told}",
        evidence=(
            Evidence(value=read, source=f"/proc/cpuinfo and {_FOLDER}", expected="one kind"),
        ),
        impact="With threads on all of them the slowest kind sets the pace of every step",
        remedy=Remedy(
            text="Give the engine as many threads as there are big cores, and pin it to them",
            action=Action.CHANGE_SETTING,
            commands=("lscpu -e=CPU,CORE,MAXMHZ", "taskset -c <BIG-CORES> <ENGINE>"),
            cost="None",
        ),
        owner=Owner.USER,
    )


def judge_topology_odd(seen: Seen) -> Iterator[Finding]:
    """cpu.topology_odd."""
    cpu = seen.facts.cpu
    if cpu.sockets is None or cpu.sockets < seen.policy.thresholds.odd_packages:
        return
    if cpu.physical_cores != cpu.sockets:
        return
    yield Finding(
        id="cpu.topology_odd",
        severity=Severity.INFO,
        subject="cpu",
        summary=f"{cpu.sockets} packages of one core each: a hypervisor's topology, not a board's",
        evidence=(
            Evidence(
                value=f"{cpu.sockets} packages, {cpu.physical_cores} cores",
                source="/proc/cpuinfo and sysfs topology",
                expected=f"fewer than {seen.policy.thresholds.odd_packages} packages of one core",
                basis="policy odd_packages",
            ),
        ),
        impact="Packages, and what shares a cache or a NUMA node, cannot be told from it",
        remedy=Remedy(
            text="Nothing to change: do not infer NUMA or shared caches from it",
            action=Action.NONE,
        ),
        owner=Owner.HYPERVISOR,
    )
