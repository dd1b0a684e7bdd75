"""PCI devices from sysfs, in all the ways in which links are kept, and from what lspci printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine import lspci, pci
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.pci_config import Config
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


VERBOSE = """\
00:01.0 PCI bridge: Intel Corporation Device 352a
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot-), MSI 00
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)
\t\tLnkCtl2: Target Link Speed: 16GT/s, EnterCompliance- SpeedDis-
\t\tLnkSta2: Current De-emphasis Level: -3.5dB, EqualizationComplete-, EqualizationPhase1+
\tCapabilities: [110 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-

01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tIOMMU group: 13
\tRegion 0: Memory at 9c042000000 (64-bit, prefetchable) [size=16M]
\tRegion 2: Memory at 98000000000 (64-bit, prefetchable) [disabled] [size=128G]
\tRegion 4: Memory at 9c044000000 (64-bit, prefetchable) [size=32M]
\tRegion 5: I/O ports at f000 [size=128]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)
\t\tLnkCtl2: Target Link Speed: 32GT/s, EnterCompliance- SpeedDis-
\t\tLnkSta2: Current De-emphasis Level: -6dB, EqualizationComplete+ EqualizationPhase1+
\tCapabilities: [250 v1] Address Translation Service (ATS)
\t\tATSCtl:\tEnable+, Smallest Translation Unit: 00
\tCapabilities: [2b0 v1] Virtual Resizable BAR
\t\tBAR 0: current size: 512GB, supported: 512GB
\tCapabilities: [bb0 v1] Physical Resizable BAR
\t\tBAR 0: current size: 16MB, supported: 16MB
\t\tBAR 2: current size: 128GB, supported: 64MB 128MB 256MB 512MB 1GB 2GB 128GB
"""


def test_lspci_tells_of_registers_and_windows(node: Node) -> None:
    found = bus(node({"cmd/lspci_-vvv.txt": VERBOSE})).devices
    gpu, root = found["0000:01:00.0"], found["0000:00:01.0"]
    assert gpu.config == Config(
        target_gts=32.0, equalised=True, acs=(), ats=True, bar_maximum_bytes=128 << 30
    )
    assert gpu.details == pci.Details(bar_bytes=128 << 30, iommu_group=13)
    assert (root.config.target_gts, root.config.equalised) == (16.0, False)
    assert (root.config.acs_redirect, root.config.ats) == (True, False)


def test_lspci_of_an_ordinary_user_tells_of_no_registers(node: Node) -> None:
    text = VERBOSE.splitlines()
    hidden = [line for line in text if "\t\t" not in line and "Capabilities" not in line]
    hidden.append("\tCapabilities: <access denied>")
    gpu = bus(node({"cmd/lspci_-vvv.txt": "\n".join(hidden)})).devices["0000:01:00.0"]
    assert gpu.config == Config()
    assert gpu.details.bar_bytes == 128 << 30


def test_where_extended_capabilities_are_cut_off_nothing_is_known_of_them(node: Node) -> None:
    cut = VERBOSE[: VERBOSE.index("\tCapabilities: [110")]
    root = bus(node({"cmd/lspci_-vvv.txt": cut})).devices["0000:00:01.0"]
    assert (root.config.acs, root.config.ats, root.config.target_gts) == (None, None, 16.0)


def test_what_one_form_of_lspci_lacks_another_tells(node: Node) -> None:
    forms: Tree = {"cmd/lspci_-vvv.txt": VERBOSE, "cmd/lspci_-vvv_-nn.txt": NUMERIC}
    gpu = bus(node(forms)).devices["0000:01:00.0"]
    assert (gpu.vendor, gpu.device) == ("10de", "2684")
    assert gpu.config.target_gts == 32.0
    assert gpu.details.iommu_group == 13


def test_what_the_registers_deny_lspci_does_not_put_back() -> None:
    told = Config(ats=True, equalised=True, target_gts=8.0)
    assert pci.completed(Config(ats=False), told) == Config(
        ats=False, equalised=True, target_gts=8.0
    )


def test_nothing_at_all(node: Node) -> None:
    found = bus(node({"proc/cpuinfo": ""}))
    assert found.source is None
    assert found.accelerators() == ()


@pytest.mark.parametrize("pci_class", ["0x030000", "0x038000"])
@pytest.mark.parametrize("ids", ["1002:740c", "8086:56c0"])
@pytest.mark.parametrize("power", ["D0", "D3cold"])
def test_a_card_that_does_not_answer_is_there_all_the_same(
    ids: str, pci_class: str, power: str, node: Node
) -> None:
    tree = device(
        A, ids=ids, pci_class=pci_class, now=("Unknown", "63"), most=("Unknown", "63"),
        power_state=power,
    )  # fmt: skip
    (card,) = bus(node(tree)).accelerators()
    assert (card.gone, card.asleep) == (power == "D0", power == "D3cold")


@pytest.mark.parametrize(("ids", "width"), [("8086:a780", "0"), ("1002:15bf", "63")])
def test_integrated_graphics_that_sleep_are_no_card(ids: str, width: str, node: Node) -> None:
    silent = ("Unknown", width)
    tree = device(
        A, ids=ids, pci_class="0x030000", now=silent, most=silent, power_state="D3cold"
    )  # fmt: skip
    assert bus(node(tree)).accelerators() == ()


@pytest.mark.parametrize(
    ("width", "status", "asleep"),
    [("63", "suspended", True), ("63", "active", False), ("16", "suspended", False)],
)
def test_old_kernels_tell_only_that_a_card_was_suspended(
    width: str, status: str, asleep: bool, node: Node
) -> None:
    tree = device(A, now=("Unknown", width))
    tree[f"sys/devices/pci0000:00/{A}/power/runtime_status"] = f"{status}\n"
    found = bus(node(tree)).devices[A]
    assert (found.asleep, found.gone) == (asleep, width == "63" and not asleep)


def test_what_lspci_calls_gone_may_sleep(node: Node) -> None:
    tree: Tree = {
        **device(A, now=("Unknown", "63"), power_state="D3cold"),
        "cmd/lspci_-vvv.txt": "01:00.0 3D controller: NVIDIA Corporation Device 26b5 (rev ff)\n"
        "\t!!! Unknown header type 7f\n",
    }
    found = bus(node(tree)).devices[A]
    assert (found.asleep, found.gone) == (True, False)


@pytest.mark.parametrize("pci_class", ["0x030200", "0x030000"])
def test_the_adapter_of_hyper_v_is_no_card(pci_class: str, node: Node) -> None:
    tree = device(A, ids="1414:008e", pci_class=pci_class, most=("Unknown", "0"))
    assert bus(node(tree)).accelerators() == ()


def test_nvswitches_are_counted(node: Node) -> None:
    def switch(address: str, vendor: str = "10de") -> Tree:
        return device(address, ids=f"{vendor}:22a3", pci_class="0x068000")

    tree = {**device(A), **switch("0000:02:00.0"), **switch("0000:03:00.0")}
    assert bus(node({**tree, **switch("0000:04:00.0", "8086")})).nvswitches == 2


def test_nvswitches_that_lspci_alone_shows_are_counted(node: Node) -> None:
    text = SWITCH.replace("Bridge: NVIDIA", "Bridge [0680]: NVIDIA")
    assert bus(node({"cmd/lspci_-vvv.txt": text})).nvswitches == 1
