"""How much CPU time a process may take (CFS quota), and how often that has stopped it."""

from __future__ import annotations

from nodecheck.machine.cgroups import Groups
from nodecheck.machine.cpu_quota import Quota, quotas
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Reason, Struct


class Throttling(Struct, frozen=True):
    """The counters of a group's cpu.stat since it was made."""

    periods: int
    throttled: int
    source: str

    @property
    def share(self) -> float | None:
        """Throttled periods of all that had work, None before the first."""
        return self.throttled / self.periods if self.periods else None


def smallest(reader: Reader, groups: Groups | None) -> Quota | None:
    """The tightest quota of the process's group and all its ancestors; None where none sets one."""
    return min(quotas(reader, groups, "cpu_quota"), key=lambda quota: quota.cpus, default=None)


def throttling(reader: Reader, quota: Quota | None) -> Throttling | None:
    """The counters of the group that holds the quota; None where there are none to trust."""
    if quota is None:
        return None
    source = f"{quota.directory}/cpu.stat"
    values = counters(reader.text(source, "throttled_share") or "")
    periods, throttled = values.get("nr_periods"), values.get("nr_throttled")
    if periods is None or throttled is None:
        return None
    if throttled > periods:
        reader.gap(
            "throttled_share", Reason.FAILED, f"{source}: more periods throttled than passed"
        )
        return None
    return Throttling(periods, throttled, source)


def share_since(before: Throttling, after: Throttling | None) -> float | None:
    """The share of the periods between two samples; None where none passed."""
    if after is None or after.periods <= before.periods or after.throttled < before.throttled:
        return None
    return min(1.0, (after.throttled - before.throttled) / (after.periods - before.periods))
