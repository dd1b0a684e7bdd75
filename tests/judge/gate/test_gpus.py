"""A GPU counts where this node may use it for certain, and is missing where that is certain."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Gap, Reason
from tests.judge.gate.nodes import gap, node, told


def gpu(bus: int, *seen_by: str, vendor: str = "nvidia", **members: object) -> Gpu:
    card = Gpu(pci_address=f"0000:0{bus}:00.0", vendor=vendor, seen_by=seen_by or ("nvml", "pci"))
    return replace(card, **members)


CONTAINER = VirtFacts(container="docker")
OURS = tuple(gpu(bus, granted=True) for bus in (1, 2, 3))
ON_PCI = tuple(gpu(bus, "pci") for bus in (1, 2, 3))
HUNG = gap("gpu", "gpus", Reason.TIMEOUT, "3 cards known from PCI alone: no answer within 7 s")
REFUSED = gap("gpu", "gpus", Reason.FAILED, "nvidia-smi: version mismatch")
CRASHED = gap("gpu", "*", Reason.FAILED, "the gpu probe: died by SIGSEGV")
AMD_IS_NOT_ASKED = gap("gpu", "gpus", Reason.UNSUPPORTED, "clocks of 2 AMD cards")


@pytest.mark.parametrize(
    ("facts", "gaps", "answer"),
    [
        (Facts(gpus=OURS), (), ("ok", "3 GPUs >= 3", 3)),
        (Facts(gpus=OURS[:2]), (), ("critical", "2 GPUs < 3", 2)),
        (Facts(), (), ("critical", "0 GPUs < 3", 0)),
        (Facts(gpus=(*OURS, gpu(4, granted=True))), (), ("ok", "4 GPUs >= 3", 4)),
        # lost, or another guest's
        (Facts(gpus=(*OURS[:2], gpu(3, granted=True, lost=True))), (),
         ("critical", "2 GPUs < 3", 2)),
        (Facts(gpus=(*OURS[:2], gpu(3, granted=False))), (), ("critical", "2 GPUs < 3", 2)),
        # its container has no file for it
        (Facts(gpus=(*OURS[:2], gpu(3, "pci", device_file=False)), virt=CONTAINER), (),
         ("critical", "2 GPUs < 3", 2)),
        # refused by its driver, or working beside a fault of its settings
        (Facts(gpus=(*OURS[:2], gpu(3, error="Timeout"))), (), ("critical", "2 GPUs < 3", 2)),
        (Facts(gpus=(*OURS[:2], gpu(3, error="infoROM is corrupted", memory_bytes=1 << 30))), (),
         ("ok", "3 GPUs >= 3", 3)),
        (Facts(gpus=tuple(gpu(n, "pci", granted=True, vendor="amd", error="no answer")
                          for n in (1, 2, 3))), (HUNG,),
         ("unknown", f"0 GPUs of 3 sure: {HUNG.detail}", None)),
        # a file in /dev that may be opened, of a driver that does not answer
        (Facts(gpus=tuple(replace(card, granted=True) for card in ON_PCI),
               gpu=GpuFacts(state="unresponsive")), (HUNG,),
         ("unknown", f"0 GPUs of 3 sure: {HUNG.detail}", None)),
        # a driver that does not answer, and one that is not there
        (Facts(gpus=ON_PCI, gpu=GpuFacts(state="unresponsive")), (HUNG,),
         ("unknown", f"0 GPUs of 3 sure: {HUNG.detail}", None)),
        (Facts(gpu=GpuFacts(state="mismatch")), (REFUSED,),
         ("unknown", f"0 GPUs of 3 sure: {REFUSED.detail}", None)),
        (Facts(), (CRASHED,), ("unknown", f"0 GPUs of 3 sure: {CRASHED.detail}", None)),
        (Facts(gpus=ON_PCI, gpu=GpuFacts(state="missing")), (), ("critical", "0 GPUs < 3", 0)),
        (Facts(gpus=(*OURS[:2], ON_PCI[2]), gpu=GpuFacts(state="ok")), (),
         ("critical", "2 GPUs < 3", 2)),  # the driver does not list it
        # nobody asked a driver
        (Facts(gpus=ON_PCI), (),
         ("unknown", "0 GPUs of 3 sure: 3 more known from PCI alone", None)),
        (Facts(gpus=ON_PCI[:2]), (),
         ("critical", "0 GPUs and 2 known from PCI alone < 3", 0)),
        (Facts(gpus=tuple(gpu(n, "pci", granted=True, vendor="amd") for n in (1, 2, 3))),
         (AMD_IS_NOT_ASKED,), ("ok", "3 GPUs >= 3", 3)),
        (Facts(gpus=tuple(gpu(n, "pci", granted=True, vendor="amd") for n in (1, 2))),
         (AMD_IS_NOT_ASKED,), ("critical", "2 GPUs < 3", 2)),
        # a gap in what a card tells of itself is none in their number
        (Facts(gpus=OURS[:2]), (gap("gpu", "gpus.mig", Reason.FAILED),),
         ("critical", "2 GPUs < 3", 2)),
    ],
)  # fmt: skip
def test_three_gpus_are_asked_for(
    facts: Facts, gaps: tuple[Gap, ...], answer: tuple[str, str, float | None]
) -> None:
    assert told(node(facts, *gaps), gpus=3) == answer


def test_no_gpu_is_what_every_node_has() -> None:
    assert told(node(Facts(), CRASHED), gpus=0) == ("ok", "0 GPUs >= 0", 0)
