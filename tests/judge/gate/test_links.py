"""A link is judged by what it can do, not by what an idle card leaves of it; fiction counts not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Reason
from nodecheck.report import Report
from tests.judge.gate.nodes import answers, gap, node

CARD = "0000:01:00.0"
PORT = "0000:00:01.0"
GEN1, GEN3, GEN4, GEN5 = 2.5, 8.0, 16.0, 32.0
GUEST = VirtFacts(guest=True)


def gpu(address: str = CARD, **members: Any) -> Gpu:
    return Gpu(pci_address=address, granted=True, seen_by=("nvml",), **members)


def hop(
    now: float | None, most: float | None, width: int | None = 16, *, emulated: bool = False
) -> Hop:
    return Hop(
        address=PORT if emulated else CARD, current_gts=now, maximum_gts=most,
        current_width=width, maximum_width=16, emulated=emulated, link_files=True,
    )  # fmt: skip


def bare(now: float | None, device: float | None, port: float | None, width: int = 16) -> Report:
    """A card on bare metal."""
    card, up = hop(now, device, width), replace(hop(now, port, width), address=PORT)
    path = Path(accelerator=CARD, hops=(card, up))
    return node(Facts(gpus=(gpu(),), pcie=PcieFacts(paths=(path,))))


def guest(now: float, device: float, **members: Any) -> Report:
    """A card behind a port of the hypervisor's that claims Gen1 x1 at best."""
    port = hop(GEN1, GEN1, 1, emulated=True)
    path = Path(accelerator=CARD, hops=(hop(now, device), port))
    facts = Facts(gpus=(gpu(**members),), pcie=PcieFacts(paths=(path,)), virt=GUEST)
    return node(facts)


def asked(report: Report, link: str = "gen4x16") -> dict[str, tuple[str, float | None]]:
    return {each.name: (each.status.value, each.value) for each in answers(report, pcie=link)}


def texts(report: Report) -> list[str]:
    return [each.text for each in answers(report, pcie="gen4x16")]


@pytest.mark.parametrize(
    ("report", "generation"),
    [
        (bare(GEN4, GEN4, GEN4), ("ok", 4)),
        (bare(GEN1, GEN4, GEN4), ("ok", 4)),  # idle
        (bare(GEN1, GEN5, GEN5), ("ok", 5)),
        (bare(GEN4, GEN5, GEN4), ("ok", 4)),
        (bare(GEN3, GEN5, GEN3), ("critical", 3)),  # an older slot
        (bare(GEN3, GEN3, GEN5), ("critical", 3)),  # an older card
        (bare(GEN1, GEN4, None), ("unknown", None)),  # half of a link
        (bare(GEN4, None, None), ("ok", 4)),  # it runs so
        (guest(GEN4, GEN4), ("ok", 4)),
        (guest(GEN1, GEN4), ("unknown", None)),
        (guest(GEN1, GEN4, link_generation_max=4), ("unknown", None)),  # of the emulated port
        (guest(GEN1, GEN4, link_generation_max=1), ("unknown", None)),
        (guest(GEN1, GEN3), ("critical", 3)),
        (guest(GEN1, GEN4, utilisation_share=0.98, performance_state=0), ("critical", 1)),
        (guest(GEN1, GEN4, utilisation_share=0.98, performance_state=8), ("unknown", None)),
    ],
)
def test_the_generation_is_the_one_that_both_ends_can_train_to(
    report: Report, generation: tuple[str, float | None]
) -> None:
    found = asked(report)
    assert found == {"pcie_generation": generation, "pcie_width": ("ok", 16)}


