"""Judges a planted tree as if it were live, or benches its cards, and prints the report."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from nodecheck.collect import bench, collect
from nodecheck.diagnose import diagnose
from nodecheck.machine import cuda
from nodecheck.policy import Policy
from tests.checks.live_tree import LiveTree


def main() -> None:
    cuda.STALL_SECONDS = 3.0  # a test that waits for a hang need not wait long
    host = LiveTree(Path(sys.argv[1]))
    if sys.argv[2] == "report":
        report = collect(host)
    else:
        report = bench(host, ("gpu",), max_seconds=float(sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(diagnose(report, Policy())))


if __name__ == "__main__":
    main()
