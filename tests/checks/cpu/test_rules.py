"""Rules beside the instruction sets: cores, clocks, steal."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nodecheck.checks.cpu.facts import CoreType, CpuFacts
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Finding, Severity
from nodecheck.policy import Policy
from nodecheck.thresholds import Thresholds
from tests.checks.cpu import cpus
from tests.checks.cpu.cpus import SYSFS, XEON, cpufreq
from tests.checks.cpu.diagnosing import judge, seen
from tests.checks.cpu.examples import CLOCK, RAISES, SILENT
from tests.trees import Tree

Plant = Callable[[Tree], CapturedHost]


def of(cpu: CpuFacts, policy: Policy | None = None, **others: object) -> dict[str, Finding]:
    facts = msgspec.structs.replace(Facts(cpu=cpu), **others)
    return judge(Seen(facts=facts, policy=policy or Policy(), live=True))


@pytest.mark.parametrize("id_", sorted(RAISES))
def test_raised(node: Plant, id_: str) -> None:
    example = RAISES[id_]
    assert id_ in judge(example if isinstance(example, Seen) else seen(node(example)))


@pytest.mark.parametrize("id_", sorted(SILENT))
def test_silent(node: Plant, id_: str) -> None:
    example = SILENT[id_]
    assert id_ not in judge(example if isinstance(example, Seen) else seen(node(example)))


@pytest.mark.parametrize("id_", sorted(RAISES))
def test_findings_are_complete(node: Plant, id_: str) -> None:
    example = RAISES[id_]
    finding = judge(example if isinstance(example, Seen) else seen(node(example)))[id_]
    assert finding.evidence
    assert all(item.value and item.source for item in finding.evidence)
    assert finding.impact
    assert finding.remedy.text


def test_nothing_known_raises_nothing() -> None:
    assert of(CpuFacts()) == {}


def usable(count: int) -> LimitsFacts:
    return LimitsFacts(usable_cpus=tuple(range(count)))


@pytest.mark.parametrize(
    ("cpu_count", "granted", "raised"),
    [
        (8, [True] * 3, False),
        (4, [True] * 3, True),
        (4, [True, False, False], False),
        (2, [], False),
    ],
)
def test_an_engine_wants_a_core_a_gpu_and_two(
    cpu_count: int, granted: list[bool], raised: bool
) -> None:
    gpus = tuple(Gpu(index=n, granted=is_granted) for n, is_granted in enumerate(granted))
    found = of(CpuFacts(physical_cores=32), limits=usable(cpu_count), gpus=gpus)
    assert ("cpu.few_cores" in found) is raised


def test_one_finding_for_few_cores_with_both_reasons() -> None:
    found = of(
        CpuFacts(physical_cores=1, logical_cpus=2),
        limits=usable(2),
        gpus=(Gpu(index=0, granted=True),),
    )
    assert len(found["cpu.few_cores"].evidence) == 2


def test_few_cores_follows_the_policy() -> None:
    policy = Policy(thresholds=Thresholds(physical_cores_min=8))
    assert "cpu.few_cores" in of(CpuFacts(physical_cores=4), policy, limits=usable(4))


@pytest.mark.parametrize("source", ["hpet", "acpi_pm", "jiffies", "refined-jiffies"])
def test_slow_clocks(source: str) -> None:
    assert "cpu.clocksource_slow" in of(CpuFacts(clocksource=source))


def test_a_clock_that_is_slow_to_read() -> None:
    found = of(CpuFacts(clocksource="tsc", clock_gettime_seconds=1.2e-6))
    assert "1200 ns" in found["cpu.clocksource_slow"].impact


def test_an_emulator_has_no_better_clock() -> None:
    virt = VirtFacts(guest=True, hypervisor="qemu", emulated=True)
    cpu = CpuFacts(clocksource="hpet", clock_gettime_seconds=5e-6)
    assert "cpu.clocksource_slow" not in of(cpu, virt=virt)


def test_hpet_in_qemu_counts_where_kvm_shows_or_reads_are_slow(node: Plant) -> None:
    maybe = VirtFacts(guest=True, hypervisor="qemu")
    hpet = CpuFacts(clocksource="hpet", hypervisor="qemu")
    assert "cpu.clocksource_slow" not in of(hpet, virt=maybe)
    slow = CpuFacts(clocksource="hpet", clock_gettime_seconds=5e-6, hypervisor="qemu")
    assert "cpu.clocksource_slow" in of(slow, virt=maybe)
    assert "cpu.clocksource_slow" in judge(seen(node({**cpus.KVM64, CLOCK: "hpet\n"})))


def test_smt_off_is_on_purpose(node: Plant) -> None:
    tree = {f"{SYSFS}/present": "0-7\n", f"{SYSFS}/online": "0-3\n"}
    assert "cpu.offline_cpus" in judge(seen(node({**XEON, **tree})))
    forced = CpuFacts(present=(0, 1), online=(0,), smt_control="forceoff")
    assert "cpu.offline_cpus" not in of(forced)


def test_maxcpus_is_named() -> None:
    cpu = CpuFacts(present=(0, 1), online=(0,), boot_options=("maxcpus=1",))
    assert "maxcpus=1" in of(cpu)["cpu.offline_cpus"].remedy.text


def test_isolated_cpus_say_how_many_are_left() -> None:
    cpu = CpuFacts(online=(0, 1, 2, 3, 4, 6, 7), isolated=(2, 3, 4, 5, 6, 7))
    found = of(cpu)["cpu.isolated"]
    assert "only 0-1" in found.summary
    assert "8 threads" not in found.remedy.text


def test_an_idle_cpu_may_be_slow(node: Plant) -> None:
    tree = {
        **XEON,
        **cpufreq(4, current=800_000, maximum=3_600_000),
        "proc/loadavg": "1.9 0 0 1/1 1",
    }
    assert "cpu.freq_low_under_load" not in judge(seen(node(tree)))


def test_without_a_load_average_frequencies_are_not_judged() -> None:
    cpu = CpuFacts(current_mhz=800, maximum_mhz=3600, logical_cpus=4)
    assert "cpu.freq_low_under_load" not in of(cpu)


@pytest.mark.parametrize(("governor", "advised"), [("performance", False), ("schedutil", True)])
def test_a_governor_is_advised_only_where_it_is_another(governor: str, advised: bool) -> None:
    cpu = CpuFacts(
        current_mhz=1400,
        maximum_mhz=3600,
        load_1min=24,
        clocked_cpus=24,
        governors=(governor,),
    )
    remedy = of(cpu)["cpu.freq_low_under_load"].remedy
    assert any("cpupower" in command for command in remedy.commands) is advised


@pytest.mark.parametrize(
    ("driver", "severity"),
    [
        ("intel_pstate", Severity.INFO),
        ("amd-pstate-epp", Severity.INFO),
        ("acpi-cpufreq", Severity.WARNING),
        ("intel_cpufreq", Severity.WARNING),
    ],
)
def test_powersave_is_dynamic_with_two_drivers(driver: str, severity: Severity) -> None:
    cpu = CpuFacts(governors=("powersave",), scaling_driver=driver)
    assert of(cpu)["cpu.governor"].severity is severity


@pytest.mark.parametrize(("share", "raised"), [(0.099, False), (0.10, True), (None, False)])
def test_steal(share: float | None, raised: bool) -> None:
    assert ("cpu.steal" in of(CpuFacts(steal_share=share, sample_seconds=1.0))) is raised


def test_seven_packages_are_not_odd() -> None:
    assert "cpu.topology_odd" not in of(CpuFacts(sockets=7, physical_cores=7))
    assert "cpu.topology_odd" not in of(CpuFacts(sockets=8, physical_cores=64))


@pytest.mark.parametrize("arch", ["ppc64", "ppc64le", "s390x", "riscv64", "arm", "i686"])
def test_other_architectures_are_not_judged(arch: str) -> None:
    found = of(CpuFacts(arch=arch, flags=("fpu",), usable_flags=("fpu",)))
    assert set(found) == {"cpu.unsupported_arch"}


def test_flags_that_only_the_kernel_lists() -> None:
    cpu = CpuFacts(arch="x86_64", flags=("lm", "avx2", "amx_tile", "vme"), cpuid_flags=("lm",))
    evidence = of(cpu)["cpu.flags_disagree"].evidence[0].value
    assert evidence == "listed only by the kernel: avx2 amx_tile"


def test_flags_that_only_cpuid_shows_are_no_contradiction() -> None:
    cpu = CpuFacts(arch="x86_64", flags=("lm",), cpuid_flags=("lm", "avx", "avx2"))
    assert "cpu.flags_disagree" not in of(cpu)


@pytest.mark.parametrize(
    ("implementer", "names", "told"),
    [
        ("0x41", ("0xd46", "0xd4e"), "Cortex-A510 on 0, Cortex-X3 on 1"),
        ("0x41", ("0xd46", "0xfff"), "Cortex-A510 on 0, part 0xfff on 1"),
        ("0x51", ("0xd46", "0x001"), "part 0xd46 on 0, part 0x001 on 1"),
        (None, ("cpu_core", "cpu_atom"), "performance cores on 0, efficiency cores on 1"),
        (None, ("L2 1280K", "L2 2048K"), "1280K of L2 cache on 0, 2048K of L2 cache on 1"),
    ],
)
def test_kinds_of_cores_have_readable_names(
    implementer: str | None, names: tuple[str, str], told: str
) -> None:
    kinds = tuple(CoreType(name=name, cpus=(cpu,)) for cpu, name in enumerate(names))
    finding = of(CpuFacts(implementer=implementer, core_types=kinds))["cpu.hybrid"]
    assert finding.summary == f"2 kinds of cores: {told}"
    assert names[0] in finding.evidence[0].value


@pytest.mark.parametrize(
    ("online", "words"), [((0,), "2 of 3 CPUs take"), ((0, 1), "1 of 3 CPUs takes")]
)
def test_offline_cpus_are_counted_in_grammar(online: tuple[int, ...], words: str) -> None:
    finding = of(CpuFacts(present=(0, 1, 2), online=online))["cpu.offline_cpus"]
    assert finding.impact.startswith(words)