@pytest.mark.parametrize(
    ("card", "guest", "generation"),
    [
        ({"link_generation": 1, "link_generation_max": 4}, None, ("ok", 4)),
        ({"link_generation": 1, "link_generation_max": 3}, None, ("critical", 3)),
        ({"link_generation": 1, "link_generation_device_max": 4, "link_generation_host_max": 4},
         None, ("ok", 4)),
        ({"link_generation": 1, "link_generation_device_max": 4, "link_generation_host_max": 3},
         None, ("critical", 3)),
        ({"link_generation": 1, "link_generation_max": 4}, True, ("unknown", None)),
        ({"link_generation": 1, "link_generation_max": 4, "virtualisation": "Pass-Through"},
         None, ("unknown", None)),
        ({"link_generation": 4, "virtualisation": "Pass-Through"}, True, ("ok", 4)),
        ({}, None, ("unknown", None)),
    ],
)  # fmt: skip
def test_without_pci_the_driver_is_believed_where_it_sees_the_slot(
    card: dict[str, Any], guest: bool | None, generation: tuple[str, float | None]
) -> None:
    facts = Facts(gpus=(gpu(link_width=16, **card),), virt=VirtFacts(guest=guest))
    assert asked(node(facts))["pcie_generation"] == generation


@pytest.mark.parametrize(
    ("width", "answer"), [(16, ("ok", 16)), (8, ("critical", 8)), (None, ("unknown", None))]
)
def test_the_width_is_the_one_in_use(width: int | None, answer: tuple[str, float | None]) -> None:
    card = gpu(link_generation=4, link_generation_max=4, link_width=width)
    assert asked(node(Facts(gpus=(card,))))["pcie_width"] == answer


def test_every_usable_gpu_counts_and_the_worst_is_told() -> None:
    good = gpu(link_generation=4, link_width=16)
    narrow = gpu("0000:02:00.0", link_generation=4, link_width=4)
    lost = gpu("0000:03:00.0", lost=True)
    foreign = replace(gpu("0000:04:00.0", link_generation=1, link_width=1), granted=False)
    assert texts(node(Facts(gpus=(good, narrow, lost, foreign)))) == [
        "PCIe gen4",
        "PCIe x4 < x16: 0000:02:00.0",
    ]
    assert texts(node(Facts(gpus=(good, lost, foreign)))) == ["PCIe gen4", "PCIe x16"]


def test_a_switch_on_the_way_counts() -> None:
    hops = (
        hop(GEN4, GEN4),
        replace(hop(GEN4, GEN4), address="0000:02:00.0"),
        replace(hop(GEN4, GEN4, 8), address="0000:01:00.0"),
        replace(hop(GEN4, GEN4, 8), address=PORT),
    )
    facts = Facts(gpus=(gpu(),), pcie=PcieFacts(paths=(Path(accelerator=CARD, hops=hops),)))
    assert asked(node(facts))["pcie_width"] == ("critical", 8)


@pytest.mark.parametrize(
    ("report", "status", "text"),
    [
        (node(Facts()), "critical", "PCIe: no GPU that may be used"),
        (node(Facts(gpus=(gpu(lost=True),))), "critical", "PCIe: no GPU that may be used"),
        (node(Facts(), gap("gpu", "gpus", Reason.TIMEOUT, "NVML hangs")), "unknown",
         "PCIe: NVML hangs"),
        (node(Facts(gpus=(gpu(chip_to_chip=True, link_generation=1, link_width=1),))), "ok",
         "PCIe not used: the GPU is beside the CPU"),
    ],
)  # fmt: skip
def test_without_a_link_there_are_two_answers_all_the_same(
    report: Report, status: str, text: str
) -> None:
    found = answers(report, pcie="gen4x16")
    assert [(each.status.value, each.text) for each in found] == [(status, text)] * 2
    assert [each.critical_below for each in found] == [4, 16]


def test_a_gpu_whose_link_is_not_seen_is_not_known() -> None:
    gone = Path(accelerator=CARD, hops=(replace(hop(GEN4, GEN4), gone=True),))
    found = answers(node(Facts(gpus=(gpu(),), pcie=PcieFacts(paths=(gone,)))), pcie="gen4x16")
    assert [each.text for each in found] == [
        f"PCIe gen4 not known: {CARD} not seen",
        f"PCIe x16 not known: {CARD} not seen",
    ]
    assert [each.value for each in found] == [None, None]
