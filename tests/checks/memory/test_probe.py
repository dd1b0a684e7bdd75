"""RAM is read from what the kernel says, and what cannot be true is not believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.memory.facts import MemoryController, MemoryFacts
from nodecheck.checks.memory.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Gap, Reason
from tests.checks.live_tree import live_tree, while_sleeping
from tests.checks.memory.examples import GIB, HEALTHY, meminfo, vmstat
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
MODULE = "nodecheck.checks.memory.probe"


def read(host: CapturedHost) -> MemoryFacts:
    return probe(Reader(host, "memory"))


def test_a_healthy_node(node: Node) -> None:
    facts = read(node(HEALTHY))
    assert facts.total_bytes == 64 * GIB
    assert facts.available_bytes == 48 * GIB
    assert facts.swap_total_bytes == facts.swap_free_bytes == 8 * GIB
    assert (facts.hugepages_total, facts.hugepages_idle_bytes) == (0, 0)
    assert facts.thp == "madvise"
    assert facts.free_order9_blocks == 211
    assert facts.full_stall_avg10 == 0.0
    assert (facts.major_faults_now, facts.file_refaults_now) == (1, 0)
    assert facts.sample_seconds == 10.0
    assert facts.controllers == (MemoryController(name="mc0", correctable=0, uncorrectable=0),)
    assert len(facts.dimms) == 2


def test_nothing_there(node: Node) -> None:
    reader = Reader(node({"proc/version": ""}), "memory")
    assert probe(reader) == MemoryFacts()
    assert {"total_bytes", "controllers", "dimms"} <= {gap.field for gap in reader.gaps}


@pytest.mark.parametrize(
    "content",
    [
        "",
        b"\xff\xfe\x00MemTotal: 1 kB",
        "MemTotal:\n",
        "MemTotal: -5 kB\n",
        "MemTotal: 0 kB\n",
        "MemTotal: 99999999999999999999999 kB\n",
        "MemTotal: many kB\n",
    ],
)
def test_a_total_that_cannot_be_believed(node: Node, content: str | bytes) -> None:
    reader = Reader(node({"proc/meminfo": content}), "memory")
    assert probe(reader).total_bytes is None
    assert "total_bytes" in {gap.field for gap in reader.gaps}


def test_more_available_than_there_is_is_a_lie(node: Node) -> None:
    reader = Reader(node({"proc/meminfo": meminfo(MemAvailable=65 << 20)}), "memory")
    facts = probe(reader)
    assert (facts.total_bytes, facts.available_bytes) == (64 * GIB, None)


def test_huge_pages_of_other_sizes_count_too(node: Node) -> None:
    pool = "sys/kernel/mm/hugepages/hugepages-1048576kB"
    tree: Tree = {
        "proc/meminfo": meminfo(HugePages_Total=10, HugePages_Free=10, HugePages_Rsvd=4),
        f"{pool}/free_hugepages": "16\n",
        f"{pool}/resv_hugepages": "0\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "10\n",
    }
    assert read(node(tree)).hugepages_idle_bytes == 16 * GIB + 6 * (2 << 20)


@pytest.mark.parametrize(
    "pages",
    [
        {"HugePages_Total": 1, "HugePages_Free": 2},  # more free than there are
        {"HugePages_Total": 10**9, "HugePages_Free": 10**9},  # more than MemTotal
    ],
)
def test_a_pool_that_cannot_be(node: Node, pages: dict[str, int]) -> None:
    assert read(node({"proc/meminfo": meminfo(**pages)})).hugepages_idle_bytes is None


@pytest.mark.parametrize(
    "content",
    ["", "Node 0, zone Normal 1 2 3\n", "Node 0, zone Normal 1 2 3 4 5 6 7 8 9 x\n", b"\xff\xff"],
)
def test_a_cut_off_buddyinfo_is_not_no_block(node: Node, content: str | bytes) -> None:
    assert read(node({"proc/buddyinfo": content})).free_order9_blocks is None


@pytest.mark.parametrize(
    "content", ["", "full avg10=x avg60=1.00", "full avg10=999.00 avg60=0 total=1\n", b"\x00\x01"]
)
def test_pressure_that_cannot_be_read(node: Node, content: str | bytes) -> None:
    assert read(node({"proc/pressure/memory": content})).full_stall_avg10 is None


def test_a_kernel_that_does_not_split_refaults(node: Node) -> None:
    tree: Tree = {
        "proc/vmstat": "pgmajfault 1\nworkingset_refault 5\n",
        "proc/vmstat.2": "pgmajfault 4\nworkingset_refault 25\n",
    }
    facts = read(node(tree))
    assert (facts.major_faults_now, facts.file_refaults_now) == (3, 20)


def test_counters_that_run_backwards_tell_nothing(node: Node) -> None:
    facts = read(node(HEALTHY | {"proc/vmstat.2": vmstat(pgmajfault=3)}))
    assert facts.major_faults_now is None


def test_a_live_node_at_ease_is_sampled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = while_sleeping(monkeypatch, MODULE, tmp_path, {})
    facts = read(live_tree(HEALTHY, tmp_path))
    assert slept == []
    assert facts.sample_seconds is None


@pytest.mark.parametrize(
    "sign",
    [
        {"proc/pressure/memory": "some avg10=3.00 x\nfull avg10=1.00 x\n"},
        {"proc/meminfo": meminfo(SwapFree=1 << 20), "proc/vmstat": vmstat(pswpin=5)},
    ],
)
def test_a_live_node_in_need_is_sampled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: Tree
) -> None:
    later: Tree = {"proc/vmstat": vmstat(pgmajfault=600, workingset_refault_file=70, pswpin=7)}
    slept = while_sleeping(monkeypatch, MODULE, tmp_path, later)
    facts = read(live_tree(HEALTHY | sign, tmp_path))
    assert len(slept) == 1
    assert facts.file_refaults_now == 70
    assert facts.sample_seconds is not None


def test_controllers_name_their_failing_modules(node: Node) -> None:
    mc = "sys/devices/system/edac/mc"
    tree: Tree = {
        f"{mc}/mc1/ce_count": "12\n",
        f"{mc}/mc1/ue_count": "0\n",
        f"{mc}/mc1/dimm0/dimm_ce_count": "0\n",
        f"{mc}/mc1/dimm0/dimm_label": "A1\n",
        f"{mc}/mc1/dimm3/dimm_ce_count": "12\n",
        f"{mc}/mc1/dimm3/dimm_label": "B2\n",
        f"{mc}/mc2/ce_count": "not a number\n",
        f"{mc}/mc3/ce_count": "-4\n",
        f"{mc}/power/control": "auto\n",
    }
    reader = Reader(node(tree), "memory")
    assert probe(reader).controllers == (
        MemoryController(name="mc1", correctable=12, uncorrectable=0, dimms=("B2",)),
        MemoryController(name="mc3", correctable=0, uncorrectable=0),
    )
    assert any("mc2" in gap.detail for gap in reader.gaps)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("/sys/firmware/dmi/tables/smbios_entry_point: Permission denied\n", Reason.DENIED),
        ("/dev/mem: No such file or directory\n", Reason.UNSUPPORTED),
        ("# dmidecode 3.4\n# No SMBIOS nor DMI entry point found, sorry.\n", Reason.UNSUPPORTED),
        ("", Reason.UNSUPPORTED),
    ],
)
def test_why_the_slots_are_not_known(node: Node, output: str, reason: Reason) -> None:
    reader = Reader(node({"cmd/dmidecode_-t_17.txt": output}), "memory")
    assert probe(reader).dimms == ()
    gap = next(gap for gap in reader.gaps if gap.field == "dimms")
    assert gap.reason is reason
    assert reason is not Reason.DENIED or "sudo dmidecode -t 17" in gap.detail


@given(st.text())
def test_counters_take_any_text(text: str) -> None:
    assert all(value >= 0 for value in counters(text).values())


def test_without_edac_the_gap_says_so(node: Node) -> None:
    trees: tuple[Tree, ...] = (
        {"proc/version": ""},
        {"sys/devices/system/edac/mc/power/control": "auto"},
    )
    for tree in trees:
        reader = Reader(node(tree), "memory")
        probe(reader)
        (gap,) = [gap for gap in reader.gaps if gap.field == "controllers"]
        assert gap.reason is Reason.ABSENT
        assert gap.detail.startswith("the kernel shows no memory controller (EDAC)")


def test_a_missing_dmidecode_is_told_with_its_package(tmp_path: Path) -> None:
    reader = Reader(live_tree({"proc/version": ""}, tmp_path), "memory")
    probe(reader)
    assert "install the package dmidecode" in dimm_gap(reader).detail


def test_a_refused_dmidecode_is_told_with_sudo(node: Node) -> None:
    reader = Reader(node({"cmd/dmidecode_-t_17.txt": "/dev/mem: Permission denied"}), "memory")
    probe(reader)
    assert dimm_gap(reader).reason is Reason.DENIED
    assert dimm_gap(reader).detail.endswith("run: sudo dmidecode -t 17")


def dimm_gap(reader: Reader) -> Gap:
    (gap,) = [gap for gap in reader.gaps if gap.field == "dimms"]
    return gap
