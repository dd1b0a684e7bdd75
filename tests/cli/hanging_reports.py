"""Collects report after report in one process; prints what the process held before and after."""

from __future__ import annotations

import json
import sys

from nodecheck.collect import collect
from nodecheck.machine import nvidia_driver
from nodecheck.machine.host import LiveHost
from nodecheck.model import Reason
from tests.processes import children, descriptors, tasks


def held() -> dict[str, int]:
    return {"descriptors": len(descriptors()), "children": len(children()), "tasks": tasks()}


def is_told_to_hang() -> bool:
    report = collect(LiveHost(), kernels="never")
    return any(gap.check == "gpu" and gap.reason is Reason.TIMEOUT for gap in report.gaps)


def main() -> None:
    nvidia_driver.BASE_SECONDS = 0.5  # a process that waits for a hang need not wait long
    is_told_to_hang()  # what is loaded once is loaded now
    before = held()
    hung = sum(is_told_to_hang() for _ in range(int(sys.argv[1])))
    sys.stdout.write(json.dumps({"hung": hung, "before": before, "after": held()}))


if __name__ == "__main__":
    main()
