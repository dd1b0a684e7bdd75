"""What the probe makes of a tree, whole or broken."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.checks.cpu import probe as cpu_probe
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.checks.cpu import cpus
from tests.checks.cpu.cpus import KVM64, SYSFS, XEON, cpufreq, cpuinfo, topology
from tests.checks.cpu.diagnosing import cpu_facts, judge, seen
from tests.trees import Tree, plant

Plant = Callable[[Tree], CapturedHost]


def test_an_empty_tree_is_all_gaps(node: Plant) -> None:
    facts, gaps = cpu_facts(node({"proc/version": "Linux"}))
    assert facts == CpuFacts()
    fields = {gap.field for gap in gaps}
    assert {"flags", "online", "isolated", "steal_share", "logical_cpus", "clocksource"} <= fields
    assert all(gap.check == "cpu" and gap.reason is Reason.ABSENT for gap in gaps)


def test_logical_cpus_are_those_online_never_those_possible(node: Plant) -> None:
    tree = {**XEON, f"{SYSFS}/online": "0-7\n", f"{SYSFS}/possible": "0-63\n"}
    facts, _ = cpu_facts(node(tree))
    assert facts.logical_cpus == 8


def test_cores_by_sysfs(node: Plant) -> None:
    places = [(n // 4, n % 4 // 2) for n in range(8)]
    facts, _ = cpu_facts(node({"proc/cpuinfo": cpuinfo(cpus.V3, count=8), **topology(places)}))
    assert facts.physical_cores == 4


@pytest.mark.parametrize("online", ["", "x", "0-99999999999", "-1", "\0"])
def test_a_broken_list_is_unknown(node: Plant, online: str) -> None:
    facts, _ = cpu_facts(node({**XEON, f"{SYSFS}/online": online}))
    assert facts.logical_cpus == 4


def test_llc_counts_each_shared_cache_once(node: Plant) -> None:
    tree: Tree = {**XEON, f"{SYSFS}/online": "0-3\n"}
    for n in range(4):
        folder = f"{SYSFS}/cpu{n}/cache"
        shared = "0-1" if n < 2 else "2-3"
        for index, level, kind, size in ((0, 1, "Data", "32K"), (3, 3, "Unified", "32768K")):
            tree[f"{folder}/index{index}/level"] = f"{level}\n"
            tree[f"{folder}/index{index}/type"] = f"{kind}\n"
            tree[f"{folder}/index{index}/size"] = f"{size}\n"
            tree[f"{folder}/index{index}/shared_cpu_list"] = f"{shared}\n"
    facts, _ = cpu_facts(node(tree))
    assert facts.llc_bytes == 64 << 20


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        ({f"{SYSFS}/cpu{n}/cpu_capacity": "1024" if n < 2 else "446" for n in range(4)}, 2),
        ({f"{SYSFS}/cpu{n}/cpu_capacity": "1024" for n in range(4)}, 0),
        ({f"{SYSFS}/cpu{n}/cpu_capacity": "446" for n in range(3)}, 0),
        (
            {
                f"{SYSFS}/cpu{n}/cache/index2/{name}": value
                for n in range(4)
                for name, value in (("level", "2"), ("size", "2048K" if n else "1280K"))
            },
            2,
        ),
        (
            {
                f"{SYSFS}/cpu{n}/cpufreq/cpuinfo_max_freq": "5200000" if n else "3900000"
                for n in range(4)
            },
            2,
        ),
        (
            {
                f"{SYSFS}/cpu{n}/cpufreq/cpuinfo_max_freq": "5200000" if n else "5000000"
                for n in range(4)
            },
            0,
        ),
    ],
)
def test_kinds_of_cores(node: Plant, files: Tree, kinds: int) -> None:
    facts, _ = cpu_facts(node({**XEON, f"{SYSFS}/online": "0-3\n", **files}))
    assert len(facts.core_types) == kinds


def test_arm_parts_are_kinds_of_cores(node: Plant) -> None:
    text = cpus.arm("fp asimd i8mm", ("0xd46",) * 3 + ("0xd4d",) * 2 + ("0xd4e",))
    facts, _ = cpu_facts(node({"proc/cpuinfo": text}))
    assert [(kind.name, kind.cpus) for kind in facts.core_types] == [
        ("0xd46", (0, 1, 2)),
        ("0xd4d", (3, 4)),
        ("0xd4e", (5,)),
    ]


def test_frequencies_by_policy_folders(node: Plant) -> None:
    tree: Tree = {**XEON, "proc/loadavg": "8.0 1 1 1/2 3"}
    for name, text in (("scaling_cur_freq", "1400000"), ("cpuinfo_max_freq", "3600000")):
        tree[f"{SYSFS}/cpufreq/policy0/{name}"] = text
    facts, _ = cpu_facts(node(tree))
    assert (facts.current_mhz, facts.maximum_mhz) == (1400, 3600)


@pytest.mark.parametrize("text", ["0", "-5", "<unknown>", "", "99999999999999999999"])
def test_a_frequency_out_of_reason_is_unknown(node: Plant, text: str) -> None:
    tree = cpufreq(4, current=1, maximum=3_600_000)
    tree |= {f"{SYSFS}/cpu{n}/cpufreq/scaling_cur_freq": text for n in range(4)}
    facts, _ = cpu_facts(node({**XEON, **tree}))
    assert facts.current_mhz is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", ""),
        ("cpu  1 2 3\n", "cpu  1 2 3\n"),
        ("intr 5\n", "intr 9\n"),
        (cpus.stat(user=5, idle=5, steal=5), cpus.stat(user=5, idle=5, steal=5)),
        (cpus.stat(user=5, idle=5, steal=5), cpus.stat(user=1, idle=9, steal=5)),
        ("cpu  x 0 0 1 0 0 0 0 0 0\n", "cpu  y 0 0 1 0 0 0 0 0 0\n"),
        ("cpu  -1 0 0 1 0 0 0 0 0 0\n", "cpu  5 0 0 1 0 0 0 0 0 0\n"),
        (f"cpu  {10**30} 0 0 1 0 0 0 0\n", f"cpu  {10**31} 0 0 1 0 0 0 0\n"),
    ],
)
def test_shares_need_two_good_samples(node: Plant, first: str, second: str) -> None:
    facts, gaps = cpu_facts(node({**XEON, "proc/stat": first, "proc/stat.2": second}))
    assert (facts.steal_share, facts.busy_share) == (None, None)
    assert "steal_share" in {gap.field for gap in gaps}


def test_shares_of_two_samples(node: Plant) -> None:
    tree: Tree = {
        "proc/stat": cpus.stat(user=100, idle=100, steal=50),
        "proc/stat.2": cpus.stat(user=160, idle=120, steal=70),
    }
    facts, _ = cpu_facts(node({**XEON, **tree}))
    assert facts.steal_share == pytest.approx(0.2)
    assert facts.busy_share == pytest.approx(0.8)
    assert facts.sample_seconds == 10


def test_one_sample_is_no_evidence(node: Plant) -> None:
    facts, _ = cpu_facts(node({**XEON, "proc/stat": cpus.stat(user=1, idle=1, steal=10**6)}))
    assert facts.steal_share is None


def test_an_emulator_leaves_cpuinfo_to_its_host(node: Plant) -> None:
    words = [int.from_bytes(b"Common KVM processor".ljust(48, b"\0")[n : n + 4], "little")
             for n in range(0, 48, 4)]  # fmt: skip
    leaves = {
        "0.0": [13, 0x756E6547, 0x6C65746E, 0x49656E69],
        "1.0": [0xF61, 0, 1 << 31 | 1 << 13 | 1, 0x78BFBFD],
        "40000000.0": [0, 0x54474354, 0x43544743, 0x47435447],
        "80000001.0": [0, 0, 0, 1 << 29 | 1 << 11],
        "80000002.0": words[:4],
        "80000003.0": words[4:8],
        "80000004.0": words[8:],
    }
    text = cpuinfo(cpus.V3, "AMD EPYC", vendor="AuthenticAMD", ids=(25, 17, 1))
    what = seen(node({"proc/cpuinfo": text, "cpuid.json": json.dumps(leaves)}))
    cpu = what.facts.cpu
    assert (cpu.brand, cpu.cpuid_brand) == ("AMD EPYC", "Common KVM processor")
    assert (cpu.vendor, cpu.family, cpu.model) == ("GenuineIntel", 15, 6)
    assert cpu.x86_64_level == 1
    assert cpu.hypervisor == "qemu"
    found = judge(what)
    assert {"cpu.hypervisor_masked", "cpu.flags_disagree"} <= set(found)
    assert "cpu.no_avx" not in found
    assert "SIGILL" in found["cpu.hypervisor_masked"].impact
    assert "-accel kvm" in found["cpu.hypervisor_masked"].remedy.commands[0]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"1.0": [1]}', '{"1.0": ["a", 1, 2, 3]}', "\xff"])
def test_a_broken_cpuid_is_a_gap(node: Plant, text: str) -> None:
    facts, gaps = cpu_facts(node({**KVM64, "cpuid.json": text, "witness.json": text}))
    assert facts.cpuid_flags is None
    assert facts.x86_64_level == 1
    assert {"cpuid_flags", "witness"} <= {gap.field for gap in gaps}


def test_negative_registers_do_no_harm(node: Plant) -> None:
    tree = {**KVM64, "cpuid.json": '{"0.0": [-1, -1, -1, -1], "1.0": [-1, -5, -9, -3]}'}
    facts, _ = cpu_facts(node(tree))
    assert facts.arch == "x86_64"


def test_boot_options_are_kept_and_secrets_are_not(node: Plant) -> None:
    line = "root=UUID=1 luks.key=abc isolcpus=2-7 nosmt maxcpus=8 -- noxsave\n"
    facts, _ = cpu_facts(node({**XEON, "proc/cmdline": line}))
    assert facts.boot_options == ("isolcpus=2-7", "nosmt", "maxcpus=8")


def test_power_tells_its_byte_order_only_where_the_machine_does(node: Plant) -> None:
    power: Tree = {"proc/cpuinfo": "processor : 0\ncpu : POWER9, altivec supported\n"}
    facts, _ = cpu_facts(node(power))
    assert facts.arch == "ppc64"


def test_power_little_endian(node: Plant) -> None:
    tree: Tree = {
        "proc/cpuinfo": "processor : 0\ncpu : POWER9, altivec supported\n",
        "proc/sys/kernel/arch": "ppc64le\n",
    }
    facts, _ = cpu_facts(node(tree))
    assert facts.arch == "ppc64le"


def test_a_sound_node_is_not_asked_for_a_witness(node: Plant) -> None:
    facts, gaps = cpu_facts(node({**XEON, "witness.json": '{"bmi2": "executed"}'}))
    assert facts.witness is None
    assert "witness" not in {gap.field for gap in gaps}


PATHS = sorted(
    {
        "proc/cpuinfo",
        "proc/stat",
        "proc/stat.2",
        "proc/loadavg",
        "proc/cmdline",
        "cpuid.json",
        "witness.json",
        f"{SYSFS}/online",
        f"{SYSFS}/present",
        f"{SYSFS}/isolated",
        f"{SYSFS}/smt/control",
        f"{SYSFS}/cpu0/topology/core_id",
        f"{SYSFS}/cpu0/cache/index3/size",
        f"{SYSFS}/cpu0/cache/index3/type",
        f"{SYSFS}/cpu0/cpufreq/scaling_cur_freq",
        "sys/class/dmi/id/sys_vendor",
        "proc/bus/pci/devices",
        "sys/hypervisor/type",
    }
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(PATHS), st.binary(max_size=80)))
def test_nothing_in_a_tree_makes_it_raise(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    directory = tmp_path_factory.mktemp("broken")
    (directory / "proc").mkdir()
    host = plant(dict(files), directory)
    judge(seen(host))


def test_directories_where_files_should_be(node: Plant) -> None:
    host = node({f"{path}/x": "1" for path in PATHS if "/cpu0/" not in path})
    facts, _ = cpu_facts(host)
    assert facts.logical_cpus is None


class _WithoutExtension(LiveHost):
    """A live node on which the C extension cannot be loaded."""

    def cpuid(self) -> dict[str, tuple[int, int, int, int]]:
        raise RuntimeError("the C extension cannot be loaded")

    def witness(self) -> dict[str, str]:
        raise UnreadableError(Reason.UNSUPPORTED, "no witness")


def test_without_the_extension_cpuinfo_is_all_there_is() -> None:
    reader = Reader(_WithoutExtension(), "cpu")
    facts = cpu_probe.probe(reader)
    assert facts.cpuid_flags is None
    assert "cpuid_flags" in {gap.field for gap in reader.gaps}


def test_the_live_node() -> None:
    facts = cpu_probe.probe(Reader(LiveHost(), "cpu"))
    assert facts.arch is not None
    assert facts.logical_cpus is not None
    assert facts.busy_share is None or 0 <= facts.busy_share <= 1
