"""What is read of accelerators beyond their links: registers, windows, groups, CPUs, the IOMMU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.pcie.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, Reason
from tests.checks.gpu.inputs import device, port
from tests.checks.gpu.judging import judge, node_of
from tests.checks.pcie.inputs import CARD, ROOT
from tests.machine.config_space import ACS, ATS, RESIZABLE_BAR, acs, ats, space, windows
from tests.trees import Link, Tree

Node = Callable[[Tree], CapturedHost]
PLACE = f"sys/devices/pci0000:00/{ROOT}"
SLOT: Tree = {**port(ROOT), **device(CARD, ROOT)}
REGISTERS: Tree = {
    f"{PLACE}/config": space(port=True, target=8.0, extended={ACS: acs(0x1D)}),
    f"{PLACE}/{CARD}/config": space(
        extended={ATS: ats(enabled=True), RESIZABLE_BAR: windows((16,), (256, 32768))}
    ),
}
RESOURCE = """\
0x00000000fb000000 0x00000000fbffffff 0x0000000000040200
0x0000007000000000 0x000000700fffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000007010000000 0x0000007011ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000000000000e000 0x000000000000e07f 0x0000000000040101
0x0000000000000000 0x00000fffffffffff 0x0000000000040200
"""


def seen(host: CapturedHost) -> tuple[PcieFacts, list[Gap]]:
    reader = Reader(host, "pcie")
    return probe(reader), reader.gaps


def test_registers_of_the_card_and_its_port(node: Node) -> None:
    facts, gaps = seen(node({**SLOT, **REGISTERS}))
    (path,) = facts.paths
    card, root = path.hops
    assert (card.target_gts, card.equalised, card.acs_redirect) == (16.0, True, False)
    assert (root.target_gts, root.acs_redirect) == (8.0, True)
    assert (path.ats, path.bar_maximum_bytes) == (True, 32 << 30)
    assert not [gap for gap in gaps if gap.field == "paths.hops.target_gts"]


def test_an_ordinary_user_knows_none_of_them_and_is_told_so_once(node: Node) -> None:
    short = {path: data[:64] for path, data in REGISTERS.items() if isinstance(data, bytes)}
    facts, gaps = seen(node({**SLOT, **short}))
    (path,) = facts.paths
    assert [hop.target_gts for hop in path.hops] == [None, None]
    assert [hop.acs_redirect for hop in path.hops] == [None, None]
    assert (path.ats, path.bar_maximum_bytes) == (None, None)
    (gap,) = [gap for gap in gaps if gap.field == "paths.hops.target_gts"]
    assert gap.reason is Reason.DENIED


@pytest.mark.parametrize(
    ("now", "power"), [(("Unknown", "63"), "D0"), (("Unknown", "63"), "D3cold")]
)
def test_a_device_that_is_gone_or_asleep_is_left_alone(
    now: tuple[str, str], power: str, node: Node
) -> None:
    facts, _ = seen(node({**port(ROOT), **device(CARD, ROOT, now=now, power_state=power),
                          **REGISTERS}))  # fmt: skip
    card, root = facts.paths[0].hops
    assert card.gone is (power == "D0")
    assert card.target_gts is None
    assert root.target_gts == 8.0


def test_maxima_that_an_old_kernel_does_not_know_are_in_the_registers(node: Node) -> None:
    tree: Tree = {
        **device(CARD, most=("Unknown", "0")),
        f"sys/devices/pci0000:00/{CARD}/config": space(maximum=(64.0, 16), target=64.0),
    }
    (hop,) = seen(node(tree))[0].paths[0].hops
    assert (hop.maximum_gts, hop.maximum_width) == (64.0, 16)


def test_the_largest_memory_window(node: Node) -> None:
    tree: Tree = {**port(ROOT), **device(CARD, ROOT, resource=RESOURCE)}
    assert seen(node(tree))[0].paths[0].bar_bytes == 256 << 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x0 0x0",
        "0xe000 0xe07f 0x40101",
        "0x10 0x0 0x200",
        f"0x0 0x{'f' * 16} 0x200",
        "a b c\n" * 9,
        "\0",
    ],
)
def test_windows_that_are_none(text: str, node: Node) -> None:
    tree: Tree = {**port(ROOT), **device(CARD, ROOT, resource=text)}
    assert seen(node(tree))[0].paths[0].bar_bytes is None


@pytest.mark.parametrize(
    ("listed", "cpus"), [("0-2,8", (0, 1, 2, 8)), ("", None), ("0-99999999", None), ("x", None)]
)
def test_the_cpus_beside_a_card(listed: str, cpus: tuple[int, ...] | None, node: Node) -> None:
    tree: Tree = {**port(ROOT), **device(CARD, ROOT, local_cpulist=listed)}
    assert seen(node(tree))[0].paths[0].local_cpus == cpus


GROUP: Tree = {
    f"{PLACE}/{CARD}/iommu_group": Link("../../../../kernel/iommu_groups/14"),
    "sys/kernel/iommu_groups/14/type": "DMA-FQ\n",
}


@pytest.mark.parametrize(
    ("tree", "behind", "source", "group"),
    [
        (GROUP, True, f"{CARD} is in IOMMU group 14", 14),
        ({"sys/class/iommu/dmar0/intel-iommu/version": "1:0\n"}, True, "/sys/class/iommu", None),
        ({"sys/kernel/iommu_groups/0/type": "DMA\n"}, True, "/sys/kernel/iommu_groups", None),
        ({}, None, None, None),
    ],
)
def test_the_iommu(
    tree: Tree, behind: bool | None, source: str | None, group: int | None, node: Node
) -> None:
    facts, _ = seen(node({**SLOT, **tree}))
    assert (facts.iommu, facts.iommu_source) == (behind, source)
    assert facts.paths[0].iommu_group == group


def test_an_iommu_that_is_off_is_known_by_its_empty_folders(node: Node, tmp_path: Path) -> None:
    for folder in ("sys/kernel/iommu_groups", "sys/class/iommu"):
        (tmp_path / "node" / folder).mkdir(parents=True)
    assert seen(node(SLOT))[0].iommu is False


def test_an_lspci_tells_as_much(node: Node) -> None:
    text = (
        "00:01.0 PCI bridge: Advanced Micro Devices, Inc. [AMD] Device 1483\n"
        "\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16 (ok)\n"
        "\t\tLnkCtl2: Target Link Speed: 8GT/s, EnterCompliance- SpeedDis-\n"
        "\tCapabilities: [2a0 v1] Access Control Services\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-\n"
        "01:00.0 3D controller: NVIDIA Corporation Device 26b5\n"
        "\tIOMMU group: 14\n"
        "\tRegion 1: Memory at 7000000000 (64-bit, prefetchable) [size=256M]\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16 (ok)\n"
        "\t\tLnkCtl2: Target Link Speed: 16GT/s, EnterCompliance- SpeedDis-\n"
        "\tCapabilities: [100 v1] Address Translation Service (ATS)\n"
        "\t\tATSCtl:\tEnable-, Smallest Translation Unit: 00\n"
        "\tCapabilities: [bb0 v1] Physical Resizable BAR\n"
        "\t\tBAR 1: current size: 256MB, supported: 256MB 32GB\n"
    )
    facts, gaps = seen(node({"cmd/lspci_-vvv.txt": text}))
    (path,) = facts.paths
    assert (facts.source, facts.iommu) == ("lspci", True)
    assert [hop.target_gts for hop in path.hops] == [16.0, 8.0]
    assert [hop.acs_redirect for hop in path.hops] == [False, True]
    assert (path.ats, path.iommu_group) == (False, 14)
    assert (path.bar_bytes, path.bar_maximum_bytes) == (256 << 20, 32 << 30)
    assert not [gap for gap in gaps if gap.field == "paths.hops.target_gts"]


def test_a_sleeping_card_has_no_unknown_link(node: Node) -> None:
    tree: Tree = {**port(ROOT), **device(CARD, ROOT, now=("Unknown", "63"), most=("Unknown", "63"),
                                         power_state="D3cold")}  # fmt: skip
    found = node_of(node(tree))
    assert found.facts.pcie.paths[0].hops[0].asleep
    assert judge(found) == {}


def test_the_link_of_a_sleeping_card_is_a_gap(node: Node) -> None:
    off = device(CARD, now=("Unknown", "63"), power_state="D3cold")
    (gap,) = [gap for gap in seen(node(off))[1] if gap.field == "paths.hops"]
    assert "sleeps without power" in gap.detail


@pytest.mark.parametrize("pci_class", ["0x030000", "0x038000"])
def test_a_lost_card_of_amd_is_told(pci_class: str, node: Node) -> None:
    silent = ("Unknown", "63")
    lost = device(CARD, ROOT, ids="1002:740c", pci_class=pci_class, now=silent, most=silent)
    assert set(judge(node_of(node({**port(ROOT), **lost})))) == {"gpu.lost"}


def test_a_port_whose_registers_fail_is_one_gap(node: Node) -> None:
    tree: Tree = {**SLOT, f"{PLACE}/config/x": "", f"{PLACE}/{CARD}/config/x": ""}
    (gap,) = [gap for gap in seen(node(tree))[1] if gap.field == "paths.hops.target_gts"]
    assert (gap.reason, gap.detail) == (
        Reason.FAILED, f"/{PLACE}/{CARD}/config: not a regular file"
    )  # fmt: skip
