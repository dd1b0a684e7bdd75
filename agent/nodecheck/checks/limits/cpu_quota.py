"""How much CPU time a process may take (CFS quota), and how often that has stopped it."""

from __future__ import annotations

from nodecheck.machine.cgroups import NO_LIMIT, Groups
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Reason, Struct

_DEFAULT_PERIOD_MICROSECONDS = 100_000


class Quota(Struct, frozen=True):
    """`cpus` is quota / period, exact; `directory` the group that sets it, `source` the file."""

    cpus: float
    directory: str
    source: str


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
    quotas = [q for d in (groups.directories if groups else ()) if (q := _quota(reader, groups, d))]
    return min(quotas, key=lambda quota: quota.cpus, default=None)


def _quota(reader: Reader, groups: Groups | None, directory: str) -> Quota | None:
    v2 = groups is not None and groups.version == "v2"
    source = f"{directory}/{'cpu.max' if v2 else 'cpu.cfs_quota_us'}"
    words = (reader.text(source, None) or "").split()
    if not v2 and words:
        words = [words[0], reader.text(f"{directory}/cpu.cfs_period_us", None) or ""]
    if not words or words[0] in ("max", "-1"):
        return None
    try:
        quota = int(words[0])
        period = int(words[1]) if len(words) > 1 else _DEFAULT_PERIOD_MICROSECONDS
    except ValueError:
        quota = period = 0
    if quota <= 0 or period <= 0:
        reader.gap("cpu_quota", Reason.FAILED, f"{source}: {' '.join(words)[:40]!r} is no quota")
        return None
    return Quota(quota / period, directory, source) if quota < NO_LIMIT else None


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
