"""What the state of RAM means."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import DimmErrors, KernelLogFacts
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.limits.probe import probe as limits_probe
from nodecheck.checks.memory.facts import MemoryController, MemoryFacts
from nodecheck.checks.memory.probe import probe
from nodecheck.checks.memory.rules import RULES
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.numa.probe import probe as numa_probe
from nodecheck.checks.seen import Facts, Seen
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Severity
from nodecheck.policy import Policy
from nodecheck.units import gib
from tests.checks.memory.examples import (
    EMPTY,
    GIB,
    HEADER,
    HEALTHY,
    RAISES,
    fitting,
    meminfo,
    memory_device,
    vmstat,
)
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


def judge(seen: Seen) -> dict[str, Finding]:
    found = [finding for rule in RULES for finding in rule.judge(seen)]
    assert len({finding.id for finding in found}) == len(found)
    return {finding.id: finding for finding in found}


def look(host: CapturedHost) -> Seen:
    facts = Facts(
        memory=probe(Reader(host, "memory")),
        limits=limits_probe(Reader(host, "limits")),
        numa=numa_probe(Reader(host, "numa")),
    )
    return Seen(facts=facts, policy=Policy())


def test_a_healthy_node_has_no_finding(node: Node) -> None:
    assert judge(look(node(HEALTHY))) == {}


@pytest.mark.parametrize("name", RAISES)
def test_each_example_raises_its_finding_alone(node: Node, name: str) -> None:
    example = RAISES[name]
    seen = example if isinstance(example, Seen) else look(node(example))
    assert list(judge(seen)) == [name]


# a named model


L40 = Gpu(memory_bytes=48 * GIB, granted=True)


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (fitting(70 * GIB, total=64 * GIB), Severity.CRITICAL),
        (fitting(70 * GIB, total=64 * GIB, gpus=(L40,)), Severity.CRITICAL),
        (fitting(70 * GIB, total=64 * GIB, available=30 * GIB, gpus=(L40, L40)), None),
        (fitting(50 * GIB, total=64 * GIB, available=40 * GIB), Severity.WARNING),
        (fitting(60 * GIB, total=64 * GIB, available=11 * GIB, gpus=(L40,)), Severity.WARNING),
        (fitting(60 * GIB, total=64 * GIB, available=13 * GIB, gpus=(L40,)), None),
        (fitting(70 * GIB, total=64 * GIB, gpus=(Gpu(granted=True),)), None),  # memory not known
        (fitting(70 * GIB, total=64 * GIB, gpus=(Gpu(unified_memory=True),)), Severity.CRITICAL),
        (
            fitting(70 * GIB, total=64 * GIB, gpus=(Gpu(memory_bytes=99 * GIB, granted=False),)),
            Severity.CRITICAL,
        ),
    ],
)
def test_a_model_and_the_memory_for_it(seen: Seen, severity: Severity | None) -> None:
    finding = judge(seen).get("mem.insufficient")
    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    ("gpus", "summary", "cards"),
    [
        ((), "RAM does not hold this model (70 GiB, q4_k)", "no GPU"),
        ((Gpu(unified_memory=True),), "RAM does not hold this model (70 GiB, q4_k)",
         "no GPU memory to use"),
        ((L40,), "Neither RAM nor GPU memory holds this model (70 GiB, q4_k)",
         f"GPU memory {gib(L40.memory_bytes or 0)}"),
    ],
)  # fmt: skip
def test_a_node_without_a_gpu_has_no_gpu_memory(
    gpus: tuple[Gpu, ...], summary: str, cards: str
) -> None:
    finding = judge(fitting(70 * GIB, total=64 * GIB, gpus=gpus))["mem.insufficient"]
    assert finding.summary == summary
    assert finding.evidence[0].value == f"RAM 64 GiB, {cards}"


def test_memory_of_gpu_nodes_is_not_ram() -> None:
    seen = fitting(70 * GIB, total=90 * GIB)
    nodes = (
        NumaNode(id=0, cpus=(0, 1), memory_bytes=60 * GIB),
        NumaNode(id=8, cpus=(), memory_bytes=30 * GIB),
    )
    with_gpu_nodes = Seen(
        facts=Facts(memory=seen.facts.memory, numa=NumaFacts(nodes=nodes)),
        policy=seen.policy,
        workload=seen.workload,
    )
    assert judge(seen) == {}
    assert judge(with_gpu_nodes)["mem.insufficient"].severity is Severity.CRITICAL


def test_a_cgroup_leaves_less_than_the_node() -> None:
    seen = fitting(20 * GIB, total=64 * GIB, available=60 * GIB)
    limits = LimitsFacts(memory_limit_bytes=24 * GIB, memory_headroom_bytes=10 * GIB)
    inside = Seen(
        facts=Facts(memory=seen.facts.memory, limits=limits),
        policy=seen.policy,
        workload=seen.workload,
    )
    assert judge(inside)["mem.insufficient"].severity is Severity.WARNING


# pressure


def pressed(**members: float | None) -> Seen:
    limits = LimitsFacts(memory_high_events_now=members.pop("high", None))  # type: ignore[arg-type]
    memory = MemoryFacts(**members)  # type: ignore[arg-type]
    return Seen(facts=Facts(memory=memory, limits=limits), policy=Policy(), live=True)


def test_who_captured_two_samples_need_not_show_a_rate() -> None:
    little = pressed(file_refaults_now=60, major_faults_now=50, sample_seconds=10.0)
    assert "mem.cache_thrash" not in judge(little)
    assert "mem.cache_thrash" in judge(msgspec.structs.replace(little, live=False))


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (pressed(full_stall_avg10=0.10), Severity.CRITICAL),
        (pressed(full_stall_avg10=0.09), None),
        (pressed(high=3), Severity.WARNING),
        (pressed(high=0), None),
        (
            pressed(file_refaults_now=90_000, major_faults_now=9, sample_seconds=10.0),
            Severity.WARNING,
        ),
        (pressed(file_refaults_now=90_000, major_faults_now=0, sample_seconds=10.0), None),
        (pressed(file_refaults_now=9, major_faults_now=9, sample_seconds=10.0), None),
        (pressed(file_refaults_now=None, major_faults_now=9, sample_seconds=10.0), None),
    ],
)
def test_thrashing(seen: Seen, severity: Severity | None) -> None:
    finding = judge(seen).get("mem.cache_thrash")
    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    ("tree", "raised"),
    [
        ({"proc/meminfo": meminfo(SwapFree=0), "proc/vmstat": vmstat(pswpin=4)}, True),
        ({"proc/meminfo": meminfo(SwapFree=0), "proc/vmstat": vmstat()}, False),
        ({"proc/meminfo": meminfo(SwapFree=7 << 20), "proc/vmstat": vmstat(pswpin=4)}, False),
        ({"proc/meminfo": meminfo(SwapFree=9 << 20), "proc/vmstat": vmstat(pswpin=4)}, False),
        (
            {"proc/meminfo": meminfo(SwapTotal=0, SwapFree=0), "proc/vmstat": vmstat(pswpin=4)},
            False,
        ),
        (
            {  # swapped in once, but no more
                "proc/meminfo": meminfo(SwapFree=0),
                "proc/vmstat": vmstat(pswpin=4),
                "proc/vmstat.2": vmstat(pswpin=4),
            },
            False,
        ),
    ],
)
def test_swap(node: Node, tree: Tree, raised: bool) -> None:
    assert ("mem.swap_active" in judge(look(node(tree)))) is raised


def test_fragments_do_not_matter_without_huge_pages(node: Node) -> None:
    example = RAISES["mem.thp"]
    assert isinstance(example, dict)
    tree = example | {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}
    assert judge(look(node(tree))) == {}


@pytest.mark.parametrize(("free", "raised"), [(8191, False), (8192, True)])
def test_a_quarter_of_memory_in_idle_huge_pages(node: Node, free: int, raised: bool) -> None:
    tree: Tree = {"proc/meminfo": meminfo(HugePages_Total=9000, HugePages_Free=free)}
    assert ("mem.hugepages_reserved" in judge(look(node(tree)))) is raised


def test_reserved_huge_pages_are_in_use(node: Node) -> None:
    pages = {"HugePages_Total": 9000, "HugePages_Free": 9000, "HugePages_Rsvd": 9000}
    assert judge(look(node({"proc/meminfo": meminfo(**pages)}))) == {}


def test_the_remedy_keeps_the_pages_that_are_used(node: Node) -> None:
    pages = {"HugePages_Total": 12000, "HugePages_Free": 11000, "HugePages_Rsvd": 500}
    finding = judge(look(node({"proc/meminfo": meminfo(**pages)})))["mem.hugepages_reserved"]
    assert finding.remedy.commands == ("sudo sysctl -w vm.nr_hugepages=1500",)


# modules


def errors(correctable: int, uncorrectable: int = 0, log: tuple[DimmErrors, ...] = ()) -> Seen:
    controllers = (
        MemoryController(name="mc0", correctable=0, uncorrectable=0),
        MemoryController(name="mc1", correctable=correctable, uncorrectable=uncorrectable),
    )
    facts = Facts(
        memory=MemoryFacts(controllers=controllers),
        kernel_log=KernelLogFacts(source="dmesg", dimm_errors=log),
    )
    return Seen(facts=facts, policy=Policy())


@pytest.mark.parametrize(
    ("count", "severity"),
    [(0, None), (1, Severity.INFO), (9, Severity.INFO), (10, Severity.WARNING)],
)
def test_one_corrected_error_is_no_fault(count: int, severity: Severity | None) -> None:
    finding = judge(errors(count)).get("mem.ecc_correctable")
    assert (finding.severity if finding else None) is severity


def test_the_kernel_log_names_the_module() -> None:
    log = (DimmErrors(dimm="CPU_SrcID#0_Chan#1_DIMM#0", correctable=262),)
    finding = judge(errors(262, log=log))["mem.ecc_correctable"]
    assert "CPU_SrcID#0_Chan#1_DIMM#0" in finding.summary
    assert finding.summary.startswith("262 ")


def test_an_uncorrected_error_is_critical() -> None:
    assert judge(errors(0, 1))["mem.ecc_uncorrectable"].severity is Severity.CRITICAL


def slots(*devices: tuple[str, str, str]) -> Tree:
    text = HEADER + "".join(memory_device(*device) for device in devices)
    return {"cmd/dmidecode_-t_17.txt": text}


@pytest.mark.parametrize(
    "devices",
    [
        # two slots a channel, one of each filled
        (
            ("DIMM_A1", "NODE 1", EMPTY),
            ("DIMM_A2", "NODE 1", "16 GB"),
            ("DIMM_B1", "NODE 1", EMPTY),
            ("DIMM_B2", "NODE 1", "16 GB"),
        ),
        # the second socket is not fitted at all
        (
            ("DIMM 0", "P0 CHANNEL A", "16 GB"),
            ("DIMM 0", "P0 CHANNEL B", "16 GB"),
            ("DIMM 0", "P1 CHANNEL A", EMPTY),
            ("DIMM 0", "P1 CHANNEL B", EMPTY),
        ),
        # names that tell no channel
        (("DIMM 0", "BANK 0", "16 GB"), ("DIMM 1", "BANK 1", EMPTY)),
        (("A1", "Not Specified", "16 GB"), ("B1", "Not Specified", EMPTY)),
        # a slot of which nothing is known
        (("DIMM 0", "P0 CHANNEL A", "16 GB"), ("DIMM 0", "P0 CHANNEL B", "Unknown")),
        # a board without any module that it knows of
        (("DIMM 0", "P0 CHANNEL A", EMPTY), ("DIMM 0", "P0 CHANNEL B", EMPTY)),
    ],
)
def test_filled_channels_and_unknown_ones(node: Node, devices: tuple[tuple[str, str, str]]) -> None:
    assert judge(look(node(slots(*devices)))) == {}


def test_a_memory_controller_without_any_module(node: Node) -> None:
    devices = [
        (f"P1-DIMM{letter}1", f"P0_Node{die}_Channel{channel}_Dimm0", EMPTY if die else "16 GB")
        for die, letters in enumerate(("ABC", "DEF"))
        for channel, letter in enumerate(letters)
    ]
    finding = judge(look(node(slots(*devices))))["mem.channels"]
    assert finding.summary == "3 of 6 memory channels hold modules"


def test_empty_channels_of_several_sockets_are_one_finding(node: Node) -> None:
    devices = [
        (f"CPU{socket}_DIMM_{channel}1", "x", "16 GB" if channel in "AB" else EMPTY)
        for socket in (0, 1)
        for channel in "ABCDEFGH"
    ]
    finding = judge(look(node(slots(*devices))))["mem.channels"]
    assert finding.summary == "4 of 16 memory channels hold modules"
    assert len(finding.evidence) == 2
    assert finding.impact.startswith("At most 25 %")
