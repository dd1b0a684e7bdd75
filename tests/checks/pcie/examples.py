"""An input for each finding on links that raises it, and one that does not."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.checks.gpu.inputs import IDLE_4090, L40, card, csv, device, port
from tests.checks.pcie.inputs import CARD, ROOT, counted, counters
from tests.trees import Tree

_PLACE = f"{ROOT}/{CARD}"
_GEN1, _GEN4, _GEN5 = "2.5 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"

HEALTHY: Tree = {
    **port(ROOT),
    **device(CARD, ROOT),
    "cmd/nvidia-smi_--query-gpu.csv": csv([L40]),
}
_SLOW: Tree = {**port(ROOT, now=(_GEN1, "16")), **device(CARD, ROOT, now=(_GEN1, "16"))}

_BEFORE = counted(_PLACE, counters({"RxErr": 4, "NonFatalErr": 9}, {"UnsupReq": 9}))

RAISES: dict[str, Tree | Seen] = {
    "pcie.width_below_max": {
        **port(ROOT, now=(_GEN4, "8")),
        **device(CARD, ROOT, now=(_GEN4, "8")),
    },
    "pcie.aer": {
        **HEALTHY,
        **_BEFORE,
        **counted(_PLACE, counters({"RxErr": 90, "NonFatalErr": 9}, {"UnsupReq": 9}), ".2"),
    },
    "pcie.speed_below_max": {
        **_SLOW,
        "cmd/nvidia-smi_--query-gpu.csv": csv([card(L40, gen="1")]),
    },
    "pcie.idle_downshift": {
        **_SLOW,
        "cmd/nvidia-smi_--query-gpu.csv": csv([card(IDLE_4090, gen="1")]),
    },
    "pcie.host_limit": {**port(ROOT), **device(CARD, ROOT, most=(_GEN5, "16"))},
    "pcie.virtual_port": {
        **port(ROOT, ids="1b36:000c", now=(_GEN1, "1"), most=(_GEN4, "32")),
        **device(CARD, ROOT),
    },
    "pcie.unknown_link": device(CARD, now=("Unknown", "0"), most=("Unknown", "0")),
}
SILENT: dict[str, Tree | Seen] = {
    **dict.fromkeys(RAISES, HEALTHY),
    "pcie.speed_below_max": RAISES["pcie.idle_downshift"],
    "pcie.idle_downshift": RAISES["pcie.speed_below_max"],
    "pcie.width_below_max": RAISES["pcie.virtual_port"],
    "pcie.aer": {
        **HEALTHY,
        **_BEFORE,
        **{f"{path}.2": content for path, content in _BEFORE.items()},
    },
}
