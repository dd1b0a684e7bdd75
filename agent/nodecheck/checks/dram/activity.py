"""What the CPUs did between two readings of /proc/stat and /proc/pressure/cpu."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from nodecheck.machine.reader import Reader
from nodecheck.model import Struct

_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8
_WAITED = re.compile(r"^some .*total=(\d{1,18})$", re.MULTILINE)


class Ticks(Struct, frozen=True):
    """Clock ticks of one CPU since boot, guest time within user time."""

    idle: int
    steal: int
    total: int


class Activity(Struct, frozen=True):
    """CPU number -> its ticks, empty where /proc/stat cannot be read; and when this was read.

    `waited_seconds` are those since boot in which some task waited for a CPU; None without PSI.
    """

    cpus: dict[int, Ticks]
    waited_seconds: float | None
    at: float


def read(reader: Reader) -> Activity:
    """What the counters stand at now."""
    ticks = {}
    for line in (reader.text("/proc/stat", None) or "").splitlines():
        name, *values = line.split()[: _FIELDS + 1] or [""]
        number = name.removeprefix("cpu")
        if name.startswith("cpu") and number.isdigit() and all(v.isdigit() for v in values):
            times = [int(value) for value in values] + [0] * (_FIELDS - len(values))
            ticks[int(number)] = Ticks(times[_IDLE] + times[_IOWAIT], times[_STEAL], sum(times))
    waited = _WAITED.search(reader.text("/proc/pressure/cpu", None) or "")
    return Activity(ticks, int(waited[1]) / 1e6 if waited else None, time.monotonic())


def busy_share(before: Activity, after: Activity, cpus: Iterable[int]) -> float | None:
    """The share of the CPUs' time that was not idle, 0 to 1; None where no time has passed."""
    spent, idle = 0, 0
    for cpu in cpus:
        if cpu in before.cpus and cpu in after.cpus:
            spent += after.cpus[cpu].total - before.cpus[cpu].total
            idle += after.cpus[cpu].idle - before.cpus[cpu].idle
    return min(1.0, max(0.0, 1 - idle / spent)) if spent > 0 else None


def steal_share(before: Activity, after: Activity) -> float | None:
    """The share of all CPUs' time that the hypervisor gave to others, 0 to 1."""
    spent, steal = 0, 0
    for cpu in before.cpus.keys() & after.cpus.keys():
        spent += after.cpus[cpu].total - before.cpus[cpu].total
        steal += after.cpus[cpu].steal - before.cpus[cpu].steal
    return min(1.0, max(0.0, steal / spent)) if spent > 0 else None


def pressure_share(before: Activity, after: Activity) -> float | None:
    """The share of the time in which some task waited for a CPU, 0 to 1."""
    if before.waited_seconds is None or after.waited_seconds is None or after.at <= before.at:
        return None
    waited = after.waited_seconds - before.waited_seconds
    return min(1.0, max(0.0, waited / (after.at - before.at)))
