"""nodecheck in a control group: what it says, and what it took."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nodecheck.report import Report, from_json
from tests.control_groups import Group

MIB = 1 << 20
MEMORY_SHARE_MAX = 0.25
OTHER_BYTES = 32 * MIB
"""What interpreters, page tables and threads take beside what is measured on."""

CACHES = "/sys/devices/system/cpu/cpu*/cache/index*/size"
BIND = f'for size in {CACHES}; do mount --bind "$0" "$size"; done; exec "$@"'


@dataclass(frozen=True)
class Limited:
    """One run: its report, and what the kernel counted in its group meanwhile."""

    report: Report
    most_bytes: int
    killed: int
    throttled: int

    @property
    def why_not(self) -> list[str]:
        """What could not be measured, and why."""
        return [gap.detail or "" for gap in self.report.gaps if gap.check == "dram"]

    def keeps_within(self, limit_bytes: int) -> None:
        """It took a quarter of what was left at most, was not killed, and said something."""
        left = self.report.facts.limits.memory_headroom_bytes
        assert left is not None
        assert self.killed == 0
        taken = self.most_bytes - (limit_bytes - left)
        assert taken <= MEMORY_SHARE_MAX * left + OTHER_BYTES
        assert self.report.measurements or self.why_not

    def is_not_to_be_trusted(self) -> None:
        """The quota stopped it, and each figure says that other work ran meanwhile."""
        assert self.throttled > 0
        assert self.report.measurements or self.why_not
        assert all("contended" in each.flags for each in self.report.measurements)
        assert all("contended" in each.flags for each in self.report.latencies)
        assert {each.threads for each in self.report.measurements} <= {1}


def run_in(group: Group, *arguments: str, cache_size: Path | None = None) -> Limited:
    """nodecheck with these arguments; `cache_size` takes the place of what caches' sizes say.

    Beside large caches a small limit leaves nothing to measure on.
    """
    words = [sys.executable, "-m", "nodecheck", *arguments]
    if cache_size:
        words = ["unshare", "--mount", "sh", "-ec", BIND, str(cache_size), *words]
    done = subprocess.run(group.command(*words), capture_output=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    assert b"fault" not in done.stderr
    report = from_json(done.stdout, " ".join(arguments))
    return Limited(report, group.most_bytes, group.killed, group.throttled)
