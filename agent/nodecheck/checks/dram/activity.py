"""What the CPUs did between two readings of /proc/stat."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.machine.reader import Reader
from nodecheck.model import Struct

_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8


class Ticks(Struct, frozen=True):
    """Clock ticks of one CPU since boot, guest time within user time."""

    idle: int
    steal: int
    total: int


def read(reader: Reader) -> dict[int, Ticks]:
    """CPU number -> its ticks; empty where /proc/stat cannot be read."""
    ticks = {}
    for line in (reader.text("/proc/stat", None) or "").splitlines():
        name, *values = line.split()[: _FIELDS + 1] or [""]
        number = name.removeprefix("cpu")
        if name.startswith("cpu") and number.isdigit() and all(v.isdigit() for v in values):
            times = [int(value) for value in values] + [0] * (_FIELDS - len(values))
            ticks[int(number)] = Ticks(times[_IDLE] + times[_IOWAIT], times[_STEAL], sum(times))
    return ticks


def busy_share(
    before: dict[int, Ticks], after: dict[int, Ticks], cpus: Iterable[int]
) -> float | None:
    """The share of the CPUs' time that was not idle, 0 to 1; None where no time has passed."""
    spent, idle = 0, 0
    for cpu in cpus:
        if cpu in before and cpu in after:
            spent += after[cpu].total - before[cpu].total
            idle += after[cpu].idle - before[cpu].idle
    return min(1.0, max(0.0, 1 - idle / spent)) if spent > 0 else None


def steal_share(
    before: dict[int, Ticks], after: dict[int, Ticks], cpus: Iterable[int]
) -> float | None:
    """The share of the CPUs' time that the hypervisor gave to others, 0 to 1."""
    spent, steal = 0, 0
    for cpu in cpus:
        if cpu in before and cpu in after:
            spent += after[cpu].total - before[cpu].total
            steal += after[cpu].steal - before[cpu].steal
    return min(1.0, max(0.0, steal / spent)) if spent > 0 else None
