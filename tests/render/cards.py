"""Reports of benchmarks of cards, with figures as such nodes give them, judged."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.seen import Seen
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason, Transfer
from nodecheck.policy import Policy
from nodecheck.report import HostInfo, Report
from tests.checks.cuda.nodes import FROM, TO, card, copied, node, pinned, way, whole

GPU = ("gpu",)


def report(seen: Seen, *gaps: Gap) -> Report:
    """What `nodecheck bench gpu` shows of it."""
    return diagnose(
        Report(
            nodecheck_version="0.1.0",
            time="2026-11-30T02:11:09+00:00",
            host=HostInfo(source="live", holds=(), name="node7", kernel="6.8.0"),
            facts=seen.facts,
            transfers=seen.transfers,
            gaps=gaps,
            elapsed_seconds=21.3,
        ),
        Policy(),
    )


def _peers(number: int, rate: float, *, direct: bool) -> tuple[Transfer, ...]:
    """Each card to every other."""
    return tuple(
        copied(a, "peer_to_peer", rate + 0.1 * b, peer=card(b).pci_address, direct=direct)
        for a in range(number)
        for b in range(number)
        if a != b
    )


ONE = report(node(transfers=whole(0)))
"""A healthy L40 alone."""

_L40S = tuple(card(n) for n in range(3))

THREE = report(
    node(
        _L40S,
        (
            *(each for n in range(3) for each in whole(n)),
            *(each for n in range(3) for each in pinned(n, 24.6, 25.7, cards=3)),
            *_peers(3, 18.2, direct=False),
        ),
    )
)
"""Three L40 without NVLink, in order; copies between them go through the host."""

H200 = 8


def _h200() -> Report:
    link = (32.0, 16)
    cards = tuple(
        card(
            n,
            "NVIDIA H200",
            4800,
            memory_bytes=141 << 30,
            link_generation_max=5,
            vram_rate_source="product",
        )
        for n in range(H200)
    )
    found: list[Transfer] = []
    for n in range(H200):
        found += [
            *pinned(n, 55.3, 53.0, link=link),
            copied(n, "device_copy", 4310),
            copied(n, f"{TO}_pageable", 14.2, link=link),
            copied(n, f"{FROM}_pageable", 11.9, link=link),
            copied(n, "device_read", 4420),
        ]
    for n in range(H200):
        found += pinned(n, 28.1 + 0.2 * (n % 2), 27.2, cards=8, link=link)
    for a in range(H200):
        for b in {(a + 1) % H200, (a + 4) % H200}:
            found.append(copied(a, "peer_to_peer", 391, peer=cards[b].pci_address, direct=True))
    ways = tuple(
        way(n, f"0000:{0x11 + n // 2:02x}:0{n % 2}.0", f"0000:{0x61 + n // 2:02x}:00.0",
            f"0000:00:0{n // 2}.1", gts=32.0)
        for n in range(H200)
    )  # fmt: skip
    return report(node(cards, tuple(found), ways))


SHARED = _h200()
"""Eight H200, two behind each uplink."""

SLOW = report(
    node(
        _L40S[:2],
        (
            *pinned(0, 11.2, 25.9, replays=412),
            copied(0, "device_copy", 310),
            *whole(1),
            *pinned(0, 11.1, 25.2, cards=2),
            *pinned(1, 24.7, 25.8, cards=2),
        ),
    )
)
"""A link that loses packets and memory that is slow, on one card of two."""

BUSY = report(
    node(
        (_L40S[0], card(1, utilisation_share=0.98), _L40S[2]),
        (*whole(0), *(replace(each, flags=("busy", "unsteady")) for each in whole(2))),
    ),
    Gap(
        check="cuda",
        field="transfers",
        reason=Reason.DENIED,
        detail="GPU 1 (NVIDIA L40, 0000:27:00.0): it is busy (98 %); --force measures it all "
        "the same",
    ),
)
"""Measured by force beside other programs."""

_HIDDEN = Path(
    accelerator=card(0).pci_address or "",
    hops=(
        Hop(address="0000:17:00.0", current_gts=16.0, current_width=16),
        Hop(address="0000:00:1c.0", vendor="1b36", emulated=True),
    ),
)
GUEST = report(node(transfers=whole(0), paths=(_HIDDEN,)))
"""A card behind an emulated port."""

UNKNOWN = report(
    node(
        (card(0, link_generation=None, link_width=None),),
        whole(0, link=(None, None)),
        paths=(),
    )
)
"""A card whose link nobody tells."""

ACS = report(
    replace(
        node(_L40S[:2], (*whole(0), *whole(1), *_peers(2, 9.8, direct=True))),
        facts=replace(
            node(_L40S[:2]).facts,
            pcie=PcieFacts(
                source="sysfs",
                iommu=True,
                paths=tuple(
                    replace(p, hops=(p.hops[0], replace(p.hops[1], acs_redirect=True)))
                    for p in (way(0), way(1))
                ),
            ),
        ),
    )
)
"""Ports that send traffic between cards round by the root."""

NONE = report(
    node(cuda=CudaFacts(state="ok", skipped="no card is free to be measured")),
    Gap(
        check="cuda",
        field="transfers",
        reason=Reason.DENIED,
        detail="GPU 0 (NVIDIA L40, 0000:17:00.0): it is busy (98 %); --force measures it all "
        "the same",
    ),
)
"""Nothing was free."""

INTERRUPTED = report(
    node(
        _L40S,
        whole(0),
        cuda=CudaFacts(state="ok", warnings=("interrupted after 3.2 s",), interrupted=True),
    )
)

DEAD = report(
    node(
        cuda=CudaFacts(
            state="failed",
            error=802,
            call="cuInit",
            message="CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
            skipped="CUDA does not start: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
        )
    )
)
"""The driver answers, CUDA does not."""

REPORTS = {
    "one": ONE,
    "three": THREE,
    "shared": SHARED,
    "slow": SLOW,
    "busy": BUSY,
    "guest": GUEST,
    "unknown": UNKNOWN,
    "acs": ACS,
    "none": NONE,
    "interrupted": INTERRUPTED,
    "dead": DEAD,
}
