"""PCI devices from sysfs, in all the ways in which links are kept, and from what lspci printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine import lspci, pci
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.checks.gpu.inputs import device, port
from tests.trees import Link, Tree

Node = Callable[[Tree], CapturedHost]
A, ROOT = "0000:01:00.0", "0000:00:01.0"


def bus(host: CapturedHost) -> pci.Bus:
    return pci.read(Reader(host, "pcie"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:0B:00.0", "0000:0b:00.0"),
        ("0000:0b:00", "0000:0b:00.0"),
        ("0b:00.1", "0000:0b:00.1"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0004:05:00.0", "0004:05:00.0"),
        ("", None),
        ("N/A", None),
        ("0000:0b:00.9", None),
    ],
)
def test_addresses_have_one_spelling(text: str, address: str | None) -> None:
    assert pci.normal_address(text) == address


@pytest.mark.parametrize(
    ("ids", "pci_class", "width", "accelerator"),
    [
        ("10de:26b5", "0x030200", "16", True),
        ("10de:2684", "0x030000", "16", True),
        ("10de:2684", "0x030000", "0", True),
        ("1002:7550", "0x030000", "16", True),
        ("1002:74a1", "0x120000", "16", True),
        ("1002:515e", "0x030000", "0", False),
        ("8086:e20b", "0x030000", "1", True),
        ("8086:a780", "0x030000", "0", False),
        ("1bcf:001c", "0x0b4000", "16", True),
        ("1a03:2000", "0x030000", "1", False),
        ("1234:1111", "0x030000", "0", False),
        ("10de:22a3", "0x068000", "16", False),
        ("10de:22ba", "0x040300", "16", False),
    ],
)
def test_what_is_an_accelerator(
    ids: str, pci_class: str, width: str, accelerator: bool, node: Node
) -> None:
    tree = device(A, ids=ids, pci_class=pci_class, most=("16.0 GT/s PCIe", width), now=("x", width))
    assert bool(bus(node(tree)).accelerators()) is accelerator


def test_a_share_of_a_card_is_no_card(node: Node) -> None:
    tree: Tree = {**device(A), **device("0000:01:00.4")}
    tree["sys/devices/pci0000:00/0000:01:00.4/physfn"] = Link("../0000:01:00.0")
    assert [d.address for d in bus(node(tree)).accelerators()] == [A]


def test_the_way_to_the_root(node: Node) -> None:
    up, down, gpu = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
    tree: Tree = {
        **port(ROOT),
        **port(up, ROOT),
        **port(down, f"{ROOT}/{up}"),
        **device(gpu, f"{ROOT}/{up}/{down}"),
    }
    found = bus(node(tree))
    assert [hop.address for hop in found.way_to_root(gpu)] == [gpu, down, up, ROOT]
    assert found.devices[gpu].maximum_gts == 16.0
    assert found.devices[gpu].numa_node is None


def test_links_that_were_kept_as_text(node: Node) -> None:
    tree: Tree = {**port(ROOT), **device(A, ROOT)}
    for address in (A, ROOT):
        link = tree[f"sys/bus/pci/devices/{address}"]
        assert isinstance(link, Link)
        tree[f"sys/bus/pci/devices/{address}"] = link.target + "\n"
    assert [hop.address for hop in bus(node(tree)).way_to_root(A)] == [A, ROOT]


@pytest.mark.parametrize("how", ["link", "text", "uevent"])
def test_the_driver(how: str, node: Node) -> None:
    place = f"sys/devices/pci0000:00/{A}"
    tree = device(A)
    if how == "link":
        tree[f"{place}/driver"] = Link("../../../bus/pci/drivers/vfio-pci")
        tree["sys/bus/pci/drivers/vfio-pci/new_id"] = ""
    elif how == "text":
        tree[f"{place}/driver"] = "../../../bus/pci/drivers/vfio-pci\n"
    else:
        tree[f"{place}/uevent"] = "DRIVER=vfio-pci\nPCI_CLASS=30200\n"
    assert bus(node(tree)).devices[A].driver == "vfio-pci"


@pytest.mark.parametrize(
    ("width", "power", "gone"), [("63", "D0", True), ("63", "D3cold", False), ("16", "D0", False)]
)
def test_all_ones_mean_gone_unless_the_card_is_off(
    width: str, power: str, gone: bool, node: Node
) -> None:
    tree = device(A, now=("Unknown", width), power_state=power)
    found = bus(node(tree)).devices[A]
    assert found.gone is gone
    assert found.current_width == (None if width == "63" else 16)


@pytest.mark.parametrize("text", ["Unknown", "0 GT/s", "", "-8 GT/s", "9" * 40 + " GT/s", "\0"])
def test_speeds_that_are_none(text: str) -> None:
    assert pci.speed_gts(text) is None


SWITCH = """\
15:01.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
\tNUMA node: 0
\tBus: primary=15, secondary=16, subordinate=1c, sec-latency=0
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)

16:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tBus: primary=16, secondary=17, subordinate=1c, sec-latency=0
\t\tLnkCap:\tPort #200, Speed 32GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)

17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tBus: primary=17, secondary=18, subordinate=18, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x4, ASPM L0s L1
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x4 (ok)

17:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tBus: primary=17, secondary=19, subordinate=19, sec-latency=0
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)

18:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x2, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x2 (ok)

19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)
\tKernel driver in use: nvidia
"""


def test_lspci_tells_of_ways_and_links(node: Node) -> None:
    found = bus(node({"cmd/lspci_-vvv.txt": SWITCH}))
    assert found.source == "lspci"
    (gpu,) = found.accelerators()
    assert (gpu.vendor, gpu.device, gpu.driver, gpu.numa_node) == ("10de", "2330", "nvidia", 1)
    assert (gpu.current_gts, gpu.current_width, gpu.maximum_gts) == (2.5, 16, 32.0)
    way = [hop.address for hop in found.way_to_root(gpu.address)]
    assert way == ["0000:19:00.0", "0000:17:01.0", "0000:16:00.0", "0000:15:01.0"]


NUMERIC = """\
0000:01:00.0 VGA compatible controller [0300]: NVIDIA AD102 [GeForce RTX 4090] [10de:2684] (rev a1)
\tSubsystem: Gigabyte Technology Co., Ltd Device [1458:40bf]
\tKernel driver in use: vfio-pci
\tKernel modules: nvidiafb, nouveau
0000:00:02.0 VGA compatible controller [0300]: Device [1234:1111] (rev 02)
"""


def test_lspci_with_numbers(node: Node) -> None:
    (gpu,) = bus(node({"cmd/lspci_-nnk.txt": NUMERIC})).accelerators()
    assert (gpu.device, gpu.subsystem, gpu.driver) == ("2684", "1458:40bf", "vfio-pci")
    assert gpu.name == "NVIDIA AD102 [GeForce RTX 4090]"


def test_lspci_fills_in_what_sysfs_lacks(node: Node) -> None:
    tree = device(A)
    for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"):
        del tree[f"sys/devices/pci0000:00/{A}/{name}"]
    tree["cmd/lspci_-vv.txt"] = SWITCH[SWITCH.index("19:00.0") :].replace("19:00.0", "01:00.0")
    found = bus(node(tree)).devices[A]
    assert (found.current_width, found.current_gts, found.device) == (16, 2.5, "26b5")


def test_a_device_that_does_not_answer(node: Node) -> None:
    text = (
        "01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)\n"
        "\t!!! Unknown header type 7f\n"
    )
    (gpu,) = bus(node({"cmd/lspci_-vvv.txt": text})).accelerators()
    assert gpu.gone


def test_bridges_that_lie_behind_each_other(node: Node) -> None:
    text = (
        "01:00.0 3D controller: NVIDIA Corporation Device 2330\n"
        "\tBus: primary=01, secondary=01, subordinate=01,\n"
        "02:00.0 PCI bridge: Intel Corporation Device 352a\n"
        "\tBus: primary=02, secondary=03, subordinate=03,\n"
        "03:00.0 PCI bridge: Intel Corporation Device 352a\n"
        "\tBus: primary=03, secondary=02, subordinate=02,\n"
    )
    found = bus(node({"cmd/lspci_-vvv.txt": text}))
    assert len(found.way_to_root("0000:02:00.0")) == 2
    assert len(found.way_to_root("0000:01:00.0")) == 1


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    list(lspci.parse(text))
    list(lspci.parse("01:00.0 3D controller: NVIDIA Corporation\n\t" + text))


def test_nothing_at_all(node: Node) -> None:
    found = bus(node({"proc/cpuinfo": ""}))
    assert found.source is None
    assert found.accelerators() == ()


AER = {
    "aer_dev_correctable": "RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4\n",
    "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0\n",
    "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 1\n",
}


@pytest.mark.parametrize(
    ("files", "counted"),
    [
        (AER, (4, 0, 1)),
        ({}, None),
        ({**AER, "aer_dev_fatal": "Undefined 0\n"}, None),
        ({**AER, "aer_dev_correctable": "TOTAL_ERR_COR -4\n"}, None),
    ],
)
def test_errors_of_a_link_are_counted_where_all_are_told(
    node: Node, files: dict[str, str], counted: tuple[int, int, int] | None
) -> None:
    host = node({**port(ROOT), **device(A, ROOT, **files)})  # type: ignore[arg-type]
    assert bus(host).devices[A].aer == counted
