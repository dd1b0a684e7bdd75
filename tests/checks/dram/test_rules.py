"""When memory is slow, and for whom that is normal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram import floors
from nodecheck.checks.dram.floors import UNKNOWN, silicon
from nodecheck.checks.dram.rules import RULES
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import Dimm, MemoryFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Finding, Measurement, Severity
from nodecheck.policy import Policy
from nodecheck.units import GB
from nodecheck.workload.numbers import from_numbers

Rates = dict[int, float]
V3 = ("avx", "avx2", "fma", "bmi2", "f16c")


def judge(seen: Seen) -> dict[str, Finding]:
    found = [finding for rule in RULES for finding in rule.judge(seen)]
    assert len({finding.id for finding in found}) == len(found)
    return {finding.id: finding for finding in found}


def read_rates(rates: Rates, flags: tuple[str, ...] = ()) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="dram_read",
            kernel="sse2",
            threads=threads,
            median_bytes_per_second=rate * GB,
            flags=flags,
        )
        for threads, rate in rates.items()
    )


def cpu(vendor: str, family: int, model: int, **more: Any) -> CpuFacts:
    more = {"arch": "x86_64", "flags": V3} | more
    return CpuFacts(vendor=vendor, family=family, model=model, **more)


MASKED = cpu(
    "GenuineIntel",
    15,
    6,
    brand="Common KVM processor",
    flags=("sse2",),
    logical_cpus=8,
    physical_cores=8,
)
MILAN_VM = cpu("AuthenticAMD", 25, 1, brand="AMD EPYC", logical_cpus=2, physical_cores=1)


def node(
    processor: CpuFacts,
    rates: Rates,
    *,
    flags: tuple[str, ...] = (),
    guest: bool | None = True,
    limits: LimitsFacts = LimitsFacts(),  # noqa: B008
    dimms: tuple[Dimm, ...] = (),
    evidence: tuple[str, ...] = (),
) -> Seen:
    facts = Facts(
        cpu=processor,
        virt=VirtFacts(guest=guest, guest_evidence=evidence),
        limits=limits,
        memory=MemoryFacts(dimms=dimms),
    )
    return Seen(facts=facts, policy=Policy(), measurements=read_rates(rates, flags))


def test_a_masked_guest_below_its_floor() -> None:
    finding = judge(node(MASKED, {1: 7.4, 8: 11.7}))["mem.bandwidth_low"]
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].expected == "at least 16 GB/s"
    assert "4 cores" in (finding.evidence[0].basis or "")
    assert "1.5 s a token" in finding.impact
    assert "GPUs is not affected" in finding.impact


def test_half_of_the_floor_is_critical_if_the_figure_is_steady() -> None:
    assert judge(node(MASKED, {8: 7.9}))["mem.bandwidth_low"].severity is Severity.CRITICAL
    doubtful = judge(node(MASKED, {8: 7.9}, flags=("bimodal",)))
    assert doubtful["mem.bandwidth_low"].severity is Severity.WARNING


@pytest.mark.parametrize(
    "seen",
    [
        node(MASKED, {}),
        node(MASKED, {8: 5.0}, flags=("contended",)),
        node(MASKED, {1: 7.4, 8: 16.0}),
        node(MASKED, {1: 4.1}),  # one thread is held against one core
        node(MASKED, {8: 11.7}, limits=LimitsFacts(cpu_quota=2.5)),
        node(MASKED, {8: 11.7}, limits=LimitsFacts(usable_cpus=(4, 5))),
        node(MASKED, {8: 11.7}, evidence=("CPUID 0x40000000: TCGTCGTCGTCG",)),
        node(CpuFacts(), {8: 3.0}),  # of what, is not known
        node(MILAN_VM, {1: 13.4, 2: 19.8}),
        node(MILAN_VM, {1: 30.1, 2: 34.8}),
    ],
)
def test_no_accusation(seen: Seen) -> None:
    assert judge(seen) == {}


def test_what_one_node_reads_of_another_is_not_what_all_read() -> None:
    """Figures of NUMA nodes are of a part of the CPUs, on memory that lies far away."""
    across = tuple(
        replace(each, cpu_node=0, memory_node=1) for each in read_rates({1: 3.0, 2: 3.1, 8: 3.1})
    )
    assert judge(Seen(facts=node(MASKED, {}).facts, policy=Policy(), measurements=across)) == {}


def test_the_evidence_counts_the_passes() -> None:
    seen = node(MASKED, {8: 11.7})
    passes = tuple(replace(each, passes=20) for each in seen.measurements)
    [finding] = judge(replace(seen, measurements=passes)).values()
    assert finding.evidence[0].source == "read kernel sse2, median of 20 clean passes"


def test_a_small_guest_on_a_slow_host() -> None:
    assert "mem.bandwidth_low" in judge(node(MILAN_VM, {1: 9.0, 2: 11.0}))


def test_a_big_socket_is_never_held_against_its_peak() -> None:
    genoa = cpu("AuthenticAMD", 25, 17, brand="AMD EPYC 9554", logical_cpus=16, physical_cores=8)
    assert judge(node(genoa, {1: 30.0, 16: 42.0}, guest=False)) == {}


def test_known_modules_lower_the_floor_only() -> None:
    xeon = cpu("GenuineIntel", 6, 85, brand="Xeon", logical_cpus=32, physical_cores=16)
    one = (Dimm(locator="A", channel="A", size_bytes=1, configured_mts=2400),)
    assert "mem.bandwidth_low" in judge(node(xeon, {1: 8.0, 32: 17.0}, guest=False))
    assert judge(node(xeon, {1: 8.0, 32: 17.0}, guest=False, dimms=one)) == {}


def test_the_named_model_is_what_it_costs() -> None:
    seen = node(MASKED, {8: 10.0})
    workload = from_numbers("mine", 20 * GB, layers=1, weight_type="f16", kv_bytes_per_token=1)
    named = Seen(
        facts=seen.facts, policy=seen.policy, measurements=seen.measurements, workload=workload
    )
    assert "mine" in judge(named)["mem.bandwidth_low"].impact
    assert "2.0 s a token" in judge(named)["mem.bandwidth_low"].impact


@pytest.mark.parametrize(
    ("rates", "raised"),
    [
        ({1: 21.0, 2: 33.5, 4: 37.8, 8: 38.1}, True),
        ({1: 21.0, 4: 37.0, 8: 36.0}, True),
        ({1: 21.0, 4: 37.0, 8: 41.0}, False),
        ({1: 21.0, 8: 21.5}, False),
    ],
)
def test_threads_that_add_nothing(rates: Rates, raised: bool) -> None:
    found = judge(node(CpuFacts(), rates))
    assert ("mem.bandwidth_bound" in found) is raised


def test_saturation_is_not_told_from_disturbed_figures() -> None:
    rates = {1: 21.0, 4: 37.0, 8: 36.0}
    assert judge(node(CpuFacts(), rates, flags=("contended",))) == {}


# silicon


@pytest.mark.parametrize(
    ("processor", "per_core"),
    [
        (cpu("GenuineIntel", 6, 0x55, brand="Intel(R) Xeon(R) Gold 6248"), 6),
        (cpu("GenuineIntel", 6, 0x55, brand="Intel(R) Xeon(R) Gold 6248", flags=("sse2",)), 4),
        (cpu("GenuineIntel", 6, 0x55, brand="Intel Xeon Processor (Cascadelake)"), 4),
        (cpu("GenuineIntel", 6, 0x3F, brand="Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz"), 8),
        (cpu("GenuineIntel", 6, 0x3C, brand="Intel Core Processor (Haswell)"), 4),
        (cpu("GenuineIntel", 6, 0x2D, brand="Xeon E5-2680", flags=("avx",)), 4),
        (cpu("GenuineIntel", 6, 0xB7, brand="13th Gen Intel(R) Core(TM) i9-13900K"), 10),
        (cpu("GenuineIntel", 6, 0xFFF, brand="a new one"), 4),
        (cpu("GenuineIntel", 15, 6, brand="Intel(R) Xeon(R) Gold 5120"), 4),
        (cpu("AuthenticAMD", 23, 1, brand="AMD EPYC 7571"), 8),
        (cpu("AuthenticAMD", 23, 1, brand="AMD Ryzen 7 1700"), 10),
        (cpu("AuthenticAMD", 23, 49, brand="AMD EPYC 7R32"), 12),
        (cpu("AuthenticAMD", 25, 17, brand="AMD EPYC"), 12),
        (cpu("AuthenticAMD", 25, 17, brand="AMD EPYC-Genoa Processor"), 4),
        (cpu("AuthenticAMD", 25, 33, brand="AMD Ryzen 9 5950X"), 10),
        (cpu("AuthenticAMD", 26, 2, brand="AMD EPYC 9755"), 12),
        (cpu("AuthenticAMD", 21, 2, brand="AMD Opteron 6328"), 4),
        (cpu("AuthenticAMD", 15, 107, brand="QEMU Virtual CPU version 2.5+"), 4),
        (CpuFacts(), 4),
        (CpuFacts(arch="aarch64", implementer="0x41", parts=("0xd0c",)), 10),
        (CpuFacts(arch="aarch64", implementer="0x41", parts=("0xd4f",)), 15),
        (CpuFacts(arch="aarch64", implementer="0x41", parts=("0xd46", "0xd47")), 4),
        (CpuFacts(arch="aarch64", implementer="0xc0", parts=("0xac3",)), 4),
    ],
)
def test_the_floor_of_a_core(processor: CpuFacts, per_core: int) -> None:
    assert silicon(processor).per_core == per_core * GB


@pytest.mark.parametrize(
    ("kind", "cores", "floor"),
    [
        (UNKNOWN, 1, 4),
        (UNKNOWN, 4, 16),
        (UNKNOWN, 64, 24),
        (floors._ZEN, 1, 12),
        (floors._ZEN, 8, 20),
        (floors._CLIENT, 16, 10),
        (floors._SKYLAKE, 6, 36),
    ],
)
def test_caps(kind: floors.Silicon, cores: int, floor: int) -> None:
    assert kind.floor(cores) == floor * GB


@pytest.mark.parametrize(
    ("kind", "healthy_socket"),
    [
        (floors._ZEN, 189),  # STREAM on Milan
        (floors._SKYLAKE, 99.5),  # STREAM on two sockets, halved
        (floors._HASWELL, 51),  # E5 v3, two sockets, halved
        (floors._ARM["0x41", "0xd0c"], 169.6),  # Graviton2
        (floors._ARM["0x41", "0xd4f"], 465.5),  # Graviton4
    ],
)
def test_a_healthy_socket_or_its_half_in_a_guest_is_not_accused(
    kind: floors.Silicon, healthy_socket: float
) -> None:
    assert kind.floor(64) < healthy_socket * GB / 2
