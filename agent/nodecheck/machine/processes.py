"""The only importer of psutil: which processes keep the CPUs busy, which run at all."""

from __future__ import annotations

import time

from nodecheck.model import Struct

_KERNEL_THREADS = 2
"""The process that starts the kernel's own: only the host's namespace has it."""

_NAME_LIMIT = 15
"""Of a name the kernel keeps no more."""


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


def host_runs(program: str) -> bool | None:
    """Whether a process of this name runs; None where those of the host are hidden from here."""
    import psutil

    names = {process.pid: process.info["name"] for process in psutil.process_iter(["name"])}
    if names.get(_KERNEL_THREADS) != "kthreadd":
        return None
    return any((name or "")[:_NAME_LIMIT] == program[:_NAME_LIMIT] for name in names.values())


def _cpu_seconds() -> dict[int, float]:
    import psutil

    processes = psutil.process_iter(["cpu_times"])
    times = ((p.pid, p.info["cpu_times"]) for p in processes)
    return {pid: spent.user + spent.system for pid, spent in times if spent is not None}
