"""The only importer of psutil: which process keeps the CPUs busy."""

from __future__ import annotations

import time

from nodecheck.model import Struct


class Busy(Struct, frozen=True):
    """A process and how many CPUs it used."""

    pid: int
    name: str
    cpus: float


def busiest(seconds: float) -> Busy | None:
    """The process that used most CPU time within `seconds`; None where none can be seen."""
    import psutil

    before = _cpu_seconds()
    began = time.monotonic()
    time.sleep(seconds)
    after = _cpu_seconds()
    took = time.monotonic() - began
    used = {pid: after[pid] - before[pid] for pid in after.keys() & before.keys()}
    if not used:
        return None
    pid = max(used, key=lambda each: used[each])
    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        return None
    return Busy(pid, name, used[pid] / took)


def _cpu_seconds() -> dict[int, float]:
    import psutil

    processes = psutil.process_iter(["cpu_times"])
    times = ((p.pid, p.info["cpu_times"]) for p in processes)
    return {pid: spent.user + spent.system for pid, spent in times if spent is not None}
