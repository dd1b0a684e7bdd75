"""An input for each finding on CUDA that raises it, and one that does not."""

from __future__ import annotations

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.seen import Seen
from tests.checks.cuda.nodes import address, card, copied, failed, node, pinned, way, whole
from tests.trees import Tree

_TWO = (card(0), card(1))
_BEHIND = tuple(
    way(number, f"0000:11:0{number}.0", "0000:10:00.0", "0000:00:01.0") for number in (0, 1)
)
_ALONE = (*pinned(0), *pinned(1))
_TOGETHER = (*pinned(0, 12.6, 13.0, cards=2), *pinned(1, 12.5, 13.1, cards=2))

RAISES: dict[str, Tree | Seen] = {
    "gpu.cuda_unavailable": node(
        cuda=failed(999, "CUDA_ERROR_UNKNOWN: unknown error", uvm=False), transfers=()
    ),
    "gpu.data_corrupt": node(transfers=(copied(0, "host_to_device", 25.1, intact=False),)),
    "pcie.link_slow": node(transfers=pinned(0, 11.2, 25.9)),
    "gpu.vram_slow": node(transfers=(*pinned(0), copied(0, "device_copy", 310))),
    "pcie.shared_uplink": node(_TWO, (*_ALONE, *_TOGETHER), _BEHIND),
}
SILENT: dict[str, Tree | Seen] = {
    "gpu.cuda_unavailable": node(cuda=CudaFacts(state="ok", devices=(address(0),))),
    "gpu.data_corrupt": node(transfers=whole(0)),
    "pcie.link_slow": node(transfers=whole(0)),
    "gpu.vram_slow": node(transfers=whole(0)),
    "pcie.shared_uplink": node(
        _TWO, (*_ALONE, *pinned(0, 24.8, 25.9, cards=2), *pinned(1, 24.9, 25.8, cards=2)), _BEHIND
    ),
}
