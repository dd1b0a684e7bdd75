"""Probes a planted tree as if it were live, so that NVML is asked, and prints what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from nodecheck.checks.gpu.probe import probe
from nodecheck.checks.gpu.rules import RULES
from nodecheck.checks.pcie.probe import probe as probe_pcie
from nodecheck.checks.pcie.rules import RULES as PCIE_RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.machine import nvidia_driver
from nodecheck.machine.reader import Reader
from nodecheck.policy import Policy
from tests.checks.live_tree import LiveTree


def main() -> None:
    nvidia_driver.LIMIT_SECONDS = 3.0  # a test that waits for a hang need not wait long
    host = LiveTree(Path(sys.argv[1]))
    reader = Reader(host, "gpu")
    started = time.monotonic()
    seen = probe(reader)
    elapsed = time.monotonic() - started
    pcie = probe_pcie(Reader(host, "pcie"))
    facts = Facts(gpu=seen.gpu, gpus=seen.gpus, pcie=pcie)
    everything = Seen(facts=facts, policy=Policy(), live=True)
    answer = {
        "gpu": seen.gpu,
        "gpus": seen.gpus,
        "gaps": reader.gaps,
        "findings": [f for rule in (*RULES, *PCIE_RULES) for f in rule.judge(everything)],
        "elapsed_seconds": elapsed,
        "pynvml_imported": "pynvml" in sys.modules,
    }
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
